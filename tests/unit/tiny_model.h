/* Small models with real weights, made on the spot: four layers, dense or of eight experts, no vocabulary. */
#ifndef TINY_MODEL_H
#define TINY_MODEL_H

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include <ggml.h>
#include <gguf.h>

enum { TINY_LAYERS = 4, TINY_EMBD = 512, TINY_FF = 1536, TINY_VOCAB = 4096, TINY_EXPERTS = 8, TINY_USED = 2 };

struct tiny {
    struct ggml_context *ctx;
    struct gguf_context *gguf;
    const char *arch;
    uint32_t seed;
};

static inline void tiny_u32(struct tiny *t, const char *key, uint32_t v)
{
    char name[96];
    snprintf(name, sizeof name, "%s.%s", t->arch, key);
    gguf_set_val_u32(t->gguf, name, v);
}

/* A tensor of reproducible noise; norms are ones and a little more. */
static inline void tiny_tensor(struct tiny *t, const char *name, enum ggml_type type, int64_t a, int64_t b, int64_t c)
{
    struct ggml_tensor *x = b == 0   ? ggml_new_tensor_1d(t->ctx, type, a)
                            : c == 0 ? ggml_new_tensor_2d(t->ctx, type, a, b)
                                     : ggml_new_tensor_3d(t->ctx, type, a, b, c);
    ggml_set_name(x, name);
    int64_t n = ggml_nelements(x);
    float *f = malloc((size_t)n * sizeof *f);
    for (int64_t i = 0; i < n; i++) {
        t->seed = t->seed * 1664525u + 1013904223u;
        float noise = (float)(t->seed >> 8) / (float)(1 << 24) - 0.5f;
        f[i] = b == 0 ? 1 + noise / 8 : noise / sqrtf((float)a) * 4;
    }
    ggml_quantize_chunk(type, f, x->data, 0, n / a, a, NULL);
    free(f);
    gguf_add_tensor(t->gguf, x);
}

static inline void tiny_layer(struct tiny *t, int il, bool experts)
{
    static const struct {
        const char *name;
        enum ggml_type type;
        int64_t a, b, c;
        int only; /* 0 both, 1 dense, 2 experts */
    } rows[] = {
        { "attn_norm", GGML_TYPE_F32, TINY_EMBD, 0, 0, 0 },
        { "attn_q", GGML_TYPE_Q4_K, TINY_EMBD, 512, 0, 0 },
        { "attn_k", GGML_TYPE_Q4_K, TINY_EMBD, 128, 0, 0 },
        { "attn_v", GGML_TYPE_Q6_K, TINY_EMBD, 128, 0, 0 },
        { "attn_output", GGML_TYPE_Q8_0, 512, TINY_EMBD, 0, 0 },
        { "attn_q_norm", GGML_TYPE_F32, 64, 0, 0, 2 },
        { "attn_k_norm", GGML_TYPE_F32, 64, 0, 0, 2 },
        { "ffn_norm", GGML_TYPE_F32, TINY_EMBD, 0, 0, 0 },
        { "ffn_gate", GGML_TYPE_Q4_K, TINY_EMBD, TINY_FF, 0, 1 },
        { "ffn_up", GGML_TYPE_Q4_K, TINY_EMBD, TINY_FF, 0, 1 },
        { "ffn_down", GGML_TYPE_F16, TINY_FF, TINY_EMBD, 0, 1 },
        { "ffn_gate_inp", GGML_TYPE_F32, TINY_EMBD, TINY_EXPERTS, 0, 2 },
        { "ffn_gate_exps", GGML_TYPE_Q4_K, TINY_EMBD, 512, TINY_EXPERTS, 2 },
        { "ffn_up_exps", GGML_TYPE_Q4_K, TINY_EMBD, 512, TINY_EXPERTS, 2 },
        { "ffn_down_exps", GGML_TYPE_Q4_0, 512, TINY_EMBD, TINY_EXPERTS, 2 },
    };
    char name[96];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].only && rows[i].only != (experts ? 2 : 1)) continue;
        snprintf(name, sizeof name, "blk.%d.%s.weight", il, rows[i].name);
        tiny_tensor(t, name, rows[i].type, rows[i].a, rows[i].b, rows[i].c);
    }
}

static inline bool tiny_write(const char *path, bool experts)
{
    struct tiny t = { .ctx = ggml_init((struct ggml_init_params){ 64 << 20, NULL, false }),
                      .gguf = gguf_init_empty(),
                      .arch = experts ? "qwen3moe" : "llama",
                      .seed = 1 };
    gguf_set_val_str(t.gguf, "general.architecture", t.arch);
    gguf_set_val_str(t.gguf, "general.name", "tiny");
    gguf_set_val_str(t.gguf, "tokenizer.ggml.model", "no_vocab");
    tiny_u32(&t, "vocab_size", TINY_VOCAB);
    tiny_u32(&t, "block_count", TINY_LAYERS);
    tiny_u32(&t, "context_length", 2048);
    tiny_u32(&t, "embedding_length", TINY_EMBD);
    tiny_u32(&t, "feed_forward_length", TINY_FF);
    tiny_u32(&t, "attention.head_count", 8);
    tiny_u32(&t, "attention.head_count_kv", 2);
    tiny_u32(&t, "attention.key_length", 64);
    tiny_u32(&t, "attention.value_length", 64);
    tiny_u32(&t, "rope.dimension_count", 64);
    if (experts) {
        tiny_u32(&t, "expert_count", TINY_EXPERTS);
        tiny_u32(&t, "expert_used_count", TINY_USED);
        tiny_u32(&t, "expert_feed_forward_length", 512);
    }
    char key[96];
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", t.arch);
    gguf_set_val_f32(t.gguf, key, 1e-5f);
    tiny_tensor(&t, "token_embd.weight", GGML_TYPE_Q8_0, TINY_EMBD, TINY_VOCAB, 0);
    tiny_tensor(&t, "output_norm.weight", GGML_TYPE_F32, TINY_EMBD, 0, 0);
    tiny_tensor(&t, "output.weight", GGML_TYPE_Q6_K, TINY_EMBD, TINY_VOCAB, 0);
    for (int il = 0; il < TINY_LAYERS; il++) tiny_layer(&t, il, experts);
    bool ok = gguf_write_to_file(t.gguf, path, false);
    gguf_free(t.gguf);
    ggml_free(t.ctx);
    return ok;
}

#endif
