#include "server/supervise/supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include <event2/buffer.h>
#include <event2/event.h>

#include "base/log.h"
#include "base/text.h"
#include "server/front.h"
#include "server/supervise/recovery.h"
#include "server/supervise/task.h"
#include "server/supervise/replan.h"

#define READ_BYTES       (128 << 10) /* per turn of the loop, so that one engine does not starve the clients */
#define KEEP_BYTES       (256 << 10)
#define MAX_OUT_BYTES    (128 << 20) /* that the engine has not taken; no more requests then */
#define MAX_REQUEST      (64 << 20)  /* of wire.def */
#define MAX_ARGS         16
#define MAX_RESTART_MS   30000
#define MAX_EARLY_DEATHS 3     /* while it loads for the first time */
#define GOOD_MS          60000 /* an engine that was up for so long begins with a clean slate */
#define END_GRACE_MS     2000  /* between the end of its socket and ours of its patience */
#define LAST_BYTES_MS    300   /* for clients to take what was written, when we stop */
#define EXIT_MS          5000  /* to end after its last answer, when we stop */
#define NOT_STARTED_MS   5000  /* until another try */

/* --- states --- */

const char *vr_worker_state_name(enum vr_worker_state s)
{
    static const char *const names[VR_N_WORKER_STATES] = {
#define WORKER_STATE(name, told) [VR_WORKER_##name] = told,
#include "server/supervise/supervise.def"
#undef WORKER_STATE
    };
    return names[s];
}

bool vr_worker_next(enum vr_worker_state from, enum vr_worker_event event, enum vr_worker_state *to)
{
    static const uint8_t next[VR_N_WORKER_STATES][VR_N_WORKER_EVENTS] = {
    /* one more than the state; 0: none */
#define ON(state, event, next) [VR_WORKER_##state][VR_ON_##event] = VR_WORKER_##next + 1,
#include "server/supervise/supervise.def"
#undef ON
    };
    if (!next[from][event]) return false;
    *to = (enum vr_worker_state)(next[from][event] - 1);
    return true;
}

static void tell(struct vr_front *f)
{
    const struct vr_worker *e = &f->engine;
    if (f->config->tell) f->config->tell(f->config->ctx, vr_worker_state_name(e->state), e->percent);
}

static void start_again(struct vr_front *f);

/* What a state begins with. */
static void enter(struct vr_front *f)
{
    struct vr_worker *e = &f->engine;
    switch (e->state) {
    case VR_WORKER_LOADING: start_again(f); break;
    case VR_WORKER_READY: tell(f); break;
    case VR_WORKER_PLANNING: vr_replan(f); break; /* now that the memory it had is free again */
    case VR_WORKER_WAITING:
        e->restart_at_ms = vr_now_ms() + e->pause_ms;
        event_add(e->restart,
                  &(struct timeval){ (time_t)(e->pause_ms / 1000), (suseconds_t)(e->pause_ms % 1000 * 1000) });
        tell(f);
        break;
    case VR_WORKER_GONE:
        if (f->stopping) event_base_loopexit(f->base, f->conns.n ? &(struct timeval){ 0, LAST_BYTES_MS * 1000 } : NULL);
        break;
    default: break;
    }
}

/* False: that cannot happen now. */
static bool happens(struct vr_front *f, enum vr_worker_event event)
{
    enum vr_worker_state before = f->engine.state, next;
    if (!vr_worker_next(before, event, &next)) return false;
    f->engine.state = next;
    if (next != before) enter(f);
    return true;
}

/* No model was ever up: the server ends, and says why. */
static void give_up(struct vr_front *f, const struct vr_err *why)
{
    if (happens(f, VR_ON_GAVE_UP)) vr_front_fail(f, why);
}

unsigned vr_worker_retry_s(const struct vr_front *f)
{
    const struct vr_worker *e = &f->engine;
    double s = 1;
    if (e->state == VR_WORKER_READY && e->n_seq) s = f->calls.average_ms / 1e3 * f->calls.n_texts / e->n_seq / 2;
    if (e->state == VR_WORKER_LOADING) s = 2;
    uint64_t now = vr_now_ms();
    if (e->state == VR_WORKER_WAITING) s = 1 + (e->restart_at_ms > now ? (double)(e->restart_at_ms - now) / 1e3 : 0);
    return s < 1 ? 1 : s > 60 ? 60 : (unsigned)s;
}

/* --- the child --- */

/* Between fork and exec: plain system calls. */
static _Noreturn void become_engine(const struct vr_server_config *c, const struct vr_load *load, int fd, pid_t front)
{
    char number[16];
    const char *argv[MAX_ARGS + 1] = { 0 };
    snprintf(number, sizeof number, "%d", fd);
    for (size_t i = 0; i < MAX_ARGS && c->engine_argv[i]; i++)
        argv[i] = strcmp(c->engine_argv[i], "%d") == 0 ? number : c->engine_argv[i];
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* memory on the GPUs must not outlive us */
    if (getppid() != front) _exit(127);
    setpgid(0, 0); /* Ctrl-C is for the front, which tells the engine */
    for (int s = 1; s < NSIG; s++) signal(s, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null >= 0) dup2(null, STDIN_FILENO);
    dup2(STDERR_FILENO, STDOUT_FILENO); /* what libraries print is not our output */
    fcntl(fd, F_SETFD, 0);
    for (size_t at = 0; at < load->env.n; at += strlen(load->env.data + at) + 1) putenv(load->env.data + at);
    execvp(argv[0], (char *const *)argv);
    _exit(127);
}

static void on_readable(evutil_socket_t fd, short what, void *ctx);
static void on_writable(evutil_socket_t fd, short what, void *ctx);

static bool start(struct vr_front *f, struct vr_err *err)
{
    struct vr_worker *e = &f->engine;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return vr_fail(err, VR_EIO, "cannot make a socket for the engine: %s", strerror(errno));
    int room = 1 << 20;
    setsockopt(pair[0], SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    sigset_t all, old;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &old); /* the child must not run our handlers */
    pid_t front = getpid(), pid = fork();
    if (pid == 0) become_engine(f->config, e->load, pair[1], front);
    int error = errno;
    sigprocmask(SIG_SETMASK, &old, NULL);
    close(pair[1]);
    if (pid < 0) {
        close(pair[0]);
        return vr_fail(err, VR_EIO, "cannot start the engine's process: %s", strerror(error));
    }
    evutil_make_socket_nonblocking(pair[0]);
    e->pid = pid;
    e->fd = pair[0];
    e->percent = 0;
    e->started_ms = e->heard_ms = vr_now_ms();
    e->n_starts++;
    f->metrics.engine_starts++;
    snprintf(e->stage, sizeof e->stage, "start");
    e->out = evbuffer_new();
    e->readable = event_new(f->base, e->fd, EV_READ | EV_PERSIST, on_readable, f);
    e->writable = event_new(f->base, e->fd, EV_WRITE, on_writable, f);
    const struct vr_buf *load = &e->load->load_json;
    if (!e->out || !e->readable || !e->writable || event_add(e->readable, NULL) != 0 ||
        !vr_worker_send(f, VR_WIRE_LOAD, 0, load->data, load->n))
        return vr_fail_nomem(err, "starting the engine");
    tell(f);
    return true;
}

static void link_close(struct vr_worker *e)
{
    if (e->readable) event_free(e->readable);
    if (e->writable) event_free(e->writable);
    if (e->out) evbuffer_free(e->out);
    e->readable = e->writable = NULL;
    e->out = NULL;
    if (e->fd >= 0) close(e->fd);
    e->fd = -1;
    vr_buf_done(&e->in);
    vr_buf_done(&e->status);
    json_decref(e->ready);
    e->ready = NULL;
    e->n_seq = 0;
}

/* --- frames out --- */

bool vr_worker_send(struct vr_front *f, enum vr_wire_kind kind, uint32_t id, const void *payload, size_t n)
{
    struct vr_worker *e = &f->engine;
    if (e->fd < 0 || (kind == VR_WIRE_REQUEST && e->state != VR_WORKER_READY)) return false;
    size_t waits = evbuffer_get_length(e->out);
    if (kind == VR_WIRE_REQUEST && (waits + n > MAX_OUT_BYTES || n > MAX_REQUEST)) return false;
    uint8_t head[VR_WIRE_HEAD];
    for (int i = 0; i < 4; i++) {
        head[i] = (uint8_t)(n >> (8 * i));
        head[5 + i] = (uint8_t)(id >> (8 * i));
    }
    head[4] = (uint8_t)kind;
    struct iovec v[2] = { { head, sizeof head }, { (void *)(uintptr_t)payload, n } };
    struct msghdr m = { .msg_iov = v, .msg_iovlen = 2 };
    ssize_t sent = waits ? 0 : sendmsg(e->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
    size_t done = sent > 0 ? (size_t)sent : 0, in_head = done < sizeof head ? done : sizeof head;
    if (done == sizeof head + n) return true;
    if (evbuffer_add(e->out, head + in_head, sizeof head - in_head) != 0 ||
        evbuffer_add(e->out, (const char *)payload + (done - in_head), n - (done - in_head)) != 0)
        return false;
    event_add(e->writable, NULL);
    return true;
}

static void on_writable(evutil_socket_t fd, short what, void *ctx)
{
    (void)what;
    struct vr_worker *e = &((struct vr_front *)ctx)->engine;
    evbuffer_write(e->out, fd); /* an error shows on the reading side */
    if (evbuffer_get_length(e->out)) event_add(e->writable, NULL);
}

/* --- what goes wrong --- */

/* FAILED: the process ends by itself after it. */
static bool on_failed(struct vr_front *f, const struct vr_frame *frame)
{
    struct vr_worker *e = &f->engine;
    const struct vr_server_config *c = f->config;
    struct vr_failure why;
    enum vr_worker_state next;
    if (!vr_worker_next(e->state, VR_ON_SAID_FAILED, &next) || !vr_failure_read(frame->data, frame->n, &why))
        return false;
    f->metrics.engine_failures++;
    snprintf(e->trouble, sizeof e->trouble, "%s", why.message);
    if (next == VR_WORKER_STOPPING) return true;
    bool is_short = why.out_of_memory && c->replan_argv && c->learned;
    if (is_short && e->replans < VR_MAX_RECOVERIES && vr_recovery_failed(c->learned, e->load, &why)) {
        e->replans++;
        vr_log(VR_WARN, "%s; planning again with less for it", e->trouble);
        return happens(f, VR_ON_SAID_SHORT);
    }
    struct vr_err err = { 0 };
    if (is_short && e->replans == VR_MAX_RECOVERIES)
        vr_fail(&err, VR_ENOFIT, "%.900s; %d plans with less memory did not help", why.message, VR_MAX_RECOVERIES);
    else
        vr_fail(&err, why.out_of_memory ? VR_ENOFIT : VR_EENGINE, "%s", why.message);
    if (!happens(f, VR_ON_SAID_FAILED)) return false;
    snprintf(e->trouble, sizeof e->trouble, "%s", err.msg);
    if (e->n_ready == 0)
        give_up(f, &err);
    else
        vr_log(VR_ERROR, "%s", e->trouble);
    return true;
}

/* A pause that doubles with each death of an engine that was up; one that never was is tried again soon. */
static uint64_t pause_after_death(struct vr_front *f)
{
    struct vr_worker *e = &f->engine;
    unsigned shift = e->deaths ? e->deaths - 1 : 0;
    uint64_t ms = (uint64_t)f->config->limits.restart_ms << (shift < 16 ? shift : 16);
    if (ms > MAX_RESTART_MS) ms = MAX_RESTART_MS;
    char in[24];
    snprintf(in, sizeof in, "%" PRIu64, ms);
    vr_log_fields(VR_ERROR, (const struct vr_field[]){ { "restart_in_ms", in }, { 0 } }, "%s", e->trouble);
    return ms;
}

static void start_again(struct vr_front *f)
{
    struct vr_worker *e = &f->engine;
    struct vr_err err = { 0 };
    if (start(f, &err)) return;
    vr_log(VR_ERROR, "%s", err.msg); /* out of processes or memory: it may pass */
    if (e->pid) {
        kill(e->pid, SIGKILL); /* it waits for a message that never comes; its end starts another */
        return;
    }
    e->pause_ms = NOT_STARTED_MS;
    if (!happens(f, VR_ON_NOT_STARTED)) vr_log(VR_ERROR, "no engine can be started now");
}

static void on_restart(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    if (!happens(ctx, VR_ON_TIMER)) vr_log(VR_DEBUG, "a timer that nobody waits for");
}

/* The end of the socket: calls in flight hear of it at once. */
static void link_lost(struct vr_front *f)
{
    struct vr_worker *e = &f->engine;
    if (e->fd < 0) return;
    link_close(e);
    e->heard_ms = vr_now_ms();
    if (happens(f, VR_ON_HUNG_UP) && e->state == VR_WORKER_LOST)
        snprintf(e->trouble, sizeof e->trouble, "the engine's process ended unexpectedly");
    if (f->calls.n == 0) return;
    vr_log(VR_ERROR, "%u requests end with an error: %s", f->calls.n, e->trouble);
    VR_AUTO_BUF message = { 0 };
    vr_buf_addf(&message, "%s; it is being started again, please retry", e->trouble);
    vr_calls_fail_all(f, 503, "engine_died", vr_buf_str(&message));
}

/* It died without a word. */
static void note_crash(struct vr_front *f, int status)
{
    struct vr_worker *e = &f->engine;
    f->metrics.engine_crashes++;
    if (WIFSIGNALED(status))
        snprintf(e->trouble, sizeof e->trouble, "the engine's process was ended by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        snprintf(e->trouble, sizeof e->trouble, "the engine's process ended with status %d", WEXITSTATUS(status));
}

/* The process is reaped. */
static void ended(struct vr_front *f, int status)
{
    struct vr_worker *e = &f->engine;
    bool good_run = e->ready_ms && vr_now_ms() - e->ready_ms > GOOD_MS;
    link_lost(f);
    e->pid = 0;
    e->ready_ms = 0;
    if (e->state == VR_WORKER_LOST) note_crash(f, status);
    if (e->state == VR_WORKER_LOST || e->state == VR_WORKER_FAILED) {
        e->deaths = good_run ? 1 : e->deaths + 1;
        if (e->n_ready == 0 && e->deaths >= MAX_EARLY_DEATHS) {
            struct vr_err err = { 0 };
            vr_fail(&err, VR_EENGINE, "%.600s %u times while it loaded %s; 'vram-llm doctor' may say why", e->trouble,
                    e->deaths, f->config->model_path);
            return give_up(f, &err);
        }
        e->pause_ms = pause_after_death(f);
    }
    if (!happens(f, VR_ON_EXITED)) vr_log(VR_ERROR, "an engine ended that was none");
}

/* --- another plan --- */

void vr_worker_planned(struct vr_front *f, struct vr_load *next)
{
    struct vr_worker *e = &f->engine;
    vr_load_done(&e->replanned);
    e->replanned = *next;
    *next = (struct vr_load){ 0 };
    e->load = &e->replanned;
    e->n_plans++;
    e->pause_ms = 0;
    if (!happens(f, VR_ON_PLANNED)) vr_log(VR_DEBUG, "a plan that nobody waits for");
}

void vr_worker_not_planned(struct vr_front *f, const struct vr_err *why)
{
    struct vr_worker *e = &f->engine;
    if (e->n_ready == 0) return give_up(f, why);
    snprintf(e->trouble, sizeof e->trouble, "%s", why->msg);
    e->deaths++;
    e->pause_ms = pause_after_death(f); /* then with the plan there is: others may give memory back */
    if (!happens(f, VR_ON_NOT_PLANNED)) vr_log(VR_DEBUG, "a plan that nobody waits for");
}

/* --- frames in --- */

static bool on_progress(struct vr_front *f, const struct vr_frame *frame)
{
    struct vr_worker *e = &f->engine;
    json_t *tree = json_loadb((const char *)frame->data, frame->n, 0, NULL);
    const char *stage = json_string_value(json_object_get(tree, "stage"));
    double percent = json_number_value(json_object_get(tree, "percent"));
    if (stage) snprintf(e->stage, sizeof e->stage, "%.15s", stage);
    e->percent = percent < 0 ? 0 : percent > 100 ? 100 : (int)percent;
    json_decref(tree);
    tell(f);
    return tree != NULL;
}

static bool on_ready(struct vr_front *f, const struct vr_frame *frame)
{
    struct vr_worker *e = &f->engine;
    enum vr_worker_state next;
    if (!vr_worker_next(e->state, VR_ON_SAID_READY, &next)) return false;
    if (next != VR_WORKER_READY) return true; /* too late: it has been told to end */
    json_t *tree = json_loadb((const char *)frame->data, frame->n, 0, NULL);
    if (!json_is_object(tree)) return json_decref(tree), false;
    json_int_t n = json_integer_value(json_object_get(tree, "n_seq"));
    e->ready = tree;
    e->n_seq = n > 0 && n < 100000 ? (unsigned)n : 1;
    e->n_ready++;
    e->replans = 0;
    if (f->config->learned && vr_recovery_ready(f->config->learned, e->load, tree, (int64_t)time(NULL)))
        vr_replan_keep(f);
    e->percent = 100;
    e->trouble[0] = '\0';
    e->ready_ms = vr_now_ms();
    char ms[24], seqs[16];
    snprintf(ms, sizeof ms, "%" PRIu64, e->ready_ms - e->started_ms);
    snprintf(seqs, sizeof seqs, "%u", e->n_seq);
    bool ok = happens(f, VR_ON_SAID_READY); /* before the line in the log: a progress bar may be in its place */
    vr_log_fields(VR_INFO, (const struct vr_field[]){ { "ms", ms }, { "n_seq", seqs }, { 0 } }, "%s is ready",
                  f->config->model_id);
    return ok;
}

static bool on_frame(struct vr_front *f, const struct vr_frame *frame)
{
    struct vr_worker *e = &f->engine;
    switch (frame->kind) {
    case VR_WIRE_PROGRESS: return on_progress(f, frame);
    case VR_WIRE_READY: return on_ready(f, frame);
    case VR_WIRE_FAILED: return on_failed(f, frame);
    case VR_WIRE_STATUS:
        vr_buf_clear(&e->status);
        vr_buf_add(&e->status, frame->data, frame->n);
        return true;
    default: return vr_calls_frame(f, frame);
    }
}

/* Reads once and handles the frames that are whole. False: the link is over. */
static bool read_frames(struct vr_front *f)
{
    struct vr_worker *e = &f->engine;
    struct vr_buf *in = &e->in;
    size_t had = in->n;
    if (in->cap < had + READ_BYTES + 1) vr_buf_addc(in, 0, READ_BYTES); /* room, which stays ours */
    if (in->failed) return false;
    ssize_t n;
    do n = recv(e->fd, in->data + had, READ_BYTES, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    in->n = had + (n > 0 ? (size_t)n : 0);
    if (n < 0 && errno == EAGAIN) return true;
    if (n <= 0) return false;
    e->heard_ms = vr_now_ms();
    size_t at = 0;
    for (;;) {
        struct vr_frame frame;
        long len = vr_wire_parse((const uint8_t *)in->data + at, in->n - at, VR_FROM_ENGINE, &frame);
        if (len == 0) break;
        if (len < 0 || !on_frame(f, &frame)) {
            vr_log(VR_ERROR, "the engine sent a malformed frame%s%s", len < 0 ? "" : ": ",
                   len < 0 ? "" : vr_wire_name(frame.kind));
            vr_calls_flush(f);
            if (e->pid) kill(e->pid, SIGKILL);
            return false;
        }
        at += (size_t)len;
    }
    vr_calls_flush(f);
    in->n -= at;
    memmove(in->data, in->data + at, in->n);
    if (in->n == 0 && in->cap > KEEP_BYTES) vr_buf_done(in);
    return true;
}

static void on_readable(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    struct vr_front *f = ctx;
    if (!read_frames(f)) link_lost(f);
}

static void on_child(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    struct vr_front *f = ctx;
    int status;
    if (!f->engine.pid || waitpid(f->engine.pid, &status, WNOHANG) != f->engine.pid) return;
    while (f->engine.fd >= 0 && read_frames(f)) { /* its last words, up to the end of the stream */
        struct vr_worker *e = &f->engine;
        char byte;
        if (recv(e->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0) break;
    }
    ended(f, status);
}

/* --- once a second --- */

static void on_tick(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    struct vr_front *f = ctx;
    struct vr_worker *e = &f->engine;
    uint64_t now = vr_now_ms();
    if (e->pid && e->fd < 0 && now - e->heard_ms > END_GRACE_MS) kill(e->pid, SIGKILL);
    uint64_t silent = f->config->limits.silent_seconds * 1000;
    if (e->state == VR_WORKER_READY && f->calls.n && now - e->heard_ms > silent) {
        vr_log(VR_ERROR, "the engine has said nothing for %u s; it is started again", f->config->limits.silent_seconds);
        kill(e->pid, SIGKILL);
    }
    if (e->state == VR_WORKER_READY && !vr_worker_send(f, VR_WIRE_STATS, 0, NULL, 0))
        vr_log(VR_DEBUG, "the engine takes no questions");
    if (f->stopping && now > f->stop_at_ms) {
        if (f->calls.n) vr_log(VR_WARN, "%u answers were not finished in time", f->calls.n);
        vr_calls_fail_all(f, 503, "stopped", "the request was ended because the server is stopping");
        if (e->pid && now > f->stop_at_ms + EXIT_MS) kill(e->pid, SIGKILL);
    }
}

/* --- lifecycle --- */

bool vr_worker_open(struct vr_front *f, struct vr_err *err)
{
    struct vr_worker *e = &f->engine;
    e->state = VR_WORKER_LOADING;
    e->load = f->config->load;
    e->fd = -1;
    e->child = evsignal_new(f->base, SIGCHLD, on_child, f);
    e->restart = evtimer_new(f->base, on_restart, f);
    e->tick = event_new(f->base, -1, EV_PERSIST, on_tick, f);
    e->tasks = vr_tasks_new(f->base, 1, 0);
    if (!e->child || !e->restart || !e->tick || !e->tasks || event_add(e->child, NULL) != 0 ||
        event_add(e->tick, &(struct timeval){ 1, 0 }) != 0)
        return vr_fail_nomem(err, "starting the engine");
    return start(f, err);
}

void vr_worker_stop(struct vr_front *f, uint32_t ms)
{
    struct vr_worker *e = &f->engine;
    bool hears = e->state == VR_WORKER_READY; /* before that it would not, and after it there is nothing to finish */
    event_del(e->restart);
    vr_task_cancel(e->planning);
    e->planning = NULL;
    uint8_t p[4] = { (uint8_t)ms, (uint8_t)(ms >> 8), (uint8_t)(ms >> 16), (uint8_t)(ms >> 24) };
    if (e->pid && (!hears || !vr_worker_send(f, VR_WIRE_STOP, 0, p, sizeof p))) kill(e->pid, SIGKILL);
    if (!happens(f, VR_ON_STOP)) vr_log(VR_DEBUG, "stopped twice");
}

void vr_worker_close(struct vr_front *f)
{
    struct vr_worker *e = &f->engine;
    if (e->pid) {
        kill(e->pid, SIGKILL);
        while (waitpid(e->pid, NULL, 0) < 0 && errno == EINTR) {}
        e->pid = 0;
    }
    link_close(e);
    vr_tasks_free(e->tasks);
    if (e->child) event_free(e->child);
    if (e->restart) event_free(e->restart);
    if (e->tick) event_free(e->tick);
    vr_load_done(&e->replanned);
}
