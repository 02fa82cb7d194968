/* Measured: tokenizers read 4.5 MB/s (Llama 3, Qwen), 1.7 (GPT-4o) down to 0.7 (DeepSeek LLM, which goes through
 * std::regex). The slowest has a quarter of the time that is given by the byte: a prompt of 128k tokens is half a
 * megabyte, takes it 0.7 s, and gets 3. Schemas and templates that people write take milliseconds. */
#include "engine/prepare/budget.h"

#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "base/file.h"

enum {
    BASE_MS = 1000,
    BYTES_PER_MS = 250, /* of body, beyond that */
    MOST_MS = 30000,
    TRY_MS = 2000, /* a template, before any request */
    PIXELS_PER_MS = 10000,
    SLOW_MS = 100, /* from here on others come first: at a third of their weight */
    SLOW_NICE = 5,
    BASE_BYTES = 512 << 20,
    PER_BYTE = 32,
    PER_PIXEL = 8,
    WORN_BYTES = 64 << 20,
};

static struct {
    atomic_int *stage;
    timer_t end, slow;
    uint64_t data_bytes; /* at the beginning */
    uint64_t limit_bytes;
    volatile sig_atomic_t was_slow;
} budget;

uint32_t vr_budget_ms(size_t n)
{
    if (n == 0) return TRY_MS;
    uint64_t ms = BASE_MS + n / BYTES_PER_MS;
    return ms > MOST_MS ? MOST_MS : (uint32_t)ms;
}

static void on_slow(int sig)
{
    (void)sig;
    budget.was_slow = 1;
    setpriority(PRIO_PROCESS, 0, SLOW_NICE); /* this thread, which does the work */
}

/* Pages that only this process can write, as RLIMIT_DATA counts them. */
static uint64_t data_bytes(void)
{
    VR_AUTO_BUF text = { 0 };
    struct vr_err err;
    uint64_t pages = 0;
    if (!vr_file_read("/proc/self/statm", 256, &text, &err)) return 0;
    if (sscanf(vr_buf_str(&text), "%*u %*u %*u %*u %*u %" SCNu64, &pages) != 1) return 0;
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

bool vr_budget_open(atomic_int *stage, struct vr_err *err)
{
    struct sigevent ends = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = VR_BUDGET_SIGNAL };
    struct sigevent slow = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGVTALRM };
    budget.stage = stage;
    budget.data_bytes = data_bytes();
    signal(VR_BUDGET_SIGNAL, SIG_DFL);
    signal(SIGVTALRM, on_slow);
    if (timer_create(CLOCK_PROCESS_CPUTIME_ID, &ends, &budget.end) != 0 ||
        timer_create(CLOCK_PROCESS_CPUTIME_ID, &slow, &budget.slow) != 0 || budget.data_bytes == 0)
        return vr_fail(err, VR_EIO, "processor time and memory cannot be limited");
    return true;
}

static void set_timer(timer_t timer, uint64_t ms)
{
    struct itimerspec t = { .it_value = { .tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000 } };
    timer_settime(timer, 0, &t, NULL);
}

static void set_memory(uint64_t more)
{
    struct rlimit r;
    budget.limit_bytes = more;
    if (getrlimit(RLIMIT_DATA, &r) != 0) return;
    r.rlim_cur = budget.data_bytes + more < r.rlim_max ? budget.data_bytes + more : r.rlim_max;
    setrlimit(RLIMIT_DATA, &r);
}

void vr_budget_begin(size_t n)
{
    set_memory((uint64_t)BASE_BYTES + (uint64_t)n * PER_BYTE);
    set_timer(budget.end, vr_budget_ms(n));
    set_timer(budget.slow, n ? SLOW_MS : 0); /* for a template all wait */
}

void vr_budget_end(void)
{
    set_timer(budget.end, 0);
    set_timer(budget.slow, 0);
}

void vr_budget_stage(enum vr_prepare_stage stage)
{
    if (budget.stage) atomic_store_explicit(budget.stage, (int)stage, memory_order_relaxed);
}

void vr_budget_add_pixels(uint64_t n)
{
    struct itimerspec left = { 0 };
    if (!budget.stage) return; /* without a worker there is no limit */
    timer_gettime(budget.end, &left);
    set_timer(budget.end, (uint64_t)left.it_value.tv_sec * 1000 + (uint64_t)left.it_value.tv_nsec / 1000000 +
                              n / PIXELS_PER_MS + 1);
    set_memory(budget.limit_bytes + n * PER_PIXEL);
}

bool vr_budget_is_worn(void) { return budget.was_slow || data_bytes() > budget.data_bytes + WORN_BYTES; }

/* --- refusing --- */

static const struct {
    const char *param, *words;
} stages[VR_N_STAGES] = {
#define STAGE(name, param, words) [VR_STAGE_##name] = { param, words },
#include "engine/prepare/stage.def"
#undef STAGE
};

static const char *param_of(int stage) { return stages[stage].param[0] ? stages[stage].param : NULL; }

void vr_budget_explain(struct vr_refusal *why)
{
    if (why->status != 503 || !budget.stage) return;
    int stage = atomic_load(budget.stage);
    vr_refuse(why, param_of(stage), "too_costly",
              "%s takes more than %" PRIu64 " MiB of memory, the limit for one request", stages[stage].words,
              budget.limit_bytes >> 20);
}

void vr_budget_refuse(struct vr_refusal *why, int stage, size_t n, int status, bool late)
{
    if (stage < 0 || stage >= VR_N_STAGES) stage = VR_STAGE_JSON; /* it is the worker's to write */
    if (late)
        vr_refuse(why, param_of(stage), "too_costly", "%s did not come to an end", stages[stage].words);
    else if (WIFSIGNALED(status) && WTERMSIG(status) == VR_BUDGET_SIGNAL)
        vr_refuse(why, param_of(stage), "too_costly", "%s takes more than %.1f s of processor time, the limit%s",
                  stages[stage].words, vr_budget_ms(n) / 1e3, n ? " for a request of this size" : "");
    else
        vr_refuse(why, param_of(stage), "prepare_failed", "%s failed: its process was ended by signal %d (%s)",
                  stages[stage].words, WIFSIGNALED(status) ? WTERMSIG(status) : 0,
                  WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "none");
}
