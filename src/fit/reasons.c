/* Why a placement is as it is, one sentence per decision, each computed from the numbers of the outcome. */
#include <inttypes.h>
#include <string.h>

#include "base/buf.h"
#include "base/text.h"
#include "fit/outcome.h"
#include "hw/gpus.h"

#define FULL 0.97 /* of its budget: nothing that matters fits on it any more */
#define ROOM 0.90 /* less than this, and it was spared */

struct teller {
    const struct vr_fit_ask *a;
    const struct vr_fixed *fixed;
    struct vr_outcome *o;
    bool failed;
};

static void tell(struct teller *t, const char *fmt, ...) VR_PRINTF(2, 3);
static void tell(struct teller *t, const char *fmt, ...)
{
    if (t->o->n_reasons == VR_MAX_REASONS) return;
    VR_AUTO_BUF text = { 0 };
    va_list ap;
    va_start(ap, fmt);
    vr_buf_addv(&text, fmt, ap);
    va_end(ap);
    const char *kept = text.failed ? NULL : vr_arena_strdup(&t->o->arena, text.data);
    if (kept)
        t->o->reasons[t->o->n_reasons++] = kept;
    else
        t->failed = true;
}

static const struct vr_device *device_of(const struct teller *t, const struct vr_judged *j)
{
    return &t->a->machine->devices[j->device];
}

static uint64_t used(const struct vr_judged *j)
{
    return j->use.model_bytes + j->use.context_bytes + j->use.compute_bytes;
}

static bool filled(const struct vr_judged *j, double share)
{
    uint64_t budget = j->free_bytes > j->reserve_bytes ? j->free_bytes - j->reserve_bytes : 0;
    return (double)used(j) >= share * (double)budget;
}

static bool is_full(const struct vr_judged *j) { return filled(j, FULL); }

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
    struct vr_num x;
    for (size_t b = 0; b < t->a->budgets->n; b++) {
        const struct vr_budget *item = &t->a->budgets->items[b];
        const struct vr_device *d = &t->a->machine->devices[item->device];
        bool in_use = false;
        for (size_t i = 0; i < v->n_devices; i++) in_use |= v->devices[i].device == item->device;
        if (in_use) continue;
        uint64_t need = compute + lightest_layer(t->a, f);
        double gbs = t->a->speeds->places[item->device].gbs;
        if (t->fixed->has_gpu_layers && t->fixed->n_gpu_layers == 0)
            tell(t, "%s (%s) left out: --n-gpu-layers 0 leaves nothing for it", d->id, vr_gpu_short(d->name));
        else if (need > item->budget_bytes)
            tell(t, "%s (%s) left out: its compute buffer and one layer need %s MiB more than it has", d->id,
                 vr_gpu_short(d->name), vr_fmt_mib(&x, need - item->budget_bytes, 0));
        else if (v->n_devices && gbs <= slowest && v->host_layers == 0)
            tell(t, "%s (%s) left out: the others hold %s, and none of them is slower", d->id, vr_gpu_short(d->name),
                 user_moves_to_host(t->fixed) ? "the rest" : "everything");
        else
            tell(t, "%s (%s) left out: what it could hold would not pay for the way to it and back", d->id,
                 vr_gpu_short(d->name));
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
    if (!slow || v->n_devices < 2 || slow->n_layers == 0) return;
    size_t full = 0, faster = 0;
    for (size_t i = 0; i < v->n_devices; i++) {
        const struct vr_judged *j = &v->devices[i];
        if (t->a->speeds->places[j->device].gbs <= t->a->speeds->places[slow->device].gbs) continue;
        faster++;
        full += is_full(j);
    }
    if (faster && full == faster && !filled(slow, ROOM))
        tell(t,
             "layers %" PRIu32 "-%" PRIu32
             " on %s (%s): it is the slowest card, so it gets only what the others cannot hold",
             slow->first_layer, slow->first_layer + slow->n_layers - 1, device_of(t, slow)->id,
             vr_gpu_short(device_of(t, slow)->name));
}

static void tell_host_layers(struct teller *t)
{
    uint32_t n = t->o->verdict.host_layers;
    const char *stay = n == 1 ? " stays" : "s stay";
    const struct vr_budgets *b = t->a->budgets;
    if (n && t->fixed->has_gpu_layers)
        tell(t, "%" PRIu32 " layer%s in host memory, as --n-gpu-layers %" PRIu32 " asks", n, stay,
             t->fixed->n_gpu_layers);
    else if (n && b->n == 1)
        tell(t, "%" PRIu32 " layer%s in host memory: %s (%s) is too small for all of them", n, stay,
             t->a->machine->devices[b->items[0].device].id,
             vr_gpu_short(t->a->machine->devices[b->items[0].device].name));
    else if (n)
        tell(t, "%" PRIu32 " layer%s in host memory: %s", n, stay,
             b->n ? "the devices together are too small" : "there is no GPU to use");
}

static void tell_host(struct teller *t, const struct vr_footprint *f)
{
    const struct vr_verdict *v = &t->o->verdict;
    struct vr_num x;
    tell_host_layers(t);
    uint64_t beyond_input = v->host.model_bytes > f->input_host_bytes ? v->host.model_bytes - f->input_host_bytes : 0;
    if (beyond_input == 0 || v->host_layers) return;
    size_t full = 0;
    for (size_t i = 0; i < v->n_devices; i++) full += is_full(&v->devices[i]);
    const char *size = vr_fmt_bytes(&x, beyond_input), *what = t->a->model->n_expert ? "experts" : "weights";
    if (user_moves_to_host(t->fixed) && full == 0)
        tell(t, "%s of %s stay in host memory, as --override-tensor asks", size, what);
    else if (user_moves_to_host(t->fixed))
        tell(t, "%s of %s stay in host memory: --override-tensor asks for some, and %zu of %zu devices are full", size,
             what, full, v->n_devices);
    else if (v->n_devices == 1)
        tell(t, "%s of %s stay in host memory: no more of them fit on %s (%s)", size, what,
             device_of(t, &v->devices[0])->id, vr_gpu_short(device_of(t, &v->devices[0])->name));
    else
        tell(t, "%s of %s stay in host memory: %zu of %zu devices are full", size, what, full, v->n_devices);
    if (v->n_devices > 1)
        tell(t, "%s (%s) comes first: prompts bring the weights of the host to it, over its link of %.0f GB/s",
             device_of(t, &v->devices[0])->id, vr_gpu_short(device_of(t, &v->devices[0])->name),
             t->a->speeds->places[v->devices[0].device].link_gbs);
}

static void tell_pipeline(struct teller *t)
{
    const struct vr_verdict *v = &t->o->verdict;
    if (v->n_devices < 2) return;
    if (v->pipeline)
        tell(t, "pipeline copies on: they fit, and prompts run on all devices at once");
    else if (t->o->trial.n_overrides)
        tell(t, "pipeline copies off: the engine has none when tensors are moved by name");
    else if (v->host_layers)
        tell(t, "pipeline copies off: the engine has none while layers are on the host");
    else
        tell(t, "pipeline copies off: the memory that they take would move layers to slower places");
}

/* A reserve that bench made smaller is told once per kind of card. */
static void tell_reserve(struct teller *t)
{
    const struct vr_machine *m = t->a->machine;
    const char *told = "";
    for (size_t i = 0; i < t->o->verdict.n_devices; i++) {
        const struct vr_judged *j = &t->o->verdict.devices[i];
        const struct vr_device *d = &m->devices[j->device];
        struct vr_num all, runtime;
        if (!d->measured.runtime_bytes || j->reserve_bytes != vr_device_reserve(d) || !strcmp(d->name, told)) continue;
        told = d->name;
        tell(t, "reserve %s MiB on %s: its runtime was measured to take %s, and %d are left as a margin",
             vr_fmt_mib(&all, j->reserve_bytes, 0), d->id,
             vr_fmt_mib(&runtime, d->measured.runtime_bytes + d->measured.blas_bytes, 0), VR_RESERVE_MARGIN_MIB);
    }
}

#define WORTH_TELLING 1.3
#define ROUNDING      1e-3 /* what a percentage with one digit can tell */

/* Weights that stay on the host cross to the device for every batch of a prompt. */
static void tell_pinned(struct teller *t)
{
    double now = t->o->verdict.price.prefill_tok_s, pinned = t->o->verdict.pinned_tok_s;
    if (now > 0 && pinned > now * WORTH_TELLING)
        tell(t,
             "prompts would be read about %.1f times as fast with --no-mmap: what stays on the host is then sent from "
             "pinned memory; loading takes longer",
             pinned / now);
}

/* What the user fixed was not searched. */
static bool any_fixed(const struct vr_fixed *f)
{
    return f->has_gpu_layers || f->n_split || f->order || f->n_overrides;
}

static void tell_proof(struct teller *t)
{
    const struct vr_outcome *o = t->o;
    double cost = o->verdict.cost[o->optimize];
    const char *with = any_fixed(t->fixed) ? " with what you fixed" : "";
    if (o->optimal)
        tell(t, "no other placement%s is faster: the search was exhaustive", with);
    else if (o->lower_bound > 0 && cost < o->lower_bound * (1 + 0.5 * ROUNDING))
        tell(t, "no other placement%s is faster by even 0.1 %%", with);
    else if (o->lower_bound > 0)
        tell(t, "at most %.1f %% slower than the best possible: no placement%s takes less than %.2f ms",
             100 * (cost / o->lower_bound - 1), with, o->lower_bound);
}

bool vr_outcome_explain(const struct vr_fit_ask *a, const struct vr_fixed *fixed, struct vr_outcome *o,
                        struct vr_err *err)
{
    struct teller t = { .a = a, .fixed = fixed, .o = o };
    VR_AUTO_FOOTPRINT f = { 0 };
    if (!vr_footprint_compute(a->model, &o->trial.context, &f, err)) return false;
    tell_left_out(&t, &f);
    tell_slowest(&t);
    tell_host(&t, &f);
    tell_pipeline(&t);
    tell_reserve(&t);
    tell_pinned(&t);
    tell_proof(&t);
    return !t.failed || vr_fail_nomem(err, "explaining a plan");
}
