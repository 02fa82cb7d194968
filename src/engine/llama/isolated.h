/* A function that runs in a child process, because it loads drivers or may die, and brings back one block of bytes. */
#ifndef VR_ENGINE_LLAMA_ISOLATED_H
#define VR_ENGINE_LLAMA_ISOLATED_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Runs fn(ctx) in a child and brings back the n bytes at `result` (which fn fills, in its own copy of memory) as *out.
 */
bool vr_isolated_run(bool (*fn)(void *ctx, struct vr_err *err), void *ctx, const void *result, size_t n, int timeout_ms,
                     void *out, struct vr_err *err) VR_MUST_CHECK;

#endif
