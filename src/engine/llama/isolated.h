/* A function that runs in a child process, because it loads drivers or may die, and what it brings back.
 *
 * The one protocol between such a child and us: the function appends its result, of any size, to a buffer; what the
 * engine prints goes to standard error, and its last line explains a failure. A crash, a hang or nonsense on the way is
 * an error here like any other. The child is confined (confinement.h) to what it needs. */
#ifndef VR_ENGINE_LLAMA_ISOLATED_H
#define VR_ENGINE_LLAMA_ISOLATED_H

#include "base/buf.h"
#include "base/err.h"
#include "engine/llama/confinement.h"

struct vr_isolated {
    /* In the child. Nothing of it needs to be freed: the process ends with it. */
    bool (*fn)(void *ctx, struct vr_buf *result, struct vr_err *err);
    void *ctx;
    const char *what; /* for messages: "the dry run" failed */
    const char *of;   /* messages begin with it: a model's name; NULL: with nothing */
    bool quiet;       /* it prints errors only: the last line belongs to its own errors, too */
    struct vr_engine_needs needs;
    bool trusted; /* it reads nothing that others made: not confined */
    int timeout_ms;
    size_t max_bytes; /* of the result; 0: 16 MiB */
    int pass_fds[2];  /* stay open in the child; 0: none, and none behind it */
    double *ms;       /* NULL, or how long it took */
};

/* Runs it, and appends its result to `result`. */
bool vr_isolated_run(const struct vr_isolated *job, struct vr_buf *result, struct vr_err *err) VR_MUST_CHECK;
/* The same for a result of exactly n bytes. */
bool vr_isolated_block(const struct vr_isolated *job, void *out, size_t n, struct vr_err *err) VR_MUST_CHECK;

/* The next n bytes of a result, from *at on, which moves. False: there are fewer. */
bool vr_isolated_next(const struct vr_buf *result, size_t *at, void *out, size_t n) VR_MUST_CHECK;

#endif
