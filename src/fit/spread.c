/* Split mode tensor as the planner's choice.
 *
 * What the layers' dry run showed of the model says what a split costs at least; where that is no less than the plan by
 * layers, nothing more is asked. Otherwise devices and shares are chosen (plan/tensor.h), a dry run tells what the
 * engine makes of them, in bytes and in time, and with its stages they are chosen again, as planned.c does. The engine
 * may refuse a model in this mode, or die of it: then the plan by layers stays.
 *
 * What exceeds all devices by a little can be split as well, if it has experts: those of the last layers stay on the
 * host, as few as there is no room for. */
#include <math.h>
#include <regex.h>
#include <string.h>

#include "base/text.h"
#include "fit/planner.h"
#include "plan/layer_pattern.h"
#include "plan/tensor.h"

#define WORTH_A_SPLIT 0.09 /* of the cost: 1.1 times as fast */
#define MAX_DRY_RUNS  4
#define SAME          1e-6
#define WORTH         2e-3          /* after the second dry run, less than this is not worth another one */
#define SCRATCH       (16 * VR_MIB) /* beside the compute buffer at least, until a dry run tells */

struct spreading {
    struct vr_planner *s;
    struct vr_stages stages;
    struct vr_spread_ask ask;
    uint32_t tokens[VR_N_PHASES];        /* of a step, of a micro-batch */
    uint64_t whole_bytes;                /* weights and caches, as they are on one device, without … */
    uint32_t n_hosted;                   /* … the experts of so many layers, the last ones, which stay on the host */
    uint64_t hosted_bytes;               /* of these */
    double more;                         /* what its plan costs beside what its stages do */
    uint64_t least_bytes[VR_MAX_PLACED]; /* beside slices: what a split failed for stays the least */
};

/* The user's overrides that this mode can carry out: to the host. */
static bool fixes_device(const struct vr_fixed *f)
{
    for (size_t i = 0; i < f->n_overrides; i++)
        if (f->overrides[i].device >= 0) return true;
    return false;
}

/* Whether a split is to be thought of: two CUDA devices at least, each a card of its own in
 * this machine, and all layers on them. */
static bool may_spread(const struct vr_planner *s)
{
    const struct vr_budgets *b = s->a.budgets;
    const struct vr_fixed *f = &s->ask.fixed;
    if (b->n < 2 || fixes_device(f)) return false;
    if (s->splits == VR_SPLITS_TENSOR) return true;
    if (!s->observed.rows) return false; /* all is fastest on the host */
    if (f->has_gpu_layers && f->n_gpu_layers <= s->footprint.n_layers) return false;
    for (size_t i = 0; i < b->n; i++) {
        uint16_t d = b->items[i].device;
        const struct vr_device *at = &s->a.machine->devices[d];
        if (strcmp(at->backend, "CUDA") != 0 || at->node[0] || s->a.speeds->card[d] != d) return false;
    }
    return true;
}

static uint64_t less(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

/* What the user's overrides keep on the host. */
static uint64_t overridden_bytes(const struct vr_model *m, const struct vr_fixed *f)
{
    uint64_t bytes = 0;
    regex_t *re = calloc(f->n_overrides + 1, sizeof *re); /* no memory: none is found, and the dry run tells */
    size_t n = 0;
    while (re && n < f->n_overrides && regcomp(&re[n], f->overrides[n].pattern, REG_EXTENDED | REG_NOSUB) == 0) n++;
    for (uint32_t i = 0; i < m->n_tensors && n; i++) {
        size_t k = 0;
        while (k < n && regexec(&re[k], m->tensors[i].name, 0, NULL, 0) != 0) k++;
        if (k < n && m->tensors[i].layer >= 0) bytes += vr_weight_gpu_bytes(&m->tensors[i]);
    }
    while (n) regfree(&re[--n]);
    free(re);
    return bytes;
}

static uint64_t whole_bytes(const struct vr_planner *s)
{
    const struct vr_footprint *f = &s->footprint;
    uint64_t bytes = f->output_gpu_bytes + f->kv_gpu_bytes + f->state_gpu_bytes;
    for (uint32_t i = 0; i < f->n_layers; i++) bytes += f->layers[i].weights_gpu_bytes;
    return less(bytes, overridden_bytes(s->a.model, &s->ask.fixed));
}

/* --- experts on the host --- */

static uint64_t all_room(const struct spreading *p)
{
    uint64_t room = 0;
    for (size_t i = 0; i < p->ask.n; i++) room += p->ask.devices[i].room_bytes;
    return room;
}

/* Those of one more layer: of the last ones first, of which a prompt uses fewer. Returns their bytes; 0: there are no
 * more, or it is not for us to choose. */
static uint64_t host_layer(struct spreading *p)
{
    const struct vr_footprint *f = &p->s->footprint;
    const struct vr_fixed *fixed = &p->s->ask.fixed;
    if (fixed->n_overrides || fixed->has_gpu_layers) return 0;
    for (uint32_t n = p->n_hosted + 1; n <= f->n_layers; n++) {
        uint64_t bytes = f->layers[f->n_layers - n].experts_gpu_bytes;
        if (!bytes) continue;
        p->n_hosted = n;
        p->hosted_bytes += bytes;
        p->whole_bytes -= bytes;
        p->ask.slice_bytes = less(p->ask.slice_bytes, bytes);
        return bytes;
    }
    return 0;
}

/* One more than the stages know of. */
static bool host_one_more(struct spreading *p)
{
    uint64_t bytes = host_layer(p);
    p->more += (double)bytes * p->ask.host_cost;
    return bytes > 0;
}

/* What a byte of a layer's experts costs at least on the host more than on all devices at once: for token generation
 * alone, since a prompt's experts may be sent to a device. */
static double least_excess(const struct spreading *p)
{
    const struct vr_planner *s = p->s;
    const struct vr_speeds *speeds = s->a.speeds;
    double least = INFINITY;
    for (uint32_t i = 0; i < s->a.model->n_tensors; i++) {
        const struct vr_tensor *t = &s->a.model->tensors[i];
        double ms = 0, fastest = INFINITY;
        if (t->role != VR_ROLE_EXPERT) continue;
        for (uint32_t r = vr_observed_tensor(&s->observed, s->a.model, t); r != VR_NO_ROW; r = s->observed.next[r]) {
            const struct vr_work *w = &s->observed.rows[r];
            if (w->phase != VR_DECODE || !w->weight_bytes) continue;
            ms += vr_work_ms(w, &s->observed.fill, &speeds->places[VR_SPEED_HOST], false, 0);
            for (size_t d = 0; d < p->ask.n; d++)
                fastest =
                    fmin(fastest, vr_work_ms(w, &s->observed.fill, &speeds->places[p->ask.devices[d].device], true, 0));
        }
        if (ms > 0) least = fmin(least, fmax(ms - fastest, 0) / (double)vr_weight_gpu_bytes(t));
    }
    return least < INFINITY ? least * p->ask.weight[VR_DECODE] : 0;
}

/* What a layer costs at least whose experts are on the host, beside their work: to go there and to come back. */
static double least_detour(const struct spreading *p)
{
    const struct vr_speeds *speeds = p->s->a.speeds;
    double least = INFINITY, bytes = 4.0 * p->s->a.model->n_embd * p->tokens[VR_DECODE];
    for (size_t i = 0; i < p->ask.n; i++) {
        uint16_t d = p->ask.devices[i].device;
        double ms = vr_speed_hop_ms(speeds, d, VR_SPEED_HOST, bytes) + vr_speed_hop_ms(speeds, VR_SPEED_HOST, d, bytes);
        least = fmin(least, ms + 2 * speeds->places[d].switch_ms);
    }
    return least * p->ask.weight[VR_DECODE];
}

/* What a byte costs at least on the host: the detours of as few layers as possible are shared by their bytes. *first:
 * that the first detours are free of, since each place in use is begun anyway. */
static double host_cost(const struct spreading *p, double *first)
{
    const struct vr_footprint *f = &p->s->footprint;
    uint64_t most = 1;
    for (uint32_t i = 0; i < f->n_layers; i++)
        if (f->layers[i].experts_gpu_bytes > most) most = f->layers[i].experts_gpu_bytes;
    *first = 0;
    for (size_t i = 0; i < p->ask.n; i++)
        *first += p->s->a.speeds->places[p->ask.devices[i].device].switch_ms * p->ask.weight[VR_DECODE];
    return least_excess(p) + least_detour(p) / (double)most;
}

static double token_ms(const struct spreading *p, const struct vr_tensor *t)
{
    const struct vr_observed *o = &p->s->observed;
    double ms = 0;
    for (uint32_t r = vr_observed_tensor(o, p->s->a.model, t); r != VR_NO_ROW; r = o->next[r])
        if (o->rows[r].phase == VR_DECODE)
            ms += vr_work_ms(&o->rows[r], &o->fill, &p->s->a.speeds->places[VR_SPEED_HOST], false, 0);
    return ms;
}

static uint32_t hosted_from(const struct spreading *p) { return p->s->footprint.n_layers - p->n_hosted; }

/* What those on the host take there and in between, at least. */
static double hosted_cost(const struct spreading *p)
{
    const struct vr_planner *s = p->s;
    double ms = 0, detours = 0;
    for (uint32_t i = 0; i < s->a.model->n_tensors; i++) {
        const struct vr_tensor *t = &s->a.model->tensors[i];
        if (t->role == VR_ROLE_EXPERT && t->layer >= (int)hosted_from(p)) ms += token_ms(p, t);
    }
    for (uint32_t i = hosted_from(p); i < s->footprint.n_layers; i++)
        if (s->footprint.layers[i].experts_gpu_bytes) detours += least_detour(p);
    return ms * p->ask.weight[VR_DECODE] + detours;
}

/* The experts that stay on the host, as an override. */
static bool add_hosted(const struct spreading *p, struct vr_outcome *o, struct vr_override *to, struct vr_err *err)
{
    const struct vr_footprint *f = &p->s->footprint;
    VR_AUTO_BUF text = { 0 };
    bool *in = vr_arena_alloc(&o->arena, f->n_layers, sizeof *in);
    if (!in) return vr_fail_nomem(err, "writing down a plan");
    for (uint32_t i = hosted_from(p); i < f->n_layers; i++) in[i] = f->layers[i].experts_gpu_bytes > 0;
    vr_buf_adds(&text, "^blk\\.");
    vr_layer_pattern(&text, in, f->n_layers);
    vr_buf_adds(&text, "\\..*_(ch)?exps\\.");
    *to = (struct vr_override){ text.failed ? NULL : vr_arena_strdup(&o->arena, text.data), VR_ON_CPU };
    return to->pattern || vr_fail_nomem(err, "writing down a plan");
}

/* --- what is asked --- */

/* Biases that are added when the devices' parts have been. */
static bool is_added_last(const struct vr_tensor *t)
{
    size_t n = strlen(t->name), len = strlen(".bias");
    bool bias = n > len && strcmp(t->name + n - len, ".bias") == 0;
    return bias && (strstr(t->name, "_down") || strstr(t->name, "attn_output"));
}

/* What each device has whole: routers, norms, such biases, and token embeddings that are the output, too. */
static uint64_t mirrored_bytes(const struct vr_planner *s)
{
    uint64_t bytes = s->a.model->tied ? s->footprint.output_gpu_bytes : 0;
    for (uint32_t i = 0; i < s->a.model->n_tensors; i++) {
        const struct vr_tensor *t = &s->a.model->tensors[i];
        if (t->role == VR_ROLE_ROUTER || t->role == VR_ROLE_NORM || is_added_last(t)) bytes += vr_weight_gpu_bytes(t);
    }
    return bytes;
}

/* What is known before a dry run: as much scratch memory as the layers need. */
static void begin(struct spreading *p, struct vr_planner *s, const struct vr_verdict *layers)
{
    uint64_t compute = 0; /* the least: the first device's is larger while weights are on the host */
    for (size_t i = 0; i < layers->n_devices; i++) {
        uint64_t bytes = layers->devices[i].use.compute_bytes;
        if (bytes && (compute == 0 || bytes < compute)) compute = bytes;
    }
    uint64_t mirrored = mirrored_bytes(s);
    p->whole_bytes = whole_bytes(s);
    p->ask = (struct vr_spread_ask){
        .stages = &p->stages, .speeds = s->a.speeds, .n = s->a.budgets->n, .slice_bytes = p->whole_bytes - mirrored
    };
    for (size_t i = 0; i < p->ask.n; i++) {
        const struct vr_budget *b = &s->a.budgets->items[i];
        p->ask.devices[i].device = b->device;
        p->ask.devices[i].room_bytes = less(b->budget_bytes, mirrored + compute + SCRATCH);
    }
    const struct vr_context *c = &s->load.context;
    uint32_t n_ubatch = c->n_ubatch < c->n_batch ? c->n_ubatch : c->n_batch;
    p->tokens[VR_DECODE] = c->n_seq ? c->n_seq : 1;
    p->tokens[VR_PREFILL] = n_ubatch < c->n_ctx ? n_ubatch : c->n_ctx;
    vr_goal_weights(s->goal, p->tokens[VR_DECODE], p->ask.weight);
    p->ask.weight[VR_PREFILL] /= p->tokens[VR_PREFILL];
}

static bool guess_stages(struct spreading *p, bool least, struct vr_err *err)
{
    const struct vr_stages_guess g = { .model = p->s->a.model,
                                       .observed = &p->s->observed,
                                       .tokens = { p->tokens[VR_DECODE], p->tokens[VR_PREFILL] },
                                       .hosted_from = hosted_from(p),
                                       .least = least };
    return vr_stages_guess(&g, &p->stages, err);
}

/* Layers are hosted whole, and the last one may be more than there is no room for: what that is worth. */
static double spare_cost(const struct spreading *p)
{
    double spare = (double)less(all_room(p), p->ask.slice_bytes);
    return p->n_hosted ? fmin(spare, (double)p->hosted_bytes) / (double)p->hosted_bytes * p->more : 0;
}

/* No split costs less than this; infinite when none has room, not even with all experts on the host. */
static bool least_cost(struct spreading *p, double *cost, struct vr_err *err)
{
    double first = 0;
    *cost = INFINITY;
    if (p->ask.slice_bytes > all_room(p)) p->ask.host_cost = host_cost(p, &first);
    while (p->ask.slice_bytes > all_room(p))
        if (!host_layer(p)) return true;
    if (p->n_hosted) p->more = fmax(hosted_cost(p) - first, 0);
    bool ok = guess_stages(p, true, err) && vr_spread_bound(&p->ask, cost, err);
    *cost += p->more - spare_cost(p);
    vr_stages_done(&p->stages);
    return ok;
}

/* The split as a trial. */
static bool to_trial(const struct spreading *p, const struct vr_spread *x, struct vr_outcome *o, struct vr_err *err)
{
    struct vr_load_params *t = &o->trial;
    const struct vr_fixed *fixed = &p->s->ask.fixed;
    t->split_mode = VR_SPLIT_TENSOR;
    t->n_gpu_layers = fixed->has_gpu_layers ? (int)fixed->n_gpu_layers : -1;
    t->has_split = true;
    t->n_order = x->n;
    for (size_t i = 0; i < x->n; i++) {
        t->order[i] = x->who[i];
        t->split[i] = (float)x->share[i];
    }
    struct vr_override *all = vr_arena_alloc(&o->arena, fixed->n_overrides + 1, sizeof *all);
    if (!all) return vr_fail_nomem(err, "writing down a plan");
    for (size_t i = 0; i < fixed->n_overrides; i++) {
        all[i] = (struct vr_override){ vr_arena_strdup(&o->arena, fixed->overrides[i].pattern), VR_ON_CPU };
        if (!all[i].pattern) return vr_fail_nomem(err, "writing down a plan");
    }
    t->overrides = all;
    t->n_overrides = fixed->n_overrides;
    return !p->n_hosted || add_hosted(p, o, &all[t->n_overrides++], err);
}

/* What each device holds beside its share of all slices: what all have whole, buffers, scratch memory. For devices that
 * were not in it, the most of those that were. */
static void learn(struct spreading *p, const struct vr_spread *x, const struct vr_verdict *v)
{
    uint64_t sum = 0, most = 0, host = v->host.context_bytes, shares = 0, beside[VR_MAX_PLACED] = { 0 };
    for (size_t i = 0; i < x->n; i++) {
        sum += v->devices[i].use.model_bytes + v->devices[i].use.context_bytes;
        shares += x->share[i];
    }
    uint64_t all = host || v->host_layers ? sum : p->whole_bytes; /* a part may stay on the host */
    uint64_t mirrored = less(sum, all) / (x->n - 1);
    p->ask.slice_bytes = sum - mirrored * x->n;
    for (size_t i = 0; i < x->n; i++) {
        double slice = (double)x->share[i] / (double)shares * (double)p->ask.slice_bytes;
        uint64_t *mine = &beside[x->who[i]], *least = &p->least_bytes[x->who[i]];
        *mine = less(vr_judged_bytes(&v->devices[i]), (uint64_t)slice);
        if (!v->fits && *least < *mine) *least = *mine;
        if (*mine < *least) *mine = *least;
        if (*mine > most) most = *mine;
    }
    for (size_t i = 0; i < p->ask.n; i++)
        p->ask.devices[i].room_bytes = less(p->s->a.budgets->items[i].budget_bytes, beside[i] ? beside[i] : most);
}

static bool same_split(const struct vr_spread *a, const struct vr_spread *b)
{
    return a->n == b->n && memcmp(a->who, b->who, a->n * sizeof a->who[0]) == 0 &&
           memcmp(a->share, b->share, a->n * sizeof a->share[0]) == 0;
}

/* One dry run of a split, as `now`, and what it teaches. */
static bool confirm(struct spreading *p, struct vr_spread *x, struct vr_outcome *now, struct vr_err *err)
{
    if (!to_trial(p, x, now, err)) return false;
    struct vr_judge_setup setup = vr_outcome_setup(&p->s->a, &p->s->prober);
    setup.stages = &p->stages;
    if (!vr_judge(&setup, &now->trial, &now->verdict, err))
        return p->s->splits == VR_SPLITS_TENSOR ? vr_advise(&p->s->prober, &now->trial, err) : false;
    vr_outcome_explain_verdict(now);
    learn(p, x, &now->verdict);
    if (!vr_spread_price(&p->ask, x, err)) return false;
    p->more = now->verdict.cost[p->s->goal] - x->cost;
    return true;
}

/* On all devices. */
static struct vr_spread equal_parts(const struct spreading *p)
{
    struct vr_spread all = { .n = p->ask.n };
    for (size_t i = 0; i < all.n; i++) {
        all.who[i] = (uint8_t)i;
        all.share[i] = 1;
    }
    return all;
}

/* Splits with experts on the host are guessed 2 to 7 % too fast, and their dry runs take longest: none is made to see
 * that they are too slow. */
static bool is_guessed_low(const struct spreading *p) { return p->stages.n && p->n_hosted; }

enum found { FOUND, USELESS, FAILED };

/* Rounds of choice and proof, until nothing better is to be had: FOUND, or USELESS when no split can cost as little as
 * `wanted`: best->lower_bound says what it would at least. FAILED with VR_ENOFIT: there is no room; with VR_ESPLIT: the
 * engine cannot do it. */
static enum found iterate(struct spreading *p, double wanted, struct vr_outcome *best, struct vr_err *err)
{
    enum vr_optimize goal = p->s->goal;
    struct vr_spread x = { 0 }, taken = { 0 };
    bool found = false;
    for (uint32_t dry_runs = 0; dry_runs <= MAX_DRY_RUNS; best->dry_runs = ++dry_runs) {
        VR_AUTO_OUTCOME now = { 0 };
        struct vr_err none = { 0 };
        if (!p->stages.n) x = equal_parts(p); /* nothing is known of the model */
        while (p->stages.n && !vr_spread_solve(&p->ask, &x, &none)) {
            if (none.code == VR_ENOFIT && found) return FOUND;
            if (none.code != VR_ENOFIT || !host_one_more(p)) return *err = none, FAILED;
        }
        double cost = x.cost + p->more, bound = x.lower_bound + p->more - spare_cost(p);
        if (found) {
            double so_far = best->verdict.cost[goal];
            best->lower_bound = fmin(bound, so_far);
            best->fewer_bound = x.n == taken.n ? x.fewer_bound + p->more : 0;
            bool same = same_split(&x, &taken) || cost >= so_far * (1 - (dry_runs > 1 ? WORTH : SAME));
            if (same || cost >= wanted) return FOUND;
        } else if ((dry_runs || is_guessed_low(p)) && bound >= wanted) {
            return best->lower_bound = bound, USELESS;
        }
        if (dry_runs == MAX_DRY_RUNS) break;
        best->dry_runs = dry_runs + 1;
        if (!vr_outcome_start(&p->s->a, &now, err) || !confirm(p, &x, &now, err)) return FAILED;
        now.optimize = goal;
        if (!now.verdict.fits && p->n_hosted) (void)host_one_more(p); /* whole pieces go where there is no room */
        if (!now.verdict.fits || (found && now.verdict.cost[goal] >= best->verdict.cost[goal])) continue;
        vr_outcome_move(best, &now);
        taken = x;
        found = true;
    }
    if (found) return FOUND;
    return vr_fail(err, VR_ENOFIT, "no split was confirmed within %d dry runs", MAX_DRY_RUNS), FAILED;
}

/* --- which of the two --- */

static void tell_other(struct vr_outcome *o, enum vr_reason_kind kind, const struct vr_outcome *spread,
                       const struct vr_price *other)
{
    struct vr_reason r = { .kind = kind,
                           .figures = { [VR_FIGURE_TOK_S] = o->verdict.price.decode_tok_s,
                                        [VR_FIGURE_PROMPT_TOK_S] = round(o->verdict.price.prefill_tok_s),
                                        [VR_FIGURE_OTHER_TOK_S] = other->decode_tok_s,
                                        [VR_FIGURE_OTHER_PROMPT_TOK_S] = round(other->prefill_tok_s) } };
    for (size_t i = 0; i < spread->verdict.n_devices; i++)
        r.devices |= UINT64_C(1) << spread->verdict.devices[i].device;
    vr_outcome_reason(o, &r);
}

static void tell(struct vr_outcome *o, enum vr_reason_kind kind)
{
    vr_outcome_reason(o, &(struct vr_reason){ .kind = kind });
}

/* What is known to be the least of both modes. */
static void settle(struct vr_outcome *o, enum vr_optimize goal, double layers_bound, double spread_bound)
{
    double cost = o->verdict.cost[goal];
    o->lower_bound = fmin(fmin(layers_bound, spread_bound), cost);
    o->optimal = o->lower_bound >= cost * (1 - SAME);
}

/* The split where it must be one, or where it is faster by so much that this is no error of its price (it was 5 to 12 %
 * off on an H200), and worth what it takes: slower prompts, most of the time. */
static void choose(struct vr_planner *s, struct vr_outcome *layers, struct vr_outcome *spread)
{
    enum vr_optimize goal = s->goal;
    bool must = s->splits == VR_SPLITS_TENSOR;
    double layers_bound = must ? INFINITY : layers->lower_bound, spread_bound = spread->lower_bound;
    uint32_t dry_runs = layers->dry_runs + spread->dry_runs;
    double gain = 1 - spread->verdict.cost[goal] / layers->verdict.cost[goal];
    if (must || gain >= WORTH_A_SPLIT) {
        const struct vr_price other = layers->verdict.price;
        const struct vr_ways ways = layers->verdict.ways;
        vr_outcome_move(layers, spread);
        tell_other(layers, VR_REASON_SPLIT_TENSOR, layers, &other);
        layers->other_ways = ways;
    } else {
        layers->other_ways = spread->verdict.ways;
        tell_other(layers, gain > 0 ? VR_REASON_SPLIT_GAINS_LITTLE : VR_REASON_SPLIT_LAYER, spread,
                   &spread->verdict.price);
    }
    layers->optimize = goal;
    layers->dry_runs = dry_runs;
    layers->split_bound = spread_bound;
    settle(layers, goal, layers_bound, spread_bound);
}

/* No split has room. Where it must be one, the engine says first whether it would do it at all: equal parts, on all. */
static bool no_room(struct spreading *p, struct vr_outcome *layers, struct vr_err *err)
{
    struct vr_planner *s = p->s;
    if (s->splits != VR_SPLITS_TENSOR) return tell(layers, VR_REASON_TENSOR_NO_ROOM), true;
    VR_AUTO_OUTCOME now = { 0 };
    struct vr_spread all = equal_parts(p);
    if (!vr_outcome_start(&s->a, &now, err) || !confirm(p, &all, &now, err)) return false;
    return vr_fail(err, VR_ENOFIT,
                   "%s does not fit on the devices in split mode tensor: each needs a compute buffer for whole layers, "
                   "and only experts can stay on the host; try a smaller --n-ctx, --allow ctx,kv, or --split-mode auto",
                   s->a.model->name);
}

/* No split is as fast as it would have to be, and none costs less than `bound`. */
static bool useless(struct vr_planner *s, double bound, struct vr_outcome *layers)
{
    layers->split_bound = bound;
    tell(layers, bound < layers->verdict.cost[s->goal] ? VR_REASON_TENSOR_GAINS_LITTLE : VR_REASON_TENSOR_SLOWER);
    settle(layers, s->goal, layers->lower_bound, bound);
    return true;
}

static bool spread_it(struct spreading *p, struct vr_outcome *layers, struct vr_err *err)
{
    struct vr_planner *s = p->s;
    bool must = s->splits == VR_SPLITS_TENSOR;
    double least = 0, wanted = must ? INFINITY : layers->verdict.cost[s->goal] * (1 - WORTH_A_SPLIT);
    begin(p, s, &layers->verdict);
    if (s->observed.rows && !least_cost(p, &least, err)) return false;
    if (!(least < INFINITY)) return no_room(p, layers, err);
    if (!must && least >= layers->verdict.cost[s->goal]) return useless(s, least, layers);
    if (s->observed.rows && !guess_stages(p, false, err)) return false;
    VR_AUTO_OUTCOME spread = { 0 };
    struct vr_err why = { 0 };
    enum found found = iterate(p, wanted, &spread, &why);
    if (found != FAILED) spread.lower_bound = fmax(spread.lower_bound, least);
    if (found == FOUND) return choose(s, layers, &spread), true;
    layers->dry_runs += spread.dry_runs;
    if (found == USELESS) return useless(s, spread.lower_bound, layers);
    if (why.code == VR_ENOFIT) return no_room(p, layers, err);
    if (must || why.code != VR_ESPLIT) return *err = why, false;
    return tell(layers, VR_REASON_TENSOR_REFUSED), true;
}

/* --- what stays true of splits --- */

static bool is_compared(enum vr_reason_kind kind)
{
    return kind == VR_REASON_SPLIT_TENSOR || kind == VR_REASON_SPLIT_LAYER || kind == VR_REASON_SPLIT_GAINS_LITTLE;
}

static bool says_why_not(enum vr_reason_kind kind)
{
    return kind == VR_REASON_TENSOR_SLOWER || kind == VR_REASON_TENSOR_GAINS_LITTLE ||
           kind == VR_REASON_TENSOR_REFUSED || kind == VR_REASON_TENSOR_NO_ROOM;
}

size_t vr_outcome_split_reasons(const struct vr_outcome *o, const struct vr_price *now, struct vr_reason *out)
{
    size_t n = 0;
    for (size_t i = 0; i < o->n_reasons; i++) {
        enum vr_reason_kind kind = o->reasons[i].kind;
        if (!is_compared(kind) && !says_why_not(kind)) continue;
        out[n] = o->reasons[i];
        if (is_compared(kind)) out[n].figures[VR_FIGURE_TOK_S] = now->decode_tok_s;
        if (is_compared(kind)) out[n].figures[VR_FIGURE_PROMPT_TOK_S] = round(now->prefill_tok_s);
        n++;
    }
    return n;
}

void vr_outcome_other_prompts(struct vr_outcome *o, double tok_s)
{
    for (size_t i = 0; i < o->n_reasons; i++)
        if (is_compared(o->reasons[i].kind)) o->reasons[i].figures[VR_FIGURE_OTHER_PROMPT_TOK_S] = round(tok_s);
}

static void stay_unsplit(struct vr_planner *s, struct vr_outcome *out)
{
    struct vr_reason known[VR_MAX_REASONS];
    size_t n = vr_outcome_split_reasons(s->unsplit, &out->verdict.price, known);
    for (size_t i = 0; i < n; i++) vr_outcome_reason(out, &known[i]);
    out->split_bound = s->unsplit->split_bound;
    out->other_ways = s->unsplit->other_ways;
    settle(out, s->goal, out->lower_bound, out->split_bound);
}

bool vr_planner_spread(struct vr_planner *s, struct vr_outcome *out, struct vr_err *err)
{
    out->split_bound = INFINITY;
    if (s->splits == VR_SPLITS_LAYER) return true;
    if (s->unsplit) return stay_unsplit(s, out), true;
    if (!may_spread(s))
        return s->splits == VR_SPLITS_ALL ||
               vr_fail(err, VR_EUSAGE, "--split-mode tensor needs two GPUs, and no tensors placed on one of them");
    struct spreading p = { .s = s };
    bool ok = spread_it(&p, out, err);
    vr_stages_done(&p.stages);
    return ok;
}
