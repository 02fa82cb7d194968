/* A device that may not exist, and the numbers of speculation. Apart from vgpu.h and draft.h so that rooms without the
 * engine's headers can name them. */
#ifndef VR_ENGINE_VGPU_VGPU_SPEC_H
#define VR_ENGINE_VGPU_VGPU_SPEC_H

#include <stdbool.h>
#include <stdint.h>

#define VR_MAX_VGPUS 15 /* the scheduler takes 16 backends, and the CPU is one */

/* Tokens drafted per step of speculative decoding: llama-server's default, and ours. */
#define VR_DRAFT_TOKENS 3
/* Streams that are drafted for at the same time: more of them fill a batch by themselves. */
#define VR_DRAFT_STREAMS 4

struct vr_vgpu_spec {
    char name[24];  /* backend and index: "CUDA1"; also what its buffers are called */
    char about[96]; /* "NVIDIA GeForce RTX 3090" */
    uint64_t total_bytes, free_bytes;
    int cc;             /* compute capability x 100: 860 */
    uint64_t run_bytes; /* executing: what the backend takes for itself when it first computes (pools, workspaces) */
    bool like_cuda;     /* executing: fails as CUDA does, with words in the log, and dies when computing */
};

#endif
