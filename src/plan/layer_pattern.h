/* Layers as a regular expression.
 *
 * The engine compiles every override once per tensor of the model, and a compiled expression costs by its length: a
 * list of 82 layers takes 35 us, which was most of a dry run. Numbers that share digits are therefore written once:
 * "(1(8|9)|(2|3|4)(0|1|2|3|4|5|6|7|8|9))" instead of "(18|19|20|...|49)". Not as ranges ("[2-4]"): one of those takes
 * as long as a hundred characters. */
#ifndef VR_PLAN_LAYER_PATTERN_H
#define VR_PLAN_LAYER_PATTERN_H

#include <stdint.h>

#include "base/buf.h"

/* Appends "(...)", which matches the decimal numbers i < n with in[i], of which there must be one. */
void vr_layer_pattern(struct vr_buf *to, const bool *in, uint32_t n);

#endif
