/* Forms of JSON schemas that mean what the conversion to a grammar understands, written as that: what zod, pydantic and
 * OpenAPI's generators write, and the converter would drop or get wrong.
 *
 *   allOf           one node, where its parts are of one type and no property has two meanings
 *   oneOf           anyOf, where no value can match two branches: other types, or values of a property that tell them
 *                   apart, which all branches then require
 *   format          a pattern (schema_formats.def); int32 as limits
 *   "$ref": "#"     a reference to a definition
 *   propertyNames   properties, where it lists the names; left out where it says "string"
 *   items: false    left out of a tuple, as uniqueItems: false
 *
 * What cannot be written so stays as it is, and vr_schema_check() refuses it. The answer may be narrower than what was
 * asked for, never wider. Pure. */
#ifndef VR_ENGINE_WIRE_SCHEMA_FORMS_H
#define VR_ENGINE_WIRE_SCHEMA_FORMS_H

#include <jansson.h>

#include "base/err.h"

/* In place; costs time linear in the schema and in what it repeats (VR_MOST_SCHEMA_BYTES). False: no memory. */
bool vr_schema_rewrite(json_t *schema) VR_MUST_CHECK;
/* What a reference points to; NULL: nothing. Only "#/..." is looked for. */
json_t *vr_schema_target(const json_t *root, const char *ref);

#endif
