/* The engine gives a sequence out as a whole, so saving one takes a copy of it for a moment, which counts against the
 * budget like all the rest. */
#include "engine/process/recall.h"

#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/text.h"

#define GUESS_US_PER_MIB 100.0 /* 10 GB/s, until one was copied */

void vr_recall_done(struct vr_recall *r)
{
    vr_disk_cache_close(&r->disk);
    vr_prompt_cache_done(&r->prompts);
    free(r->rows);
    r->rows = NULL;
}

static void measure(struct vr_recall *r, double since_ms, size_t bytes)
{
    double mib = (double)bytes / (double)VR_MIB, us = (vr_now_fine_ms() - since_ms) * 1e3;
    if (mib >= 1) r->us_per_mib = vr_smooth(r->us_per_mib, us / mib);
}

static bool get(struct vr_recall *r, llama_seq_id seq, struct vr_kept *p, llama_state_seq_flags flags)
{
    double t0 = vr_now_fine_ms();
    bool ok = llama_state_seq_get_data_ext(r->e->ctx, p->data, p->n, seq, flags) == p->n;
    measure(r, t0, p->n);
    return ok;
}

static bool set(struct vr_recall *r, llama_seq_id seq, const struct vr_kept *p, llama_state_seq_flags flags)
{
    double t0 = vr_now_fine_ms();
    bool ok = llama_state_seq_set_data_ext(r->e->ctx, p->data, p->n, seq, flags) == p->n;
    measure(r, t0, p->n);
    return ok;
}

/* --- checkpoints --- */

static size_t partial_size(const struct vr_recall *r, llama_seq_id seq)
{
    return llama_state_seq_get_size_ext(r->e->ctx, seq, LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY);
}

uint64_t vr_recall_partial_cost(const struct vr_recall *r, llama_seq_id seq)
{
    return vr_kept_cost(partial_size(r, seq));
}

struct vr_kept *vr_recall_partial(struct vr_recall *r, llama_seq_id seq)
{
    size_t n = partial_size(r, seq);
    struct vr_kept *p = n > VR_KV_ROWS_HEADER ? vr_kept_new(&r->ram, n) : NULL;
    if (p && get(r, seq, p, LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY)) return p;
    vr_kept_drop(p);
    return NULL;
}

bool vr_recall_restore(struct vr_recall *r, llama_seq_id seq, struct vr_kept *state)
{
    return vr_disk_cache_fetch(&r->disk, state) && set(r, seq, state, LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY);
}

bool vr_recall_settle(struct vr_recall *r)
{
    struct vr_err err;
    return vr_bridge_memory_update(r->e->ctx, &err);
}

/* --- cached prompts --- */

static bool by_checkpoint(const struct vr_recall *r) { return r->e->stop_step > 0; }
static bool has_blocks(const struct vr_recall *r) { return !llama_model_is_recurrent(r->e->model); }

double vr_recall_ms(const struct vr_recall *r, uint32_t n, uint64_t checkpoint)
{
    double bytes = (r->rows ? (double)r->rows->token_bytes * n : 0) + (double)checkpoint;
    return bytes / (double)VR_MIB * r->us_per_mib / 1e3;
}

double vr_recall_back_ms(const struct vr_recall *r, const struct vr_cached_prompt *h, uint32_t n)
{
    const struct vr_checkpoint *c = vr_checkpoints_last(&h->checkpoints, n);
    uint64_t away = c && !c->state->data ? c->state->n : 0;
    for (uint32_t i = 0; i < h->n_blocks && i * VR_KV_ROWS_BLOCK < n; i++)
        if (!h->blocks[i]->data) away += h->blocks[i]->n;
    return vr_recall_ms(r, n, c ? c->state->n : 0) + (double)away / (double)VR_MIB * r->disk.us_per_mib / 1e3;
}

struct cutting {
    struct vr_recall *r;
    struct vr_kept *state;
    uint32_t n;
};

static struct vr_kept *cut_block(void *ctx, uint32_t from, uint32_t n)
{
    const struct cutting *c = ctx;
    struct vr_kept *p = vr_kept_new(&c->r->ram, vr_kv_rows_block_bytes(c->r->rows, n));
    if (p && vr_kv_rows_cut(c->r->rows, c->state->data, c->n, from, n, p->data)) return p;
    vr_kept_drop(p);
    return NULL;
}

/* The layout, which is the same each time. */
static bool read_rows(struct vr_recall *r, const uint8_t *state, size_t n_bytes, uint32_t n)
{
    struct vr_kv_rows *rows = malloc(sizeof *rows);
    bool ok = rows && vr_kv_rows_read(rows, state, n_bytes, n) && (!r->rows || vr_kv_rows_same(rows, r->rows));
    if (rows && !ok) r->blind = true;
    if (ok && !r->rows) {
        r->rows = rows;
        rows = NULL;
    }
    free(rows);
    return ok;
}

/* Reads it off a sequence of one token, and puts that back: what is on disk must have the same; and if the engine
 * breaks off over slices, it does so now, and the front takes whole layers. */
static bool probe_rows(struct vr_recall *r)
{
    struct vr_err err;
    llama_token token = 0;
    bool ok = vr_bridge_decode(r->e->ctx, llama_batch_get_one(&token, 1), &err) == 0;
    size_t all = ok ? llama_state_seq_get_size_ext(r->e->ctx, 0, LLAMA_STATE_SEQ_FLAGS_NONE) : 0;
    size_t rest = by_checkpoint(r) ? partial_size(r, 0) - VR_KV_ROWS_HEADER : 0;
    uint8_t *state = malloc(all + 1);
    ok = ok && state && all > rest + VR_KV_ROWS_HEADER &&
         llama_state_seq_get_data_ext(r->e->ctx, state, all, 0, LLAMA_STATE_SEQ_FLAGS_NONE) == all &&
         read_rows(r, state, all - rest, 1) &&
         llama_state_seq_set_data_ext(r->e->ctx, state, all, 0, LLAMA_STATE_SEQ_FLAGS_NONE) == all;
    free(state);
    llama_memory_clear(r->e->memory, false);
    return ok;
}

void vr_recall_init(struct vr_recall *r, const struct vr_engine *e)
{
    char owner[600];
    uint64_t layout = 0;
    *r = (struct vr_recall){ .e = e, .ram.limit_bytes = e->cache_bytes, .us_per_mib = GUESS_US_PER_MIB };
    r->prompts.ram = &r->ram;
    snprintf(r->disk.note, sizeof r->disk.note, "%s", e->cache_note);
    if (!e->cache_bytes || !(e->cache_fd || e->sliced)) return;
    if (has_blocks(r) && probe_rows(r)) layout = vr_hash(r->rows, sizeof *r->rows, 0);
    if (!e->cache_fd) return;
    snprintf(owner, sizeof owner, "%slayout %016llx\n", e->cache_owner, (unsigned long long)layout);
    vr_disk_cache_open(&r->disk, e->cache_fd, owner, e->cache_disk_bytes, &r->prompts,
                       r->rows ? r->rows->token_bytes : 0);
}

/* Room for bytes beside what the prompt itself will need. That may take away what it shares with others, so it is
 * asked again. */
static bool make_room(struct vr_recall *r, const struct vr_cache_source *s, uint64_t token_bytes, uint64_t bytes)
{
    for (int i = 0; i < 3; i++) {
        uint64_t need = vr_prompt_cache_need(&r->prompts, s, token_bytes);
        if (r->ram.used_bytes + need + bytes <= r->ram.limit_bytes) return true;
        if (!vr_prompt_cache_make_room(&r->prompts, need + bytes)) return false;
    }
    return false;
}

static bool save_blocks(struct vr_recall *r, const struct vr_recall_of *of, struct vr_cache_source *s)
{
    size_t all = llama_state_seq_get_size_ext(r->e->ctx, of->seq, LLAMA_STATE_SEQ_FLAGS_NONE);
    size_t rest = by_checkpoint(r) ? partial_size(r, of->seq) - VR_KV_ROWS_HEADER : 0;
    if (all <= rest + VR_KV_ROWS_HEADER || r->blind) return false;
    if (!make_room(r, s, (all - rest) / of->n + 1, vr_kept_cost(all))) return false;
    struct cutting c = { r, vr_kept_new(&r->ram, all), of->n };
    s->block = cut_block;
    s->ctx = &c;
    bool ok = c.state && get(r, of->seq, c.state, LLAMA_STATE_SEQ_FLAGS_NONE) &&
              read_rows(r, c.state->data, all - rest, of->n) && vr_prompt_cache_add(&r->prompts, s);
    vr_kept_drop(c.state);
    return ok;
}

bool vr_recall_save(struct vr_recall *r, const struct vr_recall_of *of)
{
    struct vr_cache_source s = { .tenant = of->tenant,
                                 .tokens = of->tokens,
                                 .n = of->n,
                                 .n_block = has_blocks(r) ? VR_KV_ROWS_BLOCK : 0,
                                 .checkpoints = of->checkpoints,
                                 .cost = of->cost };
    bool there = vr_prompt_cache_known(&r->prompts, of->tenant, of->tokens, of->n) == of->n;
    bool ok = there || !has_blocks(r) ? make_room(r, &s, 0, 0) && vr_prompt_cache_add(&r->prompts, &s)
                                      : save_blocks(r, of, &s);
    if (ok && !there) r->saved_tokens += of->n;
    return ok;
}

struct vr_cached_prompt *vr_recall_find(const struct vr_recall *r, uint64_t tenant, const llama_token *tokens,
                                        uint32_t most, uint32_t *n)
{
    return vr_prompt_cache_find(&r->prompts, tenant, tokens, most, by_checkpoint(r), n);
}

/* The state of the first n tokens, with a checkpoint behind it. */
static struct vr_kept *join(struct vr_recall *r, const struct vr_cached_prompt *h, uint32_t n,
                            const struct vr_checkpoint *c)
{
    size_t base = vr_kv_rows_state_bytes(r->rows, n), rest = c ? c->state->n - VR_KV_ROWS_HEADER : 0;
    uint32_t n_blocks = (n + VR_KV_ROWS_BLOCK - 1) / VR_KV_ROWS_BLOCK, last = h->n - (n_blocks - 1) * VR_KV_ROWS_BLOCK;
    const uint8_t **blocks = calloc(n_blocks, sizeof *blocks);
    vr_prompt_cache_make_room(&r->prompts, vr_kept_cost(base + rest));
    struct vr_kept *p = blocks ? vr_kept_new(&r->ram, base + rest) : NULL;
    for (uint32_t i = 0; p && i < n_blocks; i++) blocks[i] = h->blocks[i]->data;
    if (p) vr_kv_rows_join(r->rows, blocks, n, last < VR_KV_ROWS_BLOCK ? last : VR_KV_ROWS_BLOCK, p->data);
    if (p && c) memcpy(p->data + base, c->state->data + VR_KV_ROWS_HEADER, rest);
    free(blocks);
    return p;
}

/* Brings the first n tokens to host memory, as far as they are on disk. */
static bool bring(struct vr_recall *r, struct vr_cached_prompt *h, uint32_t n, const struct vr_checkpoint *c)
{
    bool ok = true;
    h->is_here = true;
    for (uint32_t i = 0; ok && i < h->n_blocks && i * VR_KV_ROWS_BLOCK < n; i++)
        ok = vr_disk_cache_fetch(&r->disk, h->blocks[i]);
    return ok && (!c || vr_disk_cache_fetch(&r->disk, c->state));
}

bool vr_recall_load(struct vr_recall *r, llama_seq_id seq, struct vr_cached_prompt *h, uint32_t n)
{
    const struct vr_checkpoint *c = by_checkpoint(r) ? vr_checkpoints_last(&h->checkpoints, n) : NULL;
    if (by_checkpoint(r) && (!c || c->n != n)) return false;
    h->n_pins++;
    vr_prompt_cache_touch(&r->prompts, h, h->n); /* before others make room for it */
    bool ok = bring(r, h, n, c);
    struct vr_kept *p = ok && h->n_blocks ? join(r, h, n, c) : NULL;
    h->n_pins--;
    ok = ok &&
         (h->n_blocks == 0 ? vr_recall_restore(r, seq, c->state) : p && set(r, seq, p, LLAMA_STATE_SEQ_FLAGS_NONE));
    vr_kept_drop(p);
    if (ok) r->restored_tokens += n;
    return ok;
}

/* --- on disk --- */

bool vr_recall_write(struct vr_recall *r, uint32_t ms) { return vr_disk_cache_turn(&r->disk, ms); }

bool vr_recall_note(struct vr_recall *r, char *out, size_t n)
{
    snprintf(out, n, "%s", r->disk.note);
    r->disk.note[0] = '\0';
    return *out;
}
