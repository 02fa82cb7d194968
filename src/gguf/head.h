/* A draft head in a file of its own: half a model, that reads what the layers of a model are given (EAGLE-3), or its
 * last hidden state and its KV cache (a Gemma 4 assistant). */
#ifndef VR_GGUF_HEAD_H
#define VR_GGUF_HEAD_H

#include "base/err.h"
#include "gguf/model.h"

#define VR_MOST_TAPS 8

/* The layers of the model whose input it reads, into out[]. Returns how many; 0: it does not say, or says too many. */
size_t vr_head_taps(const struct vr_model *head, uint32_t out[VR_MOST_TAPS]);
/* Whether its tokens are looked up in the model's own embeddings. */
bool vr_head_shares_input(const struct vr_model *head);
/* Whether it has no KV cache of its own, but reads the model's: then it must be where vr_head_cache_layers() are. */
bool vr_head_shares_cache(const struct vr_model *head);
/* The two layers of `m`, which such a head belongs to, whose cache it reads. */
#define VR_SHARED_LAYERS 2
void vr_head_cache_layers(const struct vr_model *m, uint32_t out[VR_SHARED_LAYERS]);

/* Whether it is a kind of head that the engine can use, and belongs to `m`, as far as vocabularies are not concerned,
 * which pair.h compares. Reads which of the model's tokens an EAGLE-3 head knows (d2t): the engine believes those
 * numbers. */
bool vr_head_check(const struct vr_model *m, const struct vr_model *head, struct vr_err *err) VR_MUST_CHECK;

#endif
