/* First, alone, LOAD is read, a CPU variant proven, the preparer forked (engine/prepare), the file of cached prompts
 * opened and the process confined. Then threads. The reader owns the socket and the workers that prepare requests: it
 * hears every frame at once, marks cancellations, gives workers what they prepare, and writes what the others could
 * not. Two threads accept what was prepared, one of them what is large. The computing thread, which loads the model,
 * too, does the rest. A frame is written by whoever made it, in one system call for a whole batch; what the socket does
 * not take at once the reader sends later, and the computing thread pauses when too much is waiting. Nothing that
 * strangers sent is interpreted here before a worker has made tokens of it, so the reader and the accepters never wait
 * long; the computing thread shows its progress, which the reader tells.
 *
 * llama.cpp's parsers call themselves for every level of their input, so the threads that run them have deep stacks. */
#include "engine/process/process.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <ggml.h>

#include "engine/process/batch.h"
#include "engine/process/cache_file.h"
#include "engine/process/choice.h"
#include "engine/process/request_queue.h"
#include "engine/llama/cpu.h"
#include "engine/llama/lastlog.h"
#include "engine/params/load_message.h"
#include "engine/rpc/borrow.h"
#include "engine/wire/wire.h"

enum {
    DEEP_STACK = 256 << 20, /* of address space; pages are used when they are needed */
    PAUSE_BYTES = 16 << 20, /* waiting for the front */
    REPLY_BYTES = 1 << 20,  /* of a frame with what a request wanted to know */
    READ_BYTES = 1 << 16,
    STATUS_MS = 250,
    LARGE_NICE = 5,   /* as a slow worker has it (prepare/budget.h) */
    FINISH_MS = 3000, /* for writing cached prompts after the time that streams had to end */
};

struct opening { /* what came before the threads */
    json_t *load;
    struct vr_buf in; /* bytes behind it */
};

enum { SMALL, LARGE, N_LANES };

struct process {
    int fd, wake_fd;
    struct vr_in_flight live;
    struct vr_engine engine;
    struct opening opening;
    struct vr_confined confined;
    int cache_fd; /* of cached prompts; 0: none, and cache_note may say why */
    char cache_note[240];
    struct vr_pool *pool;         /* the reader's; NULL: none, and LOAD is refused */
    bool pool_lost;               /* the reader's */
    struct vr_request *preparing; /* the reader's: what the pool has */
    bool lora_said;               /* the reader's: LORA came, with these scales */
    float lora[VR_MOST_LORAS];
    uint32_t n_killed;                 /* the reader's */
    atomic_bool up;                    /* a model is there */
    atomic_bool failed;                /* or will not be */
    atomic_int stage;                  /* an enum vr_load_stage: how far it got */
    atomic_bool busy;                  /* there is something to compute, */
    atomic_ullong moved_us;            /* and this is when something was last computed */
    atomic_ullong accepts_us[N_LANES]; /* since when a request is being accepted; 0: none is */

    pthread_mutex_t lock; /* of everything below */
    pthread_cond_t work, accept[N_LANES], tried;
    struct vr_request_queue prepared[N_LANES], ready;
    unsigned n_preparing; /* requests that are not ready yet */
    bool stats, stopping;
    bool hello_came;
    struct vr_prepare_hello hello;
    char no_node[400]; /* why a machine that is to lend devices does not; "": all do */
    char no_pool[400]; /* why there are no workers; "": there are */
    double stop_ms;    /* when streams must be over */

    pthread_mutex_t out_lock;
    struct vr_buf out; /* what the socket did not take */
    size_t sent;
    atomic_size_t waiting;
};

static struct process *the_process; /* for the abort callback, which gets no context */

static void leave(const struct process *proc) { _exit(atomic_load(&proc->failed)); }

/* --- writing --- */

/* The lock is held. False: the front is gone. */
static bool flush_out(struct process *proc)
{
    while (proc->sent < proc->out.n) {
        ssize_t n = send(proc->fd, proc->out.data + proc->sent, proc->out.n - proc->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
        proc->sent += (size_t)n;
    }
    vr_buf_clear(&proc->out);
    proc->sent = 0;
    return true;
}

static void wake_reader(struct process *proc)
{
    uint64_t one = 1;
    if (write(proc->wake_fd, &one, sizeof one) < 0) return; /* it is awake already */
}

/* Sends frames and empties the buffer. */
static void send_frames(struct process *proc, struct vr_buf *frames)
{
    if (frames->n == 0 && !frames->failed) return;
    pthread_mutex_lock(&proc->out_lock);
    size_t done = 0;
    if (proc->out.n == 0) {
        ssize_t n = send(proc->fd, frames->data, frames->n, MSG_DONTWAIT | MSG_NOSIGNAL);
        done = n > 0 ? (size_t)n : 0;
    }
    if (done < frames->n) vr_buf_add(&proc->out, frames->data + done, frames->n - done);
    bool lost = proc->out.failed || frames->failed;
    atomic_store(&proc->waiting, proc->out.n - proc->sent);
    bool rest = proc->out.n > 0;
    pthread_mutex_unlock(&proc->out_lock);
    if (lost) _exit(1); /* a stream with a hole is worse than none: the front sees the hang-up */
    if (rest) wake_reader(proc);
    vr_buf_clear(frames);
}

/* Everything out, however long it takes up to a limit: before the process ends. */
static void drain(struct process *proc)
{
    double end = vr_now_fine_ms() + 2000;
    pthread_mutex_lock(&proc->out_lock);
    while (proc->out.n && flush_out(proc) && proc->out.n && vr_now_fine_ms() < end) {
        struct pollfd p = { proc->fd, POLLOUT, 0 };
        poll(&p, 1, 100);
    }
    pthread_mutex_unlock(&proc->out_lock);
}

/* --- hearing --- */

static void refuse(struct process *proc, uint32_t id, uint16_t status, const char *message)
{
    VR_AUTO_BUF b = { 0 };
    vr_wire_add_error(&b, id, status, NULL, NULL, message);
    send_frames(proc, &b);
}

static void hear_request(struct process *proc, const struct vr_frame *f)
{
    char *json = malloc(f->n + 1);
    if (json) memcpy(json, f->data, f->n);
    struct vr_request *r = json ? vr_request_new(f->id, json, f->n, vr_now_fine_ms()) : NULL;
    if (!r) return refuse(proc, f->id, 503, "out of memory while reading the request");
    pthread_mutex_lock(&proc->lock);
    bool stopping = proc->stopping;
    pthread_mutex_unlock(&proc->lock);
    if (stopping || !atomic_load(&proc->up) || !vr_in_flight_add(&proc->live, r)) {
        vr_request_free(r);
        return refuse(proc, f->id, 503,
                      stopping ? "the model is being stopped" : "the model does not take this request now");
    }
    memcpy(r->lora.of, proc->lora_said ? proc->lora : proc->engine.lora.of, sizeof r->lora.of);
    pthread_mutex_lock(&proc->lock);
    proc->n_preparing++;
    pthread_mutex_unlock(&proc->lock);
    r->next = proc->preparing;
    proc->preparing = r;
    vr_pool_add(proc->pool, &r->job);
}

/* The pool has it no more. */
static void unlist(struct process *proc, const struct vr_request *r)
{
    struct vr_request **at = &proc->preparing;
    while (*at != r) at = &(*at)->next;
    *at = r->next;
}

/* It will not be ready; its last frame was sent. */
static void drop(struct process *proc, struct vr_request *r)
{
    vr_in_flight_remove(&proc->live, r);
    vr_request_free(r);
    pthread_mutex_lock(&proc->lock);
    proc->n_preparing--;
    pthread_cond_signal(&proc->work);
    pthread_mutex_unlock(&proc->lock);
}

/* What was cancelled is not prepared any further; whoever does it is killed. */
static void drop_cancelled(struct process *proc)
{
    for (struct vr_request **at = &proc->preparing; *at;) {
        struct vr_request *r = *at;
        if (!atomic_load(&r->cancelled) || !vr_pool_drop(proc->pool, &r->job)) {
            at = &r->next;
            continue;
        }
        VR_AUTO_BUF b = { 0 };
        *at = r->next;
        vr_wire_add_end(&b, r->id, &(struct vr_wire_end){ .reason = VR_END_CANCELLED, .stop = VR_NO_STOP });
        drop(proc, r);
        send_frames(proc, &b);
    }
}

/* For how long a thread that has something to do has not come on. */
static uint64_t stalled_us(const struct process *proc, uint64_t now)
{
    uint64_t since = atomic_load(&proc->busy) ? atomic_load(&proc->moved_us) : now;
    for (int i = 0; i < N_LANES; i++) {
        uint64_t accepts = atomic_load(&proc->accepts_us[i]);
        if (accepts && accepts < since) since = accepts;
    }
    return since < now ? now - since : 0;
}

/* For the front's watchdog. */
static void say_pulse(struct process *proc)
{
    struct vr_pool_state s = proc->pool ? vr_pool_state(proc->pool) : (struct vr_pool_state){ 0 };
    struct vr_wire_pulse p = { .stalled_ms = (uint32_t)(stalled_us(proc, vr_now_us()) / 1000),
                               .preparing = s.n_waiting + s.n_running,
                               .oldest_ms = (uint32_t)s.oldest_ms,
                               .killed = proc->n_killed };
    VR_AUTO_BUF b = { 0 };
    vr_wire_add_pulse(&b, &p);
    send_frames(proc, &b);
}

/* False: malformed. */
static bool hear(struct process *proc, const struct vr_frame *f)
{
    uint32_t ms = 0;
    switch (f->kind) {
    case VR_WIRE_REQUEST: hear_request(proc, f); return true;
    case VR_WIRE_CANCEL:
        vr_in_flight_cancel(&proc->live, f->id);
        drop_cancelled(proc);
        break;
    case VR_WIRE_STATS: say_pulse(proc); break;
    case VR_WIRE_LORA:
        if (!atomic_load(&proc->up) || !vr_wire_get_lora(f, proc->lora, proc->engine.n_loras)) return false;
        proc->lora_said = true;
        return true;
    case VR_WIRE_STOP:
        if (!vr_wire_get_stop(f, &ms)) return false;
        if (!atomic_load(&proc->up)) leave(proc); /* still loading: nothing to finish */
        break;
    default: return false; /* also a second LOAD */
    }
    pthread_mutex_lock(&proc->lock);
    if (f->kind == VR_WIRE_STATS) proc->stats = true;
    if (f->kind == VR_WIRE_STOP) {
        proc->stopping = true;
        proc->stop_ms = vr_now_fine_ms() + ms;
    }
    pthread_cond_signal(&proc->work);
    pthread_mutex_unlock(&proc->lock);
    return true;
}

/* Hears all whole frames in `in`, and takes them out. */
static bool hear_all(struct process *proc, struct vr_buf *in)
{
    size_t at = 0;
    for (;;) {
        struct vr_frame f;
        long len = vr_wire_parse((const uint8_t *)vr_buf_str(in) + at, in->n - at, VR_FROM_FRONT, &f);
        if (len < 0 || (len > 0 && !hear(proc, &f))) return false;
        if (len == 0) break;
        at += (size_t)len;
    }
    if (at) memmove(in->data, in->data + at, in->n - at);
    in->n -= at;
    return true;
}

/* Takes what the socket has. False: hung up, or malformed. */
static bool take(struct process *proc, struct vr_buf *in)
{
    char block[READ_BYTES];
    ssize_t n = recv(proc->fd, block, sizeof block, MSG_DONTWAIT);
    if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    vr_buf_add(in, block, (size_t)n);
    return n > 0 && !in->failed && hear_all(proc, in);
}

/* Streams that may not go on: cancels them and says when to look again. */
static int check_stop(struct process *proc)
{
    pthread_mutex_lock(&proc->lock);
    double left = proc->stopping ? proc->stop_ms - vr_now_fine_ms() : -1;
    bool over = proc->stopping && left <= 0;
    if (over) proc->stop_ms = vr_now_fine_ms() + 1000; /* asked again, should new ones have come in between */
    pthread_mutex_unlock(&proc->lock);
    if (over) {
        vr_in_flight_cancel_all(&proc->live);
        drop_cancelled(proc);
    }
    return over ? 1000 : left > 0 ? (int)left + 1 : -1;
}

/* --- preparing --- */

static void say_failed(struct process *proc, const struct vr_failure *why);

static void say_refusal(struct process *proc, struct vr_request *r, const struct vr_refusal *why)
{
    VR_AUTO_BUF b = { 0 };
    vr_wire_add_refusal(&b, r->id, why);
    drop(proc, r);
    send_frames(proc, &b);
}

/* What a request wants to know about itself: it takes no slot, and is over. */
static void say_reply(struct process *proc, struct vr_request *r)
{
    VR_AUTO_BUF b = { 0 };
    struct vr_wire_begin begin = { 0 };
    for (uint32_t i = 0; i < r->n_prompts; i++) begin.prompt_tokens += r->prompts[i].n;
    vr_wire_add_begin(&b, r->id, &begin);
    for (size_t at = 0, n; at < r->reply.n; at += n) { /* in pieces, not within a character */
        n = r->reply.n - at < REPLY_BYTES ? r->reply.n - at : REPLY_BYTES;
        while (at + n < r->reply.n && n > 1 && ((unsigned char)r->reply.data[at + n] & 0xC0) == 0x80) n--;
        vr_wire_add_delta(&b, r->id, 0, VR_DELTA_TEXT, r->reply.data + at, n);
    }
    vr_wire_add_end(&b, r->id, &(struct vr_wire_end){ .reason = VR_END_STOP, .stop = VR_NO_STOP });
    drop(proc, r);
    send_frames(proc, &b);
}

static void on_prepared(void *ctx, struct vr_prepare_job *job, struct vr_buf *answer)
{
    struct process *proc = ctx;
    struct vr_request *r = vr_request_of(job);
    unlist(proc, r);
    r->answer = *answer;
    int lane = vr_request_is_large(r) ? LARGE : SMALL;
    pthread_mutex_lock(&proc->lock);
    vr_request_push(&proc->prepared[lane], r);
    pthread_cond_signal(&proc->accept[lane]);
    pthread_mutex_unlock(&proc->lock);
}

static void on_refused(void *ctx, struct vr_prepare_job *job, const struct vr_refusal *why)
{
    struct process *proc = ctx;
    struct vr_request *r = vr_request_of(job);
    unlist(proc, r);
    proc->n_killed++;
    say_refusal(proc, r, why);
}

/* Forks the preparer, while there are no threads. A LOAD that cannot be read is refused by load(). */
static void start_pool(struct process *proc)
{
    VR_AUTO_ARENA arena = { 0 };
    struct vr_load_params p = { 0 };
    struct vr_err err = { 0 };
    const struct vr_pool_hooks hooks = { on_prepared, on_refused, proc };
    if (!vr_load_params_read(proc->opening.load, &arena, &p, &err)) return;
    proc->pool = vr_pool_start(p.model, p.chat_template[0] ? p.chat_template : NULL, proc->fd, &hooks, &err);
    if (!proc->pool) snprintf(proc->no_pool, sizeof proc->no_pool, "%.399s", err.msg);
}

/* There are no workers, and will be none: the front must start another process. While the model loads that is load()'s
 * to tell, which may have something better to say. */
static void lose_pool(struct process *proc, const struct vr_err *err)
{
    struct vr_failure why = { .stage = VR_AT_DECODE };
    pthread_mutex_lock(&proc->lock);
    snprintf(proc->no_pool, sizeof proc->no_pool, "%.399s", err->msg);
    pthread_cond_signal(&proc->tried);
    pthread_mutex_unlock(&proc->lock);
    proc->pool_lost = true;
    if (!atomic_load(&proc->up)) return;
    snprintf(why.message, sizeof why.message, "%.399s", err->msg);
    say_failed(proc, &why);
    leave(proc);
}

static void turn_pool(struct process *proc, const struct pollfd *fds)
{
    struct vr_err err = { 0 };
    struct vr_prepare_hello hello;
    if (!vr_pool_turn(proc->pool, fds, &err)) return lose_pool(proc, &err);
    if (atomic_load(&proc->up) || !vr_pool_hello(proc->pool, &hello)) return;
    pthread_mutex_lock(&proc->lock);
    proc->hello = hello;
    proc->hello_came = true;
    pthread_cond_signal(&proc->tried);
    pthread_mutex_unlock(&proc->lock);
}

struct lane {
    struct process *proc;
    int lane;
};

static void *accepter(void *ctx)
{
    const struct lane *l = ctx;
    struct process *proc = l->proc;
    /* this thread and those that it starts, which make parts of pictures and sounds: streams come first */
    if (l->lane == LARGE) setpriority(PRIO_PROCESS, 0, LARGE_NICE);
    for (;;) {
        struct vr_request *r;
        struct vr_refusal why;
        pthread_mutex_lock(&proc->lock);
        while (!(r = vr_request_pop(&proc->prepared[l->lane]))) pthread_cond_wait(&proc->accept[l->lane], &proc->lock);
        pthread_mutex_unlock(&proc->lock);
        atomic_store(&proc->accepts_us[l->lane], vr_now_us());
        /* also when it is cancelled: its ENDs are counted by its choices */
        bool ok = vr_request_accept(r, &proc->engine, &why);
        atomic_store(&proc->accepts_us[l->lane], 0);
        if (!ok) {
            say_refusal(proc, r, &why);
            continue;
        }
        if (r->look) {
            say_reply(proc, r);
            continue;
        }
        pthread_mutex_lock(&proc->lock);
        vr_request_insert(&proc->ready, r); /* in order of arrival as far as nobody has begun */
        proc->n_preparing--;
        pthread_cond_signal(&proc->work);
        pthread_mutex_unlock(&proc->lock);
    }
    return NULL;
}

static void send_rest(struct process *proc)
{
    pthread_mutex_lock(&proc->out_lock);
    bool ok = flush_out(proc);
    atomic_store(&proc->waiting, proc->out.n - proc->sent);
    pthread_mutex_unlock(&proc->out_lock);
    if (!ok) leave(proc);
}

static bool sooner(int a, int b) { return a >= 0 && (b < 0 || a < b); }

static void *reader(void *ctx)
{
    struct process *proc = ctx;
    if (!hear_all(proc, &proc->opening.in)) leave(proc);
    for (;;) {
        struct pollfd p[2 + VR_POOL_FDS] = { { proc->fd, POLLIN, 0 }, { proc->wake_fd, POLLIN, 0 } };
        bool pool = proc->pool && !proc->pool_lost;
        int wait = check_stop(proc), wait_pool = pool ? vr_pool_wait(proc->pool, p + 2) : -1;
        if (sooner(wait_pool, wait)) wait = wait_pool;
        if (atomic_load(&proc->waiting) > 0) p[0].events |= POLLOUT;
        if (poll(p, pool ? VR_COUNT(p) : 2, wait) < 0 && errno != EINTR) _exit(1);
        if (p[1].revents) {
            uint64_t count;
            if (read(proc->wake_fd, &count, sizeof count) < 0) continue;
        }
        if (p[0].revents & POLLOUT) send_rest(proc);
        /* nobody is there any more: the memory is wanted by others, and nothing of ours needs a farewell */
        if ((p[0].revents & (POLLIN | POLLHUP | POLLERR)) && !take(proc, &proc->opening.in)) leave(proc);
        if (pool) turn_pool(proc, p + 2);
    }
}

/* --- loading --- */

static void say_progress(void *ctx, const char *step, int percent)
{
    struct process *proc = ctx;
    enum vr_load_stage stage;
    if (!vr_load_stage_parse(step, &stage)) stage = VR_AT_DECODE; /* warming up computes */
    atomic_store(&proc->stage, stage);
    VR_AUTO_BUF b = { 0 };
    size_t at = vr_wire_open(&b, VR_WIRE_PROGRESS, 0);
    vr_buf_addf(&b, "{\"stage\":\"%s\",\"percent\":%d,\"sent_bytes\":%" PRIu64 "}", step, percent,
                vr_borrow_sent_bytes());
    vr_wire_close(&b, at);
    send_frames(proc, &b);
}

static bool wants_abort(void *ctx)
{
    return atomic_load_explicit(&((struct process *)ctx)->live.abort, memory_order_relaxed);
}

static void say_failed(struct process *proc, const struct vr_failure *why)
{
    atomic_store(&proc->failed, true);
    VR_AUTO_BUF b = { 0 };
    VR_AUTO_BUF log = { 0 };
    vr_lastlog_json(&log, true);
    size_t at = vr_wire_open(&b, VR_WIRE_FAILED, 0);
    vr_failure_write(why, vr_buf_str(&log), &b);
    vr_wire_close(&b, at);
    send_frames(proc, &b);
    drain(proc);
}

/* llama.cpp is about to abort the process: the front is told why. */
static void on_abort(const char *message)
{
    static atomic_flag once = ATOMIC_FLAG_INIT;
    struct vr_failure why;
    if (atomic_flag_test_and_set(&once)) return;
    vr_lastlog_add(message);
    vr_failure_explain(&why, (enum vr_load_stage)atomic_load(&the_process->stage), "the engine broke off", false);
    char lost[200];
    vr_borrow_why(lost, sizeof lost);
    if (lost[0]) snprintf(why.message, sizeof why.message, "%s", lost);
    why.aborted = true;
    say_failed(the_process, &why);
    _exit(1);
}

/* Reads the first frame, which must be LOAD. False: hung up, or malformed. */
static bool hear_load(struct process *proc)
{
    struct vr_buf *in = &proc->opening.in;
    struct vr_frame f;
    long len;
    while ((len = vr_wire_parse((const uint8_t *)vr_buf_str(in), in->n, VR_FROM_FRONT, &f)) == 0) {
        char block[READ_BYTES];
        ssize_t n = recv(proc->fd, block, sizeof block, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        vr_buf_add(in, block, (size_t)n);
        if (in->failed) return false;
    }
    if (len < 0 || f.kind != VR_WIRE_LOAD) return false;
    json_error_t at;
    proc->opening.load = json_loadb((const char *)f.data, f.n, JSON_REJECT_DUPLICATES, &at);
    if (!proc->opening.load) proc->opening.load = json_null(); /* which is refused with a sentence */
    memmove(in->data, in->data + len, in->n - (size_t)len);
    in->n -= (size_t)len;
    return true;
}

/* Proves a CPU variant while there are no threads, since that forks. A failure is found again, and told, by load(). */
static void prove_cpu(json_t *load)
{
    char path[1024];
    struct vr_err err;
    const char *given = json_string_value(json_object_get(load, "cpu"));
    if (json_is_object(load) && (!given || strcmp(given, "auto") == 0) && vr_cpu_choose(path, sizeof path, &err))
        json_object_set_new(load, "cpu", json_string(path));
}

static bool fail_load(struct process *proc, const char *message)
{
    struct vr_failure why = { .stage = VR_AT_LOAD };
    snprintf(why.message, sizeof why.message, "%s", message);
    return say_failed(proc, &why), false;
}

/* What came of the chat template. One that was asked for must do; the model's own is missed only by those who chat. */
static bool await_preparer(struct process *proc)
{
    struct vr_engine *e = &proc->engine;
    pthread_mutex_lock(&proc->lock);
    while (!proc->hello_came && !proc->no_pool[0]) pthread_cond_wait(&proc->tried, &proc->lock);
    pthread_mutex_unlock(&proc->lock);
    if (proc->no_pool[0]) return fail_load(proc, proc->no_pool);
    bool given = json_string_length(json_object_get(proc->opening.load, "chat_template")) > 0;
    e->chats = e->text && proc->hello.ok;
    e->caps = proc->hello.caps;
    if (e->text && !e->chats) snprintf(e->no_chats, sizeof e->no_chats, "%s", proc->hello.why);
    if (e->text && !e->chats && given) return fail_load(proc, e->no_chats);
    struct vr_prepare_facts facts = { .n_ctx_seq = e->n_ctx_seq,
                                      .n_ubatch = e->n_ubatch,
                                      .n_seq = e->n_seq,
                                      .n_embd = e->n_embd,
                                      .n_loras = (uint32_t)e->n_loras,
                                      .text = e->text,
                                      .embeddings = e->embeddings,
                                      .ranks = e->ranks,
                                      .vision = e->vision && vr_bridge_vision_sees(e->vision),
                                      .sound_rate = e->vision ? vr_bridge_vision_rate(e->vision) : 0,
                                      .keep_billing_header = e->keep_billing_header };
    if (e->vision) snprintf(facts.marker, sizeof facts.marker, "%s", vr_bridge_vision_marker(e->vision));
    vr_pool_set_facts(proc->pool, &facts);
    return true;
}

/* To the files that LOAD names, and to devices where it wants some. The file of cached prompts is opened before: it
 * takes no right to write anywhere. */
static void confine(struct process *proc)
{
    VR_AUTO_ARENA arena = { 0 };
    struct vr_load_params p;
    struct vr_err err;
    struct vr_engine_needs needs = { 0 };
    if (vr_load_params_read(proc->opening.load, &arena, &p, &err)) {
        needs = vr_engine_needs_of(&p);
        if (p.cache_file[0] && p.cache_mib)
            proc->cache_fd = vr_cache_file_open(p.cache_file, proc->cache_note, sizeof proc->cache_note);
    }
    vr_engine_confine(&needs, &proc->confined); /* a message that cannot be read is refused by load() */
}

static bool load(struct process *proc)
{
    const json_t *plan = proc->opening.load;
    const struct vr_load_hooks hooks = { .progress = say_progress, .abort = wants_abort, .ctx = proc };
    struct vr_failure why;
    if (proc->no_node[0]) return fail_load(proc, proc->no_node);
    if (!vr_engine_load(plan, &hooks, &proc->engine, &why)) return say_failed(proc, &why), false;
    proc->engine.cache_fd = proc->cache_fd;
    snprintf(proc->engine.cache_note, sizeof proc->engine.cache_note, "%s", proc->cache_note);
    if (!await_preparer(proc)) return false;
    vr_confine_settle(); /* everything is open */
    VR_AUTO_BUF b = { 0 };
    size_t at = vr_wire_open(&b, VR_WIRE_READY, 0);
    vr_engine_ready_json(&proc->engine, &proc->confined, &b);
    vr_wire_close(&b, at);
    atomic_store(&proc->up, true);
    pthread_mutex_lock(&proc->lock);
    bool lost = proc->no_pool[0]; /* until now that was not told by who found out */
    pthread_mutex_unlock(&proc->lock);
    if (lost) return fail_load(proc, proc->no_pool);
    send_frames(proc, &b);
    return true;
}

/* --- working --- */

/* Everything is done that was asked for before STOP. The lock is held. */
static bool is_over(const struct process *proc, const struct vr_batcher *b)
{
    return proc->stopping && proc->n_preparing == 0 && !proc->ready.head && !vr_batcher_busy(b);
}

/* Waits for something to do, at most so long; -1: however long it takes. False: that was it. The lock is held. */
static bool wait_work(struct process *proc, int ms)
{
    struct timespec end = vr_clock_in((uint32_t)ms);
    if (ms < 0) return pthread_cond_wait(&proc->work, &proc->lock) == 0;
    return pthread_cond_clockwait(&proc->work, &proc->lock, CLOCK_MONOTONIC, &end) == 0;
}

/* New requests to the batcher; waits when there is nothing else to do, at most wait_ms. False: it is time to end. */
static bool take_work(struct process *proc, struct vr_batcher *b, bool idle, int wait_ms, bool *stats)
{
    struct vr_request *r;
    pthread_mutex_lock(&proc->lock);
    if (idle) atomic_store(&proc->busy, false);
    while (idle && !proc->ready.head && !proc->stats && !is_over(proc, b) && wait_work(proc, wait_ms)) continue;
    if (idle) atomic_store(&proc->moved_us, vr_now_us());
    atomic_store(&proc->busy, true);
    while ((r = vr_request_pop(&proc->ready))) vr_batcher_add(b, r);
    *stats = proc->stats;
    proc->stats = false;
    bool over = is_over(proc, b);
    pthread_mutex_unlock(&proc->lock);
    return !over;
}

static void say_status(struct vr_batcher *b, struct vr_buf *frames)
{
    size_t at = vr_wire_open(frames, VR_WIRE_STATUS, 0);
    vr_batcher_status_json(b, frames);
    vr_wire_close(frames, at);
}

struct computing {
    struct process *proc;
    struct vr_batcher *b;
    struct vr_buf frames;
    bool idle, dead;
    double said_ms;    /* STATUS */
    double busy_ms;    /* when there was last something to compute */
    int tidy_ms;       /* in how long there is something else to do; -1: not */
    uint64_t progress; /* as last seen */
    struct vr_failure why;
};

static void show_progress(struct computing *w)
{
    uint64_t progress = vr_batcher_progress(w->b);
    if (progress != w->progress || !vr_batcher_busy(w->b)) atomic_store(&w->proc->moved_us, vr_now_us());
    w->progress = progress;
}

/* Once around: what is new, a step, what came of it. False: it is time to end. */
static bool turn(struct computing *w)
{
    struct process *proc = w->proc;
    bool stats;
    if (atomic_load(&proc->waiting) > PAUSE_BYTES) { /* the front does not read: let it */
        struct pollfd p = { proc->fd, POLLOUT, 0 };
        poll(&p, 1, 20);
        atomic_store(&proc->moved_us, vr_now_us()); /* it is not ours to move */
        w->idle = false;
        return true;
    }
    if (!take_work(proc, w->b, w->idle, w->tidy_ms, &stats)) return false;
    bool did = vr_batcher_step(w->b, &w->dead, &w->why);
    if (w->dead) return false;
    show_progress(w);
    double now = vr_now_fine_ms();
    bool ended = !did && !w->idle; /* once more when it becomes quiet */
    if (stats || ended || (did && now - w->said_ms >= STATUS_MS)) {
        say_status(w->b, &w->frames);
        w->said_ms = now;
    }
    w->idle = !did && !vr_batcher_busy(w->b);
    if (!w->idle) w->busy_ms = now;
    w->tidy_ms = vr_batcher_tidy(w->b, now - w->busy_ms);
    send_frames(proc, &w->frames);
    return true;
}

static bool turn_within(void *ctx) { return turn(ctx); }

static int work(struct process *proc)
{
    struct computing w = { .proc = proc, .idle = true, .busy_ms = vr_now_fine_ms() };
    struct vr_err err;
    w.b = vr_batcher_new(&proc->engine, &proc->live, &w.frames, &err);
    if (!w.b) {
        vr_failure_explain(&w.why, VR_AT_CONTEXT, err.msg, true);
        return say_failed(proc, &w.why), 1;
    }
    vr_batcher_share(w.b, turn_within, &w);
    while (turn(&w)) {}
    send_frames(proc, &w.frames);
    if (w.dead)
        say_failed(proc, &w.why);
    else
        vr_batcher_finish(w.b, fmax(proc->stop_ms - vr_now_fine_ms(), 0) + FINISH_MS);
    drain(proc);
    return w.dead ? 1 : 0;
}

/* --- the process --- */

struct errand {
    struct process *proc;
    int status;
};

static void *run(void *ctx)
{
    struct errand *e = ctx;
    e->status = load(e->proc) ? work(e->proc) : 1;
    return NULL;
}

static bool start(pthread_t *t, void *(*fn)(void *), void *ctx, bool deep)
{
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    if (deep) pthread_attr_setstacksize(&attr, DEEP_STACK);
    bool ok = pthread_create(t, &attr, fn, ctx) == 0;
    pthread_attr_destroy(&attr);
    return ok;
}

int vr_engine_process(int fd)
{
    static struct process proc; /* threads may outlive this function by a moment */
    proc.fd = fd;
    proc.wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    for (int i = 0; i < N_LANES; i++) {
        vr_request_queue_init(&proc.prepared[i]);
        pthread_cond_init(&proc.accept[i], NULL);
    }
    vr_request_queue_init(&proc.ready);
    pthread_mutex_init(&proc.lock, NULL);
    pthread_mutex_init(&proc.out_lock, NULL);
    pthread_cond_init(&proc.work, NULL);
    pthread_cond_init(&proc.tried, NULL);
    vr_in_flight_init(&proc.live);
    the_process = &proc;
    signal(SIGPIPE, SIG_IGN);
    signal(SIGINT, SIG_IGN); /* a terminal's Ctrl-C is for the front, which says STOP */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setenv("GGML_NO_BACKTRACE", "1", 1); /* it would start a debugger */
    vr_lastlog_start();
    vr_bridge_quiet();
    ggml_set_abort_callback(on_abort);

    if (!hear_load(&proc)) return 1;
    prove_cpu(proc.opening.load);
    start_pool(&proc);
    vr_borrow_open(proc.opening.load, proc.no_node, sizeof proc.no_node); /* while it may still call somebody */
    confine(&proc);
    pthread_t threads[2 + N_LANES];
    static struct lane lanes[N_LANES] = { { &proc, SMALL }, { &proc, LARGE } };
    struct errand errand = { &proc, 1 };
    if (proc.wake_fd < 0 || !start(&threads[0], reader, &proc, false) || !start(&threads[1], run, &errand, true) ||
        !start(&threads[2], accepter, &lanes[SMALL], true) || !start(&threads[3], accepter, &lanes[LARGE], true))
        return 1;
    pthread_join(threads[1], NULL);
    _exit(
        errand.status); /* the others wait for nothing; the kernel gives the memory back faster than the engine does */
}
