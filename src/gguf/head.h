/* A draft head in a file of its own: half a model, that reads what the layers of a model are given. */
#ifndef VR_GGUF_HEAD_H
#define VR_GGUF_HEAD_H

#include "base/err.h"
#include "gguf/model.h"

#define VR_MOST_TAPS 8

/* The layers of the model whose input it reads, into out[]. Returns how many; 0: it does not say, or says too many. */
size_t vr_head_taps(const struct vr_model *head, uint32_t out[VR_MOST_TAPS]);
/* Whether its tokens are looked up in the model's own embeddings. */
bool vr_head_shares_input(const struct vr_model *head);

/* Whether an EAGLE-3 head is one that the engine can use, and belongs to `m`, as far as vocabularies are not concerned,
 * which pair.h compares. Reads which of the model's tokens the head knows (d2t): the engine believes those numbers. */
bool vr_head_check(const struct vr_model *m, const struct vr_model *head, struct vr_err *err) VR_MUST_CHECK;

#endif
