/* JSON schemas, checked before they become grammars: the conversion drops what it does not know, so everything that it
 * would drop is refused here, by name and place. Also size, depth and repetitions, which it does not limit. Pure. */
#ifndef VR_ENGINE_WIRE_SCHEMA_H
#define VR_ENGINE_WIRE_SCHEMA_H

#include <jansson.h>

#include "base/err.h"

/* Is called with every "pattern"; false refuses it. Whether a regular expression can be a grammar only the engine
 * knows. */
typedef bool vr_pattern_fn(void *ctx, const char *pattern, struct vr_err *err);

/* True when every constraint in `schema` will be enforced. pattern_ok may be NULL: patterns are not looked at. */
bool vr_schema_check(const json_t *schema, vr_pattern_fn *pattern_ok, void *ctx, struct vr_err *err) VR_MUST_CHECK;

#endif
