/* Hidden states for MTP heads and for draft heads in files of their own, which llama.cpp gives out in C++ only. */
#ifndef VR_ENGINE_LLAMA_BRIDGE_NEXTN_H
#define VR_ENGINE_LLAMA_BRIDGE_NEXTN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <llama.h>

#ifdef __cplusplus
extern "C" {
#endif
#include "base/err.h"

/* From now on the context gives out the hidden state of every token, or only of those that have logits. To be called
 * before anything is computed or reserved. */
void vr_bridge_nextn_on(struct llama_context *ctx, bool with_logits_only);
/* That of row i of the last batch; NULL: there is none. */
const float *vr_bridge_nextn(struct llama_context *ctx, int32_t i);

/* From now on the context gives out what these layers, all of which the model has, are given. What is computed next is
 * reserved anew for it. */
void vr_bridge_taps_on(struct llama_context *ctx, const uint32_t *layers, size_t n);
/* Neither of both any more. */
void vr_bridge_give_nothing(struct llama_context *ctx, const uint32_t *layers, size_t n);
/* Of such a layer: the rows of the last batch, in the order in which they were computed. */
const float *vr_bridge_tap(struct llama_context *ctx, uint32_t layer);
/* The layers that a draft head reads; returns how many there are, of which at most `max` are written. */
size_t vr_bridge_head_taps(const struct llama_model *head, uint32_t *out, size_t max);
/* llama_encode(). */
int vr_bridge_encode(struct llama_context *ctx, struct llama_batch batch, struct vr_err *err);

#ifdef __cplusplus
}
#endif
#endif
