/* Single operations. Weights are one quantized block of noise, repeated: what is in them does not change how long they
 * take, as long as it is not all zero. Every graph reads more than a last-level cache holds. */
#include "engine/measure.h"

#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml-cpu.h>

#include "engine/engine.h"
#include "engine/fusion.h"
#include "engine/measure_child.h"
#include "hw/machine.h"

#define TOKENS       512  /* of a micro-batch */
#define LEAST_MS     40.0 /* of computing per figure */
#define MOST_MS      400.0
#define MAX_ROUNDS   200
#define GPU_BYTES    ((uint64_t)512 << 20) /* of weights per graph */
#define HOST_BYTES   ((uint64_t)192 << 20) /* and on large hosts, whose caches are too: */
#define LARGE_BYTES  ((uint64_t)1 << 30)
#define LARGE_CORES  8
#define NOISE_VALUES 65536

struct stage {
    ggml_backend_t backend;
    ggml_backend_dev_t dev;
    ggml_backend_buffer_type_t weights; /* where weights lie */
    bool host;
    int cc;
};

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* Weights beside GPUs lie in plain or pinned memory; without any, the CPU backend repacks types that gain by it. */
static ggml_backend_buffer_type_t host_weights(ggml_backend_dev_t cpu, uint32_t type, bool beside_gpus)
{
    ggml_backend_buffer_type_t plain = ggml_backend_dev_buffer_type(cpu);
    void *fn = ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(cpu), "ggml_backend_dev_get_extra_bufts");
    ggml_backend_buffer_type_t *more = fn && !beside_gpus ? ((ggml_backend_dev_get_extra_bufts_t)fn)(cpu) : NULL;
    struct ggml_init_params p = { 1 << 14, NULL, true };
    for (; more && *more; more++) {
        struct ggml_context *ctx = ggml_init(p);
        struct ggml_tensor *w = ggml_new_tensor_2d(ctx, (enum ggml_type)type, 4096, 4096);
        struct ggml_tensor *mm = ggml_mul_mat(ctx, w, ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 4096, TOKENS));
        w->buffer = ggml_backend_buft_alloc_buffer(*more, 0);
        bool takes = w->buffer && ggml_backend_dev_supports_op(cpu, mm);
        if (w->buffer) ggml_backend_buffer_free(w->buffer);
        ggml_free(ctx);
        if (takes) return *more;
    }
    return plain;
}

/* As many as serving takes, made once and waiting, as there. */
static void set_threads(struct stage *s)
{
    ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(s->dev);
    int n = (int)vr_engine_threads();
    void *fn = ggml_backend_reg_get_proc_address(reg, "ggml_backend_set_n_threads");
    if (fn) ((ggml_backend_set_n_threads_t)fn)(s->backend, n);
    struct ggml_threadpool *(*make)(struct ggml_threadpool_params *) =
        (struct ggml_threadpool * (*)(struct ggml_threadpool_params *))
            ggml_backend_reg_get_proc_address(reg, "ggml_threadpool_new");
    void (*use)(ggml_backend_t, struct ggml_threadpool *) =
        (void (*)(ggml_backend_t, struct ggml_threadpool *))ggml_backend_reg_get_proc_address(
            reg, "ggml_backend_cpu_set_threadpool");
    struct ggml_threadpool_params p = ggml_threadpool_params_default(n);
    if (make && use) use(s->backend, make(&p));
}

static bool open_stage(const struct vr_measure_where *w, uint32_t type, struct stage *s, struct vr_err *err)
{
    if (!vr_measure_backends(w, err)) return false;
    *s = (struct stage){ .host = !w->device, .cc = w->cc };
    s->dev = s->host ? ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU) : ggml_backend_dev_by_name(w->device);
    if (!s->dev) return vr_fail(err, VR_EDEVICE, "the engine does not see the device %s", s->host ? "CPU" : w->device);
    s->backend = ggml_backend_dev_init(s->dev, NULL);
    if (!s->backend) return vr_fail(err, VR_EDEVICE, "the engine cannot use the device %s", w->device);
    s->weights = s->host ? host_weights(s->dev, type, w->beside_gpus) : ggml_backend_dev_buffer_type(s->dev);
    if (s->host) set_threads(s);
    return true;
}

/* --- graphs --- */

struct bench {
    struct stage *s;
    struct ggml_context *weights, *rest;
    ggml_backend_buffer_t wbuf, buf;
    struct ggml_cgraph *graph[2]; /* a short and a long one */
    int n[2];                     /* nodes that count */
    struct ggml_tensor *ids[96];  /* the experts that nodes choose */
    int n_ids, n_experts;
};

static void bench_done(struct bench *b)
{
    ggml_backend_buffer_free(b->wbuf);
    ggml_backend_buffer_free(b->buf);
    ggml_free(b->weights);
    ggml_free(b->rest);
    *b = (struct bench){ 0 };
}

static bool bench_start(struct bench *b, struct stage *s)
{
    struct ggml_init_params p = { (size_t)1 << 20, NULL, true };
    *b = (struct bench){ .s = s, .weights = ggml_init(p), .rest = ggml_init(p) };
    for (int i = 0; i < 2 && b->rest; i++) b->graph[i] = ggml_new_graph_custom(b->rest, 512, false);
    return b->weights && b->rest;
}

static uint32_t noise(uint32_t *state) { return *state = *state * 1664525u + 1013904223u; }

static bool fill_floats(struct ggml_tensor *t, uint32_t *seed)
{
    size_t n = (size_t)ggml_nelements(t);
    float *values = malloc(n * sizeof *values);
    if (!values) return false;
    for (size_t i = 0; i < n; i++) values[i] = (float)(noise(seed) >> 8) / (float)(1 << 24) - 0.5f;
    if (t->type == GGML_TYPE_F16) ggml_fp32_to_fp16_row(values, (ggml_fp16_t *)(void *)values, (int64_t)n);
    ggml_backend_tensor_set(t, values, 0, ggml_nbytes(t));
    free(values);
    return true;
}

/* One block of noise as this type, repeated to the size of the largest of the tensors and put into each. */
static bool fill_weights(struct bench *b)
{
    struct ggml_tensor *first = ggml_get_first_tensor(b->weights);
    enum ggml_type type = first->type;
    static float values[NOISE_VALUES], ones[NOISE_VALUES];
    uint32_t seed = 1;
    for (size_t i = 0; i < NOISE_VALUES; i++) {
        values[i] = ((float)(noise(&seed) >> 8) / (float)(1 << 24) - 0.5f) / 16;
        ones[i] = 1;
    }
    size_t block = ggml_row_size(type, NOISE_VALUES), largest = 0;
    for (struct ggml_tensor *t = first; t; t = ggml_get_next_tensor(b->weights, t))
        if (ggml_nbytes(t) > largest) largest = ggml_nbytes(t);
    char *bytes = malloc(largest + block);
    if (!bytes) return false;
    bool floats = !ggml_is_quantized(type);
    if (ggml_quantize_chunk(type, values, bytes, 0, 16, NOISE_VALUES / 16, floats ? NULL : ones) == 0) return false;
    for (size_t at = block; at < largest; at += block) memcpy(bytes + at, bytes, block);
    for (struct ggml_tensor *t = first; t; t = ggml_get_next_tensor(b->weights, t))
        ggml_backend_tensor_set(t, bytes, 0, ggml_nbytes(t));
    free(bytes);
    return true;
}

static bool allocate(struct bench *b)
{
    if (ggml_get_first_tensor(b->weights)) {
        b->wbuf = ggml_backend_alloc_ctx_tensors_from_buft(b->weights, b->s->weights);
        if (!b->wbuf) return false;
        ggml_backend_buffer_set_usage(b->wbuf, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
        if (!fill_weights(b)) return false;
    }
    b->buf = ggml_backend_alloc_ctx_tensors(b->rest, b->s->backend);
    return b->buf != NULL;
}

/* Other experts each time, as tokens choose them. */
static void choose_experts(struct bench *b, uint32_t *seed)
{
    static int32_t ids[TOKENS * 16];
    for (int i = 0; i < b->n_ids; i++) {
        int64_t used = b->ids[i]->ne[0], tokens = b->ids[i]->ne[1];
        for (int64_t t = 0; t < tokens; t++)
            for (int64_t k = 0; k < used; k++) { /* different ones: each from its own part */
                int part = b->n_experts / (int)used;
                ids[t * used + k] = (int32_t)k * part + (int32_t)((noise(seed) >> 16) % (uint32_t)part);
            }
        ggml_backend_tensor_set(b->ids[i], ids, 0, (size_t)(used * tokens) * sizeof *ids);
    }
}

/* The shortest of many runs of a graph, in microseconds: whatever else the computer does only adds to it. Negative when
 * it does not compute. */
static double time_graph(struct bench *b, struct ggml_cgraph *g, uint32_t *seed)
{
    double sum = 0, best = -1;
    for (int i = 0; i < MAX_ROUNDS && (sum < LEAST_MS * 1e3 || i < 8) && (sum < MOST_MS * 1e3 || i < 2); i++) {
        choose_experts(b, seed);
        double t0 = now_us();
        if (ggml_backend_graph_compute(b->s->backend, g) != GGML_STATUS_SUCCESS) return -1;
        double t = now_us() - t0;
        sum += t;
        if (best < 0 || t < best) best = t;
    }
    return best;
}

/* Microseconds of one counted node: the long graph less the short one. */
static double time_node(struct bench *b)
{
    uint32_t seed = 7;
    double few = time_graph(b, b->graph[0], &seed), many = time_graph(b, b->graph[1], &seed);
    if (few < 0 || many < 0) return -1;
    double each = (many - few) / (b->n[1] - b->n[0]), mean = many / b->n[1];
    return each > mean / 2 ? each : mean; /* else something else had the computer meanwhile */
}

static void add_node(struct bench *b, struct ggml_tensor *node, bool also_short)
{
    ggml_build_forward_expand(b->graph[1], node);
    b->n[1]++;
    if (!also_short) return;
    ggml_build_forward_expand(b->graph[0], node);
    b->n[0]++;
}

/* --- products --- */

struct product {
    int64_t k, rows, tokens, experts, used; /* experts 0: a plain one */
};

/* One kind of product. *bytes and *flops: of one node, what it reads of its weights and what it computes. */
static double time_product(struct stage *s, uint32_t type, const struct product *p, double *bytes, double *flops,
                           int *kernels)
{
    struct bench b;
    if (!bench_start(&b, s)) return -1;
    int64_t experts = p->experts ? p->experts : 1;
    uint64_t each = ggml_row_size((enum ggml_type)type, p->k) * (uint64_t)(p->rows * experts);
    uint64_t room = !s->host ? GPU_BYTES : vr_engine_threads() < LARGE_CORES ? HOST_BYTES : LARGE_BYTES;
    int n_weights = (int)(room / each), n_nodes;
    n_weights = n_weights < 2 ? 2 : n_weights > 96 ? 96 : n_weights;
    n_nodes = s->host || p->tokens > 1 ? n_weights : 48;
    if (p->tokens > 1 && n_nodes > 12) n_nodes = 12;
    if (p->tokens > 1 && s->host && n_nodes > 3) n_nodes = 3;
    struct ggml_tensor *w[96],
        *x = ggml_new_tensor_3d(b.rest, GGML_TYPE_F32, p->k, p->experts ? 1 : p->tokens, p->experts ? p->tokens : 1);
    if (n_weights > n_nodes) n_weights = n_nodes;
    for (int i = 0; i < n_weights; i++)
        w[i] = ggml_new_tensor_3d(b.weights, (enum ggml_type)type, p->k, p->rows, experts);
    b.n_experts = (int)p->experts;
    for (int i = 0; i < n_nodes; i++) {
        struct ggml_tensor *node;
        if (p->experts) {
            b.ids[b.n_ids] = ggml_new_tensor_2d(b.rest, GGML_TYPE_I32, p->used, p->tokens);
            node = ggml_mul_mat_id(b.rest, w[i % n_weights], x, b.ids[b.n_ids++]);
        } else {
            node = ggml_mul_mat(b.rest, w[i % n_weights], x);
        }
        if (kernels) *kernels = s->host ? 1 : vr_node_kernels(node, s->cc);
        add_node(&b, node, i < n_nodes / 4 || i == 0);
    }
    double touched = p->experts ? 1 - pow(1 - (double)p->used / (double)p->experts, (double)p->tokens) : 1;
    if (p->experts && p->tokens == 1) touched = (double)p->used / (double)p->experts;
    *bytes = (double)each * touched;
    *flops = 2.0 * (double)(p->k * p->rows * p->tokens) * (double)(p->experts ? p->used : 1);
    uint32_t seed = 3;
    double us = -1;
    if (ggml_backend_dev_supports_op(s->dev, b.graph[1]->nodes[0]) && allocate(&b) && fill_floats(x, &seed))
        us = time_node(&b);
    bench_done(&b);
    return us;
}

/* Two sizes of the same product: what both cost, and what each unit more costs. */
static void solve(double small_us, double small, double large_us, double large, double *fixed_us, double *per_us)
{
    double slope = (large_us - small_us) / (large - small);
    if (!(slope > large_us / large * 0.5)) slope = large_us / large; /* noise: the larger one alone tells */
    *per_us = 1 / slope;
    *fixed_us = fmax(small_us - small * slope, 0);
}

static bool measure_type(struct stage *s, uint32_t type, struct vr_measure_products *out, struct vr_err *err)
{
    /* sizes as models of 8 to 70 B have them; fewer rows on the host, whose threads need no thousands to be busy */
    const struct product one[] = { { 4096, s->host ? 2048 : 4096, 1, 0, 0 },
                                   { 4096, s->host ? 8192 : 16384, 1, 0, 0 } };
    int64_t tokens = s->host ? 64 : TOKENS;
    const struct product many[] = { { 4096, s->host ? 1024 : 4096, tokens, 0, 0 },
                                    { 4096, s->host ? 4096 : 16384, tokens, 0, 0 } };
    const struct product experts[] = { { 2048, 768, 1, 64, 8 }, { 2048, 768, tokens, 64, 8 } };
    double us[2], bytes[2], flops[2];
    int kernels = 1;
    for (int i = 0; i < 2; i++) us[i] = time_product(s, type, &one[i], &bytes[i], &flops[i], &kernels);
    if (us[0] <= 0 || us[1] <= 0) return vr_fail(err, VR_EENGINE, "products with this type do not compute");
    double rate;
    solve(us[0], bytes[0], us[1], bytes[1], &out->product_us, &rate);
    out->gbs = rate / 1e3;
    out->kernels = kernels;
    for (int i = 0; i < 2; i++) us[i] = time_product(s, type, &many[i], &bytes[i], &flops[i], NULL);
    if (us[0] > 0 && us[1] > 0) {
        solve(us[0], flops[0], us[1], flops[1], &out->prompt_product_us, &rate);
        out->tflops = rate / 1e6;
    }
    double e = time_product(s, type, &experts[0], &bytes[0], &flops[0], NULL);
    if (e > 0) out->expert_gbs = bytes[0] / fmax(e - out->product_us, e * 0.6) / 1e3;
    e = time_product(s, type, &experts[1], &bytes[1], &flops[1], NULL);
    if (e > 0) out->expert_tflops = flops[1] / fmax(e - out->prompt_product_us, e * 0.6) / 1e6;
    return true;
}

struct products_ask {
    const struct vr_measure_where *w;
    uint32_t type;
    struct vr_measure_products out;
};

static bool products_child(void *ctx, struct vr_err *err)
{
    struct products_ask *a = ctx;
    struct stage s;
    return open_stage(a->w, a->type, &s, err) && measure_type(&s, a->type, &a->out, err);
}

bool vr_measure_products(const struct vr_measure_where *w, uint32_t type, struct vr_measure_products *out,
                         struct vr_err *err)
{
    struct products_ask a = { .w = w, .type = type };
    return vr_measure_child(products_child, &a, &a.out, sizeof a.out, w->timeout_ms, out, err);
}

/* --- attention --- */

static double time_attention(struct stage *s, int64_t cells, int64_t tokens, double *bytes, double *flops)
{
    enum { HEAD = 128, HEADS = 32, KV = 8 };
    struct bench b;
    if (!bench_start(&b, s)) return -1;
    int n = tokens == 1 ? 8 : 3;
    struct ggml_tensor *q = ggml_new_tensor_3d(b.rest, GGML_TYPE_F32, HEAD, tokens, HEADS);
    struct ggml_tensor *mask = ggml_new_tensor_2d(b.rest, GGML_TYPE_F16, cells, (tokens + 63) / 64 * 64), *kv[16];
    for (int i = 0; i < 2 * n; i++) kv[i] = ggml_new_tensor_3d(b.rest, GGML_TYPE_F16, HEAD, cells, KV);
    for (int i = 0; i < n; i++) {
        struct ggml_tensor *node =
            ggml_flash_attn_ext(b.rest, q, kv[2 * i], kv[2 * i + 1], mask, 1 / sqrtf(HEAD), 0, 0);
        add_node(&b, node, i == 0);
    }
    *bytes = 2.0 * HEAD * KV * 2 * (double)cells;
    *flops = 4.0 * HEAD * HEADS * (double)(cells * tokens);
    uint32_t seed = 5;
    double us = -1;
    if (ggml_backend_dev_supports_op(s->dev, b.graph[1]->nodes[0]) && allocate(&b) && fill_floats(q, &seed)) {
        for (int i = 0; i < 2 * n; i++) fill_floats(kv[i], &seed);
        ggml_backend_tensor_memset(mask, 0, 0, ggml_nbytes(mask));
        us = time_node(&b);
    }
    bench_done(&b);
    return us;
}

struct attention_ask {
    const struct vr_measure_where *w;
    struct vr_measure_attention out;
};

static bool attention_child(void *ctx, struct vr_err *err)
{
    struct attention_ask *a = ctx;
    struct stage s;
    if (!open_stage(a->w, GGML_TYPE_F16, &s, err)) return false;
    double bytes, flops, us = time_attention(&s, s.host ? 4096 : 16384, 1, &bytes, &flops);
    if (us > 0) a->out.gbs = bytes / us / 1e3;
    us = time_attention(&s, s.host ? 1024 : 4096, s.host ? 64 : TOKENS, &bytes, &flops);
    if (us > 0) a->out.tflops = flops / us / 1e6;
    return true;
}

bool vr_measure_attention(const struct vr_measure_where *w, struct vr_measure_attention *out, struct vr_err *err)
{
    struct attention_ask a = { .w = w };
    return vr_measure_child(attention_child, &a, &a.out, sizeof a.out, w->timeout_ms, out, err);
}

/* --- links --- */

#define LINK_BYTES  ((size_t)32 << 20) /* a large tensor */
#define WORD_BYTES  ((size_t)16 << 10) /* one token's activations */
#define PIECE_BYTES ((size_t)2 << 20)  /* an expert */

struct link_ask {
    const struct vr_measure_where *w;
    struct vr_measure_link out;
};

static struct ggml_tensor *bytes_on(ggml_backend_buffer_type_t buft, size_t n)
{
    struct ggml_context *ctx = ggml_init((struct ggml_init_params){ 1 << 12, NULL, true });
    struct ggml_tensor *t = ctx ? ggml_new_tensor_1d(ctx, GGML_TYPE_I8, (int64_t)n) : NULL;
    return t && ggml_backend_alloc_ctx_tensors_from_buft(ctx, buft) ? t : NULL; /* the process ends soon */
}

enum way { UP, STREAM, DOWN, ACROSS, BACK };

struct ends {
    ggml_backend_t a, b;
    struct ggml_tensor *here, *there; /* on the device; on the host, or on the peer */
};

static double time_copy(const struct ends *e, enum way way, size_t n)
{
    double best = 1e12;
    struct ggml_tensor from = way == BACK ? *e->there : *e->here, to = way == BACK ? *e->here : *e->there;
    from.ne[0] = to.ne[0] = (int64_t)n;
    for (int k = 1; k < GGML_MAX_DIMS; k++) from.nb[k] = to.nb[k] = n;
    int rounds = n == WORD_BYTES ? 64 : 6;
    for (int i = -2; i < rounds; i++) {
        double t0 = now_us();
        if (way == UP) ggml_backend_tensor_set(e->here, e->there->data, 0, n);
        for (size_t at = 0; way == STREAM && at < n; at += PIECE_BYTES)
            ggml_backend_tensor_set_async(e->a, e->here, (const char *)e->there->data + at, at, PIECE_BYTES);
        if (way == STREAM) ggml_backend_synchronize(e->a);
        if (way == DOWN) ggml_backend_tensor_get(e->here, e->there->data, 0, n);
        if (way >= ACROSS) {
            ggml_backend_tensor_copy_async(way == BACK ? e->b : e->a, way == BACK ? e->a : e->b, &from, &to);
            ggml_backend_synchronize(way == BACK ? e->a : e->b);
        }
        if (i >= 0) best = fmin(best, now_us() - t0);
    }
    return best;
}

static void time_both(const struct ends *e, enum way up, enum way down, struct vr_measure_link *out)
{
    out->up_us = time_copy(e, up, WORD_BYTES);
    out->down_us = time_copy(e, down, WORD_BYTES);
    out->up_gbs = (double)LINK_BYTES / fmax(time_copy(e, up, LINK_BYTES) - out->up_us, 1) / 1e3;
    out->down_gbs = (double)LINK_BYTES / fmax(time_copy(e, down, LINK_BYTES) - out->down_us, 1) / 1e3;
}

static bool link_child(void *ctx, struct vr_err *err)
{
    struct link_ask *a = ctx;
    struct stage s;
    if (!open_stage(a->w, GGML_TYPE_F16, &s, err)) return false;
    ggml_backend_buffer_type_t pinned = ggml_backend_dev_host_buffer_type(s.dev);
    struct ends e = { .a = s.backend,
                      .here = bytes_on(ggml_backend_dev_buffer_type(s.dev), LINK_BYTES),
                      .there = bytes_on(pinned ? pinned : ggml_backend_cpu_buffer_type(), LINK_BYTES) };
    if (!e.here || !e.there) return vr_fail(err, VR_ENOMEM, "no room for measuring the link of %s", a->w->device);
    time_both(&e, UP, DOWN, &a->out);
    int fd = memfd_create("weights", MFD_CLOEXEC);
    void *map = fd >= 0 && ftruncate(fd, (off_t)LINK_BYTES) == 0
                    ? mmap(NULL, LINK_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                    : MAP_FAILED;
    if (map == MAP_FAILED) return true;
    memset(map, 1, LINK_BYTES);
    struct ggml_tensor mapped = *e.there;
    mapped.data = map;
    e.there = &mapped;
    a->out.mapped_gbs = (double)LINK_BYTES / fmax(time_copy(&e, UP, LINK_BYTES), 1) / 1e3;
    a->out.mapped_expert_gbs = (double)LINK_BYTES / fmax(time_copy(&e, STREAM, LINK_BYTES), 1) / 1e3;
    return true;
}

bool vr_measure_link(const struct vr_measure_where *w, struct vr_measure_link *out, struct vr_err *err)
{
    struct link_ask a = { .w = w };
    return vr_measure_child(link_child, &a, &a.out, sizeof a.out, w->timeout_ms, out, err);
}

static bool pair_child(void *ctx, struct vr_err *err)
{
    struct link_ask *a = ctx;
    struct stage s;
    if (!open_stage(a->w, GGML_TYPE_F16, &s, err)) return false;
    ggml_backend_dev_t peer = ggml_backend_dev_by_name(a->w->peer);
    struct ends e = { .a = s.backend, .b = peer ? ggml_backend_dev_init(peer, NULL) : NULL };
    if (!e.b) return vr_fail(err, VR_EDEVICE, "the engine does not see the device %s", a->w->peer);
    e.here = bytes_on(ggml_backend_dev_buffer_type(s.dev), LINK_BYTES);
    e.there = bytes_on(ggml_backend_dev_buffer_type(peer), LINK_BYTES);
    if (!e.here || !e.there) return vr_fail(err, VR_ENOMEM, "no room for measuring a link");
    time_both(&e, ACROSS, BACK, &a->out);
    return true;
}

bool vr_measure_pair(const struct vr_measure_where *w, struct vr_measure_link *out, struct vr_err *err)
{
    struct link_ask a = { .w = w };
    return vr_measure_child(pair_child, &a, &a.out, sizeof a.out, w->timeout_ms, out, err);
}
