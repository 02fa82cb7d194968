/* Nothing is computed, so all results of a graph may lie at one address, and inputs on the host in one small buffer. */
#include "engine/probe/slices.h"

#include <string.h>
#include <sys/mman.h>

#include <ggml-alloc.h>
#include <ggml-backend-impl.h>
#include <ggml-impl.h>

#include "engine/vgpu/vgpu.h"

ggml_backend_t vr_slices_backend(ggml_backend_sched_t sched)
{
    for (int i = 0; i < ggml_backend_sched_get_n_backends(sched); i++) {
        ggml_backend_t b = ggml_backend_sched_get_backend(sched, i);
        if (ggml_backend_is_meta(b)) return b;
    }
    return NULL;
}

/* --- weights and caches --- */

static void on_size(void *ctx, size_t device, const struct ggml_tensor *t)
{
    struct vr_slices *s = ctx;
    if (device != s->device || s->failed) return;
    if (s->n == s->cap) {
        size_t cap = s->cap ? s->cap * 2 : 1024;
        struct vr_weight_slice *list = realloc(s->list, cap * sizeof *list);
        s->failed = !list;
        if (!list) return;
        s->list = list;
        s->cap = cap;
    }
    s->list[s->n++] = (struct vr_weight_slice){ .whole = t };
}

void vr_slices_begin(struct vr_slices *s, size_t device)
{
    s->device = device;
    s->n = 0;
    vr_vgpu_watch(&(struct vr_vgpu_watch){ .ctx = s, .size = on_size });
}

static int by_address(const void *a, const void *b)
{
    const struct vr_weight_slice *x = a, *y = b;
    return (x->whole > y->whole) - (x->whole < y->whole);
}

static bool is_weight(const struct ggml_tensor *t)
{
    return t->buffer && t->buffer->usage == GGML_BACKEND_BUFFER_USAGE_WEIGHTS;
}

/* Weights, or caches: one buffer, as the engine makes it. */
static bool slice(struct vr_slices *s, bool weights, struct vr_err *err)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++) n += is_weight(s->list[i].whole) == weights;
    if (n == 0) return true;
    struct ggml_init_params p = { .mem_size = 4 * n * ggml_tensor_overhead(), .no_alloc = true };
    struct ggml_context *ctx = ggml_init(p);
    if (!ctx) return vr_fail_nomem(err, "slicing a model");
    for (size_t i = 0; i < s->n; i++) {
        const struct ggml_tensor *t = s->list[i].whole;
        if (is_weight(t) != weights) continue;
        s->list[i].sliced = ggml_dup_tensor(ctx, t);
        ggml_set_name(s->list[i].sliced, t->name); /* which decides how it is cut */
    }
    ggml_backend_buffer_t b =
        ggml_backend_alloc_ctx_tensors_from_buft(ctx, ggml_backend_get_default_buffer_type(s->meta));
    if (!b) return vr_fail(err, VR_EENGINE, "the engine could not slice the model's %s", weights ? "weights" : "cache");
    if (weights) ggml_backend_buffer_set_usage(b, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    return true;
}

/* As a load does it, because some slices cannot be written. Zeros that nobody made are read, and only of small tensors:
 * the virtual GPUs take nothing. */
static bool write_weights(const struct vr_slices *s, struct vr_err *err)
{
    size_t most = 1;
    for (size_t i = 0; i < s->n; i++)
        if (ggml_nbytes(s->list[i].whole) > most) most = ggml_nbytes(s->list[i].whole);
    void *zeros = mmap(NULL, most, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (zeros == MAP_FAILED) return vr_fail_nomem(err, "slicing a model");
    for (size_t i = 0; i < s->n; i++)
        if (is_weight(s->list[i].whole))
            ggml_backend_tensor_set(s->list[i].sliced, zeros, 0, ggml_nbytes(s->list[i].whole));
    return munmap(zeros, most) == 0;
}

bool vr_slices_end(struct vr_slices *s, struct vr_err *err)
{
    vr_vgpu_watch(NULL);
    if (s->failed) return vr_fail_nomem(err, "slicing a model");
    qsort(s->list, s->n, sizeof *s->list, by_address);
    return slice(s, true, err) && slice(s, false, err) && write_weights(s, err);
}

/* --- graphs --- */

static struct ggml_tensor *sliced(const struct vr_slices *s, struct ggml_tensor *t)
{
    const struct vr_weight_slice key = { .whole = t };
    const struct vr_weight_slice *found = t ? bsearch(&key, s->list, s->n, sizeof key, by_address) : NULL;
    return found ? found->sliced : t;
}

struct placing {
    const struct vr_slices *s;
    ggml_backend_buffer_t spread, host;
};

static void put_on_host(const struct placing *p, struct ggml_tensor *t)
{
    t->buffer = p->host;
    t->data = ggml_backend_buffer_get_base(p->host);
}

static bool put(const struct placing *p, struct ggml_tensor *t, bool spread)
{
    if (t->buffer) return true;
    if (t->view_src && t->view_src->buffer && ggml_backend_buffer_is_meta(t->view_src->buffer))
        return ggml_backend_view_init(t) == GGML_STATUS_SUCCESS;
    if (t->view_src || !spread) return put_on_host(p, t), true;
    return ggml_backend_tensor_alloc(p->spread, t, ggml_backend_buffer_get_base(p->spread)) == GGML_STATUS_SUCCESS;
}

static bool put_node(const struct placing *p, struct ggml_tensor *t, bool spread)
{
    for (int i = 0; i < GGML_MAX_SRC; i++) {
        if (!t->src[i]) continue;
        t->src[i] = sliced(p->s, t->src[i]);
        if (t->src[i]->op == GGML_OP_NONE && !put(p, t->src[i], spread)) return false; /* the scheduler's copies */
    }
    t->view_src = sliced(p->s, t->view_src);
    return put(p, t, spread);
}

#define LEAST_CELLS 256 /* that a graph reads of a cache: one so small is always full */

/* While the caches of several sequences are partly filled, the engine takes the one head for all of a row and dies. A
 * reserved graph has full ones, where it does not. */
static bool has_one_head(const struct ggml_cgraph *g, const bool *spread)
{
    for (int i = 0; i < g->n_nodes; i++) {
        if (!spread[i]) continue;
        const struct ggml_tensor *t = g->nodes[i], *k = t->op == GGML_OP_FLASH_ATTN_EXT ? t->src[1] : NULL;
        if (k && k->ne[2] == 1 && k->ne[3] > 1 && k->ne[1] > LEAST_CELLS) return true;
    }
    return false;
}

ggml_backend_buffer_t vr_slices_place(const struct vr_slices *s, struct ggml_cgraph *g, const bool *spread,
                                      struct vr_err *err)
{
    static ggml_backend_buffer_t host;
    ggml_backend_buffer_type_t meta = ggml_backend_get_default_buffer_type(s->meta);
    size_t most = 1;
    if (has_one_head(g, spread)) {
        vr_fail(err, VR_EENGINE, "the engine cannot split one KV head over devices for several sequences");
        return NULL;
    }
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = -1; k < GGML_MAX_SRC && spread[i]; k++) {
            const struct ggml_tensor *t = k < 0 ? g->nodes[i] : g->nodes[i]->src[k];
            size_t n = t && !t->view_src ? ggml_backend_buft_get_alloc_size(meta, t) : 0;
            if (n > most) most = n;
        }
    if (!host) host = ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(), 4096);
    if (host) ggml_backend_buffer_set_usage(host, GGML_BACKEND_BUFFER_USAGE_COMPUTE);
    struct placing p = { .s = s, .spread = ggml_backend_buft_alloc_buffer(meta, most), .host = host };
    if (!p.spread || !p.host) return vr_fail_nomem(err, "placing a graph"), NULL;
    ggml_backend_buffer_set_usage(p.spread, GGML_BACKEND_BUFFER_USAGE_COMPUTE);
    for (int i = 0; i < g->n_leafs; i++)
        if (!g->leafs[i]->buffer) put_on_host(&p, g->leafs[i]);
    for (int i = 0; i < g->n_nodes; i++)
        if (!put_node(&p, g->nodes[i], spread[i])) {
            vr_fail(err, VR_EENGINE, "the engine could not place '%s' on all devices", g->nodes[i]->name);
            ggml_backend_buffer_free(p.spread);
            return NULL;
        }
    return p.spread;
}

bool vr_slices_compute(const struct vr_slices *s, struct ggml_cgraph *g, int begin, int end, struct vr_err *err)
{
    struct ggml_cgraph part = ggml_graph_view(g, begin, end);
    return ggml_backend_graph_compute(s->meta, &part) == GGML_STATUS_SUCCESS ||
           vr_fail(err, VR_EENGINE, "the engine could not compute on all devices");
}
