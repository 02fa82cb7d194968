/* A task has an event on each of its four descriptors (base/child.h) and a timer. Its end counts, not that of its
 * streams: a grandchild that keeps a pipe open holds nobody up. A killed task stays in the list, without a callback,
 * until the kernel says that it is gone: only then may the next one run. */
#include "server/supervise/task.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <event2/event.h>
#include <jansson.h>

#include "base/clock.h"

struct vr_task {
    struct vr_tasks *tasks;
    struct vr_task *next;
    struct vr_child child; /* argv and input point into words and input */
    struct vr_child_live live;
    struct vr_child_end end;
    vr_task_done *done; /* NULL: cancelled */
    void *ctx;
    const void *whose;
    bool running, killed;
    double from_ms;
    struct event *events[VR_CHILD_FDS], *timer;
    const char **argv;
    struct vr_buf words, input;
};

struct vr_tasks {
    struct event_base *base;
    struct vr_task *first; /* oldest first */
    unsigned max_running, max_waiting, n_running, n_waiting;
};

/* --- the life of a task --- */

static void drop_event(struct vr_task *j, int which)
{
    if (j->events[which]) event_free(j->events[which]);
    j->events[which] = NULL;
}

static void drop_events(struct vr_task *j)
{
    for (int i = 0; i < VR_CHILD_FDS; i++) drop_event(j, i);
    if (j->timer) event_free(j->timer);
    j->timer = NULL;
}

static void task_free(struct vr_task *j)
{
    drop_events(j);
    vr_child_end_done(&j->end);
    vr_buf_done(&j->words);
    vr_buf_done(&j->input);
    free(j->argv);
    free(j);
}

static void unlink_task(struct vr_task *j)
{
    struct vr_task **at = &j->tasks->first;
    while (*at != j) at = &(*at)->next;
    *at = j->next;
    if (j->running)
        j->tasks->n_running--;
    else
        j->tasks->n_waiting--;
}

static void start_waiting(struct vr_tasks *tasks);

/* Tells and forgets it, and lets the next one run. */
static void finish(struct vr_task *j, const struct vr_child_end *end, const struct vr_err *err)
{
    struct vr_tasks *tasks = j->tasks;
    vr_task_done *done = j->done;
    unlink_task(j);
    start_waiting(tasks);
    if (done) done(j->ctx, end, err);
    task_free(j);
}

static void kill_task(struct vr_task *j)
{
    if (j->killed) return;
    j->killed = true;
    vr_child_kill(&j->live);
    for (int i = VR_CHILD_IN; i < VR_CHILD_END; i++) drop_event(j, i); /* END is still to come */
    event_del(j->timer);
}

/* --- events --- */

/* Waits for more on a descriptor that is still open. An event is never pending while its descriptor may be closed. */
static void again(struct vr_task *j, int which)
{
    if (j->live.fds[which] < 0)
        drop_event(j, which);
    else if (event_add(j->events[which], NULL) != 0)
        kill_task(j); /* no memory */
}

static void on_input(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    struct vr_task *j = ctx;
    vr_child_feed(&j->child, &j->live);
    again(j, VR_CHILD_IN);
}

static void take(struct vr_task *j, int which, struct vr_buf *out)
{
    if (vr_child_take(&j->live, which, out)) {
        again(j, which);
        return;
    }
    j->end.too_much = !out->failed;
    kill_task(j);
}

static void on_out(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    struct vr_task *j = ctx;
    take(j, VR_CHILD_OUT, &j->end.out);
}

static void on_err(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    struct vr_task *j = ctx;
    take(j, VR_CHILD_ERR, &j->end.err);
}

static void on_end(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    struct vr_task *j = ctx;
    struct vr_err err = { 0 };
    drop_events(j); /* finishing closes the descriptors */
    bool ok = vr_child_finish(&j->live, &j->end, &err);
    j->end.ms = vr_now_fine_ms() - j->from_ms;
    finish(j, ok ? &j->end : NULL, &err);
}

static void on_timeout(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    struct vr_task *j = ctx;
    j->end.timed_out = true;
    kill_task(j);
}

/* --- starting --- */

static bool add_events(struct vr_task *j)
{
    static const event_callback_fn calls[VR_CHILD_FDS] = { on_input, on_out, on_err, on_end };
    static const short whats[VR_CHILD_FDS] = { EV_WRITE, EV_READ, EV_READ, EV_READ };
    for (int i = 0; i < VR_CHILD_FDS; i++) {
        j->events[i] = event_new(j->tasks->base, j->live.fds[i], whats[i], calls[i], j);
        if (!j->events[i] || event_add(j->events[i], NULL) != 0) return false;
    }
    struct timeval limit = { j->child.timeout_ms / 1000, j->child.timeout_ms % 1000 * 1000 };
    j->timer = evtimer_new(j->tasks->base, on_timeout, j);
    return j->timer && event_add(j->timer, &limit) == 0;
}

/* Kills it and waits for that. */
static void end_now(struct vr_task *j)
{
    struct vr_err ignored;
    drop_events(j);
    vr_child_kill(&j->live);
    bool told = vr_child_finish(&j->live, &j->end, &ignored);
    (void)told; /* nobody asks how it ended */
}

/* False: it does not run, and its place is as it was. */
static bool run(struct vr_task *j, struct vr_err *err)
{
    vr_child_end_init(&j->end, &j->child);
    j->from_ms = vr_now_fine_ms();
    if (!vr_child_start(&j->child, &j->live, err)) return false;
    if (!add_events(j)) {
        end_now(j);
        return vr_fail_nomem(err, "watching a child process");
    }
    j->running = true;
    j->tasks->n_waiting--;
    j->tasks->n_running++;
    return true;
}

/* Of that owner: those that run, or all. */
static unsigned count_of(const struct vr_tasks *tasks, const void *whose, bool running)
{
    unsigned n = 0;
    for (const struct vr_task *j = tasks->first; j; j = j->next) n += j->whose == whose && (j->running || !running);
    return n;
}

/* The oldest that waits, of those whose owners have the fewest running. */
static struct vr_task *next_waiting(const struct vr_tasks *tasks)
{
    struct vr_task *best = NULL;
    unsigned fewest = 0;
    for (struct vr_task *j = tasks->first; j; j = j->next) {
        unsigned n = j->running ? 0 : count_of(tasks, j->whose, true);
        if (j->running || (best && n >= fewest)) continue;
        best = j;
        fewest = n;
    }
    return best;
}

static void start_waiting(struct vr_tasks *tasks)
{
    while (tasks->n_running < tasks->max_running) {
        struct vr_err err = { 0 };
        struct vr_task *j = next_waiting(tasks);
        if (!j) return;
        if (run(j, &err)) continue;
        finish(j, NULL, &err); /* which starts those behind it */
        return;
    }
}

/* A place for one more of that owner: the newest that waits of the owner with the most goes, if that one still has more
 * afterwards. */
static bool make_place(struct vr_tasks *tasks, const void *whose)
{
    struct vr_task *last = NULL;
    unsigned most = 0;
    for (struct vr_task *j = tasks->first; j; j = j->next) {
        unsigned n = j->running ? 0 : count_of(tasks, j->whose, false);
        if (j->running || n < most) continue;
        last = j;
        most = n;
    }
    if (!last || most <= count_of(tasks, whose, false) + 1) return false;
    struct vr_err err = { 0 };
    vr_fail(&err, VR_ENOMEM, "too many requests of this kind at once, and most of them are yours");
    finish(last, NULL, &err);
    return true;
}

/* Copies of what the caller need not keep. */
static bool copy_ask(struct vr_task *j, const struct vr_task_ask *ask)
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
                                  .max_output = ask->max_output,
                                  .nice = ask->nice };
    j->whose = ask->whose;
    j->done = ask->done;
    j->ctx = ask->ctx;
    return true;
}

struct vr_task *vr_task_start(struct vr_tasks *tasks, const struct vr_task_ask *ask, struct vr_err *err)
{
    if (tasks->n_running >= tasks->max_running && tasks->n_waiting >= tasks->max_waiting &&
        !make_place(tasks, ask->whose)) {
        vr_fail(err, VR_ENOMEM, "%u tasks are running and %u are waiting, which is the limit", tasks->n_running,
                tasks->n_waiting);
        return NULL;
    }
    struct vr_task *j = calloc(1, sizeof *j);
    if (!j || !copy_ask(j, ask)) {
        vr_fail_nomem(err, "starting a program");
        if (j) task_free(j);
        return NULL;
    }
    j->tasks = tasks;
    struct vr_task **at = &tasks->first;
    while (*at) at = &(*at)->next;
    *at = j;
    tasks->n_waiting++;
    if (tasks->n_running >= tasks->max_running || run(j, err)) return j;
    unlink_task(j);
    task_free(j);
    return NULL;
}

void vr_task_cancel(struct vr_task *j)
{
    if (!j) return;
    j->done = NULL;
    if (j->running) {
        kill_task(j);
        return;
    }
    unlink_task(j);
    task_free(j);
}

bool vr_task_error(const struct vr_child_end *end, struct vr_err *out)
{
    enum vr_code code;
    json_t *tree = json_loadb(vr_buf_str(&end->out), end->out.n, 0, NULL), *error = json_object_get(tree, "error");
    const char *message = json_string_value(json_object_get(error, "message"));
    bool said = message && vr_code_parse(json_string_value(json_object_get(error, "kind")), &code);
    if (said) vr_fail(out, code, "%s", message);
    json_decref(tree);
    return said;
}

bool vr_task_failure(const struct vr_child_end *end, int timeout_ms, const char *what, struct vr_err *err)
{
    char how[200];
    const struct vr_child child = { .timeout_ms = timeout_ms };
    if (vr_task_error(end, err)) return false;
    return vr_fail(err, VR_EINTERNAL, "%s %s", what, vr_child_how(&child, end, how, sizeof how));
}

/* --- all of them --- */

struct vr_tasks *vr_tasks_new(struct event_base *base, unsigned max_running, unsigned max_waiting)
{
    struct vr_tasks *tasks = calloc(1, sizeof *tasks);
    if (!tasks) return NULL;
    *tasks = (struct vr_tasks){ .base = base, .max_running = max_running, .max_waiting = max_waiting };
    return tasks;
}

void vr_tasks_free(struct vr_tasks *tasks)
{
    if (!tasks) return;
    while (tasks->first) {
        struct vr_task *j = tasks->first;
        if (j->running) end_now(j);
        unlink_task(j);
        task_free(j);
    }
    free(tasks);
}
