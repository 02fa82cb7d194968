/* Limits on what a request may bring. */
#ifndef VR_ENGINE_WIRE_LIMITS_H
#define VR_ENGINE_WIRE_LIMITS_H

enum vr_limit {
#define LIMIT(name, most) VR_MOST_##name = (most),
#include "engine/wire/limits.def"
#undef LIMIT
};

#endif
