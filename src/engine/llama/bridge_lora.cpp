/* What an adapter takes is counted by its file's header and the model's tensors, with the sizes that the engine's own
 * allocation asks the buffer types for; the engine does not tell. */
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <ggml-backend.h>
#include <gguf.h>
#include <llama.h>

#include "engine/llama/bridge_guard.h"
#include "engine/llama/lora.h"

/* Public, but in no header that can be included alone. */
struct llama_context {
    void sched_reserve();
};
struct llama_model {
    const ggml_tensor *get_tensor(const char *name) const;
};

struct vr_loras {
    std::vector<llama_adapter_lora *> all;
    std::map<ggml_backend_buffer_type_t, uint64_t> bytes;
};

/* Repacked weights are no place for others: their adapters are plain. */
static ggml_backend_buffer_type_t place_of(const ggml_tensor *weight)
{
    ggml_backend_buffer_type_t buft = ggml_backend_buffer_get_type(weight->buffer);
    ggml_backend_dev_t cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    auto extra = (ggml_backend_dev_get_extra_bufts_t)ggml_backend_reg_get_proc_address(
        ggml_backend_dev_backend_reg(cpu), "ggml_backend_dev_get_extra_bufts");
    for (ggml_backend_buffer_type_t *at = extra ? extra(cpu) : nullptr; at && *at; at++)
        if (*at == buft) return ggml_backend_dev_buffer_type(cpu);
    return buft;
}

/* Its tensors are called blk.0.attn_q.weight.lora_a and .lora_b. */
static void count(vr_loras *l, const llama_model *model, const char *path)
{
    ggml_context *made = nullptr;
    std::unique_ptr<gguf_context, void (*)(gguf_context *)> head(gguf_init_from_file(path, { true, &made }), gguf_free);
    std::unique_ptr<ggml_context, void (*)(ggml_context *)> tensors(made, ggml_free);
    for (ggml_tensor *t = head ? ggml_get_first_tensor(made) : nullptr; t; t = ggml_get_next_tensor(made, t)) {
        std::string name(t->name);
        const ggml_tensor *weight =
            name.size() > 7 ? model->get_tensor(name.substr(0, name.size() - 7).c_str()) : nullptr;
        if (!weight || !weight->buffer) continue;
        ggml_backend_buffer_type_t buft = place_of(weight);
        l->bytes[buft] += GGML_PAD(ggml_backend_buft_get_alloc_size(buft, t), ggml_backend_buft_get_alignment(buft));
    }
}

struct vr_loras *vr_bridge_loras_load(struct llama_model *model, const char *const *paths, size_t n, struct vr_err *err)
{
    return guard("LoRA adapters", (vr_loras *)nullptr, err, [&]() -> vr_loras * {
        auto l = std::make_unique<vr_loras>();
        for (size_t i = 0; i < n; i++) {
            llama_adapter_lora *a = llama_adapter_lora_init(model, paths[i]);
            if (!a) return vr_fail(err, VR_EENGINE, "%s: the LoRA adapter did not load", paths[i]), nullptr;
            l->all.push_back(a);
            count(l.get(), model, paths[i]);
        }
        return l.release();
    });
}

void vr_bridge_loras_free(struct vr_loras *l) { delete l; }

bool vr_bridge_loras_set(struct vr_loras *l, struct llama_context *ctx, const float *scales, struct vr_err *err)
{
    return guard("LoRA adapters", false, err, [&] {
        std::vector<float> copy(scales, scales + l->all.size());
        llama_set_adapters_lora(ctx, l->all.data(), l->all.size(), copy.data());
        ctx->sched_reserve();
        return true;
    });
}

int vr_bridge_loras_uses(const struct vr_loras *l, struct vr_bridge_use *out, int max)
{
    int n = 0;
    for (const auto &[buft, bytes] : l->bytes) {
        if (n < max) out[n] = { buft, bytes, 0, 0 };
        n++;
    }
    return n;
}

void vr_bridge_loras_meta(const struct vr_loras *l, size_t i, const char *key, char *out, size_t n)
{
    *out = '\0';
    if (i < l->all.size() && llama_adapter_meta_val_str(l->all[i], key, out, n) < 0) *out = '\0';
}
