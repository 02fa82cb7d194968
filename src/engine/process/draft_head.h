/* The model's own head for multi-token prediction, or a draft head in a file of its own, which guesses for it
 * (guess.h). */
#ifndef VR_ENGINE_PROCESS_DRAFT_HEAD_H
#define VR_ENGINE_PROCESS_DRAFT_HEAD_H

#include "engine/process/guess.h"

struct vr_draft_head;

struct vr_draft_head *vr_draft_head_new(const struct vr_engine *e, struct vr_err *err) VR_MUST_CHECK;
void vr_draft_head_free(struct vr_draft_head *m);
/* The model has computed a batch, and its slots have not moved on yet. False: nothing was waited for. */
bool vr_draft_head_feed(struct vr_draft_head *m, struct vr_batcher *b);
/* Fills draft[] of those who want guesses, as far as it can. */
void vr_draft_head_guess(struct vr_draft_head *m, struct vr_batcher *b, const struct vr_pick *picks, uint32_t n);
/* A batch of n tokens with the hidden states of so many dimensions that come before them; its tokens are NULL when
 * there is no memory. */
struct llama_batch vr_draft_head_batch(uint32_t n, uint32_t width);
void vr_draft_head_batch_free(struct llama_batch b);
/* The same batch without its tokens, as features that a head takes into its cache; it points into `b`. */
struct llama_batch vr_draft_head_given(struct llama_batch *b);

#endif
