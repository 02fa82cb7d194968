/* The solver against brute force: thousands of small problems, each solved by looking at every placement there is. */
#include "test.h"

#include <math.h>
#include <stdio.h>

#include "plan/case.h"
#include "plan/prefer.h"
#include "plan/solve.h"
#include "plan_random.h"

#define N_SMALL (20000 / EACH)
#define N_AGAIN (N_SMALL / 2)

/* --- brute force: shares no code with plan/ --- */

struct brute {
    const struct vr_problem *p;
    uint32_t kind[16];    /* of each device; 15: the host */
    uint32_t core[256];   /* of each station */
    uint32_t n_on[16];    /* stations */
    uint32_t first, last; /* devices; 16: none */
    uint64_t bytes[16];
    bool on_host;
    double best;
    uint64_t seen;
};

static double brute_hop(const struct brute *b, uint32_t from, uint32_t to)
{
    if (from == to) return 0;
    double sum = 0;
    for (int i = 0; i < VR_N_PHASES; i++) sum += b->p->weight[i] * b->p->hop_ms[i][b->kind[from]][b->kind[to]];
    return sum;
}

static double brute_open(const struct brute *b, uint32_t d)
{
    double sum = 0;
    for (int i = 0; i < VR_N_PHASES && d != 15; i++) sum += b->p->weight[i] * b->p->open_ms[i][b->kind[d]];
    return sum;
}

static double brute_time(const struct brute *b, const struct vr_piece *x, uint32_t at)
{
    double sum = 0;
    for (int i = 0; i < VR_N_PHASES; i++)
        sum += b->p->weight[i] *
               (at == 15 ? x->host_ms[i][b->first == 16 ? 15 : b->kind[b->first]] : x->ms[i][b->kind[at]]);
    return sum;
}

static bool brute_fits(const struct brute *b)
{
    for (uint32_t d = 0; d < b->p->n_devices; d++) {
        if (!b->n_on[d]) continue;
        unsigned sit = (d == b->first && b->on_host ? 1u : 0) | (d == b->last ? 2u : 0);
        const struct vr_kind *k = &b->p->kinds[b->kind[d]];
        if (b->bytes[d] + k->compute_bytes[sit] > k->budget_bytes) return false;
    }
    return b->bytes[15] + b->p->host_fixed_bytes <= b->p->host_budget_bytes;
}

/* `stretches` of work so far: the token's place changes between them. */
static void brute_units(struct brute *b, uint32_t s, uint32_t u, uint32_t at, uint32_t stretches, double cost)
{
    if (cost >= b->best) return;
    if (s == b->p->n_stations) {
        /* one stretch of work for the host and for each device in use costs nothing beside its hops */
        uint32_t places = 1;
        for (uint32_t d = 0; d < b->p->n_devices; d++) places += b->n_on[d] > 0;
        for (int i = 0; i < VR_N_PHASES; i++) cost += b->p->weight[i] * b->p->switch_ms[i] * (stretches - places);
        cost += brute_hop(b, at, 15);
        b->seen++;
        if (cost < b->best && brute_fits(b)) b->best = cost;
        return;
    }
    const struct vr_station_class *c = &b->p->classes[b->p->stations[s]];
    uint32_t home = b->core[s];
    if (u == 0) { /* the core first; its bytes are counted by the caller */
        cost += brute_hop(b, at, home) + brute_time(b, &c->core, home);
        if (at != home) cost += brute_open(b, home);
        stretches += at != home;
        at = home;
    }
    if (u == c->n_units) {
        brute_units(b, s + 1, 0, home, stretches + (at != home), cost + brute_hop(b, at, home));
        return;
    }
    const struct vr_unit *unit = &c->units[u];
    for (uint32_t e = 0; e < 16; e++) {
        if (e != 15 && (e >= b->p->n_devices || !b->n_on[e])) continue;
        if (unit->allow && !(unit->allow >> b->kind[e] & 1)) continue;
        if (unit->move == VR_MOVE_BORDER && e != home) {
            bool left = e == (s ? b->core[s - 1] : 15), right = s + 1 < b->p->n_stations && e == b->core[s + 1];
            if (!left && !right) continue;
        }
        bool was = b->on_host;
        uint64_t n = e == 15 ? unit->piece.host_bytes : unit->piece.gpu_bytes;
        b->bytes[e] += n;
        if (e != 15) b->bytes[15] += unit->piece.left_bytes;
        b->on_host |= e == 15 || unit->piece.left_bytes;
        if (e == 15 || b->bytes[e] <= b->p->kinds[b->kind[e]].budget_bytes) {
            double more = brute_hop(b, at, e) * (e == home ? 1 : unit->n_in) + brute_time(b, &unit->piece, e);
            if (e != 15) more += brute_hop(b, home, e) * unit->n_along;
            for (int i = 0; i < VR_N_PHASES && e == 15 && home != 15; i++)
                more += b->p->weight[i] * unit->back_ms[i][b->kind[home]];
            /* u + 1 > 0, so the core is not counted again */
            brute_units(b, s, u + 1, e, stretches + (at != e), cost + more);
        }
        b->bytes[e] -= n;
        if (e != 15) b->bytes[15] -= unit->piece.left_bytes;
        b->on_host = was;
    }
}

/* A place with layers has one with a cache. */
static bool brute_loads(const struct brute *b)
{
    for (uint32_t d = 0; d < 16; d++) {
        uint32_t some = 0, empty = 0;
        for (uint32_t s = 0; s < b->p->n_stations; s++) {
            if (b->core[s] != d) continue;
            some += b->p->classes[b->p->stations[s]].cache == VR_CACHE_SOME;
            empty += b->p->classes[b->p->stations[s]].cache == VR_CACHE_EMPTY;
        }
        if (empty && !some) return false;
    }
    return true;
}

static void brute_whole(struct brute *b)
{
    if (!brute_loads(b)) return;
    b->on_host = false;
    memset(b->bytes, 0, sizeof b->bytes);
    for (uint32_t s = 0; s < b->p->n_stations; s++) {
        const struct vr_piece *x = &b->p->classes[b->p->stations[s]].core;
        uint32_t d = b->core[s];
        b->bytes[d] += d == 15 ? x->host_bytes : x->gpu_bytes;
        if (d != 15) b->bytes[15] += x->left_bytes;
        b->on_host |= d == 15 || x->left_bytes;
    }
    for (uint32_t d = 0; d < b->p->n_devices; d++)
        if (b->bytes[d] > b->p->kinds[b->kind[d]].budget_bytes) return;
    brute_units(b, 0, 0, 15, 1, 0);
}

static void brute_stations(struct brute *b, uint32_t s)
{
    if (s == b->p->n_stations) {
        brute_whole(b);
        return;
    }
    uint32_t before = s ? b->core[s - 1] : 15;
    for (uint32_t d = 0; d < 16; d++) {
        if (d != 15 && d >= b->p->n_devices) continue;
        if (b->p->allow[s] && !(b->p->allow[s] >> b->kind[d] & 1)) continue;
        if (d != before && (d == 15 || b->n_on[d])) continue;
        if (d != before && before != 15 && b->p->ordered && b->kind[d] < b->kind[before]) continue;
        uint32_t first = b->first, last = b->last;
        b->core[s] = d;
        b->n_on[d]++;
        if (d != 15 && first == 16) b->first = d;
        if (d != 15) b->last = d;
        brute_stations(b, s + 1);
        b->n_on[d]--;
        b->first = first;
        b->last = last;
    }
}

static double brute_best(const struct vr_problem *p, uint64_t *seen)
{
    struct brute b = { .p = p, .first = 16, .last = 16, .best = INFINITY };
    b.kind[15] = 15;
    for (uint32_t k = 0, d = 0; k < p->n_kinds; k++)
        for (uint32_t i = 0; i < p->kinds[k].n; i++) b.kind[d++] = k;
    brute_stations(&b, 0);
    *seen += b.seen;
    return b.best;
}

/* --- tests --- */

static const struct random_size small_sizes[] = {
    /* devices kinds layers classes units free */
    { 2, 2, 4, 10, 4, 3, 7 }, { 3, 3, 4, 7, 4, 3, 5 }, { 4, 2, 4, 6, 4, 2, 4 },
    { 4, 4, 4, 8, 3, 1, 2 },  { 2, 1, 4, 8, 3, 3, 8 }, { 4, 4, 4, 7, 3, 2, 0 },
    { 3, 3, 4, 5, 3, 3, 6 },  { 3, 2, 4, 6, 2, 2, 6 }, { 3, 3, 3, 5, 2, 3, 0 },
};

/* The least of the bounds of all cases, each as good as rows.c can make it when it does not know a good plan. */
static double bound_by_rows(const struct vr_problem *p, double best, uint32_t grains, bool top, uint32_t *higher)
{
    double low = INFINITY;
    VR_AUTO_ARENA arena = { 0 };
    for (uint32_t first = 0; first <= p->n_kinds; first++) {
        struct vr_case c;
        bool host = first < p->n_kinds;
        assert_true(vr_case_init(&c, p, host, host ? first : NONE, false, 0, &arena));
        (top ? vr_case_top : vr_case_raise)(&c, best, 250);
        double rows = vr_case_rows(&c, 3 * best, grains);
        *higher += isfinite(c.root) && rows > c.root * (1 + 1e-9);
        low = fmin(low, rows);
    }
    return low;
}

/* A search that begins with a hint ends where any other does, also with one that does not fit. */
static void check_seeded(const struct vr_problem *p, struct vr_placement *hint, double best, uint64_t seed)
{
    VR_AUTO_ARENA arena = { 0 };
    struct vr_solution x;
    struct vr_err err = { 0 };
    if (seed % 32 && p->n_devices) {
        memset(hint->core, 0, p->n_stations);
        memset(hint->units, 0, (size_t)p->n_stations * VR_MAX_UNITS);
    }
    if (!vr_solve_from(p, 0, hint, UINT64_C(1) << 40, &arena, &x, &err)) fail_msg("seed %lu: %s", seed, err.msg);
    if (!x.optimal || fabs(x.account.cost - best) > 1e-9 * best)
        fail_msg("seed %lu: from a hint %.12g, the best %.12g", seed, x.account.cost, best);
}

static void test_brute_force(void **state)
{
    (void)state;
    uint64_t seen = 0, work = 0, fitted = 0, moved = 0, on_host = 0, several = 0, in_haste = 0;
    uint32_t higher = 0;
    for (uint64_t seed = 0; seed < N_SMALL; seed++) {
        struct random_problem r;
        random_problem(seed, &small_sizes[seed % VR_COUNT(small_sizes)], &r);
        VR_AUTO_ARENA arena = { 0 };
        struct vr_solution x, hasty;
        struct vr_err err = { 0 };
        double best = brute_best(&r.p, &seen);
        bool ok = vr_solve(&r.p, 0, NULL, UINT64_C(1) << 40, &arena, &x, &err);
        if (ok != (bool)isfinite(best))
            fail_msg("seed %lu: brute force %g, solver: %s", seed, best, ok ? "fits" : err.msg);
        if (!ok) continue;
        if (fabs(x.account.cost - best) > 1e-9 * best)
            fail_msg("seed %lu: brute force %.12g, solver %.12g, bound %.12g", seed, best, x.account.cost,
                     x.lower_bound);
        if (!x.optimal || x.lower_bound > best * (1 + 1e-12))
            fail_msg("seed %lu: bound %.12g of %.12g, optimal %d", seed, x.lower_bound, best, x.optimal);
        work += x.work;
        if (!vr_solve(&r.p, 0, NULL, 1, &arena, &hasty, &err) || hasty.lower_bound > best * (1 + 1e-12))
            fail_msg("seed %lu: in haste the bound is %.12g, the best %.12g", seed, hasty.lower_bound, best);
        in_haste += !hasty.optimal;
        if (seed % 16 == 0) check_seeded(&r.p, &hasty.placement, best, seed);
        double rows = bound_by_rows(&r.p, best, seed % 2 ? VR_ROWS_GRAINS : 8, seed % 4 < 2, &higher);
        if (rows > best * (1 + 1e-12) && x.account.n_order > 0)
            fail_msg("seed %lu: no row of blocks costs less than %.12g, but the best plan %.12g", seed, rows, best);
        fitted++;
        moved += x.account.moved;
        on_host += x.account.on_host;
        several += x.account.n_order > 1;
    }
    print_message("%d problems: %lu with a plan, %lu on several devices, %lu with the host, %lu with units moved; "
                  "%lu placements by brute force, %lu labels by the solver\n",
                  N_SMALL, fitted, several, on_host, moved, seen, work);
    print_message("%lu with a gap when in haste; %u cases with a higher bound by whole pieces\n", in_haste, higher);
    assert_true(higher > N_SMALL / 4);
    assert_true(in_haste > N_SMALL / 100);
    assert_true(fitted > N_SMALL / 2 && moved > N_SMALL / 20 && on_host > N_SMALL / 20 && several > N_SMALL / 20);
}

/* --- the second look --- */

static double prompt_ms(const struct vr_account *a)
{
    double sum = a->hop_ms[VR_PREFILL];
    for (uint32_t i = 0; i <= VR_MAX_PLACED; i++) sum += a->ms[VR_PREFILL][i];
    return sum;
}

/* Whether brute force can have all units free. */
static bool few_units(const struct vr_problem *p)
{
    static const uint32_t most[] = { 0, 10, 8, 6, 5 };
    uint32_t n = 0;
    for (uint32_t s = 0; s < p->n_stations; s++) n += p->classes[p->stations[s]].n_units;
    return n <= most[p->n_devices];
}

/* From a plan that is known, allowed or not, to the best one; and in haste to one that is no worse. */
static void check_solve(const struct vr_problem *p, const struct vr_solution *known, double best, uint64_t seed)
{
    VR_AUTO_ARENA arena = { 0 };
    struct vr_solution x, hasty;
    struct vr_account a;
    struct vr_err err = { 0 };
    if (!vr_solve(p, 0, &known->placement, UINT64_C(1) << 40, &arena, &x, &err) || !x.optimal ||
        fabs(x.account.cost - best) > 1e-9 * best)
        fail_msg("seed %lu: brute force %.12g, from a plan %.12g, bound %.12g %s", seed, best, x.account.cost,
                 x.lower_bound, err.msg);
    bool fits = vr_problem_account(p, &known->placement, 0, &a, NULL);
    if (!vr_solve(p, 0, &known->placement, VR_WORK_HASTY, &arena, &hasty, &err) ||
        hasty.lower_bound > best * (1 + 1e-12) || (fits && hasty.account.cost > a.cost * (1 + 1e-12)))
        fail_msg("seed %lu: in haste %.12g with a bound of %.12g, the best %.12g", seed, hasty.account.cost,
                 hasty.lower_bound, best);
}

/* What is preferred to the best plan costs no more than the known one, has no more on the host unless it is faster, and
 * no slower prompts. */
static void check_preference(const struct vr_problem *p, const struct vr_solution *known, uint64_t seed,
                             uint32_t *spared, uint32_t *sooner)
{
    VR_AUTO_ARENA arena = { 0 };
    struct vr_solution x;
    struct vr_account a;
    struct vr_err err = { 0 };
    assert_true(vr_solve(p, 0, &known->placement, UINT64_C(1) << 40, &arena, &x, &err));
    assert_true(vr_prefer(p, &known->placement, &arena, &x.placement));
    if (!vr_problem_account(p, &x.placement, 0, &a, &err)) fail_msg("seed %lu: %s", seed, err.msg);
    uint64_t was = known->account.weight_bytes[VR_ON_HOST], is = a.weight_bytes[VR_ON_HOST];
    bool more = x.account.weight_bytes[VR_ON_HOST] > was;
    if (a.cost > known->account.cost * (1 + 1e-12) || (is > was && a.cost > known->account.cost * (1 - VR_TIE)))
        fail_msg("seed %lu: %.12g with %lu bytes on the host, known %.12g with %lu", seed, a.cost, is,
                 known->account.cost, was);
    if (p->weight[VR_PREFILL] > 0) return;
    if (!more && (a.cost > x.account.cost * (1 + VR_TIE) || prompt_ms(&a) > prompt_ms(&x.account) * (1 + 1e-12)))
        fail_msg("seed %lu: %.12g instead of %.12g, prompts %.12g instead of %.12g", seed, a.cost, x.account.cost,
                 prompt_ms(&a), prompt_ms(&x.account));
    *spared += more && is <= was;
    *sooner += !more && prompt_ms(&a) < 0.99 * prompt_ms(&x.account);
}

static void test_second_look(void **state)
{
    (void)state;
    uint64_t seen = 0;
    uint32_t n = 0, better = 0, tight = 0, spared = 0, sooner = 0;
    for (uint64_t seed = 0; seed < N_AGAIN; seed++) {
        struct random_problem r;
        random_problem(seed, &small_sizes[seed % VR_COUNT(small_sizes)], &r);
        VR_AUTO_ARENA arena = { 0 };
        struct vr_solution known;
        struct vr_err err = { 0 };
        if (!few_units(&r.p) || !vr_solve(&r.p, 0, NULL, UINT64_C(1) << 40, &arena, &known, &err)) continue;
        if (!known.account.on_host || known.account.n_order == 0) continue;
        vr_problem_free_units(&r.p);
        double best = brute_best(&r.p, &seen);
        check_solve(&r.p, &known, best, seed);
        check_preference(&r.p, &known, seed, &spared, &sooner);
        better += best < known.account.cost * (1 - 1e-9);
        n++;
        r.p.kinds[seed % r.p.n_kinds].budget_bytes -= r.p.kinds[seed % r.p.n_kinds].budget_bytes / 20;
        best = brute_best(&r.p, &seen); /* with less memory than the plan was made for */
        if (isfinite(best)) check_solve(&r.p, &known, best, seed), tight++;
    }
    print_message("%u plans with something on the host: %u are slower than with free units, %u with less memory; "
                  "preferred: %u for the host's sake, %u for prompts'; %lu placements by brute force\n",
                  n, better, tight, spared, sooner, seen);
    assert_true(n > N_AGAIN / 20 && better > n / 20);
    assert_true(n < 2000 || (spared && sooner)); /* these are rare */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_brute_force),
        cmocka_unit_test(test_second_look),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
