/* What one answer must look like: a grammar over the tokens of a vocabulary, from the start or from a trigger on.
 *
 * A lazy grammar waits until the text has a trigger in it, as the tool calls of chats want it; what looks like one
 * inside a thought is none. `struct vr_grammar` is what was asked for and never changes; each answer has a state of its
 * own. Pure but for the regular expressions of triggers, which somebody else must search for. */
#ifndef VR_ENGINE_GRAMMAR_GRAMMAR_H
#define VR_ENGINE_GRAMMAR_GRAMMAR_H

#include "engine/grammar/grammar_spec.h"
#include "engine/grammar/token_index.h"

/* Searches n bytes for pattern i of the triggers (words count, too). `begins`: ^ is at the first of them. Returns where
 * its first group with text begins, or the match if there is none; SIZE_MAX: not found. */
typedef size_t vr_pattern_find_fn(const void *ctx, size_t i, const char *text, size_t n, bool begins);

struct vr_grammar;
/* The index must outlive it; the spec need not. find may be NULL where no trigger is a pattern. */
struct vr_grammar *vr_grammar_new(const struct vr_grammar_spec *spec, const struct vr_token_index *index,
                                  vr_pattern_find_fn *find, const void *ctx, struct vr_err *err) VR_MUST_CHECK;
void vr_grammar_free(struct vr_grammar *g);
VR_DEFINE_AUTO(vr_grammar);

/* One answer, at its beginning. The grammar must outlive it. */
struct vr_grammar_state;
struct vr_grammar_state *vr_grammar_begin(const struct vr_grammar *g, struct vr_err *err) VR_MUST_CHECK;
void vr_grammar_end(struct vr_grammar_state *s);

/* Whether a token may come next. False: the grammar takes too long, or memory. */
bool vr_grammar_allows(struct vr_grammar_state *s, int32_t token, bool *yes, struct vr_err *err) VR_MUST_CHECK;
/* All of them: a bit per token, in *mask, which stays valid until the next call. NULL: any. */
bool vr_grammar_mask(struct vr_grammar_state *s, const uint64_t **mask, struct vr_err *err) VR_MUST_CHECK;
/* A token was chosen. */
bool vr_grammar_accept(struct vr_grammar_state *s, int32_t token, struct vr_err *err) VR_MUST_CHECK;

/* As vr_matcher_operations() and vr_matcher_bytes(). */
uint64_t vr_grammar_operations(const struct vr_grammar_state *s);
size_t vr_grammar_bytes(const struct vr_grammar_state *s);

#endif
