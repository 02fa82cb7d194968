/* Limits of numbers that need not be whole. llama.cpp's converter knows limits of integers alone: here such a node
 * becomes a value that stands for it, and in the grammar that the converter makes, that value becomes a rule of ours.
 *
 * A rule has at least as many decimals as its limits, up to 15 digits in all, and no exponents: it may be narrower than
 * what was asked for, never wider. Pure. */
#ifndef VR_ENGINE_WIRE_SCHEMA_NUMBERS_H
#define VR_ENGINE_WIRE_SCHEMA_NUMBERS_H

#include <jansson.h>

#include "base/buf.h"
#include "base/err.h"

struct vr_number_limits {
    double low, high;  /* infinite: none */
    bool above, below; /* the limit itself is not meant */
};

/* The limits of a node whose keywords are numbers. */
struct vr_number_limits vr_number_limits(const json_t *node);
/* False: no number is within them, or they have too many digits. */
bool vr_number_limits_ok(const struct vr_number_limits *l, struct vr_err *err) VR_MUST_CHECK;
/* The rule, in parentheses (GBNF). */
bool vr_number_rule(const struct vr_number_limits *l, struct vr_buf *out, struct vr_err *err) VR_MUST_CHECK;

/* Takes the limits of numbers out of a schema that was checked, and appends their rules to an array. */
bool vr_numbers_take(json_t *schema, json_t *rules, struct vr_err *err) VR_MUST_CHECK;
/* The grammar that was made of it, with the rules at their places. False: there are places left that are none. */
bool vr_numbers_put(const char *gbnf, size_t n, const json_t *rules, struct vr_buf *out) VR_MUST_CHECK;

#endif
