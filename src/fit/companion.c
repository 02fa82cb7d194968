/* Where a draft and an mmproj go.
 *
 * Each is all on one device, or on the host: the engine wants an mmproj so, and a draft that is spread would spend its
 * time on the way between devices. What one takes on a device, a dry run tells; the model is then planned into what is
 * left. A place is as good as all together is fast, by the goal that was asked for; for token generation, per step:
 *
 *     the model's step + guesses x a token of the draft + a picture / PICTURE_EVERY
 *
 * (how many drafted tokens are accepted does not depend on the place). The draft is placed first, because it runs in
 * every step. No place can make the model faster than it is alone, so places that are slower by themselves are not even
 * tried. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "engine/speculate/steer.h"
#include "fit/outcome.h"
#include "gguf/pair.h"

#define PICTURE_EVERY 512  /* tokens: how often somebody shows a picture */
#define SOUND_STEPS   1500 /* of 30 s, as Whisper has them */
#define HOST          (-1)
#define TWIN_BYTES    (UINT64_C(256) << 20)

struct placing {
    const struct vr_fit_ask *a;
    vr_find_fn *find;
    const void *ctx;
    bool twins;
    bool misplaced;    /* a plan was no use, because of where what the draft head shares is */
    double alone_ms;   /* the model's step without companions */
    double alone_cost; /* and what the goal counts of it */
    enum vr_optimize goal;
    uint32_t dry_runs;
    struct vr_companion tried[VR_MAX_VGPUS + 1]; /* of one kind, fastest first */
    size_t n_tried;
    struct vr_companion fastest[VR_N_COMPANIONS]; /* each by itself */
    /* what the model is planned with */
    struct vr_fit_ask left;
    struct vr_machine machine;
    struct vr_budgets budgets;
};

const char *vr_companion_name(enum vr_companion_kind kind) { return kind == VR_DRAFT ? "draft" : "mmproj"; }

bool vr_companions_any(const struct vr_fit_ask *a) { return a->companions[VR_DRAFT] || a->companions[VR_MMPROJ]; }

uint64_t vr_outcome_companion_bytes(const struct vr_outcome *o, int device)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < o->n_companions; i++)
        if (o->companions[i].device == device) bytes += vr_use_bytes(&o->companions[i].use);
    return bytes;
}

/* A draft head makes its model give out more, wherever it is. */
static const struct vr_model *head_of(const struct vr_fit_ask *a)
{
    return vr_spec_is_head_file(vr_fit_spec(a)) ? a->companions[VR_DRAFT] : NULL;
}

/* --- what one takes --- */

/* `one` holds the budget of the device, or none. */
static bool measure_draft(const struct vr_fit_ask *a, const struct vr_budgets *one, struct vr_companion *c,
                          struct vr_err *err)
{
    struct vr_fit_ask ask = { .model = c->model,
                              .machine = a->machine,
                              .budgets = one,
                              .speeds = a->speeds,
                              .context = vr_draft_context(&a->context, vr_fit_spec(a)),
                              .flash_auto = a->flash_auto,
                              .fill = a->fill,
                              .n_prompt = a->n_prompt };
    if (ask.context.n_ctx == 0) ask.context.n_ctx = a->model->n_ctx_train;
    if (vr_fit_spec(a) == VR_SPEC_DSPARK && a->context.n_seq > VR_STEER_STREAMS && !a->context.kv_unified)
        return vr_fail(err, VR_EUSAGE,
                       "%s is a DSpark head: these work with at most %d sequences (--n-seq), or with --kv-unified",
                       c->model->parts[0].path, VR_STEER_STREAMS);
    VR_AUTO_FOOTPRINT f = { 0 }; /* refuses what the engine would, in a sentence */
    if (!vr_footprint_compute(c->model, &ask.context, &f, err)) return false;
    struct vr_prober prober;
    struct vr_load_params model = vr_fit_params(a);
    if (!model.context.n_ctx) model.context.n_ctx = a->model->n_ctx_train;
    ask.n_draft = model.n_draft;
    if (!vr_prober_open_draft(c->model, a->model, &model.context, &prober, err)) return false;
    VR_AUTO_OUTCOME o = { 0 };
    struct vr_judge_setup setup = vr_outcome_setup(&ask, &prober);
    bool ok = vr_outcome_start(&ask, &o, err) && vr_outcome_judge(&setup, &o, err);
    vr_prober_close(&prober);
    if (!ok) return false;
    if (one->n) c->use = o.verdict.devices[0].use;
    c->host = o.verdict.host;
    c->ms = o.verdict.price.step_ms[VR_DECODE];
    c->prompt_ms = vr_spec_shares_cache(vr_fit_spec(a)) ? 0 : o.verdict.cost[VR_OPTIMIZE_PREFILL];
    return true;
}

/* Operations for one picture: every weight once per patch, and attention between all patches. Of sound: for 30 s. */
static double picture_ms(const struct vr_model *m, const struct vr_speed *speed)
{
    bool hears = !vr_model_meta(m, ".vision.block_count") && vr_model_meta(m, ".audio.block_count");
    double image = (double)vr_model_u64(m, ".vision.image_size", 0, 896),
           patch = (double)vr_model_u64(m, ".vision.patch_size", 0, 14);
    double side = patch > 0 ? floor(image / patch) : 64, patches = hears ? SOUND_STEPS : side * side;
    double width = (double)vr_model_u64(m, hears ? ".audio.embedding_length" : ".vision.embedding_length", 0, 0),
           layers = (double)vr_model_u64(m, hears ? ".audio.block_count" : ".vision.block_count", 0, 0);
    double operations = 2 * (double)m->params * patches + 4 * layers * width * patches * patches;
    return vr_speed_node_ms(speed, VR_TYPE_NONE, (double)m->tensor_bytes, operations, 0);
}

static bool measure_mmproj(const struct vr_fit_ask *a, const struct vr_budgets *one, struct vr_companion *c,
                           struct vr_err *err)
{
    struct vr_vgpu_spec spec;
    struct vr_trial trial = vr_trial_default();
    if (!vr_judge_devices(a->machine, one, &spec, err)) return false;
    trial.load.devices = &spec;
    trial.load.n_devices = one->n;
    trial.load.flash_auto = a->flash_auto;
    trial.load.context.flash_attn = a->context.flash_attn;
    struct vr_prober prober;
    struct vr_proof proof = { 0 };
    vr_prober_open_mmproj(c->model, &prober);
    bool ok = vr_probe(&prober, &trial, &proof, err) && vr_pair_width(a->model, c->model, proof.n_embd, err);
    c->use = proof.devices[0];
    c->host = proof.host;
    vr_proof_done(&proof);
    c->ms = picture_ms(c->model, &a->speeds->places[c->device == HOST ? VR_SPEED_HOST : c->device]);
    return ok;
}

/* What it adds to what the goal counts. A draft reads the prompt, too. */
static double cost_of(const struct placing *p, const struct vr_companion *c)
{
    double weight[VR_N_PHASES];
    vr_goal_weights(p->goal, p->a->context.n_seq ? p->a->context.n_seq : 1, weight);
    if (c->kind == VR_DRAFT)
        return weight[VR_DECODE] * vr_spec_passes(vr_fit_spec(p->a), vr_fit_guesses(p->a)) * c->ms +
               weight[VR_PREFILL] * c->prompt_ms;
    return (weight[VR_DECODE] + weight[VR_PREFILL]) * c->ms / PICTURE_EVERY;
}

static int faster(const void *x, const void *y)
{
    const struct vr_companion *a = x, *b = y;
    if (a->ms != b->ms) return a->ms < b->ms ? -1 : 1;
    return a->device - b->device; /* the order does not depend on the sort */
}

/* A card of the same name and nearly as much room was measured already. */
static bool has_twin(const struct placing *p, size_t item)
{
    const struct vr_budget *b = &p->a->budgets->items[item];
    for (size_t i = 0; p->twins && i < item; i++) {
        const struct vr_budget *o = &p->a->budgets->items[i];
        uint64_t more =
            o->budget_bytes > b->budget_bytes ? o->budget_bytes - b->budget_bytes : b->budget_bytes - o->budget_bytes;
        if (more < TWIN_BYTES &&
            strcmp(p->a->machine->devices[o->device].name, p->a->machine->devices[b->device].name) == 0)
            return true;
    }
    return false;
}

/* Every place of a companion, with what it takes there. */
static bool measure_all(struct placing *p, enum vr_companion_kind kind, struct vr_err *err)
{
    p->n_tried = 0;
    for (size_t i = 0; i <= p->a->budgets->n; i++) {
        bool host = i == p->a->budgets->n;
        struct vr_budgets one = { .n = host ? 0 : 1 };
        struct vr_companion *c = &p->tried[p->n_tried];
        if (!host && has_twin(p, i)) continue;
        if (!host) one.items[0] = p->a->budgets->items[i];
        *c = (struct vr_companion){ .kind = kind,
                                    .model = p->a->companions[kind],
                                    .device = host ? HOST : p->a->budgets->items[i].device };
        if (!host) c->device_id = p->a->machine->devices[c->device].id;
        if (!(kind == VR_DRAFT ? measure_draft : measure_mmproj)(p->a, &one, c, err)) return false;
        p->n_tried++;
        p->dry_runs++;
    }
    qsort(p->tried, p->n_tried, sizeof p->tried[0], faster);
    p->fastest[kind] = p->tried[0];
    return true;
}

/* --- trying --- */

/* Takes a companion out of what is left. False: there is not so much. */
static bool take(struct placing *p, const struct vr_companion *c)
{
    uint64_t host = vr_use_bytes(&c->host), need = vr_use_bytes(&c->use);
    if (host > p->machine.host.ram_free_bytes) return false;
    p->machine.host.ram_free_bytes -= host;
    if (c->device == HOST) return true;
    for (size_t i = 0; i < p->budgets.n; i++) {
        struct vr_budget *b = &p->budgets.items[i];
        if (b->device != c->device) continue;
        if (need > b->budget_bytes) return false;
        b->budget_bytes -= need;
        return true;
    }
    return false;
}

static int place_of(const struct vr_verdict *v, uint32_t layer, uint32_t n_layers)
{
    for (size_t i = 0; i < v->n_devices; i++) {
        const struct vr_judged *j = &v->devices[i];
        if (layer >= n_layers && j->output) return j->device;
        if (layer >= j->first_layer && layer - j->first_layer < j->n_layers) return j->device;
    }
    return HOST;
}

/* Whether what a draft head shares with the model is where the head is. */
static bool together(const struct vr_fit_ask *a, const struct vr_outcome *o)
{
    uint32_t layers[VR_MOST_ANCHORS];
    size_t n = a->head ? vr_head_anchors(a->model, a->head, layers) : 0;
    for (size_t i = 0; i < n; i++) {
        bool on_host = vr_head_shares_cache(a->head) && !a->context.offload_kqv;
        if ((on_host ? HOST : place_of(&o->verdict, layers[i], a->model->n_layers)) != a->head_device) return false;
    }
    return true;
}

/* The model beside the companions placed so far and this one. False with VR_OK: they alone are too much. */
static bool try_place(struct placing *p, const struct vr_outcome *so_far, const struct vr_companion *c,
                      struct vr_outcome *out, struct vr_err *err)
{
    *out = (struct vr_outcome){ 0 };
    p->machine = *p->a->machine;
    p->budgets = *p->a->budgets;
    p->left = *p->a;
    p->left.spec = vr_fit_spec(p->a);
    p->left.head = head_of(p->a);
    memset(p->left.companions, 0, sizeof p->left.companions);
    p->left.machine = &p->machine;
    p->left.budgets = &p->budgets;
    for (size_t i = 0; i <= so_far->n_companions; i++) {
        const struct vr_companion *one = i < so_far->n_companions ? &so_far->companions[i] : c;
        if (!take(p, one)) return false;
        if (one->kind == VR_DRAFT) p->left.head_placed = true, p->left.head_device = one->device;
    }
    bool ok = p->find(&p->left, p->ctx, out, err);
    p->dry_runs += out->dry_runs;
    memcpy(out->companions, so_far->companions, sizeof out->companions);
    out->n_companions = so_far->n_companions;
    out->companions[out->n_companions++] = *c;
    if (!ok || together(&p->left, out)) return ok;
    p->misplaced = true;
    return false;
}

/* Placements that do not fit are compared only with each other. */
static bool better(const struct vr_outcome *a, double a_cost, const struct vr_outcome *b, double b_cost)
{
    return a->verdict.fits != b->verdict.fits ? a->verdict.fits : a_cost < b_cost;
}

static bool fail_nowhere(const struct placing *p, enum vr_companion_kind kind, struct vr_err *err)
{
    const struct vr_companion *c = &p->tried[0];
    struct vr_num x;
    const char *name = kind == VR_DRAFT ? "draft model" : "vision projector";
    if (p->misplaced)
        return vr_fail(err, VR_ENOFIT,
                       "%s: %s uses the %s, which must be where it is: on one device, or on the host; leave out what "
                       "places the layers (--tensor-split, --n-gpu-layers, --use-fit-params), or the head",
                       p->a->model->name, c->model->parts[0].path,
                       vr_head_shares_cache(c->model) ? "KV cache of the model's last layers"
                                                      : "model's output matrix");
    return vr_fail(err, VR_ENOFIT,
                   "%s fits, but not together with its %s (%s), which needs %s MiB on a device or in host memory; try "
                   "a smaller --n-ctx, a smaller %s, or --allow ctx,kv",
                   p->a->model->name, name, c->model->name,
                   vr_fmt_mib(&x, vr_use_bytes(&c->use) + vr_use_bytes(&c->host), 0), name);
}

/* Places one more companion; `out` is what was found so far, and becomes the best of what is found now. */
static bool place(struct placing *p, enum vr_companion_kind kind, struct vr_outcome *out, struct vr_err *err)
{
    if (!measure_all(p, kind, err)) return false;
    VR_AUTO_OUTCOME best = { 0 };
    double best_cost = INFINITY;
    bool found = false;
    for (size_t i = 0; i < p->n_tried; i++) {
        const struct vr_companion *c = &p->tried[i];
        if (found && best.verdict.fits && p->alone_cost + cost_of(p, c) >= best_cost) break;
        VR_AUTO_OUTCOME now = { 0 };
        struct vr_err why = { 0 };
        if (!try_place(p, out, c, &now, &why)) {
            if (why.code == VR_OK || why.code == VR_ENOFIT) continue;
            *err = why;
            return false;
        }
        double cost = now.verdict.cost[p->goal] + cost_of(p, c);
        if (found && !better(&now, cost, &best, best_cost)) continue;
        vr_outcome_move(&best, &now);
        best_cost = cost;
        found = true;
    }
    if (!found) return fail_nowhere(p, kind, err);
    vr_outcome_move(out, &best);
    return true;
}

/* --- saying why --- */

static uint64_t place_bit(int device) { return device == HOST ? VR_REASON_HOST : UINT64_C(1) << device; }

static void explain(const struct placing *p, const struct vr_companion *c, struct vr_outcome *o)
{
    const struct vr_companion *fastest = &p->fastest[c->kind];
    bool draft = c->kind == VR_DRAFT;
    struct vr_reason r = { .kind = draft ? VR_REASON_DRAFT : VR_REASON_MMPROJ, .devices = place_bit(c->device) };
    r.figures[VR_FIGURE_BYTES] = (double)vr_use_bytes(c->device == HOST ? &c->host : &c->use);
    r.figures[draft ? VR_FIGURE_MS_PER_TOKEN : VR_FIGURE_MS_PER_PICTURE] = c->ms;
    /* a step with all its drafted tokens brings one token and those that are accepted; alone it would bring one */
    uint32_t guesses = vr_fit_guesses(p->a), passes = vr_spec_passes(vr_fit_spec(p->a), guesses);
    double step = o->verdict.price.step_ms[VR_DECODE] + passes * c->ms;
    double accepted = p->alone_ms > 0 ? (step / p->alone_ms - 1) / guesses : 1;
    if (draft && accepted >= 1) {
        r.kind = VR_REASON_DRAFT_NEVER_PAYS;
    } else if (draft) {
        r.figures[VR_FIGURE_N_DRAFT] = guesses;
        r.figures[VR_FIGURE_BREAK_EVEN_PERCENT] = 100 * accepted;
    }
    vr_outcome_reason(o, &r);
    if (fastest->device == c->device || fastest->ms >= c->ms * 0.99) return;
    r = (struct vr_reason){ .kind = draft ? VR_REASON_DRAFT_NOT_FASTEST : VR_REASON_MMPROJ_NOT_FASTEST,
                            .devices = place_bit(fastest->device) };
    vr_outcome_reason(o, &r);
}

/* A card that only a companion uses holds no layers, but is not left out. */
static void mark_shared(struct vr_outcome *o)
{
    for (size_t i = 0; i < o->n_reasons; i++) {
        struct vr_reason *r = &o->reasons[i];
        if (vr_reason_row(r->kind)->about != VR_ABOUT_LEFT_OUT) continue;
        for (size_t k = 0; k < o->n_companions; k++)
            if (r->devices == place_bit(o->companions[k].device)) r->figures[VR_FIGURE_COMPANION] = true;
    }
}

bool vr_companions_place(const struct vr_fit_ask *a, vr_find_fn *find, const void *ctx, bool twins,
                         struct vr_outcome *out, struct vr_err *err)
{
    double t0 = vr_now_fine_ms();
    VR_AUTO_FREE struct placing *p = calloc(1, sizeof *p);
    if (!p) return vr_fail_nomem(err, "planning");
    *p = (struct placing){ .a = a, .find = find, .ctx = ctx, .twins = twins };
    struct vr_fit_ask alone = *a;
    alone.spec = vr_fit_spec(a);
    alone.head = head_of(a);
    memset(alone.companions, 0, sizeof alone.companions);
    if (!find(&alone, ctx, out, err)) return false;
    p->goal = out->optimize;
    p->alone_ms = out->verdict.price.step_ms[VR_DECODE];
    p->alone_cost = out->verdict.cost[p->goal];
    p->dry_runs = out->dry_runs;
    for (enum vr_companion_kind kind = 0; kind < VR_N_COMPANIONS; kind++)
        if (a->companions[kind] && !place(p, kind, out, err)) return false;
    mark_shared(out);
    for (size_t i = 0; i < out->n_companions; i++) explain(p, &out->companions[i], out);
    out->dry_runs = p->dry_runs;
    out->ms = vr_now_fine_ms() - t0;
    return true;
}
