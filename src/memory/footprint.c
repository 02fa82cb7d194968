/* The footprint of a model under given settings.
 *
 * vr_footprint_compute() checks the settings as llama_init_from_model() does, rounds the context as llama_context does,
 * and sums what each layer's caches take: a cache is a matrix of `cells` rows per stream, one row per token. The rules
 * that differ by architecture are in shape.c and archs.def. */
#include "memory/footprint.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "memory/shape.h"
#include "memory/weights.h"

#define CELL_PAD  256 /* contexts and windows are rounded up to this many tokens */
#define MAX_CTX   (UINT32_C(1) << 30)
#define CSA_RATIO 4 /* deepseek4's two kinds of compressed layers */
#define HCA_RATIO 128

struct job {
    const struct vr_context *c;
    const struct shape *s;
    struct vr_footprint *f;
    bool flash;
    bool overflow;
    uint64_t v_max; /* without flash attention every V is as wide as the widest */
};

static uint32_t at_least(uint32_t value, uint32_t min) { return value > min ? value : min; }
static uint32_t at_most(uint32_t value, uint32_t max) { return value < max ? value : max; }
static uint32_t or_else(uint32_t value, uint32_t fallback) { return value ? value : fallback; }

static bool check_type(uint32_t type, const char *what, struct vr_err *err)
{
    static const char *const names[] = { "f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1" };
    const struct vr_type *t = vr_type(type);
    for (size_t i = 0; t && t->name && i < VR_COUNT(names); i++)
        if (strcmp(t->name, names[i]) == 0) return true;
    return vr_fail(err, VR_EUSAGE,
                   "the %s cache cannot have type %s: use f32, f16, bf16, q8_0, q5_1, q5_0, q4_1, q4_0 or iq4_nl", what,
                   t && t->name ? t->name : "unknown");
}

/* A block of a quantized type must not straddle heads (flash attention) or rows. */
static bool check_block(const struct job *j, uint32_t type, bool is_k, struct vr_err *err)
{
    const struct vr_type *t = vr_type(type);
    const char *what = is_k ? "K" : "V";
    if (!vr_type_is_quantized(type)) return true;
    for (uint32_t i = 0; i < j->s->n_layers; i++) {
        const struct layer_shape *l = &j->s->layers[i];
        uint32_t head = is_k ? l->head_k : l->head_v;
        uint64_t row = is_k ? l->k : l->v;
        if (j->flash && i < j->s->n_trunk && head % t->block != 0)
            return vr_fail(err, VR_EUSAGE,
                           "a %s cache of type %s needs a head size that is a multiple of %" PRIu32
                           ", but layer %" PRIu32 " has %" PRIu32 ": use f16",
                           what, t->name, t->block, i, head);
        if (l->kv && (is_k || !j->s->mla) && row % t->block != 0)
            return vr_fail(err, VR_EUSAGE,
                           "a %s cache of type %s needs a row size that is a multiple of %" PRIu32
                           ", but layer %" PRIu32 " has %" PRIu64 ": use f16",
                           what, t->name, t->block, i, row);
        uint64_t index = is_k ? l->index_k : l->index_v;
        bool has_index = l->index || (l->ratio == CSA_RATIO && is_k);
        if (has_index && (is_k || !j->s->mla) && index % t->block != 0)
            return vr_fail(err, VR_EUSAGE,
                           "the indexer's %s cache cannot have type %s (rows of %" PRIu64 " values): use f16", what,
                           t->name, index);
    }
    return true;
}

static bool check(const struct job *j, const struct vr_model *m, struct vr_err *err)
{
    const struct vr_context *c = j->c;
    enum cache cache = j->s->arch->cache;
    if (c->n_seq > MAX_SEQ)
        return vr_fail(err, VR_EUSAGE, "%" PRIu32 " sequences: the engine supports at most %d (--n-seq)", c->n_seq,
                       MAX_SEQ);
    if (c->n_ctx > MAX_CTX)
        return vr_fail(err, VR_EUSAGE,
                       "a context of %" PRIu32 " tokens: at most %" PRIu32 " are supported (--n-ctx)"
                       " are supported (--n-ctx)",
                       c->n_ctx, MAX_CTX);
    if (c->n_ctx == 0 && vr_model_u64(m, ".context_length", 0, 0) == 0)
        return vr_fail(err, VR_EUSAGE, "%s does not declare its training context: set --n-ctx", m->name);
    if (vr_model_u64(m, ".context_length", 0, 0) > MAX_CTX)
        return vr_fail(err, VR_EFORMAT,
                       "%s declares a training context of more than %" PRIu32 " tokens: the header is corrupt", m->name,
                       MAX_CTX);
    if (!check_type(c->type_k, "K", err) || !check_type(c->type_v, "V", err)) return false;
    if (c->type_k != c->type_v && (j->s->mla || cache == CACHE_DSV4))
        return vr_fail(err, VR_EUSAGE,
                       "this model has one cache for K and V: --cache-type-k and --cache-type-v must be the same");
    if (vr_type_is_quantized(c->type_v) && !j->flash)
        return vr_fail(err, VR_EUSAGE, "a V cache of type %s needs flash attention%s: turn it on, or use f16",
                       vr_type(c->type_v)->name, c->flash_attn ? ", which this model does not support" : "");
    return check_block(j, c->type_k, true, err) && check_block(j, c->type_v, false, err);
}

/* n_ctx, n_ubatch and streams as the engine settles them. */
static void settle(struct job *j, const struct vr_model *m)
{
    const struct vr_context *c = j->c;
    struct vr_footprint *f = j->f;
    uint32_t n_seq = or_else(c->n_seq, 1);
    uint32_t n_ctx = or_else(c->n_ctx, (uint32_t)vr_model_u64(m, ".context_length", 0, 0));
    uint32_t n_batch = or_else(c->n_batch, VR_N_BATCH_DEFAULT);
    if (vr_model_u64(m, ".attention.causal", 0, 1) != 0) n_batch = at_most(n_batch, n_ctx); /* before rounding */
    f->n_ubatch = at_most(n_batch, or_else(c->n_ubatch, VR_N_UBATCH_DEFAULT));
    f->n_ctx = (uint32_t)pad_to(n_ctx, CELL_PAD);
    f->n_ctx_seq = f->n_ctx;
    f->n_stream = 1;
    if (!c->kv_unified) {
        f->n_ctx_seq = (uint32_t)pad_to(f->n_ctx / n_seq, CELL_PAD);
        f->n_ctx = f->n_ctx_seq * n_seq;
        f->n_stream = n_seq;
    }
    f->n_swa = j->s->n_swa;
}

static uint64_t times(struct job *j, uint64_t a, uint64_t b)
{
    uint64_t r;
    if (!__builtin_mul_overflow(a, b, &r) && r < UINT64_MAX / 8192) return r; /* room for the sums */
    j->overflow = true;
    return 0;
}

/* Adds one cache tensor of `width` values per row. */
static void add(struct job *j, uint32_t type, uint64_t width, uint64_t rows, uint64_t *gpu, uint64_t *host)
{
    const struct vr_type *t = vr_type(type);
    uint64_t bytes = times(j, width / t->block * t->bytes, rows);
    *gpu += pad_to(bytes + vr_row_padding(type, width), GPU_ALIGN);
    *host += pad_to(bytes, HOST_ALIGN);
}

static void add_kv(struct job *j, uint32_t type, uint64_t width, uint64_t rows, struct vr_layer_footprint *out)
{
    add(j, type, width, rows, &out->kv_gpu_bytes, &out->kv_host_bytes);
}

static void add_state(struct job *j, uint64_t width, uint64_t rows, struct vr_layer_footprint *out)
{
    if (width == 0) return;
    add(j, VR_TYPE_F32, width, rows, &out->state_gpu_bytes, &out->state_host_bytes);
}

static uint32_t window_cells(const struct job *j, bool unified)
{
    const struct vr_footprint *f = j->f;
    uint32_t n_seq = unified ? or_else(j->c->n_seq, 1) : 1;
    if (j->c->swa_full) return f->n_ctx_seq;
    uint64_t window = (uint64_t)f->n_swa * n_seq + f->n_ubatch;
    return (uint32_t)pad_to(window < f->n_ctx_seq ? window : f->n_ctx_seq, CELL_PAD);
}

/* deepseek4: streams are never unified; a layer has its window, and by its ratio compressed K with the state of the
 * compressor, for itself and (ratio 4) for the indexer. */
static void add_dsv4(struct job *j, uint32_t il, struct vr_layer_footprint *out)
{
    const struct layer_shape *l = &j->s->layers[il];
    uint32_t n_seq = or_else(j->c->n_seq, 1), ctx = j->f->n_ctx_seq, type = j->c->type_k;
    uint64_t planes = (uint64_t)n_seq * (1 + (uint64_t)j->c->n_rollback);
    uint64_t head = j->s->layers[0].head_k;
    bool trunk = il < j->s->n_trunk;
    out->cells = window_cells(j, false);
    add_kv(j, type, l->k, (uint64_t)out->cells * n_seq, out);
    if (l->ratio != CSA_RATIO && l->ratio != HCA_RATIO) return;
    uint64_t compressed = pad_to(at_least((ctx + l->ratio - 1) / l->ratio, 1), CELL_PAD);
    add_kv(j, type, l->k, compressed * n_seq, out);
    if (l->ratio == CSA_RATIO) add_kv(j, type, l->index_k, compressed * n_seq, out);
    for (int twice = 0; trunk && twice < 2; twice++) { /* values and scores */
        if (l->ratio == HCA_RATIO) {
            add_state(j, head, HCA_RATIO * planes, out);
        } else {
            add_state(j, 2 * head, 2 * CSA_RATIO * planes, out);
            add_state(j, 2 * (uint64_t)j->s->index_head, 2 * CSA_RATIO * planes, out);
        }
    }
}

/* The second context of a layer for multi-token prediction has a cache for it alone. */
static void add_head(struct job *j, const struct layer_shape *l, struct vr_layer_footprint *out)
{
    uint64_t cells = j->s->swa && l->swa ? window_cells(j, j->c->kv_unified) : j->f->n_ctx_seq;
    uint64_t rows = cells * j->f->n_stream;
    add_kv(j, VR_TYPE_F16, l->k, rows, out);
    if (!j->s->mla) add_kv(j, VR_TYPE_F16, j->flash ? l->v : j->v_max, rows, out);
}

static void add_layer(struct job *j, uint32_t il)
{
    const struct shape *s = j->s;
    const struct layer_shape *l = &s->layers[il];
    struct vr_layer_footprint *out = &j->f->layers[il];
    if (s->arch->cache == CACHE_DSV4) {
        add_dsv4(j, il, out);
        return;
    }
    if (out->mtp && j->c->mtp) add_head(j, l, out);
    if (l->kv) {
        out->cells = s->swa && l->swa ? window_cells(j, j->c->kv_unified) : j->f->n_ctx_seq;
        uint64_t rows = (uint64_t)out->cells * j->f->n_stream;
        add_kv(j, j->c->type_k, l->k, rows, out);
        if (!s->mla) add_kv(j, j->c->type_v, j->flash ? l->v : j->v_max, rows, out);
    }
    if (l->index) {
        uint64_t rows = (uint64_t)j->f->n_ctx_seq * j->f->n_stream;
        add_kv(j, j->c->type_k, l->index_k, rows, out);
        if (!s->mla) add_kv(j, j->c->type_v, l->index_v, rows, out);
    }
    if (l->state) {
        uint64_t kept = s->arch->rollback ? j->c->n_rollback : 0;
        uint64_t rows = or_else(j->c->n_seq, 1) * (1 + kept);
        add_state(j, s->state_r, rows, out);
        add_state(j, s->state_s, rows, out);
        if (l->ple) add_state(j, s->state_ple, rows, out);
    }
    if (out->kv_host_bytes == 0) out->cells = 0; /* no KV heads, or widths of 0 */
}

static void sum_up(struct vr_footprint *f)
{
    for (uint32_t i = 0; i < f->n_layers; i++) {
        const struct vr_layer_footprint *l = &f->layers[i];
        f->weights_host_bytes += l->weights_host_bytes;
        f->kv_gpu_bytes += l->kv_gpu_bytes;
        f->kv_host_bytes += l->kv_host_bytes;
        f->state_gpu_bytes += l->state_gpu_bytes;
        f->state_host_bytes += l->state_host_bytes;
        f->n_kv_layers += l->kv_host_bytes > 0;
        f->n_state_layers += l->state_host_bytes > 0;
    }
}

static bool compute(struct job *j, const struct vr_model *m, struct vr_err *err)
{
    const struct shape *s = j->s;
    struct vr_footprint *f = j->f;
    if (!check(j, m, err)) return false;
    settle(j, m);
    f->layers = calloc(s->n_layers, sizeof *f->layers);
    if (!f->layers) return vr_fail_nomem(err, "computing a footprint");
    f->n_layers = s->n_layers;
    f->offload_kqv = j->c->offload_kqv;
    f->mla = s->mla;
    for (uint32_t i = 0; i < s->n_layers; i++)
        if (s->layers[i].v > j->v_max) j->v_max = s->layers[i].v;
    for (uint32_t i = 0; i < s->n_layers; i++) {
        const struct layer_shape *l = &s->layers[i];
        struct vr_layer_footprint *out = &f->layers[i];
        out->swa = s->swa && l->swa;
        out->recurrent = l->state;
        out->mtp = i >= s->n_trunk && !s->arch->router_layer;
        out->tables =
            i < s->n_file_layers && (i < s->n_trunk || s->arch->keeps_mtp) && !(s->arch->tables_full_only && l->swa);
        add_layer(j, i);
    }
    if (j->overflow)
        return vr_fail(err, VR_EFORMAT, "%s: its KV cache would be larger than any memory: the header is corrupt",
                       m->name);
    vr_weights_add(m, s, j->c, f);
    sum_up(f);
    if (!s->known) f->inexact = "this architecture is unknown and is treated as a plain transformer";
    if (s->arch->draft) f->inexact = "a draft head: what it shares with its target model is not known";
    f->exact = f->inexact == NULL;
    return true;
}

bool vr_footprint_compute(const struct vr_model *m, const struct vr_context *c, struct vr_footprint *out,
                          struct vr_err *err)
{
    struct shape s;
    *out = (struct vr_footprint){ 0 };
    bool ok = vr_shape_read(m, &s, err);
    if (ok) {
        struct job j = { .c = c, .s = &s, .f = out, .flash = c->flash_attn && !s.arch->no_flash };
        ok = compute(&j, m, err);
    }
    if (!ok) vr_footprint_done(out);
    vr_shape_done(&s);
    return ok;
}

void vr_footprint_done(struct vr_footprint *f)
{
    free(f->layers);
    *f = (struct vr_footprint){ 0 };
}

void vr_footprint_place(const struct vr_footprint *f, const int *where, size_t n_gpus, struct vr_bytes *gpus,
                        struct vr_bytes *host)
{
    *host = (struct vr_bytes){ .model = f->input_host_bytes };
    bool host_tables = false;
    for (size_t g = 0; g < n_gpus; g++) {
        bool tables = false;
        gpus[g] = (struct vr_bytes){ 0 };
        for (uint32_t i = 0; i < f->n_layers; i++) {
            const struct vr_layer_footprint *l = &f->layers[i];
            if (where[i] < 0 || (size_t)where[i] != g) continue;
            tables |= l->tables;
            gpus[g].model += l->weights_gpu_bytes;
            host->model += l->weights_left_bytes;
            if (f->offload_kqv)
                gpus[g].context += l->kv_gpu_bytes + l->state_gpu_bytes;
            else
                host->context += l->kv_host_bytes + l->state_host_bytes;
        }
        if (tables) gpus[g].model += f->tables_gpu_bytes;
        if (where[f->n_layers] >= 0 && (size_t)where[f->n_layers] == g) gpus[g].model += f->output_gpu_bytes;
    }
    for (uint32_t i = 0; i < f->n_layers; i++) {
        const struct vr_layer_footprint *l = &f->layers[i];
        if (where[i] >= 0) continue;
        host_tables |= l->tables;
        host->model += l->weights_host_bytes;
        host->context += l->kv_host_bytes + l->state_host_bytes;
    }
    if (host_tables) host->model += f->tables_host_bytes;
    host->model += where[f->n_layers] < 0 ? f->output_host_bytes : f->output_left_bytes;
}

bool vr_model_rolls_back(const struct vr_model *m)
{
    const struct arch *a = vr_arch_find(m->arch);
    for (uint32_t i = 0; i < m->n_layers; i++)
        if (m->layers[i].role_bytes[VR_ROLE_RECURRENT] && !(a && a->rollback)) return false;
    return true;
}
