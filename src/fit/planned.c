/* Plan, prove, correct, plan again.
 *
 * The planner needs to know how large compute buffers will be before anything is placed; only the engine knows, and
 * only for a placement. So the first plan is made with a guess, one dry run tells the truth for it, the guess is
 * corrected and the problem solved again. That settles after one or two rounds, because buffers depend on a device's
 * situation (first, last, in between) and hardly on which layers it has. What is returned was confirmed by a dry run
 * within every budget. */
#include <math.h>
#include <string.h>

#include "base/text.h"
#include "fit/stand.h"
#include "plan/place.h"

#define MAX_DRY_RUNS 4
#define SAME         1e-6 /* relative: a plan that promises no more than this is not worth another dry run */

struct search {
    struct vr_fit_ask a;
    struct vr_budgets budgets; /* a.budgets: devices that turn out to be useless are taken out */
    struct vr_ask ask;
    struct vr_footprint footprint;
    struct vr_overheads overheads;
    struct vr_prober prober;
};

/* The plan as a trial. The user's overrides come first, as they would in the engine. */
static bool to_trial(const struct search *s, const struct vr_plan *p, struct vr_outcome *o, struct vr_err *err)
{
    struct vr_trial *t = &o->trial;
    const struct vr_fixed *fixed = &s->ask.fixed;
    int trial_device[VR_MAX_DEVICES] = { 0 };
    for (size_t i = 0; i < s->budgets.n; i++) trial_device[s->budgets.items[i].device] = (int)i;
    if (p->n == 0) t->n_devices = 0; /* all on the host: the engine must not even see the devices */
    t->n_order = p->n;
    t->n_gpu_layers = (int)p->n_gpu_layers;
    t->has_split = p->n > 0;
    t->pipeline = p->pipeline;
    for (size_t i = 0; i < p->n; i++) {
        t->order[i] = (uint8_t)trial_device[p->order[i]];
        t->split[i] = (float)p->slots[i];
    }
    size_t n = fixed->n_overrides + p->n_overrides;
    struct vr_override *all = vr_arena_alloc(&o->arena, n, sizeof *all);
    if (!all) return vr_fail_nomem(err, "writing down a plan");
    for (size_t i = 0; i < n; i++) {
        bool users = i < fixed->n_overrides;
        const struct vr_place_override *ours = &p->overrides[i - (users ? i : fixed->n_overrides)];
        int device = users ? fixed->overrides[i].device : ours->device;
        all[i].pattern = users ? fixed->overrides[i].pattern : ours->pattern;
        all[i].device = device < 0 ? VR_ON_CPU : trial_device[device];
    }
    t->overrides = all;
    t->n_overrides = n;
    return true;
}

/* A compute buffer as measured replaces the guess: for the device itself, and for the others in the same situation, of
 * which nothing better is known. A part of a situation never needs more than the whole. */
static void learn_compute(struct search *s, uint16_t device, unsigned situation, uint64_t bytes)
{
    for (size_t d = 0; d < s->a.machine->n_devices; d++) {
        uint64_t *known = s->overheads.devices[d].compute_bytes;
        for (unsigned part = 0; part < VR_N_SITUATIONS; part++)
            if ((part & situation) == part && known[part] > bytes) known[part] = bytes;
        if (d == device || known[situation] < bytes) known[situation] = bytes;
    }
}

static void leave_out(struct search *s, uint16_t device)
{
    size_t n = 0;
    for (size_t i = 0; i < s->budgets.n; i++)
        if (s->budgets.items[i].device != device) s->budgets.items[n++] = s->budgets.items[i];
    s->budgets.n = n;
}

static void learn(struct search *s, const struct vr_plan *p, const struct vr_verdict *v)
{
    for (size_t i = 0; i < p->n; i++) {
        const struct vr_judged *j = &v->devices[i];
        uint64_t guessed = s->overheads.devices[j->device].compute_bytes[p->situation[i]];
        uint64_t explained = j->use.compute_bytes > guessed ? j->use.compute_bytes - guessed : 0;
        if (j->over_bytes > explained) s->overheads.devices[j->device].overhead_bytes += j->over_bytes - explained;
        learn_compute(s, j->device, p->situation[i], j->use.compute_bytes);
        if (j->no_cache) leave_out(s, j->device); /* it cannot hold layers without attention alone */
    }
    s->overheads.host_compute_bytes = v->host.compute_bytes;
}

/* Rounds of plan and proof. False with the planner's sentence when nothing fits. */
static bool iterate(struct search *s, struct vr_outcome *best, struct vr_err *err)
{
    uint32_t dry_runs = 0;
    bool found = false;
    struct vr_plan plan;
    for (; dry_runs < MAX_DRY_RUNS; dry_runs++) {
        VR_AUTO_OUTCOME now = { 0 };
        if (!vr_stand_start(&s->a, &now, err)) return false;
        if (!vr_plan_make(&s->ask, &now.arena, &plan, err)) {
            if (!found || err->code != VR_ENOFIT) return false;
            break;
        }
        if (found && plan.cost_ms >= best->planned_ms * (1 - SAME)) { /* with what is known now, nothing is better */
            best->optimal = plan.optimal;
            best->lower_bound_ms = fmin(plan.lower_bound_ms, best->planned_ms);
            break;
        }
        if (!to_trial(s, &plan, &now, err) || !vr_stand_judge(&s->a, &s->prober, &now, err)) return false;
        learn(s, &plan, &now.verdict);
        now.how = "planned";
        now.lower_bound_ms = plan.lower_bound_ms;
        now.planned_ms = plan.cost_ms;
        bool faster = !found || now.verdict.price.step_ms[VR_DECODE] <= best->verdict.price.step_ms[VR_DECODE];
        if (!now.verdict.fits || !faster) continue;
        vr_stand_move(best, &now);
        found = true;
    }
    best->dry_runs = dry_runs;
    return found || vr_fail(err, VR_ENOFIT,
                            "no placement was confirmed within %d dry runs: raise --reserve-mib, or fix one with "
                            "--tensor-split",
                            MAX_DRY_RUNS);
}

/* Nothing fits: how much is missing, and what would be needed instead. */
static bool explain_shortage(const struct search *s, struct vr_err *err)
{
    const struct vr_footprint *f = &s->footprint;
    uint64_t have = s->a.machine->host.ram_free_bytes, cache = f->kv_host_bytes + f->state_host_bytes;
    for (size_t i = 0; i < s->budgets.n; i++) have += s->budgets.items[i].budget_bytes;
    uint64_t weights = f->weights_host_bytes + f->input_host_bytes + f->output_host_bytes;
    struct vr_num x, y, z, w;
    if (f->input_host_bytes > s->a.machine->host.ram_free_bytes)
        return vr_fail(err, VR_ENOFIT,
                       "%s does not fit: its token embeddings (%s) always stay in host memory, of which %s is free",
                       s->a.model->name, vr_fmt_bytes(&x, f->input_host_bytes),
                       vr_fmt_bytes(&y, s->a.machine->host.ram_free_bytes));
    if (weights + cache <= have)
        return vr_fail(err, VR_ENOFIT,
                       "%s does not fit: weights (%s) and cache (%s) would, but not together with the buffers for "
                       "computing; try a "
                       "smaller --n-ctx or --n-ubatch, or --allow ctx,kv",
                       s->a.model->name, vr_fmt_bytes(&x, weights), vr_fmt_bytes(&y, cache));
    uint64_t missing = weights + cache - have;
    vr_fail(err, VR_ENOFIT,
            "%s does not fit: weights (%s) and cache (%s) are %s more than devices and host have together",
            s->a.model->name, vr_fmt_bytes(&x, weights), vr_fmt_bytes(&y, cache), vr_fmt_bytes(&z, missing));
    if (cache > missing)
        return vr_fail_more(
            err, "; a context of about %s tokens would fit, or --allow ctx,kv",
            vr_fmt_count(&w, (uint64_t)((double)f->n_ctx * (double)(cache - missing) / (double)cache) / 256 * 256));
    return vr_fail_more(err, "; no context is small enough: it takes a quantization of at most %s",
                        vr_fmt_bytes(&w, have > cache ? have - cache : 0));
}

static bool plan_alone(const struct vr_fit_ask *a, const void *wish, struct vr_outcome *out, struct vr_err *err)
{
    const struct vr_wish *w = wish;
    double t0 = vr_stand_now_ms();
    struct search *s = calloc(1, sizeof *s);
    if (!s) return vr_fail_nomem(err, "planning");
    s->a = *a;
    s->budgets = *a->budgets;
    s->a.budgets = &s->budgets;
    bool ok = vr_footprint_compute(a->model, &a->context, &s->footprint, err);
    if (ok) {
        vr_overheads_guess(a->model, &a->context, &s->footprint, a->machine, &s->overheads);
        s->ask = (struct vr_ask){ .model = a->model,
                                  .context = &a->context,
                                  .footprint = &s->footprint,
                                  .machine = a->machine,
                                  .budgets = &s->budgets,
                                  .speeds = a->speeds,
                                  .overheads = &s->overheads,
                                  .optimize = w->optimize,
                                  .fill = a->fill,
                                  .fixed = w->fixed };
        ok = vr_prober_open(a->model, &s->prober, err);
        if (ok) {
            ok = iterate(s, out, err) || (err->code == VR_ENOFIT && explain_shortage(s, err));
            vr_prober_close(&s->prober);
        }
    }
    vr_footprint_done(&s->footprint);
    free(s);
    out->ms = vr_stand_now_ms() - t0;
    return ok && vr_outcome_explain(a, out, err);
}

bool vr_fit_plan(const struct vr_fit_ask *a, const struct vr_wish *w, struct vr_outcome *out, struct vr_err *err)
{
    if (vr_companions_any(a)) return vr_companions_place(a, plan_alone, w, true, out, err);
    return plan_alone(a, w, out, err);
}
