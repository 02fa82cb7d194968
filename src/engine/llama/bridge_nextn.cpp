#include "engine/llama/bridge_nextn.h"

#include "engine/llama/bridge_guard.h"
#include "llama-ext.h"

void vr_bridge_nextn_on(struct llama_context *ctx, bool with_logits_only)
{
    llama_set_embeddings_nextn(ctx, true, with_logits_only);
}

const float *vr_bridge_nextn(struct llama_context *ctx, int32_t i) { return llama_get_embeddings_nextn_ith(ctx, i); }

void vr_bridge_taps_on(struct llama_context *ctx, const uint32_t *layers, size_t n)
{
    for (size_t i = 0; i < n; i++) llama_set_embeddings_layer_inp(ctx, layers[i], true);
}

void vr_bridge_give_nothing(struct llama_context *ctx, const uint32_t *layers, size_t n)
{
    llama_set_embeddings_nextn(ctx, false, false);
    for (size_t i = 0; i < n; i++) llama_set_embeddings_layer_inp(ctx, layers[i], false);
}

const float *vr_bridge_tap(struct llama_context *ctx, uint32_t layer)
{
    return llama_get_embeddings_layer_inp(ctx, layer);
}

size_t vr_bridge_head_taps(const struct llama_model *head, uint32_t *out, size_t max)
{
    const int32_t *ids = llama_model_target_layer_ids(head);
    size_t n = llama_model_target_layer_ids_n(head);
    for (size_t i = 0; i < n && i < max; i++) out[i] = (uint32_t)ids[i];
    return n;
}

int vr_bridge_encode(struct llama_context *ctx, struct llama_batch batch, struct vr_err *err)
{
    return guard("encoding", -3, err, [&] { return (int)llama_encode(ctx, batch); });
}
