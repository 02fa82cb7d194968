/* Building the problem: every layer's tensors become a core and its units, priced for each kind of device.
 *
 * Units are the expert tensors of a layer, one per stem (weights, biases and scales of "ffn_up_exps" go together, since
 * the engine executes them together), in the order in which they are executed; they may go anywhere. The FFN
 * matrices of a dense layer are units that may only cross a border, or go anywhere once it is known what the best plan
 * with whole layers leaves on the host. All else is core. A layer with tensors that the GPU backend cannot take is all
 * core: how its parts would be split is the engine's business.
 *
 * What the user fixed narrows what stations and units may do (fixed.c). */
#include "plan/build.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/text.h"
#include "plan/fixed.h"

#define TENSOR_LAUNCHES 2  /* kernels per tensor: an 8B model of 9 tensors per layer needs 19 per layer */
#define OFFLOAD_BATCH   32 /* batches from this size on leave the host for the first device */
#define CACHE_SPLITS    3  /* parts of the graph around the cache of a layer on the host */

static const char *const dense_stems[] = { "ffn_gate", "ffn_up", "ffn_down" };

struct builder {
    const struct vr_ask *ask;
    struct vr_arena *arena;
    struct vr_built *out;
    const struct vr_speed *kinds[VR_MAX_PLACED]; /* of one device of each kind */
    size_t sample[VR_MAX_PLACED];                /* that device */
    double tokens[VR_N_PHASES];                  /* of a decoding step, of a micro-batch */
    double fill, expert_share;
    const struct vr_observed *observed; /* what pieces are priced by; NULL: the estimate */
    struct member *members;             /* all tensors, station by station */
    uint32_t *begin;                    /* n_stations + 1: where each station's begin */
    struct vr_targets targets;
};

/* A tensor and where the user wants it. */
struct member {
    const struct vr_tensor *tensor;
    int target;
};

/* --- devices --- */

static uint64_t less(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

static void describe_device(const struct builder *b, const struct vr_budget *item, struct vr_kind *out)
{
    const struct vr_overheads *o = b->ask->overheads;
    memset(out, 0, sizeof *out);
    out->n = 1;
    out->budget_bytes = less(item->budget_bytes, o->devices[item->device].overhead_bytes);
    for (unsigned s = 0; s < VR_N_SITUATIONS; s++) {
        uint64_t most = 0;
        for (unsigned part = 0; part <= s; part++)
            if ((part & s) == part && o->devices[item->device].compute_bytes[part] > most)
                most = o->devices[item->device].compute_bytes[part];
        out->compute_bytes[s] = most + b->ask->footprint->tables_gpu_bytes;
    }
}

/* What a phase is told per: a decoding step, a token of prompt. */
static double per(const struct builder *b, int phase) { return phase == VR_DECODE ? 1 : b->tokens[VR_PREFILL]; }

static double hop(const struct builder *b, int phase, size_t from, size_t to)
{
    double bytes = 4.0 * b->ask->model->n_embd * b->tokens[phase];
    return vr_speed_hop_ms(b->ask->speeds, from, to, bytes) / per(b, phase);
}

/* Whether two devices could be exchanged without anybody noticing. */
static bool alike(const struct builder *b, size_t i, size_t j)
{
    const struct vr_budgets *all = b->ask->budgets;
    size_t di = all->items[i].device, dj = all->items[j].device;
    struct vr_kind x, y;
    describe_device(b, &all->items[i], &x);
    describe_device(b, &all->items[j], &y);
    if (memcmp(&x, &y, sizeof x) != 0 || vr_fixed_apart(&b->ask->fixed, (int)di, (int)dj)) return false;
    if (memcmp(&b->ask->speeds->places[di], &b->ask->speeds->places[dj], sizeof(struct vr_speed)) != 0) return false;
    for (size_t k = 0; k < all->n; k++) {
        size_t dk = all->items[k].device;
        if (k == i || k == j) continue;
        for (int phase = 0; phase < VR_N_PHASES; phase++)
            if (hop(b, phase, di, dk) != hop(b, phase, dj, dk) || hop(b, phase, dk, di) != hop(b, phase, dk, dj))
                return false;
    }
    return true;
}

/* Faster ones first, so that the plan does not depend on how the machine lists its devices. */
static bool precedes(const struct builder *b, const struct vr_budget *x, const struct vr_budget *y)
{
    const struct vr_speed *a = &b->ask->speeds->places[x->device], *c = &b->ask->speeds->places[y->device];
    if (a->gbs != c->gbs) return a->gbs > c->gbs;
    if (a->link_gbs != c->link_gbs) return a->link_gbs > c->link_gbs;
    return x->budget_bytes > y->budget_bytes;
}

/* The budgets' indices in the order in which the problem has them; at most VR_MAX_PLACED. */
static size_t rank_devices(const struct builder *b, size_t rank[VR_MAX_DEVICES])
{
    const struct vr_budgets *all = b->ask->budgets;
    for (size_t i = 0; i < all->n; i++) {
        size_t j = i;
        for (; j && !vr_fixed_order(&b->ask->fixed) && precedes(b, &all->items[i], &all->items[rank[j - 1]]); j--)
            rank[j] = rank[j - 1];
        rank[j] = i;
    }
    return all->n < VR_MAX_PLACED ? all->n : VR_MAX_PLACED;
}

/* What a device must be told for each token: positions and, per kind of cache, the mask and where new keys and values
 * go; with recurrent states, which of them. One copy each. */
static double n_inputs(const struct vr_footprint *f)
{
    bool swa = false, full = false, recurrent = false;
    for (uint32_t i = 0; i < f->n_layers; i++) {
        const struct vr_layer_footprint *l = &f->layers[i];
        recurrent |= l->recurrent;
        swa |= l->cells && l->swa;
        full |= l->cells && !l->swa;
    }
    return (swa || full) + (f->mla ? 2 : 3) * (swa + full) + 3 * recurrent;
}

/* For telling a device where the token is: a copy for each input, and what they hold. */
static double open_ms(const struct builder *b, int phase, size_t device)
{
    const struct vr_speeds *s = b->ask->speeds;
    double start = vr_speed_hop_ms(s, VR_SPEED_HOST, device, 0);
    double bytes = b->ask->observed ? b->ask->observed->open_bytes[phase] : 0;
    double all = n_inputs(b->ask->footprint) * start + vr_speed_hop_ms(s, VR_SPEED_HOST, device, bytes) - start;
    return all / per(b, phase);
}

static void build_hops(struct builder *b)
{
    struct vr_problem *p = &b->out->problem;
    for (int phase = 0; phase < VR_N_PHASES; phase++) {
        for (uint32_t i = 0, di = 0; i < p->n_kinds; di += p->kinds[i++].n) {
            p->hop_ms[phase][i][VR_ON_HOST] = hop(b, phase, b->out->devices[di], VR_SPEED_HOST);
            p->hop_ms[phase][VR_ON_HOST][i] = hop(b, phase, VR_SPEED_HOST, b->out->devices[di]);
            p->open_ms[phase][i] = open_ms(b, phase, b->out->devices[di]);
            for (uint32_t j = 0, dj = 0; j < p->n_kinds; dj += p->kinds[j++].n)
                if (i != j || p->kinds[i].n > 1)
                    p->hop_ms[phase][i][j] = hop(b, phase, b->out->devices[di], b->out->devices[dj + (i == j)]);
        }
    }
    for (uint32_t i = 0; i < p->n_kinds; i++) /* of a batch it is next to nothing */
        p->switch_ms[VR_DECODE] = fmax(p->switch_ms[VR_DECODE], b->kinds[i]->switch_ms);
}

static void build_kinds(struct builder *b)
{
    struct vr_problem *p = &b->out->problem;
    const struct vr_budgets *all = b->ask->budgets;
    size_t rank[VR_MAX_DEVICES], n = rank_devices(b, rank);
    bool done[VR_MAX_DEVICES] = { false };
    p->ordered = vr_fixed_order(&b->ask->fixed);
    for (size_t i = 0; i < n; i++) {
        if (done[i]) continue;
        uint32_t k = p->n_kinds++;
        describe_device(b, &all->items[rank[i]], &p->kinds[k]);
        b->sample[k] = all->items[rank[i]].device;
        b->kinds[k] = &b->ask->speeds->places[b->sample[k]];
        p->kinds[k].n = 0;
        for (size_t j = i; j < n; j++) {
            bool single = vr_fixed_single(&b->ask->fixed);
            if (done[j] || (j != i && (single || !alike(b, rank[i], rank[j])))) {
                if (p->ordered) break; /* only neighbours are exchangeable */
                continue;
            }
            done[j] = true;
            p->kinds[k].n++;
            b->out->devices[p->n_devices++] = (uint8_t)all->items[rank[j]].device;
        }
    }
    build_hops(b);
}

/* --- pieces --- */

/* What a piece does, estimated before the engine has shown it. */
struct work {
    uint32_t type;
    double bytes[VR_N_PHASES], operations[VR_N_PHASES]; /* of a decoding step, of a micro-batch */
    double launches;
    bool cache; /* not a weight */
    bool experts;
};

/* Milliseconds of a piece in one phase: on each kind of device, there with the host starting it beside, on the host,
 * and on a host without devices. */
struct times {
    double device[VR_MAX_PLACED], piped[VR_MAX_PLACED];
    double host, alone;
    double sent_bytes;  /* weights that a batch brings to the first device */
    double cache_bytes; /* or the cache, where all else of a layer is computed there, too */
    bool experts;
};

/* A large batch is computed on the first device, whatever stays on the host: weights and caches are brought to it, each
 * by itself. New keys and values go back. */
static double bring_ms(const struct builder *b, const struct times *t, uint32_t k)
{
    const struct vr_speeds *s = b->ask->speeds;
    double wait = b->kinds[k]->prompt_switch_ms;
    if (t->sent_bytes > 0) return vr_speed_send_ms(s, b->sample[k], t->experts, t->sent_bytes) + wait;
    double back_bytes = 4.0 * b->ask->model->n_embd * b->tokens[VR_PREFILL];
    return 2 * vr_speed_hop_ms(s, VR_SPEED_HOST, b->sample[k], t->cache_bytes / 2) +
           vr_speed_hop_ms(s, b->sample[k], VR_SPEED_HOST, back_bytes) + CACHE_SPLITS * wait;
}

static void add_times(const struct builder *b, int phase, const struct times *t, struct vr_piece *x)
{
    const struct vr_problem *p = &b->out->problem;
    bool brought = phase == VR_PREFILL && b->tokens[VR_PREFILL] >= OFFLOAD_BATCH && t->sent_bytes + t->cache_bytes > 0;
    double unit = 1 / per(b, phase);
    for (uint32_t k = 0; k < p->n_kinds; k++) {
        x->ms[phase][k] += t->device[k] * unit;
        if (phase == VR_PREFILL) x->piped_ms[k] += t->piped[k] * unit;
        x->host_ms[phase][k] += (brought ? bring_ms(b, t, k) + t->device[k] : t->host) * unit;
    }
    for (uint32_t k = p->n_kinds; k < VR_MAX_PLACED; k++) x->host_ms[phase][k] += t->host * unit;
    x->host_ms[phase][VR_MAX_PLACED] += t->alone * unit;
}

static void add_work(const struct builder *b, const struct work *w, struct vr_piece *x)
{
    for (int phase = 0; phase < VR_N_PHASES; phase++) {
        struct times t = { .experts = w->experts };
        *(w->cache ? &t.cache_bytes : &t.sent_bytes) = w->bytes[phase];
        for (uint32_t k = 0; k < b->out->problem.n_kinds; k++)
            t.device[k] = t.piped[k] =
                vr_speed_node_ms(b->kinds[k], w->type, w->bytes[phase], w->operations[phase], w->launches);
        t.host = t.alone = vr_speed_node_ms(&b->ask->speeds->places[VR_SPEED_HOST], w->type, w->bytes[phase],
                                            w->operations[phase], w->launches);
        add_times(b, phase, &t, x);
    }
}

/* What the engine does for a piece, from the graph of a dry run: rows from `first` on, chained. A device waits for the
 * host where that starts kernels more slowly than they end, and for each of a batch's. */
static void add_rows(const struct builder *b, uint32_t first, struct vr_piece *x)
{
    const struct vr_observed *o = b->observed;
    const struct vr_speeds *speeds = b->ask->speeds;
    struct times all[VR_N_PHASES] = { 0 };
    double submit[VR_N_PHASES][VR_MAX_PLACED] = { 0 };
    for (uint32_t i = first; i != VR_NO_ROW; i = o->next[i]) {
        const struct vr_work *w = &o->rows[i];
        struct times *t = &all[w->phase];
        for (uint32_t k = 0; k < b->out->problem.n_kinds; k++) {
            const struct vr_speed *s = b->kinds[k];
            t->piped[k] += vr_work_ms(w, &o->fill, s, true, 0);
            submit[w->phase][k] += w->kernels * (w->phase == VR_DECODE ? s->submit_ms : s->prompt_submit_ms);
        }
        double read = o->host_bytes[w->phase];
        t->host += vr_work_ms(w, &o->fill, &speeds->places[VR_SPEED_HOST], false, read);
        t->alone += vr_work_ms(w, &o->fill, &speeds->alone, false, read);
        if (w->weight[0]) t->sent_bytes += (double)w->weight_bytes;
        if (!w->weight[0] && w->cells) t->cache_bytes += (double)w->cache_bytes;
        t->experts |= strcmp(w->name, "MUL_MAT_ID") == 0;
    }
    for (int phase = 0; phase < VR_N_PHASES; phase++) {
        struct times *t = &all[phase];
        for (uint32_t k = 0; k < b->out->problem.n_kinds; k++)
            t->device[k] = phase == VR_DECODE ? fmax(t->piped[k], submit[phase][k]) : t->piped[k] + submit[phase][k];
        add_times(b, phase, t, x);
    }
}

/* How often a tensor's weights count: experts by the share that is used. `logits`: only the last tokens of a prompt
 * need the result. */
static void add_tensor(const struct builder *b, const struct vr_tensor *t, bool logits, struct vr_piece *x)
{
    if (b->observed) {
        add_rows(b, vr_observed_tensor(b->observed, b->ask->model, t), x);
        return;
    }
    double n = (double)t->ne[0] * (double)t->ne[1] * (double)t->ne[2] * (double)t->ne[3], bytes = (double)t->bytes;
    double share = t->role == VR_ROLE_EXPERT ? b->expert_share : 1;
    struct work w = { .type = t->type, .launches = TENSOR_LAUNCHES, .experts = t->role == VR_ROLE_EXPERT };
    for (int phase = 0; phase < VR_N_PHASES; phase++) {
        double tokens = b->tokens[phase], touched = 1 - pow(1 - share, tokens); /* of all experts, by all tokens */
        w.bytes[phase] = bytes * touched;
        w.operations[phase] = 2 * n * share * (logits ? b->tokens[VR_DECODE] : tokens);
    }
    add_work(b, &w, x);
}

/* Logits go home, where the last hop counts activations. */
static void add_logits(const struct builder *b, struct vr_piece *x)
{
    double rows = b->tokens[VR_DECODE], bytes = 4.0 * rows * b->ask->model->n_vocab;
    for (int phase = 0; phase < VR_N_PHASES; phase++)
        for (uint32_t k = 0; k < b->out->problem.n_kinds; k++) {
            double ms = vr_speed_hop_ms(b->ask->speeds, b->sample[k], VR_SPEED_HOST, bytes) / per(b, phase);
            x->ms[phase][k] += fmax(ms - hop(b, phase, b->sample[k], VR_SPEED_HOST), 0);
        }
}

/* What a station does beside products with weights. */
static void add_rest(const struct builder *b, uint32_t s, const struct vr_layer_footprint *l,
                     const struct vr_layer *facts, struct vr_piece *x)
{
    if (b->observed) {
        add_rows(b, vr_observed_rest(b->observed, l ? s : VR_STATION_OUTPUT), x);
        return;
    }
    if (!l) return;
    double n_seq = b->tokens[VR_DECODE], cells = l->cells * b->fill, heads = facts ? facts->n_head : 0;
    double streams = b->ask->footprint->n_stream ? b->ask->footprint->n_stream : 1;
    double head = heads > 0 ? (double)b->ask->model->n_embd / heads : 0;
    struct work kv = { .type = b->ask->context->type_k, .launches = TENSOR_LAUNCHES, .cache = true };
    struct work state = { .type = VR_TYPE_F32, .launches = TENSOR_LAUNCHES, .cache = true };
    kv.bytes[VR_DECODE] = (double)l->kv_host_bytes * b->fill;
    kv.bytes[VR_PREFILL] = kv.bytes[VR_DECODE] / streams;
    state.bytes[VR_DECODE] = state.bytes[VR_PREFILL] = 2.0 * (double)l->state_host_bytes;
    for (int phase = 0; phase < VR_N_PHASES; phase++)
        kv.operations[phase] = 4 * cells * heads * head * (phase == VR_DECODE ? n_seq : b->tokens[VR_PREFILL]);
    if (l->kv_host_bytes) add_work(b, &kv, x);
    if (l->state_host_bytes) add_work(b, &state, x);
}

static void add_cache_bytes(const struct builder *b, const struct vr_layer_footprint *l, struct vr_piece *x)
{
    x->host_bytes += l->kv_host_bytes + l->state_host_bytes;
    if (b->ask->footprint->offload_kqv)
        x->gpu_bytes += l->kv_gpu_bytes + l->state_gpu_bytes;
    else
        x->left_bytes += l->kv_host_bytes + l->state_host_bytes;
}

/* --- stations --- */

/* The length of the stem behind "blk.N.": "ffn_up_exps" of "ffn_up_exps.weight", "ffn_up" of "ffn_up.7.weight". */
static const char *stem_of(const struct vr_tensor *t, size_t *n)
{
    const char *s = t->layer >= 0 ? strchr(t->name, '.') : NULL;
    s = s ? strchr(s + 1, '.') : NULL;
    s = s ? s + 1 : t->name;
    *n = strcspn(s, ".");
    return s;
}

static bool is_movable(const struct vr_tensor *t, enum vr_move *move)
{
    size_t n;
    const char *stem = stem_of(t, &n);
    *move = VR_MOVE_FREE;
    if (t->role == VR_ROLE_EXPERT) return true;
    *move = VR_MOVE_BORDER;
    for (size_t i = 0; t->role == VR_ROLE_FFN && i < VR_COUNT(dense_stems); i++)
        if (n == strlen(dense_stems[i]) && strncmp(stem, dense_stems[i], n) == 0) return true;
    return false;
}

/* The order of execution: what is taken out of a core, gate, up, down, all else. */
static int rank_of(const char *stem, size_t n)
{
    static const char *const order[] = { "gate", "up", "down" };
    for (int i = 0; stem && i < (int)VR_COUNT(order); i++)
        if (memmem(stem, n, order[i], strlen(order[i]))) return i + 1;
    return stem ? (int)VR_COUNT(order) + 1 : 0;
}

/* What makes tensors of a station one unit. */
struct group {
    const char *stem; /* NULL: core */
    size_t n_stem;
    int rank, target; /* VR_TARGET_FREE, or where the user wants it */
    enum vr_move move;
};

static bool same_group(const struct group *a, const struct group *b)
{
    return a->target == b->target && a->n_stem == b->n_stem && (a->stem != NULL) == (b->stem != NULL) &&
           (!a->stem || strncmp(a->stem, b->stem, a->n_stem) == 0);
}

static struct group group_of(const struct member *x, bool movable_layer)
{
    struct group g = { .target = x->target, .move = VR_MOVE_FREE };
    enum vr_move move;
    if (movable_layer && is_movable(x->tensor, &move)) {
        g.stem = stem_of(x->tensor, &g.n_stem);
        g.move = move;
    }
    if (g.target != VR_TARGET_FREE) g.move = VR_MOVE_FREE;
    g.rank = rank_of(g.stem, g.n_stem);
    return g;
}

static bool is_unit(const struct group *g) { return g->stem || g->target != VR_TARGET_FREE; }

/* Adds a group in the order of execution, unless it is there. False when there are too many. */
static bool add_group(struct group *groups, uint32_t *n, const struct group *g)
{
    uint32_t at = 0;
    for (; at < *n; at++)
        if (same_group(&groups[at], g)) return true;
    if (*n == VR_MAX_UNITS) return false;
    for (at = *n; at > 0 && groups[at - 1].rank > g->rank; at--) groups[at] = groups[at - 1];
    groups[at] = *g;
    (*n)++;
    return true;
}

static bool collect_groups(const struct builder *b, uint32_t s, bool movable, struct group *groups, uint32_t *n,
                           struct vr_err *err)
{
    for (uint32_t i = b->begin[s]; i < b->begin[s + 1]; i++) {
        struct group g = group_of(&b->members[i], movable);
        if (is_unit(&g) && !add_group(groups, n, &g))
            return vr_fail(err, VR_EUSAGE,
                           "layer %u would be split into more than %d units: use fewer --override-tensor patterns", s,
                           VR_MAX_UNITS);
    }
    return true;
}

static bool name_unit(struct builder *b, uint32_t s, const struct group *group, bool movable, struct vr_unit_name *name)
{
    name->first_tensor = b->out->n_tensors;
    name->stem = group->stem ? vr_arena_strndup(b->arena, group->stem, group->n_stem) : NULL;
    for (uint32_t i = b->begin[s]; i < b->begin[s + 1]; i++) {
        struct group g = group_of(&b->members[i], movable);
        if (is_unit(&g) && same_group(&g, group)) b->out->tensors[b->out->n_tensors++] = b->members[i].tensor;
    }
    name->n_tensors = b->out->n_tensors - name->first_tensor;
    return name->stem || !group->stem;
}

/* What crosses when a unit is away from its core. Experts need to know which of them are used. What follows a unit in
 * the graph up to the next weights is computed where it is: after the last one on another device, the experts' sum
 * (their weights must come along) and the residual, unless a shared expert comes first. The host does not take such
 * work: all used experts' results come back from it. */
static void count_copies(const struct builder *b, uint32_t s, bool expert, bool last, struct vr_unit *out)
{
    const struct vr_model *m = b->ask->model;
    const struct vr_problem *p = &b->out->problem;
    bool shared = s < m->n_layers && m->layers[s].role_bytes[VR_ROLE_SHARED_EXPERT] > 0;
    out->n_in = expert ? 2 : 1;
    if (last) out->n_along = (uint8_t)(expert + !shared);
    if (!last || !expert || m->n_expert_used < 2) return;
    double more = 4.0 * m->n_embd * (m->n_expert_used - 1) * b->tokens[VR_DECODE];
    for (uint32_t k = 0; k < p->n_kinds; k++) /* large batches are computed on the first device */
        out->back_ms[VR_DECODE][k] = more / (b->kinds[k]->link_gbs * 1e6);
}

static void fill_unit(const struct builder *b, const struct vr_unit_name *name, const struct group *g,
                      struct vr_unit *out)
{
    out->move = g->move;
    out->allow = vr_targets_mask(g->target);
    for (uint32_t i = 0; i < name->n_tensors; i++) {
        const struct vr_tensor *t = b->out->tensors[name->first_tensor + i];
        out->piece.gpu_bytes += vr_weight_gpu_bytes(t);
        out->piece.host_bytes += vr_weight_host_bytes(t);
    }
}

static const struct vr_layer_footprint *layer_at(const struct builder *b, uint32_t s) /* NULL: the output */
{
    return s < b->ask->footprint->n_layers ? &b->ask->footprint->layers[s] : NULL;
}

static bool is_loaded(const struct vr_layer_footprint *l) { return !l || l->weights_host_bytes > 0; }
static bool is_divisible(const struct vr_layer_footprint *l) { return l && is_loaded(l) && l->weights_left_bytes == 0; }

/* Fills the class of station s but for its times: core and units. */
static bool fill_station(struct builder *b, uint32_t s, struct vr_station_class *out, struct vr_err *err)
{
    const struct vr_model *m = b->ask->model;
    const struct vr_footprint *f = b->ask->footprint;
    const struct vr_layer_footprint *l = layer_at(b, s);
    const struct vr_layer *facts = l && s < m->n_layers ? &m->layers[s] : NULL;
    struct group groups[VR_MAX_UNITS];
    uint32_t n = 0;
    memset(out, 0, sizeof *out);
    out->cache = l ? VR_CACHE_SOME : VR_CACHE_NONE;
    /* without flash attention V is padded to the widest layer, and nothing is empty */
    if (facts && b->ask->context->flash_attn && !facts->n_head_kv && !facts->role_bytes[VR_ROLE_RECURRENT])
        out->cache = VR_CACHE_EMPTY;
    out->core.gpu_bytes = l ? l->weights_gpu_bytes : f->output_gpu_bytes;
    out->core.host_bytes = l ? l->weights_host_bytes : f->output_host_bytes;
    out->core.left_bytes = l ? l->weights_left_bytes : f->output_left_bytes;
    if (is_loaded(l) && !collect_groups(b, s, is_divisible(l), groups, &n, err)) return false;
    out->n_units = n;
    for (uint32_t u = 0; u < n; u++) {
        struct vr_unit_name *name = &b->out->units[s * VR_MAX_UNITS + u];
        if (!name_unit(b, s, &groups[u], is_divisible(l), name))
            return vr_fail_nomem(err, "building a placement problem");
        fill_unit(b, name, &groups[u], &out->units[u]);
        bool expert = b->out->tensors[name->first_tensor]->role == VR_ROLE_EXPERT;
        count_copies(b, s, expert, u + 1 == n, &out->units[u]);
        out->core.gpu_bytes = less(out->core.gpu_bytes, out->units[u].piece.gpu_bytes);
        out->core.host_bytes = less(out->core.host_bytes, out->units[u].piece.host_bytes);
    }
    if (l) add_cache_bytes(b, l, &out->core);
    return true;
}

static void forget_times(struct vr_piece *x)
{
    memset(x->ms, 0, sizeof x->ms);
    memset(x->piped_ms, 0, sizeof x->piped_ms);
    memset(x->host_ms, 0, sizeof x->host_ms);
}

/* Sets the times of a class by one of its stations. */
static void price_station(const struct builder *b, uint32_t s, struct vr_station_class *out)
{
    const struct vr_model *m = b->ask->model;
    const struct vr_layer_footprint *l = layer_at(b, s);
    const struct vr_layer *facts = l && s < m->n_layers ? &m->layers[s] : NULL;
    bool works = is_loaded(l) && !(l && l->mtp); /* layers for MTP are loaded perhaps, but not executed */
    forget_times(&out->core);
    for (uint32_t u = 0; u < out->n_units; u++) {
        const struct vr_unit_name *name = &b->out->units[s * VR_MAX_UNITS + u];
        forget_times(&out->units[u].piece);
        for (uint32_t i = 0; works && i < name->n_tensors; i++)
            add_tensor(b, b->out->tensors[name->first_tensor + i], !l, &out->units[u].piece);
    }
    for (uint32_t i = b->begin[s]; works && i < b->begin[s + 1]; i++) {
        struct group g = group_of(&b->members[i], is_divisible(l));
        if (!is_unit(&g)) add_tensor(b, b->members[i].tensor, !l, &out->core);
    }
    const struct vr_tensor *tied = !l && m->tied ? vr_model_tensor(m, "token_embd.weight") : NULL;
    if (tied) add_tensor(b, tied, true, &out->core);
    if (!l) add_logits(b, &out->core);
    add_rest(b, s, l, facts, &out->core);
}

/* The station in the middle of those of a class: the first and the last one of a device may be cut differently into
 * kernels than all the others. */
static uint32_t typical(const struct vr_problem *p, uint32_t q)
{
    uint32_t n = 0, s = 0;
    for (uint32_t i = 0; i < p->n_stations; i++) n += p->stations[i] == q;
    for (uint32_t seen = 0; s < p->n_stations; s++)
        if (p->stations[s] == q && seen++ == n / 2) break;
    return s;
}

/* The station that loads a tensor; n_stations: none. */
static uint32_t station_of(const struct builder *b, const struct vr_tensor *t)
{
    uint32_t n_stations = b->out->problem.n_stations;
    if (t->layer >= 0) return (uint32_t)t->layer + 1 < n_stations ? (uint32_t)t->layer : n_stations;
    return t->role == VR_ROLE_OUTPUT ? n_stations - 1 : n_stations;
}

/* Tensors station by station, each with the user's wish; in file order within a station. */
static bool sort_members(struct builder *b, struct vr_err *err)
{
    const struct vr_model *m = b->ask->model;
    uint32_t n_stations = b->out->problem.n_stations;
    b->begin = vr_arena_alloc(b->arena, n_stations + 2u, sizeof *b->begin);
    uint32_t *at = vr_arena_alloc(b->arena, n_stations + 2u, sizeof *at);
    b->members = vr_arena_alloc(b->arena, m->n_tensors + 1u, sizeof *b->members);
    if (!b->begin || !at || !b->members) return vr_fail_nomem(err, "building a placement problem");
    for (uint32_t i = 0; i < m->n_tensors; i++) b->begin[station_of(b, &m->tensors[i]) + 1]++;
    for (uint32_t s = 0; s <= n_stations; s++) at[s + 1] = b->begin[s + 1] += b->begin[s];
    for (uint32_t i = 0; i < m->n_tensors; i++) {
        const struct vr_tensor *t = &m->tensors[i];
        int target = vr_targets_find(&b->targets, t);
        b->members[at[station_of(b, t)]++] = (struct member){ t, target };
        if (t->role == VR_ROLE_INPUT && target >= 0)
            return vr_fail(err, VR_EUSAGE,
                           "--override-tensor moves '%s' to a device, but the engine keeps it in host memory", t->name);
    }
    return true;
}

static bool build_stations(struct builder *b, struct vr_err *err)
{
    struct vr_problem *p = &b->out->problem;
    const struct vr_model *m = b->ask->model;
    p->n_stations = b->ask->footprint->n_layers + 1;
    if (p->n_stations > VR_MAX_STATIONS)
        return vr_fail(err, VR_EFORMAT, "%s has %u layers; the planner supports at most %d", m->name, p->n_stations - 1,
                       VR_MAX_STATIONS - 1);
    p->stations = vr_arena_alloc(b->arena, p->n_stations, sizeof *p->stations);
    p->allow = vr_arena_alloc(b->arena, p->n_stations, sizeof *p->allow);
    b->out->units = vr_arena_alloc(b->arena, (size_t)p->n_stations * VR_MAX_UNITS, sizeof *b->out->units);
    b->out->tensors = vr_arena_alloc(b->arena, m->n_tensors + 1u, sizeof(void *));
    p->classes = vr_arena_alloc(b->arena, p->n_stations, sizeof *p->classes);
    if (!p->stations || !p->allow || !b->out->units || !b->out->tensors || !p->classes)
        return vr_fail_nomem(err, "building a placement problem");
    if (!sort_members(b, err)) return false;
    for (uint32_t s = 0; s < p->n_stations; s++) {
        struct vr_station_class *class = &p->classes[p->n_classes];
        if (!fill_station(b, s, class, err)) return false;
        price_station(b, s, class);
        uint32_t q = 0;
        while (memcmp(&p->classes[q], class, sizeof *class) != 0) q++;
        p->n_classes += q == p->n_classes;
        p->stations[s] = (uint16_t)q;
    }
    b->observed =
        b->ask->observed; /* stations are alike by the estimate, and cost what the graph shows of one of them */
    for (uint32_t q = 0; b->observed && q < p->n_classes; q++) price_station(b, typical(p, q), &p->classes[q]);
    return true;
}

void vr_goal_weights(enum vr_optimize goal, uint32_t n_seq, double weight[VR_N_PHASES])
{
    weight[VR_DECODE] = goal == VR_OPTIMIZE_PREFILL ? 0 : 1;
    weight[VR_PREFILL] = goal == VR_OPTIMIZE_DECODE ? 0 : goal == VR_OPTIMIZE_PREFILL ? 1 : VR_BALANCE_PROMPT * n_seq;
}

uint32_t vr_prompt_tokens(uint32_t n_prompt, uint32_t n_ubatch)
{
    uint32_t n = n_prompt ? n_prompt : VR_PROMPT_DEFAULT;
    return n_ubatch < n ? n : n_ubatch;
}

double vr_prompt_first(uint32_t n_prompt, uint32_t n_ubatch)
{
    return n_ubatch ? (double)n_ubatch / vr_prompt_tokens(n_prompt, n_ubatch) : 0;
}

bool vr_devices_overlap(const struct vr_speeds *s, const struct vr_budgets *b)
{
    for (size_t i = 0; i < b->n; i++)
        if (!s->places[b->items[i].device].overlaps) return false;
    return true;
}

static void set_goal(struct builder *b)
{
    struct vr_problem *p = &b->out->problem;
    vr_goal_weights(b->ask->optimize, (uint32_t)b->tokens[VR_DECODE], p->weight);
    p->first_share = vr_prompt_first(b->ask->n_prompt, (uint32_t)b->tokens[VR_PREFILL]);
    if (!vr_devices_overlap(b->ask->speeds, b->ask->budgets)) p->first_share = 1; /* each is like a first one */
    const struct vr_overheads *o = b->ask->overheads;
    p->host_budget_bytes = less(b->ask->machine->host.ram_free_bytes, o->host_reserve_bytes);
    p->host_fixed_bytes =
        b->ask->footprint->input_host_bytes + b->ask->footprint->tables_host_bytes + o->host_compute_bytes;
}

bool vr_build(const struct vr_ask *ask, struct vr_arena *arena, struct vr_built *out, struct vr_err *err)
{
    const struct vr_model *m = ask->model;
    memset(out, 0, sizeof *out);
    struct builder b = { .ask = ask,
                         .arena = arena,
                         .out = out,
                         .tokens = { [VR_DECODE] = ask->context->n_seq ? ask->context->n_seq : 1,
                                     [VR_PREFILL] = ask->footprint->n_ubatch ? ask->footprint->n_ubatch : 1 } };
    b.fill = ask->fill > 0 ? ask->fill : VR_FILL_DEFAULT;
    b.expert_share =
        m->n_expert && m->n_expert_used < m->n_expert && m->n_expert_used ? (double)m->n_expert_used / m->n_expert : 1;
    build_kinds(&b);
    if (!vr_targets_init(&b.targets, ask, out, arena, err)) return false;
    bool ok = build_stations(&b, err);
    vr_targets_done(&b.targets);
    if (!ok) return false;
    if (ask->known && !ask->fixed.has_gpu_layers) vr_problem_free_units(&out->problem);
    set_goal(&b);
    return vr_fixed_apply(ask, out, err) && vr_problem_check(&out->problem, err);
}

/* --- a first guess of the overheads --- */

#define GUESS_WIDTHS 12 /* activations that are alive at the same time, in widths of the model */

/* The two largest matrices of a layer: batches on host weights bring them to the first device. */
static uint64_t largest_pair(const struct vr_model *m)
{
    uint64_t most = 0;
    for (uint32_t il = 0; il < m->n_layers; il++) {
        uint64_t first = 0, second = 0;
        for (uint32_t i = 0; i < m->n_tensors; i++) {
            if (m->tensors[i].layer != (int32_t)il) continue;
            uint64_t n = vr_weight_gpu_bytes(&m->tensors[i]);
            if (n > first)
                second = first, first = n;
            else if (n > second)
                second = n;
        }
        if (first + second > most) most = first + second;
    }
    return most;
}

void vr_overheads_guess(const struct vr_model *m, const struct vr_context *c, uint32_t n_outputs,
                        const struct vr_footprint *f, const struct vr_machine *machine, struct vr_overheads *out)
{
    uint64_t batch = f->n_ubatch, n_ff = 0, pair = largest_pair(m);
    for (uint32_t i = 0; i < m->n_layers; i++)
        if (m->layers[i].n_ff > n_ff) n_ff = m->layers[i].n_ff;
    uint64_t used = m->n_expert_used ? m->n_expert_used : 1;
    uint64_t middle = batch * 4 *
                      (GUESS_WIDTHS * (uint64_t)m->n_embd +
                       3 * (n_ff < 4 * (uint64_t)m->n_embd ? n_ff : 4 * (uint64_t)m->n_embd) + used * m->n_embd);
    middle += batch * f->n_ctx_seq * 4; /* the attention mask */
    if (!c->flash_attn && m->n_layers) middle += batch * f->n_ctx_seq * 4 * m->layers[0].n_head;
    uint64_t output = (n_outputs < batch ? n_outputs : batch) * 4 * (uint64_t)m->n_vocab;
    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < machine->n_devices; i++) {
        for (unsigned s = 0; s < VR_N_SITUATIONS; s++) {
            uint64_t n = middle;
            if (s & VR_SIT_OUTPUT) n += output;
            if (s & VR_SIT_FIRST) n += pair;
            if (s & VR_SIT_PIPELINE) n += 3 * batch * 4 * (f->n_ctx_seq + 2 * (uint64_t)m->n_embd);
            out->devices[i].compute_bytes[s] = n;
        }
    }
    out->host_compute_bytes = middle + output;
}
