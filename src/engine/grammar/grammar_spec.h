/* How an answer is constrained, as plain data: made in one process (engine/prepare), it is used in another. Whoever
 * fills it says where its pointers lead. */
#ifndef VR_ENGINE_GRAMMAR_GRAMMAR_SPEC_H
#define VR_ENGINE_GRAMMAR_GRAMMAR_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vr_span { /* not NUL-terminated */
    const char *data;
    size_t n;
};

struct vr_ids { /* tokens */
    const int32_t *ids;
    size_t n;
};

struct vr_trigger {
    bool pattern; /* a regular expression, else a word */
    struct vr_span text;
};

struct vr_grammar_spec {
    struct vr_span gbnf; /* n == 0: the answer is free */
    bool lazy;           /* waits for a trigger */
    struct vr_trigger *triggers;
    size_t n_triggers;
    struct vr_ids trigger_tokens;
    struct vr_ids begun;       /* the answer's first tokens, which the template wrote into the prompt */
    struct vr_ids think;       /* of a lazy one: what looks like a trigger inside a thought is none. What begins it, */
    struct vr_ids *think_ends; /* and what may end it */
    size_t n_think_ends;
};

#endif
