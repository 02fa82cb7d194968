/* A job has an event on each of its four descriptors (base/child.h) and a timer. Its end counts, not that of its
 * streams: a grandchild that keeps a pipe open holds nobody up. A killed job stays in the list, without a callback,
 * until the kernel says that it is gone: only then may the next one run. */
#include "server/job.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <event2/event.h>

struct vr_job {
    struct vr_jobs *jobs;
    struct vr_job *next;
    struct vr_child child; /* argv and input point into words and input */
    struct vr_child_live live;
    struct vr_child_end end;
    vr_job_done *done; /* NULL: cancelled */
    void *ctx;
    bool running, killed;
    double from_ms;
    struct event *events[VR_CHILD_FDS], *timer;
    const char **argv;
    struct vr_buf words, input;
};

struct vr_jobs {
    struct event_base *base;
    struct vr_job *first; /* oldest first */
    unsigned max_running, max_waiting, n_running, n_waiting;
};

static double now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

/* --- the life of a job --- */

static void drop_event(struct vr_job *j, int which)
{
    if (j->events[which]) event_free(j->events[which]);
    j->events[which] = NULL;
}

static void drop_events(struct vr_job *j)
{
    for (int i = 0; i < VR_CHILD_FDS; i++) drop_event(j, i);
    if (j->timer) event_free(j->timer);
    j->timer = NULL;
}

static void job_free(struct vr_job *j)
{
    drop_events(j);
    vr_child_end_done(&j->end);
    vr_buf_done(&j->words);
    vr_buf_done(&j->input);
    free(j->argv);
    free(j);
}

static void unlink_job(struct vr_job *j)
{
    struct vr_job **at = &j->jobs->first;
    while (*at != j) at = &(*at)->next;
    *at = j->next;
    if (j->running)
        j->jobs->n_running--;
    else
        j->jobs->n_waiting--;
}

static void start_waiting(struct vr_jobs *jobs);

/* Tells and forgets it, and lets the next one run. */
static void finish(struct vr_job *j, const struct vr_child_end *end, const struct vr_err *err)
{
    struct vr_jobs *jobs = j->jobs;
    vr_job_done *done = j->done;
    unlink_job(j);
    start_waiting(jobs);
    if (done) done(j->ctx, end, err);
    job_free(j);
}

static void kill_job(struct vr_job *j)
{
    if (j->killed) return;
    j->killed = true;
    vr_child_kill(&j->live);
    for (int i = VR_CHILD_IN; i < VR_CHILD_END; i++) drop_event(j, i); /* END is still to come */
    event_del(j->timer);
}

/* --- events --- */

/* Waits for more on a descriptor that is still open. An event is never pending while its descriptor may be closed. */
static void again(struct vr_job *j, int which)
{
    if (j->live.fds[which] < 0)
        drop_event(j, which);
    else if (event_add(j->events[which], NULL) != 0)
        kill_job(j); /* no memory */
}

static void on_input(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    struct vr_job *j = ctx;
    vr_child_feed(&j->child, &j->live);
    again(j, VR_CHILD_IN);
}

static void take(struct vr_job *j, int which, struct vr_buf *out)
{
    if (vr_child_take(&j->live, which, out)) {
        again(j, which);
        return;
    }
    j->end.too_much = !out->failed;
    kill_job(j);
}

static void on_out(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    struct vr_job *j = ctx;
    take(j, VR_CHILD_OUT, &j->end.out);
}

static void on_err(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    struct vr_job *j = ctx;
    take(j, VR_CHILD_ERR, &j->end.err);
}

static void on_end(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    struct vr_job *j = ctx;
    struct vr_err err = { 0 };
    drop_events(j); /* finishing closes the descriptors */
    bool ok = vr_child_finish(&j->live, &j->end, &err);
    j->end.ms = now_ms() - j->from_ms;
    finish(j, ok ? &j->end : NULL, &err);
}

static void on_timeout(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    struct vr_job *j = ctx;
    j->end.timed_out = true;
    kill_job(j);
}

/* --- starting --- */

static bool add_events(struct vr_job *j)
{
    static const event_callback_fn calls[VR_CHILD_FDS] = { on_input, on_out, on_err, on_end };
    static const short whats[VR_CHILD_FDS] = { EV_WRITE, EV_READ, EV_READ, EV_READ };
    for (int i = 0; i < VR_CHILD_FDS; i++) {
        j->events[i] = event_new(j->jobs->base, j->live.fds[i], whats[i], calls[i], j);
        if (!j->events[i] || event_add(j->events[i], NULL) != 0) return false;
    }
    struct timeval limit = { j->child.timeout_ms / 1000, j->child.timeout_ms % 1000 * 1000 };
    j->timer = evtimer_new(j->jobs->base, on_timeout, j);
    return j->timer && event_add(j->timer, &limit) == 0;
}

/* Kills it and waits for that. */
static void end_now(struct vr_job *j)
{
    struct vr_err ignored;
    drop_events(j);
    vr_child_kill(&j->live);
    bool told = vr_child_finish(&j->live, &j->end, &ignored);
    (void)told; /* nobody asks how it ended */
}

/* False: it does not run, and its place is as it was. */
static bool run(struct vr_job *j, struct vr_err *err)
{
    vr_child_end_init(&j->end, &j->child);
    j->from_ms = now_ms();
    if (!vr_child_start(&j->child, &j->live, err)) return false;
    if (!add_events(j)) {
        end_now(j);
        return vr_fail_nomem(err, "watching a child process");
    }
    j->running = true;
    j->jobs->n_waiting--;
    j->jobs->n_running++;
    return true;
}

static void start_waiting(struct vr_jobs *jobs)
{
    for (struct vr_job *j = jobs->first; j && jobs->n_running < jobs->max_running; j = j->next) {
        struct vr_err err = { 0 };
        if (j->running || run(j, &err)) continue;
        finish(j, NULL, &err); /* which starts those behind it */
        return;
    }
}

/* Copies of what the caller need not keep. */
static bool copy_ask(struct vr_job *j, const struct vr_job_ask *ask)
{
    size_t n = 0;
    while (ask->argv[n]) n++;
    j->argv = calloc(n + 1, sizeof *j->argv);
    for (size_t i = 0; i < n; i++) vr_buf_add(&j->words, ask->argv[i], strlen(ask->argv[i]) + 1);
    vr_buf_add(&j->input, ask->input, ask->n_input);
    if (!j->argv || j->words.failed || j->input.failed) return false;
    const char *word = j->words.data;
    for (size_t i = 0; i < n; i++, word += strlen(word) + 1) j->argv[i] = word;
    j->child = (struct vr_child){ .argv = j->argv,
                                  .input = vr_buf_str(&j->input),
                                  .n_input = j->input.n,
                                  .timeout_ms = ask->timeout_ms,
                                  .max_output = ask->max_output };
    j->done = ask->done;
    j->ctx = ask->ctx;
    return true;
}

struct vr_job *vr_job_start(struct vr_jobs *jobs, const struct vr_job_ask *ask, struct vr_err *err)
{
    if (jobs->n_running >= jobs->max_running && jobs->n_waiting >= jobs->max_waiting) {
        vr_fail(err, VR_ENOMEM, "%u programs run and %u wait for them, which is all this server starts",
                jobs->n_running, jobs->n_waiting);
        return NULL;
    }
    struct vr_job *j = calloc(1, sizeof *j);
    if (!j || !copy_ask(j, ask)) {
        vr_fail_nomem(err, "starting a program");
        if (j) job_free(j);
        return NULL;
    }
    j->jobs = jobs;
    struct vr_job **at = &jobs->first;
    while (*at) at = &(*at)->next;
    *at = j;
    jobs->n_waiting++;
    if (jobs->n_running >= jobs->max_running || run(j, err)) return j;
    unlink_job(j);
    job_free(j);
    return NULL;
}

void vr_job_cancel(struct vr_job *j)
{
    if (!j) return;
    j->done = NULL;
    if (j->running) {
        kill_job(j);
        return;
    }
    unlink_job(j);
    job_free(j);
}

const char *vr_job_how(const struct vr_job_ask *ask, const struct vr_child_end *end, char *out, size_t n)
{
    return vr_child_how(&(struct vr_child){ .timeout_ms = ask->timeout_ms }, end, out, n);
}

/* --- all of them --- */

struct vr_jobs *vr_jobs_new(struct event_base *base, unsigned max_running, unsigned max_waiting)
{
    struct vr_jobs *jobs = calloc(1, sizeof *jobs);
    if (!jobs) return NULL;
    *jobs = (struct vr_jobs){ .base = base, .max_running = max_running, .max_waiting = max_waiting };
    return jobs;
}

void vr_jobs_free(struct vr_jobs *jobs)
{
    if (!jobs) return;
    while (jobs->first) {
        struct vr_job *j = jobs->first;
        if (j->running) end_now(j);
        unlink_job(j);
        job_free(j);
    }
    free(jobs);
}
