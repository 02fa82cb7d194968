/* Times from the facts of a machine. The host is a place like any other: its "kernels" are the operations that its
 * threads synchronise after. */
#include "plan/speed.h"

#include <math.h>
#include <string.h>

#include "base/rank.h"
#include "gguf/type.h"
#include "hw/gpus.h"

enum rate { FP16, INT8 };

/* The table of speeds.def, a kind of row at a time. */
#define KERNELS(name, backend, cc, share, gbs, rate, matrix, us, tile)
#define REDUCE(way, ms, legs, share)
#define CAP(cc, type, gbs)
#define PROMPT(cc, tflops)

#undef KERNELS
#define KERNELS(name, backend, cc, share, gbs, rate, matrix, us, tile)                                                 \
    { name, backend, cc, share, gbs, rate, matrix, us / 1e3, tile },
static const struct kernels {
    const char *name, *backend;
    unsigned cc;
    double share, gbs;
    enum rate rate;
    double matrix, launch_ms, tile;
} kernels[] = {
#include "plan/speeds.def"
};
#undef KERNELS
#define KERNELS(name, backend, cc, share, gbs, rate, matrix, us, tile)

#undef CAP
#define CAP(cc, type, gbs) { cc, type, gbs },
static const struct {
    unsigned cc_major;
    const char *type;
    double gbs;
} caps[] = {
#include "plan/speeds.def"
};
#undef CAP
#define CAP(cc, type, gbs)

#undef PROMPT
#define PROMPT(cc, tflops) { cc, tflops },
static const struct {
    unsigned cc_major;
    double tflops;
} prompts[] = {
#include "plan/speeds.def"
};
#undef PROMPT
#define PROMPT(cc, tflops)

/* One step in which devices add up what they have. */
#undef REDUCE
#define REDUCE(way, ms, legs, share) [VR_REDUCE_##way] = { ms, legs, share },
static const struct {
    double ms, legs, share;
} reduce_steps[VR_N_REDUCE_WAYS] = {
#include "plan/speeds.def"
};
#undef KERNELS
#undef REDUCE
#undef CAP
#undef PROMPT

#define FLOAT_EXPERTS    0.1   /* of what plain products reach, with weights that are not quantized */
#define SCATTERED_GBS    1150  /* of rows that experts take and write, at most: 1,040 to 1,360 on an H200 */
#define ATTENTION_SHARE  0.60  /* of the bandwidth: 0.42 on an H200, more where there is less of it */
#define ATTENTION_MATRIX 0.35  /* of the TFLOPS on the data sheet */
#define PROMPT_SUBMIT_MS 0.006 /* per kernel of a batch, whose graph is made anew: 3.2 to 11 us on hosts of an H200 */
#define STEP_MS          0.050
#define PAIR_MS          2.2e-6 /* the attention mask of a batch, by one core: 2.2 ns on one, 7 on a slow host of an H200 */
#define PROMPT_STEP_MS   0.5
#define HOST_SHARE       0.62   /* of the host's bandwidth: threads wait for each other; fitted as speeds.def is */
#define ALONE_SHARE      0.80   /* where no device is in use: weights are repacked for its instructions */
#define PRODUCT_MS       0.0016 /* a product with weights under CUDA, beside a kernel of speeds.def; fitted as that is */
#define READING_SHARE    0.85   /* of what modules promise, by a loop that only reads (STREAM's 0.8 to 0.9) */
#define HOST_LAUNCH_MS   0.005
#define COPY_MS          0.010 /* host to device or back */
#define PEER_COPY_MS     0.010 /* device to device, when the driver allows direct access */
#define PEER_WAIT_MS     1.5   /* more, where one device waits for the other through the host: all but CUDA; fitted */
#define COPY_SHARE       0.85  /* of a PCIe link, packets' overhead off */
#define MATRIX_SHARE     0.50  /* of the fp16 TFLOPS on the data sheet, weights not quantized: cuBLAS and its like */
#define HOST_CORE_TFLOPS 0.05
#define UNKNOWN_GBS      300.0 /* a card that is in no table */
#define TFLOP_BYTES      12.0  /* of such a card: bytes read per 1,000 operations of its fp16 units */
#define CORE_GBS         6.0   /* a host of which nobody knows its memory: that many cores want that much, and get */
#define LEAST_HOST_GBS   25.0  /* one channel of DDR4 */
#define MOST_HOST_GBS    116.0 /* six of DDR4; what the H200's host seems to have */
#define UNKNOWN_LINK_GBS 7.9   /* PCIe 4 with four lanes */
#define MAPPED_GBS       12.0 /* one core copies to pinned memory: 15 on rows' desktops, 9.6 in imp 1409, 7 for an H200 */
#define SWITCH_MS        0.050  /* threads wake up, devices wait */
#define PROMPT_SWITCH_MS 0.150  /* the same between the parts of a batch */
#define SUBMIT_MS        0.004  /* 4 to 5.6 us, one kernel after the other; from compute capability 7 on */
#define RECORDED_MS      0.0005 /* they are recorded, and started with one call for hundreds */
#define NO_LIMIT         1e15

static const struct {
    const char *name;
    bool typed;
} kinds[VR_N_OPS] = {
#define OP(kind, name, typed) [VR_OP_##kind] = { name, typed },
#include "plan/ops.def"
#undef OP
};

const char *vr_op_name(enum vr_op_kind kind) { return kinds[kind].name; }
bool vr_op_typed(enum vr_op_kind kind) { return kinds[kind].typed; }

static double or_else(double value, double fallback) { return value > 0 ? value : fallback; }

/* The table's last row fits all. */
static const struct kernels *kernels_of(const struct vr_device *d)
{
    const struct kernels *k = kernels;
    unsigned cc = d->cc_major * 10u + d->cc_minor;
    while (strncmp(d->name, k->name, strlen(k->name)) != 0 || (k->backend[0] && strcmp(d->backend, k->backend) != 0) ||
           cc < k->cc)
        k++;
    return k;
}

static void guess_shares(const struct vr_device *d, const struct kernels *k, struct vr_speed *s)
{
    double share = k->gbs > 0 ? fmin(k->share, k->gbs / s->gbs) : k->share;
    for (size_t i = 0; i < VR_SPEED_TYPES; i++) s->share[i] = (float)share;
    for (size_t i = 0; i < VR_COUNT(caps); i++) {
        uint32_t type = vr_type_by_name(caps[i].type);
        if (caps[i].cc_major != d->cc_major || type >= VR_SPEED_TYPES) continue;
        if (caps[i].gbs < s->gbs * s->share[type]) s->share[type] = (float)(caps[i].gbs / s->gbs);
    }
}

/* What follows from the figures of a place that are known by now. */
static void guess_rest(struct vr_speed *s)
{
    for (size_t i = 0; i < VR_SPEED_TYPES; i++) {
        s->matrix[i] = (float)s->tflops;
        s->expert_share[i] = s->share[i];
        s->expert_matrix[i] = (float)s->tflops;
    }
    s->attention_gbs = s->gbs * (double)s->share[VR_TYPE_F16];
    s->attention_tflops = s->tflops;
}

/* Devices with one address are one card, shown several times. */
static void find_cards(const struct vr_machine *m, struct vr_speeds *out)
{
    for (size_t i = 0; i < m->n_devices; i++) {
        const struct vr_device *d = &m->devices[i];
        out->card[i] = (uint8_t)i;
        for (size_t k = 0; k < i && out->card[i] == i; k++)
            if (vr_device_same_card(&m->devices[k], d)) out->card[i] = (uint8_t)k;
    }
}

static double bytes_each(const struct vr_type *t) { return (double)t->bytes / t->block; } /* of a weight */

/* What a batch's products reach: those with quantized weights by the engine's own kernels, others by the vendor's. */
static void guess_matrix(const struct vr_device *d, const struct kernels *k, const struct vr_rates *rates,
                         struct vr_speed *s)
{
    bool cuda = strcmp(d->backend, "CUDA") == 0;
    double quantized = (k->rate == INT8 ? rates->int8_tops : rates->fp16_tflops) * k->matrix;
    for (size_t i = 0; i < VR_COUNT(prompts); i++)
        if (prompts[i].cc_major == d->cc_major) quantized = fmin(quantized, prompts[i].tflops);
    for (size_t i = 0; i < VR_SPEED_TYPES; i++) {
        bool is_quantized = vr_type_is_quantized((uint32_t)i);
        if (is_quantized) s->matrix[i] = (float)quantized;
        s->expert_matrix[i] = s->matrix[i] * (float)(is_quantized ? 2 : FLOAT_EXPERTS);
        const struct vr_type *t = vr_type((uint32_t)i);
        double weights = (double)s->matrix[i] * 1e12 / (2 * k->tile); /* that are gone through in a second */
        if (t) s->expert_read[i] = (float)(weights * bytes_each(t) / 1e9);
        if (!is_quantized || !cuda) continue;
        s->expert_again[i] = s->expert_read[i]; /* 1.0 to 1.1 of it on an H200, of four types */
        s->expert_act[i] = (float)fmin(s->gbs * (double)s->share[VR_TYPE_F32], SCATTERED_GBS);
    }
}

static void guess_processor(double bandwidth_gbs, double cores, struct vr_speed *s)
{
    s->gbs = or_else(bandwidth_gbs, fmin(fmax(cores * CORE_GBS, LEAST_HOST_GBS), MOST_HOST_GBS));
    s->tflops = cores * HOST_CORE_TFLOPS;
    s->launch_ms = HOST_LAUNCH_MS;
    for (size_t i = 0; i < VR_SPEED_TYPES; i++) s->share[i] = (float)HOST_SHARE;
    guess_rest(s);
}

/* The processor of a node: a device like any, but for how fast it is. */
static void guess_lent_processor(const struct vr_device *d, struct vr_speed *s)
{
    guess_processor(d->bandwidth_gbs, or_else(d->fp16_tflops / HOST_CORE_TFLOPS, 4), s);
    s->link_gbs = s->mapped_gbs = s->mapped_expert_gbs = UNKNOWN_LINK_GBS;
    s->link_ms = COPY_MS;
    s->switch_ms = SWITCH_MS;
    s->prompt_switch_ms = PROMPT_SWITCH_MS;
}

static void guess_device(const struct vr_device *d, struct vr_speed *s)
{
    if (strcmp(d->backend, "CPU") == 0) return guess_lent_processor(d, s);
    const struct kernels *k = kernels_of(d);
    bool cuda = strcmp(d->backend, "CUDA") == 0, records = cuda && (d->cc_major >= 7 || d->cc_major == 0); /* unknown */
    s->gbs = or_else(d->bandwidth_gbs, UNKNOWN_GBS);
    struct vr_rates rates = vr_device_rates(d, s->gbs / TFLOP_BYTES);
    s->tflops = rates.fp16_tflops * MATRIX_SHARE;
    s->launch_ms = k->launch_ms;
    s->tile = k->tile;
    s->product_ms = s->prompt_product_ms = cuda ? PRODUCT_MS : 0;
    s->link_gbs = or_else(vr_device_link_gbs(d) * COPY_SHARE, UNKNOWN_LINK_GBS);
    s->link_ms = COPY_MS;
    s->peer_ms = cuda ? 0 : PEER_WAIT_MS;
    s->overlaps = s->whole_tiles = cuda;
    s->mapped_gbs = fmin(s->link_gbs, MAPPED_GBS);
    s->mapped_expert_gbs = s->mapped_gbs;
    s->switch_ms = SWITCH_MS;
    s->prompt_switch_ms = PROMPT_SWITCH_MS;
    s->submit_ms = records ? RECORDED_MS : SUBMIT_MS;
    guess_shares(d, k, s);
    guess_rest(s);
    guess_matrix(d, k, &rates, s);
    s->act_gbs = s->gbs * (double)s->share[VR_TYPE_F32];
    s->attention_gbs = s->gbs * ATTENTION_SHARE;
    s->attention_tflops = rates.listed_tflops * ATTENTION_MATRIX;
    s->prompt_submit_ms = PROMPT_SUBMIT_MS;
    s->pair_ms = PAIR_MS;
    s->step_ms = STEP_MS;
    s->prompt_step_ms = PROMPT_STEP_MS;
}

static void guess_links(const struct vr_machine *m, struct vr_speeds *out)
{
    for (size_t i = 0; i < m->n_links; i++) {
        const struct vr_link *l = &m->links[i];
        if (!l->p2p || l->gbs <= 0 || l->a >= m->n_devices || l->b >= m->n_devices) continue;
        out->direct[l->a][l->b].gbs = out->direct[l->b][l->a].gbs = l->gbs * COPY_SHARE;
        out->direct[l->a][l->b].ms = out->direct[l->b][l->a].ms = PEER_COPY_MS;
    }
}

/* NCCL wants every device to be a card of its own, and is off when one is shown twice. */
static void guess_reductions(const struct vr_machine *m, struct vr_speeds *out)
{
    out->reduce_way = m->reduce_way;
    for (size_t i = 0; i < m->n_devices; i++) {
        const struct vr_device *d = &m->devices[i];
        if (out->card[i] != i && out->reduce_way == VR_REDUCE_NCCL) out->reduce_way = VR_REDUCE_PAIR;
        if (strcmp(d->backend, "CUDA") != 0) continue;
        out->cuda |= UINT64_C(1) << i;
        if (d->cc_major == 0 || d->cc_major >= 7) out->pair_kernel |= UINT64_C(1) << i;
    }
}

void vr_speeds_guess(const struct vr_machine *m, struct vr_speeds *out)
{
    memset(out, 0, sizeof *out);
    out->n_devices = m->n_devices;
    for (size_t i = 0; i < m->n_devices; i++) guess_device(&m->devices[i], &out->places[i]);
    struct vr_speed *host = &out->places[VR_SPEED_HOST];
    bool read = m->host.bandwidth_from == VR_FROM_READING; /* shares are of what modules promise */
    guess_processor(m->host.bandwidth_gbs / (read ? READING_SHARE : 1), or_else(m->host.cores, 4), host);
    out->alone = *host;
    for (size_t i = 0; i < VR_SPEED_TYPES; i++) out->alone.share[i] = (float)ALONE_SHARE;
    guess_rest(&out->alone);
    guess_links(m, out);
    find_cards(m, out);
    guess_reductions(m, out);
}

/* Types that were not measured are taken for the middle of those that were. */
static void take_types(const struct vr_measured *m, struct vr_speed *s)
{
    double best = 0, share = 0, tflops = 0, expert = 0, expert_tflops = 0, n = 0, n_tflops = 0, n_expert = 0, reads = 0,
           n_reads = 0, again = 0, n_again = 0;
    for (size_t i = 0; i < m->n_types; i++) best = fmax(best, m->types[i].gbs);
    if (!(best > 0)) return;
    s->gbs = best;
    for (size_t i = 0; i < m->n_types; i++) {
        const struct vr_measured_type *t = &m->types[i];
        if (t->gbs > 0) share += t->gbs / best, n++;
        if (t->tflops > 0) tflops += t->tflops, n_tflops++;
        if (t->expert_gbs > 0) expert += t->expert_gbs / best, expert_tflops += t->expert_tflops, n_expert++;
        uint32_t id = vr_type_by_name(t->name);
        if (vr_type_is_quantized(id) && t->expert_prompt_gbs > 0)
            reads += t->expert_prompt_gbs / bytes_each(vr_type(id)), n_reads++;
        if (vr_type_is_quantized(id) && t->expert_again_gbs > 0)
            again += t->expert_again_gbs / bytes_each(vr_type(id)), n_again++;
    }
    if (n_tflops > 0) s->tflops = tflops / n_tflops;
    for (size_t i = 0; i < VR_SPEED_TYPES; i++) s->share[i] = (float)(share / n);
    guess_rest(s);
    for (size_t i = 0; i < VR_SPEED_TYPES && n_expert > 0; i++) {
        s->expert_share[i] = (float)(expert / n_expert);
        s->expert_matrix[i] = (float)(expert_tflops / n_expert);
        const struct vr_type *t = vr_type((uint32_t)i);
        s->expert_read[i] = t && n_reads > 0 ? (float)(reads / n_reads * bytes_each(t)) : 0;
        s->expert_again[i] = t && n_again > 0 ? (float)(again / n_again * bytes_each(t)) : 0;
    }
    for (size_t i = 0; i < m->n_types; i++) {
        const struct vr_measured_type *t = &m->types[i];
        uint32_t id = vr_type_by_name(t->name);
        if (id >= VR_SPEED_TYPES) continue;
        if (t->gbs > 0) s->share[id] = (float)(t->gbs / best);
        if (t->tflops > 0) s->matrix[id] = (float)t->tflops;
        if (t->expert_gbs > 0) s->expert_share[id] = (float)(t->expert_gbs / best);
        if (t->expert_tflops > 0) s->expert_matrix[id] = (float)t->expert_tflops;
        if (t->cached_gbs > 0) s->cached_share[id] = (float)(t->cached_gbs / best);
        if (t->wide_gbs > 0) s->wide_share[id] = (float)(t->wide_gbs / best);
        s->row_ns[id] = (float)t->row_ns;
        s->expert_row_ns[id] = (float)t->expert_row_ns;
        s->type_ms[id] = (float)(t->us / 1e3);
        s->prompt_type_ms[id] = (float)(t->prompt_us / 1e3);
        s->least_ms[id] = (float)(t->least_us / 1e3);
        s->expert_read[id] = (float)t->expert_prompt_gbs;
        s->expert_again[id] = (float)t->expert_again_gbs;
        s->expert_act[id] = (float)t->expert_act_gbs;
    }
}

double vr_op_middle_us(const struct vr_measured *m)
{
    double us[VR_MAX_MEASURED_OPS];
    size_t n = 0;
    for (size_t i = 0; i < m->n_ops; i++)
        if (!m->ops[i].type[0] && m->ops[i].us > 0) us[n++] = m->ops[i].us;
    return vr_rank(us, n, 0.5);
}

/* Operations that were not measured are taken for the middle of those that were, but for those over a cache. */
static void take_ops(const struct vr_measured *m, struct vr_speed *s)
{
    for (size_t i = 0; i < m->n_ops; i++) {
        const struct vr_measured_op *o = &m->ops[i];
        size_t kind = 0;
        while (kind < VR_N_OPS && strcmp(kinds[kind].name, o->name) != 0) kind++;
        uint32_t type = o->type[0] ? vr_type_by_name(o->type) : VR_TYPE_NONE;
        if (kind == VR_N_OPS || (type == VR_TYPE_NONE) == kinds[kind].typed) continue; /* of another version */
        s->ops[s->n_ops++] = (struct vr_speed_op){ .kind = (uint8_t)kind,
                                                   .type = type,
                                                   .ms = o->us / 1e3,
                                                   .long_ms = o->long_us / 1e3,
                                                   .long_cells = o->long_cells,
                                                   .gbs = o->gbs,
                                                   .tflops = o->tflops,
                                                   .prompt_gbs = o->prompt_gbs,
                                                   .prompt_tflops = o->prompt_tflops,
                                                   .cached_tflops = o->cached_tflops,
                                                   .long_tflops = o->long_tflops,
                                                   .long_prompt_tflops = o->long_prompt_tflops };
    }
    s->other_ms = vr_op_middle_us(m) / 1e3;
}

const struct vr_speed_op *vr_speed_find(const struct vr_speed *s, enum vr_op_kind kind, uint32_t type)
{
    for (size_t i = 0; i < s->n_ops; i++)
        if (s->ops[i].kind == kind && (!kinds[kind].typed || s->ops[i].type == type)) return &s->ops[i];
    return NULL;
}

/* How much comes from memory. Half the cache: all stays in it. Twice the cache: what comes back has been pushed out by
 * what came between. */
static double from_memory(const struct vr_speed *s, double all_bytes)
{
    if (!(s->cache_bytes > 0) || !(all_bytes > 0)) return 1;
    return fmin(fmax((log2(all_bytes / s->cache_bytes) + 1) / 2, 0), 1);
}

/* A rate that is one up to here and another from there on: in between the time for each changes evenly. */
static double between(double one, double other, double at, double here, double there)
{
    double part = fmin(fmax((at - here) / (there - here), 0), 1);
    return 1 / ((1 - part) / one + part / other);
}

double vr_speed_read_ms(const struct vr_speed *s, uint32_t type, bool experts, double bytes, uint32_t columns,
                        double all_bytes)
{
    double share = (double)(experts ? s->expert_share : s->share)[type], cached = (double)s->cached_share[type];
    double row_ns = (double)(experts ? s->expert_row_ns : s->row_ns)[type], wide = (double)s->wide_share[type];
    double row_bytes = (double)vr_type_row_bytes(type, columns), rows = row_bytes > 0 ? bytes / row_bytes : 0;
    if (!experts && wide > 0) /* the longer the vector, the less of it stays at hand */
        share = between(share, wide, columns, VR_LONG_COLUMNS, VR_WIDE_COLUMNS);
    double memory = bytes / (s->gbs * share * 1e6) + rows * row_ns / 1e6;
    if (!(cached > 0)) return memory;
    double cache = bytes / (s->gbs * cached * 1e6), part = from_memory(s, all_bytes);
    return part * memory + (1 - part) * fmin(cache, memory);
}

double vr_speed_tflops(const struct vr_speed *s, const struct vr_speed_op *op, double cells, double all_bytes)
{
    double part = from_memory(s, all_bytes), tflops = op->tflops;
    if (op->long_tflops > 0) tflops = between(tflops, op->long_tflops, cells, VR_SHORT_CELLS, VR_LONG_CELLS);
    return op->cached_tflops > tflops ? 1 / (part / tflops + (1 - part) / op->cached_tflops) : tflops;
}

double vr_speed_prompt_tflops(const struct vr_speed_op *op, double cells)
{
    if (!(op->long_prompt_tflops > 0)) return op->prompt_tflops;
    return between(op->prompt_tflops, op->long_prompt_tflops, cells, VR_SHORT_CELLS, VR_LONG_CELLS);
}

static void take(double measured, double scale, double *out)
{
    if (measured > 0) *out = measured * scale;
}

static void take_measured(const struct vr_measured *m, struct vr_speed *s)
{
    take_types(m, s);
    take_ops(m, s);
    s->tile = VR_EXPERT_TILE;
    s->cache_bytes = m->cache_mib * (double)(1 << 20);
    take(m->attention_gbs, 1, &s->attention_gbs);
    take(m->attention_tflops, 1, &s->attention_tflops);
    take(m->launch_us, 1e-3, &s->launch_ms);
    take(m->submit_us, 1e-3, &s->submit_ms);
    take(m->prompt_submit_us, 1e-3, &s->prompt_submit_ms);
    take(m->prompt_pair_ns, 1e-6, &s->pair_ms);
    s->product_ms = m->product_us / 1e3; /* these and the step's may well be nothing */
    s->prompt_product_ms = m->prompt_product_us / 1e3;
    s->overlaps = true; /* not measured, and never doubted there */
    s->peer_ms = s->act_gbs = 0;
    s->step_ms = m->step_us / 1e3;
    s->prompt_step_ms = 0;
    take(m->up_gbs, 1, &s->link_gbs);
    take(m->mapped_gbs, 1, &s->mapped_gbs);
    take(m->mapped_expert_gbs, 1, &s->mapped_expert_gbs);
    take(m->switch_us, 1e-3, &s->switch_ms);
    take(m->prompt_switch_us, 1e-3, &s->prompt_switch_ms);
    take((m->up_us + m->down_us) / 2, 1e-3, &s->link_ms);
}

/* A device that a node lends: everything goes over the network. What is sent there is not waited for; what is fetched
 * takes a round trip, in which all that was sent before arrives, too. Between two of one node the node itself copies,
 * when it is told to. */
static void add_network(const struct vr_machine *m, struct vr_speeds *out)
{
    for (size_t i = 0; i < m->n_devices; i++) {
        const struct vr_device *d = &m->devices[i];
        struct vr_speed *s = &out->places[i];
        if (!d->node[0]) continue;
        if (d->net_gbs > 0) s->link_gbs = fmin(s->link_gbs, d->net_gbs);
        s->mapped_gbs = fmin(s->mapped_gbs, s->link_gbs);
        s->mapped_expert_gbs = fmin(s->mapped_expert_gbs, s->link_gbs);
        s->net_ms = d->net_us / 1e3;
        s->overlaps = false;
        for (size_t k = 0; k < i; k++) {
            if (strcmp(m->devices[k].node, d->node) != 0) continue;
            double gbs = or_else(fmin(vr_device_link_gbs(d), vr_device_link_gbs(&m->devices[k])), UNKNOWN_LINK_GBS);
            out->direct[i][k].gbs = out->direct[k][i].gbs = gbs * COPY_SHARE;
            out->direct[i][k].ms = out->direct[k][i].ms = COPY_MS + d->net_us / 1e3;
        }
    }
}

void vr_speeds_of(const struct vr_machine *m, struct vr_speeds *out)
{
    vr_speeds_guess(m, out);
    out->measured = m->host.measured.when[0] != '\0';
    if (out->measured) take_measured(&m->host.measured, &out->places[VR_SPEED_HOST]);
    if (m->host.alone.when[0])
        take_measured(&m->host.alone, &out->alone);
    else if (out->measured)
        out->alone = out->places[VR_SPEED_HOST];
    for (size_t i = 0; i < m->n_devices; i++) {
        if (m->devices[i].measured.when[0])
            take_measured(&m->devices[i].measured, &out->places[i]);
        else
            out->measured = false;
    }
    for (size_t i = 0; i < m->n_links; i++) {
        const struct vr_link *l = &m->links[i];
        if (!(l->measured_gbs > 0) || l->a >= m->n_devices || l->b >= m->n_devices) continue;
        out->direct[l->a][l->b].gbs = out->direct[l->b][l->a].gbs = l->measured_gbs;
        out->direct[l->a][l->b].ms = out->direct[l->b][l->a].ms = l->measured_us / 1e3;
    }
    add_network(m, out);
    for (size_t i = 0; i < m->n_reductions; i++)
        if (m->reductions[i].way == m->reduce_way) out->reductions[out->n_reductions++] = m->reductions[i];
}

void vr_speeds_pin(struct vr_speeds *s)
{
    s->pinned = true;
    for (size_t i = 0; i < s->n_devices; i++)
        s->places[i].mapped_gbs = s->places[i].mapped_expert_gbs = s->places[i].link_gbs;
}

void vr_speeds_bandwidth(const struct vr_machine *m, struct vr_speeds *out)
{
    vr_speeds_guess(m, out);
    for (size_t i = 0; i <= VR_SPEED_HOST; i++) { /* nothing was measured: there are no ops and no cache */
        struct vr_speed *s = &out->places[i];
        for (size_t t = 0; t < VR_SPEED_TYPES; t++) {
            s->share[t] = s->expert_share[t] = 1;
            s->matrix[t] = s->expert_matrix[t] = (float)NO_LIMIT;
            s->expert_read[t] = s->expert_again[t] = s->expert_act[t] = 0;
        }
        s->act_gbs = 0;
        s->tflops = s->link_gbs = s->mapped_gbs = s->mapped_expert_gbs = s->attention_tflops = NO_LIMIT;
        s->attention_gbs = s->gbs;
        s->launch_ms = s->product_ms = s->prompt_product_ms = s->link_ms = s->peer_ms = 0;
        s->overlaps = true;
        s->submit_ms = s->prompt_submit_ms = s->pair_ms = s->switch_ms = s->prompt_switch_ms = 0;
        s->step_ms = s->prompt_step_ms = 0;
    }
    out->alone = out->places[VR_SPEED_HOST];
    memset(out->direct, 0, sizeof out->direct);
}

double vr_speed_node_ms(const struct vr_speed *s, uint32_t type, double bytes, double operations, double launches)
{
    uint32_t t = type < VR_SPEED_TYPES ? type : VR_TYPE_F32;
    double reading = bytes / (s->gbs * (double)s->share[t] * 1e6),
           computing = operations / ((double)s->matrix[t] * 1e9);
    return fmax(reading, computing) + launches * s->launch_ms;
}

double vr_speed_send_ms(const struct vr_speeds *s, size_t to, bool experts, double bytes)
{
    if (to >= VR_MAX_DEVICES) return 0;
    const struct vr_speed *p = &s->places[to];
    return p->link_ms + bytes / ((experts ? p->mapped_expert_gbs : p->mapped_gbs) * 1e6);
}

double vr_speed_hop_ms(const struct vr_speeds *s, size_t from, size_t to, double bytes)
{
    if (from == to) return 0;
    if (from < VR_MAX_DEVICES && to < VR_MAX_DEVICES && s->direct[from][to].gbs > 0)
        return s->direct[from][to].ms + bytes / (s->direct[from][to].gbs * 1e6);
    double ms = from < VR_MAX_DEVICES ? s->places[from].net_ms : 0;
    if (from < VR_MAX_DEVICES && to < VR_MAX_DEVICES) ms += fmax(s->places[from].peer_ms, s->places[to].peer_ms);
    size_t ends[] = { from, to };
    for (size_t i = 0; i < 2; i++)
        if (ends[i] < VR_MAX_DEVICES) ms += s->places[ends[i]].link_ms + bytes / (s->places[ends[i]].link_gbs * 1e6);
    return ms;
}

/* --- adding up over devices --- */

/* Bytes from which on NCCL's sums go as bf16: over two devices, three, and more. */
#define NCCL_SMALL_PAIR  (32768 * 4)
#define NCCL_SMALL_THREE (131072 * 4)
#define NCCL_SMALL_MANY  (262144 * 4)

/* What is sent of a tensor of floats. */
static double sent_bytes(enum vr_reduce_way way, int n, double bytes)
{
    double small = n == 2 ? NCCL_SMALL_PAIR : n == 3 ? NCCL_SMALL_THREE : NCCL_SMALL_MANY;
    bool halved = way == VR_REDUCE_PAIR || (way == VR_REDUCE_NCCL && bytes >= small);
    double times = way == VR_REDUCE_NCCL ? 2.0 * (n - 1) / n : 1; /* around a ring, in n pieces */
    return (halved ? bytes / 2 : bytes) * times;
}

enum vr_reduce_way vr_speed_reduce_way(const struct vr_speeds *s, uint64_t devices)
{
    bool two = __builtin_popcountll(devices) == 2;
    if (s->reduce_way == VR_REDUCE_NCCL && !(devices & ~s->cuda)) return VR_REDUCE_NCCL;
    bool pair = two && s->reduce_way != VR_REDUCE_BUTTERFLY && !(devices & ~s->pair_kernel);
    return pair ? VR_REDUCE_PAIR : VR_REDUCE_BUTTERFLY;
}

/* By the table: as long as the slowest link takes. */
static double guess_reduce_ms(const struct vr_speeds *s, uint64_t devices, double bytes)
{
    int n = __builtin_popcountll(devices);
    enum vr_reduce_way way = vr_speed_reduce_way(s, devices);
    /* NCCL sends pieces to all at once: four wait no longer than two (the rows of 4x and 2x RTX 4090) */
    double gbs = 0, steps = way == VR_REDUCE_NCCL ? 1 : ceil(log2(n));
    for (size_t i = 0; i < s->n_devices; i++)
        if (devices >> i & 1 && (gbs == 0 || s->places[i].link_gbs < gbs)) gbs = s->places[i].link_gbs;
    double sent = sent_bytes(way, n, bytes) * reduce_steps[way].legs * steps;
    return steps * reduce_steps[way].ms + (gbs > 0 ? sent / (gbs * reduce_steps[way].share * 1e6) : 0);
}

double vr_speed_reduce_ms(const struct vr_speeds *s, uint64_t devices, double bytes)
{
    int n = __builtin_popcountll(devices);
    double as_many = 0, pairs = 0;
    if (n < 2) return 0;
    for (size_t i = 0; i < s->n_reductions; i++) {
        const struct vr_measured_reduction *r = &s->reductions[i];
        double ms = vr_reduction_us(r, bytes) / 1e3;
        if (r->devices == devices) return ms;
        int of = __builtin_popcountll(r->devices);
        if (of == n) as_many = fmax(as_many, ms);
        if (of == 2 && !(r->devices & ~devices)) pairs = fmax(pairs, ms);
    }
    return as_many > 0 ? as_many : pairs > 0 ? pairs * ceil(log2(n)) : guess_reduce_ms(s, devices, bytes);
}
