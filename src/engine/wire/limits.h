/* Limits on what a request may bring, and the check of grammars against them.
 *
 * llama.cpp's grammar parser trusts its input: nested groups overflow its stack, {5,3} fills the memory, and a few
 * dozen rules can keep it busy for years. Nothing reaches it before vr_limit_grammar() has read it. Pure. */
#ifndef VR_ENGINE_WIRE_LIMITS_H
#define VR_ENGINE_WIRE_LIMITS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum vr_limit {
#define LIMIT(name, most) VR_MOST_##name = (most),
#include "engine/wire/limits.def"
#undef LIMIT
};

/* A grammar in llama.cpp's GBNF, of n bytes. The message says what is too much; syntax is the engine's business. */
bool vr_limit_grammar(const char *gbnf, size_t n, struct vr_err *err) VR_MUST_CHECK;

#endif
