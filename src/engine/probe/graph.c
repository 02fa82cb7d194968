/* The virtual GPUs tell every split as it is made: a device and a stretch of the graph's nodes. What no device claims
 * is the host's. The scheduler has by then replaced inputs from elsewhere by copies called "CUDA1#name#0": each copy
 * is one transfer, made before the first split that uses it, and its origin is found again by that name.
 *
 * In split mode tensor a split is the engine's own device over all. It takes a graph apart only when it computes: the
 * stretch is given to it (slices.h), and the virtual GPUs tell what each of them gets, and where it is added up. */
#include "engine/probe/graph.h"

#include <math.h>
#include <string.h>

#include <ggml-backend-impl.h>
#include <ggml-impl.h>

#include "base/hash.h"
#include "engine/probe/slices.h"
#include "engine/vgpu/fusion.h"
#include "engine/vgpu/rules.h"
#include "engine/vgpu/vgpu.h"
#include "gguf/type.h"

#define SPREAD UINT8_MAX /* over all devices */

struct stretch {
    struct ggml_tensor **nodes; /* into the whole graph's array */
    int n;
    uint8_t device;
};

static struct { /* filled between begin and end */
    struct stretch *list;
    size_t n, cap;
    bool failed;
} seen;

static void on_split(void *ctx, size_t device, const struct ggml_cgraph *split)
{
    (void)ctx;
    if (seen.n == seen.cap) {
        size_t cap = seen.cap ? seen.cap * 2 : 64;
        struct stretch *list = realloc(seen.list, cap * sizeof *list);
        if (!list) {
            seen.failed = true;
            return;
        }
        seen.list = list;
        seen.cap = cap;
    }
    seen.list[seen.n++] = (struct stretch){ split->nodes, split->n_nodes, (uint8_t)device };
}

static void on_spread(ggml_backend_t b, struct ggml_cgraph *split, struct ggml_backend_graph_optimize_params *p)
{
    (void)b, (void)p;
    on_split(NULL, SPREAD, split);
}

void vr_work_begin(const struct vr_slices *slices)
{
    seen.n = 0;
    seen.failed = false;
    if (slices->meta) slices->meta->iface.graph_optimize = on_spread; /* it has none of its own */
    vr_vgpu_watch(&(struct vr_vgpu_watch){ .split = on_split });
}

void vr_works_done(struct vr_works *w)
{
    free(w->rows);
    free(w->transfers);
    free(w->reductions);
    *w = (struct vr_works){ 0 };
}

/* --- names and where they live --- */

struct named {
    const char *name;
    uint8_t device;
    bool weight;
};

struct graph {
    struct ggml_cgraph *g;
    const struct vr_slices *slices;
    enum vr_phase phase;
    uint8_t host, first;               /* devices */
    struct named *names;               /* open hash table of nodes and leafs by name */
    size_t n_names;                    /* a power of two */
    const struct ggml_tensor **copies; /* the copies that were counted: open hash set by address */
    size_t n_copies;
    struct vr_works *out;
    uint16_t station;                         /* that the walk is at */
    uint16_t stage, stage_began;              /* additions over all devices so far, and the station at the last one */
    struct ggml_tensor **whole[VR_MAX_VGPUS]; /* split mode tensor: the node that a device slices next */
    bool failed;
};

static void put_name(struct graph *gr, const char *name, uint8_t device, bool weight)
{
    size_t i = vr_hash(name, strlen(name), 0) & (gr->n_names - 1);
    while (gr->names[i].name && strcmp(gr->names[i].name, name) != 0) i = (i + 1) & (gr->n_names - 1);
    if (!gr->names[i].name) gr->names[i] = (struct named){ name, device, weight };
}

/* Where the copy `t` comes from: "CUDA1#name#0". */
static struct named origin(const struct graph *gr, const struct ggml_tensor *t)
{
    const char *name = strchr(t->name, '#') + 1, *end = strrchr(name, '#');
    size_t n = end ? (size_t)(end - name) : strlen(name), i = vr_hash(name, n, 0) & (gr->n_names - 1);
    for (; gr->names[i].name; i = (i + 1) & (gr->n_names - 1))
        if (strncmp(gr->names[i].name, name, n) == 0 && gr->names[i].name[n] == '\0') return gr->names[i];
    return (struct named){ name, gr->host, false };
}

static uint8_t device_of_buffer(const struct graph *gr, const struct ggml_tensor *t)
{
    const struct ggml_tensor *root = t->view_src ? t->view_src : t;
    int i = root->buffer ? vr_vgpu_index(root->buffer->buft->device) : -1;
    bool pinned = root->buffer && ggml_backend_buft_is_host(root->buffer->buft);
    return i < 0 || pinned ? gr->host : (uint8_t)i;
}

static bool is_copy(const struct ggml_tensor *t) { return t->op == GGML_OP_NONE && strchr(t->name, '#') != NULL; }

static bool is_weight(const struct ggml_tensor *t)
{
    const struct ggml_tensor *root = t->view_src ? t->view_src : t;
    return root->buffer && root->buffer->usage == GGML_BACKEND_BUFFER_USAGE_WEIGHTS;
}

/* The cache and the recurrent states are the only tensors that have a buffer when a graph is reserved, besides
 * weights. */
static bool is_cache(const struct ggml_tensor *t)
{
    const struct ggml_tensor *root = t->view_src ? t->view_src : t;
    return root->buffer && root->buffer->usage == GGML_BACKEND_BUFFER_USAGE_ANY && !is_copy(root);
}

static uint64_t read_bytes(const struct ggml_tensor *t) /* of a view: what it shows, not what it spans */
{
    return ggml_row_size(t->type, t->ne[0]) * (uint64_t)(t->ne[1] * t->ne[2] * t->ne[3]);
}

/* --- rows and transfers --- */

static bool same_row(const struct vr_work *a, const struct vr_work *b) /* b is one node */
{
    return a->device == b->device && a->stage == b->stage && a->sliced == b->sliced && a->op == b->op &&
           a->type == b->type && strcmp(a->weight, b->weight) == 0 && a->cells == b->cells &&
           a->columns == b->columns && a->heads == b->heads && a->weight_bytes == b->weight_bytes * a->n &&
           a->cache_bytes == b->cache_bytes * a->n && a->act_bytes == b->act_bytes * a->n &&
           a->flops == b->flops * a->n && a->kernels == b->kernels * a->n;
}

static void add_row(struct graph *gr, const struct vr_work *one)
{
    struct vr_works *w = gr->out;
    for (uint32_t i = w->n_rows; i > 0; i--) {
        struct vr_work *r = &w->rows[i - 1];
        if (r->phase != one->phase || r->station != one->station) break; /* layers come one after the other */
        if (!same_row(r, one)) continue;
        r->n++;
        r->kernels += one->kernels;
        r->weight_bytes += one->weight_bytes;
        r->cache_bytes += one->cache_bytes;
        r->act_bytes += one->act_bytes;
        r->flops += one->flops;
        return;
    }
    if ((w->n_rows & (w->n_rows - 1)) == 0) {
        struct vr_work *rows = realloc(w->rows, (w->n_rows ? w->n_rows * 2 : 1) * sizeof *rows);
        if (!rows) {
            gr->failed = true;
            return;
        }
        w->rows = rows;
    }
    w->rows[w->n_rows++] = *one;
}

static void add_transfer(struct graph *gr, uint8_t from, uint8_t to, bool weights, bool experts, uint64_t bytes)
{
    struct vr_works *w = gr->out;
    for (uint32_t i = 0; i < w->n_transfers; i++) {
        struct vr_transfer *t = &w->transfers[i];
        if (t->phase != gr->phase || t->from != from || t->to != to || t->weights != weights || t->experts != experts)
            continue;
        t->n++;
        t->bytes += bytes;
        return;
    }
    struct vr_transfer *list = realloc(w->transfers, (w->n_transfers + 1) * sizeof *list);
    if (!list) {
        gr->failed = true;
        return;
    }
    w->transfers = list;
    list[w->n_transfers++] = (struct vr_transfer){ (uint8_t)gr->phase, from, to, weights, experts, 1, bytes };
}

static void add_reduction(struct graph *gr, uint64_t bytes, size_t n_devices)
{
    struct vr_works *w = gr->out;
    for (uint32_t i = 0; i < w->n_reductions; i++) {
        struct vr_reduction *r = &w->reductions[i];
        if (r->phase != gr->phase || r->n_devices != n_devices || r->bytes != bytes) continue;
        r->n++;
        return;
    }
    struct vr_reduction *list = realloc(w->reductions, (w->n_reductions + 1) * sizeof *list);
    if (!list) {
        gr->failed = true;
        return;
    }
    w->reductions = list;
    list[w->n_reductions++] = (struct vr_reduction){ (uint8_t)gr->phase, (uint8_t)n_devices, 1, bytes };
}

/* The share of a tensor of experts that a batch touches: each token takes k of E; if they choose independently,
 * 1 - (1 - k/E)^tokens of the experts are used by somebody. */
static double share_of_experts(const struct ggml_tensor *mm)
{
    const struct ggml_tensor *ids = mm->src[2];
    double n = (double)mm->src[0]->ne[2], k = (double)ids->ne[0], tokens = (double)ids->ne[1];
    if (n <= 0 || k >= n) return 1;
    return tokens <= 1 ? k / n : 1 - pow(1 - k / n, tokens);
}

/* A copy made for this node, once: true when this is the first use. Only the used experts of a tensor cross, when
 * their product is the split's first node. */
static bool count_copy(struct graph *gr, const struct ggml_tensor *t, const struct ggml_tensor *node, bool first,
                       uint8_t device)
{
    size_t i = vr_hash(&t, sizeof t, 0) & (gr->n_copies - 1);
    while (gr->copies[i] && gr->copies[i] != t) i = (i + 1) & (gr->n_copies - 1);
    if (gr->copies[i]) return false;
    gr->copies[i] = t;
    struct named from = origin(gr, t);
    bool experts = from.weight && first && node->op == GGML_OP_MUL_MAT_ID && node->src[0] == t;
    double share = experts ? share_of_experts(node) : 1;
    add_transfer(gr, from.device, device, from.weight, experts, (uint64_t)((double)ggml_nbytes(t) * share));
    return true;
}

/* --- one node --- */

static void count_mul_mat(const struct graph *gr, const struct ggml_tensor *t, struct vr_work *w)
{
    const struct ggml_tensor *a = t->src[0];
    bool experts = t->op == GGML_OP_MUL_MAT_ID;
    w->flops = 2 * (uint64_t)a->ne[0] * (uint64_t)ggml_nelements(t);
    w->type = a->type;
    w->quantized = ggml_is_quantized(a->type);
    w->columns = (uint32_t)a->ne[0];
    uint64_t bytes = read_bytes(a);
    if (experts) bytes = (uint64_t)((double)bytes * share_of_experts(t));
    if (is_cache(a)) {
        w->cache_bytes = bytes;
        w->cells = (uint32_t)a->ne[1];
        if (strstr(a->name, "cache_v") || (a->view_src && strstr(a->view_src->name, "cache_v")))
            w->cells = (uint32_t)a->ne[0]; /* V lies transposed without flash attention */
    } else if (is_weight(a) || (is_copy(a) && origin(gr, a).weight)) {
        w->weight_bytes = bytes; /* a copy of weights is read from this device's own memory */
    } else {
        w->act_bytes += bytes;
    }
    w->act_bytes += read_bytes(t->src[1]) + read_bytes(t);
}

static void count_attention(const struct ggml_tensor *t, int cc, struct vr_work *w)
{
    const struct ggml_tensor *q = t->src[0], *k = t->src[1], *v = t->src[2];
    bool same = v->view_src && v->view_src == k->view_src && v->view_offs == k->view_offs;
    w->flops = 2 * (uint64_t)(k->ne[0] + v->ne[0]) * (uint64_t)k->ne[1] * (uint64_t)(q->ne[1] * q->ne[2] * q->ne[3]);
    w->type = k->type;
    w->quantized = ggml_is_quantized(k->type);
    w->cells = (uint32_t)k->ne[1];
    w->heads = (uint16_t)(q->ne[2] / k->ne[2]);
    w->together = cc ? (uint16_t)vr_rule_attn_together(t, cc) : 1;
    w->cache_bytes = read_bytes(k) + (same ? 0 : read_bytes(v));
    w->act_bytes = read_bytes(q) + read_bytes(t) + (t->src[3] ? read_bytes(t->src[3]) : 0);
}

static void count_other(const struct ggml_tensor *t, struct vr_work *w)
{
    bool by_row = t->op == GGML_OP_GET_ROWS || t->op == GGML_OP_SET_ROWS || t->op == GGML_OP_CPY;
    uint64_t moved = (uint64_t)ggml_nelements(t->op == GGML_OP_SET_ROWS ? t->src[0] : t);
    w->flops = by_row ? 0 : moved;
    for (int i = 0; i < GGML_MAX_SRC; i++) {
        const struct ggml_tensor *s = t->src[i];
        if (!s || (t->op == GGML_OP_SET_ROWS && i == 2) || (t->op == GGML_OP_CPY && i == 1)) continue; /* the result */
        uint64_t bytes = read_bytes(s);
        if ((t->op == GGML_OP_GET_ROWS && i == 0) || (t->op == GGML_OP_ADD_ID && i == 1)) /* the chosen rows */
            bytes = ggml_row_size(s->type, (int64_t)moved);
        if (is_weight(s)) {
            w->weight_bytes += bytes;
            if (i == 0 || w->type == VR_TYPE_NONE) w->type = s->type;
        } else if (is_cache(s)) {
            w->cache_bytes += bytes;
        } else {
            w->act_bytes += bytes;
        }
    }
    if (t->op == GGML_OP_SET_ROWS && is_cache(t)) w->type = t->type;
    if (t->op == GGML_OP_RMS_NORM || t->op == GGML_OP_NORM) w->columns = (uint32_t)t->ne[0];
    if (t->op == GGML_OP_SOFT_MAX && t->src[1]) w->cells = (uint32_t)t->ne[0]; /* with a mask: over the cache */
    uint64_t written = by_row ? ggml_row_size(t->type, (int64_t)moved) : read_bytes(t);
    if (is_cache(t))
        w->cache_bytes += written;
    else
        w->act_bytes += written;
    if (w->type != VR_TYPE_NONE) w->quantized = ggml_is_quantized((enum ggml_type)w->type);
}

/* The layer in "blk.12.ffn_up.weight" or "ffn_out-12 (view)"; -1: none is named. */
static int layer_in(const char *name)
{
    const char *at = strncmp(name, "blk.", 4) == 0 ? name + 4 : strrchr(name, '-');
    if (at && *at == '-') at++;
    return at && *at >= '0' && *at <= '9' ? atoi(at) : -1;
}

/* The tensor that a product multiplies with; NULL: no weights. */
static const char *weight_of(const struct graph *gr, const struct ggml_tensor *t)
{
    const struct ggml_tensor *a = t->src[0];
    if (t->op != GGML_OP_MUL_MAT && t->op != GGML_OP_MUL_MAT_ID) return NULL;
    if (is_copy(a)) {
        struct named from = origin(gr, a);
        return from.weight ? from.name : NULL;
    }
    return is_weight(a) ? (a->view_src ? a->view_src : a)->name : NULL;
}

/* Nodes that name no layer belong to the one before them. */
static void find_station(struct graph *gr, const struct ggml_tensor *t, const char *weight)
{
    int layer = layer_in(weight ? weight : t->name);
    if (layer >= 0 && layer < VR_STATION_OUTPUT)
        gr->station = (uint16_t)layer;
    else if (gr->station != VR_STATION_INPUT && (weight || strncmp(t->name, "result_", 7) == 0))
        gr->station = VR_STATION_OUTPUT;
}

/* Whether a device does only a part of a node: of its result, or of what it is made of. */
static bool is_slice(const struct ggml_tensor *t, const struct ggml_tensor *whole)
{
    if (ggml_nelements(t) < ggml_nelements(whole)) return true;
    for (int i = 0; i < GGML_MAX_SRC; i++)
        if (t->src[i] && whole->src[i] && ggml_nelements(t->src[i]) < ggml_nelements(whole->src[i])) return true;
    return false;
}

/* `last`: of the nodes that one kernel does together with t. Only its result leaves the chip. */
static void count_node(struct graph *gr, const struct ggml_tensor *t, const struct ggml_tensor *last,
                       const struct ggml_tensor *whole, uint8_t device, int cc, int kernels)
{
    const char *weight = weight_of(gr, t);
    find_station(gr, t, weight);
    struct vr_work w = { .phase = (uint8_t)gr->phase,
                         .device = device,
                         .op = (uint8_t)t->op,
                         .sliced = whole && is_slice(t, whole),
                         .type = VR_TYPE_NONE,
                         .station = gr->station,
                         .stage = gr->stage,
                         .n = 1,
                         .kernels = (uint32_t)kernels };
    snprintf(w.name, sizeof w.name, "%s", ggml_op_desc(t));
    if (weight) snprintf(w.weight, sizeof w.weight, "%s", weight);
    if (t->op == GGML_OP_MUL_MAT || t->op == GGML_OP_MUL_MAT_ID)
        count_mul_mat(gr, t, &w);
    else if (t->op == GGML_OP_FLASH_ATTN_EXT)
        count_attention(t, cc, &w);
    else
        count_other(t, &w);
    if (read_bytes(last) < read_bytes(t)) w.act_bytes -= read_bytes(t) - read_bytes(last);
    add_row(gr, &w);
}

/* The scheduler begins a new split of the same device where weights come from elsewhere and inputs have come before:
 * the devices report theirs, the host's are found here. */
static bool needs_new_split(const struct graph *gr, const struct ggml_tensor *t, int n_inputs)
{
    for (int s = 0; s < GGML_MAX_SRC && n_inputs > 0; s++)
        if (t->src[s] && is_copy(t->src[s]) && origin(gr, t->src[s]).weight) return true;
    return false;
}

/* One split of a device, or all that the host does between two of them. `cc` says how many kernels a device makes of
 * the nodes; 0: there is none. `whole`: the nodes that these are slices of, or NULL. */
static void count_stretch(struct graph *gr, const struct ggml_cgraph *part, struct ggml_tensor *const *whole,
                          uint8_t device, int cc)
{
    bool first = true, host = device == gr->host;
    if (!host && gr->phase == VR_PREFILL) gr->out->device_splits[device]++;
    int n_inputs = 0;
    for (int i = 0, fused_until = 0; i < part->n_nodes; i++) {
        const struct ggml_tensor *t = part->nodes[i];
        if (host && needs_new_split(gr, t, n_inputs)) {
            gr->out->n_splits[gr->phase]++;
            n_inputs = 0;
        }
        for (int s = 0; s < GGML_MAX_SRC; s++)
            if (t->src[s] && is_copy(t->src[s])) n_inputs += count_copy(gr, t->src[s], t, first, device);
        if (vr_node_is_free(t) || !(t->flags & GGML_TENSOR_FLAG_COMPUTE)) continue;
        const struct ggml_tensor *last = t;
        int kernels = 0;
        if (i >= fused_until && cc) {
            fused_until = i + vr_fused_nodes(part, i, cc);
            kernels = vr_node_kernels(t, cc);
            last = part->nodes[fused_until - 1];
        }
        count_node(gr, t, last, whole ? whole[i] : NULL, device, cc, kernels);
        uint64_t pool = host ? 0 : vr_rule_pool_bytes(t, cc);
        if (!host && pool > gr->out->pool_bytes[device]) gr->out->pool_bytes[device] = pool;
        if (!host && strcmp(t->name, "result_output") == 0) /* logits go home */
            add_transfer(gr, device, gr->host, false, false, ggml_nbytes(t));
        first = false;
    }
}

/* --- split mode tensor --- */

static void on_compute(void *ctx, size_t device, const struct ggml_cgraph *part)
{
    struct graph *gr = ctx;
    gr->station = gr->stage_began; /* each device does the stage from its beginning */
    count_stretch(gr, part, gr->whole[device], (uint8_t)device, vr_vgpu_cc(device));
    gr->whole[device] += part->n_nodes;
}

static void on_reduce(void *ctx, struct ggml_tensor *const *tensors, size_t n)
{
    struct graph *gr = ctx;
    uint64_t bytes = ggml_nbytes(tensors[0]);
    add_reduction(gr, bytes, n);
    for (uint8_t i = 0; i < gr->host; i++) /* the backend's own kernel sends the half of f32, which lies in the pool */
        if (vr_vgpu_used(i).reduce_bytes && bytes / 2 > gr->out->pool_bytes[i]) gr->out->pool_bytes[i] = bytes / 2;
    gr->stage++;
    gr->stage_began = gr->station;
}

static bool count_spread(struct graph *gr, int begin, int end, struct vr_err *err)
{
    gr->stage_began = gr->station;
    for (size_t i = 0; i < VR_MAX_VGPUS; i++) gr->whole[i] = gr->g->nodes + begin;
    vr_vgpu_watch(&(struct vr_vgpu_watch){ .ctx = gr, .compute = on_compute, .reduce = on_reduce });
    bool ok = vr_slices_compute(gr->slices, gr->g, begin, end, err);
    vr_vgpu_watch(NULL);
    gr->stage++; /* what comes next waits for all */
    return ok;
}

/* --- the whole --- */

static size_t power_of_two(size_t n)
{
    size_t p = 64;
    while (p < n) p *= 2;
    return p;
}

static bool count_part(struct graph *gr, int begin, int end, uint8_t device, struct vr_err *err)
{
    if (begin == end) return true;
    gr->out->n_splits[gr->phase]++;
    if (device == SPREAD) return count_spread(gr, begin, end, err);
    struct ggml_cgraph part = *gr->g;
    part.nodes += begin;
    part.n_nodes = end - begin;
    int cc = device < gr->host ? vr_vgpu_cc(device) : gr->host ? vr_vgpu_cc(0) : 0;
    return count_stretch(gr, &part, NULL, device, cc), true;
}

static void name_part(struct graph *gr, int begin, int end, uint8_t device, bool *spread)
{
    for (int i = begin; i < end; i++) {
        put_name(gr, gr->g->nodes[i]->name, device == SPREAD ? gr->first : device, false);
        spread[i] = device == SPREAD;
    }
}

/* The devices' stretches in order, and the host's between them: their names first, into `spread` as well; then, without
 * that, their work. */
static bool walk(struct graph *gr, bool *spread, struct vr_err *err)
{
    int at = 0;
    for (size_t i = 0; i <= seen.n; i++) {
        bool last = i == seen.n;
        int begin = last ? gr->g->n_nodes : (int)(seen.list[i].nodes - gr->g->nodes);
        int end = last ? begin : begin + seen.list[i].n;
        uint8_t device = last ? gr->host : seen.list[i].device;
        if (spread) {
            name_part(gr, at, begin, gr->host, spread);
            name_part(gr, begin, end, device, spread);
        } else if (!count_part(gr, at, begin, gr->host, err) || !count_part(gr, begin, end, device, err)) {
            return false;
        }
        at = end;
    }
    return true;
}

/* Forgets the splits of graphs that were made on the way: all that are not in this graph's array, and all before the
 * last time that the array began anew. */
static void keep_last(const struct ggml_cgraph *g)
{
    size_t begin = 0, n = 0;
    for (size_t i = 0; i < seen.n; i++) {
        bool inside = seen.list[i].nodes >= g->nodes && seen.list[i].nodes + seen.list[i].n <= g->nodes + g->n_nodes;
        if (!inside)
            begin = i + 1;
        else if (i > begin && seen.list[i].nodes <= seen.list[i - 1].nodes)
            begin = i;
    }
    for (size_t i = begin; i < seen.n; i++) seen.list[n++] = seen.list[i];
    seen.n = n;
}

static bool count_all(struct graph *gr, bool *spread, struct vr_err *err)
{
    if (!walk(gr, spread, err)) return false;
    if (!gr->slices->meta) return walk(gr, NULL, err);
    ggml_backend_buffer_t memory = vr_slices_place(gr->slices, gr->g, spread, err);
    bool ok = memory && walk(gr, NULL, err);
    if (memory) ggml_backend_buffer_free(memory);
    return ok;
}

bool vr_work_end(struct ggml_cgraph *g, const struct vr_slices *slices, enum vr_phase phase, size_t n_devices,
                 struct vr_works *out, struct vr_err *err)
{
    vr_vgpu_watch(NULL);
    keep_last(g);
    struct graph gr = { .g = g,
                        .slices = slices,
                        .phase = phase,
                        .host = (uint8_t)n_devices,
                        .first = (uint8_t)slices->device,
                        .out = out,
                        .station = VR_STATION_INPUT,
                        .failed = seen.failed };
    gr.n_names = power_of_two(2 * (size_t)(g->n_nodes + g->n_leafs));
    gr.n_copies = power_of_two(4 * (size_t)g->n_nodes * (slices->meta ? n_devices : 1));
    VR_AUTO_FREE struct named *names = gr.names = calloc(gr.n_names, sizeof *gr.names);
    VR_AUTO_FREE const struct ggml_tensor **copies = gr.copies = calloc(gr.n_copies, sizeof *gr.copies);
    VR_AUTO_FREE bool *spread = calloc((size_t)g->n_nodes + 1, sizeof *spread);
    if (!names || !copies || !spread) return vr_fail_nomem(err, "reading the graph");
    for (int i = 0; i < g->n_leafs; i++)
        put_name(&gr, g->leafs[i]->name, device_of_buffer(&gr, g->leafs[i]), is_weight(g->leafs[i]));
    out->n_nodes[phase] = (uint32_t)g->n_nodes;
    if (!count_all(&gr, spread, err)) return false;
    return gr.failed ? vr_fail_nomem(err, "reading the graph") : true;
}
