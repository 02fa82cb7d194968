/* struct vr_load_params as the LOAD message (wire.h), both ways. */
#ifndef VR_ENGINE_PARAMS_LOAD_MESSAGE_H
#define VR_ENGINE_PARAMS_LOAD_MESSAGE_H

#include <jansson.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "engine/params/load_params.h"

/* Appends the message. Fails where a text is not UTF-8; names of files may be anything. */
bool vr_load_params_write(const struct vr_load_params *p, struct vr_buf *out, struct vr_err *err) VR_MUST_CHECK;

/* What a message says; what it does not name has its default, and what is not known is refused. Everything that `out`
 * points to is in the arena. */
bool vr_load_params_read(const json_t *load, struct vr_arena *arena, struct vr_load_params *out,
                         struct vr_err *err) VR_MUST_CHECK;

#endif
