/* Which engine this program is linked with. Nothing of it is started by asking. */
#ifndef VR_ENGINE_ENGINE_H
#define VR_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

const char *vr_engine_version(void); /* llama.cpp's own: "0.5.0" */
/* The folder of its libraries. */
bool vr_engine_dir(char *out, size_t n, struct vr_err *err) VR_MUST_CHECK;
/* Is there a backend of that name ("cuda", "vulkan", "cpu") among them? */
bool vr_engine_has(const char *backend);

#endif
