/* Three things one after the other: is the answer inside a thought, has it met a trigger, where does it stand in the
 * rules. Each token costs a bounded search for triggers: only the end of the text is looked at. */
#include "engine/grammar/grammar.h"

#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "engine/grammar/matcher.h"

enum {
    WINDOW = 512,  /* bytes at the end of the text that patterns are searched in */
    MOST_TAG = 32, /* tokens that begin or end a thought */
};

struct vr_grammar {
    struct vr_arena arena;
    struct vr_gbnf *rules;
    struct vr_matcher *start; /* to be copied */
    const struct vr_token_index *index;
    vr_pattern_find_fn *find;
    const void *ctx;
    struct vr_grammar_spec spec; /* in the arena, but for the text of the rules */
};

struct met { /* a token while waiting for a trigger */
    int32_t token;
    size_t end; /* of its text, in `text` */
};

struct vr_grammar_state {
    const struct vr_grammar *g;
    struct vr_matcher *matcher;
    bool waiting, thinks;
    int32_t tag[MOST_TAG]; /* the last tokens, where a thought may begin or end */
    size_t n_tag;
    struct vr_buf text, met; /* the end of what was said while waiting, and its tokens */
    bool cut;                /* there was more before it */
    uint64_t *mask;
    vr_matcher_state *stack;
};

/* --- what was asked for --- */

static bool copy_ids(struct vr_grammar *g, struct vr_ids *t)
{
    int32_t *copy = vr_arena_alloc(&g->arena, t->n + 1, sizeof *copy);
    if (!copy) return false;
    if (t->n) memcpy(copy, t->ids, t->n * sizeof *copy);
    t->ids = copy;
    return true;
}

static bool copy_spec(struct vr_grammar *g, const struct vr_grammar_spec *from)
{
    struct vr_grammar_spec *s = &g->spec;
    struct vr_trigger *triggers = vr_arena_alloc(&g->arena, from->n_triggers + 1, sizeof *triggers);
    struct vr_ids *ends = vr_arena_alloc(&g->arena, from->n_think_ends + 1, sizeof *ends);
    *s = *from;
    s->gbnf = (struct vr_span){ 0 };
    s->triggers = triggers;
    s->think_ends = ends;
    if (!triggers || !ends || !copy_ids(g, &s->trigger_tokens) || !copy_ids(g, &s->begun) || !copy_ids(g, &s->think))
        return false;
    for (size_t i = 0; i < from->n_triggers; i++) {
        triggers[i] = from->triggers[i];
        triggers[i].text.data = vr_arena_strndup(&g->arena, triggers[i].text.data, triggers[i].text.n);
        if (!triggers[i].text.data) return false;
    }
    for (size_t i = 0; i < from->n_think_ends; i++) {
        ends[i] = from->think_ends[i];
        if (!copy_ids(g, &ends[i])) return false;
    }
    return true;
}

struct vr_grammar *vr_grammar_new(const struct vr_grammar_spec *spec, const struct vr_token_index *index,
                                  vr_pattern_find_fn *find, const void *ctx, struct vr_err *err)
{
    VR_AUTO(vr_grammar) g = calloc(1, sizeof *g);
    if (!g || !copy_spec(g, spec)) return vr_fail_nomem(err, "reading a grammar"), NULL;
    g->index = index;
    g->find = find;
    g->ctx = ctx;
    g->rules = vr_gbnf_read(spec->gbnf.data, spec->gbnf.n, vr_token_index_find, index, err);
    if (!g->rules) return NULL;
    g->start = vr_matcher_new(g->rules, err);
    return g->start ? VR_TAKE(g) : NULL;
}

void vr_grammar_free(struct vr_grammar *g)
{
    if (!g) return;
    vr_matcher_free(g->start);
    vr_gbnf_free(g->rules);
    vr_arena_done(&g->arena);
    free(g);
}

/* --- the rules --- */

static const struct vr_token_text *text_of(const struct vr_grammar_state *s, int32_t token)
{
    static const struct vr_token_text none = { "", 0, false };
    return token >= 0 && (uint32_t)token < s->g->index->n_tokens ? &s->g->index->tokens[token] : &none;
}

/* n bytes of a token, which may be its end only. */
static bool accept_text(struct vr_grammar_state *s, int32_t token, const char *text, size_t n, struct vr_err *err)
{
    vr_matcher_state to = vr_matcher_now(s->matcher);
    if (!vr_matcher_step_token(s->matcher, &to, (uint32_t)token, text, n, err)) return false;
    if (to == VR_MATCHER_DEAD)
        return vr_fail(err, VR_EENGINE, "the grammar does not allow '%.*s' here", (int)(n < 64 ? n : 64), text);
    return vr_matcher_settle(s->matcher, to, err);
}

/* --- triggers --- */

/* Where the text has a trigger that ends in its last `fresh` bytes; SIZE_MAX: nowhere. */
static size_t find_trigger(const struct vr_grammar_state *s, size_t fresh)
{
    const struct vr_grammar_spec *spec = &s->g->spec;
    size_t n = s->text.n, from = n > WINDOW ? n - WINDOW : 0;
    for (size_t i = 0; i < spec->n_triggers; i++) {
        const struct vr_trigger *t = &spec->triggers[i];
        size_t len = t->text.n, at;
        if (t->pattern) {
            at = s->g->find ? s->g->find(s->g->ctx, i, s->text.data + from, n - from, from == 0 && !s->cut) : SIZE_MAX;
            if (at != SIZE_MAX) return from + at;
        } else if (len) {
            at = n > fresh + len ? n - fresh - len : 0;
            const char *hit = memmem(s->text.data + at, n - at, t->text.data, len);
            if (hit) return (size_t)(hit - s->text.data);
        }
    }
    return SIZE_MAX;
}

/* The rules begin at `from` in the text: its tokens are taken again. */
static bool wake(struct vr_grammar_state *s, size_t from, struct vr_err *err)
{
    const struct met *met = (const void *)s->met.data;
    size_t n = s->met.n / sizeof *met, at = 0;
    s->waiting = false;
    for (size_t i = 0; i < n; at = met[i++].end) {
        if (met[i].end <= from) continue;
        size_t start = at < from ? from : at;
        if (!accept_text(s, met[i].token, s->text.data + start, met[i].end - start, err)) return false;
    }
    return true;
}

/* Keeps the end of the text: the tokens that reach into the window. */
static void forget(struct vr_grammar_state *s)
{
    struct met *met = (void *)s->met.data;
    size_t n = s->met.n / sizeof *met, i = 0;
    if (s->text.n < 4 * WINDOW) return;
    while (i < n && met[i].end + WINDOW <= s->text.n) i++;
    size_t gone = i ? met[i - 1].end : 0;
    for (size_t k = i; k < n; k++) met[k - i] = (struct met){ met[k].token, met[k].end - gone };
    s->met.n = (n - i) * sizeof *met;
    memmove(s->text.data, s->text.data + gone, s->text.n - gone + 1);
    s->text.n -= gone;
    s->cut = true;
}

static bool wait_more(struct vr_grammar_state *s, int32_t token, struct vr_err *err)
{
    const struct vr_grammar_spec *spec = &s->g->spec;
    const struct vr_token_text *t = text_of(s, token);
    for (size_t i = 0; i < spec->trigger_tokens.n; i++)
        if (spec->trigger_tokens.ids[i] == token) {
            s->waiting = false;
            return accept_text(s, token, t->text, t->n, err);
        }
    vr_buf_add(&s->text, t->text, t->n);
    struct met met = { token, s->text.n };
    vr_buf_add(&s->met, &met, sizeof met);
    if (s->text.failed || s->met.failed) return vr_fail_nomem(err, "matching a grammar");
    if (s->text.n == 0) return true;
    size_t at = find_trigger(s, t->n);
    if (at != SIZE_MAX) return wake(s, at, err);
    forget(s);
    return true;
}

static bool take(struct vr_grammar_state *s, int32_t token, struct vr_err *err)
{
    const struct vr_token_text *t = text_of(s, token);
    if (s->waiting) return wait_more(s, token, err);
    return t->end || accept_text(s, token, t->text, t->n, err);
}

/* --- thoughts --- */

static bool ends_with(const struct vr_grammar_state *s, const struct vr_ids *t)
{
    return t->n && t->n <= s->n_tag && memcmp(s->tag + s->n_tag - t->n, t->ids, t->n * sizeof *t->ids) == 0;
}

/* Where a thought ends, the tokens that ended it, which may be what the grammar waits for; else NULL. */
static const struct vr_ids *think(struct vr_grammar_state *s, int32_t token)
{
    const struct vr_grammar_spec *spec = &s->g->spec;
    const struct vr_ids *longest = NULL;
    if (s->n_tag == MOST_TAG) memmove(s->tag, s->tag + 1, --s->n_tag * sizeof *s->tag);
    s->tag[s->n_tag++] = token;
    if (!s->thinks) {
        s->thinks = ends_with(s, &spec->think);
        if (s->thinks) s->n_tag = 0;
        return NULL;
    }
    for (size_t i = 0; i < spec->n_think_ends; i++)
        if (ends_with(s, &spec->think_ends[i]) && (!longest || spec->think_ends[i].n > longest->n))
            longest = &spec->think_ends[i];
    if (!longest) return NULL;
    s->thinks = false;
    s->n_tag = 0;
    return longest;
}

bool vr_grammar_accept(struct vr_grammar_state *s, int32_t token, struct vr_err *err)
{
    bool applied = !s->thinks;
    if (s->g->spec.think.n) {
        const struct vr_ids *end = think(s, token);
        for (size_t i = 0; end && i < end->n; i++)
            if (!take(s, end->ids[i], err)) return false;
    }
    return !applied || take(s, token, err);
}

/* --- asking --- */

bool vr_grammar_allows(struct vr_grammar_state *s, int32_t token, bool *yes, struct vr_err *err)
{
    const struct vr_token_text *t = text_of(s, token);
    vr_matcher_state to = vr_matcher_now(s->matcher);
    *yes = true;
    if (s->thinks || s->waiting) return true;
    if (t->end) return *yes = vr_matcher_may_end(s->matcher, to), true;
    *yes = false;
    if (t->n == 0 || memchr(t->text, '\0', t->n)) return true;
    if (!vr_matcher_step_token(s->matcher, &to, (uint32_t)token, t->text, t->n, err)) return false;
    *yes = to != VR_MATCHER_DEAD;
    return true;
}

bool vr_grammar_mask(struct vr_grammar_state *s, const uint64_t **mask, struct vr_err *err)
{
    const struct vr_token_index *x = s->g->index;
    size_t words = (size_t)x->n_tokens / 64 + 1;
    *mask = NULL;
    if (s->thinks || s->waiting) return true;
    if (!s->mask) s->mask = malloc(words * sizeof *s->mask);
    if (!s->stack) s->stack = malloc(((size_t)x->most_bytes + 1) * sizeof *s->stack);
    if (!s->mask || !s->stack) return vr_fail_nomem(err, "matching a grammar");
    memset(s->mask, 0, words * sizeof *s->mask);
    vr_matcher_state now = vr_matcher_now(s->matcher);
    if (!vr_matcher_mask(s->matcher, now, x, s->mask, s->stack, err)) return false;
    bool may_end = vr_matcher_may_end(s->matcher, now);
    for (uint32_t i = 0; i < x->n_others; i++) {
        uint32_t token = x->others[i];
        uint64_t bit = UINT64_C(1) << token % 64;
        s->mask[token / 64] &= ~bit;
        if (may_end && x->tokens[token].end) s->mask[token / 64] |= bit;
    }
    *mask = s->mask;
    return true;
}

/* --- a state's life --- */

struct vr_grammar_state *vr_grammar_begin(const struct vr_grammar *g, struct vr_err *err)
{
    struct vr_grammar_state *s = calloc(1, sizeof *s);
    if (!s) return vr_fail_nomem(err, "beginning a grammar"), NULL;
    s->g = g;
    s->waiting = g->spec.lazy;
    s->matcher = vr_matcher_clone(g->start, err);
    bool ok = s->matcher != NULL;
    for (size_t i = 0; ok && i < g->spec.begun.n; i++) {
        if (!g->spec.lazy)
            ok = take(s, g->spec.begun.ids[i], err);
        else if (g->spec.think.n) /* nothing ends there that the grammar would wait for */
            think(s, g->spec.begun.ids[i]);
    }
    if (ok) return s;
    vr_grammar_end(s);
    return NULL;
}

void vr_grammar_end(struct vr_grammar_state *s)
{
    if (!s) return;
    vr_matcher_free(s->matcher);
    vr_buf_done(&s->text);
    vr_buf_done(&s->met);
    free(s->mask);
    free(s->stack);
    free(s);
}

uint64_t vr_grammar_operations(const struct vr_grammar_state *s) { return vr_matcher_operations(s->matcher); }
size_t vr_grammar_bytes(const struct vr_grammar_state *s)
{
    return vr_matcher_bytes(s->matcher) + s->text.cap + s->met.cap;
}
