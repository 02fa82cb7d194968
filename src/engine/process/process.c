/* First, alone, LOAD is read and a CPU variant proven, which forks. Then three threads. The reader owns the socket: it
 * hears every frame at once, marks cancellations, and writes what the others could not. The preparer turns requests
 * into tokens and grammars, which may take long. The worker, which is the thread that was called, loads and computes. A
 * frame is written by whoever made it, in one system call for a whole batch; what the socket does not take at once the
 * reader sends later, and the worker pauses when too much is waiting.
 *
 * llama.cpp's grammars and regular expressions call themselves for every level of their input, so the threads that run
 * them have deep stacks. */
#include "engine/process/process.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include <ggml.h>

#include "engine/process/batch.h"
#include "engine/process/choice.h"
#include "engine/llama/cpu.h"
#include "engine/llama/lastlog.h"
#include "engine/wire/wire.h"

enum {
    DEEP_STACK = 256 << 20, /* of address space; pages are used when they are needed */
    PAUSE_BYTES = 16 << 20, /* waiting for the front */
    READ_BYTES = 1 << 16,
    STATUS_MS = 250,
};

struct queue { /* of requests, first in, first out */
    struct vr_request *head, **tail;
};

struct opening { /* what came before the threads */
    json_t *load;
    struct vr_buf in; /* bytes behind it */
};

struct process {
    int fd, wake_fd;
    struct vr_in_flight live;
    struct vr_engine engine;
    struct opening opening;
    atomic_bool up;     /* a model is there */
    atomic_bool failed; /* or will not be */
    atomic_int stage;   /* an enum vr_load_stage: how far it got */

    pthread_mutex_t lock; /* of everything below */
    pthread_cond_t work, prepare;
    struct queue raw, ready;
    bool preparing; /* one that is in neither */
    bool stats, stopping;
    double stop_ms; /* when streams must be over */

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

static void push(struct queue *q, struct vr_request *r)
{
    r->next = NULL;
    *q->tail = r;
    q->tail = &r->next;
}

static struct vr_request *pop(struct queue *q)
{
    struct vr_request *r = q->head;
    if (r && !(q->head = r->next)) q->tail = &q->head;
    return r;
}

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
    pthread_mutex_lock(&proc->lock);
    push(&proc->raw, r);
    pthread_cond_signal(&proc->prepare);
    pthread_mutex_unlock(&proc->lock);
}

/* False: malformed. */
static bool hear(struct process *proc, const struct vr_frame *f)
{
    uint32_t ms = 0;
    switch (f->kind) {
    case VR_WIRE_REQUEST: hear_request(proc, f); return true;
    case VR_WIRE_CANCEL: vr_in_flight_cancel(&proc->live, f->id); break;
    case VR_WIRE_STATS: break;
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
    if (over) vr_in_flight_cancel_all(&proc->live);
    return over ? 1000 : left > 0 ? (int)left + 1 : -1;
}

static void *reader(void *ctx)
{
    struct process *proc = ctx;
    if (!hear_all(proc, &proc->opening.in)) leave(proc);
    for (;;) {
        bool more = atomic_load(&proc->waiting) > 0;
        struct pollfd p[2] = { { proc->fd, (short)(POLLIN | (more ? POLLOUT : 0)), 0 }, { proc->wake_fd, POLLIN, 0 } };
        if (poll(p, 2, check_stop(proc)) < 0 && errno != EINTR) _exit(1);
        if (p[1].revents) {
            uint64_t count;
            if (read(proc->wake_fd, &count, sizeof count) < 0) continue;
        }
        if (p[0].revents & POLLOUT) {
            pthread_mutex_lock(&proc->out_lock);
            bool ok = flush_out(proc);
            atomic_store(&proc->waiting, proc->out.n - proc->sent);
            pthread_mutex_unlock(&proc->out_lock);
            if (!ok) leave(proc);
        }
        /* nobody is there any more: the memory is wanted by others, and nothing of ours needs a farewell */
        if ((p[0].revents & (POLLIN | POLLHUP | POLLERR)) && !take(proc, &proc->opening.in)) leave(proc);
    }
}

/* --- preparing --- */

static void prepare(struct process *proc, struct vr_request *r)
{
    struct vr_refusal why;
    bool ok =
        vr_request_read(r, &proc->engine, &why); /* also when it is cancelled: its ENDs are counted by its choices */
    if (!ok) {
        VR_AUTO_BUF b = { 0 };
        vr_wire_add_error(&b, r->id, (uint16_t)why.status, why.param[0] ? why.param : NULL, why.code, why.message);
        vr_in_flight_remove(&proc->live, r);
        vr_request_free(r);
        send_frames(proc, &b);
    }
    pthread_mutex_lock(&proc->lock);
    if (ok) push(&proc->ready, r);
    proc->preparing = false;
    pthread_cond_signal(&proc->work);
    pthread_mutex_unlock(&proc->lock);
}

static void *preparer(void *ctx)
{
    struct process *proc = ctx;
    for (;;) {
        pthread_mutex_lock(&proc->lock);
        struct vr_request *r;
        while (!(r = pop(&proc->raw))) pthread_cond_wait(&proc->prepare, &proc->lock);
        proc->preparing = true;
        pthread_mutex_unlock(&proc->lock);
        prepare(proc, r);
    }
    return NULL;
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
    vr_buf_addf(&b, "{\"stage\":\"%s\",\"percent\":%d}", step, percent);
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

static bool load(struct process *proc)
{
    const json_t *plan = proc->opening.load;
    const struct vr_load_hooks hooks = { .progress = say_progress, .abort = wants_abort, .ctx = proc };
    struct vr_failure why;
    if (!vr_engine_load(plan, &hooks, &proc->engine, &why)) return say_failed(proc, &why), false;
    VR_AUTO_BUF b = { 0 };
    size_t at = vr_wire_open(&b, VR_WIRE_READY, 0);
    vr_engine_ready_json(&proc->engine, &b);
    vr_wire_close(&b, at);
    atomic_store(&proc->up, true);
    send_frames(proc, &b);
    return true;
}

/* --- working --- */

/* Everything is done that was asked for before STOP. The lock is held. */
static bool is_over(const struct process *proc, const struct vr_batcher *b)
{
    return proc->stopping && !proc->raw.head && !proc->preparing && !proc->ready.head && !vr_batcher_busy(b);
}

/* New requests to the batcher; waits when there is nothing else to do. False: it is time to end. */
static bool take_work(struct process *proc, struct vr_batcher *b, bool idle, bool *stats)
{
    struct vr_request *r;
    pthread_mutex_lock(&proc->lock);
    while (idle && !proc->ready.head && !proc->stats && !is_over(proc, b)) pthread_cond_wait(&proc->work, &proc->lock);
    while ((r = pop(&proc->ready))) vr_batcher_add(b, r);
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

struct worker {
    struct process *proc;
    struct vr_batcher *b;
    struct vr_buf frames;
    bool idle, dead;
    double said_ms; /* STATUS */
    struct vr_failure why;
};

/* Once around: what is new, a step, what came of it. False: it is time to end. */
static bool turn(struct worker *w)
{
    struct process *proc = w->proc;
    bool stats;
    if (atomic_load(&proc->waiting) > PAUSE_BYTES) { /* the front does not read: let it */
        struct pollfd p = { proc->fd, POLLOUT, 0 };
        poll(&p, 1, 20);
        w->idle = false;
        return true;
    }
    if (!take_work(proc, w->b, w->idle, &stats)) return false;
    bool did = vr_batcher_step(w->b, &w->dead, &w->why);
    if (w->dead) return false;
    double now = vr_now_fine_ms();
    bool ended = !did && !w->idle; /* once more when it becomes quiet */
    if (stats || ended || (did && now - w->said_ms >= STATUS_MS)) {
        say_status(w->b, &w->frames);
        w->said_ms = now;
    }
    send_frames(proc, &w->frames);
    w->idle = !did && !vr_batcher_busy(w->b);
    return true;
}

static bool turn_within(void *ctx) { return turn(ctx); }

static int work(struct process *proc)
{
    struct worker w = { .proc = proc, .idle = true };
    struct vr_err err;
    w.b = vr_batcher_new(&proc->engine, &proc->live, &w.frames, &err);
    if (!w.b) {
        vr_failure_explain(&w.why, VR_AT_CONTEXT, err.msg, true);
        return say_failed(proc, &w.why), 1;
    }
    vr_batcher_share(w.b, turn_within, &w);
    while (turn(&w)) {}
    send_frames(proc, &w.frames);
    if (w.dead) say_failed(proc, &w.why);
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
    proc.raw.tail = &proc.raw.head;
    proc.ready.tail = &proc.ready.head;
    pthread_mutex_init(&proc.lock, NULL);
    pthread_mutex_init(&proc.out_lock, NULL);
    pthread_cond_init(&proc.work, NULL);
    pthread_cond_init(&proc.prepare, NULL);
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
    pthread_t threads[3];
    struct errand errand = { &proc, 1 };
    if (proc.wake_fd < 0 || !start(&threads[0], reader, &proc, false) || !start(&threads[1], preparer, &proc, true) ||
        !start(&threads[2], run, &errand, true))
        return 1;
    pthread_join(threads[2], NULL);
    _exit(
        errand.status); /* the others wait for nothing; the kernel gives the memory back faster than the engine does */
}
