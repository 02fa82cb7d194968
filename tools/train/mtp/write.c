/* The model as a GGUF file, all of it in f32: then the text does not depend on how a batch is rounded, and a token
 * takes as long as reading its weights, as it does with models that are large. */
#include "write.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <ggml.h>
#include <gguf.h>

#include "rhymes.h"
#include "tiny_vocab.h" /* of the tests, which this model is for */

static const char template[] = "{% for message in messages %}{{ message.content }}\n{% endfor %}";

static void write_vocabulary(struct gguf_context *g)
{
    static char text[VOCAB][24];
    static const char *words[VOCAB], *merges[] = { "q q" }; /* there must be one; no rhyme has it */
    static int32_t types[VOCAB];
    for (int i = 0; i < VOCAB; i++) {
        if (i < 256)
            tiny_spell(i, text[i]);
        else
            snprintf(text[i], sizeof text[i],
                     i == RHYME_END       ? "<|end|>"
                     : i == RHYME_END + 1 ? "qq"
                                          : "<|unused%d|>",
                     i);
        words[i] = text[i];
        types[i] = i < 256 || i == RHYME_END + 1 ? 1 : 3; /* normal, control */
    }
    gguf_set_val_str(g, "tokenizer.ggml.model", "gpt2");
    gguf_set_val_str(g, "tokenizer.ggml.pre", "gpt-2");
    gguf_set_arr_str(g, "tokenizer.ggml.tokens", words, VOCAB);
    gguf_set_arr_data(g, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, types, VOCAB);
    gguf_set_arr_str(g, "tokenizer.ggml.merges", merges, 1);
    gguf_set_val_u32(g, "tokenizer.ggml.bos_token_id", RHYME_END);
    gguf_set_val_u32(g, "tokenizer.ggml.eos_token_id", RHYME_END);
    gguf_set_val_bool(g, "tokenizer.ggml.add_bos_token", false);
    gguf_set_val_str(g, "tokenizer.chat_template", template);
}

static void write_settings(struct gguf_context *g)
{
    static const struct {
        const char *key;
        uint32_t value;
    } rows[] = {
        { "block_count", LAYERS + 1 },
        { "nextn_predict_layers", 1 },
        { "context_length", 4096 },
        { "embedding_length", EMBD },
        { "feed_forward_length", FF },
        { "attention.head_count", HEADS },
        { "attention.head_count_kv", KV },
        { "attention.key_length", HEAD },
        { "attention.value_length", HEAD },
        { "rope.dimension_count", N_ROT },
        { "vocab_size", VOCAB },
        { "full_attention_interval", EVERY },
        { "ssm.group_count", STATE_HEADS },
        { "ssm.conv_kernel", KERNEL_SIZE },
        { "ssm.inner_size", STATE * STATE_HEADS },
        { "ssm.state_size", STATE },
        { "ssm.time_step_rank", STATE_HEADS },
    };
    static const int32_t sections[4] = { 3, 3, 2, 0 }; /* of N_ROT / 2 pairs; text has one position for all */
    gguf_set_val_str(g, "general.architecture", "qwen35");
    gguf_set_val_str(g, "general.name", "vram-llm rhymes");
    gguf_set_val_str(g, "general.license", "mit");
    gguf_set_val_str(g, "general.description", "Counting rhymes, with an MTP head; made by tools/train/mtp for tests");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char key[64];
        snprintf(key, sizeof key, "qwen35.%s", rows[i].key);
        gguf_set_val_u32(g, key, rows[i].value);
    }
    gguf_set_val_f32(g, "qwen35.attention.layer_norm_rms_epsilon", EPS);
    gguf_set_val_f32(g, "qwen35.rope.freq_base", BASE);
    gguf_set_arr_data(g, "qwen35.rope.dimension_sections", GGUF_TYPE_INT32, sections, 4);
}

bool net_write(const struct net *n, const char *path)
{
    struct ggml_context *ctx = ggml_init((struct ggml_init_params){ 16 << 20, NULL, false });
    struct gguf_context *g = gguf_init_empty();
    write_settings(g);
    write_vocabulary(g);
    for (int i = 0; i < n->n; i++) {
        const struct weight *w = &n->w[i];
        struct ggml_tensor *x = w->m.rows > 1 ? ggml_new_tensor_2d(ctx, GGML_TYPE_F32, w->m.cols, w->m.rows)
                                              : ggml_new_tensor_1d(ctx, GGML_TYPE_F32, w->m.cols);
        float *to = x->data;
        const char *end = strrchr(w->name, '.');
        bool rate = end && strcmp(end, ".ssm_a") == 0; /* the file has what multiplies a step */
        for (int k = 0; k < w->m.rows * w->m.cols; k++) to[k] = rate ? -expf(w->m.x[k]) : w->m.x[k];
        ggml_set_name(x, w->name);
        gguf_add_tensor(g, x);
    }
    bool ok = gguf_write_to_file(g, path, false);
    gguf_free(g);
    ggml_free(ctx);
    return ok;
}
