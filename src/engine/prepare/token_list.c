#include "engine/prepare/token_list.h"

#include "base/json.h"
#include "base/text.h"

enum { MOST_TOKEN = 512 }; /* bytes that a token can have; most have a few */

static void add_piece(struct vr_buf *out, const struct llama_vocab *vocab, llama_token token)
{
    char text[MOST_TOKEN];
    int n = llama_token_to_piece(vocab, token, text, sizeof text, 0, true);
    size_t len = 0;
    for (size_t at = 0; n > 0 && at < (size_t)n; at += len)
        if ((len = vr_utf8_len((const unsigned char *)text + at, (size_t)n - at)) == 0) break;
    if (n <= 0 || len) return vr_json_add_text(out, text, n > 0 ? (size_t)n : 0);
    for (int i = 0; i < n; i++) vr_buf_addf(out, "%s%u", i ? "," : "[", (unsigned char)text[i]);
    vr_buf_addc(out, ']', 1);
}

void vr_token_list(struct vr_buf *out, const struct llama_vocab *vocab, const llama_token *tokens, int n, bool pieces)
{
    vr_buf_addc(out, '[', 1);
    for (int i = 0; i < n; i++) {
        if (i) vr_buf_addc(out, ',', 1);
        vr_buf_addf(out, pieces ? "{\"id\":%d,\"piece\":" : "%d", tokens[i]);
        if (pieces) add_piece(out, vocab, tokens[i]);
        if (pieces) vr_buf_addc(out, '}', 1);
    }
    vr_buf_addc(out, ']', 1);
}
