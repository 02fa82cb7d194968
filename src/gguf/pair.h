/* Files that belong to a model: a draft model for speculative decoding, a vision projector (mmproj). */
#ifndef VR_GGUF_PAIR_H
#define VR_GGUF_PAIR_H

#include "base/err.h"
#include "gguf/model.h"

/* Whether the file is a model and not one of these. */
bool vr_pair_model(const struct vr_model *m, struct vr_err *err) VR_MUST_CHECK;

/* Tokens that a draft's vocabulary may have more or less; the engine's own limit. */
#define VR_DRAFT_VOCAB_SLACK 128

/* Whether `draft` can draft for `m`: an ordinary model with the same vocabulary, as speculative decoding needs it
 * (kind of tokenizer, special tokens, number of tokens within VR_DRAFT_VOCAB_SLACK, the text of each), or a head
 * of `m` (head.h), with exactly as many tokens. Reads both vocabularies. */
bool vr_pair_draft(const struct vr_model *m, const struct vr_model *draft, struct vr_err *err) VR_MUST_CHECK;

/* Whether the file is a LoRA adapter, and one of this model: of its architecture, with tensors that match. */
bool vr_pair_lora(const struct vr_model *m, const struct vr_model *lora, struct vr_err *err) VR_MUST_CHECK;

/* Whether the file is an mmproj at all. That its output is as wide as the model's embeddings, only its projector's
 * rules say: the engine is asked (vr_pair_width). */
bool vr_pair_mmproj(const struct vr_model *mmproj, struct vr_err *err) VR_MUST_CHECK;
/* Whether embeddings of that width fit the model. */
bool vr_pair_width(const struct vr_model *m, const struct vr_model *mmproj, uint32_t width,
                   struct vr_err *err) VR_MUST_CHECK;

#endif
