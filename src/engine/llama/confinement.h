/* What a process that runs the engine may do: read its model, the engine's libraries and the drivers', use the devices,
 * compute. base/confine.h puts it in force; here is what llama.cpp and the drivers of GPUs need. */
#ifndef VR_ENGINE_LLAMA_CONFINEMENT_H
#define VR_ENGINE_LLAMA_CONFINEMENT_H

#include "base/confine.h"

#define VR_MAX_NEEDS 12

struct vr_engine_needs {
    const char *files[VR_MAX_NEEDS]; /* GGUF files, all parts of a split one; NULL or "": none */
    const char *cache;               /* a folder that it may write to; NULL: none */
    bool devices;                    /* real GPUs */
    bool prepares; /* it turns requests into tokens, in children of its own: few system calls are enough. Not with
                      devices */
};

/* For the calling process, before it has threads and before a driver is loaded. `out` may be NULL. */
void vr_engine_confine(const struct vr_engine_needs *needs, struct vr_confined *out);

/* Does an engine with GPUs add up through NCCL? Its CUDA library must have it; and NCCL finds its peers, even within
 * one process, over network sockets, which a confined one is given only if the user asks for it:
 * GGML_CUDA_ALLREDUCE=nccl. */
bool vr_engine_uses_nccl(void);

/* The user that an engine started as root becomes, unless VRAM_LLM_USER names another. */
#define VR_ENGINE_USER     "nobody"
#define VR_ENGINE_USER_VAR "VRAM_LLM_USER"

/* NVIDIA's driver makes a device node when it is first used, by a program that a confined process may not start. Before
 * that, then. */
void vr_engine_wake_driver(void);

#endif
