#include "engine/prepare/infill.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "engine/llama/bridge.h"
#include "engine/llama/tokens.h"

#define PROJECT "myproject\n"
#define HERE    "filename\n"
#define SNIPPET "\n\n--- snippet ---\n\n"

/* A token that a vocabulary may not have. */
static bool add_one(struct vr_tokens *t, llama_token token, struct vr_err *err)
{
    return token == LLAMA_TOKEN_NULL || vr_tokens_add(t, &token, 1, err);
}

static bool add_text(struct vr_tokens *t, const struct llama_vocab *vocab, const char *text, size_t n,
                     struct vr_err *err)
{
    VR_AUTO_FREE llama_token *made = NULL;
    int count = vr_bridge_tokenize_as(vocab, text, n, false, false, &made, err);
    return count >= 0 && vr_tokens_add(t, made, (size_t)count, err);
}

static bool add_string(struct vr_tokens *t, const struct llama_vocab *vocab, const json_t *v, struct vr_err *err)
{
    return add_text(t, vocab, json_string_value(v), json_string_length(v), err);
}

static bool add_file(struct vr_tokens *t, const struct llama_vocab *vocab, const json_t *file, struct vr_err *err)
{
    const char *name = json_string_value(json_object_get(file, "filename"));
    llama_token sep = llama_vocab_fim_sep(vocab);
    VR_AUTO_BUF line = { 0 };
    if (sep == LLAMA_TOKEN_NULL)
        vr_buf_adds(&line, SNIPPET);
    else
        vr_buf_addf(&line, "%s\n", name ? name : "tmp");
    if (line.failed) return vr_fail_nomem(err, "tokenizing");
    bool ok = add_one(t, sep, err) && add_text(t, vocab, vr_buf_str(&line), line.n, err);
    return ok && add_string(t, vocab, json_object_get(file, "text"), err);
}

/* What stands before the prefix. */
static bool add_files(struct vr_tokens *t, const struct llama_vocab *vocab, const json_t *extra, struct vr_err *err)
{
    llama_token repo = llama_vocab_fim_rep(vocab), sep = llama_vocab_fim_sep(vocab);
    if (repo != LLAMA_TOKEN_NULL &&
        !(vr_tokens_add(t, &repo, 1, err) && add_text(t, vocab, PROJECT, strlen(PROJECT), err)))
        return false;
    for (size_t i = 0; i < json_array_size(extra); i++)
        if (!add_file(t, vocab, json_array_get(extra, i), err)) return false;
    return sep == LLAMA_TOKEN_NULL || (vr_tokens_add(t, &sep, 1, err) && add_text(t, vocab, HERE, strlen(HERE), err));
}

bool vr_infill_can(const struct llama_vocab *vocab)
{
    return llama_vocab_fim_pre(vocab) != LLAMA_TOKEN_NULL && llama_vocab_fim_suf(vocab) != LLAMA_TOKEN_NULL &&
           llama_vocab_fim_mid(vocab) != LLAMA_TOKEN_NULL;
}

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

int vr_infill_prompt(const struct llama_vocab *vocab, const struct vr_infill *ask, llama_token **out,
                     struct vr_err *err)
{
    VR_CLEANUP(vr_tokens_done) struct vr_tokens files = { 0 }, prefix = { 0 }, suffix = { 0 }, prompt = { 0 };
    struct vr_tokens all = { 0 };
    llama_token bos = llama_vocab_get_add_bos(vocab) ? llama_vocab_bos(vocab) : LLAMA_TOKEN_NULL;
    if (!add_files(&files, vocab, ask->extra, err) || !add_string(&prefix, vocab, ask->prefix, err) ||
        !add_string(&suffix, vocab, ask->suffix, err) || !add_string(&prompt, vocab, ask->prompt, err))
        return -1;
    size_t fixed = prompt.n + 3 + (bos != LLAMA_TOKEN_NULL), rest = ask->room > fixed ? ask->room - fixed : 0;
    size_t spare = rest > prefix.n ? rest - prefix.n : 0;
    size_t n_suffix = least(suffix.n, spare > rest / 4 ? spare : rest / 4);
    size_t n_prefix = least(prefix.n, rest - n_suffix), n_files = least(files.n, rest - n_suffix - n_prefix);
    if (add_one(&all, bos, err) && vr_tokens_add(&all, files.all + (files.n - n_files), n_files, err) &&
        add_one(&all, llama_vocab_fim_pre(vocab), err) &&
        vr_tokens_add(&all, prefix.all + (prefix.n - n_prefix), n_prefix, err) &&
        vr_tokens_add(&all, prompt.all, prompt.n, err) && add_one(&all, llama_vocab_fim_suf(vocab), err) &&
        vr_tokens_add(&all, suffix.all, n_suffix, err) && add_one(&all, llama_vocab_fim_mid(vocab), err)) {
        *out = all.all;
        return (int)all.n;
    }
    vr_tokens_done(&all);
    return -1;
}
