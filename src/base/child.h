/* Child processes with a deadline.
 *
 * A child runs a program or a function of ours, gets one block of input, and gives back what it wrote to its standard
 * output and standard error, each up to a cap, and how it ended. When the deadline passes, the whole process group is
 * killed, unless it only waited for a processor so far. No zombie and no descriptor is left on any path; a
 * child dies with its parent (the thread that ran it). It starts with every signal at its default and none blocked. */
#ifndef VR_BASE_CHILD_H
#define VR_BASE_CHILD_H

#include <stddef.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

#define VR_SELF "/proc/self/exe" /* argv[0] of a child that is this program */

struct vr_child {
    /* exactly one of the two: */
    const char *const *argv; /* argv[0] is looked up in PATH; NULL-terminated */
    int (*main)(void *ctx);  /* runs in the child after fork; its value is the exit status */
    void *ctx;

    const void *input; /* written to its stdin, then closed */
    size_t n_input;
    int timeout_ms;    /* from start to end; must be > 0 */
    size_t max_output; /* cap for each of out and err: the child is killed when it writes more. 0: 16 MiB */
    int nice;          /* so much behind others that want a processor; 0: as this process */
    int pass_fds[4];   /* stay open in the child under the same number; 0 ends the list */
};

struct vr_child_end {
    struct vr_buf out, err; /* the caller's: vr_child_end_done() */
    int exit_status;        /* -1 when a signal ended it */
    int signal;             /* 0 when it exited */
    bool timed_out;
    bool too_much; /* wrote past the cap, and was killed for it if it still ran; out and err hold all up to the cap */
    double ms;
};

/* Runs the child to its end. False only when it could not be started or watched; a child that crashed or exited
 * with a status is a success here, told in `end`: for a program that cannot be run, status 127 and why in end->err.
 * `end` must be zeroed or done. */
bool vr_child_run(const struct vr_child *c, struct vr_child_end *end, struct vr_err *err) VR_MUST_CHECK;
/* "exited with status 3", "killed by signal 11 (Segmentation fault)", "ran longer than 5,000 ms" */
const char *vr_child_how(const struct vr_child *c, const struct vr_child_end *end, char *out, size_t n);
void vr_child_end_done(struct vr_child_end *end);

/* --- the same in steps, for a caller with an event loop of its own (server/supervise/task.h) --- */

enum { VR_CHILD_IN, VR_CHILD_OUT, VR_CHILD_ERR, VR_CHILD_END, VR_CHILD_FDS };

struct vr_child_live {
    pid_t pid;
    int fds[VR_CHILD_FDS]; /* its stdin (write), stdout and stderr (read), its end (readable then); -1: closed. None
                              blocks */
    size_t sent;           /* of its input */
};

/* An empty end with its caps, as the steps below fill it. */
void vr_child_end_init(struct vr_child_end *end, const struct vr_child *c);
bool vr_child_start(const struct vr_child *c, struct vr_child_live *l, struct vr_err *err) VR_MUST_CHECK;
/* One block of its input; closes the descriptor after the last one. */
void vr_child_feed(const struct vr_child *c, struct vr_child_live *l);
/* One block of its output, into a buffer with a `max`; `which` is OUT or ERR. Closes at the end of the stream. False:
 * there is more than may be, or no memory. */
bool vr_child_take(struct vr_child_live *l, int which, struct vr_buf *out) VR_MUST_CHECK;
void vr_child_kill(const struct vr_child_live *l); /* with its group */
/* Waits for its end, tells how it was with what is left in its pipes, and closes everything. */
bool vr_child_finish(struct vr_child_live *l, struct vr_child_end *end, struct vr_err *err) VR_MUST_CHECK;

#define VR_AUTO_CHILD_END VR_CLEANUP(vr_child_end_done) struct vr_child_end

#endif
