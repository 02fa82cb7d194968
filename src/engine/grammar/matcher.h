/* Where a text stands in a grammar, byte by byte.
 *
 * A state is a set of items, each a symbol of a rule and what led there; sets that are alike are one set, and what a
 * byte makes of a set is remembered, so that common grammars soon cost a look-up per byte (a DFA that is built as the
 * text goes). However ambiguous a grammar is, its readings share what they have in common, and no function here takes
 * more operations than the matcher's allowance has left. Characters are UTF-8, which may be cut anywhere. Pure. */
#ifndef VR_ENGINE_GRAMMAR_MATCHER_H
#define VR_ENGINE_GRAMMAR_MATCHER_H

#include "engine/grammar/gbnf.h"
#include "engine/grammar/token_index.h"

enum {
    /* Operations take about 10 ns. So many for one token of an answer, and for each on average: 30 ms and 4 ms. */
    VR_MATCHER_MOST_OPERATIONS = 3000000,
    VR_MATCHER_OPERATIONS_PER_TOKEN = 400000,
};

struct vr_matcher;
/* A set; valid until the next vr_matcher_settle(). */
typedef uint32_t vr_matcher_state;
enum { VR_MATCHER_DEAD = 0 }; /* no text continues here */

/* At the beginning of a text. The grammar stays the caller's and must outlive it. */
struct vr_matcher *vr_matcher_new(const struct vr_gbnf *g, struct vr_err *err) VR_MUST_CHECK;
struct vr_matcher *vr_matcher_clone(const struct vr_matcher *m, struct vr_err *err) VR_MUST_CHECK;
void vr_matcher_free(struct vr_matcher *m);
VR_DEFINE_AUTO(vr_matcher);

/* Where the text stands; and that it goes on from `s`, which was reached from there by a token. Forgets what is not
 * needed any more: other states are void then. */
vr_matcher_state vr_matcher_now(const struct vr_matcher *m);
bool vr_matcher_settle(struct vr_matcher *m, vr_matcher_state s, struct vr_err *err) VR_MUST_CHECK;

/* What n bytes make of a state. False: the allowance is used up, or memory. */
bool vr_matcher_step(struct vr_matcher *m, vr_matcher_state *s, const char *text, size_t n,
                     struct vr_err *err) VR_MUST_CHECK;
/* The same for a token of n bytes with a number, where a grammar may name tokens: both readings together. */
bool vr_matcher_step_token(struct vr_matcher *m, vr_matcher_state *s, uint32_t token, const char *text, size_t n,
                           struct vr_err *err) VR_MUST_CHECK;
/* Whether the text may end. */
bool vr_matcher_may_end(const struct vr_matcher *m, vr_matcher_state s);
/* Sets the bit of each token of the index that may come next. `stack` is for index->most_bytes + 1 states. */
bool vr_matcher_mask(struct vr_matcher *m, vr_matcher_state s, const struct vr_token_index *index, uint64_t *mask,
                     vr_matcher_state *stack, struct vr_err *err) VR_MUST_CHECK;

/* Operations since the matcher was made, and the most that it has held in memory: for tests and measurements. */
uint64_t vr_matcher_operations(const struct vr_matcher *m);
size_t vr_matcher_bytes(const struct vr_matcher *m);

#endif
