#include "engine/llama/bridge_nextn.h"

#include "llama-ext.h"

void vr_bridge_nextn_on(struct llama_context *ctx, bool with_logits_only)
{
    llama_set_embeddings_nextn(ctx, true, with_logits_only);
}

const float *vr_bridge_nextn(struct llama_context *ctx, int32_t i) { return llama_get_embeddings_nextn_ith(ctx, i); }
