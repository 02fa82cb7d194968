#include "engine/cache/disk_cache.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "engine/cache/disk_writer.h"

#define GUESS_US_PER_MIB 1000.0 /* 1 GB/s, until something was read */
#define MOST_TOKENS      (1u << 30)

/* A record of a prompt: this, then its pieces, blocks first, then its tokens. */
struct prompt_head {
    uint64_t tenant;
    uint32_t n, n_blocks, n_checkpoints, reserved;
};
struct piece_ref {
    uint64_t at, serial;
    uint64_t n; /* tokens before it, of a checkpoint */
};

struct vr_disk_job {
    struct vr_cached_prompt *one; /* pinned */
    struct vr_disk_write *list;
    struct vr_kept **pieces; /* of the list, each with a reference; NULL for what is no piece */
    uint32_t n;
    uint8_t *record;
};

static void note(struct vr_disk_cache *c, const char *what, int error)
{
    snprintf(c->note, sizeof c->note, "--cache-dir: %s%s%s", what, error ? ": " : "", error ? strerror(error) : "");
}

/* --- reading all of it --- */

struct found { /* a piece of the file */
    uint64_t at, serial;
    struct vr_kept *piece;
};

struct reading {
    struct vr_disk_cache *c;
    uint64_t token_bytes; /* of blocks; 0: there are none */
    struct found *found;  /* in the order of the file */
    size_t n_found;
};

/* The piece that a record names, of so many bytes (0: any), with one more reference; NULL: it is not there. */
static struct vr_kept *find_piece(const struct reading *r, const struct piece_ref *ref, uint64_t bytes)
{
    size_t from = 0, to = r->n_found;
    while (from < to) {
        size_t mid = from + (to - from) / 2;
        if (r->found[mid].at < ref->at)
            from = mid + 1;
        else
            to = mid;
    }
    if (from == r->n_found || r->found[from].at != ref->at || r->found[from].serial != ref->serial) return NULL;
    struct vr_kept *p = r->found[from].piece;
    return !bytes || p->n == bytes ? vr_kept_share(p) : NULL;
}

/* Blocks must all be there, and as long as the layout says. */
static bool read_blocks(const struct reading *r, const struct piece_ref *refs, uint32_t n, struct vr_cached_prompt *one)
{
    if (n && (!r->token_bytes || n != (one->n + VR_KV_ROWS_BLOCK - 1) / VR_KV_ROWS_BLOCK)) return false;
    for (; one->n_blocks < n; one->n_blocks++) {
        uint32_t left = one->n - one->n_blocks * VR_KV_ROWS_BLOCK;
        uint64_t bytes = r->token_bytes * (left < VR_KV_ROWS_BLOCK ? left : VR_KV_ROWS_BLOCK);
        if (!(one->blocks[one->n_blocks] = find_piece(r, &refs[one->n_blocks], bytes))) return false;
    }
    return true;
}

/* A checkpoint that was given up since is no longer there. */
static void read_checkpoints(const struct reading *r, const struct piece_ref *refs, uint32_t n,
                             struct vr_cached_prompt *one)
{
    for (uint32_t i = 0; i < n; i++) {
        struct vr_kept *p = refs[i].n && refs[i].n <= one->n ? find_piece(r, &refs[i], 0) : NULL;
        if (p) vr_checkpoints_add(&one->checkpoints, (uint32_t)refs[i].n, p);
    }
}

static struct vr_cached_prompt *parse(const struct reading *r, const uint8_t *record, uint64_t n_bytes)
{
    struct prompt_head h;
    if (n_bytes < sizeof h) return NULL;
    memcpy(&h, record, sizeof h);
    uint64_t n_refs = (uint64_t)h.n_blocks + h.n_checkpoints;
    if (h.n == 0 || h.n > MOST_TOKENS || h.n_blocks > h.n || h.n_checkpoints > VR_MOST_CHECKPOINTS ||
        n_bytes != sizeof h + n_refs * sizeof(struct piece_ref) + (uint64_t)h.n * sizeof(int32_t))
        return NULL;
    const struct piece_ref *refs = (const struct piece_ref *)(const void *)(record + sizeof h);
    const int32_t *tokens = (const int32_t *)(const void *)(refs + n_refs);
    struct vr_cached_prompt *one = vr_cached_prompt_new(r->c->prompts->ram, h.tenant, tokens, h.n, h.n_blocks);
    if (one && read_blocks(r, refs, h.n_blocks, one)) {
        read_checkpoints(r, refs + h.n_blocks, h.n_checkpoints, one);
        if (one->n_blocks || one->checkpoints.n) return one;
    }
    vr_cached_prompt_free(one);
    return NULL;
}

/* One that cannot be used makes room. */
static void read_prompt(const struct reading *r, struct vr_extent x)
{
    uint8_t *record = malloc(x.n + 1);
    struct vr_cached_prompt *one = NULL;
    if (record && vr_disk_file_read(&r->c->file, &x, record)) one = parse(r, record, x.n);
    if (one) one->record = x.at;
    if (!one || !vr_prompt_cache_put(r->c->prompts, one)) vr_disk_file_free(&r->c->file, x.at);
    free(record);
}

/* Pieces that no prompt has are freed with their last reference, which is the one held here. */
static bool read_all(struct vr_disk_cache *c, uint64_t token_bytes)
{
    uint32_t n = c->file.n_all;
    struct reading r = { .c = c, .token_bytes = token_bytes, .found = calloc(n + 1, sizeof *r.found) };
    struct vr_extent *prompts = calloc(n + 1, sizeof *prompts);
    size_t n_prompts = 0;
    bool ok = r.found && prompts;
    for (uint32_t i = 0; ok && i < n; i++) {
        const struct vr_extent *x = &c->file.all[i];
        if (x->kind == VR_RECORD_PROMPT) prompts[n_prompts++] = *x;
        if (x->kind != VR_RECORD_PIECE) continue;
        struct vr_kept *p = vr_kept_away(c->prompts->ram, x->n, x->at);
        if (p) r.found[r.n_found++] = (struct found){ x->at, x->serial, p };
    }
    for (size_t i = 0; i < n_prompts; i++) read_prompt(&r, prompts[i]);
    for (size_t i = 0; i < r.n_found; i++) vr_kept_drop(r.found[i].piece);
    free(r.found);
    free(prompts);
    return ok;
}

bool vr_disk_cache_open(struct vr_disk_cache *c, int fd, const char *owner, uint64_t limit_bytes,
                        struct vr_prompt_cache *prompts, uint64_t token_bytes)
{
    *c = (struct vr_disk_cache){ .prompts = prompts, .us_per_mib = GUESS_US_PER_MIB };
    switch (vr_disk_file_open(&c->file, fd, owner, limit_bytes)) {
    case VR_DISK_BROKEN:
        note(c, "the file of cached prompts cannot be used", errno);
        vr_disk_file_close(&c->file);
        return false;
    case VR_DISK_FOREIGN:
        note(c,
             "the file of cached prompts was written for another model, engine or setting, or is damaged; starting a "
             "new one",
             0);
        break;
    case VR_DISK_DAMAGED: note(c, "the file of cached prompts is damaged; what is left of it is used", 0); break;
    default: break;
    }
    prompts->ram->disk = &c->file;
    c->writer = vr_disk_writer_new(c->file.fd);
    if (c->writer && read_all(c, token_bytes)) return true;
    note(c, "out of memory while reading the cached prompts", 0);
    prompts->ram->disk = NULL;
    vr_disk_cache_close(c);
    return false;
}

/* --- writing --- */

static void free_job(struct vr_disk_job *j)
{
    if (!j) return;
    for (uint32_t i = 0; i < j->n; i++) vr_kept_drop(j->pieces[i]);
    free(j->list);
    free(j->pieces);
    free(j->record);
    free(j);
}

static bool reserve(struct vr_disk_cache *c, struct vr_disk_job *j, enum vr_record kind, const void *data, uint64_t n,
                    struct vr_kept *p)
{
    if (!vr_disk_file_reserve(&c->file, kind, data, n, &j->list[j->n])) return false;
    j->pieces[j->n++] = p ? vr_kept_share(p) : NULL;
    return true;
}

/* Gives the places back: those that were not written become free room on disk, too. */
static void unreserve(struct vr_disk_cache *c, struct vr_disk_job *j, bool tried)
{
    for (uint32_t i = 0; i < j->n && !tried; i++) vr_disk_unwrite(c->file.fd, &j->list[i]);
    for (uint32_t i = 0; i < j->n; i++) {
        vr_disk_file_free(&c->file, j->list[i].to.at);
        vr_kept_drop(j->pieces[i]);
    }
    j->n = 0;
}

static bool add_piece(struct vr_disk_cache *c, struct vr_disk_job *j, struct vr_kept *p, uint32_t n,
                      struct piece_ref *ref)
{
    const struct vr_extent *x = p->on_disk ? vr_disk_file_at(&c->file, p->on_disk) : NULL;
    if (!x && (!p->data || !reserve(c, j, VR_RECORD_PIECE, p->data, p->n, p))) return false;
    if (!x) x = &j->list[j->n - 1].to;
    *ref = (struct piece_ref){ x->at, x->serial, n };
    return true;
}

static size_t record_bytes(const struct vr_cached_prompt *one)
{
    return sizeof(struct prompt_head) + (one->n_blocks + one->checkpoints.n) * sizeof(struct piece_ref) +
           one->tokens->n;
}

/* Places for all that is new; false: there is no room, and nothing is reserved. */
static bool reserve_all(struct vr_disk_cache *c, struct vr_disk_job *j)
{
    const struct vr_cached_prompt *one = j->one;
    const struct vr_checkpoints *cp = &one->checkpoints;
    struct prompt_head h = { .tenant = one->tenant, .n = one->n, .n_blocks = one->n_blocks, .n_checkpoints = cp->n };
    struct piece_ref *refs = (struct piece_ref *)(void *)(j->record + sizeof h);
    memcpy(j->record, &h, sizeof h);
    bool ok = true;
    for (uint32_t i = 0; ok && i < one->n_blocks; i++) ok = add_piece(c, j, one->blocks[i], 0, refs++);
    for (uint32_t i = 0; ok && i < cp->n; i++) ok = add_piece(c, j, cp->at[i].state, cp->at[i].n, refs++);
    if (ok) memcpy(refs, one->tokens->data, one->tokens->n);
    ok = ok && reserve(c, j, VR_RECORD_PROMPT, j->record, record_bytes(one), NULL);
    if (!ok) unreserve(c, j, false);
    return ok;
}

static struct vr_disk_job *new_job(struct vr_cached_prompt *one)
{
    struct vr_disk_job *j = calloc(1, sizeof *j);
    if (!j) return NULL;
    uint32_t most = one->n_blocks + one->checkpoints.n + 1;
    j->one = one;
    j->list = calloc(most, sizeof *j->list);
    j->pieces = calloc(most, sizeof *j->pieces);
    j->record = calloc(1, record_bytes(one));
    if (j->list && j->pieces && j->record) return j;
    free_job(j);
    return NULL;
}

/* Tokens of pictures are negative. */
static bool has_pictures(const struct vr_cached_prompt *one)
{
    const int32_t *tokens = (const int32_t *)(const void *)one->tokens->data;
    uint32_t i = 0;
    while (i < one->n && tokens[i] >= 0) i++;
    return i < one->n;
}

/* Begins to write it; false: it is not for the disk, or there is no room, or no memory. */
static bool begin(struct vr_disk_cache *c, struct vr_cached_prompt *one)
{
    struct vr_disk_job *j = has_pictures(one) ? NULL : new_job(one);
    one->n_pins++;
    bool ok = j && reserve_all(c, j);
    while (j && !ok && vr_prompt_cache_yield(c->prompts, one)) ok = reserve_all(c, j);
    if (ok) {
        c->job = j;
        vr_disk_writer_begin(c->writer, j->list, j->n);
        return true;
    }
    one->n_pins--;
    free_job(j);
    return false;
}

/* What was written counts from now on. A disk that takes no more gets no more; what is there can be written over. */
static void end(struct vr_disk_cache *c, int error)
{
    struct vr_disk_job *j = c->job;
    struct vr_cached_prompt *one = j->one;
    c->job = NULL;
    one->n_pins--;
    if (error) {
        if (!c->full) note(c, "cached prompts could not be written; the file grows no further", error);
        c->full = one->skipped = true;
        unreserve(c, j, true);
        const struct vr_extent *last = &c->file.all[c->file.n_all - 1];
        if (c->file.limit_bytes > last->at + last->room) c->file.limit_bytes = last->at + last->room;
        return free_job(j);
    }
    for (uint32_t i = 0; i < j->n; i++) {
        const struct vr_extent *x = &j->list[i].to;
        if (j->pieces[i]) j->pieces[i]->on_disk = x->at;
        if (x->kind == VR_RECORD_PROMPT) one->record = x->at;
    }
    vr_prompt_cache_absorb(c->prompts, one);
    free_job(j);
}

/* The prompt that is missed most of those that are to be written; NULL: none. */
static struct vr_cached_prompt *next(const struct vr_disk_cache *c)
{
    struct vr_cached_prompt *best = NULL;
    for (size_t i = 0; i < c->prompts->n; i++) {
        struct vr_cached_prompt *one = c->prompts->all[i];
        if (!one->record && !one->skipped && (!best || one->worth > best->worth)) best = one;
    }
    return best;
}

bool vr_disk_cache_turn(struct vr_disk_cache *c, uint32_t ms)
{
    int error;
    if (!c->writer) return false;
    if (c->job && !vr_disk_writer_wait(c->writer, ms, &error)) return true;
    if (c->job) end(c, error);
    if (c->n_seen == c->prompts->n_added) return false;
    uint64_t n_added = c->prompts->n_added;
    for (struct vr_cached_prompt *one; (one = next(c));) {
        if (begin(c, one)) return true;
        one->skipped = true;
    }
    c->n_seen = n_added;
    return false;
}

void vr_disk_cache_close(struct vr_disk_cache *c)
{
    int error;
    if (!c->prompts) return;
    if (c->job && vr_disk_writer_wait(c->writer, UINT32_MAX, &error)) end(c, error);
    vr_disk_writer_free(c->writer);
    c->prompts->ram->disk = NULL;
    vr_disk_file_close(&c->file);
    c->writer = NULL;
}

/* --- reading a piece --- */

bool vr_disk_cache_fetch(struct vr_disk_cache *c, struct vr_kept *p)
{
    if (p->data) return true;
    const struct vr_extent *x = p->on_disk ? vr_disk_file_at(&c->file, p->on_disk) : NULL;
    if (!x || !vr_prompt_cache_make_room(c->prompts, p->n) || !vr_kept_return(p)) return false;
    double t0 = vr_now_fine_ms(), mib = (double)p->n / (double)VR_MIB;
    if (vr_disk_file_read(&c->file, x, p->data)) {
        if (mib >= 1) c->us_per_mib = vr_smooth(c->us_per_mib, (vr_now_fine_ms() - t0) * 1e3 / mib);
        return true;
    }
    p->damaged = true;
    vr_kept_leave(p);
    note(c, "a cached prompt is damaged on disk; it is computed again", 0);
    return false;
}

size_t vr_disk_cache_count(const struct vr_disk_cache *c)
{
    size_t n = 0;
    for (size_t i = 0; c->prompts && i < c->prompts->n; i++) n += c->prompts->all[i]->record != 0;
    return n;
}
