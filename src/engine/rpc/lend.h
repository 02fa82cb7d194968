/* Devices of this machine, lent: llama.cpp's RPC server in the process that calls, over one descriptor, until that is
 * closed. The process is made for it, and ends with it: what a client sends is taken apart here, by code that was
 * written for a network of friends, so it has no rights but those that computing needs (llama/confinement.h). */
#ifndef VR_ENGINE_RPC_LEND_H
#define VR_ENGINE_RPC_LEND_H

#include "base/err.h"
#include "engine/vgpu/vgpu_spec.h"

/* Plain data, so that it can be sent to that process. */
struct vr_lend {
    struct {
        char name[24];       /* as the engine will call it: CUDA counts those that it sees */
        uint64_t most_bytes; /* that may be allocated there */
    } devices[VR_MAX_VGPUS];
    size_t n_devices;
    char visible[1024];                      /* CUDA_VISIBLE_DEVICES; "": none */
    struct vr_vgpu_spec vgpus[VR_MAX_VGPUS]; /* made up, computed by the CPU; then none is real */
    size_t n_vgpus;
    bool gpus;          /* real ones are among them */
    char cpu[1024];     /* the CPU backend's variant: vr_cpu_choose() */
    char cache[512];    /* folder for large tensors, which are not sent again; "": none */
    uint32_t n_threads; /* 0: one per physical core */
};

/* In a process of its own. `ready` is called before the first byte is read; false ends it. */
bool vr_lend_run(const struct vr_lend *l, int fd, bool (*ready)(void *ctx), void *ctx,
                 struct vr_err *err) VR_MUST_CHECK;

#endif
