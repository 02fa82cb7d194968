/* Pipelines against brute force: small problems, every order of devices and every cut between layers looked at. */
#include "test.h"

#include <math.h>

#include "plan/pipeline.h"
#include "plan_random.h"

#define N_PROBLEMS 40000

/* --- brute force: shares no code with plan/ --- */

struct brute {
    const struct vr_problem *p;
    uint32_t kind[15];
    double best;
    double limit,
        evenest;      /* the least that the slowest device takes in prompts, of those that cost no more than that … */
    int most_devices; /* … on so many devices */
    uint64_t seen;
};

/* A plan so far: which devices are used, the one that came last, and what the phases take. */
struct way {
    uint32_t used, last;
    double decode, prefill, hops[VR_N_PHASES], slowest, starting;
};

static bool may(const struct vr_problem *p, uint32_t s, uint32_t kind)
{
    const struct vr_station_class *c = &p->classes[p->stations[s]];
    if ((p->allow[s] && !(p->allow[s] >> kind & 1)) || c->core.left_bytes) return false;
    for (uint32_t u = 0; u < c->n_units; u++)
        if ((c->units[u].allow && !(c->units[u].allow >> kind & 1)) || c->units[u].piece.left_bytes) return false;
    return true;
}

static void finish(struct brute *b, const struct way *w)
{
    const struct vr_problem *p = b->p;
    double hops[VR_N_PHASES];
    for (int i = 0; i < VR_N_PHASES; i++) hops[i] = w->hops[i] + p->hop_ms[i][b->kind[w->last]][VR_ON_HOST];
    double pace = fmax(fmax(w->slowest, w->starting), hops[VR_PREFILL]);
    double prompt = p->first_share * (w->prefill + hops[VR_PREFILL]) + (1 - p->first_share) * pace;
    double cost = p->weight[VR_DECODE] * (w->decode + hops[VR_DECODE]) + p->weight[VR_PREFILL] * prompt;
    b->seen++;
    if (cost < b->best) b->best = cost;
    if (cost <= b->limit && __builtin_popcount(w->used) <= b->most_devices) b->evenest = fmin(b->evenest, w->slowest);
}

static void add(const struct vr_piece *x, uint32_t k, uint64_t *bytes, double *piped, struct way *w)
{
    *bytes += x->gpu_bytes;
    *piped += x->piped_ms[k];
    w->decode += x->ms[VR_DECODE][k];
    w->prefill += x->ms[VR_PREFILL][k];
    w->starting += x->ms[VR_PREFILL][k] - x->piped_ms[k];
}

static void extend(struct brute *b, uint32_t s, const struct way *so_far)
{
    const struct vr_problem *p = b->p;
    for (uint32_t d = 0; d < p->n_devices; d++) {
        uint32_t k = b->kind[d], some = 0, empty = 0;
        if (so_far->used >> d & 1 || (p->ordered && so_far->used && k < b->kind[so_far->last])) continue;
        struct way w = *so_far;
        uint64_t bytes = 0;
        double piped = 0;
        for (int i = 0; i < VR_N_PHASES; i++)
            w.hops[i] += p->hop_ms[i][w.used ? b->kind[w.last] : VR_ON_HOST][k] + p->open_ms[i][k];
        w.used |= UINT32_C(1) << d;
        w.last = d;
        for (uint32_t e = s; e < p->n_stations && may(p, e, k); e++) {
            const struct vr_station_class *c = &p->classes[p->stations[e]];
            add(&c->core, k, &bytes, &piped, &w);
            for (uint32_t u = 0; u < c->n_units; u++) add(&c->units[u].piece, k, &bytes, &piped, &w);
            some += c->cache == VR_CACHE_SOME;
            empty += c->cache == VR_CACHE_EMPTY;
            bool last = e + 1 == p->n_stations;
            if (bytes + p->kinds[k].compute_bytes[VR_SIT_PIPELINE | (last ? VR_SIT_OUTPUT : 0)] >
                    p->kinds[k].budget_bytes ||
                (empty && !some))
                continue;
            struct way next = w;
            next.slowest = fmax(w.slowest, piped);
            if (last)
                finish(b, &next);
            else
                extend(b, e + 1, &next);
        }
    }
}

static void look_at_all(struct brute *b)
{
    for (uint32_t k = 0, d = 0; k < b->p->n_kinds; k++)
        for (uint32_t i = 0; i < b->p->kinds[k].n; i++) b->kind[d++] = k;
    extend(b, 0, &(struct way){ 0 });
}

static double brute_force(const struct vr_problem *p, uint64_t *seen)
{
    struct brute b = { .p = p, .best = INFINITY };
    look_at_all(&b);
    *seen += b.seen;
    return b.best;
}

static void random_pipeline(uint64_t seed, bool alike, struct random_problem *r)
{
    static const struct random_size size = { 4, 3, 3, 8, 5, 2, 6 };
    random_problem(seed, &size, r);
    r->p.host_budget_bytes = UINT64_C(1) << 40;
    for (int i = 0; alike && i < VR_N_PHASES; i++)
        for (uint32_t a = 0; a < VR_MAX_PLACED; a++)
            for (uint32_t c = 0; c < VR_MAX_PLACED; c++) r->p.hop_ms[i][a][c] = r->p.hop_ms[i][0][1];
}

static double slowest(const struct vr_problem *p, const struct vr_solution *x)
{
    double ms = 0;
    for (uint32_t d = 0; d < p->n_devices; d++) ms = fmax(ms, x->account.piped_ms[d]);
    return ms;
}

/* Hops between devices are as long in any order, or the solver's plan may miss the best by what they differ; its bound
 * may not. */
static void test_brute_force(void **state)
{
    (void)state;
    uint64_t seen = 0, found = 0, proven = 0;
    for (uint64_t seed = 0; seed < N_PROBLEMS; seed++) {
        bool alike = seed % 2;
        struct random_problem r;
        random_pipeline(seed, alike, &r);
        struct vr_problem *p = &r.p;
        p->weight[VR_DECODE] = (double)(seed % 3) / 2;
        p->weight[VR_PREFILL] = 1 + (double)(seed % 5);
        p->first_share = (double)(seed % 7) / 6; /* from an endless prompt to a single micro-batch */
        VR_AUTO_ARENA arena = { 0 };
        struct vr_solution x;
        struct vr_err err = { 0 };
        if (!vr_pipeline_solve(p, &arena, &x, &err)) fail_msg("%s", err.msg);
        if (p->n_devices < 2) continue;
        double best = brute_force(p, &seen);
        if (isinf(best)) {
            if (isfinite(x.account.cost)) fail_msg("seed %llu: a plan where there is none", (unsigned long long)seed);
            continue;
        }
        found++;
        proven += x.optimal;
        if (x.lower_bound > best * (1 + 1e-9))
            fail_msg("seed %llu: bound %.9f above %.9f", (unsigned long long)seed, x.lower_bound, best);
        if (x.account.cost < best * (1 - 1e-9))
            fail_msg("seed %llu: %.9f, below what there is: %.9f", (unsigned long long)seed, x.account.cost, best);
        bool exact = alike && p->weight[VR_DECODE] == 0 && p->first_share == 0 && /* where a device sets the pace, */
                     x.account.cost <= p->weight[VR_PREFILL] * slowest(p, &x);    /* not the host, nothing is missed */
        if ((exact || x.optimal) && x.account.cost > best * (1 + 1e-6))
            fail_msg("seed %llu: %.9f, the best is %.9f", (unsigned long long)seed, x.account.cost, best);
    }
    print_message("%llu problems with a plan, %llu proven; %llu placements\n", (unsigned long long)found,
                  (unsigned long long)proven, (unsigned long long)seen);
    assert_true(found > N_PROBLEMS / 8 && proven > found / 10);
}

/* A pipeline for token generation gets as even as it can be for so much more of its cost; or it stays, where that is
 * less than a twentieth. */
static void test_even(void **state)
{
    (void)state;
    uint64_t found = 0, evener = 0;
    for (uint64_t seed = 0; seed < N_PROBLEMS; seed++) {
        struct random_problem r;
        random_pipeline(seed, true, &r);
        struct vr_problem *p = &r.p;
        p->weight[VR_DECODE] = 1;
        p->weight[VR_PREFILL] = 0;
        VR_AUTO_ARENA arena = { 0 };
        struct vr_solution x;
        struct vr_err err = { 0 };
        if (!vr_pipeline_solve(p, &arena, &x, &err)) fail_msg("%s", err.msg);
        if (p->n_devices < 2 || isinf(x.account.cost)) continue;
        double was = slowest(p, &x), most = x.account.cost * (1 + (double)(seed % 4) / 20);
        struct brute b = {
            .p = p, .best = INFINITY, .limit = most * (1 + 1e-9), .evenest = INFINITY, .most_devices = x.account.n_order
        };
        look_at_all(&b);
        struct vr_account a;
        if (!vr_pipeline_even(p, most, &arena, &x, &err)) fail_msg("%s", err.msg);
        if (!vr_problem_account(p, &x.placement, VR_SIT_PIPELINE, &a, &err)) fail_msg("%s", err.msg);
        double now = slowest(p, &x), could = fmin(b.evenest, was);
        found++;
        evener += now < was;
        if (a.cost > most * (1 + 1e-9) || a.n_order > b.most_devices || fabs(a.cost - x.account.cost) > 1e-9 * a.cost)
            fail_msg("seed %llu: costs %.9f on %u, allowed are %.9f on %d", (unsigned long long)seed, a.cost, a.n_order,
                     most, b.most_devices);
        if (now > was || now > fmax(could * 1.02, now == was ? could / 0.95 * 1.02 : 0))
            fail_msg("seed %llu: the slowest takes %.9f, was %.9f, could be %.9f", (unsigned long long)seed, now, was,
                     could);
    }
    print_message("%llu pipelines, %llu of them evener\n", (unsigned long long)found, (unsigned long long)evener);
    assert_true(found > N_PROBLEMS / 8 && evener > found / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_brute_force), cmocka_unit_test(test_even) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
