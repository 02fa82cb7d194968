/* The one place where what is to be loaded becomes llama.cpp's parameters, for the dry run and for the engine process.
 * A dry run adds that nothing is allocated, and virtual devices; the process adds its callbacks. Nothing else differs.
 */
#ifndef VR_ENGINE_PARAMS_ENGINE_PARAMS_H
#define VR_ENGINE_PARAMS_ENGINE_PARAMS_H

#include <llama.h>

#include "base/err.h"
#include "engine/params/load_params.h"

/* llama_model_params and the arrays that they point to. Must be done. */
struct vr_model_params {
    struct llama_model_params model;
    ggml_backend_dev_t devices[VR_MAX_VGPUS + 1];
    size_t n_devices;
    float split[128];
    struct llama_model_tensor_buft_override *overrides;
};
/* `devices`: the engine's, one for each of p->devices. The patterns of p->overrides must live as long as `out`. */
bool vr_model_params_fill(const struct vr_load_params *p, const ggml_backend_dev_t *devices,
                          struct vr_model_params *out, struct vr_err *err) VR_MUST_CHECK;
void vr_model_params_done(struct vr_model_params *m);
#define VR_AUTO_MODEL_PARAMS VR_CLEANUP(vr_model_params_done) struct vr_model_params

/* Of the second context, for the MTP head of the model whose context is given. */
struct llama_context_params vr_head_context_params(const struct vr_load_params *p, struct llama_context *model);
/* Of what drafts, beside the context of the model: `p` is vr_draft_params(). */
struct llama_context_params vr_draft_context_params(const struct vr_load_params *p, struct llama_context *model);
/* Of a head that guesses blocks: rows of a block of p->n_draft guesses, 0 for other heads; whether the first row
 * guesses, too; and how many streams have one at the same time, at most. */
uint32_t vr_draft_block(const struct vr_load_params *p, const struct llama_model *head);
bool vr_draft_from_anchor(const struct vr_load_params *p, const struct llama_model *head);
uint32_t vr_draft_streams(uint32_t n_seq);
/* And what no parameter says: to be called once it is made. */
void vr_draft_context_set(const struct vr_load_params *p, struct llama_context *ctx);
struct llama_context_params vr_context_params(const struct vr_load_params *p);

/* What backends take from the environment: to be set before they are loaded, or virtual GPUs registered. */
bool vr_engine_environment(const struct vr_load_params *p, struct vr_err *err) VR_MUST_CHECK;

/* Of the context, and of an mmproj. */
enum llama_flash_attn_type vr_flash_attn_type(const struct vr_load_params *p);

#endif
