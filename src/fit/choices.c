/* Choices beside the placement, each for one more dry run or plan at most.
 *
 * The first plan has micro-batches of 512 tokens, which take the least memory, and everything else as llama.cpp has it.
 * It is the fastest at token generation. Then:
 *
 * - devices: as long as the others have room for what the emptiest one holds, a plan without it is tried;
 * - how prompts are computed: the graph of the dry run tells what other settings would bring (ways.h). The best of them
 *   are tried with the same placement, which then generates as fast; where their buffers do not fit, a plan is made for
 *   them, unless the weights that must make room would alone cost more than 1 % wherever they go. */
#include "fit/choices.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "fit/outcome.h"

#define SLOWER        0.01 /* of token generation, that a choice may cost */
#define SURELY        0.8  /* of that, by an estimate */
#define FASTER        1.05 /* prompts: less is not worth larger buffers … */
#define WORTH_PINNING 1.2  /* … and less than this not a load that takes longer */
#define WORTH_TELLING 1.3  /* what somebody who decided otherwise might want to know */
#define WORTH_ROOM    2e-3 /* of token generation: less is not worth a plan of its own */
#define HOST_SHARE    0.90 /* of free host memory that may be pinned */
#define NEAR          2    /* a threshold must be so many times the engine's own to be worth a change */

/* How prompts are computed. */
struct setting {
    uint8_t wider; /* n_ubatch is the first plan's << wider */
    enum vr_loading loading;
    uint32_t offload_min;
};

/* What a setting takes on devices where everything stays where it is: of the budgets, beyond them, and more than before
 * on the device where that is most. */
struct extra {
    double over_bytes, most_bytes;
};

struct chooser {
    const struct vr_fit_ask *given;
    const struct vr_goal *goal;
    const struct vr_open *open;
    struct vr_fit_ask ask; /* with what was chosen so far */
    struct vr_budgets budgets;
    struct vr_speeds *pinned;
    struct vr_lessons *lessons;
    double fastest;        /* token generation: no plan may be slower by more than SLOWER … */
    double spared_percent; /* … and this is what devices that were spared would bring */
    double other_prompts;  /* of the split mode that was left for the other, with the micro-batch it had */
    struct extra over;     /* of a micro-batch that did not fit, and how wide it was: those below take less */
    uint8_t over_wider;
    uint32_t dry_runs;
    struct vr_reason context; /* of a largest context, to be told first */
    bool has_context;
};

static uint64_t bit(int device) { return UINT64_C(1) << device; }

static bool for_decode(const struct chooser *c) { return c->goal->optimize == VR_OPTIMIZE_DECODE; }

static double slowest(const struct chooser *c) { return c->fastest * (1 + SLOWER); }

/* What rules a choice out and is no error: the first plan still stands. The engine has limits of its own, too. */
static bool rules_out(const struct vr_err *why)
{
    return why->code == VR_ENOFIT || why->code == VR_EENGINE || why->code == VR_ESPLIT;
}

/* A plan for what is asked now, which leaves no more room for a split than `was` had; false with VR_OK: none fits.
 * Token generation does not get faster by that: layers that were better whole stay whole. */
static bool plan(struct chooser *c, const struct vr_fit_ask *ask, const struct vr_outcome *was, struct vr_outcome *out,
                 struct vr_err *err)
{
    struct vr_err why = { 0 };
    struct vr_goal goal = *c->goal;
    bool unsplit = goal.splits == VR_SPLITS_ALL && was->trial.split_mode != VR_SPLIT_TENSOR;
    bool alone = !vr_companions_any(ask); /* else every place for a companion leaves other room */
    if (for_decode(c) && unsplit && alone) goal.unsplit = was;
    if (for_decode(c) && alone && (unsplit || goal.splits == VR_SPLITS_LAYER))
        goal.worth = was->verdict.cost[VR_OPTIMIZE_DECODE] / was->verdict.price.step_ms[VR_DECODE] * slowest(c);
    if (alone) goal.lessons = c->lessons;
    bool ok = vr_fit_plan(ask, &goal, out, &why);
    c->dry_runs += out->dry_runs;
    if (!ok && !rules_out(&why)) *err = why;
    return ok;
}

/* --- devices --- */

static bool named_by_user(const struct chooser *c, int device)
{
    const struct vr_fixed *f = &c->goal->fixed;
    for (size_t i = 0; i < f->n_overrides; i++)
        if (f->overrides[i].device == device) return true;
    return false;
}

/* The device with the least on it that could be done without; -1: none. */
static int emptiest(const struct chooser *c, const struct vr_outcome *o)
{
    const struct vr_verdict *v = &o->verdict;
    uint64_t least = UINT64_MAX;
    int device = -1;
    for (size_t i = 0; i < v->n_devices; i++) {
        const struct vr_judged *j = &v->devices[i];
        uint64_t bytes = j->use.model_bytes + j->use.context_bytes;
        if (named_by_user(c, j->device) || vr_outcome_companion_bytes(o, j->device) || bytes >= least) continue;
        least = bytes;
        device = j->device;
    }
    return device;
}

static struct vr_budget *budget_of(struct chooser *c, int device)
{
    struct vr_budget *b = c->budgets.items;
    while (b->device != device) b++;
    return b;
}

/* What weights of this model cost on the host beyond what they cost on devices, per byte and step, by the plan. */
static double host_ms_per_byte(const struct chooser *c, const struct vr_outcome *o)
{
    const struct vr_verdict *v = &o->verdict;
    const struct vr_model *m = c->ask.model;
    double device_ms = 0, device_bytes = 0, bytes = (double)v->host.model_bytes - (double)m->input_bytes;
    for (size_t i = 0; i < v->n_devices; i++) {
        device_ms += v->devices[i].ms[VR_DECODE];
        device_bytes += (double)v->devices[i].use.model_bytes;
    }
    if (o->trial.split_mode == VR_SPLIT_TENSOR && v->n_devices) device_ms /= (double)v->n_devices; /* all at once */
    double on_device = device_bytes > 0 ? device_ms / device_bytes : 0;
    if (bytes > 0.01 * (double)m->tensor_bytes) return fmax(v->host_ms[VR_DECODE] / bytes - on_device, 0);
    double used = m->n_expert ? (double)m->n_expert_used / m->n_expert : 1; /* none is there yet */
    return fmax(used / (c->ask.speeds->places[VR_SPEED_HOST].gbs * 1e6) - on_device, 0);
}

/* Split mode tensor with experts on the host: in less room those of one more layer follow, whole as they are. */
static bool splits_some(const struct chooser *c, const struct vr_outcome *o)
{
    return o->trial.split_mode == VR_SPLIT_TENSOR && o->verdict.host.model_bytes > c->ask.model->input_bytes + VR_MIB;
}

/* The least that the experts of a layer take; 0: no layer has any. */
static double layer_of_experts(const struct vr_model *m)
{
    double least = 0;
    for (uint32_t i = 0; i < m->n_layers; i++) {
        double bytes = (double)m->layers[i].role_bytes[VR_ROLE_EXPERT];
        if (bytes > 0 && (least == 0 || bytes < least)) least = bytes;
    }
    return least;
}

/* What a step takes longer when weights make room for that: other devices in use have them, as far as there is room
 * beside what the setting takes there, and then the host. */
static double leaving_ms(struct chooser *c, const struct vr_outcome *o, const struct extra *x)
{
    const struct vr_verdict *v = &o->verdict;
    if (splits_some(c, o) && x->over_bytes > 0)
        return fmax(x->over_bytes, layer_of_experts(c->ask.model)) * host_ms_per_byte(c, o);
    double room = 0, least = INFINITY, most = 0; /* per byte */
    for (size_t i = 0; i < v->n_devices; i++) {
        const struct vr_judged *j = &v->devices[i];
        double each = j->ms[VR_DECODE] / (double)(j->use.model_bytes + j->use.context_bytes);
        double left = (double)budget_of(c, j->device)->budget_bytes - (double)vr_judged_bytes(j) - x->most_bytes;
        least = fmin(least, each);
        if (left > 0) room += left, most = fmax(most, each);
    }
    if (x->over_bytes <= room) return x->over_bytes * (most - least);
    return room * fmax(most - least, 0) + (x->over_bytes - room) * host_ms_per_byte(c, o);
}

/* Whether a step may take so much longer. */
static bool affords(const struct chooser *c, const struct vr_outcome *o, double ms)
{
    return o->verdict.price.step_ms[VR_DECODE] + ms <= c->fastest * (1 + SURELY * SLOWER);
}

/* Could the others hold what is on this one, but for what the host may take? */
static bool has_room_without(struct chooser *c, const struct vr_outcome *o, int device)
{
    const struct vr_verdict *v = &o->verdict;
    double need = 0, room = 0, slower = o->fewer_bound / v->cost[VR_OPTIMIZE_DECODE];
    if (slower * v->price.step_ms[VR_DECODE] > slowest(c)) return false; /* a split known to be so */
    for (size_t i = 0; i < v->n_devices; i++) {
        const struct vr_judged *j = &v->devices[i];
        double use = (double)vr_use_bytes(&j->use), held = (double)(j->use.model_bytes + j->use.context_bytes);
        if (j->device == device)
            need = held;
        else /* without a pipeline's copies there is more */
            room += (double)budget_of(c, j->device)->budget_bytes - (v->pipeline ? held : use);
    }
    return affords(c, o, fmax(need - room, 0) * host_ms_per_byte(c, o));
}

/* As few devices as token generation does with. */
static bool spare_devices(struct chooser *c, struct vr_outcome *o, struct vr_err *err)
{
    for (int device; o->verdict.n_devices > 1 && (device = emptiest(c, o)) >= 0;) {
        if (!has_room_without(c, o, device)) return true;
        struct vr_budget *b = budget_of(c, device), was = *b;
        struct vr_fit_ask ask = c->ask;
        VR_AUTO_OUTCOME now = { 0 };
        b->budget_bytes = 0;
        ask.spared |= bit(device);
        bool ok = plan(c, &ask, o, &now, err);
        if (!ok && err->code != VR_OK) return false;
        if (!ok || now.verdict.n_devices >= o->verdict.n_devices || now.verdict.price.step_ms[VR_DECODE] > slowest(c)) {
            *b = was;
            return true;
        }
        c->ask = ask;
        c->spared_percent = 100 * (now.verdict.price.step_ms[VR_DECODE] / c->fastest - 1);
        vr_outcome_move(o, &now);
    }
    return true;
}

/* --- how prompts are computed --- */

static struct setting setting_now(const struct chooser *c)
{
    return (struct setting){ .loading = c->ask.speeds->pinned ? VR_PINNED : VR_MAPPED,
                             .offload_min = c->ask.offload_min ? c->ask.offload_min : VR_OFFLOAD_MIN };
}

/* Prompts with a setting, by the first plan's graph. */
static double tok_s(const struct vr_ways *w, const struct setting *s)
{
    bool sent = (w->n_ubatch << s->wider) >= s->offload_min;
    return sent ? w->sent_tok_s[s->loading][s->wider] : w->host_tok_s[s->wider];
}

/* From which batch on weights are sent: where that begins to pay. Never earlier than the engine would by itself: it
 * counts rows, and the norms of a single token's heads are as many. */
static uint32_t threshold(const struct chooser *c, const struct vr_ways *w, const struct setting *s)
{
    uint32_t pays = w->pays[s->loading];
    return c->open->offload_min && pays >= s->offload_min * NEAR ? pays : s->offload_min;
}

/* Pinned memory cannot be given back: the host must have enough besides. */
static bool can_pin(const struct chooser *c, const struct vr_outcome *o)
{
    double need = (double)vr_use_bytes(&o->verdict.host);
    for (size_t i = 0; i < o->n_companions; i++) need += (double)vr_use_bytes(&o->companions[i].host);
    return need <= HOST_SHARE * (double)c->ask.machine->host.ram_free_bytes;
}

/* Micro-batches go up to what one can be given, a sequence can hold, and the prompt has whose speed counts. */
static bool can_widen(const struct chooser *c, const struct vr_outcome *o, const struct vr_ways *w, uint8_t wider)
{
    uint32_t n = w->n_ubatch << wider, n_seq = o->verdict.n_seq, n_ctx = o->verdict.n_ctx;
    uint32_t n_ctx_seq = n_seq && !c->ask.context.kv_unified ? n_ctx / n_seq : n_ctx;
    return wider == 0 || (c->open->n_ubatch && n <= n_ctx_seq && n <= vr_prompt_tokens(c->ask.n_prompt, 0) &&
                          (!c->open->most_ubatch || n <= c->open->most_ubatch));
}

/* The best by the estimate, of micro-batches up to `most`. Larger ones, and pinned memory, must be worth it. */
static struct setting best_setting(const struct chooser *c, const struct vr_outcome *o, uint8_t most)
{
    const struct vr_ways *w = &o->verdict.ways;
    const struct setting now = setting_now(c);
    struct setting best = now;
    for (enum vr_loading l = now.loading; l < VR_N_LOADINGS; l++) {
        if (l != now.loading && (!c->open->host_weights || !w->pays[l] || !can_pin(c, o))) break;
        for (uint8_t wider = 0; wider <= most && can_widen(c, o, w, wider); wider++) {
            struct setting s = { wider, l, now.offload_min };
            s.offload_min = threshold(c, w, &s);
            double least = l != best.loading     ? WORTH_PINNING
                           : wider != best.wider ? FASTER
                                                 : 0; /* by itself it is free */
            if (tok_s(w, &s) >= tok_s(w, &best) * least) best = s;
        }
    }
    return best;
}

static void apply(struct chooser *c, const struct setting *s, uint32_t n_ubatch, struct vr_fit_ask *ask)
{
    *ask = c->ask;
    ask->context.n_ubatch = n_ubatch << s->wider;
    if (ask->context.n_batch < ask->context.n_ubatch) ask->context.n_batch = ask->context.n_ubatch;
    ask->offload_min = s->offload_min;
    if (s->loading == VR_PINNED && !ask->speeds->pinned) ask->speeds = c->pinned;
}

static double used_bytes(const struct vr_outcome *o)
{
    double sum = 0;
    for (size_t i = 0; i < o->verdict.n_devices; i++) sum += (double)vr_judged_bytes(&o->verdict.devices[i]);
    return sum;
}

/* A dry run of a placement that is there already. */
static bool judge_again(struct chooser *c, const struct vr_fit_ask *ask, const struct vr_load_params *trial,
                        struct vr_verdict *out, struct vr_err *err)
{
    struct vr_prober prober;
    if (!vr_prober_open(ask->model, &prober, err)) return false;
    struct vr_judge_setup setup = vr_outcome_setup(ask, &prober);
    bool ok = vr_judge(&setup, trial, out, err);
    vr_prober_close(&prober);
    c->dry_runs++;
    return ok;
}

static struct extra extra_of(const struct vr_verdict *now, const struct vr_verdict *was)
{
    struct extra x = { 0 };
    for (size_t i = 0; i < now->n_devices; i++) {
        x.over_bytes += (double)now->devices[i].over_bytes;
        x.most_bytes =
            fmax(x.most_bytes, (double)vr_judged_bytes(&now->devices[i]) - (double)vr_judged_bytes(&was->devices[i]));
    }
    return x;
}

struct tried {
    bool took; /* the outcome has this setting now */
    bool
        by_itself; /* what it costs, it costs where everything stays where it is: less room would make nothing faster */
    bool in_vain;  /* prompts are slower with it */
    double cost;   /* of token generation, as a share */
};

/* The same placement with other settings: `o` is what it becomes if it fits, is no slower than it may be, and keeps
 * what the estimate promised for prompts (which knows no caches that grow with a micro-batch). */
static bool keeps_placement(struct chooser *c, const struct vr_fit_ask *ask, struct vr_outcome *o, struct tried *t,
                            struct extra *extra, struct vr_err *err)
{
    struct vr_verdict *v = malloc(sizeof *v);
    if (!v) return vr_fail_nomem(err, "planning");
    struct vr_load_params trial = o->trial, asked = vr_fit_params(ask);
    trial.context = asked.context;
    trial.n_outputs = asked.n_outputs;
    trial.mmap = asked.mmap;
    trial.offload_min = asked.offload_min;
    struct vr_err why = { 0 };
    bool ok = judge_again(c, ask, &trial, v, &why);
    if (!ok && !rules_out(&why)) *err = why;
    if (ok) vr_lessons_learn(c->lessons, ask, &trial, v);
    double slower = ok ? v->price.step_ms[VR_DECODE] / c->fastest - 1 : 0;
    *extra = ok ? extra_of(v, &o->verdict) : (struct extra){ INFINITY, INFINITY };
    t->in_vain = ok && v->fits && v->price.prefill_tok_s < o->verdict.price.prefill_tok_s;
    t->took = ok && v->fits && !t->in_vain && v->pipeline == o->verdict.pipeline && slower <= SLOWER;
    t->by_itself = ok && extra->over_bytes == 0 && slower > SLOWER;
    if (t->by_itself) t->cost = slower;
    if (t->took) {
        struct vr_reason split[VR_MAX_REASONS];
        size_t n_split = vr_outcome_split_reasons(o, &v->price, split);
        o->trial = trial;
        o->verdict = *v;
        o->n_reasons = 0;
        vr_outcome_explain_verdict(o);
        ok = vr_outcome_explain(ask, &c->goal->fixed, o, err);
        for (size_t i = n_split; i-- > 0;) vr_outcome_reason_first(o, &split[i]);
    }
    free(v);
    return ok || err->code == VR_OK;
}

/* Is the plan for other settings one to take instead? */
static bool is_better(const struct chooser *c, const struct vr_outcome *now, const struct vr_outcome *was)
{
    enum vr_optimize goal = c->goal->optimize;
    if (!for_decode(c)) return now->verdict.cost[goal] < was->verdict.cost[goal];
    if (now->verdict.price.prefill_tok_s < was->verdict.price.prefill_tok_s) return false;
    return now->verdict.n_devices <= was->verdict.n_devices && now->verdict.price.step_ms[VR_DECODE] <= slowest(c);
}

/* What a setting takes beyond the budgets where everything stays where it is, in proportion to one that was tried. */
static struct extra expected_extra(const struct chooser *c, const struct setting *s)
{
    double part = (double)((1 << s->wider) - 1) / ((1 << c->over_wider) - 1);
    return (struct extra){ c->over.over_bytes * part, c->over.most_bytes * part };
}

/* A setting that needs less memory lets more weights onto the devices, if there are any to come. */
static bool use_room(struct chooser *c, const struct vr_fit_ask *ask, double freed_bytes, struct vr_outcome *o,
                     struct vr_err *err)
{
    double step_ms = o->verdict.price.step_ms[VR_DECODE];
    if (!o->verdict.ways.pays[VR_MAPPED] || freed_bytes * host_ms_per_byte(c, o) < WORTH_ROOM * step_ms) return true;
    VR_AUTO_OUTCOME now = { 0 };
    if (!plan(c, ask, o, &now, err)) return err->code == VR_OK;
    if (now.verdict.price.step_ms[VR_DECODE] < step_ms) vr_outcome_move(o, &now);
    return true;
}

static bool try_setting(struct chooser *c, const struct setting *s, struct vr_outcome *o, struct tried *t,
                        struct vr_err *err)
{
    struct vr_fit_ask ask;
    struct extra extra = { 0 };
    *t = (struct tried){ .took = false };
    apply(c, s, o->verdict.ways.n_ubatch, &ask);
    if (for_decode(c) && !vr_companions_any(&ask)) {
        double used = used_bytes(o);
        if (c->over_wider && s->wider && !splits_some(c, o)) /* those are dear to plan for, and often fit as they are */
            extra = expected_extra(c, s);
        else if (!keeps_placement(c, &ask, o, t, &extra, err))
            return false;
        if (t->took) {
            c->ask = ask;
            return use_room(c, &ask, used - used_bytes(o), o, err);
        }
        if (t->by_itself || t->in_vain) return true;
        double longer_ms = leaving_ms(c, o, &extra);
        t->cost = longer_ms / c->fastest;
        if (!c->over_wider && s->wider) c->over = extra, c->over_wider = s->wider;
        if (!affords(c, o, longer_ms)) return true;
    }
    VR_AUTO_OUTCOME now = { 0 };
    if (!plan(c, &ask, o, &now, err)) return err->code == VR_OK;
    t->cost = now.verdict.price.step_ms[VR_DECODE] / c->fastest - 1;
    t->took = is_better(c, &now, o);
    if (!t->took) return true;
    c->ask = ask;
    vr_outcome_move(o, &now);
    return true;
}

/* --- saying why --- */

static void tell(struct vr_outcome *o, struct vr_reason r) { vr_outcome_reason(o, &r); }

/* `speedup`: by the plans themselves; 0: by the estimate, without what else was chosen. */
static void tell_micro_batch(struct vr_outcome *o, const struct vr_ways *w, const struct setting *s, double speedup)
{
    struct setting narrow = *s;
    narrow.wider = 0;
    if (s->wider)
        tell(o, (struct vr_reason){
                    .kind = VR_REASON_MICRO_BATCH,
                    .figures = { [VR_FIGURE_N_UBATCH] = w->n_ubatch << s->wider,
                                 [VR_FIGURE_USUAL_UBATCH] = w->n_ubatch,
                                 [VR_FIGURE_SPEEDUP] = speedup > 0 ? speedup : tok_s(w, s) / tok_s(w, &narrow) } });
}

static void tell_not_wider(struct vr_outcome *o, const struct vr_ways *w, const struct setting *is,
                           const struct setting *wanted, const struct tried *t)
{
    tell(o, (struct vr_reason){ .kind = VR_REASON_MICRO_BATCH_COSTS,
                                .figures = { [VR_FIGURE_N_UBATCH] = w->n_ubatch << wanted->wider,
                                             [VR_FIGURE_SPEEDUP] = tok_s(w, wanted) / tok_s(w, is),
                                             [VR_FIGURE_SLOWER_PERCENT] = 100 * t->cost,
                                             [VR_FIGURE_FOR_ROOM] = !t->by_itself } });
}

/* Pinned memory: taken, or not because there is not enough, or not because the user wants the file mapped. */
static void tell_loading(const struct chooser *c, struct vr_outcome *o, const struct vr_ways *w,
                         const struct setting *s)
{
    struct setting mapped = *s, pinned = *s;
    mapped.loading = VR_MAPPED;
    pinned.loading = VR_PINNED;
    double speedup = tok_s(w, &mapped) > 0 ? tok_s(w, &pinned) / tok_s(w, &mapped) : 1;
    bool chosen = s->loading == VR_PINNED;
    if (c->given->speeds->pinned || speedup < (chosen ? 1 : WORTH_TELLING)) return;
    tell(o, (struct vr_reason){
                .kind = chosen                  ? VR_REASON_PINNED
                        : c->open->host_weights ? VR_REASON_NOT_PINNED
                                                : VR_REASON_NO_MMAP_FASTER,
                .figures = {
                    [VR_FIGURE_SPEEDUP] = speedup, [VR_FIGURE_HOST_BYTES] = (double)vr_use_bytes(&o->verdict.host) } });
}

static void tell_threshold(const struct chooser *c, struct vr_outcome *o, const struct setting *s)
{
    const struct vr_verdict *v = &o->verdict;
    bool never = s->offload_min > o->trial.context.n_ubatch;
    tell(o, (struct vr_reason){
                .kind = never ? VR_REASON_HOST_PROMPTS : VR_REASON_OFFLOAD_FROM,
                .devices = bit(v->devices[0].device),
                .figures = { [VR_FIGURE_N_TOKENS] = s->offload_min,
                             [VR_FIGURE_LINK_GBS] = c->ask.speeds->places[v->devices[0].device].mapped_gbs } });
}

/* --- all of it --- */

/* The micro-batch with which the other split mode has its fastest prompts; *most: how fast. */
static struct setting best_of_other(const struct chooser *c, const struct vr_outcome *o, double *most)
{
    const struct vr_ways *w = &o->other_ways;
    struct setting s = setting_now(c), best = s;
    *most = 0;
    for (; w->n_ubatch && s.wider < VR_N_WIDER && can_widen(c, o, w, s.wider); s.wider++)
        if (tok_s(w, &s) > *most) *most = tok_s(w, &s), best = s;
    return best;
}

/* The plan for a setting that was taken may be another one altogether (on one device, in the other split mode), and by
 * its graph, or by that of the other mode, still larger micro-batches may pay. *s follows. */
static bool widen_on(struct chooser *c, struct vr_outcome *o, bool taken, struct setting *s, struct vr_err *err)
{
    struct tried t = { .took = taken };
    do {
        const double prompts = o->verdict.price.prefill_tok_s;
        const enum vr_split_mode mode = o->trial.split_mode;
        struct setting more = { 0 };
        double other = 0;
        if (t.took) more = best_setting(c, o, (uint8_t)(VR_N_WIDER - 1 - s->wider));
        if (more.wider == 0) more = best_of_other(c, o, &other);
        if (other > 0 && other < FASTER * prompts) return true;
        if (more.wider == 0 || s->wider + more.wider >= VR_N_WIDER) return true;
        if (!try_setting(c, &more, o, &t, err)) return false;
        if (o->trial.split_mode != mode) c->other_prompts = prompts;
        if (t.took) s->wider += more.wider, s->loading = more.loading, s->offload_min = more.offload_min;
    } while (t.took);
    return true;
}

/* The best setting that is affordable, from the widest on. */
static bool choose_setting(struct chooser *c, struct vr_outcome *o, struct vr_err *err)
{
    const struct vr_ways w = o->verdict.ways; /* of the first plan: `o` will have others */
    const double prompts = o->verdict.price.prefill_tok_s;
    const struct setting was = setting_now(c);
    struct setting s = best_setting(c, o, VR_N_WIDER - 1), wanted = s;
    struct tried t = { .took = false }, wanted_tried = t;
    if (o->verdict.n_devices == 0 || o->trial.embedding_model) return true;
    for (;; s = best_setting(c, o, (uint8_t)(s.wider - 1))) {
        if (s.wider == was.wider && s.loading == was.loading && s.offload_min == was.offload_min) break;
        if (!try_setting(c, &s, o, &t, err)) return false;
        if (s.wider == wanted.wider) wanted_tried = t;
        if (t.took || s.wider == 0) break;
    }
    if (!t.took) s = was;
    if (!for_decode(c) && !widen_on(c, o, t.took, &s, err)) return false;
    tell_micro_batch(o, &w, &s, s.loading == was.loading ? o->verdict.price.prefill_tok_s / prompts : 0);
    if (for_decode(c) && s.wider < wanted.wider && wanted_tried.cost > 0)
        tell_not_wider(o, &w, &s, &wanted, &wanted_tried);
    tell_loading(c, o, &w, &s);
    if (s.offload_min != was.offload_min) tell_threshold(c, o, &s);
    return true;
}

static bool first_plan(struct chooser *c, struct vr_outcome *o, struct vr_err *err)
{
    const struct vr_fit_ask *a = &c->ask;
    struct vr_goal goal = *c->goal;
    if (!vr_companions_any(a)) goal.lessons = c->lessons;
    bool ok = a->context.n_ctx ? vr_fit_plan(a, &goal, o, err) : vr_fit_largest(a, c->goal, o, err);
    if (!ok) return false;
    c->dry_runs = o->dry_runs;
    c->fastest = o->verdict.price.step_ms[VR_DECODE] / (1 + o->given);
    if (a->context.n_ctx) return true;
    c->ask.context.n_ctx = o->verdict.n_ctx;
    c->context = o->reasons[0];
    c->has_context = true;
    return true;
}

static bool choose(struct chooser *c, struct vr_outcome *o, struct vr_err *err)
{
    if (!first_plan(c, o, err)) return false;
    if (for_decode(c) && !spare_devices(c, o, err)) return false;
    if (!choose_setting(c, o, err)) return false;
    double other = 0;
    (void)best_of_other(c, o, &other);
    other = fmax(other, c->other_prompts);
    if (other > 0) vr_outcome_other_prompts(o, other); /* at its best, too */
    for (size_t i = 0; i < o->n_reasons; i++)
        if (o->reasons[i].kind == VR_REASON_SPARED) o->reasons[i].figures[VR_FIGURE_SLOWER_PERCENT] = c->spared_percent;
    if (c->has_context && o->reasons[0].kind != c->context.kind) vr_outcome_reason_first(o, &c->context);
    if (c->given->n_prompt == VR_PROMPT_ENDLESS && !vr_companions_any(&c->ask)) { /* told for, but not chosen by */
        struct vr_fit_ask endless = c->ask;
        endless.n_prompt = VR_PROMPT_ENDLESS;
        if (!judge_again(c, &endless, &o->trial, &o->verdict, err)) return false;
    }
    o->dry_runs = c->dry_runs;
    return true;
}

bool vr_fit_choose(const struct vr_fit_ask *a, const struct vr_goal *w, const struct vr_open *open,
                   struct vr_outcome *out, struct vr_err *err)
{
    double t0 = vr_now_fine_ms();
    VR_AUTO_FREE struct chooser *c = calloc(1, sizeof *c);
    VR_AUTO_FREE struct vr_speeds *pinned = malloc(sizeof *pinned);
    VR_AUTO(vr_lessons) lessons = vr_lessons_new();
    if (!c || !pinned || !lessons) return vr_fail_nomem(err, "planning");
    *pinned = *a->speeds;
    vr_speeds_pin(pinned);
    *c = (struct chooser){
        .given = a, .goal = w, .open = open, .ask = *a, .budgets = *a->budgets, .pinned = pinned, .lessons = lessons
    };
    c->ask.budgets = &c->budgets;
    if (a->n_prompt == VR_PROMPT_ENDLESS) c->ask.n_prompt = 0;
    bool ok = choose(c, out, err);
    out->ms = vr_now_fine_ms() - t0;
    return ok;
}
