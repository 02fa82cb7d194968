/* Where graphs are measured, and graphs of two lengths. Weights are one quantized block of noise, repeated: what is in
 * them does not change how long they take, as long as it is not all zero. */
#include "engine/measure/measure_stage.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include <ggml-alloc.h>
#include <ggml-cpu.h>

#include "base/clock.h"
#include "base/rank.h"
#include "engine/llama/cpu.h"
#include "engine/llama/library.h"
#include "engine/llama/isolated.h"
#include "engine/vgpu/vgpu.h"

#define LEAST_MS     30.0 /* of computing per figure */
#define MOST_MS      150.0
#define LEAST_ROUNDS 6
#define MAX_ROUNDS   200
#define NOISE_VALUES 65536
#define FILLERS      8 /* threads */

/* Weights beside GPUs lie in plain or pinned memory; without any, the CPU backend repacks types that gain by it, those
 * of experts elsewhere than others. */
static ggml_backend_buffer_type_t host_weights(ggml_backend_dev_t cpu, uint32_t type, bool experts, bool beside_gpus)
{
    ggml_backend_buffer_type_t plain = ggml_backend_dev_buffer_type(cpu);
    void *fn = ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(cpu), "ggml_backend_dev_get_extra_bufts");
    ggml_backend_buffer_type_t *more = fn && !beside_gpus ? ((ggml_backend_dev_get_extra_bufts_t)fn)(cpu) : NULL;
    struct ggml_init_params p = { 1 << 14, NULL, true };
    for (; more && *more; more++) {
        struct ggml_context *ctx = ggml_init(p);
        struct ggml_tensor *w = ggml_new_tensor_3d(ctx, (enum ggml_type)type, 4096, 4096, experts ? 8 : 1);
        struct ggml_tensor *x = ggml_new_tensor_3d(ctx, GGML_TYPE_F32, 4096, experts ? 1 : VR_MEASURE_TOKENS,
                                                   experts ? VR_MEASURE_TOKENS : 1);
        struct ggml_tensor *ids = ggml_new_tensor_2d(ctx, GGML_TYPE_I32, 2, VR_MEASURE_TOKENS);
        struct ggml_tensor *mm = experts ? ggml_mul_mat_id(ctx, w, x, ids) : ggml_mul_mat(ctx, w, x);
        w->buffer = ggml_backend_buft_alloc_buffer(*more, 0);
        bool takes = w->buffer && ggml_backend_dev_supports_op(cpu, mm);
        if (w->buffer) ggml_backend_buffer_free(w->buffer);
        ggml_free(ctx);
        if (takes) return *more;
    }
    return plain;
}

/* As many as serving takes, made once and waiting, as there. */
static void set_threads(struct vr_measure_stage *s)
{
    ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(s->dev);
    int n = (int)vr_engine_threads();
    vr_cpu_set_threads(s->backend, n);
    struct ggml_threadpool *(*make)(struct ggml_threadpool_params *) =
        (struct ggml_threadpool * (*)(struct ggml_threadpool_params *))
            ggml_backend_reg_get_proc_address(reg, "ggml_threadpool_new");
    void (*use)(ggml_backend_t, struct ggml_threadpool *) =
        (void (*)(ggml_backend_t, struct ggml_threadpool *))ggml_backend_reg_get_proc_address(
            reg, "ggml_backend_cpu_set_threadpool");
    struct ggml_threadpool_params p = ggml_threadpool_params_default(n);
    if (make && use) use(s->backend, make(&p));
}

bool vr_measure_stage_open(const struct vr_measure_where *w, uint32_t type, struct vr_measure_stage *s,
                           struct vr_err *err)
{
    if (!vr_measure_backends(w, err)) return false;
    *s = (struct vr_measure_stage){ .host = !w->device, .cc = w->cc, .pages = w->pages, .product_us = w->product_us };
    if (w->pages) s->pages_bytes = VR_MEASURE_PAGES;
    s->dev = s->host ? ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU) : ggml_backend_dev_by_name(w->device);
    if (!s->dev) return vr_fail(err, VR_EDEVICE, "the engine does not find device %s", s->host ? "CPU" : w->device);
    s->backend = ggml_backend_dev_init(s->dev, NULL);
    if (!s->backend) return vr_fail(err, VR_EDEVICE, "the engine cannot use device %s", w->device);
    s->weights = s->experts = ggml_backend_dev_buffer_type(s->dev);
    if (s->host) s->weights = host_weights(s->dev, type, false, w->beside_gpus);
    if (s->host) s->experts = host_weights(s->dev, type, true, w->beside_gpus);
    if (s->host) set_threads(s);
    return true;
}

/* --- graphs --- */

void vr_timing_done(struct vr_timing *b)
{
    ggml_backend_buffer_free(b->wbuf);
    ggml_backend_buffer_free(b->buf);
    ggml_free(b->weights);
    ggml_free(b->rest);
    *b = (struct vr_timing){ 0 };
}

bool vr_timing_start(struct vr_timing *b, struct vr_measure_stage *s)
{
    struct ggml_init_params p = { (size_t)1 << 20, NULL, true };
    *b = (struct vr_timing){ .s = s, .weights = ggml_init(p), .rest = ggml_init(p) };
    for (int i = 0; i < 2 && b->rest; i++) b->graph[i] = ggml_new_graph_custom(b->rest, 512, false);
    return b->weights && b->rest;
}

static void repeat(char *bytes, size_t block, size_t n)
{
    for (size_t at = block; at < n; at += block) memcpy(bytes + at, bytes, n - at < block ? n - at : block);
}

/* One block of noise as the type, repeated over n bytes, but at least once. */
static bool noise_bytes(enum ggml_type type, char *bytes, size_t n)
{
    static float values[NOISE_VALUES], ones[NOISE_VALUES];
    uint32_t seed = 1;
    for (size_t i = 0; i < NOISE_VALUES; i++) {
        values[i] = ((float)(vr_noise(&seed) >> 8) / (float)(1 << 24) - 0.5f) / 16;
        ones[i] = 1;
    }
    size_t block = ggml_row_size(type, NOISE_VALUES);
    const float *weights = ggml_is_quantized(type) ? ones : NULL;
    if (ggml_quantize_chunk(type, values, bytes, 0, 16, NOISE_VALUES / 16, weights) == 0) return false;
    repeat(bytes, block, n);
    return true;
}

/* All tensors are of one type and about one size: the bytes for the largest serve each. */
static bool fill_all(struct ggml_tensor *const *list, size_t n)
{
    size_t largest = 0;
    for (size_t i = 0; i < n; i++)
        if (ggml_nbytes(list[i]) > largest) largest = ggml_nbytes(list[i]);
    char *bytes = malloc(largest + ggml_row_size(list[0]->type, NOISE_VALUES));
    bool ok = bytes && noise_bytes(list[0]->type, bytes, largest);
    for (size_t i = 0; i < n && ok; i++) ggml_backend_tensor_set(list[i], bytes, 0, ggml_nbytes(list[i]));
    free(bytes);
    return ok;
}

bool vr_timing_fill(struct ggml_tensor *t) { return fill_all(&t, 1); }

static bool fill_weights(struct vr_timing *b)
{
    struct ggml_tensor *list[VR_TIMING_NODES];
    size_t n = 0;
    for (struct ggml_tensor *t = ggml_get_first_tensor(b->weights); t && n < VR_TIMING_NODES;
         t = ggml_get_next_tensor(b->weights, t))
        list[n++] = t;
    return fill_all(list, n);
}

/* --- the host's weights --- */

struct filler {
    char *to;
    const char *noise;
    size_t n, block;
};

static void *fill_part(void *arg)
{
    const struct filler *f = arg;
    memcpy(f->to, f->noise, f->n < f->block ? f->n : f->block);
    repeat(f->to, f->block, f->n);
    return NULL;
}

/* Fresh pages take long: all at once. */
static void fill_pages(char *to, size_t n, const char *noise, size_t block)
{
    struct filler parts[FILLERS];
    pthread_t threads[FILLERS];
    bool runs[FILLERS];
    size_t each = (n / FILLERS / block + 1) * block;
    for (size_t i = 0; i < FILLERS; i++) {
        size_t at = i * each < n ? i * each : n;
        parts[i] = (struct filler){ to + at, noise, n - at < each ? n - at : each, block };
        runs[i] = pthread_create(&threads[i], NULL, fill_part, &parts[i]) == 0;
        if (!runs[i]) fill_part(&parts[i]);
    }
    for (size_t i = 0; i < FILLERS; i++)
        if (runs[i]) pthread_join(threads[i], NULL);
}

/* Small ones, as those of a model's file are. */
static char *map_pages(size_t n)
{
    void *map = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return map == MAP_FAILED ? NULL : map;
}

char *vr_measure_pages(void) { return map_pages(VR_MEASURE_PAGES); }

void vr_measure_pages_free(char *pages)
{
    if (pages) munmap(pages, VR_MEASURE_PAGES);
}

/* Pages full of noise. */
static bool make_pages(struct vr_measure_stage *s, enum ggml_type type, size_t n)
{
    if (n <= s->filled_bytes) return true;
    if (n > s->pages_bytes) {
        if (s->pages) munmap(s->pages, s->pages_bytes);
        s->pages = map_pages(n);
        s->pages_bytes = s->pages ? n : 0;
    }
    size_t block = ggml_row_size(type, NOISE_VALUES);
    VR_AUTO_FREE char *noise = malloc(block);
    if (!s->pages || !noise || !noise_bytes(type, noise, block)) return false;
    fill_pages(s->pages, n, noise, block);
    s->filled_bytes = n;
    return true;
}

/* One behind the other: all are of one type, so that each begins with a whole block of it. */
static bool place_in_pages(struct vr_timing *b)
{
    struct ggml_tensor *first = ggml_get_first_tensor(b->weights), *t;
    size_t n = 0, at = 0;
    for (t = first; t; t = ggml_get_next_tensor(b->weights, t)) n += ggml_nbytes(t);
    if (!make_pages(b->s, first->type, n)) return false;
    b->wbuf = ggml_backend_cpu_buffer_from_ptr(b->s->pages, n);
    for (t = first; t && b->wbuf; t = ggml_get_next_tensor(b->weights, t)) {
        if (ggml_backend_tensor_alloc(b->wbuf, t, b->s->pages + at) != GGML_STATUS_SUCCESS) return false;
        at += ggml_nbytes(t);
    }
    return b->wbuf != NULL;
}

/* Weights on the host lie in the pages of a file, unless the engine rearranges them. */
static bool allocate_weights(struct vr_timing *b)
{
    ggml_backend_buffer_type_t where = b->n_experts ? b->s->experts : b->s->weights;
    if (b->s->host && where == ggml_backend_dev_buffer_type(b->s->dev)) return place_in_pages(b);
    b->wbuf = ggml_backend_alloc_ctx_tensors_from_buft(b->weights, where);
    return b->wbuf && fill_weights(b);
}

bool vr_timing_allocate(struct vr_timing *b)
{
    if (ggml_get_first_tensor(b->weights)) {
        if (!allocate_weights(b)) return false;
        ggml_backend_buffer_set_usage(b->wbuf, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    }
    b->buf = ggml_backend_alloc_ctx_tensors(b->rest, b->s->backend);
    return b->buf != NULL;
}

/* Other experts for each of n nodes, as tokens choose them. A token's on the host in order, each again when all others
 * of its tensor had their turn: of as few as there are here, a cache would know some. */
static void choose_experts(struct vr_timing *b, int n, uint32_t *seed)
{
    static int32_t ids[VR_MEASURE_TOKENS * 16];
    for (int i = 0; i < n; i++) {
        int64_t used = b->ids[i]->ne[0], tokens = b->ids[i]->ne[1];
        uint32_t part = (uint32_t)(b->n_experts / used), turn = b->turns[i % b->n_weights]++;
        for (int64_t t = 0; t < tokens; t++)
            for (int64_t k = 0; k < used; k++) { /* different ones: each from its own part */
                uint32_t which = b->s->host && tokens == 1 ? turn : vr_noise(seed) >> 16;
                ids[t * used + k] = (int32_t)((uint32_t)k * part + which % part);
            }
        ggml_backend_tensor_set(b->ids[i], ids, 0, (size_t)(used * tokens) * sizeof *ids);
    }
}

/* Runs n graphs in turn until enough was computed: whatever else the computer does for a while then hits them all. */
static bool time_in_turn(struct vr_timing *b, struct ggml_cgraph **graphs, int n, uint32_t *seed, double *us)
{
    double sum = 0, least = n * LEAST_MS, most = n * MOST_MS, took[2][MAX_ROUNDS];
    int i = 0;
    for (; i < MAX_ROUNDS && (sum < least * 1e3 || i < LEAST_ROUNDS) && (sum < most * 1e3 || i < 2); i++) {
        for (int k = 0; k < n; k++) {
            if (b->n_experts) choose_experts(b, graphs[k] == b->graph[0] ? b->n[0] : b->n[1], seed);
            double t0 = vr_now_fine_us();
            if (ggml_backend_graph_compute(b->s->backend, graphs[k]) != GGML_STATUS_SUCCESS) return false;
            took[k][i] = vr_now_fine_us() - t0;
            sum += took[k][i];
        }
    }
    for (int k = 0; k < n; k++) us[k] = vr_rank(took[k], (size_t)i, 0.25);
    return true;
}

double vr_timing_graph(struct vr_timing *b, struct ggml_cgraph *g, uint32_t *seed)
{
    double us;
    return time_in_turn(b, &g, 1, seed, &us) ? us : -1;
}

double vr_timing_node(struct vr_timing *b)
{
    uint32_t seed = 7;
    double us[2];
    bool ok = b->s->host
                  ? time_in_turn(b, b->graph, 2, &seed, us) /* a device records a graph that comes again at once */
                  : time_in_turn(b, &b->graph[0], 1, &seed, &us[0]) && time_in_turn(b, &b->graph[1], 1, &seed, &us[1]);
    if (!ok) return -1;
    double each = (us[1] - us[0]) / (b->n[1] - b->n[0]), mean = us[1] / b->n[1];
    return each > mean / 2 ? each : mean; /* else something else had the computer meanwhile */
}

void vr_timing_add(struct vr_timing *b, struct ggml_tensor *node, bool also_short)
{
    ggml_build_forward_expand(b->graph[1], node);
    b->n[1]++;
    if (!also_short) return;
    ggml_build_forward_expand(b->graph[0], node);
    b->n[0]++;
}

bool vr_measure_backends(const struct vr_measure_where *w, struct vr_err *err)
{
    if (w->visible) setenv("CUDA_VISIBLE_DEVICES", w->visible, 1);
    if (!vr_cpu_load(w->cpu, err)) return false;
    if (w->n_vgpus) return vr_vgpu_register(w->vgpus, w->n_vgpus, VR_VGPU_EXECUTING, err);
    return !w->device || vr_engine_load_backends(err);
}

struct ggml_tensor *vr_bytes_on(ggml_backend_buffer_type_t buft, size_t n)
{
    struct ggml_context *ctx = ggml_init((struct ggml_init_params){ 1 << 12, NULL, true });
    struct ggml_tensor *t = ctx ? ggml_new_tensor_1d(ctx, GGML_TYPE_I8, (int64_t)n) : NULL;
    return t && ggml_backend_alloc_ctx_tensors_from_buft(ctx, buft) ? t : NULL; /* the process ends soon */
}

bool vr_measure_ask(bool (*fn)(void *ask, struct vr_buf *result, struct vr_err *err), const void *ask,
                    const struct vr_engine_needs *needs, int timeout_ms, void *out, size_t n, struct vr_err *err)
{
    struct vr_isolated job = {
        .fn = fn, .ctx = (void *)(uintptr_t)ask, .what = "measuring", .trusted = !needs, .timeout_ms = timeout_ms
    };
    if (needs) job.needs = *needs;
    return vr_isolated_block(&job, out, n, err);
}

bool vr_measure_ask_on(bool (*fn)(void *ask, struct vr_buf *result, struct vr_err *err), const void *ask,
                       const struct vr_measure_where *w, void *out, size_t n, struct vr_err *err)
{
    return vr_measure_ask(fn, ask, &(struct vr_engine_needs){ .files = { w->cpu }, .devices = w->device != NULL },
                          w->timeout_ms, out, n, err);
}
