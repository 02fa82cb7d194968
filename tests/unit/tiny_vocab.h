/* Vocabularies without a model, made on the spot: bytes, a few merges, and the special tokens that are asked for. */
#ifndef TINY_VOCAB_H
#define TINY_VOCAB_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gguf.h>
#include <llama.h>

enum { TINY_NORMAL = 1, TINY_UNKNOWN = 2, TINY_CONTROL = 3, TINY_DEFINED = 4, TINY_BYTE = 6, TINY_MOST = 4096 };

enum tiny_kind { TINY_BPE, TINY_SPM, TINY_SPM_SPACED };

struct tiny_vocab {
    char text[TINY_MOST][80];
    const char *words[TINY_MOST];
    float scores[TINY_MOST];
    int32_t types[TINY_MOST];
    size_t n;
};

static inline int tiny_add(struct tiny_vocab *v, const char *text, int type)
{
    for (size_t i = 0; i < v->n; i++)
        if (strcmp(v->text[i], text) == 0) return (int)i;
    snprintf(v->text[v->n], sizeof v->text[0], "%s", text);
    v->words[v->n] = v->text[v->n];
    v->types[v->n] = type;
    v->scores[v->n] = -(float)v->n;
    return (int)v->n++;
}

/* How GPT-2 writes byte b: itself where it can be seen, else a code point from 256 on. */
static inline void tiny_spell(int b, char out[4])
{
    int code = b, hidden = 0;
    for (int i = 0; i <= b; i++) {
        if ((i >= 33 && i <= 126) || (i >= 161 && i <= 172) || i >= 174) continue;
        if (i == b) code = 256 + hidden;
        hidden++;
    }
    int n = code < 128 ? 1 : 2;
    out[0] = n == 1 ? (char)code : (char)(0xC0 | code >> 6);
    out[1] = n == 1 ? '\0' : (char)(0x80 | (code & 63));
    out[n] = '\0';
}

static inline void tiny_bytes(struct tiny_vocab *v, enum tiny_kind kind)
{
    char text[16];
    for (int b = 0; b < 256; b++) {
        if (kind == TINY_BPE)
            tiny_spell(b, text);
        else
            snprintf(text, sizeof text, "<0x%02X>", b);
        tiny_add(v, text, kind == TINY_BPE ? TINY_NORMAL : TINY_BYTE);
    }
    static const char *const pieces[] = { "th", "he", "in", "er", "an", "re", "on", "im", "_e", "|>", "to", "ol" };
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) tiny_add(v, pieces[i], TINY_NORMAL);
    if (kind == TINY_BPE) return;
    tiny_add(v, "\xe2\x96\x81", TINY_NORMAL);
    for (int c = 33; c < 127; c++) {
        snprintf(text, sizeof text, "%c", c);
        tiny_add(v, text, TINY_NORMAL);
        snprintf(text, sizeof text, "\xe2\x96\x81%c", c);
        tiny_add(v, text, TINY_NORMAL);
    }
}

/* Writes it to a file and opens it. `bos` is added at the beginning if the vocabulary wants that. */
static inline struct llama_model *tiny_open(struct tiny_vocab *v, enum tiny_kind kind, int bos, int eos, bool add_bos,
                                            const char *chat_template, const char *path)
{
    static const char *const merges[] = { "t h", "h e", "i n", "e r", "a n", "r e", "o n", "i m", "_ e", "| >" };
    struct gguf_context *g = gguf_init_empty();
    gguf_set_val_str(g, "general.architecture", "llama");
    gguf_set_val_str(g, "tokenizer.ggml.model", kind == TINY_BPE ? "gpt2" : "llama");
    if (kind == TINY_BPE) gguf_set_val_str(g, "tokenizer.ggml.pre", "qwen2");
    gguf_set_arr_str(g, "tokenizer.ggml.tokens", v->words, v->n);
    gguf_set_arr_data(g, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, v->types, v->n);
    gguf_set_arr_data(g, "tokenizer.ggml.scores", GGUF_TYPE_FLOAT32, v->scores, v->n);
    if (kind == TINY_BPE) gguf_set_arr_str(g, "tokenizer.ggml.merges", (const char **)merges, 10);
    gguf_set_val_u32(g, "tokenizer.ggml.bos_token_id", (uint32_t)bos);
    gguf_set_val_u32(g, "tokenizer.ggml.eos_token_id", (uint32_t)eos);
    gguf_set_val_bool(g, "tokenizer.ggml.add_bos_token", add_bos);
    gguf_set_val_bool(g, "tokenizer.ggml.add_space_prefix", kind == TINY_SPM_SPACED);
    if (chat_template) gguf_set_val_str(g, "tokenizer.chat_template", chat_template);
    bool ok = gguf_write_to_file(g, path, true);
    gguf_free(g);
    struct llama_model_params p = llama_model_default_params();
    p.vocab_only = true;
    p.load_mode = LLAMA_LOAD_MODE_NONE;
    return ok ? llama_model_load_from_file(path, p) : NULL;
}

#endif
