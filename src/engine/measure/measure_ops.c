/* Operations that are no products with weights, in the shapes of an 8 B model: 32 heads of 128 over 8 heads of cache,
 * 4,096 wide. The cache lies as llama.cpp lays it: one row per cell with all heads in it, values turned round where
 * there is no flash attention.
 *
 * One token. A small kernel on a device ends sooner than the next one is started: so it stands between large products,
 * behind which it is started in time, and what it adds to them is its own. Two sizes tell what any size costs and what
 * each byte more does; attention on a device is put together from parts when there are many cells, which a third one
 * tells. A batch takes long enough by itself. */
#include <math.h>
#include <string.h>

#include <ggml-alloc.h>

#include "engine/llama/library.h"
#include "engine/vgpu/fusion.h"
#include "engine/measure/measure_stage.h"
#include "gguf/type.h"
#include "plan/speed.h"

/* From Ada on ggml has one kernel for many heads over one of an f16 cache up to here, and another, faster one beyond.
 */
enum { ADA = 890, NEXT_CELLS = 8192 };
enum { HEAD = 128, HEADS = 32, GROUP = 4, KV = HEADS / GROUP, WIDTH = HEAD * HEADS, FF = 14336 };

struct op {
    enum vr_op_kind kind;
    enum ggml_type type; /* of the cache */
    int64_t tokens;
    int64_t size;  /* cells of the cache; of others, columns */
    int64_t heads; /* that look at a cache */
    bool again;    /* all units look at the same cache: it stays in the processor's */
};

/* What one unit of it is: the last of its nodes, and what work.c counts for them all. */
struct unit {
    struct ggml_tensor *nodes[2];
    double bytes, flops;
};

/* Tensors that are filled with noise once there is memory, and one that all units share: indices from 0 up, or zeros.
 */
struct inputs {
    struct ggml_tensor *list[2 * VR_TIMING_NODES + 8], *shared, *k, *v;
    size_t n;
};

static struct ggml_tensor *input(struct ggml_context *c, struct inputs *in, enum ggml_type type, int64_t a, int64_t b,
                                 int64_t d)
{
    struct ggml_tensor *t = ggml_new_tensor_3d(c, type, a, b, d);
    if (in->n < VR_COUNT(in->list)) in->list[in->n++] = t;
    return t;
}

static bool is_attention(enum vr_op_kind k)
{
    return k == VR_OP_ATTENTION || k == VR_OP_ATTENTION_MANY || k == VR_OP_ATTENTION_ONE;
}

/* How many heads look at each head of the cache. */
static int64_t heads_each(enum vr_op_kind k)
{
    return k == VR_OP_ATTENTION_MANY ? 8 : k == VR_OP_ATTENTION_ONE ? 1 : GROUP;
}

/* Heads as the cache has them: [HEAD, cells, heads] of rows that hold all heads. */
static struct ggml_tensor *heads_of(struct ggml_context *c, struct ggml_tensor *rows)
{
    struct ggml_tensor *t =
        ggml_view_3d(c, rows, HEAD, rows->ne[0] / HEAD, rows->ne[1], ggml_row_size(rows->type, HEAD), rows->nb[1], 0);
    return ggml_permute(c, t, 0, 2, 1, 3);
}

/* Keys and values of one unit; queries. */
static struct ggml_tensor *make_cache(struct ggml_context *c, struct inputs *in, const struct op *o, bool turned,
                                      struct unit *u)
{
    int64_t group = heads_each(o->kind), kv = o->heads / group ? o->heads / group : 1;
    if (!o->again || !in->k) {
        in->k = input(c, in, o->type, HEAD * kv, o->size, 1);
        in->v = turned ? input(c, in, o->type, o->size, HEAD, kv) : input(c, in, o->type, HEAD * kv, o->size, 1);
    }
    u->bytes = (double)(ggml_nbytes(in->k) + ggml_nbytes(in->v));
    u->flops = 4.0 * HEAD * (double)(o->heads * o->size * o->tokens);
    return ggml_permute(c, input(c, in, GGML_TYPE_F32, HEAD, o->heads, o->tokens), 0, 2, 1, 3);
}

static void make_attention(struct ggml_context *c, struct inputs *in, const struct op *o, struct unit *u)
{
    struct ggml_tensor *q = make_cache(c, in, o, false, u);
    if (!in->shared) in->shared = ggml_new_tensor_2d(c, GGML_TYPE_F16, o->size, (o->tokens + 63) / 64 * 64); /* mask */
    u->nodes[0] = ggml_flash_attn_ext(c, q, heads_of(c, in->k), heads_of(c, in->v), in->shared, 1 / sqrtf(HEAD), 0, 0);
}

static void make_cache_product(struct ggml_context *c, struct inputs *in, const struct op *o, struct unit *u)
{
    struct ggml_tensor *q = make_cache(c, in, o, true, u);
    u->nodes[0] = ggml_mul_mat(c, heads_of(c, in->k), q);
    u->nodes[0]->op_params[0] = GGML_PREC_F32; /* as llama.cpp asks for these */
    u->nodes[1] = ggml_mul_mat(c, in->v, input(c, in, GGML_TYPE_F32, o->size, o->tokens, o->heads));
}

static void make_set_rows(struct ggml_context *c, struct inputs *in, const struct op *o, struct unit *u)
{
    struct ggml_tensor *cache = ggml_new_tensor_2d(c, o->type, o->size, 2 * o->tokens);
    struct ggml_tensor *x = input(c, in, GGML_TYPE_F32, o->size, o->tokens, 1);
    if (!in->shared) in->shared = ggml_new_tensor_1d(c, GGML_TYPE_I32, o->tokens); /* which cells */
    u->nodes[0] = ggml_set_rows(c, cache, x, in->shared);
    u->bytes = (double)ggml_nbytes(x) + (double)ggml_nbytes(cache) / 2;
}

static void make_simple(struct ggml_context *c, struct inputs *in, const struct op *o, struct unit *u)
{
    int64_t t = o->tokens, n = o->size;
    double row = 4.0 * (double)(n * t);
    switch (o->kind) {
    case VR_OP_ROTATE:
        u->nodes[0] = ggml_mul_mat(c, input(c, in, GGML_TYPE_F32, HEAD, HEAD, 1),
                                   input(c, in, GGML_TYPE_F32, HEAD, n / HEAD * t, 1));
        ggml_mul_mat_set_hint(u->nodes[0], GGML_HINT_SRC0_IS_HADAMARD);
        u->bytes = 2 * row + 4.0 * HEAD * HEAD;
        break;
    case VR_OP_SOFT_MAX:
        u->nodes[0] = ggml_soft_max_ext(c, input(c, in, GGML_TYPE_F32, n, t, o->heads),
                                        input(c, in, GGML_TYPE_F32, n, t, 1), 1, 0);
        u->bytes = 2 * (double)o->heads * row + row;
        break;
    case VR_OP_NORM:
        u->nodes[0] = ggml_rms_norm(c, input(c, in, GGML_TYPE_F32, n, t, 1), 1e-5f);
        u->nodes[1] = ggml_mul(c, u->nodes[0], input(c, in, GGML_TYPE_F32, n, 1, 1));
        u->bytes = 2 * row;
        break;
    case VR_OP_ROPE:
        if (!in->shared) in->shared = ggml_new_tensor_1d(c, GGML_TYPE_I32, t); /* positions */
        u->nodes[0] = ggml_rope(c, input(c, in, GGML_TYPE_F32, HEAD, n / HEAD, t), in->shared, HEAD, 0);
        u->bytes = 2 * row;
        break;
    case VR_OP_GLU:
        u->nodes[0] = ggml_swiglu_split(c, input(c, in, GGML_TYPE_F32, n, t, 1), input(c, in, GGML_TYPE_F32, n, t, 1));
        u->bytes = 3 * row;
        break;
    case VR_OP_ADD:
        u->nodes[0] = ggml_add(c, input(c, in, GGML_TYPE_F32, n, t, 1), input(c, in, GGML_TYPE_F32, n, t, 1));
        u->bytes = 3 * row;
        break;
    default: /* VR_OP_CONT */
        u->nodes[0] = ggml_cont(c, ggml_permute(c, input(c, in, GGML_TYPE_F32, HEAD, t, n / HEAD), 0, 2, 1, 3));
        u->bytes = 2 * row;
    }
}

static void make(struct ggml_context *c, struct inputs *in, const struct op *o, struct unit *u)
{
    *u = (struct unit){ 0 };
    if (is_attention(o->kind))
        make_attention(c, in, o, u);
    else if (o->kind == VR_OP_CACHE_PRODUCT)
        make_cache_product(c, in, o, u);
    else if (o->kind == VR_OP_SET_ROWS)
        make_set_rows(c, in, o, u);
    else
        make_simple(c, in, o, u);
}

static bool fill(const struct inputs *in)
{
    for (size_t i = 0; i < in->n; i++)
        if (!vr_timing_fill(in->list[i])) return false;
    if (!in->shared) return true;
    ggml_backend_tensor_memset(in->shared, 0, 0, ggml_nbytes(in->shared));
    for (int32_t i = 0; in->shared->type == GGML_TYPE_I32 && i < in->shared->ne[0]; i++)
        ggml_backend_tensor_set(in->shared, &i, (size_t)i * sizeof i, sizeof i);
    return true;
}

struct times {
    double us; /* of one unit */
    double bytes, flops;
    int nodes, kernels; /* of one unit: nodes that count, kernels that the device starts */
};

/* n units; between as many large products where `between` says so. */
static bool time_op(struct vr_measure_stage *s, const struct op *o, int n, bool between, struct times *out)
{
    struct vr_timing b;
    struct inputs in = { 0 };
    struct unit u = { 0 };
    *out = (struct times){ .us = -1 };
    if (!vr_timing_start(&b, s)) return false;
    struct ggml_tensor *w = NULL, *x = NULL;
    if (between) {
        w = ggml_new_tensor_2d(b.weights, GGML_TYPE_F16, WIDTH, 8192);
        x = input(b.rest, &in, GGML_TYPE_F32, WIDTH, 1, 1);
    }
    bool takes = true;
    for (int i = 0; i < n; i++) {
        if (between) vr_timing_add(&b, ggml_mul_mat(b.rest, w, x), true);
        make(b.rest, &in, o, &u);
        out->nodes = out->kernels = 0;
        for (int k = 0; k < 2 && u.nodes[k]; k++) {
            bool done_along = k && o->kind == VR_OP_NORM; /* the same kernel multiplies */
            out->nodes++;
            out->kernels += s->host ? 1 : done_along ? 0 : vr_node_kernels(u.nodes[k], s->cc);
            vr_timing_add(&b, u.nodes[k], !between && i < (n + 3) / 4);
            takes = takes && ggml_backend_dev_supports_op(s->dev, u.nodes[k]);
        }
    }
    out->bytes = u.bytes * (s->host && o->kind == VR_OP_NORM ? 2 : 1), out->flops = u.flops;
    if (takes && vr_timing_allocate(&b) && fill(&in)) {
        uint32_t seed = 7;
        if (between) {
            double without = vr_timing_graph(&b, b.graph[0], &seed), with = vr_timing_graph(&b, b.graph[1], &seed);
            if (without > 0 && with > 0) out->us = fmax((with - without) / n, 0.01);
        } else {
            double each = vr_timing_node(&b);
            out->us = each > 0 ? each * out->nodes : -1;
        }
    }
    vr_timing_done(&b);
    return out->us > 0;
}

static bool over_cells(enum vr_op_kind k) { return is_attention(k) || k == VR_OP_CACHE_PRODUCT || k == VR_OP_SOFT_MAX; }

/* A small one: of a cache, on the host, next to nothing, so that only what any size costs is left. */
static struct op small_of(const struct vr_measure_stage *s, struct op o)
{
    o.tokens = 1;
    o.heads = HEADS;
    if (o.kind == VR_OP_NORM && !s->host)
        o.tokens = HEADS, o.size = HEAD; /* of each head */
    else if (over_cells(o.kind) && s->host)
        o.size = 32, o.heads = 1;
    else if (over_cells(o.kind))
        o.size = 256;
    else if (o.kind == VR_OP_SET_ROWS)
        o.size = s->host ? HEAD : HEAD * KV;
    else
        o.size = s->host ? 512 : WIDTH;
    return o;
}

static struct op large_of(const struct vr_measure_stage *s, struct op o)
{
    o.tokens = 1;
    o.heads = HEADS;
    o.size = over_cells(o.kind)         ? (s->host ? VR_SHORT_CELLS : VR_LONG_CELLS)
             : o.kind == VR_OP_SET_ROWS ? HEAD * KV
             : o.kind == VR_OP_GLU      ? FF
                                        : WIDTH;
    return o;
}

/* Caches are cold when their turn comes: weights have passed through in between. */
static int units_of(const struct vr_measure_stage *s, const struct op *o)
{
    if (!over_cells(o->kind) || o->size <= 256) return 24;
    if (!s->host || o->kind == VR_OP_SOFT_MAX) return 8;
    int n = (vr_engine_threads() < 8 ? 2 : 6) * VR_LONG_CELLS / (int)o->size;
    return n < VR_TIMING_NODES / 2 ? n : VR_TIMING_NODES / 2; /* two nodes each */
}

/* A norm on a device: rows are taken at once, so what counts is how long one is. */
static void measure_norm(struct vr_measure_stage *s, const struct op *large, const struct times *few,
                         struct vr_measured_op *out)
{
    struct times one;
    if (!time_op(s, large, units_of(s, large), true, &one)) return;
    double more = one.us - few->us, bytes = 2.0 * sizeof(float) * (WIDTH - HEAD);
    out->gbs = bytes / fmax(more, one.us / 100) / 1e3;
    out->us = fmax(few->us - 2.0 * sizeof(float) * HEAD / out->gbs / 1e3, few->us / 2);
}

/* Thousands of cells: the rate from there on, and what has come on top until then. */
static void measure_long(struct vr_measure_stage *s, struct op o, const struct times *few, const struct times *many,
                         struct vr_measured_op *out)
{
    struct times some = *few;
    o.size = 4096;
    double slope = time_op(s, &o, units_of(s, &o), true, &some) ? (many->us - some.us) / (many->bytes - some.bytes) : 0;
    if (!(slope > many->us / many->bytes * 0.2)) slope = many->us / many->bytes; /* noise: the largest alone tells */
    out->gbs = 1 / slope / 1e3;
    out->us = fmax(few->us - few->bytes * slope, few->us / 2) / few->nodes;
    if (some.us > 0) out->long_us = fmax((some.us - some.bytes * slope) / some.nodes - out->us, 0);
    if (o.kind == VR_OP_ATTENTION_MANY && o.type == GGML_TYPE_F16 && s->cc >= ADA) out->long_cells = NEXT_CELLS;
}

static void measure_token(struct vr_measure_stage *s, struct op o, struct vr_measured_op *out)
{
    struct op small = small_of(s, o), large = large_of(s, o);
    struct times few, many;
    if (!time_op(s, &small, units_of(s, &small), !s->host, &few)) return;
    out->us = few.us / few.kernels;
    if (!s->host && o.kind == VR_OP_NORM) measure_norm(s, &large, &few, out);
    if (!s->host && !over_cells(o.kind)) return; /* its bytes are nothing, and a batch tells their rate */
    bool in_parts = !s->host && o.kind != VR_OP_SOFT_MAX;
    if (!time_op(s, &large, units_of(s, &large), in_parts, &many)) return;
    if (in_parts) {
        measure_long(s, large, &few, &many, out);
        return;
    }
    double slope = (many.us - few.us) / (many.bytes - few.bytes);
    if (!(slope > many.us / many.bytes * 0.2)) slope = many.us / many.bytes;
    out->us = fmax(few.us - few.bytes * slope, few.us * 0.1) / few.kernels;
    out->gbs = 1 / slope / 1e3;
    if (!s->host || !(many.flops > 0)) return;
    /* the host computes for every head that looks at the cache, however few heads that has: bytes are not the limit */
    out->tflops = many.flops / (many.bytes * slope) / 1e6;
    out->gbs = 0;
    struct op longer = large;
    longer.size = VR_LONG_CELLS;
    if (o.kind == VR_OP_ATTENTION && time_op(s, &longer, units_of(s, &longer), false, &many))
        out->long_tflops = many.flops / many.us / 1e6;
    large.size = 1024;
    large.again = true;
    if (time_op(s, &large, 8, false, &many))
        out->cached_tflops = many.flops / fmax(many.us - out->us * many.kernels, many.us / 2) / 1e6;
}

static void measure_batch(struct vr_measure_stage *s, struct op o, struct vr_measured_op *out)
{
    struct times t;
    o = large_of(s, o);
    bool attention = is_attention(o.kind);
    o.tokens = !s->host ? VR_MEASURE_TOKENS : attention ? 256 : 64;
    if (over_cells(o.kind)) o.size = !attention ? 1024 : s->host ? VR_SHORT_CELLS : 4096;
    if (!time_op(s, &o, 4, false, &t)) return;
    if (t.flops > 0)
        out->prompt_tflops = t.flops / t.us / 1e6;
    else
        out->prompt_gbs = t.bytes / t.us / 1e3;
    if (!s->host && !over_cells(o.kind) && o.kind != VR_OP_NORM) out->gbs = out->prompt_gbs;
    o.tokens = 64, o.size = VR_LONG_CELLS; /* more than the processor's cache holds, for so many tokens too */
    if (s->host && attention && time_op(s, &o, 2, false, &t)) out->long_prompt_tflops = t.flops / t.us / 1e6;
}

struct ops_ask {
    const struct vr_measure_where *w;
    const uint32_t *types;
    size_t n_types;
    bool typed_only;
};

static bool ops_child(void *ctx, struct vr_buf *result, struct vr_err *err)
{
    const struct ops_ask *a = ctx;
    struct vr_measure_ops out = { 0 };
    struct vr_measure_stage s;
    if (!vr_measure_stage_open(a->w, GGML_TYPE_F16, &s, err)) return false;
    for (enum vr_op_kind k = 0; k < VR_N_OPS; k++) {
        bool typed = vr_op_typed(k);
        for (size_t i = 0; i < (typed ? a->n_types : !a->typed_only) && out.n < VR_MAX_MEASURED_OPS; i++) {
            struct vr_measured_op *row = &out.rows[out.n];
            struct op o = { .kind = k, .type = typed ? (enum ggml_type)a->types[i] : GGML_TYPE_F32 };
            snprintf(row->name, sizeof row->name, "%s", vr_op_name(k));
            if (typed) snprintf(row->type, sizeof row->type, "%s", vr_type(a->types[i])->name);
            if (k == VR_OP_CACHE_PRODUCT && ggml_is_quantized(o.type)) continue; /* values cannot be turned round */
            if (is_attention(k) && k != VR_OP_ATTENTION && s.host) continue; /* each head alone, whoever else looks */
            if (k != VR_OP_ATTENTION_ONE) measure_token(&s, o, row);         /* what it reads is as fast as for four */
            measure_batch(&s, o, row);
            if (row->us > 0 || row->prompt_tflops > 0) out.n++;
        }
    }
    vr_buf_add(result, &out, sizeof out);
    return true;
}

bool vr_measure_ops(const struct vr_measure_where *w, const uint32_t *types, size_t n_types, bool typed_only,
                    struct vr_measure_ops *out, struct vr_err *err)
{
    struct ops_ask a = { .w = w, .types = types, .n_types = n_types, .typed_only = typed_only };
    return vr_measure_ask_on(ops_child, &a, w, out, sizeof *out, err);
}
