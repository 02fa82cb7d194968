/* What every device does for one graph: read off the graph that llama.cpp reserved and the splits its scheduler made.
 */
#ifndef VR_ENGINE_PROBE_GRAPH_H
#define VR_ENGINE_PROBE_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/vgpu/vgpu_spec.h"
#include "plan/work.h"

struct vr_slices;

/* Bytes that cross from one memory to another before a split can run. */
struct vr_transfer {
    uint8_t phase, from, to; /* devices as above */
    bool weights;            /* host-resident weights, sent to be multiplied there */
    bool experts;            /* of which only those in use cross, one after the other without waiting */
    uint32_t n;
    uint64_t bytes;
};

struct vr_works {
    struct vr_work *rows;
    struct vr_transfer *transfers;
    struct vr_reduction *reductions;
    uint32_t n_rows, n_transfers, n_reductions;
    uint32_t n_nodes[VR_N_PHASES], n_splits[VR_N_PHASES];
    uint64_t pool_bytes[VR_MAX_VGPUS];    /* that the device's kernels take for a while, beside all buffers: the most */
    uint32_t device_splits[VR_MAX_VGPUS]; /* of a micro-batch's, those that a device runs */
};
void vr_works_done(struct vr_works *w);

/* Collecting: begin, reserve the graph, end with the graph that was reserved. One at a time per process. `slices`: with
 * a backend in split mode tensor; the graph is then good for nothing else. */
struct ggml_cgraph;
void vr_work_begin(const struct vr_slices *slices);
bool vr_work_end(struct ggml_cgraph *graph, const struct vr_slices *slices, enum vr_phase phase, size_t n_devices,
                 struct vr_works *out, struct vr_err *err) VR_MUST_CHECK;

#endif
