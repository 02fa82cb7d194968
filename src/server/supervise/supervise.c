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
#include <time.h>

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
#define MAX_ARGS         16
#define MAX_RESTART_MS   30000
#define MAX_EARLY_DEATHS 3     /* while it loads for the first time */
#define GOOD_MS          60000 /* an engine that was up for so long begins with a clean slate */
#define END_GRACE_MS     2000  /* between the end of its socket and ours of its patience */
#define EXIT_MS          5000  /* to end after its last answer, when it is told to */
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

/* A terminal has one line, for one model. */
static void tell(const struct vr_worker *e)
{
    const struct vr_server_config *c = e->front->config;
    if (c->tell && !c->on_demand) c->tell(c->ctx, vr_worker_state_name(e->state), e->percent);
}

static void start_again(struct vr_worker *e);

/* What a state begins with. */
static void enter(struct vr_worker *e)
{
    switch (e->state) {
    case VR_WORKER_LOADING: start_again(e); break;
    case VR_WORKER_READY:
        tell(e);
        vr_queue_kick(e->model);
        vr_fleet_freed(e->front); /* it may leave from now on */
        break;
    case VR_WORKER_PLANNING: /* now that the memory it had is free again */
        e->plan_from_ms = vr_now_ms();
        vr_replan(e);
        break;
    case VR_WORKER_WAITING:
        e->restart_at_ms = vr_now_ms() + e->pause_ms;
        event_add(e->restart,
                  &(struct timeval){ (time_t)(e->pause_ms / 1000), (suseconds_t)(e->pause_ms % 1000 * 1000) });
        tell(e);
        break;
    default: break;
    }
    vr_fleet_changed(e->front);
}

/* False: that cannot happen now. */
static bool happens(struct vr_worker *e, enum vr_worker_event event)
{
    enum vr_worker_state before = e->state, next;
    if (!vr_worker_next(before, event, &next)) return false;
    e->state = next;
    if (next != before) enter(e);
    return true;
}

/* Nobody waits for a model that never was up, where it is the only one. */
static bool is_final(const struct vr_worker *e) { return e->n_ready == 0 && !e->front->config->on_demand; }

/* The server ends, and says why. */
static void give_up(struct vr_worker *e, const struct vr_err *why)
{
    if (happens(e, VR_ON_GAVE_UP)) vr_front_fail(e->front, why);
}

unsigned vr_worker_retry_s(const struct vr_worker *e)
{
    double s = 1;
    if (e->state == VR_WORKER_READY && e->n_seq)
        s = e->front->calls.average_ms / 1e3 * e->model->n_texts / e->n_seq / 2;
    if (e->state == VR_WORKER_LOADING || e->state == VR_WORKER_ROOM) s = 2;
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

/* LOAD, with the CPU backend that another engine has proven in a second of processor time: it works for this one. */
static bool send_load(struct vr_worker *e)
{
    const struct vr_buf *load = &e->load->load_json;
    json_t *tree = *e->front->cpu_path ? json_loadb(load->data, load->n, 0, NULL) : NULL;
    const char *given = json_string_value(json_object_get(tree, "cpu"));
    bool known =
        given && strcmp(given, "auto") == 0 && json_object_set_new(tree, "cpu", json_string(e->front->cpu_path)) == 0;
    VR_AUTO_FREE char *text = known ? json_dumps(tree, JSON_COMPACT) : NULL;
    json_decref(tree);
    return text ? vr_worker_send(e, VR_WIRE_LOAD, 0, text, strlen(text))
                : vr_worker_send(e, VR_WIRE_LOAD, 0, load->data, load->n);
}

static bool start_process(struct vr_worker *e, struct vr_err *err)
{
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
    if (pid == 0) become_engine(e->front->config, e->load, pair[1], front);
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
    e->sent_bytes = e->load_from_ms = 0;
    e->hung = e->came_up = false;
    e->started_ms = e->heard_ms = vr_now_ms();
    e->n_starts++;
    e->front->metrics.engine_starts++;
    vr_served_loads(e->model);
    snprintf(e->stage, sizeof e->stage, "start");
    e->out = evbuffer_new();
    e->readable = event_new(e->front->base, e->fd, EV_READ | EV_PERSIST, on_readable, e);
    e->writable = event_new(e->front->base, e->fd, EV_WRITE, on_writable, e);
    if (!e->out || !e->readable || !e->writable || event_add(e->readable, NULL) != 0 || !send_load(e))
        return vr_fail_nomem(err, "starting the engine");
    tell(e);
    return true;
}

static bool start(struct vr_worker *e, struct vr_err *err)
{
    vr_reserve_release(&e->front->reserve);
    bool ok = start_process(e, err);
    vr_reserve_fill(&e->front->reserve);
    return ok;
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
    e->pulse = (struct vr_wire_pulse){ 0 };
    e->pulse_ms = 0;
}

/* --- frames out --- */

bool vr_worker_send(struct vr_worker *e, enum vr_wire_kind kind, uint32_t id, const void *payload, size_t n)
{
    if (e->fd < 0 || (kind == VR_WIRE_REQUEST && e->state != VR_WORKER_READY)) return false;
    size_t waits = evbuffer_get_length(e->out);
    if (kind == VR_WIRE_REQUEST && (waits + n > MAX_OUT_BYTES || n > VR_MAX_REQUEST_BYTES)) return false;
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
    struct vr_worker *e = ctx;
    evbuffer_write(e->out, fd); /* an error shows on the reading side */
    if (evbuffer_get_length(e->out))
        event_add(e->writable, NULL);
    else
        vr_queue_kick(e->model);
}

/* --- what goes wrong --- */

static void log_trouble(const struct vr_worker *e)
{
    vr_log_fields(VR_ERROR, (const struct vr_field[]){ { "model", e->model->config->id }, { 0 } }, "%s", e->trouble);
}

/* Split mode tensor, in which the engine crashes with some models: whole layers are next, and that is remembered.
 * False: that is not what it was. */
static bool blame_split(struct vr_worker *e)
{
    struct vr_learned *learned = e->front->config->learned;
    if (!e->load->split.id[0] || !e->model->config->replan_argv || !learned || e->split_off) return false;
    vr_learned_split_died(learned, &e->load->split, e->trouble, (int64_t)time(NULL));
    e->split_off = true;
    vr_replan_keep(e->front);
    vr_log(VR_WARN, "%s, in split mode tensor; planning again with whole layers", e->trouble);
    return true;
}

/* Devices of other machines: one of those may be gone. Planning asks them all again, and leaves out who does not
 * answer. False: there are none, or that did not help. */
static bool blame_node(struct vr_worker *e)
{
    bool can = e->model->config->replan_argv && e->front->config->learned;
    if (!vr_load_borrowed(e->load) || !can || e->replans == VR_MAX_RECOVERIES) return false;
    e->replans++;
    vr_log(VR_WARN, "%s; planning again with the machines that answer", e->trouble);
    return true;
}

/* FAILED: the process ends by itself after it. */
static bool on_failed(struct vr_worker *e, const struct vr_frame *frame)
{
    const struct vr_server_config *c = e->front->config;
    struct vr_failure why;
    enum vr_worker_state next;
    if (!vr_worker_next(e->state, VR_ON_SAID_FAILED, &next) || !vr_failure_read(frame->data, frame->n, &why))
        return false;
    e->front->metrics.engine_failures++;
    e->front->cpu_path[0] = '\0';
    snprintf(e->trouble, sizeof e->trouble, "%s", why.message);
    if (next == VR_WORKER_STOPPING || next == VR_WORKER_LEAVING) return true;
    bool is_short = why.out_of_memory && e->model->config->replan_argv && c->learned;
    if (is_short && e->replans < VR_MAX_RECOVERIES && vr_recovery_failed(c->learned, e->load, &why)) {
        e->replans++;
        vr_log(VR_WARN, "%s; planning again with less for it", e->trouble);
        return happens(e, VR_ON_SAID_SHORT);
    }
    if (why.aborted && !why.out_of_memory && blame_split(e)) return happens(e, VR_ON_SAID_SHORT);
    if (!why.out_of_memory && blame_node(e)) return happens(e, VR_ON_SAID_SHORT);
    struct vr_err err = { 0 };
    if (is_short && e->replans == VR_MAX_RECOVERIES)
        vr_fail(&err, VR_ENOFIT, "%.900s; %d plans with less memory did not help", why.message, VR_MAX_RECOVERIES);
    else
        vr_fail(&err, why.out_of_memory ? VR_ENOFIT : VR_EENGINE, "%s", why.message);
    if (!happens(e, VR_ON_SAID_FAILED)) return false;
    snprintf(e->trouble, sizeof e->trouble, "%s", err.msg);
    if (is_final(e))
        give_up(e, &err);
    else
        log_trouble(e);
    return true;
}

unsigned vr_worker_deaths(unsigned before, uint64_t up_ms) { return up_ms > GOOD_MS ? 0 : before; }

uint64_t vr_worker_pause_ms(unsigned deaths, unsigned restart_ms)
{
    unsigned shift = deaths ? deaths - 1 : 0;
    uint64_t ms = (uint64_t)restart_ms << (shift < 16 ? shift : 16);
    return ms < MAX_RESTART_MS ? ms : MAX_RESTART_MS;
}

static uint64_t pause_after_death(struct vr_worker *e)
{
    uint64_t ms = vr_worker_pause_ms(e->deaths, e->front->config->limits.restart_ms);
    char in[24];
    snprintf(in, sizeof in, "%" PRIu64, ms);
    vr_log_fields(VR_ERROR,
                  (const struct vr_field[]){ { "model", e->model->config->id }, { "restart_in_ms", in }, { 0 } }, "%s",
                  e->trouble);
    return ms;
}

static void start_again(struct vr_worker *e)
{
    struct vr_err err = { 0 };
    if (start(e, &err)) return;
    vr_log(VR_ERROR, "%s", err.msg); /* out of processes or memory: it may pass */
    if (e->pid) {
        kill(e->pid, SIGKILL); /* it waits for a message that never comes; its end starts another */
        return;
    }
    e->pause_ms = NOT_STARTED_MS;
    if (!happens(e, VR_ON_NOT_STARTED)) vr_log(VR_ERROR, "no engine can be started now");
}

static void on_restart(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    struct vr_worker *e = ctx;
    if (!happens(e, e->front->config->on_demand ? VR_ON_RESTED : VR_ON_TIMER))
        vr_log(VR_DEBUG, "a timer that nobody waits for");
}

/* Those that it had end with an error; those that wait do so, too, unless it leaves for another and comes back. */
static void fail_calls(struct vr_worker *e)
{
    struct vr_served *m = e->model;
    bool leaves = e->state == VR_WORKER_LEAVING, was_up = e->ready_ms != 0;
    if (m->n_calls == 0 || (leaves && m->queue.running == 0)) return;
    VR_AUTO_BUF message = { 0 };
    if (was_up || !e->front->config->on_demand)
        vr_buf_addf(&message, "%s; it is being restarted, please retry", e->trouble);
    else
        vr_buf_addf(&message, "model '%s' could not be loaded: %s", m->config->id, e->trouble);
    vr_log(VR_ERROR, "%u requests ended with an error: %s", m->n_calls, e->trouble);
    vr_calls_fail(m, leaves ? VR_CALLS_SENT : VR_CALLS_ALL, 503,
                  was_up || !e->front->config->on_demand ? "engine_died" : "model_load_failed", vr_buf_str(&message));
}

/* The end of the socket: calls in flight hear of it at once. */
static void link_lost(struct vr_worker *e)
{
    if (e->fd < 0) return;
    link_close(e);
    vr_reserve_fill(&e->front->reserve);
    e->heard_ms = vr_now_ms();
    if (happens(e, VR_ON_HUNG_UP) && e->state == VR_WORKER_LOST)
        snprintf(e->trouble, sizeof e->trouble, "the engine's process ended unexpectedly");
    if (e->state != VR_WORKER_SHORT || !e->front->config->on_demand || e->ready_ms) fail_calls(e);
}

/* It died without a word. */
static void note_crash(struct vr_worker *e, int status)
{
    e->front->metrics.engine_crashes++;
    e->front->cpu_path[0] = '\0';
    if (e->hung)
        snprintf(e->trouble, sizeof e->trouble, "the engine's process stopped responding and was killed");
    else if (WIFSIGNALED(status))
        snprintf(e->trouble, sizeof e->trouble, "the engine's process was ended by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        snprintf(e->trouble, sizeof e->trouble, "the engine's process ended with status %d", WEXITSTATUS(status));
}

/* By its own fault, not because somebody killed it. */
static bool crashed(const struct vr_worker *e, int status)
{
    static const int faults[] = { SIGABRT, SIGFPE, SIGSEGV, SIGBUS, SIGILL };
    for (size_t i = 0; i < VR_COUNT(faults); i++)
        if (WIFSIGNALED(status) && WTERMSIG(status) == faults[i]) return true;
    return e->hung;
}

/* The process is reaped. */
static void ended(struct vr_worker *e, int status)
{
    e->deaths = vr_worker_deaths(e->deaths, e->ready_ms ? vr_now_ms() - e->ready_ms : 0);
    link_lost(e);
    e->pid = 0;
    e->ready_ms = 0;
    if (e->state == VR_WORKER_LOST) note_crash(e, status);
    if (e->state == VR_WORKER_LOST && crashed(e, status) && (blame_split(e) || blame_node(e)) &&
        !happens(e, VR_ON_BLAMED))
        vr_log(VR_DEBUG, "a plan is blamed that nobody has");
    if (e->state == VR_WORKER_LOST || e->state == VR_WORKER_FAILED) {
        e->deaths++;
        if (is_final(e) && e->deaths >= MAX_EARLY_DEATHS) {
            struct vr_err err = { 0 };
            vr_fail(&err, VR_EENGINE, "%.600s %u times while loading %s; 'vram-llm doctor' may say why", e->trouble,
                    e->deaths, e->model->config->path);
            return give_up(e, &err);
        }
        e->pause_ms = pause_after_death(e);
    }
    if (!happens(e, VR_ON_EXITED)) vr_log(VR_ERROR, "an engine ended that was none");
    vr_fleet_freed(e->front);
}

/* --- another plan --- */

static void put_in_the_way(struct vr_worker *e, json_t *list)
{
    json_decref(e->in_the_way);
    e->in_the_way = list;
}

void vr_worker_planned(struct vr_worker *e, struct vr_load *next)
{
    vr_load_done(&e->replanned);
    e->replanned = *next;
    *next = (struct vr_load){ 0 };
    e->load = &e->replanned;
    e->host_bytes = vr_load_host_bytes(e->load);
    json_t *in_the_way = NULL;
    if (e->in_the_way) e->trouble[0] = '\0'; /* it is out of the way */
    bool deferred = vr_fleet_defers(e->model, &in_the_way);
    put_in_the_way(e, in_the_way);
    if (deferred && happens(e, VR_ON_BLOCKED)) return;
    e->n_plans += !e->front->config->on_demand || e->replans || e->split_off;
    e->planned_ms = vr_now_ms();
    if (!happens(e, VR_ON_PLANNED)) vr_log(VR_DEBUG, "a plan that nobody waits for");
}

void vr_worker_not_planned(struct vr_worker *e, const struct vr_err *why, json_t *in_the_way)
{
    if (in_the_way && e->in_the_way) json_array_extend(in_the_way, e->in_the_way); /* memory that was not given back */
    put_in_the_way(e, in_the_way);
    struct vr_learned *learned = e->front->config->learned;
    bool on_demand = e->front->config->on_demand;
    if (is_final(e)) return give_up(e, why);
    bool short_beside = on_demand && e->replans && learned->n_fails; /* without the others it may fit */
    if (short_beside) vr_recovery_unplanned(learned, e->load, (int64_t)time(NULL));
    if (short_beside || vr_fleet_waits(e->model, why)) { /* for those that are in its way */
        if (!happens(e, VR_ON_BLOCKED)) vr_log(VR_DEBUG, "a plan that nobody waits for");
        return;
    }
    snprintf(e->trouble, sizeof e->trouble, "%s", why->msg);
    e->deaths++;
    e->pause_ms = pause_after_death(e); /* then with the plan there is: others may give memory back */
    if (on_demand) fail_calls(e);
    if (!happens(e, VR_ON_NOT_PLANNED)) vr_log(VR_DEBUG, "a plan that nobody waits for");
}

/* --- frames in --- */

double vr_worker_sent_mb_s(const struct vr_worker *e)
{
    uint64_t now = vr_now_ms();
    if (!e->load_from_ms || now <= e->load_from_ms) return 0;
    return (double)e->sent_bytes / 1e3 / (double)(now - e->load_from_ms);
}

/* What went to other machines, and how fast. */
static void log_sent(const json_t *ready)
{
    double bytes = json_number_value(json_object_get(ready, "sent_bytes")),
           ms = json_number_value(json_object_get(ready, "load_ms"));
    if (bytes > 0 && ms > 0)
        vr_log(VR_INFO, "%.1f MiB sent to other machines while loading, %.0f MB/s", bytes / 1048576, bytes / 1e3 / ms);
}

static bool on_progress(struct vr_worker *e, const struct vr_frame *frame)
{
    json_t *tree = json_loadb((const char *)frame->data, frame->n, 0, NULL);
    const char *stage = json_string_value(json_object_get(tree, "stage"));
    double percent = json_number_value(json_object_get(tree, "percent"));
    if (stage) snprintf(e->stage, sizeof e->stage, "%.15s", stage);
    e->percent = percent < 0 ? 0 : percent > 100 ? 100 : (int)percent;
    if (!e->load_from_ms) e->load_from_ms = vr_now_ms();
    json_int_t sent = json_integer_value(json_object_get(tree, "sent_bytes"));
    e->sent_bytes = sent > 0 ? (uint64_t)sent : 0;
    json_decref(tree);
    tell(e);
    return tree != NULL;
}

static bool on_ready(struct vr_worker *e, const struct vr_frame *frame)
{
    enum vr_worker_state next;
    if (!vr_worker_next(e->state, VR_ON_SAID_READY, &next)) return false;
    if (next != VR_WORKER_READY) return true; /* too late: it has been told to end */
    json_t *tree = json_loadb((const char *)frame->data, frame->n, 0, NULL);
    if (!json_is_object(tree)) return json_decref(tree), false;
    json_int_t n = json_integer_value(json_object_get(tree, "n_seq"));
    e->ready = tree;
    e->n_seq = n > 0 && n < 100000 ? (unsigned)n : 1;
    e->n_ready++;
    e->came_up = true;
    const char *cpu = json_string_value(json_object_get(tree, "cpu_path"));
    if (cpu && strlen(cpu) < sizeof e->front->cpu_path) memcpy(e->front->cpu_path, cpu, strlen(cpu) + 1);
    e->replans = 0;
    struct vr_learned *learned = e->front->config->learned;
    if (learned && vr_recovery_ready(learned, e->load, tree, (int64_t)time(NULL))) vr_replan_keep(e->front);
    e->percent = 100;
    e->trouble[0] = '\0';
    e->ready_ms = vr_now_ms();
    char ms[24], seqs[16];
    snprintf(ms, sizeof ms, "%" PRIu64, e->ready_ms - e->started_ms);
    snprintf(seqs, sizeof seqs, "%u", e->n_seq);
    e->load_s = (double)(e->ready_ms - e->started_ms) / 1e3;
    bool ok = happens(e, VR_ON_SAID_READY); /* before the line in the log: a progress bar may be in its place */
    vr_log_fields(VR_INFO, (const struct vr_field[]){ { "ms", ms }, { "n_seq", seqs }, { 0 } }, "%s is ready",
                  e->model->config->id);
    log_sent(tree);
    const char *problem = json_string_value(json_object_get(json_object_get(tree, "chat"), "problem"));
    if (ok && problem) vr_log(VR_WARN, "this model cannot chat, only complete prompts: %s", problem);
    return ok;
}

/* It hears and speaks, but computes nothing while it has something to compute: the threads are watched one by one. */
static bool on_pulse(struct vr_worker *e, const struct vr_frame *frame)
{
    unsigned limit = e->front->config->limits.silent_seconds;
    if (!vr_wire_get_pulse(frame, &e->pulse)) return false;
    e->pulse_ms = vr_now_ms();
    if (e->state != VR_WORKER_READY || e->pulse.stalled_ms / 1000 < limit) return true;
    vr_log(VR_ERROR, "the engine has work but has made no progress for %u s; restarting it", limit);
    e->hung = true;
    kill(e->pid, SIGKILL);
    return true;
}

static bool on_frame(struct vr_worker *e, const struct vr_frame *frame)
{
    switch (frame->kind) {
    case VR_WIRE_PROGRESS: return on_progress(e, frame);
    case VR_WIRE_READY: return on_ready(e, frame);
    case VR_WIRE_FAILED: return on_failed(e, frame);
    case VR_WIRE_PULSE: return on_pulse(e, frame);
    case VR_WIRE_STATUS:
        vr_buf_clear(&e->status);
        vr_buf_add(&e->status, frame->data, frame->n);
        return true;
    case VR_WIRE_NOTE: vr_log(VR_WARN, "%.*s", (int)frame->n, (const char *)frame->data); return true;
    default: return vr_calls_frame(e->model, frame);
    }
}

/* Reads once and handles the frames that are whole. False: the link is over. */
static bool read_frames(struct vr_worker *e)
{
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
        if (len < 0 || !on_frame(e, &frame)) {
            vr_log(VR_ERROR, "the engine sent a malformed frame%s%s", len < 0 ? "" : ": ",
                   len < 0 ? "" : vr_wire_name(frame.kind));
            vr_calls_flush(e->front);
            if (e->pid) kill(e->pid, SIGKILL);
            return false;
        }
        at += (size_t)len;
    }
    vr_calls_flush(e->front);
    in->n -= at;
    memmove(in->data, in->data + at, in->n);
    if (in->n == 0 && in->cap > KEEP_BYTES) vr_buf_done(in);
    return true;
}

static void on_readable(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    struct vr_worker *e = ctx;
    if (!read_frames(e)) link_lost(e);
}

void vr_worker_reap(struct vr_worker *e)
{
    int status;
    if (!e->pid || waitpid(e->pid, &status, WNOHANG) != e->pid) return;
    while (e->fd >= 0 && read_frames(e)) { /* its last words, up to the end of the stream */
        char byte;
        if (recv(e->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0) break;
    }
    ended(e, status);
}

/* --- once a second --- */

void vr_worker_tick(struct vr_worker *e, uint64_t now)
{
    struct vr_front *f = e->front;
    unsigned limit = f->config->limits.silent_seconds;
    if (e->pid && e->fd < 0 && now - e->heard_ms > END_GRACE_MS) kill(e->pid, SIGKILL);
    uint64_t silent = limit * UINT64_C(1000);
    bool deaf = e->pulse_ms && now - e->pulse_ms > silent; /* it is asked every second, and its reader answers */
    if (e->state == VR_WORKER_READY && e->model->n_calls && (deaf || now - e->heard_ms > silent)) {
        vr_log(VR_ERROR, "the engine has not answered for %u s; restarting it", limit);
        e->hung = true;
        kill(e->pid, SIGKILL);
    }
    vr_queue_kick(e->model); /* whatever kept it from being sent may be over */
    if (e->state == VR_WORKER_READY && !vr_worker_send(e, VR_WIRE_STATS, 0, NULL, 0))
        vr_log(VR_DEBUG, "the engine takes no questions");
    bool late =
        f->stopping ? now > f->stop_at_ms + EXIT_MS : e->state == VR_WORKER_LEAVING && now > e->told_ms + EXIT_MS;
    if (e->pid && late) kill(e->pid, SIGKILL);
}

/* --- lifecycle --- */

bool vr_worker_open(struct vr_worker *e, struct vr_served *model, struct vr_err *err)
{
    e->model = model;
    e->front = model->front;
    e->state = VR_WORKER_DOWN;
    e->load = model->config->load;
    e->fd = -1;
    if (e->load) e->host_bytes = vr_load_host_bytes(e->load);
    e->restart = evtimer_new(e->front->base, on_restart, e);
    return e->restart || vr_fail_nomem(err, "starting the engine");
}

bool vr_worker_start(struct vr_worker *e, struct vr_err *err)
{
    e->state = VR_WORKER_LOADING;
    return start(e, err);
}

void vr_worker_load(struct vr_worker *e)
{
    e->replans = 0;
    e->came_up = false;
    if (!happens(e, VR_ON_WANTED)) vr_log(VR_DEBUG, "a model is wanted that is there already");
}

void vr_worker_has_room(struct vr_worker *e)
{
    if (!happens(e, VR_ON_HAS_ROOM)) vr_log(VR_DEBUG, "room that nobody waits for");
}

void vr_worker_not_freed(struct vr_worker *e, json_t *in_the_way)
{
    put_in_the_way(e, in_the_way);
    vr_log_fields(VR_WARN, (const struct vr_field[]){ { "model", e->model->config->id }, { 0 } },
                  "memory of the models that left is not free again; planning with what there is");
    if (!happens(e, VR_ON_NOT_FREED)) vr_log(VR_DEBUG, "memory that nobody waits for");
}

/* STOP where it hears it: before that it would not, and after it there is nothing to finish. */
static void end_process(struct vr_worker *e, uint32_t ms)
{
    uint8_t p[4] = { (uint8_t)ms, (uint8_t)(ms >> 8), (uint8_t)(ms >> 16), (uint8_t)(ms >> 24) };
    bool hears = e->state == VR_WORKER_READY;
    event_del(e->restart);
    put_in_the_way(e, NULL);
    vr_task_cancel(e->planning);
    e->planning = NULL;
    e->told_ms = vr_now_ms();
    if (e->pid && (!hears || !vr_worker_send(e, VR_WIRE_STOP, 0, p, sizeof p))) kill(e->pid, SIGKILL);
}

void vr_worker_unload(struct vr_worker *e)
{
    enum vr_worker_state next;
    if (!vr_worker_next(e->state, VR_ON_UNLOAD, &next)) return; /* it ends by itself, or there is nothing to end */
    end_process(e, 0);
    if (!happens(e, VR_ON_UNLOAD)) vr_log(VR_DEBUG, "unloaded twice");
}

void vr_worker_forgive(struct vr_worker *e)
{
    e->trouble[0] = '\0';
    put_in_the_way(e, NULL);
}

void vr_worker_stop(struct vr_worker *e, uint32_t ms)
{
    end_process(e, ms);
    if (!happens(e, VR_ON_STOP)) vr_log(VR_DEBUG, "stopped twice");
}

void vr_worker_close(struct vr_worker *e)
{
    if (!e->model) return;
    if (e->pid) {
        kill(e->pid, SIGKILL);
        while (waitpid(e->pid, NULL, 0) < 0 && errno == EINTR) {}
        e->pid = 0;
    }
    link_close(e);
    if (e->restart) event_free(e->restart);
    put_in_the_way(e, NULL);
    vr_load_done(&e->replanned);
}
