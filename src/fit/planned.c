/* Plan, prove, correct, plan again.
 *
 * The planner needs to know how large compute buffers will be before anything is placed; only the engine knows, and
 * only for a placement. So the first plan is made with a guess, one dry run tells the truth for it, the guess is
 * corrected and the problem solved again. That settles after one or two rounds, because buffers depend on a device's
 * situation (first, last, in between) and hardly on which layers it has. What is returned was confirmed by a dry run
 * within every budget.
 *
 * Where weights are on the host, a second look follows from the plan that was confirmed: it stays unless a dry run
 * shows a better one. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/text.h"
#include "fit/planner.h"

#define MAX_DRY_RUNS    4
#define ENOUGH_DRY_RUNS 3     /* what so many have settled is settled */
#define APART           8     /* a line through contexts that differ by less than an eighth says nothing */
#define CHECK_WORK      20000 /* labels, to see that a plan is still the best */
#define TAUGHT_WORK     50000 /* labels, for a plan that begins with one that was searched for */
#define MUCH_WORK       80000 /* labels, for a search that is not made again without need */
#define QUICK_WORK      2000  /* labels, for a placement that nobody will execute */
#define SAME            1e-6  /* relative: a plan that promises no more than this is the same */
#define WORTH           2e-3  /* and after the second dry run, no more than this is not worth another one */
#define LITTLE          5e-4  /* and after the first of a plan that began with what others had learned */
#define SURELY          0.05 /* relative: the planner's count is rarely further above the price; then a choice is missed */
#define AGAIN_DRY_RUNS  2    /* of plans that a second look finds */
#define AGAIN_WORK      20000 /* labels, for such a plan */

/* The plan as a trial. The user's overrides come first, as they would in the engine. */
static bool to_trial(const struct vr_planner *s, const struct vr_plan *p, struct vr_outcome *o, struct vr_err *err)
{
    struct vr_load_params *t = &o->trial;
    const struct vr_fixed *fixed = &s->ask.fixed;
    int trial_device[VR_MAX_DEVICES] = { 0 };
    for (size_t i = 0; i < s->a.budgets->n; i++) trial_device[s->a.budgets->items[i].device] = (int)i;
    if (p->n == 0) t->n_devices = 0; /* all on the host: the engine must not even see the devices */
    t->n_order = p->n;
    t->n_gpu_layers = (int)p->n_gpu_layers;
    t->has_split = p->n > 0;
    t->pipeline = p->pipeline;
    for (size_t i = 0; i < p->n; i++) {
        t->order[i] = (uint8_t)trial_device[p->order[i]];
        t->split[i] = (float)p->stations[i];
    }
    size_t n = fixed->n_overrides + p->n_overrides;
    struct vr_override *all = vr_arena_alloc(&o->arena, n, sizeof *all);
    if (!all) return vr_fail_nomem(err, "writing down a plan");
    for (size_t i = 0; i < n; i++) {
        bool users = i < fixed->n_overrides;
        const struct vr_place_override *ours = &p->overrides[i - (users ? i : fixed->n_overrides)];
        int device = users ? fixed->overrides[i].device : ours->device;
        all[i].pattern = users ? vr_arena_strdup(&o->arena, fixed->overrides[i].pattern) : ours->pattern;
        all[i].device = device < 0 ? VR_ON_CPU : trial_device[device];
        if (!all[i].pattern) return vr_fail_nomem(err, "writing down a plan");
    }
    t->overrides = all;
    t->n_overrides = n;
    return true;
}

/* The compute buffers of a dry run: what it showed of devices in each situation. */
struct shown {
    const struct vr_machine *machine;
    const struct vr_verdict *verdict;
    const unsigned *situation; /* of its devices */
    size_t n;
};

/* What a device needs in a situation, as measured: by it or others of its model, else by any; the largest, so that
 * equal cards stay equal. 0: nobody was in that situation. */
static uint64_t measured(const struct shown *x, size_t device, unsigned situation)
{
    const struct vr_device *all = x->machine->devices;
    uint64_t same = 0, any = 0;
    for (size_t i = 0; i < x->n; i++) {
        const struct vr_judged *j = &x->verdict->devices[i];
        uint64_t bytes = j->use.compute_bytes;
        if (x->situation[i] != situation) continue;
        if (bytes > any) any = bytes;
        if (bytes > same && strcmp(all[j->device].name, all[device].name) == 0) same = bytes;
    }
    return same ? same : any;
}

/* Compute buffers as measured replace the guess; they differ a little from placement to placement, so what a plan
 * failed for stays the least. A part of a situation never needs more than the whole. */
static void learn_compute(const struct shown *x, struct vr_overheads *overheads,
                          uint64_t least_bytes[VR_MAX_DEVICES][VR_N_SITUATIONS])
{
    for (size_t d = 0; d < x->machine->n_devices; d++) {
        uint64_t *known = overheads->devices[d].compute_bytes;
        for (unsigned whole = VR_N_SITUATIONS; whole-- > 0;) { /* parts come later, and have the last word */
            uint64_t bytes = measured(x, d, whole), *least = &least_bytes[d][whole];
            if (!bytes) continue;
            if (!x->verdict->fits && *least < bytes) *least = bytes;
            for (unsigned part = 0; part < whole; part++)
                if ((part & whole) == part && known[part] > bytes) known[part] = bytes;
            known[whole] = bytes > *least ? bytes : *least;
        }
    }
}

/* Kernels' scratch memory that a plan failed for is as large on every card of that name. */
static void learn_scratch(struct vr_planner *s, const struct vr_verdict *v)
{
    const struct vr_device *all = s->a.machine->devices;
    for (size_t d = 0; d < s->a.machine->n_devices; d++)
        for (size_t i = 0; i < v->n_devices; i++) {
            const struct vr_judged *j = &v->devices[i];
            uint64_t *known = &s->overheads.devices[d].overhead_bytes;
            if (strcmp(all[j->device].name, all[d].name) == 0 && *known < j->beside_bytes) *known = j->beside_bytes;
        }
}

static void learn(struct vr_planner *s, const struct vr_plan *p, const struct vr_verdict *v)
{
    for (size_t i = 0; i < p->n; i++) {
        const struct vr_judged *j = &v->devices[i];
        uint64_t guessed = s->overheads.devices[j->device].compute_bytes[p->situation[i]];
        uint64_t explained = j->use.compute_bytes > guessed ? j->use.compute_bytes - guessed : 0;
        if (j->over_bytes > explained) s->overheads.devices[j->device].overhead_bytes += j->over_bytes - explained;
    }
    if (!v->fits) learn_scratch(s, v);
    learn_compute(&(struct shown){ s->a.machine, v, p->situation, p->n }, &s->overheads, s->least_bytes);
    s->overheads.host_compute_bytes = v->host.compute_bytes;
}

/* One dry run of a plan, as `now`, and what it teaches. */
static bool confirm(struct vr_planner *s, const struct vr_plan *plan, struct vr_outcome *now, struct vr_err *err)
{
    if (!to_trial(s, plan, now, err)) return false;
    struct vr_judge_setup setup = vr_outcome_setup(&s->a, &s->prober);
    setup.observed = &s->observed;
    setup.n_layers = s->footprint.n_layers;
    if (!vr_outcome_judge(&setup, now, err)) return false;
    if (s->observed.rows) s->ask.observed = &s->observed;
    learn(s, plan, &now->verdict);
    if (plan->pipeline && !now->verdict.pipeline) s->ask.no_pipeline = true;
    return true;
}

/* The planner's count is the price that a plan is shown with, up to what is the same for all placements (embeddings,
 * what a step takes whatever is in it). So what no placement can be faster than is told from the plan: by the
 * difference that is left. `last` was made with all that is known. */
static bool settle(struct vr_planner *s, const struct vr_plan *plan, const struct vr_plan *last,
                   struct vr_outcome *best, struct vr_err *err)
{
    double cost, shown = best->verdict.cost[s->ask.optimize];
    if (!vr_plan_cost(&s->ask, plan, &cost, err)) return false;
    best->optimal = last->optimal && cost <= last->cost * (1 + SAME);
    best->lower_bound = best->optimal ? shown : fmin(shown, fmax(shown - (cost - last->lower_bound), 0));
    return true;
}

/* Whether the graph is known before a dry run, but for micro-batches, which may have another size now. */
static bool is_taught(const struct vr_planner *s)
{
    return s->lessons && s->lessons->observed.rows && s->goal == VR_OPTIMIZE_DECODE;
}

/* No placement can be as fast as is wanted: known without a dry run, where the graph is known. */
static bool is_hopeless(const struct vr_planner *s, const struct vr_plan *plan)
{
    return s->worth > 0 && is_taught(s) && plan->lower_bound > s->worth * (1 + SURELY);
}

/* Rounds of plan and proof for one goal; the plan that was best is in the outcome's arena. False with the planner's
 * sentence when nothing fits. */
static bool find(struct vr_planner *s, enum vr_optimize goal, struct vr_plan *best_plan, struct vr_outcome *best,
                 struct vr_err *err)
{
    uint32_t dry_runs = 0;
    bool found = false, searched = false;
    VR_AUTO_ARENA arena = { 0 };
    struct vr_plan plan = { 0 }, seed = { 0 };
    if (is_taught(s)) seed = s->lessons->seed;
    s->ask.optimize = best->optimize = goal;
    for (;; dry_runs++) {
        VR_AUTO_OUTCOME now = { 0 };
        /* the first plan is for learning, and the last one is to see that nothing has changed */
        searched = searched || plan.work > MUCH_WORK;
        bool last = dry_runs >= ENOUGH_DRY_RUNS - 1 && searched;
        bool short_way = is_taught(s) && s->a.budgets->n > 1; /* one device is searched quickly */
        s->ask.work_limit = !s->ask.observed ? VR_WORK_ROUGH : last ? CHECK_WORK : short_way ? TAUGHT_WORK : 0;
        if (!vr_outcome_start(&s->a, &now, err)) return false;
        s->ask.seed = seed.n_stations ? &seed : NULL;
        bool made = vr_plan_make(&s->ask, &now.arena, &plan, err);
        s->ask.seed = NULL;
        if (!made) {
            if (!found || err->code != VR_ENOFIT) return false;
            break;
        }
        if (!found && is_hopeless(s, &plan))
            return vr_fail(err, VR_ENOFIT, "no placement is as fast as it would have to be");
        double gain = 1, cost;
        if (found && !vr_plan_cost(&s->ask, best_plan, &cost, err)) return false;
        if (found) gain = 1 - plan.cost / cost;
        double worth = dry_runs > 1 ? WORTH : is_taught(s) ? LITTLE : SAME;
        if (found && (gain < worth || dry_runs == ENOUGH_DRY_RUNS)) {
            if (!settle(s, best_plan, &plan, best, err)) return false;
            break;
        }
        if (dry_runs == MAX_DRY_RUNS) break;
        if (!vr_plan_copy(&plan, &arena, &seed, err)) return false;
        const struct vr_overheads before = s->overheads;
        bool knew = s->ask.observed;
        if (!confirm(s, &plan, &now, err)) return false;
        now.optimize = goal;
        if (!now.verdict.fits || (found && now.verdict.cost[goal] >= best->verdict.cost[goal])) continue;
        now.given = plan.fastest > 0 ? plan.cost / plan.fastest - 1 : 0;
        vr_outcome_move(best, &now);
        *best_plan = plan;
        found = true;
        if (knew && memcmp(&before, &s->overheads, sizeof before) == 0) { /* the same plan would be made again */
            if (!settle(s, &plan, &plan, best, err)) return false;
            dry_runs++;
            break;
        }
    }
    best->dry_runs = dry_runs;
    if (found && s->lessons && !vr_plan_copy(best_plan, &s->lessons->arena, &s->lessons->seed, err)) return false;
    return found || vr_fail(err, VR_ENOFIT,
                            "no placement was confirmed within %d dry runs: raise --reserve-mib, or set one with "
                            "--tensor-split",
                            MAX_DRY_RUNS);
}

static uint64_t host_bytes(const struct vr_verdict *v) { return v->host.model_bytes + v->host.context_bytes; }

/* Whether a second look found something: faster, with no more weights on the host; and when it is hardly faster, with
 * nothing else to pay for it. */
static bool is_better(const struct vr_verdict *now, const struct vr_verdict *best, enum vr_optimize goal)
{
    if (!now->fits || now->cost[goal] >= best->cost[goal]) return false;
    if (now->host.model_bytes > best->host.model_bytes) return false;
    if (now->cost[goal] < best->cost[goal] * (1 - VR_TIE)) return true;
    return now->cost[VR_OPTIMIZE_PREFILL] <= best->cost[VR_OPTIMIZE_PREFILL] && host_bytes(now) <= host_bytes(best);
}

/* A second look at a plan with weights on the host: a longer search from there, with FFN matrices free to be anywhere.
 * A plan that fails by its buffers is made to fit what it has shown. */
static bool look_again(struct vr_planner *s, const struct vr_plan *plan, struct vr_outcome *best, struct vr_err *err)
{
    enum vr_optimize goal = best->optimize;
    VR_AUTO_OUTCOME failed = { 0 };
    struct vr_plan near;
    s->ask.work_limit = AGAIN_WORK;
    for (unsigned i = 0;; i++) {
        VR_AUTO_OUTCOME now = { 0 };
        struct vr_plan found;
        struct vr_err why = { 0 };
        double cost;
        if (!vr_outcome_start(&s->a, &now, err)) return false;
        if (!vr_plan_make(&s->ask, &now.arena, &found, &why)) /* not with the buffers that the last one has shown */
            return why.code == VR_ENOFIT || vr_fail(err, why.code, "%s", why.msg);
        if (!vr_plan_cost(&s->ask, plan, &cost, err)) return false;
        if (i == AGAIN_DRY_RUNS || found.cost > cost * (1 - WORTH)) return settle(s, plan, &found, best, err);
        if (!confirm(s, &found, &now, err)) return false;
        now.optimize = goal;
        now.dry_runs = ++best->dry_runs;
        if (is_better(&now.verdict, &best->verdict, goal)) {
            vr_outcome_move(best, &now);
            return settle(s, &found, &found, best, err);
        }
        if (now.verdict.fits) return settle(s, plan, &found, best, err);
        vr_outcome_move(&failed, &now);
        near = found;
        s->ask.near = &near;
        s->ask.work_limit = VR_WORK_HASTY;
    }
}

static bool iterate(struct vr_planner *s, enum vr_optimize goal, struct vr_outcome *best, struct vr_err *err)
{
    struct vr_plan plan = { 0 };
    if (!find(s, goal, &plan, best, err)) return false;
    double gap = best->optimal ? 0 : best->verdict.cost[goal] / best->lower_bound - 1;
    if (s->whole_layers || !vr_plan_improvable(&s->ask, &plan, gap)) return true;
    s->ask.known = &plan;
    bool ok = look_again(s, &plan, best, err);
    s->ask.known = s->ask.near = NULL;
    return ok;
}

/* --n-gpu-layers leaves more on the host than it has: that, and not the model, is what does not fit. */
static bool too_much_for_host(const struct vr_planner *s, struct vr_num *num, struct vr_err *err)
{
    const struct vr_footprint *f = &s->footprint;
    uint32_t n_gpu = s->ask.fixed.n_gpu_layers, n_host = n_gpu <= f->n_layers ? f->n_layers + 1 - n_gpu : 0;
    uint64_t bytes = f->input_host_bytes, have = s->a.machine->host.ram_free_bytes;
    if (n_host > f->n_layers) n_host = f->n_layers;
    for (uint32_t i = 0; i < n_host; i++)
        bytes += f->layers[i].weights_host_bytes + f->layers[i].kv_host_bytes + f->layers[i].state_host_bytes;
    if (bytes <= have) return false;
    struct vr_num x;
    vr_fail(err, VR_ENOFIT,
            "%s does not fit: --n-gpu-layers %" PRIu32 " leaves %" PRIu32
            " layers in host memory, which need %s of the "
            "%s that are free; raise it, or leave it to the planner",
            s->a.model->name, n_gpu, n_host, vr_fmt_bytes(num, bytes), vr_fmt_bytes(&x, have));
    return true;
}

/* Nothing fits: how much is missing, and what would be needed instead. */
static bool explain_shortage(const struct vr_planner *s, struct vr_err *err)
{
    const struct vr_footprint *f = &s->footprint;
    uint64_t have = s->a.machine->host.ram_free_bytes, cache = f->kv_host_bytes + f->state_host_bytes;
    for (size_t i = 0; i < s->a.budgets->n; i++) have += s->a.budgets->items[i].budget_bytes;
    uint64_t weights = f->weights_host_bytes + f->input_host_bytes + f->output_host_bytes;
    struct vr_num x, y, z, w;
    if (s->ask.fixed.has_gpu_layers && too_much_for_host(s, &w, err)) return false;
    if (f->input_host_bytes > s->a.machine->host.ram_free_bytes)
        return vr_fail(err, VR_ENOFIT,
                       "%s does not fit: its token embeddings (%s) always stay in host memory, and %s is free",
                       s->a.model->name, vr_fmt_bytes(&x, f->input_host_bytes),
                       vr_fmt_bytes(&y, s->a.machine->host.ram_free_bytes));
    if (weights + cache <= have)
        return vr_fail(err, VR_ENOFIT,
                       "%s does not fit: weights (%s) and KV cache (%s) would, but not together with the compute "
                       "buffers; try a "
                       "smaller --n-ctx or --n-ubatch, or --allow ctx,kv",
                       s->a.model->name, vr_fmt_bytes(&x, weights), vr_fmt_bytes(&y, cache));
    uint64_t missing = weights + cache - have;
    vr_fail(err, VR_ENOFIT,
            "%s does not fit: weights (%s) and KV cache (%s) exceed the memory of devices and host by %s",
            s->a.model->name, vr_fmt_bytes(&x, weights), vr_fmt_bytes(&y, cache), vr_fmt_bytes(&z, missing));
    if (cache > missing)
        return vr_fail_more(
            err, "; a context of about %s tokens would fit, or --allow ctx,kv",
            vr_fmt_count(&w, (uint64_t)((double)f->n_ctx * (double)(cache - missing) / (double)cache) / 256 * 256));
    if (have <= cache)
        return vr_fail_more(err,
                            "; the KV cache of %s tokens alone is too large: use a smaller --n-ctx and a "
                            "smaller quantization",
                            vr_fmt_count(&w, f->n_ctx));
    return vr_fail_more(err,
                        "; no context is small enough: with the KV cache of %s tokens, a quantization of at most "
                        "about %s would fit",
                        vr_fmt_count(&w, f->n_ctx), vr_fmt_bytes(&x, have - cache));
}

/* --- from one context to the next --- */

/* Adapters, until a dry run has counted them: spread as the model will be where memory is short. */
static void expect_loras(const struct vr_fit_ask *a, struct vr_overheads *guess)
{
    double all = 0;
    for (size_t i = 0; i < a->budgets->n; i++) all += (double)a->budgets->items[i].budget_bytes;
    for (size_t i = 0; all > 0 && i < a->budgets->n; i++) {
        const struct vr_budget *b = &a->budgets->items[i];
        guess->devices[b->device].overhead_bytes += (uint64_t)((double)a->lora_bytes * (double)b->budget_bytes / all);
    }
}

/* What known overheads are compared by: plans that learn from each other have the same context. */
static double tokens_of(const struct vr_planner *s)
{
    return s->lessons ? s->load.context.n_ubatch : s->a.context.n_ctx;
}

/* Overheads from what was found for others: on a line through two of them, or as the guess grows. */
static void grow(const struct vr_known *known, size_t n, double tokens, const struct vr_overheads *guess,
                 struct vr_overheads *out)
{
    bool line = n == 2;
    double from = known[0].tokens, steps = line ? (tokens - from) / (from - known[1].tokens) : 0;
    *out = known[0].found;
    for (size_t d = 0; d < VR_MAX_DEVICES; d++)
        for (unsigned i = 0; i < VR_N_SITUATIONS; i++) {
            double found = (double)known[0].found.devices[d].compute_bytes[i];
            double more = line ? steps * (found - (double)known[1].found.devices[d].compute_bytes[i])
                               : (double)guess->devices[d].compute_bytes[i] -
                                     (double)known[0].guessed.devices[d].compute_bytes[i];
            out->devices[d].compute_bytes[i] = (uint64_t)fmax(found + more, 0);
        }
}

/* Overheads for the present context: as guessed, or grown from what was found for another one. */
static void expect_overheads(struct vr_planner *s)
{
    struct vr_overheads guess;
    vr_overheads_guess(s->a.model, &s->load.context, s->load.n_outputs, &s->footprint, s->a.machine, &guess);
    expect_loras(&s->a, &guess);
    s->overheads = guess;
    if (s->n_known) grow(s->known, s->n_known, tokens_of(s), &guess, &s->overheads);
    s->guess = guess;
}

/* One more, if it is so far from the others that a line can be drawn. */
static void remember(struct vr_known known[2], size_t *n, const struct vr_known *now)
{
    double was = known[0].tokens;
    if (*n && fabs(was - now->tokens) > floor(was / APART)) {
        known[1] = known[0];
        *n = 2;
    }
    known[0] = *now;
    if (!*n) *n = 1;
}

/* Nothing is known of the present context yet, but for lessons. */
static void begin(struct vr_planner *s)
{
    expect_overheads(s);
    vr_observed_done(&s->observed);
    s->ask.observed = is_taught(s) ? &s->lessons->observed : NULL;
    s->ask.no_pipeline = false;
    s->ask.optimize = s->goal;
    memset(s->least_bytes, 0, sizeof s->least_bytes);
}

static bool set_context(struct vr_planner *s, uint32_t n_ctx, struct vr_err *err)
{
    s->a.context.n_ctx = n_ctx;
    s->load = vr_fit_params(&s->a);
    vr_footprint_done(&s->footprint);
    if (!vr_footprint_compute(s->a.model, &s->load.context, &s->footprint, err)) return false;
    begin(s);
    return true;
}

/* The plan for the goal that was asked for. The planner's count is good, but the dry run has the last word, and nobody
 * should get a better figure by asking for something else: so the best of the plans for each goal. Token generation is
 * what most people ask for, and counted well enough to need no second opinion. */
static bool iterate_goals(struct vr_planner *s, struct vr_outcome *best, struct vr_err *err)
{
    enum vr_optimize goal = s->goal;
    if (!iterate(s, goal, best, err)) return false;
    for (enum vr_optimize other = 0; goal != VR_OPTIMIZE_DECODE && other < VR_N_GOALS; other++) {
        VR_AUTO_OUTCOME rival = { 0 };
        struct vr_err why = { 0 };
        if (other == goal) continue;
        begin(s);
        if (!iterate(s, other, &rival, &why)) {
            if (why.code != VR_ENOFIT) return vr_fail(err, why.code, "%s", why.msg);
            continue;
        }
        uint32_t dry_runs = best->dry_runs + rival.dry_runs;
        if (rival.verdict.cost[goal] < best->verdict.cost[goal]) {
            rival.lower_bound = fmin(best->lower_bound, rival.verdict.cost[goal]);
            rival.optimal = false;
            rival.optimize = goal;
            vr_outcome_move(best, &rival);
        }
        best->dry_runs = dry_runs;
    }
    return true;
}

bool vr_planner_open(struct vr_planner *s, const struct vr_fit_ask *a, const struct vr_goal *w, struct vr_err *err)
{
    *s = (struct vr_planner){ .a = *a,
                              .goal = w->optimize,
                              .splits = w->splits,
                              .whole_layers = w->whole_layers,
                              .unsplit = w->unsplit,
                              .worth = w->worth,
                              .lessons = w->lessons,
                              .prober = { .fd = -1 } };
    s->ask = (struct vr_ask){ .model = a->model,
                              .context = &s->load.context,
                              .footprint = &s->footprint,
                              .machine = a->machine,
                              .budgets = a->budgets,
                              .speeds = a->speeds,
                              .overheads = &s->overheads,
                              .fill = a->fill,
                              .n_prompt = a->n_prompt,
                              .fixed = w->fixed };
    if (a->head && a->head_placed) {
        s->ask.fixed.anchor.n = vr_head_anchors(a->model, a->head, s->ask.fixed.anchor.stations);
        s->ask.fixed.anchor.device = a->head_device;
    }
    if (w->lessons) {
        memcpy(s->known, w->lessons->known, sizeof s->known);
        s->n_known = w->lessons->n_known;
    }
    return vr_prober_open(a->model, &s->prober, err);
}

void vr_planner_close(struct vr_planner *s)
{
    if (s->prober.fd >= 0) vr_prober_close(&s->prober);
    vr_observed_done(&s->observed);
    vr_footprint_done(&s->footprint);
}

void vr_planner_forget(struct vr_planner *s) { s->n_known = 0; }

bool vr_planner_prove(struct vr_planner *s, uint32_t n_ctx, struct vr_outcome *out, struct vr_err *err)
{
    if (!set_context(s, n_ctx, err)) return false;
    bool ok = iterate_goals(s, out, err) || (err->code == VR_ENOFIT && explain_shortage(s, err));
    if (out->dry_runs) remember(s->known, &s->n_known, &(struct vr_known){ tokens_of(s), s->guess, s->overheads });
    return ok;
}

bool vr_planner_look(struct vr_planner *s, const struct vr_outcome *o, struct vr_err *err)
{
    struct vr_verdict same;
    if (s->observed.rows && s->a.context.n_ctx == o->trial.context.n_ctx) return true;
    if (!set_context(s, o->trial.context.n_ctx, err)) return false;
    struct vr_judge_setup setup = vr_outcome_setup(&s->a, &s->prober);
    setup.observed = &s->observed;
    setup.n_layers = s->footprint.n_layers;
    return vr_judge(&setup, &o->trial, &same, err);
}

bool vr_planner_guess(struct vr_planner *s, uint32_t n_ctx, struct vr_arena *arena, struct vr_plan *out,
                      struct vr_err *err)
{
    if (!set_context(s, n_ctx, err)) return false;
    s->ask.work_limit = QUICK_WORK;
    bool ok = vr_plan_make(&s->ask, arena, out, err);
    s->ask.work_limit = 0;
    return ok;
}

struct vr_lessons *vr_lessons_new(void) { return calloc(1, sizeof(struct vr_lessons)); }

void vr_lessons_free(struct vr_lessons *l)
{
    if (!l) return;
    vr_observed_done(&l->observed);
    vr_arena_done(&l->arena);
    free(l);
}

static void teach(struct vr_planner *s)
{
    struct vr_lessons *l = s->lessons;
    if (!l) return;
    memcpy(l->known, s->known, sizeof l->known);
    l->n_known = s->n_known;
    if (l->observed.rows) return;
    l->observed = s->observed;
    s->observed = (struct vr_observed){ 0 };
}

void vr_lessons_learn(struct vr_lessons *l, const struct vr_fit_ask *a, const struct vr_load_params *trial,
                      const struct vr_verdict *v)
{
    unsigned situation[VR_MAX_PLACED];
    uint64_t least[VR_MAX_DEVICES][VR_N_SITUATIONS] = { 0 };
    if (!l->n_known || trial->split_mode == VR_SPLIT_TENSOR) return;
    struct vr_known now = { .tokens = trial->context.n_ubatch };
    struct vr_footprint f = { 0 };
    struct vr_err no;
    if (!vr_footprint_compute(a->model, &trial->context, &f, &no)) return;
    vr_overheads_guess(a->model, &trial->context, trial->n_outputs, &f, a->machine, &now.guessed);
    vr_footprint_done(&f);
    grow(l->known, 1, now.tokens, &now.guessed, &now.found); /* where it shows nothing */
    bool on_host = v->host.model_bytes > a->model->input_bytes + VR_MIB;
    for (size_t i = 0; i < v->n_devices; i++)
        situation[i] = (i == 0 && on_host ? VR_SIT_FIRST : 0) | (i + 1 == v->n_devices ? VR_SIT_OUTPUT : 0) |
                       (v->pipeline ? VR_SIT_PIPELINE : 0);
    learn_compute(&(struct shown){ a->machine, v, situation, v->n_devices }, &now.found, least);
    remember(l->known, &l->n_known, &now);
}

static bool plan_alone(const struct vr_fit_ask *a, const void *wish, struct vr_outcome *out, struct vr_err *err)
{
    const struct vr_goal *w = wish;
    double t0 = vr_now_fine_ms();
    struct vr_planner *s = malloc(sizeof *s);
    if (!s) return vr_fail_nomem(err, "planning");
    bool ok = vr_planner_open(s, a, w, err) && vr_planner_prove(s, a->context.n_ctx, out, err) &&
              vr_planner_spread(s, out, err);
    teach(s);
    vr_planner_close(s);
    free(s);
    out->ms = vr_now_fine_ms() - t0;
    return ok && vr_outcome_explain(a, &w->fixed, out, err);
}

bool vr_fit_plan(const struct vr_fit_ask *a, const struct vr_goal *w, struct vr_outcome *out, struct vr_err *err)
{
    if (vr_companions_any(a)) return vr_companions_place(a, plan_alone, w, true, out, err);
    return plan_alone(a, w, out, err);
}
