/* Regular expressions of JSON schemas, as llama.cpp's converter to grammars can take them.
 *
 * It knows no classes such as \d, wants both anchors, and lets "." and [^a] be a quote, which would end the JSON string
 * that they are in. So they are written out: \d as [0-9], "." as all but quotes, backslashes and controls, a quote as
 * \", what is not anchored with any text around it. Where that says less than the pattern, it says nothing more. What
 * cannot be written so (lookarounds, backreferences) is left as it is, and refused by the converter. Pure. */
#ifndef VR_ENGINE_WIRE_PATTERN_H
#define VR_ENGINE_WIRE_PATTERN_H

#include <jansson.h>

#include "base/buf.h"

void vr_pattern_write(const char *pattern, size_t n, struct vr_buf *out);
/* All patterns of a schema, in place. False: no memory. */
bool vr_patterns_write(json_t *schema) VR_MUST_CHECK;

#endif
