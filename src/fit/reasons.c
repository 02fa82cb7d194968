/* Collects why a placement is as it is, one reason per decision, each computed from the numbers of the outcome. */
#include "fit/reasons.h"

#include <string.h>

#include "base/text.h"
#include "fit/outcome.h"

#define FULL 0.97 /* of its budget: nothing that matters fits on it any more */
#define ROOM 0.90 /* less than this, and it was spared */

/* --- the tables --- */

_Static_assert(VR_N_FIGURES <= 64, "one bit each");
_Static_assert(VR_MAX_DEVICES < 63, "one bit each, and the host's");

#define HAS(name) (UINT64_C(1) << VR_FIGURE_##name)
static const struct vr_reason_row rows[] = {
#define REASON(about_, kind, json, figures_)                                                                           \
    [VR_REASON_##kind] = { .name = json, .about = VR_ABOUT_##about_, .figures = figures_ },
#include "fit/reasons.def"
#undef REASON
};

static const struct vr_figure_row figures[] = {
#define FIGURE(name_, json, unit_) [VR_FIGURE_##name_] = { .name = json, .unit = VR_UNIT_##unit_ },
#include "fit/figures.def"
#undef FIGURE
};

const struct vr_reason_row *vr_reason_row(enum vr_reason_kind kind) { return &rows[kind]; }

const struct vr_figure_row *vr_figure_row(enum vr_figure figure) { return &figures[figure]; }

/* --- collecting --- */

void vr_outcome_reason(struct vr_outcome *o, const struct vr_reason *r)
{
    if (o->n_reasons < VR_MAX_REASONS) o->reasons[o->n_reasons++] = *r;
}

void vr_outcome_reason_first(struct vr_outcome *o, const struct vr_reason *r)
{
    if (o->n_reasons == VR_MAX_REASONS) o->n_reasons--;
    memmove(o->reasons + 1, o->reasons, o->n_reasons * sizeof o->reasons[0]);
    o->reasons[0] = *r;
    o->n_reasons++;
}

struct teller {
    const struct vr_fit_ask *a;
    const struct vr_fixed *fixed;
    struct vr_outcome *o;
};

static bool is_spread(const struct vr_outcome *o) { return o->trial.split_mode == VR_SPLIT_TENSOR; }

static void tell(struct teller *t, struct vr_reason r) { vr_outcome_reason(t->o, &r); }

static uint64_t bit(int device) { return UINT64_C(1) << device; }

static uint64_t all_devices(const struct vr_verdict *v)
{
    uint64_t mask = 0;
    for (size_t i = 0; i < v->n_devices; i++) mask |= bit(v->devices[i].device);
    return mask;
}

/* Of its budget, which is what companions leave. */
static bool filled(const struct teller *t, const struct vr_judged *j, double share)
{
    const struct vr_budgets *b = t->a->budgets;
    for (size_t i = 0; i < b->n; i++)
        if (b->items[i].device == j->device)
            return (double)vr_judged_bytes(j) >= share * (double)b->items[i].budget_bytes;
    return false;
}

static bool is_full(const struct teller *t, const struct vr_judged *j) { return filled(t, j, FULL); }

/* The lightest layer with its cache: what a card must at least be able to take. */
static uint64_t lightest_layer(const struct vr_fit_ask *a, const struct vr_footprint *f)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < f->n_layers && i < a->model->n_layers; i++) {
        const struct vr_layer_footprint *l = &f->layers[i];
        uint64_t n = l->weights_gpu_bytes - l->experts_gpu_bytes + l->kv_gpu_bytes + l->state_gpu_bytes;
        if (n < least) least = n;
    }
    return least == UINT64_MAX ? 0 : least;
}

static bool user_moves_to_host(const struct vr_fixed *f)
{
    for (size_t i = 0; i < f->n_overrides; i++)
        if (f->overrides[i].device < 0) return true;
    return false;
}

/* Devices that may be used and are not. */
static void tell_left_out(struct teller *t, const struct vr_footprint *f)
{
    const struct vr_verdict *v = &t->o->verdict;
    double slowest = 0;
    uint64_t compute = 0;
    for (size_t i = 0; i < v->n_devices; i++) {
        double gbs = t->a->speeds->places[v->devices[i].device].gbs;
        if (slowest == 0 || gbs < slowest) slowest = gbs;
        if (compute == 0 || v->devices[i].use.compute_bytes < compute) compute = v->devices[i].use.compute_bytes;
    }
    uint64_t need = compute + lightest_layer(t->a, f);
    for (size_t b = 0; b < t->a->budgets->n; b++) {
        const struct vr_budget *item = &t->a->budgets->items[b];
        if (all_devices(v) & bit(item->device)) continue;
        struct vr_reason r = { .kind = VR_REASON_NOT_WORTH_IT,
                               .devices = bit(item->device),
                               .figures = { [VR_FIGURE_SPREAD] = is_spread(t->o) } };
        double gbs = t->a->speeds->places[item->device].gbs;
        if (t->fixed->has_gpu_layers && t->fixed->n_gpu_layers == 0) {
            r.kind = VR_REASON_NO_GPU_LAYERS;
        } else if (t->a->spared & bit(item->device)) {
            r.kind = VR_REASON_SPARED;
        } else if (need > item->budget_bytes) {
            r.kind = VR_REASON_TOO_SMALL;
            r.figures[VR_FIGURE_SHORT_BYTES] = (double)(need - item->budget_bytes);
        } else if (v->n_devices && gbs <= slowest && v->host_layers == 0 && !is_spread(t->o)) {
            r.kind = VR_REASON_NOT_NEEDED;
            r.figures[VR_FIGURE_OVERRIDDEN] = user_moves_to_host(t->fixed);
        }
        tell(t, r);
    }
}

/* The slowest device in use, when the others are full. */
static void tell_slowest(struct teller *t)
{
    const struct vr_verdict *v = &t->o->verdict;
    const struct vr_judged *slow = NULL;
    for (size_t i = 0; i < v->n_devices; i++) {
        const struct vr_judged *j = &v->devices[i];
        if (!slow || t->a->speeds->places[j->device].gbs < t->a->speeds->places[slow->device].gbs) slow = j;
    }
    if (!slow || v->n_devices < 2 || slow->n_layers == 0 || is_spread(t->o)) return;
    size_t full = 0, faster = 0;
    for (size_t i = 0; i < v->n_devices; i++) {
        const struct vr_judged *j = &v->devices[i];
        if (t->a->speeds->places[j->device].gbs <= t->a->speeds->places[slow->device].gbs) continue;
        faster++;
        full += is_full(t, j);
    }
    if (faster && full == faster && !filled(t, slow, ROOM))
        tell(t, (struct vr_reason){ .kind = VR_REASON_SLOWEST_LAST,
                                    .devices = bit(slow->device),
                                    .figures = { [VR_FIGURE_FIRST_LAYER] = slow->first_layer,
                                                 [VR_FIGURE_LAST_LAYER] = slow->first_layer + slow->n_layers - 1 } });
}

/* Whether tensors of a dense model are apart from their layers, and the user did not ask for it. */
static bool in_parts(const struct teller *t)
{
    return t->a->model->n_expert == 0 && t->o->trial.n_overrides > t->fixed->n_overrides;
}

static void tell_host_layers(struct teller *t, const struct vr_footprint *f)
{
    const struct vr_budgets *b = t->a->budgets;
    struct vr_reason r = { .figures = { [VR_FIGURE_N_LAYERS] = t->o->verdict.host_layers } };
    if (t->o->verdict.host_layers == 0) return;
    if (t->fixed->has_gpu_layers) {
        r.kind = VR_REASON_HOST_LAYERS_ASKED;
        r.figures[VR_FIGURE_N_GPU_LAYERS] = t->fixed->n_gpu_layers;
    } else {
        r.kind = b->n ? VR_REASON_HOST_LAYERS_NO_ROOM : VR_REASON_HOST_LAYERS_NO_GPU;
        if (b->n && in_parts(t)) {
            r.kind = VR_REASON_HOST_LAYERS_PARTLY;
            r.figures[VR_FIGURE_HOST_BYTES] = (double)(t->o->verdict.host.model_bytes - f->input_host_bytes);
        }
        for (size_t i = 0; i < b->n; i++) r.devices |= bit(b->items[i].device);
    }
    tell(t, r);
}

/* Weights of layers that are on a device themselves. */
static void tell_host_weights(struct teller *t, const struct vr_footprint *f)
{
    const struct vr_verdict *v = &t->o->verdict;
    if (v->host.model_bytes <= f->input_host_bytes || v->host_layers) return;
    uint64_t full = 0;
    for (size_t i = 0; i < v->n_devices; i++) full |= is_full(t, &v->devices[i]) ? bit(v->devices[i].device) : 0;
    struct vr_reason r = { .figures = { [VR_FIGURE_HOST_BYTES] = (double)(v->host.model_bytes - f->input_host_bytes),
                                        [VR_FIGURE_EXPERTS] = t->a->model->n_expert > 0 } };
    bool asked = user_moves_to_host(t->fixed);
    if (asked && !full) {
        r.kind = VR_REASON_HOST_WEIGHTS_ASKED;
    } else if (!asked && (v->n_devices == 1 || !full)) {
        r.kind = VR_REASON_HOST_WEIGHTS_NO_ROOM;
        r.devices = all_devices(v);
    } else {
        r.kind = asked ? VR_REASON_HOST_WEIGHTS_AND_FULL : VR_REASON_HOST_WEIGHTS_FULL;
        r.devices = full;
        r.figures[VR_FIGURE_N_FULL] = __builtin_popcountll(full);
        r.figures[VR_FIGURE_N_DEVICES] = (double)v->n_devices;
    }
    tell(t, r);
    bool sent = t->o->trial.offload_min <= t->o->trial.context.n_ubatch;
    if (v->n_devices > 1 && sent && !is_spread(t->o)) /* split mode tensor sends none */
        tell(t, (struct vr_reason){
                    .kind = VR_REASON_FIRST_BY_LINK,
                    .devices = bit(v->devices[0].device),
                    .figures = { [VR_FIGURE_LINK_GBS] = t->a->speeds->places[v->devices[0].device].link_gbs } });
}

static void tell_pipeline(struct teller *t)
{
    const struct vr_verdict *v = &t->o->verdict;
    if (v->n_devices < 2 || is_spread(t->o)) return;
    bool turns = !vr_devices_overlap(t->a->speeds, t->a->budgets);
    tell(t, (struct vr_reason){ .kind = turns                     ? VR_REASON_PIPELINE_TURNS
                                        : v->pipeline             ? VR_REASON_PIPELINE_ON
                                        : t->o->trial.n_overrides ? VR_REASON_PIPELINE_OVERRIDES
                                        : v->host_layers          ? VR_REASON_PIPELINE_HOST_LAYERS
                                                                  : VR_REASON_PIPELINE_MEMORY });
}

/* A reserve that bench made smaller is told once per kind of card. */
static void tell_reserve(struct teller *t)
{
    const struct vr_machine *m = t->a->machine;
    const char *told = "";
    for (size_t i = 0; i < t->o->verdict.n_devices; i++) {
        const struct vr_judged *j = &t->o->verdict.devices[i];
        const struct vr_device *d = &m->devices[j->device];
        if (!d->measured.runtime_bytes || j->reserve_bytes != vr_device_reserve(d) || !strcmp(d->name, told)) continue;
        told = d->name;
        uint64_t runtime = d->measured.runtime_bytes + d->measured.blas_bytes;
        tell(t, (struct vr_reason){ .kind = VR_REASON_RESERVE_MEASURED,
                                    .devices = bit(j->device),
                                    .figures = { [VR_FIGURE_RESERVE_BYTES] = (double)j->reserve_bytes,
                                                 [VR_FIGURE_RUNTIME_BYTES] = (double)runtime,
                                                 [VR_FIGURE_MARGIN_BYTES] = (double)VR_RESERVE_MARGIN_MIB * VR_MIB } });
    }
}

/* What the user fixed was not searched. */
static bool any_fixed(const struct vr_fixed *f)
{
    return f->has_gpu_layers || f->n_split || f->order || f->split_mode || f->n_overrides;
}

#define ROUNDING 1e-3 /* what a percentage with one digit can tell */

static void tell_proof(struct teller *t, const struct vr_footprint *f)
{
    const struct vr_outcome *o = t->o;
    double cost = o->verdict.cost[o->optimize];
    struct vr_reason r = { .figures = { [VR_FIGURE_FIXED] = any_fixed(t->fixed),
                                        [VR_FIGURE_PREFILL] = o->optimize == VR_OPTIMIZE_PREFILL,
                                        [VR_FIGURE_BALANCED] = o->optimize == VR_OPTIMIZE_BALANCED,
                                        [VR_FIGURE_BUFFERS] = o->verdict.n_devices &&
                                                              o->verdict.host.model_bytes > f->input_host_bytes } };
    if (!o->optimal && o->lower_bound <= 0) return;
    if (o->optimal) {
        r.kind = VR_REASON_OPTIMAL;
    } else if (cost < o->lower_bound * (1 + 0.5 * ROUNDING)) {
        r.kind = VR_REASON_NEARLY_OPTIMAL;
    } else {
        r.kind = VR_REASON_BOUNDED;
        r.figures[VR_FIGURE_SLOWER_PERCENT] = 100 * (cost / o->lower_bound - 1);
        r.figures[VR_FIGURE_LOWER_BOUND_MS] = o->lower_bound;
    }
    tell(t, r);
}

bool vr_outcome_explain(const struct vr_fit_ask *a, const struct vr_fixed *fixed, struct vr_outcome *o,
                        struct vr_err *err)
{
    struct teller t = { .a = a, .fixed = fixed, .o = o };
    VR_AUTO_FOOTPRINT f = { 0 };
    if (!vr_footprint_compute(a->model, &o->trial.context, &f, err)) return false;
    tell_left_out(&t, &f);
    tell_slowest(&t);
    tell_host_layers(&t, &f);
    tell_host_weights(&t, &f);
    tell_pipeline(&t);
    tell_reserve(&t);
    tell_proof(&t, &f);
    return true;
}

static void add_bytes(struct vr_reason *r, uint16_t device, uint64_t bytes)
{
    if (bytes == 0) return;
    r->devices |= bit(device);
    r->figures[VR_FIGURE_BESIDE_BYTES] += (double)bytes;
}

void vr_outcome_explain_verdict(struct vr_outcome *o)
{
    const struct vr_verdict *v = &o->verdict;
    struct teller t = { .o = o };
    if (!v->exact) {
        struct vr_reason r = { .kind = VR_REASON_ESTIMATE_NOT_CUDA, .devices = bit(v->inexact_device) };
        if (v->inexact == VR_INEXACT_CAPABILITY) {
            r.kind = VR_REASON_ESTIMATE_CAPABILITY;
            r.figures[VR_FIGURE_COMPUTE_CAPABILITY] = VR_ASSUMED_CC / 100.0;
        }
        tell(&t, r);
    }
    struct vr_reason scratch = { .kind = VR_REASON_BESIDE_BUFFERS }, reduce = { .kind = VR_REASON_REDUCE_MEMORY };
    for (size_t i = 0; i < v->n_devices; i++) {
        const struct vr_judged *j = &v->devices[i];
        add_bytes(&scratch, j->device, j->beside_bytes - j->reduce_bytes);
        add_bytes(&reduce, j->device, j->reduce_bytes);
    }
    reduce.figures[VR_FIGURE_N_DEVICES] = (double)v->n_devices;
    if (scratch.devices) tell(&t, scratch);
    if (reduce.devices) tell(&t, reduce);
}

/* --- devices that may not be used, and places that are too small --- */

struct vr_reason vr_reason_excluded(const struct vr_excluded *e)
{
    static const enum vr_reason_kind kinds[] = {
        [VR_EXCLUDED_NOT_CHOSEN] = VR_REASON_NOT_CHOSEN,
        [VR_EXCLUDED_NOT_VISIBLE] = VR_REASON_NOT_VISIBLE,
        [VR_EXCLUDED_MEMORY_UNKNOWN] = VR_REASON_MEMORY_UNKNOWN,
        [VR_EXCLUDED_RESERVE_TAKES_ALL] = VR_REASON_RESERVE_TAKES_ALL,
        [VR_EXCLUDED_BELOW_MIN_BUDGET] = VR_REASON_BELOW_MIN_BUDGET,
        [VR_EXCLUDED_ALLOCATION_FAILED] = VR_REASON_ALLOCATION_FAILED,
    };
    uint64_t budget = e->free_bytes > e->reserve_bytes ? e->free_bytes - e->reserve_bytes : 0;
    return (struct vr_reason){ .kind = kinds[e->why],
                               .devices = bit(e->device),
                               .figures = { [VR_FIGURE_FREE_BYTES] = (double)e->free_bytes,
                                            [VR_FIGURE_RESERVE_BYTES] = (double)e->reserve_bytes,
                                            [VR_FIGURE_BUDGET_BYTES] = (double)budget,
                                            [VR_FIGURE_MIN_BUDGET_BYTES] = (double)e->min_budget_bytes } };
}

static struct vr_reason shortage(uint64_t place, uint64_t short_bytes, uint64_t need_bytes, uint64_t free_bytes)
{
    return (struct vr_reason){ .kind = VR_REASON_SHORT,
                               .devices = place,
                               .figures = { [VR_FIGURE_SHORT_BYTES] = (double)short_bytes,
                                            [VR_FIGURE_NEED_BYTES] = (double)need_bytes,
                                            [VR_FIGURE_FREE_BYTES] = (double)free_bytes } };
}

static struct vr_reason empty_cache(uint64_t place, uint32_t first_layer, uint32_t n_layers)
{
    return (struct vr_reason){
        .kind = VR_REASON_EMPTY_CACHE,
        .devices = place,
        .figures = { [VR_FIGURE_FIRST_LAYER] = first_layer, [VR_FIGURE_LAST_LAYER] = first_layer + n_layers - 1 }
    };
}

static bool device_shortage(const struct vr_outcome *o, const struct vr_judged *j, struct vr_reason *out)
{
    uint64_t companions = vr_outcome_companion_bytes(o, j->device), place = bit(j->device);
    if (companions && j->over_bytes)
        *out = (struct vr_reason){ .kind = VR_REASON_SHORT_BY_COMPANIONS,
                                   .devices = place,
                                   .figures = { [VR_FIGURE_OVER_BYTES] = (double)j->over_bytes,
                                                [VR_FIGURE_COMPANION_BYTES] = (double)companions } };
    else if (j->short_bytes)
        *out = shortage(place, j->short_bytes, vr_judged_bytes(j), j->free_bytes);
    else if (j->no_cache)
        *out = empty_cache(place, j->first_layer, j->n_layers);
    else if (j->over_bytes)
        *out = (struct vr_reason){ .kind = VR_REASON_RESERVE_NEEDED,
                                   .devices = place,
                                   .figures = { [VR_FIGURE_OVER_BYTES] = (double)j->over_bytes,
                                                [VR_FIGURE_RESERVE_BYTES] = (double)j->reserve_bytes } };
    return j->short_bytes || j->over_bytes || j->no_cache;
}

size_t vr_outcome_shortages(const struct vr_fit_ask *a, const struct vr_outcome *o,
                            struct vr_reason out[VR_MAX_REASONS])
{
    const struct vr_verdict *v = &o->verdict;
    uint64_t host_free = a->machine->host.ram_free_bytes;
    size_t n = 0;
    _Static_assert(VR_MAX_VGPUS + 2 <= VR_MAX_REASONS, "every place can be too small");
    for (size_t i = 0; i < v->n_devices; i++) n += device_shortage(o, &v->devices[i], &out[n]);
    if (v->host_no_cache) out[n++] = empty_cache(VR_REASON_HOST, 0, v->host_layers);
    if (v->host_short_bytes)
        out[n++] = shortage(VR_REASON_HOST, v->host_short_bytes, host_free + v->host_short_bytes, host_free);
    return n;
}
