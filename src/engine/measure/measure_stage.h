/* A device or the host, ready to be measured, and graphs of two lengths on it; private to the measure files. They live
 * in a child process: what is not freed ends with it. */
#ifndef VR_ENGINE_MEASURE_MEASURE_STAGE_H
#define VR_ENGINE_MEASURE_MEASURE_STAGE_H

#include <ggml-backend.h>

#include "base/buf.h"
#include "base/clock.h"
#include "engine/llama/confinement.h"
#include "engine/measure/measure.h"

#define VR_MEASURE_TOKENS 512 /* of a micro-batch */
#define VR_TIMING_NODES   96  /* that one graph counts */

/* Runs fn(ask) in a child, which brings back n bytes as *out. needs NULL: it writes files of ours, and reads none. */
bool vr_measure_ask(bool (*fn)(void *ask, struct vr_buf *result, struct vr_err *err), const void *ask,
                    const struct vr_engine_needs *needs, int timeout_ms, void *out, size_t n,
                    struct vr_err *err) VR_MUST_CHECK;
/* The same with what the device of `w` needs, within its time. */
bool vr_measure_ask_on(bool (*fn)(void *ask, struct vr_buf *result, struct vr_err *err), const void *ask,
                       const struct vr_measure_where *w, void *out, size_t n, struct vr_err *err) VR_MUST_CHECK;

/* The next of a row of numbers without a pattern; its upper bits are the good ones. */
static inline uint32_t vr_noise(uint32_t *state) { return *state = *state * 1664525u + 1013904223u; }

struct vr_measure_stage {
    ggml_backend_t backend;
    ggml_backend_dev_t dev;
    ggml_backend_buffer_type_t weights, experts; /* where weights lie, and those of experts */
    bool host;
    int cc;
    char *pages; /* the host: weights as in a model's file, of one type */
    size_t pages_bytes, filled_bytes;
    double product_us; /* as it was asked */
};
bool vr_measure_stage_open(const struct vr_measure_where *w, uint32_t type, struct vr_measure_stage *s,
                           struct vr_err *err) VR_MUST_CHECK;

struct vr_timing {
    struct vr_measure_stage *s;
    struct ggml_context *weights, *rest; /* tensors are made in these, then allocated */
    ggml_backend_buffer_t wbuf, buf;
    struct ggml_cgraph *graph[2];             /* a short and a long one */
    int n[2];                                 /* nodes that count */
    struct ggml_tensor *ids[VR_TIMING_NODES]; /* the experts that nodes choose */
    int n_experts, n_weights;
    uint32_t turns[VR_TIMING_NODES]; /* how often those of a tensor were chosen */
};
bool vr_timing_start(struct vr_timing *b, struct vr_measure_stage *s) VR_MUST_CHECK;
void vr_timing_done(struct vr_timing *b);
/* One more counted node at the end of the long graph, and of the short one. */
void vr_timing_add(struct vr_timing *b, struct ggml_tensor *node, bool also_short);
/* Allocates all tensors, and fills the weights. */
bool vr_timing_allocate(struct vr_timing *b) VR_MUST_CHECK;
bool vr_timing_fill(struct ggml_tensor *t) VR_MUST_CHECK; /* with noise */
/* A short one of many runs of a graph (a quarter are shorter), in microseconds: whatever else the computer does only
 * adds to it. Negative when it does not compute. */
double vr_timing_graph(struct vr_timing *b, struct ggml_cgraph *g, uint32_t *seed);
/* Microseconds of one counted node: the long graph less the short one. */
double vr_timing_node(struct vr_timing *b);

/* In a child: the proven CPU variant, and the backends of devices where one is asked for. */
/* n bytes in memory of that kind; NULL: there is not enough. */
struct ggml_tensor *vr_bytes_on(ggml_backend_buffer_type_t buft, size_t n);
bool vr_measure_backends(const struct vr_measure_where *w, struct vr_err *err) VR_MUST_CHECK;

#endif
