#include "engine/cache/prompt_cache.h"

#include <stdlib.h>
#include <string.h>

#include "engine/cache/disk_file.h"

enum { LOOK = 16 }; /* neighbours that are asked for a checkpoint, on either side */

static const int32_t *tokens_of(const struct vr_cached_prompt *one)
{
    return (const int32_t *)(const void *)one->tokens->data;
}

/* How many tokens both begin with. */
static uint32_t common(const int32_t *a, uint32_t n_a, const int32_t *b, uint32_t n_b)
{
    uint32_t n = n_a < n_b ? n_a : n_b, k = 0, step = 64;
    while (k + step <= n && memcmp(a + k, b + k, step * sizeof *a) == 0) k += step;
    while (k < n && a[k] == b[k]) k++;
    return k;
}

/* < 0: the cached prompt comes before these tokens. */
static int compare(const struct vr_cached_prompt *one, uint64_t tenant, const int32_t *tokens, uint32_t n)
{
    if (one->tenant != tenant) return one->tenant < tenant ? -1 : 1;
    uint32_t k = common(tokens_of(one), one->n, tokens, n);
    if (k < one->n && k < n) return tokens_of(one)[k] < tokens[k] ? -1 : 1;
    return one->n < n ? -1 : one->n > n;
}

/* Where these tokens are, or would be. */
static size_t place(const struct vr_prompt_cache *h, uint64_t tenant, const int32_t *tokens, uint32_t n)
{
    size_t from = 0, to = h->n;
    while (from < to) {
        size_t mid = from + (to - from) / 2;
        if (compare(h->all[mid], tenant, tokens, n) < 0)
            from = mid + 1;
        else
            to = mid;
    }
    return from;
}

/* --- finding --- */

struct finding {
    const struct vr_prompt_cache *h;
    uint64_t tenant;
    const int32_t *tokens;
    uint32_t most, best;
    struct vr_cached_prompt *found;
};

/* Asks cached prompt i. False: none further on can have more. */
static bool look(struct finding *f, size_t i, bool by_checkpoint)
{
    struct vr_cached_prompt *one = f->h->all[i];
    if (one->tenant != f->tenant) return false;
    uint32_t k = common(tokens_of(one), one->n, f->tokens, f->most);
    if (k <= f->best) return false;
    const struct vr_checkpoint *c = by_checkpoint ? vr_checkpoints_last(&one->checkpoints, k) : NULL;
    uint32_t n = by_checkpoint ? c ? c->n : 0 : k;
    if (n > f->best) f->best = n, f->found = one;
    return by_checkpoint;
}

struct vr_cached_prompt *vr_prompt_cache_find(const struct vr_prompt_cache *h, uint64_t tenant, const int32_t *tokens,
                                              uint32_t most, bool by_checkpoint, uint32_t *n)
{
    struct finding f = { h, tenant, tokens, most, 0, NULL };
    size_t at = place(h, tenant, tokens, most);
    for (size_t i = 0; i < LOOK && at + i < h->n && look(&f, at + i, by_checkpoint);) i++;
    for (size_t i = 1; i <= LOOK && i <= at && look(&f, at - i, by_checkpoint);) i++;
    *n = f.best;
    return f.found;
}

uint32_t vr_prompt_cache_known(const struct vr_prompt_cache *h, uint64_t tenant, const int32_t *tokens, uint32_t n)
{
    uint32_t k;
    vr_prompt_cache_find(h, tenant, tokens, n, false, &k);
    return k;
}

/* --- one --- */

/* Bytes of the budget that it takes besides its pieces; its place in the list included. */
static uint64_t own_bytes(uint32_t n_blocks)
{
    return sizeof(struct vr_cached_prompt) + ((uint64_t)n_blocks + 3) * sizeof(void *);
}

struct vr_cached_prompt *vr_cached_prompt_new(struct vr_cache_ram *ram, uint64_t tenant, const int32_t *tokens,
                                              uint32_t n, uint32_t n_blocks)
{
    struct vr_cached_prompt *one = calloc(1, sizeof *one);
    if (!one || !vr_cache_ram_take(ram, own_bytes(n_blocks))) return free(one), NULL;
    *one = (struct vr_cached_prompt){ .ram = ram, .tenant = tenant, .n = n, .room = n_blocks };
    one->tokens = vr_kept_new(ram, n * sizeof *tokens);
    one->blocks = calloc(n_blocks + 1, sizeof *one->blocks);
    if (!one->tokens || !one->blocks) return vr_cached_prompt_free(one), NULL;
    memcpy(one->tokens->data, tokens, one->tokens->n);
    return one;
}

void vr_cached_prompt_free(struct vr_cached_prompt *one)
{
    if (!one) return;
    one->ram->used_bytes -= own_bytes(one->room);
    for (uint32_t i = 0; i < one->n_blocks; i++) vr_kept_drop(one->blocks[i]);
    vr_checkpoints_clear(&one->checkpoints);
    vr_kept_drop(one->tokens);
    free(one->blocks);
    free(one);
}

/* --- dropping --- */

/* On disk the record goes first, then the pieces that nobody else has. */
static void remove_at(struct vr_prompt_cache *h, size_t i)
{
    if (h->all[i]->record) vr_disk_file_free(h->ram->disk, h->all[i]->record);
    vr_cached_prompt_free(h->all[i]);
    memmove(&h->all[i], &h->all[i + 1], (h->n - i - 1) * sizeof h->all[0]);
    h->n--;
}

bool vr_cached_prompt_is_damaged(const struct vr_cached_prompt *one)
{
    for (uint32_t i = 0; i < one->n_blocks; i++)
        if (one->blocks[i]->damaged) return true;
    for (uint32_t i = 0; i < one->checkpoints.n; i++)
        if (one->checkpoints.at[i].state->damaged) return true;
    return false;
}

void vr_prompt_cache_drop_damaged(struct vr_prompt_cache *h)
{
    for (size_t i = h->n; i-- > 0;)
        if (!h->all[i]->n_pins && vr_cached_prompt_is_damaged(h->all[i])) remove_at(h, i);
}

/* What is on disk leaves host memory, but for what was used since by others; a checkpoint that is not there is gone. */
static void send_away(struct vr_cached_prompt *one)
{
    struct vr_checkpoints *c = &one->checkpoints;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < one->n_blocks; i++)
        if (one->blocks[i]->used <= one->used) vr_kept_leave(one->blocks[i]);
    for (uint32_t i = 0; i < c->n; i++) {
        struct vr_kept *p = c->at[i].state;
        if (p->used <= one->used) vr_kept_leave(p);
        if (p->on_disk)
            c->at[kept++] = c->at[i];
        else
            vr_kept_drop(p);
    }
    c->n = kept;
    one->is_here = false;
}

/* The least worth of those that nobody uses: of all, of those here, or of those on disk alone. h->n: none. */
enum among { ALL, HERE, AWAY };
static size_t least_of(const struct vr_prompt_cache *h, enum among which)
{
    size_t least = h->n;
    for (size_t i = 0; i < h->n; i++) {
        const struct vr_cached_prompt *one = h->all[i];
        if (one->n_pins || (which == HERE && !one->is_here) || (which == AWAY && one->is_here)) continue;
        if (least == h->n || one->worth < h->all[least]->worth) least = i;
    }
    return least;
}

bool vr_prompt_cache_make_room(struct vr_prompt_cache *h, uint64_t bytes)
{
    if (bytes > h->ram->limit_bytes) return false;
    while (h->ram->used_bytes + bytes > h->ram->limit_bytes) {
        size_t least = least_of(h, HERE);
        if (least == h->n) least = least_of(h, ALL); /* their tokens take memory, too */
        if (least == h->n) return false;
        struct vr_cached_prompt *one = h->all[least];
        h->floor = one->worth;
        if (one->is_here && one->record)
            send_away(one);
        else
            remove_at(h, least);
    }
    return true;
}

bool vr_prompt_cache_yield(struct vr_prompt_cache *h, const struct vr_cached_prompt *one)
{
    size_t least = least_of(h, AWAY);
    if (least == h->n || h->all[least]->worth > one->worth) return false;
    remove_at(h, least);
    return true;
}

void vr_prompt_cache_done(struct vr_prompt_cache *h)
{
    if (h->ram) h->ram->disk = NULL; /* pieces that are freed stay there */
    for (size_t i = 0; i < h->n; i++) vr_cached_prompt_free(h->all[i]);
    free(h->all);
    *h = (struct vr_prompt_cache){ .ram = h->ram };
}

/* --- adding --- */

void vr_prompt_cache_touch(struct vr_prompt_cache *h, struct vr_cached_prompt *one, double cost)
{
    uint64_t bytes = one->tokens->n, now = ++h->clock;
    for (uint32_t i = 0; i < one->n_blocks; i++) {
        bytes += one->blocks[i]->n;
        one->blocks[i]->used = now;
    }
    for (uint32_t i = 0; i < one->checkpoints.n; i++) {
        bytes += one->checkpoints.at[i].state->n;
        one->checkpoints.at[i].state->used = now;
    }
    one->used = now;
    one->worth = h->floor + cost / ((double)bytes + 1);
}

/* The one that shares the longest beginning with it. */
static struct vr_cached_prompt *nearest(const struct vr_prompt_cache *h, const struct vr_cache_source *s, uint32_t *n)
{
    return vr_prompt_cache_find(h, s->tenant, s->tokens, s->n, false, n);
}

/* Blocks that are there already. */
static uint32_t n_shared(const struct vr_cache_source *s, const struct vr_cached_prompt *near, uint32_t n)
{
    uint32_t k = near && s->n_block ? n / s->n_block : 0;
    return near && k > near->n_blocks ? near->n_blocks : k;
}

static uint32_t n_blocks(const struct vr_cache_source *s)
{
    return s->n_block ? (s->n + s->n_block - 1) / s->n_block : 0;
}

uint64_t vr_prompt_cache_need(const struct vr_prompt_cache *h, const struct vr_cache_source *s, uint64_t token_bytes)
{
    uint32_t n, k = n_blocks(s);
    const struct vr_cached_prompt *near = nearest(h, s, &n);
    if (near && n == s->n) return 0;
    uint32_t have = n_shared(s, near, n);
    uint64_t bytes = own_bytes(k) + vr_kept_cost((size_t)s->n * sizeof *s->tokens);
    return bytes + (k > have ? (k - have) * vr_kept_cost(0) + (s->n - have * s->n_block) * token_bytes : 0);
}

/* All checkpoints of `from` that `to` has not. */
static void merge(struct vr_checkpoints *to, const struct vr_checkpoints *from, uint32_t most)
{
    for (uint32_t i = 0; i < from->n && from->at[i].n <= most; i++) {
        const struct vr_checkpoint *c = vr_checkpoints_last(to, from->at[i].n);
        if (!c || c->n != from->at[i].n) vr_checkpoints_add(to, from->at[i].n, vr_kept_share(from->at[i].state));
    }
}

static bool fill_blocks(struct vr_cached_prompt *one, const struct vr_cache_source *s,
                        const struct vr_cached_prompt *near, uint32_t n_common)
{
    uint32_t have = n_shared(s, near, n_common);
    for (uint32_t i = 0; i < one->room; i++) {
        uint32_t from = i * s->n_block, k = s->n - from < s->n_block ? s->n - from : s->n_block;
        struct vr_kept *b = i < have ? vr_kept_share(near->blocks[i]) : s->block(s->ctx, from, k);
        if (!b) return false;
        one->blocks[one->n_blocks++] = b;
    }
    return true;
}

static struct vr_cached_prompt *make(struct vr_prompt_cache *h, const struct vr_cache_source *s,
                                     const struct vr_cached_prompt *near, uint32_t n_common)
{
    struct vr_cached_prompt *one = vr_cached_prompt_new(h->ram, s->tenant, s->tokens, s->n, n_blocks(s));
    if (!one || !fill_blocks(one, s, near, n_common)) return vr_cached_prompt_free(one), NULL;
    vr_checkpoints_share(&one->checkpoints, s->checkpoints, s->n);
    return one;
}

/* Those that are the beginning of a new one are part of it from now on; but what is on disk stays until that is. */
void vr_prompt_cache_absorb(struct vr_prompt_cache *h, struct vr_cached_prompt *one)
{
    size_t at = place(h, one->tenant, tokens_of(one), one->n);
    while (at > 0) {
        struct vr_cached_prompt *before = h->all[at - 1];
        if (before->tenant != one->tenant || common(tokens_of(before), before->n, tokens_of(one), one->n) < before->n ||
            before->n_pins || (before->record && !one->record))
            break;
        merge(&one->checkpoints, &before->checkpoints, one->n);
        remove_at(h, --at);
    }
}

static bool insert(struct vr_prompt_cache *h, struct vr_cached_prompt *one)
{
    if (h->n == h->room) {
        size_t room = h->room ? 2 * h->room : 64;
        struct vr_cached_prompt **all = realloc(h->all, room * sizeof *all);
        if (!all) return false;
        h->all = all;
        h->room = room;
    }
    size_t at = place(h, one->tenant, tokens_of(one), one->n);
    memmove(&h->all[at + 1], &h->all[at], (h->n - at) * sizeof h->all[0]);
    h->all[at] = one;
    h->n++;
    return true;
}

bool vr_prompt_cache_add(struct vr_prompt_cache *h, const struct vr_cache_source *s)
{
    uint32_t n = 0;
    struct vr_cached_prompt *near = nearest(h, s, &n);
    if (near && n == s->n) { /* it is part of another */
        merge(&near->checkpoints, s->checkpoints, s->n);
        near->is_here = true;
        vr_prompt_cache_touch(h, near, s->cost);
        return true;
    }
    struct vr_cached_prompt *one = make(h, s, near, n);
    if (!one) return false;
    one->is_here = true;
    vr_prompt_cache_absorb(h, one);
    if (!insert(h, one)) return vr_cached_prompt_free(one), false;
    vr_prompt_cache_touch(h, one, s->cost);
    h->n_added++;
    return true;
}

bool vr_prompt_cache_put(struct vr_prompt_cache *h, struct vr_cached_prompt *one)
{
    if (vr_prompt_cache_known(h, one->tenant, tokens_of(one), one->n) == one->n || !insert(h, one))
        return vr_cached_prompt_free(one), false;
    vr_prompt_cache_touch(h, one, one->n);
    return true;
}
