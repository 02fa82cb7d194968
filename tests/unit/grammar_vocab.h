/* The shipped model's vocabulary, for the engine's grammars and for ours. */
#ifndef GRAMMAR_VOCAB_H
#define GRAMMAR_VOCAB_H

#include <llama.h>

#include "engine/llama/vocab_texts.h"

struct grammar_vocab {
    struct llama_model *model;
    const struct llama_vocab *vocab;
    struct vr_token_index *index;
    int32_t n;
};

static inline void grammar_quiet(enum ggml_log_level level, const char *text, void *ctx)
{
    (void)level, (void)text, (void)ctx;
}

static inline void grammar_vocab_open(struct grammar_vocab *v)
{
    struct vr_err err = { 0 };
    llama_log_set(grammar_quiet, NULL);
    struct llama_model_params p = llama_model_default_params();
    p.vocab_only = true;
    v->model = llama_model_load_from_file("models/demo.gguf", p);
    assert_non_null(v->model);
    v->vocab = llama_model_get_vocab(v->model);
    v->n = llama_vocab_n_tokens(v->vocab);
    v->index = vr_vocab_texts(v->vocab, &err);
    assert_non_null(v->index);
}

static inline void grammar_vocab_close(struct grammar_vocab *v)
{
    vr_token_index_free(v->index);
    llama_model_free(v->model);
}

#endif
