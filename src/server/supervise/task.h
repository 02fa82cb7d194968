/* Tasks: programs that run beside the event loop, most of them this program itself with other arguments.
 *
 * What may take long or die (a plan with its dry runs) runs as a child process, and the loop hears of its end in a
 * callback. A few run at the same time, a few more wait, the next one is refused. Where tasks have owners, the one with
 * the fewest that run is next, and when all places are taken, the owner with the most gives one up to an owner with
 * fewer. A task that is cancelled is killed, and its callback is never called. Nothing here blocks, but for
 * vr_tasks_free, which waits for killed children. */
#ifndef VR_SERVER_SUPERVISE_TASK_H
#define VR_SERVER_SUPERVISE_TASK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/child.h"
#include "base/err.h"

#define VR_ASIDE_NICE 10 /* of what nobody's answer waits for */

struct event_base;
struct vr_tasks;
struct vr_task;

/* How a task ended: `end` belongs to the task and is gone after the call; NULL when it could not be run at all, or gave
 * up its place (VR_ENOMEM), which `err` then explains. A program that cannot be executed has exit status 127. The task
 * itself is gone already. */
typedef void vr_task_done(void *ctx, const struct vr_child_end *end, const struct vr_err *err);

struct vr_task_ask {
    const char *const *argv; /* copied; NULL-terminated */
    const void *input;       /* copied; for its stdin */
    size_t n_input;
    int timeout_ms;    /* from its start, not from when it was asked for; must be > 0 */
    size_t max_output; /* cap for each of stdout and stderr: it is killed when it writes more. 0: 16 MiB */
    const void *whose; /* told apart, never looked into; NULL: nobody's */
    int nice;          /* as in base/child.h */
    vr_task_done *done;
    void *ctx;
};

struct vr_tasks *vr_tasks_new(struct event_base *base, unsigned max_running, unsigned max_waiting);
/* Kills all; no callback is called. */
void vr_tasks_free(struct vr_tasks *tasks);

/* NULL: as many as may run and wait already do (VR_ENOMEM), or it could not be started. */
struct vr_task *vr_task_start(struct vr_tasks *tasks, const struct vr_task_ask *ask, struct vr_err *err) VR_MUST_CHECK;
void vr_task_cancel(struct vr_task *t); /* accepts NULL */

/* The {"error":{"kind","message"}} that this program, as a task, printed (cli/main.c). False: it printed none. */
bool vr_task_error(const struct vr_child_end *end, struct vr_err *out) VR_MUST_CHECK;
/* Why it failed at `what`: that, or how it ended ("planning ran longer than 5,000 ms"). Returns false. */
bool vr_task_failure(const struct vr_child_end *end, int timeout_ms, const char *what, struct vr_err *err);

#endif
