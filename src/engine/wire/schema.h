/* JSON schemas, checked before they become grammars: the conversion drops what it does not know, so everything that it
 * would drop is refused here, by name and place. Also size, depth and repetitions, which it does not limit. Pure. */
#ifndef VR_ENGINE_WIRE_SCHEMA_H
#define VR_ENGINE_WIRE_SCHEMA_H

#include <jansson.h>

#include "base/err.h"

/* Is called with every "pattern"; false refuses it. Whether a regular expression can be a grammar only the engine
 * knows. */
typedef bool vr_pattern_fn(void *ctx, const char *pattern, struct vr_err *err);

/* What the schema is of. Limits of numbers that need not be whole are enforced in answers alone (schema_numbers.h). */
enum vr_schema_of { VR_SCHEMA_ANSWER, VR_SCHEMA_TOOL };

/* True when every constraint in `schema` will be enforced. pattern_ok may be NULL: patterns are not looked at. */
bool vr_schema_check(const json_t *schema, enum vr_schema_of of, vr_pattern_fn *pattern_ok, void *ctx,
                     struct vr_err *err) VR_MUST_CHECK;

#endif
