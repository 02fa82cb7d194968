/* Grammars as requests bring them: GBNF, llama.cpp's notation, read into compact rules.
 *
 * What llama.cpp's parser takes is taken, and a little more: left recursion, names with an underscore, counts up to
 * VR_GBNF_MOST_REPEAT. Reading is linear in the text; repetitions are counted while matching and never expanded. The
 * matcher (matcher.h) walks what is made here. Pure. */
#ifndef VR_ENGINE_GRAMMAR_GBNF_H
#define VR_ENGINE_GRAMMAR_GBNF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum {
    VR_GBNF_MOST_BYTES = 1 << 20,
    VR_GBNF_MOST_RULES = 1 << 16,    /* groups and repeated strings are rules, too */
    VR_GBNF_MOST_DEPTH = 128,        /* groups inside groups; the reader calls itself for each */
    VR_GBNF_MOST_REPEAT = 1000000,   /* {m,n} */
    VR_GBNF_MOST_TOKEN = 0x7FFFFFFF, /* <[id]> */
};
#define VR_GBNF_NO_END UINT32_MAX /* of a repetition */

enum vr_gbnf_kind {
    VR_GBNF_END,   /* of an alternative; the first symbol of all stands for every end */
    VR_GBNF_CHAR,  /* one code point */
    VR_GBNF_CLASS, /* [...] and . */
    VR_GBNF_RULE,
    VR_GBNF_TOKEN,     /* a token of the vocabulary, by its number */
    VR_GBNF_TOKEN_NOT, /* any other token */
};

/* One symbol of an alternative, `least` to `most` times. `least` is 0 where the rule it names may be empty. */
struct vr_gbnf_symbol {
    uint32_t kind; /* enum vr_gbnf_kind */
    uint32_t value;
    uint32_t least, most;
};

/* The code points of a class: a bit for each ASCII character, sorted ranges for the others. */
struct vr_gbnf_class {
    uint64_t ascii[2];
    uint32_t first, n; /* in `ranges` */
};

struct vr_gbnf_range {
    uint32_t low, high;
};

struct vr_gbnf_rule {
    uint32_t first, n; /* in `alternatives` */
    bool defined, nullable;
};

struct vr_gbnf {
    struct vr_gbnf_symbol *symbols;
    uint32_t *alternatives; /* where each begins in `symbols` */
    struct vr_gbnf_rule *rules;
    struct vr_gbnf_class *classes;
    struct vr_gbnf_range *ranges;
    uint32_t n_symbols, n_alternatives, n_rules, n_classes, n_ranges;
    uint32_t cap_symbols, cap_alternatives, cap_rules, cap_classes, cap_ranges;
    uint32_t root;
    bool has_tokens;       /* there is a TOKEN or TOKEN_NOT */
    uint8_t alike[256];    /* bytes that no symbol tells apart have the same number */
    uint64_t n_operations; /* what reading took */
};

/* The number of the token whose text is `<text>`. False: there is none. */
typedef bool vr_gbnf_token_fn(const void *ctx, const char *text, size_t n, uint32_t *token);

/* Reads n bytes. `token` NULL: any <text> is taken for a token, for those who only ask whether the grammar is valid.
 * The message names the line. */
struct vr_gbnf *vr_gbnf_read(const char *text, size_t n, vr_gbnf_token_fn *token, const void *ctx,
                             struct vr_err *err) VR_MUST_CHECK;
void vr_gbnf_free(struct vr_gbnf *g);
VR_DEFINE_AUTO(vr_gbnf);

/* Whether a class or a character has a code point; and one of a range of them. */
bool vr_gbnf_has(const struct vr_gbnf *g, const struct vr_gbnf_symbol *s, uint32_t code_point);
bool vr_gbnf_has_any(const struct vr_gbnf *g, const struct vr_gbnf_symbol *s, uint32_t low, uint32_t high);

#endif
