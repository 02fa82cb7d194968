/* What every device does for one graph: read off the graph that llama.cpp reserved and the splits its scheduler made.
 *
 * Equal nodes are one row, so a model is a few dozen rows per device. Bytes are what a node must touch: weights
 * (of the experts it uses only), the KV cache or recurrent state, and activations. Graphs are reserved for a full
 * context: a row with `cells` works on that many cells of the cache, and on fewer while it fills. */
#ifndef VR_ENGINE_PROBE_WORK_H
#define VR_ENGINE_PROBE_WORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/vgpu/vgpu_spec.h"

/* One token per sequence; one full micro-batch of prompt, of which only each sequence's last token gets logits. */
enum vr_phase { VR_DECODE, VR_PREFILL, VR_N_PHASES };

struct vr_work {
    uint8_t phase;        /* enum vr_phase */
    uint8_t device;       /* index of the trial's devices; their number: the host */
    uint8_t op;           /* the engine's number, for telling rows apart; `name` is for people */
    bool quantized;       /* weights are; else floats */
    uint32_t type;        /* of the weights, or of the cache for attention (vr_type()); VR_TYPE_NONE: neither */
    uint32_t n, launches; /* equal nodes; kernels that run them (none where another row's kernel does it along) */
    uint32_t cells;       /* of the cache: what each node reads and computes is in proportion to them */
    uint32_t columns;     /* of a product's matrix: a row of it has so many weights; of a norm: of what it is taken */
    uint64_t weight_bytes, cache_bytes, act_bytes, flops; /* of all n together */
    char name[24];
};

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
    uint32_t n_rows, n_transfers;
    uint32_t n_nodes[VR_N_PHASES], n_splits[VR_N_PHASES];
    uint64_t pool_bytes[VR_MAX_VGPUS];    /* that the device's kernels take for a while, beside all buffers: the most */
    uint32_t device_splits[VR_MAX_VGPUS]; /* of a micro-batch's, those that a device runs */
};
void vr_works_done(struct vr_works *w);

/* Collecting: begin, reserve the graph, end with the graph that was reserved. One at a time per process. */
struct ggml_cgraph;
void vr_work_begin(void);
bool vr_work_end(const struct ggml_cgraph *graph, enum vr_phase phase, size_t n_devices, struct vr_works *out,
                 struct vr_err *err) VR_MUST_CHECK;

#endif
