/* A child process that measures one thing; private to the measure files. */
#ifndef VR_ENGINE_MEASURE_CHILD_H
#define VR_ENGINE_MEASURE_CHILD_H

#include "engine/measure.h"

/* Runs fn(ctx) in a child and brings back the n bytes at `result` (which fn fills, in its own copy of memory) as *out.
 */
bool vr_measure_child(bool (*fn)(void *ctx, struct vr_err *err), void *ctx, const void *result, size_t n,
                      int timeout_ms, void *out, struct vr_err *err) VR_MUST_CHECK;
/* In the child: the proven CPU variant, and the backends of devices where one is asked for. */
bool vr_measure_backends(const struct vr_measure_where *w, struct vr_err *err) VR_MUST_CHECK;

#endif
