/* Split mode tensor in a dry run. The engine has one device over all ("Meta") that cuts every weight and cache into
 * slices, computes on each device with its own, and adds the parts up. A load that allocates nothing stops before the
 * cutting: the figures that it reports are those of whole tensors. So the engine is given the same tensors again, to
 * allocate on virtual GPUs, which count; and graphs of them to compute, which the virtual GPUs are told piece by piece
 * (vr_vgpu_watch()). What the engine cannot split, it dies of here. */
#ifndef VR_ENGINE_PROBE_SLICES_H
#define VR_ENGINE_PROBE_SLICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ggml-backend.h>

#include "base/err.h"

struct vr_slices {
    ggml_backend_t meta; /* the engine's backend over all devices */
    struct vr_weight_slice {
        const struct ggml_tensor *whole; /* the model's own, without memory */
        struct ggml_tensor *sliced;      /* the same, in memory of the devices */
    } * list;                            /* by address */
    size_t n, cap;
    bool failed;
    size_t device; /* whose questions about sizes are listened to */
};

/* The backend of split mode tensor among the scheduler's, or NULL. */
ggml_backend_t vr_slices_backend(ggml_backend_sched_t sched);

/* Between begin and end the engine is asked how much memory the model and its context take: it then names each tensor.
 * `device`: any that is in use. Afterwards the virtual GPUs hold all of them (vr_vgpu_used()). */
void vr_slices_begin(struct vr_slices *s, size_t device);
bool vr_slices_end(struct vr_slices *s, struct vr_err *err) VR_MUST_CHECK;

/* Gives every tensor of a reserved graph memory: those of nodes with spread[i] on all devices. The graph reads slices
 * from then on. What it returns is freed after the last stretch was computed; NULL on failure. */
struct ggml_cgraph;
ggml_backend_buffer_t vr_slices_place(const struct vr_slices *s, struct ggml_cgraph *g, const bool *spread,
                                      struct vr_err *err) VR_MUST_CHECK;
/* Nodes begin .. end - 1, which all are spread. */
bool vr_slices_compute(const struct vr_slices *s, struct ggml_cgraph *g, int begin, int end,
                       struct vr_err *err) VR_MUST_CHECK;

#endif
