#include "engine/grammar/token_index.h"

#include <string.h>

enum { MOST_BYTES = UINT16_MAX };

static bool in_tree(const struct vr_token_text *t)
{
    return !t->end && t->n > 0 && t->n <= MOST_BYTES && !memchr(t->text, '\0', t->n);
}

static int by_text(const void *a, const void *b, void *tokens)
{
    const struct vr_token_text *x = (const struct vr_token_text *)tokens + *(const uint32_t *)a;
    const struct vr_token_text *y = (const struct vr_token_text *)tokens + *(const uint32_t *)b;
    int c = memcmp(x->text, y->text, x->n < y->n ? x->n : y->n);
    if (c) return c;
    if (x->n != y->n) return x->n < y->n ? -1 : 1;
    return *(const uint32_t *)a < *(const uint32_t *)b ? -1 : 1;
}

static uint32_t common(const struct vr_token_text *a, const struct vr_token_text *b)
{
    uint32_t n = 0;
    while (a && n < a->n && n < b->n && a->text[n] == b->text[n]) n++;
    return n;
}

static bool copy_texts(struct vr_token_index *x, const struct vr_token_text *tokens, uint32_t n)
{
    size_t total = 0, at = 0;
    for (uint32_t i = 0; i < n; i++) total += tokens[i].n;
    x->tokens = calloc((size_t)n + 1, sizeof *x->tokens);
    x->sorted = calloc((size_t)n + 1, sizeof *x->sorted);
    x->bytes = malloc(total + 1);
    if (!x->tokens || !x->sorted || !x->bytes) return false;
    for (uint32_t i = 0; i < n; i++) {
        if (tokens[i].n) memcpy(x->bytes + at, tokens[i].text, tokens[i].n);
        x->tokens[i] = (struct vr_token_text){ x->bytes + at, tokens[i].n, tokens[i].end };
        at += tokens[i].n;
        if (in_tree(&x->tokens[i]))
            x->sorted[x->n_tokens++] = i;
        else
            x->sorted[n - ++x->n_others] = i;
    }
    x->others = x->sorted + x->n_tokens;
    qsort_r(x->sorted, x->n_tokens, sizeof *x->sorted, by_text, x->tokens);
    return true;
}

static bool count_nodes(struct vr_token_index *x)
{
    const struct vr_token_text *last = NULL;
    size_t n = 0;
    for (uint32_t i = 0; i < x->n_tokens; i++) {
        const struct vr_token_text *t = &x->tokens[x->sorted[i]];
        n += t->n - common(last, t);
        if (t->n > x->most_bytes) x->most_bytes = t->n;
        last = t;
    }
    if (n >= UINT32_MAX) return false;
    x->byte = malloc(n + 1);
    x->depth = calloc(n + 1, sizeof *x->depth);
    x->skip = calloc(n + 1, sizeof *x->skip);
    x->first = calloc(n + 1, sizeof *x->first);
    return x->byte && x->depth && x->skip && x->first;
}

/* Nodes that are open have their number in `open`, by depth. */
static void fill_nodes(struct vr_token_index *x, uint32_t *open)
{
    const struct vr_token_text *last = NULL;
    uint32_t depth = 0;
    for (uint32_t i = 0; i < x->n_tokens; i++) {
        const struct vr_token_text *t = &x->tokens[x->sorted[i]];
        uint32_t same = common(last, t);
        while (depth > same) x->skip[open[--depth]] = x->n_nodes;
        for (; depth < t->n; x->n_nodes++) {
            x->byte[x->n_nodes] = (uint8_t)t->text[depth];
            x->first[x->n_nodes] = i;
            open[depth++] = x->n_nodes;
            x->depth[x->n_nodes] = (uint16_t)depth;
        }
        last = t;
    }
    while (depth) x->skip[open[--depth]] = x->n_nodes;
    x->first[x->n_nodes] = x->n_tokens;
}

struct vr_token_index *vr_token_index_new(const struct vr_token_text *tokens, uint32_t n, struct vr_err *err)
{
    VR_AUTO(vr_token_index) x = calloc(1, sizeof *x);
    if (!x || !copy_texts(x, tokens, n) || !count_nodes(x)) return vr_fail_nomem(err, "indexing the vocabulary"), NULL;
    VR_AUTO_FREE uint32_t *open = calloc((size_t)x->most_bytes + 1, sizeof *open);
    if (!open) return vr_fail_nomem(err, "indexing the vocabulary"), NULL;
    fill_nodes(x, open);
    x->n_tokens = n;
    return VR_TAKE(x);
}

void vr_token_index_free(struct vr_token_index *x)
{
    if (!x) return;
    free(x->tokens);
    free(x->bytes);
    free(x->byte);
    free(x->depth);
    free(x->skip);
    free(x->first);
    free(x->sorted);
    free(x);
}

bool vr_token_index_find(const void *index, const char *text, size_t n, uint32_t *token)
{
    const struct vr_token_index *x = index;
    size_t depth = 0;
    for (uint32_t i = 0; i < x->n_nodes && x->depth[i] > depth;) {
        if (x->byte[i] != (uint8_t)text[depth]) {
            i = x->skip[i];
            if (i < x->n_nodes && x->depth[i] <= depth) return false;
            continue;
        }
        if (++depth == n) {
            *token = x->sorted[x->first[i]];
            return x->first[i] < x->first[i + 1];
        }
        i++;
    }
    return false;
}
