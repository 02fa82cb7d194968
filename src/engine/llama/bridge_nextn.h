/* Hidden states for MTP heads, which llama.cpp gives out in C++ only. */
#ifndef VR_ENGINE_LLAMA_BRIDGE_NEXTN_H
#define VR_ENGINE_LLAMA_BRIDGE_NEXTN_H

#include <stdbool.h>

#include <llama.h>

#ifdef __cplusplus
extern "C" {
#endif

/* From now on the context gives out the hidden state of every token, or only of those that have logits. To be called
 * before anything is computed or reserved. */
void vr_bridge_nextn_on(struct llama_context *ctx, bool with_logits_only);
/* That of row i of the last batch; NULL: there is none. */
const float *vr_bridge_nextn(struct llama_context *ctx, int32_t i);

#ifdef __cplusplus
}
#endif
#endif
