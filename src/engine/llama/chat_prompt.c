/* The marked rendering is used if it is not the plain one with the same special texts in it: where a template drops the
 * message with the special text, or only looks for characters that begin one, the plain one is what it always was. */
#include "engine/llama/chat_prompt.h"

#include <string.h>

#include <jansson.h>

#include "engine/content/marks.h"
#include "engine/llama/tokens.h"

/* --- which texts --- */

static const char *or_empty(const char *s) { return s ? s : ""; }

struct vr_specials *vr_chat_specials(const struct llama_model *model, const char *own, struct vr_err *err)
{
    const struct llama_vocab *vocab = llama_model_get_vocab(model);
    int n = llama_vocab_type(vocab) == LLAMA_VOCAB_TYPE_NONE ? 0 : llama_vocab_n_tokens(vocab);
    size_t found = 0;
    VR_AUTO_BUF source = { 0 };
    vr_buf_adds(&source, own ? own : or_empty(llama_model_chat_template(model, NULL)));
    if (!own) vr_buf_adds(&source, or_empty(llama_model_chat_template(model, "tool_use")));
    VR_AUTO_FREE struct vr_special *all = calloc((size_t)n + 1, sizeof *all);
    if (!all || source.failed) return VR_FAIL_NULL(err, VR_ENOMEM, "out of memory");
    for (llama_token t = 0; t < n; t++) {
        enum llama_token_attr attr = llama_vocab_get_attr(vocab, t);
        unsigned kind = attr & (LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_UNKNOWN) ? VR_SPECIAL_CONTROL
                        : attr & LLAMA_TOKEN_ATTR_USER_DEFINED                       ? VR_SPECIAL_DEFINED
                                                                                     : 0;
        if (kind) all[found++] = (struct vr_special){ or_empty(llama_vocab_get_text(vocab, t)), kind };
    }
    return vr_specials_new(all, found, vr_buf_str(&source), err);
}

/* --- rendering --- */

struct conversation { /* what is marked, as values and as texts */
    json_t *messages, *tools, *kwargs;
    char *texts[3];
};

static void conversation_done(struct conversation *c)
{
    json_decref(c->messages);
    json_decref(c->tools);
    json_decref(c->kwargs);
    for (size_t i = 0; i < 3; i++) free(c->texts[i]);
}

static json_t *parse(const char *text) { return text ? json_loads(text, JSON_DECODE_ANY, NULL) : json_null(); }

static bool read_conversation(struct conversation *c, const struct vr_chat_ask *ask, struct vr_err *err)
{
    c->messages = parse(ask->messages);
    c->tools = parse(ask->tools);
    c->kwargs = parse(ask->kwargs);
    return (c->messages && c->tools && c->kwargs) || vr_fail_nomem(err, "reading the messages");
}

static bool mark_conversation(struct vr_marks *m, const struct conversation *from, struct conversation *to)
{
    to->messages = vr_marks_messages(m, from->messages);
    to->tools = vr_marks_value(m, from->tools);
    to->kwargs = vr_marks_value(m, from->kwargs);
    if (m->failed) return false;
    const json_t *const all[] = { to->messages, to->tools, to->kwargs };
    for (size_t i = 0; i < 3; i++)
        if (!json_is_null(all[i]) && !(to->texts[i] = json_dumps(all[i], JSON_COMPACT))) return false;
    return true;
}

/* The prompt with marks in it. */
static bool render(const struct vr_marks *m, const struct conversation *c, const struct vr_chats *chats,
                   const struct llama_vocab *vocab, const struct vr_chat_ask *ask, struct vr_buf *out,
                   struct vr_err *err)
{
    struct vr_chat_ask marked = *ask;
    size_t n;
    marked.messages = c->texts[0];
    marked.tools = c->texts[1];
    marked.kwargs = c->texts[2];
    struct vr_chat *chat = vr_bridge_chat_new(chats, vocab, &marked, err);
    if (!chat) return false;
    const char *text = vr_bridge_chat_prompt(chat, &n);
    vr_marks_rendered(m, text, n, out);
    vr_bridge_chat_free(chat);
    return !out->failed || vr_fail_nomem(err, "rendering the chat template");
}

/* The rendering with marks says what the plain one says, and nothing of it is less special. */
static bool is_alike(const struct vr_marks *m, const struct vr_buf *marked, const struct vr_buf *text)
{
    VR_AUTO_BUF bare = { 0 };
    vr_marks_remove(m, vr_buf_str(marked), marked->n, &bare);
    return !bare.failed && bare.n == text->n && memcmp(vr_buf_str(&bare), vr_buf_str(text), text->n) == 0 &&
           vr_specials_weigh(m->specials, vr_buf_str(marked), marked->n) ==
               vr_specials_weigh(m->specials, vr_buf_str(text), text->n);
}

void vr_chat_prompt_done(struct vr_chat_prompt *p) { vr_buf_done(&p->text); }

bool vr_chat_prompt_make(struct vr_chat_prompt *out, const struct vr_specials *s, const struct vr_chats *chats,
                         const struct llama_vocab *vocab, const struct vr_chat_ask *ask, const struct vr_chat *chat,
                         struct vr_err *err)
{
    VR_CLEANUP(conversation_done) struct conversation given = { 0 }, marked = { 0 };
    struct vr_marks m;
    size_t n;
    *out = (struct vr_chat_prompt){ 0 };
    const char *plain = vr_bridge_chat_prompt(chat, &n);
    vr_buf_add(&out->text, plain, n);
    if (out->text.failed) return vr_fail_nomem(err, "rendering the chat template");
    if (!vr_marks_needed(s, ask->messages) && !vr_marks_needed(s, ask->tools) && !vr_marks_needed(s, ask->kwargs))
        return true;
    if (!read_conversation(&given, ask, err)) return false;
    if (!vr_marks_init(&m, s, (const char *const[]){ ask->messages, ask->tools, ask->kwargs, plain }, 4))
        return vr_fail(err, VR_EUSAGE,
                       "the text has all the noncharacters from U+FDD0 to U+FDEF: leave one of them out");
    if (!mark_conversation(&m, &given, &marked)) return vr_fail_nomem(err, "reading the messages");
    if (m.n == 0) return true;
    VR_AUTO_BUF text = { 0 };
    if (!render(&m, &marked, chats, vocab, ask, &text, err)) return false;
    if (is_alike(&m, &text, &out->text)) return true;
    if (m.n > VR_MOST_SPELLED)
        return vr_fail(err, VR_EUSAGE, "the text spells special tokens of this model %zu times; at most %d are allowed",
                       m.n, VR_MOST_SPELLED);
    vr_buf_done(&out->text);
    out->text = text;
    text = (struct vr_buf){ 0 };
    memcpy(out->mark, m.mark, sizeof out->mark);
    return true;
}

/* --- tokens --- */

/* Vocabularies of SentencePiece put a space before the first word. Behind a cut there is none: the mark, which no
 * vocabulary has and which therefore joins nothing, stands there instead, and its tokens are left out. */
static bool add_behind_cut(struct vr_tokens *t, const struct llama_vocab *vocab, const char *mark, const char *piece,
                           size_t n, struct vr_err *err)
{
    VR_AUTO_BUF text = { 0 };
    VR_AUTO_FREE llama_token *alone = NULL, *both = NULL;
    vr_buf_adds(&text, mark);
    vr_buf_add(&text, piece, n);
    if (text.failed) return vr_fail_nomem(err, "tokenizing");
    int n_alone = vr_bridge_tokenize(vocab, mark, strlen(mark), false, &alone, err);
    int n_both = n_alone < 0 ? -1 : vr_bridge_tokenize(vocab, vr_buf_str(&text), text.n, false, &both, err);
    if (n_both < 0) return false;
    int skip = n_both >= n_alone && memcmp(alone, both, (size_t)n_alone * sizeof *alone) == 0 ? n_alone : 0;
    return vr_tokens_add(t, both + skip, (size_t)(n_both - skip), err);
}

static bool add_piece(struct vr_tokens *t, const struct llama_vocab *vocab, const char *piece, size_t n,
                      struct vr_err *err)
{
    VR_AUTO_FREE llama_token *tokens = NULL;
    int count = vr_bridge_tokenize(vocab, piece, n, false, &tokens, err);
    return count >= 0 && vr_tokens_add(t, tokens, (size_t)count, err);
}

static bool add_pieces(struct vr_tokens *t, const struct llama_vocab *vocab, const struct vr_chat_prompt *p,
                       struct vr_err *err)
{
    const char *at = vr_buf_str(&p->text), *end = at + p->text.n;
    bool spaced = llama_vocab_type(vocab) == LLAMA_VOCAB_TYPE_SPM, first = true;
    while (at) {
        const char *cut = memmem(at, (size_t)(end - at), p->mark, strlen(p->mark));
        size_t n = (size_t)((cut ? cut : end) - at);
        if (n && !(spaced && !first ? add_behind_cut(t, vocab, p->mark, at, n, err) : add_piece(t, vocab, at, n, err)))
            return false;
        first = false;
        at = cut ? cut + strlen(p->mark) : NULL;
    }
    return true;
}

int vr_chat_prompt_tokenize(const struct vr_chat_prompt *p, const struct llama_vocab *vocab, llama_token **out,
                            struct vr_err *err)
{
    if (!p->mark[0]) return vr_bridge_tokenize(vocab, vr_buf_str(&p->text), p->text.n, !p->bare, out, err);
    VR_AUTO_FREE llama_token *edges = NULL; /* what the model wants at the beginning and the end */
    int n = vr_bridge_tokenize(vocab, "", 0, !p->bare, &edges, err);
    if (n < 0) return -1;
    size_t n_before = n > 0 && edges[0] == llama_vocab_bos(vocab) && llama_vocab_get_add_bos(vocab) ? 1 : 0;
    struct vr_tokens t = { 0 };
    if (vr_tokens_add(&t, edges, n_before, err) && add_pieces(&t, vocab, p, err) &&
        vr_tokens_add(&t, edges + n_before, (size_t)n - n_before, err)) {
        *out = t.all;
        return (int)t.n;
    }
    vr_tokens_done(&t);
    return -1;
}
