/* A draft head in a file of its own: half a model, that reads what the layers of a model are given (EAGLE-3, DFlash),
 * or its last hidden state and its KV cache (a Gemma 4 assistant). */
#ifndef VR_GGUF_HEAD_H
#define VR_GGUF_HEAD_H

#include "base/err.h"
#include "gguf/model.h"

#define VR_MOST_TAPS 8

/* The layers of the model whose input it reads, into out[]. Returns how many; 0: it does not say, or says too many. */
size_t vr_head_taps(const struct vr_model *head, uint32_t out[VR_MOST_TAPS]);
/* Whether its tokens are looked up in the model's own embeddings. */
bool vr_head_shares_input(const struct vr_model *head);
/* Whether its output is the model's; and whether it has no KV cache of its own, but reads the model's. */
bool vr_head_shares_output(const struct vr_model *head);
bool vr_head_shares_cache(const struct vr_model *head);
/* For which it must be on the device that these layers of `m` are on, its model; m->n_layers is the output. Returns how
 * many they are; 0: it may be anywhere. */
#define VR_MOST_ANCHORS 2
size_t vr_head_anchors(const struct vr_model *m, const struct vr_model *head, uint32_t out[VR_MOST_ANCHORS]);
/* The tokens that it was made to guess in one pass, at most; 0: it guesses one after the other. */
uint32_t vr_head_block(const struct vr_model *head);

/* Whether it is a kind of head that the engine can use, and belongs to `m`, as far as vocabularies are not concerned,
 * which pair.h compares. Reads which of the model's tokens a head knows (d2t): the engine believes those
 * numbers. */
bool vr_head_check(const struct vr_model *m, const struct vr_model *head, struct vr_err *err) VR_MUST_CHECK;

#endif
