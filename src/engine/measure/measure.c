/* Products with weights, and copies. Every graph reads more than a last-level cache holds, unless the cache is what is
 * measured. */
#include "engine/measure/measure.h"

#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <ggml-alloc.h>
#include <ggml-backend.h>

#include "base/rank.h"
#include "engine/llama/library.h"
#include "engine/vgpu/fusion.h"
#include "engine/measure/measure_stage.h"
#include "plan/speed.h"

#define GPU_BYTES   ((uint64_t)256 << 20) /* of weights per graph */
#define HOST_BYTES  ((uint64_t)192 << 20) /* and on large hosts, whose caches are too (300 MiB and more): */
#define LARGE_BYTES VR_MEASURE_PAGES
#define LARGE_CORES 8
#define CACHE_BYTES ((uint64_t)4 << 20) /* that any processor's cache holds */

/* --- products --- */

struct product {
    int64_t k, rows, tokens, experts, used; /* experts 0: a plain one; fewer columns than rows: each has its input */
    uint64_t room;                          /* weights of all nodes together; 0: more than a cache holds */
};

/* One kind of product. *bytes and *flops: of one node, what it reads of its weights and what it computes. */
static double time_product(struct vr_measure_stage *s, uint32_t type, const struct product *p, double *bytes,
                           double *flops, int *kernels)
{
    struct vr_timing b;
    if (!vr_timing_start(&b, s)) return -1;
    int64_t experts = p->experts ? p->experts : 1;
    uint64_t each = ggml_row_size((enum ggml_type)type, p->k) * (uint64_t)(p->rows * experts);
    uint64_t most = !s->host ? GPU_BYTES : vr_engine_threads() < LARGE_CORES ? HOST_BYTES : LARGE_BYTES;
    int n_weights = (int)((p->room ? p->room : most) / each), n_nodes;
    n_weights = n_weights < 2 ? 2 : n_weights > VR_TIMING_NODES ? VR_TIMING_NODES : n_weights;
    n_nodes = (s->host && !p->room) || p->tokens > 1 ? n_weights : 48;
    if (s->host && p->tokens == 1 && n_nodes < 8) n_nodes = 8; /* other experts each */
    if (p->tokens > 1 && n_nodes > 12) n_nodes = 12;
    if (p->tokens > 1 && s->host && n_nodes > 3) n_nodes = 3;
    int64_t inputs = !p->experts ? p->tokens : p->k < p->rows ? p->used : 1;
    struct ggml_tensor *w[VR_TIMING_NODES],
        *x = ggml_new_tensor_3d(b.rest, GGML_TYPE_F32, p->k, inputs, p->experts ? p->tokens : 1);
    if (n_weights > n_nodes) n_weights = n_nodes;
    for (int i = 0; i < n_weights; i++)
        w[i] = ggml_new_tensor_3d(b.weights, (enum ggml_type)type, p->k, p->rows, experts);
    b.n_experts = (int)p->experts;
    b.n_weights = n_weights;
    for (int i = 0; i < n_nodes; i++) {
        struct ggml_tensor *node;
        if (p->experts) {
            b.ids[i] = ggml_new_tensor_2d(b.rest, GGML_TYPE_I32, p->used, p->tokens);
            node = ggml_mul_mat_id(b.rest, w[i % n_weights], x, b.ids[i]);
        } else {
            node = ggml_mul_mat(b.rest, w[i % n_weights], x);
        }
        if (kernels) *kernels = s->host ? 1 : vr_node_kernels(node, s->cc);
        vr_timing_add(&b, node, i < n_nodes / 4 || i == 0);
    }
    double touched = p->experts ? 1 - pow(1 - (double)p->used / (double)p->experts, (double)p->tokens) : 1;
    if (p->experts && p->tokens == 1) touched = (double)p->used / (double)p->experts;
    *bytes = (double)each * touched;
    *flops = 2.0 * (double)(p->k * p->rows * p->tokens) * (double)(p->experts ? p->used : 1);
    double us = -1;
    if (ggml_backend_dev_supports_op(s->dev, b.graph[1]->nodes[0]) && vr_timing_allocate(&b) && vr_timing_fill(x))
        us = vr_timing_node(&b);
    vr_timing_done(&b);
    return us;
}

/* Two sizes of the same product: what both cost, which is no more than so much of the larger one, and what each unit
 * more costs. */
static void solve(double small_us, double small, double large_us, double large, double most_fixed, double *fixed_us,
                  double *per_us)
{
    double slope = (large_us - small_us) / (large - small);
    if (!(slope > large_us / large * (1 - most_fixed)))
        slope = large_us / large; /* noise: the larger one alone tells */
    *per_us = 1 / slope;
    *fixed_us = fmax(small_us - small * slope, 0);
}

#define MODEL_SIZES  VR_LONG_COLUMNS /* as models of 8 B have them */
#define EXPERT_SIZES 2048, 768       /* columns and rows of an expert */

/* What the tokens bring and take away. */
static double act_bytes(const struct product *p)
{
    bool each = p->k < p->rows;
    return 4.0 * (double)p->tokens * (double)(p->k * (each ? p->used : 1) + p->rows * p->used);
}

/* A batch by expert, 64 tokens each: the same with a quarter of the tokens, with weights that lead back (as many, but
 * more to take away), and with four times as many tokens tell what it costs to read an expert's weights, to compute a
 * token, to move its activations, and to read the weights again: chance gives half of the experts of a crowd three
 * tiles and the others two. */
static void measure_batch_by_expert(struct vr_measure_stage *s, uint32_t type, const struct product *many,
                                    double many_us, struct vr_measure_products *out)
{
    struct product few = *many, back = *many, crowd = *many;
    double bytes, flops, most;
    few.tokens /= 4, crowd.tokens *= 4;
    back.k = many->rows, back.rows = many->k;
    double few_us = time_product(s, type, &few, &bytes, &flops, NULL);
    double tokens_us = (many_us - few_us) * 4 / 3, reading = many_us - tokens_us - out->prompt_product_us;
    if (few_us <= 0 || tokens_us < many_us / 50 || reading < many_us / 50) return; /* one of them is all */
    double back_us = time_product(s, type, &back, &bytes, &flops, NULL), moving = 0;
    double crowd_us = time_product(s, type, &crowd, &bytes, &most, NULL);
    if (back_us - many_us > many_us / 50) {
        out->expert_act_gbs = (act_bytes(&back) - act_bytes(many)) / (back_us - many_us) / 1e3;
        moving = act_bytes(many) / out->expert_act_gbs / 1e3;
    }
    out->expert_tflops = flops / fmax(tokens_us - moving, tokens_us / 4) / 1e6;
    out->expert_prompt_gbs = bytes / reading / 1e3;
    double again = crowd_us - reading - 4 * tokens_us - out->prompt_product_us;
    if (again > reading / 10) out->expert_again_gbs = 1.5 * bytes / again / 1e3;
}

/* On a device two sizes of many rows tell what any size costs and what each byte more does, down to the least that a
 * small one takes. */
static bool measure_on_device(struct vr_measure_stage *s, uint32_t type, struct vr_measure_products *out)
{
    static const struct product one[] = { { MODEL_SIZES, 4096, 1, 0, 0, 0 }, { MODEL_SIZES, 16384, 1, 0, 0, 0 } },
                                many[] = { { MODEL_SIZES, 4096, VR_MEASURE_TOKENS, 0, 0, 0 },
                                           { MODEL_SIZES, 16384, VR_MEASURE_TOKENS, 0, 0, 0 } },
                                least = { 1024, 1024, 1, 0, 0, 0 },
                                experts[] = { { EXPERT_SIZES, 1, 64, 8, 0 },
                                              { EXPERT_SIZES, VR_MEASURE_TOKENS, 64, 8, 0 } };
    double us[2], bytes[2], flops[2], rate;
    int kernels = 1;
    for (int i = 0; i < 2; i++) us[i] = time_product(s, type, &one[i], &bytes[i], &flops[i], &kernels);
    if (us[0] <= 0 || us[1] <= 0) return false;
    solve(us[0], bytes[0], us[1], bytes[1], 0.5, &out->product_us, &rate);
    out->gbs = rate / 1e3;
    out->kernels = kernels;
    out->least_us = fmax(time_product(s, type, &least, &bytes[0], &flops[0], NULL), 0) / kernels;
    for (int i = 0; i < 2; i++) us[i] = time_product(s, type, &many[i], &bytes[i], &flops[i], NULL);
    if (us[0] > 0 && us[1] > 0) {
        solve(us[0], flops[0], us[1], flops[1], 0.5, &out->prompt_product_us, &rate);
        out->tflops = rate / 1e6;
    }
    for (int i = 0; i < 2; i++) us[i] = time_product(s, type, &experts[i], &bytes[i], &flops[i], NULL);
    if (us[0] > 0) out->expert_gbs = bytes[0] / fmax(us[0] - out->product_us, us[0] * 0.6) / 1e3;
    if (us[1] > 0) out->expert_tflops = flops[1] / fmax(us[1] - out->prompt_product_us, us[1] * 0.6) / 1e6;
    if (us[1] > 0) measure_batch_by_expert(s, type, &experts[1], us[1], out);
    return true;
}

/* --- … on the host --- */

enum { SMALL, LARGER, SHORT_ROWS, LONG_ROWS, WIDE, BATCH, EXPERTS_SHORT, EXPERTS, EXPERTS_BATCH, N_FIGURES };

static const struct product host_products[N_FIGURES] = {
    [SMALL] = { 1024, 128, 1, 0, 0, CACHE_BYTES },    [LARGER] = { 1024, 1024, 1, 0, 0, CACHE_BYTES },
    [SHORT_ROWS] = { 1024, 16384, 1, 0, 0, 0 },       [LONG_ROWS] = { MODEL_SIZES, 8192, 1, 0, 0, 0 },
    [WIDE] = { VR_WIDE_COLUMNS, 4096, 1, 0, 0, 0 },   [BATCH] = { MODEL_SIZES, 4096, 256, 0, 0, 0 },
    [EXPERTS_SHORT] = { 768, 2048, 1, 64, 8, 0 },     [EXPERTS] = { EXPERT_SIZES, 1, 64, 8, 0 },
    [EXPERTS_BATCH] = { EXPERT_SIZES, 64, 64, 8, 0 },
};

struct figure {
    double us, bytes, flops;
};

static bool memory_limits(const struct product *p) { return p->tokens == 1 && !p->room; }

/* The largest come first: the others then find their pages filled. */
static bool time_figures(struct vr_measure_stage *s, uint32_t type, struct figure f[N_FIGURES])
{
    for (int i = N_FIGURES; i-- > 0;) {
        if (s->product_us > 0 && !memory_limits(&host_products[i])) continue;
        f[i].us = time_product(s, type, &host_products[i], &f[i].bytes, &f[i].flops, NULL);
        if (f[i].us <= 0 && i < EXPERTS_SHORT) return false;
    }
    return true;
}

/* Two shapes: what each row costs, however long it is, and each byte. */
static void solve_rows(const struct figure f[2], const struct product p[2], double fixed_us, double most_fixed,
                       double *row_ns, double *gbs)
{
    double each[2], bytes[2], rate;
    for (int i = 0; i < 2; i++) {
        double rows = (double)(p[i].rows * (p[i].experts ? p[i].used : 1));
        each[i] = (f[i].us - fixed_us) / rows;
        bytes[i] = f[i].bytes / rows;
    }
    solve(each[0], bytes[0], each[1], bytes[1], most_fixed, row_ns, &rate);
    *row_ns *= 1e3;
    *gbs = rate / 1e3;
}

/* On the host what any size costs (threads meet, the vector is rounded) is a few microseconds: only small products,
 * in the cache, show it. Beyond the cache every row begins with a wait for memory: short rows are slower than long
 * ones. */
static bool measure_on_host(struct vr_measure_stage *s, uint32_t type, struct vr_measure_products *out)
{
    struct figure f[N_FIGURES] = { 0 };
    double rate;
    if (!time_figures(s, type, f)) return false;
    out->kernels = 1;
    out->product_us = s->product_us;
    if (f[SMALL].us > 0) {
        solve(f[SMALL].us, f[SMALL].bytes, f[LARGER].us, f[LARGER].bytes, 0.5, &out->product_us, &rate);
        out->cached_gbs = rate / 1e3;
    }
    out->prompt_product_us = out->product_us;
    solve_rows(&f[SHORT_ROWS], &host_products[SHORT_ROWS], out->product_us, 0.2, &out->row_ns, &out->gbs);
    double rows_us = out->row_ns * (double)host_products[WIDE].rows / 1e3;
    out->wide_gbs = f[WIDE].bytes / fmax(f[WIDE].us - out->product_us - rows_us, f[WIDE].us / 2) / 1e3;
    if (f[BATCH].us > 0) out->tflops = f[BATCH].flops / (f[BATCH].us - out->product_us) / 1e6;
    if (f[EXPERTS_SHORT].us > 0 && f[EXPERTS].us > 0)
        solve_rows(&f[EXPERTS_SHORT], &host_products[EXPERTS_SHORT], out->product_us, 0.5, &out->expert_row_ns,
                   &out->expert_gbs);
    double many = f[EXPERTS_BATCH].us;
    if (many > 0) out->expert_tflops = f[EXPERTS_BATCH].flops / fmax(many - out->product_us, many * 0.6) / 1e6;
    return true;
}

static bool measure_type(struct vr_measure_stage *s, uint32_t type, struct vr_measure_products *out, struct vr_err *err)
{
    return (s->host ? measure_on_host : measure_on_device)(s, type, out) ||
           vr_fail(err, VR_EENGINE, "matrix multiplication with this type is not supported");
}

struct products_ask {
    const struct vr_measure_where *w;
    uint32_t type;
};

static bool products_child(void *ctx, struct vr_buf *result, struct vr_err *err)
{
    const struct products_ask *a = ctx;
    struct vr_measure_stage s;
    struct vr_measure_products p = { 0 };
    if (!vr_measure_stage_open(a->w, a->type, &s, err) || !measure_type(&s, a->type, &p, err)) return false;
    vr_buf_add(result, &p, sizeof p);
    return true;
}

bool vr_measure_products(const struct vr_measure_where *w, uint32_t type, struct vr_measure_products *out,
                         struct vr_err *err)
{
    struct products_ask a = { .w = w, .type = type };
    return vr_measure_ask_on(products_child, &a, w, out, sizeof *out, err);
}

/* --- the processor's cache --- */

/* Weights of f16, which computing hardly slows: as many as the cache holds are read faster. Where the rate is half way
 * down to the memory's, the cache ends. */
static bool find_cache(struct vr_measure_stage *s, double *mib, struct vr_err *err)
{
    double rates[12], bytes, flops, us;
    uint64_t most = vr_engine_threads() < LARGE_CORES ? HOST_BYTES : LARGE_BYTES;
    size_t n = 0;
    for (uint64_t room = CACHE_BYTES; room < 2 * most && n < VR_COUNT(rates); room *= 2) {
        struct product p = { 1024, 1024, 1, 0, 0, room };
        while (room / (uint64_t)(p.k * p.rows * 2) > 32) p.rows *= 2;
        us = time_product(s, GGML_TYPE_F16, &p, &bytes, &flops, NULL);
        if (us <= 0) return vr_fail(err, VR_EENGINE, "matrix multiplication with f16 is not supported");
        rates[n++] = bytes / us;
    }
    double half = (rates[0] + rates[n - 1]) / 2;
    if (rates[0] < 1.2 * rates[n - 1]) return true; /* memory is as fast, or computing is slower than both */
    for (size_t i = 1; i < n; i++) {
        if (rates[i] > half) continue;
        double part = (rates[i - 1] - half) / (rates[i - 1] - rates[i]);
        *mib = (double)(CACHE_BYTES >> 20) * exp2((double)i - 1 + part);
        return true;
    }
    return true;
}

static bool cache_child(void *ctx, struct vr_buf *result, struct vr_err *err)
{
    struct vr_measure_stage s;
    double mib = 0;
    if (!vr_measure_stage_open(ctx, GGML_TYPE_F16, &s, err) || !find_cache(&s, &mib, err)) return false;
    vr_buf_add(result, &mib, sizeof mib);
    return true;
}

bool vr_measure_cache(const struct vr_measure_where *w, double *mib, struct vr_err *err)
{
    return vr_measure_ask_on(cache_child, w, w, mib, sizeof *mib, err);
}

/* --- links --- */

#define LINK_BYTES ((size_t)32 << 20)  /* a large tensor */
#define WORD_BYTES ((size_t)16 << 10)  /* one token's activations */
#define FILE_BYTES ((size_t)512 << 20) /* of a mapped file: no piece is in a cache when its turn comes again */
#define IN_FLIGHT  4                   /* tensors of experts that are sent without waiting */

enum way { UP, STREAM, DOWN, ACROSS, BACK };

struct ends {
    ggml_backend_t a, b;
    struct ggml_tensor *here, *there; /* on the device; on the host, or on the peer */
    const char *file;                 /* mapped: what is sent instead of `there` */
};

/* The least time; of pieces of a file the middle one, since they lie in memory as they happen to. */
static double time_copy(const struct ends *e, enum way way, size_t n)
{
    enum { SKIPPED = 2, WORDS = 64, PIECES = 8 };
    struct ggml_tensor from = way == BACK ? *e->there : *e->here, to = way == BACK ? *e->here : *e->there;
    from.ne[0] = to.ne[0] = (int64_t)n;
    for (int k = 1; k < GGML_MAX_DIMS; k++) from.nb[k] = to.nb[k] = n;
    size_t rounds = n == WORD_BYTES ? WORDS : PIECES, piece = 0;
    double took[SKIPPED + WORDS];
    for (size_t i = 0; i < SKIPPED + rounds; i++) {
        double t0 = vr_now_fine_us();
        if (way == UP) ggml_backend_tensor_set(e->here, e->file ? e->file + piece++ * n : e->there->data, 0, n);
        for (size_t k = 0; way == STREAM && k < IN_FLIGHT; k++)
            ggml_backend_tensor_set_async(e->a, e->here, e->file + piece++ * n % FILE_BYTES, 0, n);
        if (way == STREAM) ggml_backend_synchronize(e->a);
        if (way == DOWN) ggml_backend_tensor_get(e->here, e->there->data, 0, n);
        if (way >= ACROSS) {
            ggml_backend_tensor_copy_async(way == BACK ? e->b : e->a, way == BACK ? e->a : e->b, &from, &to);
            ggml_backend_synchronize(way == BACK ? e->a : e->b);
        }
        took[i] = vr_now_fine_us() - t0;
    }
    return vr_rank(took + SKIPPED, rounds, e->file ? 0.5 : 0);
}

static void time_both(const struct ends *e, enum way up, enum way down, struct vr_measure_link *out)
{
    out->up_us = time_copy(e, up, WORD_BYTES);
    out->down_us = time_copy(e, down, WORD_BYTES);
    out->up_gbs = (double)LINK_BYTES / fmax(time_copy(e, up, LINK_BYTES) - out->up_us, 1) / 1e3;
    out->down_gbs = (double)LINK_BYTES / fmax(time_copy(e, down, LINK_BYTES) - out->down_us, 1) / 1e3;
}

/* Without memory for the file there are no figures. */
static void time_mapped(struct ends *e, struct vr_measure_link *out)
{
    int fd = memfd_create("weights", MFD_CLOEXEC);
    void *map = fd >= 0 && ftruncate(fd, (off_t)FILE_BYTES) == 0
                    ? mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                    : MAP_FAILED;
    if (map == MAP_FAILED) return;
    memset(map, 1, FILE_BYTES);
    e->file = map;
    out->mapped_gbs = (double)LINK_BYTES / fmax(time_copy(e, UP, LINK_BYTES), 1) / 1e3;
    out->mapped_expert_gbs = (double)(IN_FLIGHT * LINK_BYTES) / fmax(time_copy(e, STREAM, LINK_BYTES), 1) / 1e3;
}

static bool link_child(void *ctx, struct vr_buf *result, struct vr_err *err)
{
    const struct vr_measure_where *w = ctx;
    struct vr_measure_link out = { 0 };
    struct vr_measure_stage s;
    if (!vr_measure_stage_open(w, GGML_TYPE_F16, &s, err)) return false;
    ggml_backend_buffer_type_t pinned = ggml_backend_dev_host_buffer_type(s.dev);
    struct ends e = { .a = s.backend,
                      .here = vr_bytes_on(ggml_backend_dev_buffer_type(s.dev), LINK_BYTES),
                      .there = vr_bytes_on(pinned ? pinned : ggml_backend_cpu_buffer_type(), LINK_BYTES) };
    if (!e.here || !e.there) return vr_fail(err, VR_ENOMEM, "not enough memory to measure the link of %s", w->device);
    time_both(&e, UP, DOWN, &out);
    time_mapped(&e, &out);
    vr_buf_add(result, &out, sizeof out);
    return true;
}

bool vr_measure_link(const struct vr_measure_where *w, struct vr_measure_link *out, struct vr_err *err)
{
    return vr_measure_ask_on(link_child, w, w, out, sizeof *out, err);
}

static bool pair_child(void *ctx, struct vr_buf *result, struct vr_err *err)
{
    const struct vr_measure_where *w = ctx;
    struct vr_measure_link out = { 0 };
    struct vr_measure_stage s;
    if (!vr_measure_stage_open(w, GGML_TYPE_F16, &s, err)) return false;
    ggml_backend_dev_t peer = ggml_backend_dev_by_name(w->peer);
    struct ends e = { .a = s.backend, .b = peer ? ggml_backend_dev_init(peer, NULL) : NULL };
    if (!e.b) return vr_fail(err, VR_EDEVICE, "the engine does not find device %s", w->peer);
    e.here = vr_bytes_on(ggml_backend_dev_buffer_type(s.dev), LINK_BYTES);
    e.there = vr_bytes_on(ggml_backend_dev_buffer_type(peer), LINK_BYTES);
    if (!e.here || !e.there) return vr_fail(err, VR_ENOMEM, "not enough memory to measure a link");
    time_both(&e, ACROSS, BACK, &out);
    vr_buf_add(result, &out, sizeof out);
    return true;
}

bool vr_measure_pair(const struct vr_measure_where *w, struct vr_measure_link *out, struct vr_err *err)
{
    return vr_measure_ask_on(pair_child, w, w, out, sizeof *out, err);
}
