/* A device that may not exist. Apart from vgpu.h so that rooms without the engine's headers can name it. */
#ifndef VR_ENGINE_VGPU_VGPU_SPEC_H
#define VR_ENGINE_VGPU_VGPU_SPEC_H

#include <stdbool.h>
#include <stdint.h>

#define VR_MAX_VGPUS 15 /* the scheduler takes 16 backends, and the CPU is one */

/* Weights in host memory are sent to a device for batches of at least so many tokens, unless this variable of the
 * environment says otherwise when a backend is loaded. */
#define VR_OFFLOAD_MIN      32
#define VR_OFFLOAD_VARIABLE "GGML_OP_OFFLOAD_MIN_BATCH"

/* Behind llama.cpp's RPC backend a device has the rules of that: it takes every operation, no weights of the host are
 * sent to it for a batch, and it asks the other side only about those sizes that it thinks may differ. */
enum vr_borrowed { VR_BORROWED_NOT, VR_BORROWED_GPU, VR_BORROWED_CPU };

struct vr_vgpu_spec {
    char name[24];  /* backend and index: "CUDA1"; also what its buffers are called */
    char about[96]; /* "NVIDIA GeForce RTX 3090" */
    uint64_t total_bytes, free_bytes;
    enum vr_borrowed borrowed;
    int cc;             /* compute capability x 100: 860 */
    uint64_t run_bytes; /* executing: what the backend takes for itself when it first computes (pools, workspaces) */
    bool like_cuda;     /* executing: fails as CUDA does, with words in the log, and dies when computing */
};

#endif
