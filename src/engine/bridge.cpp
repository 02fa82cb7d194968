/* The only C++ of the project: each function calls one of llama.cpp's and turns exceptions into an error. */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include <fit.h>
#include <llama-ext.h>
#include <log.h>

#include "engine/bridge.h"

extern "C" {
#include "base/err.h"
}

/* The scheduler has a getter, but in no header that can be included alone. */
struct llama_context {
    ggml_backend_sched_t get_sched() const;
};

template <typename T, typename F> static T guard(const char *what, T failed, struct vr_err *err, F f)
{
    try {
        return f();
    } catch (const std::exception &e) {
        vr_fail(err, VR_EENGINE, "%s: %s", what, e.what());
    } catch (...) {
        vr_fail(err, VR_EENGINE, "%s failed without a reason", what);
    }
    return failed;
}

int vr_bridge_breakdown(const struct llama_context *ctx, struct vr_bridge_use *out, int max, struct vr_err *err)
{
    return guard("memory breakdown", -1, err, [&] {
        int n = 0;
        for (const auto &[buft, use] : llama_get_memory_breakdown(ctx)) {
            if (n < max) out[n] = { buft, use.model, use.context, use.compute };
            n++;
        }
        return n;
    });
}

struct ggml_cgraph *vr_bridge_reserve(struct llama_context *ctx, uint32_t n_tokens, uint32_t n_seqs, uint32_t n_outputs,
                                      struct vr_err *err)
{
    return guard("graph reserve", (ggml_cgraph *)nullptr, err, [&] {
        ggml_cgraph *g = llama_graph_reserve(ctx, n_tokens, n_seqs, n_outputs);
        if (!g) vr_fail(err, VR_EENGINE, "the engine could not reserve its compute buffers");
        return g;
    });
}

ggml_backend_sched_t vr_bridge_sched(const struct llama_context *ctx) { return ctx->get_sched(); }

int vr_bridge_fit(const char *path, struct llama_model_params *model, struct llama_context_params *context,
                  float *split, struct llama_model_tensor_buft_override *overrides, size_t *margins, uint32_t n_ctx_min,
                  struct vr_err *err)
{
    return guard("llama.cpp's fit", -1, err, [&] {
        common_log_set_verbosity_thold(LOG_LEVEL_ERROR);
        switch (common_fit_params(path, model, context, split, overrides, margins, n_ctx_min, nullptr,
                                  GGML_LOG_LEVEL_ERROR)) {
        case COMMON_PARAMS_FIT_STATUS_SUCCESS: return 0;
        case COMMON_PARAMS_FIT_STATUS_FAILURE: return 1;
        default: vr_fail(err, VR_EENGINE, "llama.cpp's fit failed"); return -1;
        }
    });
}
