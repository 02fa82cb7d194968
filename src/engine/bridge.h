/* The parts of llama.cpp that are only there in C++, behind C functions. No exception passes; llama.cpp promises
 * nothing about these, so they are pinned with it. */
#ifndef VR_ENGINE_BRIDGE_H
#define VR_ENGINE_BRIDGE_H

#include <ggml-backend.h>
#include <llama.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vr_err;

struct vr_bridge_use {
    ggml_backend_buffer_type_t buft;
    uint64_t model_bytes, context_bytes, compute_bytes;
};
/* What the context's memory is made of, by buffer type: how many rows there are, of which the first `max` are in
 * out. -1 and err on failure. */
int vr_bridge_breakdown(const struct llama_context *ctx, struct vr_bridge_use *out, int max, struct vr_err *err);

/* Builds and reserves the graph for a batch, as decoding would; valid until the next call. NULL on failure. */
struct ggml_cgraph *vr_bridge_reserve(struct llama_context *ctx, uint32_t n_tokens, uint32_t n_seqs, uint32_t n_outputs,
                                      struct vr_err *err);
ggml_backend_sched_t vr_bridge_sched(const struct llama_context *ctx);

/* llama.cpp's own fit of a placement to the free memory. 0 fits, 1 does not, -1 failed (err is set). The buffers are
 * as common_fit_params wants them: split and margins for llama_max_devices(), overrides for
 * llama_max_tensor_buft_overrides(). */
int vr_bridge_fit(const char *path, struct llama_model_params *model, struct llama_context_params *context,
                  float *split, struct llama_model_tensor_buft_override *overrides, size_t *margins, uint32_t n_ctx_min,
                  struct vr_err *err);

#ifdef __cplusplus
}
#endif
#endif
