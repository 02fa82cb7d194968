/* The fixtures have lost their vocabularies. What a user has is a file with one: the header of a model with a
 * vocabulary of its size (tokens, types, merges), so that an engine has as much to read as it would have from the
 * original. */
#ifndef BENCH_ORIGINAL_H
#define BENCH_ORIGINAL_H

#include "test.h"

#include "gguf/strip.h"
#include "gguf_maker.h"

static void original_header(const struct vr_model *m, int fd, struct maker *g)
{
    char bytes[70000];
    for (uint32_t i = 0; i < m->n_meta; i++) {
        const struct vr_meta *e = &m->meta[i];
        size_t n = (size_t)(e->end - e->begin);
        if (strncmp(e->key, "tokenizer.", 10) == 0) continue;
        if (n > sizeof bytes || pread(fd, bytes, n, (off_t)e->begin) != (ssize_t)n) abort();
        mk_raw(&g->meta, bytes, n);
        g->n_meta++;
    }
    for (uint32_t i = 0; i < m->n_tensors; i++) {
        const struct vr_tensor *t = &m->tensors[i];
        uint64_t ne[4] = { 0 };
        for (uint32_t d = 0; d < t->n_dims; d++) ne[d] = t->ne[d];
        mk_tensor_at(g, t->name, t->type, ne, g->data);
        g->data += (t->bytes + 31) / 32 * 32;
    }
}

/* The model as its user has it: one file with its vocabulary. */
static void original_write(const struct vr_model *m, const char *path)
{
    struct vr_err err = { 0 };
    VR_AUTO_CLOSE int fd = vr_model_strip(m, &err);
    char own[64];
    snprintf(own, sizeof own, "/proc/self/fd/%d", fd);
    VR_AUTO(vr_model) stripped = vr_model_open(own, &err);
    if (!stripped) abort();
    MK_AUTO g = { 0 };
    original_header(stripped, fd, &g);
    mk_str(&g, "tokenizer.ggml.model", "gpt2");
    mk_str(&g, "tokenizer.ggml.pre", "llama-bpe");
    mk_vocab(&g, "tokenizer.ggml.tokens", "token", m->n_vocab);
    mk_vocab(&g, "tokenizer.ggml.merges", "tok en", m->n_vocab);
    VR_AUTO_FREE int32_t *types = calloc(m->n_vocab, sizeof *types);
    if (!types) abort();
    for (uint32_t i = 0; i < m->n_vocab; i++) types[i] = 1;
    mk_i32s(&g, "tokenizer.ggml.token_type", types, m->n_vocab);
    mk_write(&g, path);
}

#endif
