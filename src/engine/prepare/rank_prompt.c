#include "engine/prepare/rank_prompt.h"

#include <string.h>

#include "engine/content/marks.h"
#include "engine/llama/chat_prompt.h"

#define QUERY    "{query}"
#define DOCUMENT "{document}"

/* Both are replaced at once: a query that spells {document} is a query. */
static void fill(struct vr_buf *out, const char *pattern, const json_t *query, const json_t *document)
{
    while (*pattern) {
        const json_t *v = strncmp(pattern, QUERY, strlen(QUERY)) == 0         ? query
                          : strncmp(pattern, DOCUMENT, strlen(DOCUMENT)) == 0 ? document
                                                                              : NULL;
        if (v)
            vr_buf_add(out, json_string_value(v), json_string_length(v));
        else
            vr_buf_addc(out, *pattern, 1);
        pattern += v == query ? strlen(QUERY) : v ? strlen(DOCUMENT) : 1;
    }
}

static bool spells(const struct vr_specials *s, const json_t *text)
{
    return vr_specials_weigh(s, json_string_value(text), json_string_length(text)) > 0;
}

/* The same texts with marks where they spell special tokens (content/marks.h). */
static bool fill_marked(struct vr_chat_prompt *p, const struct vr_specials *s, const char *pattern, const json_t *query,
                        const json_t *document, struct vr_err *err)
{
    struct vr_marks m;
    const char *const texts[] = { pattern, json_string_value(query), json_string_value(document) };
    if (!vr_marks_init(&m, s, texts, VR_COUNT(texts)))
        return vr_fail(err, VR_EUSAGE,
                       "the text has all the noncharacters from U+FDD0 to U+FDEF: leave one of them out");
    json_t *marked[] = { vr_marks_value(&m, query), vr_marks_value(&m, document) };
    bool ok = marked[0] && marked[1];
    if (!ok)
        vr_fail_nomem(err, "reading the documents");
    else if (m.n > VR_MOST_SPELLED)
        ok = vr_fail(err, VR_EUSAGE, "the text spells special tokens of this model %zu times; at most %d are allowed",
                     m.n, VR_MOST_SPELLED);
    else
        fill(&p->text, pattern, marked[0], marked[1]);
    memcpy(p->mark, m.mark, sizeof p->mark);
    json_decref(marked[0]);
    json_decref(marked[1]);
    return ok;
}

static int by_template(const char *pattern, const struct llama_vocab *vocab, const struct vr_specials *s,
                       const json_t *query, const json_t *document, llama_token **out, struct vr_err *err)
{
    VR_CLEANUP(vr_chat_prompt_done) struct vr_chat_prompt p = { .bare = true };
    if (!spells(s, query) && !spells(s, document))
        fill(&p.text, pattern, query, document);
    else if (!fill_marked(&p, s, pattern, query, document, err))
        return -1;
    if (p.text.failed) return vr_fail_nomem(err, "reading the documents"), -1;
    return vr_chat_prompt_tokenize(&p, vocab, out, err);
}

static int as_a_pair(const struct llama_vocab *vocab, const json_t *query, const json_t *document, llama_token **out,
                     struct vr_err *err)
{
    VR_AUTO_FREE llama_token *q = NULL, *d = NULL;
    int n_q = vr_bridge_tokenize_as(vocab, json_string_value(query), json_string_length(query), false, false, &q, err);
    int n_d = n_q < 0 ? -1
                      : vr_bridge_tokenize_as(vocab, json_string_value(document), json_string_length(document), false,
                                              false, &d, err);
    llama_token bos = llama_vocab_bos(vocab), eos = llama_vocab_eos(vocab), sep = llama_vocab_sep(vocab), *all;
    if (n_d < 0) return -1;
    if (eos == LLAMA_TOKEN_NULL) eos = sep;
    if (!(all = calloc((size_t)n_q + (size_t)n_d + 4, sizeof *all)))
        return vr_fail_nomem(err, "reading the documents"), -1;
    int n = 0;
    if (llama_vocab_get_add_bos(vocab) && bos != LLAMA_TOKEN_NULL) all[n++] = bos;
    if (n_q) memcpy(all + n, q, (size_t)n_q * sizeof *all);
    n += n_q;
    if (llama_vocab_get_add_eos(vocab) && eos != LLAMA_TOKEN_NULL) all[n++] = eos;
    if (llama_vocab_get_add_sep(vocab) && sep != LLAMA_TOKEN_NULL) all[n++] = sep;
    if (n_d) memcpy(all + n, d, (size_t)n_d * sizeof *all);
    n += n_d;
    if (llama_vocab_get_add_eos(vocab) && eos != LLAMA_TOKEN_NULL) all[n++] = eos;
    *out = all;
    return n;
}

int vr_rank_prompt(const struct llama_model *model, const struct vr_specials *specials, const json_t *query,
                   const json_t *document, llama_token **out, struct vr_err *err)
{
    const struct llama_vocab *vocab = llama_model_get_vocab(model);
    const char *pattern = llama_model_chat_template(model, "rerank");
    return pattern ? by_template(pattern, vocab, specials, query, document, out, err)
                   : as_a_pair(vocab, query, document, out, err);
}
