/* LoRA adapters of a model that is loaded, as the dry run and the engine process use them.
 *
 * Each pair of an adapter's tensors goes where the model's tensor is. A context computes with one set of scales at a
 * time; another set is another graph, for which it reserves its compute buffers again. */
#ifndef VR_ENGINE_LLAMA_LORA_H
#define VR_ENGINE_LLAMA_LORA_H

#include "engine/llama/bridge.h"

#ifdef __cplusplus
extern "C" {
#endif

struct vr_loras;

/* Reads n adapters; before a context is made, which counts their operations. They stay as long as the model. NULL and
 * err: which one could not be read; the engine's log says why. */
struct vr_loras *vr_bridge_loras_load(struct llama_model *model, const char *const *paths, size_t n,
                                      struct vr_err *err);
void vr_bridge_loras_free(struct vr_loras *l);

/* Computes with these scales from now on; 0 is off. */
bool vr_bridge_loras_set(struct vr_loras *l, struct llama_context *ctx, const float *scales, struct vr_err *err);

/* What they take together, by buffer type: how many rows there are, of which the first `max` are in out. */
int vr_bridge_loras_uses(const struct vr_loras *l, struct vr_bridge_use *out, int max);
/* A text of an adapter's metadata; "": none. */
void vr_bridge_loras_meta(const struct vr_loras *l, size_t i, const char *key, char *out, size_t n);

#ifdef __cplusplus
}
#endif

#endif
