/* The order of work. Price every case; find a plan without guests and polish it; raise the bounds of cases that are
 * still open by counting whole pieces; search the most promising case first with a narrow beam, then wider and wider,
 * until nothing was dropped or no case can hold anything better than the best plan, or the work is used up.
 *
 * With a plan at hand that is to be improved, the order is another one: bounds as high as they get, and polishing from
 * that plan, cores to and from the host included; whole pieces are counted and beams are searched where a gap is left.
 *
 * The host's memory is left out of account at first, which makes labels comparable that differ in what they left there.
 * Only if the best plan then needs more than the host has, all is done again with that limit; what the first round
 * proved stays true. */
#include "plan/solve.h"

#include <math.h>
#include <string.h>

#include "plan/case.h"

#define FIRST_WIDTH   16
#define WIDER         4
#define MAX_WIDTH     (1 << 17)
#define MAX_CASES     (VR_MAX_PLACED + 1)
#define PRICE_ROUNDS  250
#define WORK_PER_KICK 2000 /* one round of shaking takes about as long as so many labels */
#define MAX_KICKS     96
#define HASTY_KICKS   2       /* of what was at hand and only had to fit */
#define KICK_STATIONS 10000   /* looked at in a round of shaking; where that takes less, there are more rounds */
#define WORK_TO_FIND  1000000 /* labels in one search, without a plan at hand: something may fit */
#define EQUAL         1e-3    /* of the time: no difference that anybody could measure */
#define ROUGH         0.03    /* a gap that is worth counting whole pieces, once a plan was at hand */
#define FINE          0.01    /* a gap with which a search may end … */
#define FINER         0.002   /* … or only this one, at once, and while it is cheap … */
#define CHEAP         20000   /* … having made no more labels than these … */
#define HOPE          0.02    /* … when it closed no more than this share of it */

struct solver {
    const struct vr_problem *p;
    struct vr_arena *arena;
    unsigned situation;
    const struct vr_placement *known, *seed;
    bool at_hand; /* `known` is allowed, and costs this */
    double known_cost;
    bool host_limited;
    struct vr_case cases[MAX_CASES];
    double lower[MAX_CASES]; /* infinite once a case is done */
    uint32_t n_cases;
    struct vr_placement best, found, before;
    double best_cost;
    uint64_t work, work_limit;
    bool nomem;
};

static bool new_placement(struct solver *s, struct vr_placement *x)
{
    x->core = vr_arena_alloc(s->arena, s->p->n_stations, 1);
    x->units = vr_arena_alloc(s->arena, s->p->n_stations, VR_MAX_UNITS);
    return x->core && x->units;
}

static void copy(const struct solver *s, const struct vr_placement *from, struct vr_placement *to)
{
    memcpy(to->core, from->core, s->p->n_stations);
    memcpy(to->units, from->units, (size_t)s->p->n_stations * VR_MAX_UNITS);
}

static void adopt(struct solver *s, double cost)
{
    struct vr_placement t = s->best;
    s->best = s->found;
    s->found = t;
    s->best_cost = cost;
}

/* --- cases --- */

static bool leaves_weights(const struct vr_problem *p)
{
    for (uint32_t s = 0; s < p->n_stations; s++) {
        const struct vr_station_class *class = &p->classes[p->stations[s]];
        if (class->core.left_bytes) return true;
        for (uint32_t u = 0; u < class->n_units; u++)
            if (class->units[u].piece.left_bytes) return true;
    }
    return false;
}

/* Whether the kind of the first device makes no difference to the time of what is on the host. */
static bool same_time(const struct vr_problem *p, const struct vr_piece *x)
{
    for (int phase = 0; phase < VR_N_PHASES; phase++)
        for (uint32_t k = 1; p->weight[phase] > 0 && k < p->n_kinds; k++)
            if (x->host_ms[phase][k] != x->host_ms[phase][0]) return false;
    return true;
}

static bool same_first(const struct vr_problem *p)
{
    bool same = true;
    for (uint32_t q = 0; q < p->n_classes; q++) {
        same = same && same_time(p, &p->classes[q].core);
        for (uint32_t u = 0; u < p->classes[q].n_units; u++) same = same && same_time(p, &p->classes[q].units[u].piece);
    }
    return same;
}

static void add_case(struct solver *s, bool host, uint32_t first)
{
    struct vr_case *c = &s->cases[s->n_cases];
    if (!vr_case_init(c, s->p, host, first, s->host_limited, s->situation, s->arena)) {
        s->nomem = true;
        return;
    }
    if (s->n_cases && s->cases[s->n_cases - 1].host == host) /* prices will be alike */
        memcpy(c->price, s->cases[s->n_cases - 1].price, sizeof c->price);
    if (s->known)
        vr_case_top(c, s->best_cost, PRICE_ROUNDS);
    else
        vr_case_raise(c, s->best_cost, PRICE_ROUNDS);
    s->lower[s->n_cases++] = c->root;
}

static bool all_fit(const struct vr_problem *p)
{
    uint64_t need = 0, have = 0;
    for (uint32_t s = 0; s < p->n_stations; s++) {
        const struct vr_station_class *class = &p->classes[p->stations[s]];
        need += class->core.gpu_bytes;
        for (uint32_t u = 0; u < class->n_units; u++) need += class->units[u].piece.gpu_bytes;
    }
    for (uint32_t k = 0; k < p->n_kinds; k++) have += p->kinds[k].budget_bytes * p->kinds[k].n;
    return need <= have;
}

/* Whether there is enough memory at all, however it is cut. */
static bool enough(const struct vr_problem *p)
{
    uint64_t need = p->host_fixed_bytes, have = p->host_budget_bytes;
    for (uint32_t k = 0; k < p->n_kinds; k++) have += p->kinds[k].budget_bytes * p->kinds[k].n;
    for (uint32_t s = 0; s < p->n_stations; s++) {
        const struct vr_station_class *class = &p->classes[p->stations[s]];
        for (uint32_t u = 0; u <= class->n_units; u++) {
            const struct vr_piece *x = u ? &class->units[u - 1].piece : &class->core;
            need += x->host_bytes < x->gpu_bytes ? x->host_bytes : x->gpu_bytes;
        }
    }
    return need <= have;
}

static void make_cases(struct solver *s)
{
    s->n_cases = 0;
    if (!leaves_weights(s->p) && all_fit(s->p)) add_case(s, false, NONE);
    if (s->situation & VR_SIT_PIPELINE || s->nomem) return;
    bool same = same_first(s->p);
    if (same && s->p->n_kinds) add_case(s, true, NONE);
    for (uint32_t k = 0; !same && k < s->p->n_kinds && !s->nomem; k++) add_case(s, true, k);
}

static bool open_case(const struct solver *s, uint32_t i) { return s->lower[i] < s->best_cost * (1 - CLOSE_ENOUGH); }

static bool any_open(const struct solver *s)
{
    bool any = false;
    for (uint32_t i = 0; i < s->n_cases; i++) any |= open_case(s, i);
    return any;
}

/* --- plans --- */

/* s->found, if it is allowed and better. */
static bool try_found(struct solver *s)
{
    struct vr_account a;
    if (!vr_problem_account(s->p, &s->found, s->situation, &a, NULL) || a.cost >= s->best_cost) return false;
    adopt(s, a.cost);
    return true;
}

/* Everything on the host is a placement that no case holds. */
static void try_host(struct solver *s)
{
    memset(s->found.core, VR_ON_HOST, s->p->n_stations);
    memset(s->found.units, VR_ON_HOST, (size_t)s->p->n_stations * VR_MAX_UNITS);
    if (!s->situation) try_found(s);
}

static void try_known(struct solver *s)
{
    if (!s->known) return;
    copy(s, s->known, &s->found);
    if (!vr_polish_fit(s->p, &s->found)) s->nomem = true;
    s->at_hand = try_found(s);
    s->known_cost = s->best_cost;
}

static void polish(struct solver *s, unsigned rounds)
{
    double cost = s->best_cost;
    if (s->situation || s->nomem || !isfinite(cost)) return;
    copy(s, &s->best, &s->found);
    if (!vr_polish(s->p, &s->found, rounds, s->known ? 1 + (uint64_t)rounds * KICK_STATIONS : 0, &cost))
        s->nomem = true;
    else if (cost < s->best_cost)
        adopt(s, cost);
}

static void search_case(struct solver *s, uint32_t i, bool home, uint32_t width)
{
    struct vr_search_result r;
    uint64_t left = s->work_limit > s->work ? s->work_limit - s->work : 0;
    if (isinf(s->best_cost) && !home && left < WORK_TO_FIND) left = WORK_TO_FIND;
    if (!vr_case_search(&s->cases[i], s->best_cost, home, width, left, &s->found, &r)) {
        s->nomem = true;
        return;
    }
    s->work += r.work;
    if (r.found) adopt(s, r.cost);
    if (home) return;
    if (r.complete)
        s->lower[i] = INFINITY;
    else if (r.lower > s->lower[i])
        s->lower[i] = r.lower;
}

static double lowest(const struct solver *s)
{
    double low = s->best_cost;
    for (uint32_t i = 0; i < s->n_cases; i++)
        if (s->lower[i] < low) low = s->lower[i];
    return low;
}

/* Whether what was good for another problem like this one is good enough for this one. If not, it is forgotten: another
 * beginning may lead further. */
static bool grows(struct solver *s)
{
    double cost = s->best_cost;
    copy(s, &s->best, &s->before);
    copy(s, s->seed, &s->found);
    if (!vr_polish_fit(s->p, &s->found)) s->nomem = true;
    if (!try_found(s)) return false;
    polish(s, 0);
    if (s->p->n_devices > 1 && s->best_cost - lowest(s) < FINER * s->best_cost) return true;
    copy(s, &s->before, &s->best);
    s->best_cost = cost;
    return false;
}

/* A plan to begin with: without guests. */
static void find(struct solver *s)
{
    if (s->seed && grows(s)) return;
    for (uint32_t i = 0; i < s->n_cases && !s->nomem; i++)
        if (open_case(s, i)) search_case(s, i, true, FIRST_WIDTH);
    for (uint32_t i = 0; i < s->n_cases && !s->nomem; i++) {
        struct vr_search_result r;
        struct vr_account a;
        if (!open_case(s, i)) continue;
        if (!vr_case_blocks(&s->cases[i], s->best_cost, &s->found, &r)) s->nomem = true;
        /* blocks know nothing of the host's limit */
        else if (r.found && (!s->host_limited || vr_problem_account(s->p, &s->found, s->situation, &a, NULL)))
            adopt(s, r.cost);
    }
}

/* A plan is at hand, and all that may be done is to polish it. */
static bool hasty(const struct solver *s) { return s->at_hand && s->work_limit <= VR_WORK_HASTY; }

/* Any good plan will do: nobody asks how good it is. */
static bool rough(const struct solver *s) { return !s->at_hand && s->work_limit <= VR_WORK_ROUGH; }

static void start(struct solver *s)
{
    if (!s->at_hand) find(s);
    polish(s, 0);
    for (uint32_t i = 0; i < s->n_cases && !s->nomem && s->p->n_devices > 1; i++) {
        bool worth = !s->at_hand || s->best_cost - s->lower[i] > ROUGH * s->best_cost;
        if (!open_case(s, i) || !worth || hasty(s) || rough(s)) continue;
        s->lower[i] = fmax(s->lower[i], vr_case_rows(&s->cases[i], s->best_cost, VR_ROWS_GRAINS));
    }
}

/* The open case with the lowest bound that has not been searched with this width yet; n_cases: none. */
static uint32_t most_promising(const struct solver *s, const bool *tried)
{
    uint32_t best = s->n_cases;
    for (uint32_t i = 0; i < s->n_cases; i++)
        if (!tried[i] && open_case(s, i) && (best == s->n_cases || s->lower[i] < s->lower[best])) best = i;
    return best;
}

/* A gap that may stay, when a search has hardly made it less than it `was`. */
static bool is_fine(const struct solver *s, double was, double fine)
{
    double gap = s->best_cost - lowest(s);
    return s->work_limit < UINT64_C(1) << 32 && gap < fine * s->best_cost && gap > was * (1 - HOPE);
}

static void search_all(struct solver *s)
{
    start(s);
    if (hasty(s)) {
        polish(s, HASTY_KICKS);
        return;
    }
    for (uint32_t width = FIRST_WIDTH; width <= MAX_WIDTH && any_open(s) && !s->nomem; width *= WIDER) {
        bool tried[MAX_CASES] = { false };
        double best = s->best_cost, low = lowest(s);
        for (uint32_t i; (i = most_promising(s, tried)) < s->n_cases && !s->nomem;) {
            if (s->work >= s->work_limit && width > FIRST_WIDTH && isfinite(s->best_cost)) return;
            tried[i] = true;
            search_case(s, i, false, width);
        }
        if (s->p->n_devices > 1 && is_fine(s, best - low, FINER)) return;
        uint64_t kicks = s->work_limit / WORK_PER_KICK;
        bool shake = width == FIRST_WIDTH && any_open(s);
        if (s->at_hand && s->best_cost - lowest(s) < FINE * s->best_cost) shake = false;
        if (shake) polish(s, kicks < MAX_KICKS ? (unsigned)kicks : MAX_KICKS);
        if (width > FIRST_WIDTH && is_fine(s, best - low, s->work > CHEAP ? FINE : FINER)) return;
    }
}

/* A plan that is not proven to be the best one may as well be a little slower: the host gets what memory that saves. */
static void spare_host(struct solver *s)
{
    struct vr_account a;
    if (s->situation || s->nomem || !isfinite(s->best_cost) || !any_open(s)) return;
    copy(s, &s->best, &s->found);
    double ms = EQUAL * s->best_cost;
    if (s->at_hand) ms = fmin(ms, s->known_cost - s->best_cost);
    if (!vr_polish_spare(s->p, &s->found, ms))
        s->nomem = true;
    else if (vr_problem_account(s->p, &s->found, 0, &a, NULL))
        adopt(s, a.cost);
}

static bool conclude(struct solver *s, double low, struct vr_solution *out, struct vr_err *err)
{
    struct vr_err why;
    if (!vr_problem_account(s->p, &s->best, s->situation, &out->account, &why))
        return vr_fail(err, VR_EINTERNAL, "the planner produced an invalid plan: %s", why.msg);
    if (fabs(out->account.cost - s->best_cost) > 1e-9 * (1 + s->best_cost))
        return vr_fail(err, VR_EINTERNAL, "the planner counted %.9f ms for a plan of %.9f ms", s->best_cost,
                       out->account.cost);
    out->placement = s->best;
    out->lower_bound = low < out->account.cost ? low : out->account.cost;
    out->optimal = out->lower_bound >= out->account.cost * (1 - CLOSE_ENOUGH);
    if (out->optimal) out->lower_bound = out->account.cost;
    out->work = s->work;
    return true;
}

static void solve_round(struct solver *s)
{
    s->best_cost = INFINITY;
    try_host(s);
    try_known(s);
    make_cases(s);
    if (!s->nomem) search_all(s);
}

static bool solve(struct solver *s, struct vr_solution *out, struct vr_err *err)
{
    const struct vr_problem *p = s->p;
    struct vr_account a;
    memset(out, 0, sizeof *out);
    if (!vr_problem_check(p, err)) return false;
    if (p->host_fixed_bytes > p->host_budget_bytes)
        return vr_fail(err, VR_ENOFIT, "the host does not have enough memory");
    if (!enough(p)) return vr_fail(err, VR_ENOFIT, "no placement fits: there is not enough memory");
    if (!new_placement(s, &s->best) || !new_placement(s, &s->found) || !new_placement(s, &s->before))
        return vr_fail_nomem(err, "planning");
    solve_round(s);
    double low = lowest(s);
    if (!s->nomem && isfinite(s->best_cost) && !vr_problem_account(p, &s->best, s->situation, &a, NULL)) {
        s->host_limited = true;
        s->work = 0;
        solve_round(s);
        if (lowest(s) > low) low = lowest(s);
    }
    spare_host(s);
    if (s->nomem) return vr_fail_nomem(err, "planning");
    if (isinf(s->best_cost)) return vr_fail(err, VR_ENOFIT, "no placement fits");
    return conclude(s, low, out, err);
}

bool vr_solve(const struct vr_problem *p, unsigned situation, const struct vr_placement *known, uint64_t work_limit,
              struct vr_arena *arena, struct vr_solution *out, struct vr_err *err)
{
    return solve(
        &(struct solver){ .p = p, .arena = arena, .situation = situation, .known = known, .work_limit = work_limit },
        out, err);
}

bool vr_solve_from(const struct vr_problem *p, unsigned situation, const struct vr_placement *seed, uint64_t work_limit,
                   struct vr_arena *arena, struct vr_solution *out, struct vr_err *err)
{
    return solve(
        &(struct solver){ .p = p, .arena = arena, .situation = situation, .seed = seed, .work_limit = work_limit }, out,
        err);
}
