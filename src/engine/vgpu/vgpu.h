/* Virtual GPUs: devices that llama.cpp takes for CUDA ones, without a GPU in the machine.
 *
 * Sizing: memory is counted and not made, nothing can be computed; placements and buffers come out as the CUDA
 * backend's would, to the byte (rules.h). Executing: memory is the host's, up to the device's free bytes and not one
 * more, and graphs run on the CPU backend.
 *
 * Registered once per process, before or after the CPU backend; a process that has them is a child made for it. */
#ifndef VR_ENGINE_VGPU_VGPU_H
#define VR_ENGINE_VGPU_VGPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ggml-backend.h>

#include "base/err.h"
#include "engine/vgpu/vgpu_spec.h"

enum vr_vgpu_mode { VR_VGPU_SIZING, VR_VGPU_EXECUTING };

bool vr_vgpu_register(const struct vr_vgpu_spec *specs, size_t n, enum vr_vgpu_mode mode,
                      struct vr_err *err) VR_MUST_CHECK;
ggml_backend_dev_t vr_vgpu_device(size_t i);
ggml_backend_buffer_type_t vr_vgpu_buffer_type(size_t i);
int vr_vgpu_cc(size_t i);
/* The index of a device of ours, -1 for any other. */
int vr_vgpu_index(ggml_backend_dev_t dev);

/* Bytes that are allocated now. `i` == the number of devices asks for host memory in our pinned buffers. */
struct vr_vgpu_use {
    uint64_t weight_bytes, compute_bytes, other_bytes; /* by what llama.cpp said the buffer is for */
    uint64_t reduce_bytes; /* that the backend takes to add up over devices, beside all buffers */
};
struct vr_vgpu_use vr_vgpu_used(size_t i);
/* How many contexts were made on device i: the number of dry runs, seen from below. */
uint64_t vr_vgpu_contexts(size_t i);

/* The last allocation that was refused, or false. */
struct vr_vgpu_refusal {
    const char *device;
    uint64_t asked_bytes, free_bytes;
};
bool vr_vgpu_refused(struct vr_vgpu_refusal *out);

/* What the devices are asked for, told to whoever watches, while they only size. A member that is NULL is not told. */
struct ggml_cgraph;
struct vr_vgpu_watch {
    void *ctx;
    /* A split of a graph as the scheduler assigns it to device i; its nodes are a part of the whole graph's array. */
    void (*split)(void *ctx, size_t i, const struct ggml_cgraph *split);
    /* Somebody wants to know how large the tensor would be on device i. */
    void (*size)(void *ctx, size_t i, const struct ggml_tensor *t);
    /* A graph to compute: nothing is done, and that is called success. Without this member it is a failure. */
    void (*compute)(void *ctx, size_t i, const struct ggml_cgraph *graph);
    /* A tensor on each of n devices, to be added up (split mode tensor). */
    void (*reduce)(void *ctx, struct ggml_tensor *const *tensors, size_t n);
};
void vr_vgpu_watch(const struct vr_vgpu_watch *watch); /* is copied; NULL ends it */

#endif
