/* Which engine this program is linked with. Nothing of it is started by asking. */
#ifndef VR_ENGINE_LLAMA_LIBRARY_H
#define VR_ENGINE_LLAMA_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

const char *vr_engine_version(void); /* llama.cpp's own: "0.5.0" */
/* The folder of its libraries. */
bool vr_engine_dir(char *out, size_t n, struct vr_err *err) VR_MUST_CHECK;
/* Is there a backend of that name ("cuda", "vulkan", "cpu") among them? */
bool vr_engine_has(const char *backend);

/* Was its CUDA library built with NCCL? False also where there is none. */
bool vr_engine_has_nccl(void);

/* Can it run on devices of a machine that have this backend ("CUDA", "Vulkan")? */
bool vr_engine_runs(const char *backend);

/* Loads the libraries of real devices that lie beside the engine. One that does not load is told only if it is missed.
 * In a child process only. */
bool vr_engine_load_backends(struct vr_err *err) VR_MUST_CHECK;
/* Threads that compute: one per physical core that this process may use. */
uint32_t vr_engine_threads(void);

#endif
