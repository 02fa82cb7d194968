/* Alternatives with common beginnings, as the values of an enum have them, become a tree of rules: instead of all
 * values at once, a text then has few ways to go on at each character. */
#ifndef VR_ENGINE_GRAMMAR_FACTOR_H
#define VR_ENGINE_GRAMMAR_FACTOR_H

#include "engine/grammar/gbnf.h"

/* The grammar takes the same texts before and after. */
bool vr_gbnf_factor(struct vr_gbnf *g, struct vr_err *err) VR_MUST_CHECK;

#endif
