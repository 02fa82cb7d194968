/* A hash table of the latest place of every key, and for each place the one before it with the same hash. Of the
 * latest few places that of the longest common past is taken. */
#include "engine/speculate/ngram.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { CANDIDATES = 8, LONGEST_PAST = 32, FIRST_SIZE = 1024 };
#define NOWHERE UINT32_MAX

struct vr_ngram {
    uint32_t *latest;   /* by hash: the last token of a key; a power of two of them */
    uint32_t *previous; /* by place */
    uint32_t size;      /* of either: places that fit */
    uint32_t n;         /* places that are in it */
};

struct text {
    const int32_t *tokens;
    uint32_t n; /* and next is token n */
    int32_t next;
};

static int32_t at(const struct text *t, uint32_t i) { return i < t->n ? t->tokens[i] : t->next; }

struct vr_ngram *vr_ngram_new(void) { return calloc(1, sizeof(struct vr_ngram)); }

void vr_ngram_free(struct vr_ngram *g)
{
    if (!g) return;
    free(g->latest);
    free(g->previous);
    free(g);
}

static uint32_t hash(const struct vr_ngram *g, const struct text *t, uint32_t i)
{
    uint64_t h = 0;
    for (uint32_t k = 0; k < VR_NGRAM_KEY; k++) h = (h + (uint32_t)at(t, i - k)) * UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(h >> 32) & (g->size - 1);
}

/* Empty, with room for so many places. */
static bool grow(struct vr_ngram *g, uint32_t places)
{
    uint32_t size = g->size ? g->size : FIRST_SIZE;
    while (size < places && size < UINT32_C(1) << 31) size *= 2;
    uint32_t *latest = malloc((size_t)size * sizeof *latest), *previous = malloc((size_t)size * sizeof *previous);
    if (!latest || !previous) return free(latest), free(previous), false;
    free(g->latest);
    free(g->previous);
    memset(latest, 0xFF, (size_t)size * sizeof *latest);
    *g = (struct vr_ngram){ latest, previous, size, 0 };
    return true;
}

/* All places whose key is followed by something. */
static bool index_text(struct vr_ngram *g, const struct text *t)
{
    if (t->n > g->size && !grow(g, t->n)) return false;
    if (!g->size && !grow(g, t->n)) return false;
    for (uint32_t i = g->n < VR_NGRAM_KEY - 1 ? VR_NGRAM_KEY - 1 : g->n; i < t->n; i++) {
        uint32_t h = hash(g, t, i);
        g->previous[i] = g->latest[h];
        g->latest[h] = i;
    }
    g->n = t->n;
    return true;
}

/* How many tokens up to place i are those up to the end. */
static uint32_t common_past(const struct text *t, uint32_t i)
{
    uint32_t k = 0;
    while (k < LONGEST_PAST && k <= i && at(t, i - k) == at(t, t->n - k)) k++;
    return k;
}

uint32_t vr_ngram_guess(struct vr_ngram *g, const int32_t *tokens, uint32_t n, int32_t next, uint32_t most,
                        int32_t *out)
{
    const struct text t = { tokens, n, next };
    uint32_t best = NOWHERE, longest = VR_NGRAM_KEY - 1, n_out = 0;
    if (n < VR_NGRAM_KEY || !index_text(g, &t)) return 0;
    uint32_t i = g->latest[hash(g, &t, n)];
    for (int seen = 0; i != NOWHERE && seen < CANDIDATES; seen++, i = g->previous[i]) {
        uint32_t past = i < n ? common_past(&t, i) : 0;
        if (past > longest) longest = past, best = i;
    }
    if (best == NOWHERE) return 0;
    for (uint32_t from = best + 1; n_out < most; from++) { /* beyond the end: what was guessed, as in a repetition */
        int32_t token = from <= n ? at(&t, from) : out[from - n - 1];
        if (token < 0) break;
        out[n_out++] = token;
    }
    return n_out;
}
