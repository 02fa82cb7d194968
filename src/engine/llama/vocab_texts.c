#include "engine/llama/vocab_texts.h"

#include "base/buf.h"

/* A token's text behind what is in `out`. */
static void add_piece(const struct llama_vocab *vocab, llama_token token, struct vr_buf *out)
{
    char small[256];
    int32_t n = llama_token_to_piece(vocab, token, small, sizeof small, 0, true);
    if (n >= 0) {
        vr_buf_add(out, small, (size_t)n);
        return;
    }
    size_t at = out->n;
    vr_buf_addc(out, ' ', (size_t)-n);
    if (!out->failed) llama_token_to_piece(vocab, token, out->data + at, -n, 0, true);
}

struct vr_token_index *vr_vocab_texts(const struct llama_vocab *vocab, struct vr_err *err)
{
    uint32_t n = (uint32_t)llama_vocab_n_tokens(vocab);
    VR_AUTO_BUF all = { 0 };
    VR_AUTO_FREE struct vr_token_text *texts = calloc((size_t)n + 1, sizeof *texts);
    VR_AUTO_FREE size_t *starts = calloc((size_t)n + 1, sizeof *starts);
    if (!texts || !starts) return vr_fail_nomem(err, "indexing the vocabulary"), NULL;
    if (llama_vocab_type(vocab) == LLAMA_VOCAB_TYPE_NONE) return vr_token_index_new(texts, n, err);
    for (uint32_t i = 0; i < n; i++) {
        starts[i] = all.n;
        add_piece(vocab, (llama_token)i, &all);
        texts[i].n = (uint32_t)(all.n - starts[i]);
        texts[i].end = llama_vocab_is_eog(vocab, (llama_token)i);
    }
    if (all.failed) return vr_fail_nomem(err, "indexing the vocabulary"), NULL;
    for (uint32_t i = 0; i < n; i++) texts[i].text = vr_buf_str(&all) + starts[i];
    return vr_token_index_new(texts, n, err);
}
