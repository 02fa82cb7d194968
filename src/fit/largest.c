/* The largest context that fits: no more weights may move to the host for it than a usual context of 4,096 tokens
 * leaves there, or every context would "fit" at the speed of the host.
 *
 * Dry runs are made for few contexts: the usual one, the one that the planner's own arithmetic takes for the largest,
 * and the next one, which must not fit. What each of them tells makes the arithmetic better for the next attempt. A
 * draft's cache grows with the context too, and it may move: with companions every context is planned whole.
 *
 * Contexts are compared by plans with whole layers, whose weights on the host grow with them, unless the split mode is
 * fixed to tensor. The last one gets the second look that any plan gets, and the better mode for it is chosen. */
#include "fit/planner.h"
#include "fit/outcome.h"

#define USUAL       4096
#define CELL_PAD    256 /* the engine rounds the cells of each sequence up to a multiple of this */
#define MAX_GUESSES 6   /* after which the arithmetic is not asked any more */

/* What a context may not exceed: what a usual one leaves on the host, by the verdict and by the planner's count. */
struct limit {
    uint64_t host_bytes, unit_bytes;
    uint32_t host_layers, gpu_layers;
};

struct hunt {
    struct vr_planner planner;
    struct vr_fit_ask ask;
    struct vr_goal goal;
    bool whole;    /* with companions: without the planner's arithmetic */
    uint32_t step; /* tokens */
    struct limit limit;
    bool limited;
    uint32_t dry_runs;
};

uint32_t vr_context_step(const struct vr_context *c) { return CELL_PAD * (c->n_seq && !c->kv_unified ? c->n_seq : 1); }

/* Does a context of n steps fit within the limit? `out` is what was planned. */
static bool proves(struct hunt *h, uint32_t n, struct vr_outcome *out, struct vr_err *err)
{
    *out = (struct vr_outcome){ 0 };
    h->ask.context.n_ctx = n * h->step;
    bool ok = h->whole ? vr_fit_plan(&h->ask, &h->goal, out, err)
                       : vr_planner_prove(&h->planner, h->ask.context.n_ctx, out, err);
    h->dry_runs += out->dry_runs;
    const struct vr_verdict *v = &out->verdict;
    return ok &&
           (!h->limited || (v->host.model_bytes <= h->limit.host_bytes && v->host_layers <= h->limit.host_layers));
}

/* The same by the planner's arithmetic. */
static bool seems(struct hunt *h, uint32_t n)
{
    VR_AUTO_ARENA arena = { 0 };
    struct vr_plan plan;
    struct vr_err why = { 0 };
    return vr_planner_guess(&h->planner, n * h->step, &arena, &plan, &why) &&
           plan.host_unit_bytes <= h->limit.unit_bytes && plan.n_gpu_layers >= h->limit.gpu_layers;
}

/* The largest between low, which fits, and high, which does not, that seems to fit; low when none does. `near`: it is
 * not far above low. */
static uint32_t guess(struct hunt *h, uint32_t low, uint32_t high, bool near)
{
    if (!near && seems(h, high - 1)) return high - 1;
    for (uint32_t leap = 1; near && leap < high - low; leap *= 2) {
        if (seems(h, low + leap))
            low += leap;
        else
            high = low + leap;
    }
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (seems(h, middle))
            low = middle;
        else
            high = middle;
    }
    return low;
}

static bool set_limit(struct hunt *h, uint32_t n, const struct vr_outcome *usual, struct vr_err *err)
{
    VR_AUTO_ARENA arena = { 0 };
    struct vr_plan plan = { 0 };
    if (!h->whole && !vr_planner_guess(&h->planner, n * h->step, &arena, &plan, err)) return false;
    h->limit = (struct limit){ .host_bytes = usual->verdict.host.model_bytes,
                               .host_layers = usual->verdict.host_layers,
                               .unit_bytes = plan.host_unit_bytes,
                               .gpu_layers = plan.n_gpu_layers };
    h->limited = true;
    return true;
}

/* As proves(); the next context above one that fits is also tried without what is known from others: a buffer that was
 * larger there may have kept the planner from a placement that fits. */
static bool tries(struct hunt *h, uint32_t n, bool next, struct vr_outcome *out, struct vr_err *err)
{
    if (proves(h, n, out, err)) return true;
    if (h->whole || !next || (err->code != VR_OK && err->code != VR_ENOFIT)) return false;
    vr_outcome_done(out);
    *err = (struct vr_err){ 0 };
    vr_planner_forget(&h->planner);
    return proves(h, n, out, err);
}

/* The plan for a context of n steps, now that it is the one. */
static bool look_again(struct hunt *h, uint32_t n, struct vr_outcome *out, struct vr_err *err)
{
    VR_AUTO_OUTCOME now = { 0 };
    struct vr_err why = { 0 };
    enum vr_optimize goal = h->goal.optimize;
    if (out->verdict.host_layers == 0) return true;
    h->goal.whole_layers = h->planner.whole_layers = false;
    h->limited = false;
    bool ok = proves(h, n, &now, &why);
    if (!ok && why.code != VR_OK && why.code != VR_ENOFIT) return vr_fail(err, why.code, "%s", why.msg);
    if (ok && now.verdict.cost[goal] <= out->verdict.cost[goal]) vr_outcome_move(out, &now);
    return true;
}

/* From `low`, proven and in `out`, to the largest. What fits is no clean line: buffers depend on the placement. So the
 * end is a context that fits and a next one that was tried for its own sake and does not. */
static bool climb(struct hunt *h, uint32_t low, uint32_t most, struct vr_outcome *out, struct vr_err *err)
{
    bool sure = true, next = false; /* that high does not fit; the last attempt did, so try the one above it */
    uint32_t high = most + 1;
    for (unsigned round = 0; low < most && (high - low > 1 || !sure); round++) {
        uint32_t at =
            !h->whole && round < MAX_GUESSES && !next ? guess(h, low, high, round > 0) : low + (high - low) / 2;
        if (at == low || next) at = low + 1;
        struct vr_outcome now;
        struct vr_err no = { 0 };
        bool ok = tries(h, at, at == low + 1, &now, &no);
        next = ok && !next;
        if (ok) {
            vr_outcome_move(out, &now);
            if (at == high) high = most + 1, sure = true;
            low = at;
            continue;
        }
        vr_outcome_done(&now);
        if (no.code != VR_OK && no.code != VR_ENOFIT) {
            *err = no;
            return false;
        }
        sure = at == low + 1;
        high = at;
    }
    if (!look_again(h, low, out, err)) return false;
    struct vr_reason why = { .kind = low == most ? VR_REASON_CONTEXT_TRAINED : VR_REASON_CONTEXT_LARGEST,
                             .figures = { [VR_FIGURE_N_CTX] = out->verdict.n_ctx } };
    vr_outcome_reason_first(out, &why);
    return true;
}

bool vr_fit_largest(const struct vr_fit_ask *a, const struct vr_goal *w, struct vr_outcome *out, struct vr_err *err)
{
    double t0 = vr_now_fine_ms();
    struct hunt *h = calloc(1, sizeof *h);
    if (!h) return vr_fail_nomem(err, "planning");
    h->ask = *a;
    h->goal = *w;
    h->goal.whole_layers = true;
    h->whole = vr_companions_any(a) || w->splits == VR_SPLITS_TENSOR;
    h->step = vr_context_step(&a->context);
    uint32_t most = a->model->n_ctx_train / h->step, low = USUAL / h->step;
    if (low > most) low = most;
    if (low == 0) low = 1;
    bool ok = vr_planner_open(&h->planner, a, &h->goal, err) && proves(h, low, out, err) &&
              set_limit(h, low, out, err) && climb(h, low, most, out, err);
    out->dry_runs = h->dry_runs;
    bool whole = h->whole;
    if (ok && !whole && w->splits == VR_SPLITS_ALL)
        ok = vr_planner_look(&h->planner, out, err) && vr_planner_spread(&h->planner, out, err);
    vr_planner_close(&h->planner);
    free(h);
    out->ms = vr_now_fine_ms() - t0;
    return ok && (whole || vr_outcome_explain(a, &w->fixed, out, err));
}
