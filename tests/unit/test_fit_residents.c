/* Who leaves for a model that wants to be loaded: the cheapest set that makes enough room, against all sets; with few
 * plans; and never one that is pinned or busy. */
#include "test.h"

#include <math.h>

#include "fit/residents.h"

#define GIB (UINT64_C(1) << 30)

static uint64_t seed;
static uint64_t roll(uint64_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 33) % n;
}

/* A newcomer that wants `need` bytes on devices, of which each keeps `overhead` for itself; what does not fit there
 * goes to the host, and every byte there costs ten times as much. */
struct world {
    struct vr_resident all[VR_MAX_RESIDENTS];
    size_t n, n_devices;
    uint64_t free[VR_MAX_DEVICES], host_free, need, overhead;
    unsigned plans;
};

static double cost_in(const struct world *w, uint64_t leaving)
{
    uint64_t room = 0, host = w->host_free;
    for (size_t d = 0; d < w->n_devices; d++) {
        uint64_t have = w->free[d];
        for (size_t i = 0; i < w->n; i++)
            if (leaving >> i & 1) have += w->all[i].room.devices[d];
        if (have > w->overhead) room += have - w->overhead;
    }
    for (size_t i = 0; i < w->n; i++)
        if (leaving >> i & 1) host += w->all[i].room.host;
    uint64_t away = w->need > room ? w->need - room : 0;
    return away > host ? INFINITY : (double)(w->need - away) + 10.0 * (double)away;
}

static bool plan(void *ctx, uint64_t leaving, double *cost, struct vr_err *err)
{
    struct world *w = ctx;
    (void)err;
    w->plans++;
    *cost = cost_in(w, leaving);
    return true;
}

static uint64_t misses(void *ctx)
{
    const struct world *w = ctx;
    uint64_t have = 0;
    for (size_t d = 0; d < w->n_devices; d++) have += w->free[d];
    return w->need > have ? w->need - have : 0;
}

/* Who would have to leave: the busy ones if that is enough, else the pinned ones, else both. */
static struct vr_departure find_blocking(const struct world *w, uint64_t all, uint64_t movable)
{
    uint64_t pinned = 0;
    for (size_t i = 0; i < w->n; i++)
        if (w->all[i].pinned) pinned |= UINT64_C(1) << i;
    uint64_t busy = all & ~movable & ~pinned, both = busy | pinned;
    uint64_t who = !isinf(cost_in(w, movable | busy))     ? busy
                   : !isinf(cost_in(w, movable | pinned)) ? pinned
                   : !isinf(cost_in(w, all))              ? both
                                                          : 0;
    return (struct vr_departure){ .end = who ? VR_BLOCKED : VR_TOO_LARGE, .blocking = who };
}

/* The same by trying all sets. */
static struct vr_departure brute(const struct world *w)
{
    uint64_t all = (UINT64_C(1) << w->n) - 1, movable = 0;
    for (size_t i = 0; i < w->n; i++)
        if (!w->all[i].pinned && !w->all[i].busy) movable |= UINT64_C(1) << i;
    struct vr_departure best = { .leaving = movable };
    double limit = cost_in(w, movable) * (1 + VR_SLOWER), least = INFINITY;
    if (isinf(limit)) return find_blocking(w, all, movable);
    for (uint64_t who = 0; who <= all; who++) {
        if (who & ~movable || cost_in(w, who) > limit) continue;
        double cost = 0;
        for (size_t i = 0; i < w->n; i++)
            if (who >> i & 1) cost += vr_resident_cost(&w->all[i]);
        if (cost < least) best.leaving = who;
        if (cost < least) least = cost;
    }
    return best;
}

static void make_world(struct world *w)
{
    *w = (struct world){ .n = 1 + roll(9), .n_devices = 1 + roll(4) };
    for (size_t d = 0; d < w->n_devices; d++) w->free[d] = roll(8) * GIB;
    w->host_free = roll(3) * 4 * GIB;
    w->overhead = roll(2) * GIB / 2;
    for (size_t i = 0; i < w->n; i++) {
        struct vr_resident *r = &w->all[i];
        r->pinned = roll(8) == 0;
        r->busy = roll(6) == 0;
        r->reload_s = (double)(1 + roll(3000)) / 100;
        r->last_used_s = (double)roll(3600);
        r->room.devices[roll(w->n_devices)] += (1 + roll(64)) * GIB / 8;
        if (roll(3) == 0) r->room.devices[roll(w->n_devices)] += (1 + roll(64)) * GIB / 8;
        if (roll(4) == 0) r->room.host = roll(8) * GIB;
    }
    w->need = (1 + roll(40)) * GIB;
}

static void test_brute_force(void **state)
{
    (void)state;
    unsigned plans = 0, most = 0, ends[3] = { 0 }, leaves = 0, waits = 0;
    for (seed = 1; seed < 4000; seed++) {
        struct world w;
        uint64_t keep = seed;
        make_world(&w);
        seed = keep;
        struct vr_err err = { 0 };
        struct vr_departure got, want = brute(&w);
        const struct vr_newcomer who = { .plan = plan, .misses = misses, .ctx = &w };
        assert_true(vr_residents_settle(w.all, w.n, &who, &got, &err));
        if (got.end != want.end || (got.end == VR_MOVES_IN && got.exact && got.leaving != want.leaving))
            fail_msg("seed %d: end %d, leaving %x; by brute force %d, %x", (int)seed, got.end, (unsigned)got.leaving,
                     want.end, (unsigned)want.leaving);
        if (got.end == VR_MOVES_IN && !got.exact) fail_msg("seed %d took %u plans", (int)seed, got.plans);
        assert_int_equal(got.plans, w.plans);
        assert_int_equal(got.blocking, want.blocking);
        for (size_t i = 0; i < w.n; i++) waits += got.blocking >> i & 1 && !w.all[i].pinned;
        for (size_t i = 0; i < w.n; i++)
            if (got.leaving >> i & 1) assert_false(w.all[i].pinned || w.all[i].busy);
        ends[got.end]++;
        leaves += got.leaving != 0;
        plans += got.plans;
        if (got.plans > most) most = got.plans;
    }
    print_message(
        "3,999 worlds: %.2f plans each, %u at most; %u move in (%u when others left), %u blocked, %u too large\n",
        plans / 3999.0, most, ends[0], leaves, ends[1], ends[2]);
    assert_true(ends[1] > 50 && ends[2] > 50 && leaves > 500 && waits > 50);
    assert_true(plans < 6 * 3999);
}

/* Says of every other set that it is too slow, true or not. */
static bool lies(void *ctx, uint64_t leaving)
{
    const struct world *w = ctx;
    return (leaving * 0x9e3779b97f4a7c15u + w->need) >> 40 & 1;
}

/* Quick looks that are wrong half of the time: what comes out is the same where it is said to be exact, which it is
 * with up to three models, and enough in any case. */
static void test_wrong_looks(void **state)
{
    (void)state;
    unsigned n_exact = 0, n_all = 0;
    for (uint64_t k = 1; k < 4000; k++) {
        struct world w;
        seed = k;
        make_world(&w);
        struct vr_err err = { 0 };
        struct vr_departure got, want = brute(&w);
        const struct vr_newcomer who = { .plan = plan, .too_slow = lies, .unsure = true, .misses = misses, .ctx = &w };
        assert_true(vr_residents_settle(w.all, w.n, &who, &got, &err));
        assert_int_equal(got.end, want.end);
        if (got.end != VR_MOVES_IN) continue;
        if (got.exact ? got.leaving != want.leaving : w.n <= 3) fail_msg("world %d", (int)k);
        uint64_t movable = 0;
        for (size_t i = 0; i < w.n; i++)
            if (!w.all[i].pinned && !w.all[i].busy) movable |= UINT64_C(1) << i;
        assert_false(got.leaving & ~movable);
        assert_true(cost_in(&w, got.leaving) <= cost_in(&w, movable) * (1 + VR_SLOWER));
        n_all++;
        n_exact += got.exact;
    }
    print_message("quick looks that are wrong half of the time: exact in %u of %u\n", n_exact, n_all);
    assert_true(n_exact > n_all / 2);
}

/* Eight models of about a size on two cards, of which four must leave: the search by price alone would make 90 plans.
 */
static void test_few_plans(void **state)
{
    (void)state;
    struct world w = { .n = 8, .n_devices = 2, .need = 20 * GIB };
    for (size_t i = 0; i < 8; i++) {
        w.all[i].reload_s = 5 + (double)i;
        w.all[i].room.devices[i % 2] = 5 * GIB + (uint64_t)(i * 64) * VR_RESERVE_MARGIN_MIB;
    }
    struct vr_err err = { 0 };
    struct vr_departure got;
    const struct vr_newcomer who = { .plan = plan, .misses = misses, .ctx = &w };
    assert_true(vr_residents_settle(w.all, w.n, &who, &got, &err));
    assert_true(got.exact);
    assert_int_equal(got.leaving, 0xf);
    print_message("8 residents, 4 leave: %u plans\n", got.plans);
    assert_in_range(got.plans, 1, 9);
}

static void test_many(void **state)
{
    (void)state;
    struct world w = { .n = 40, .n_devices = 1, .need = 10 * GIB };
    for (size_t i = 0; i < w.n; i++) {
        w.all[i].reload_s = 1 + (double)(i * 7 % 40);
        w.all[i].room.devices[0] = GIB;
    }
    struct vr_err err = { 0 };
    struct vr_departure got;
    const struct vr_newcomer who = { .plan = plan, .misses = misses, .ctx = &w };
    assert_true(vr_residents_settle(w.all, w.n, &who, &got, &err));
    assert_false(got.exact);
    assert_int_equal(__builtin_popcountll(got.leaving), 10); /* within a tenth of its best speed would take all ten */
    for (size_t i = 0; i < w.n; i++) assert_int_equal(got.leaving >> i & 1, i * 7 % 40 < 10);
}

static bool fails(void *ctx, uint64_t leaving, double *cost, struct vr_err *err)
{
    (void)ctx, (void)leaving, (void)cost;
    return vr_fail(err, VR_EENGINE, "no");
}

static void test_costs(void **state)
{
    (void)state;
    struct vr_resident r = { .reload_s = 8 };
    assert_float_equal(vr_resident_cost(&r), 8, 1e-9);
    r.last_used_s = 600;
    assert_float_equal(vr_resident_cost(&r), 4, 1e-9);
    r.last_used_s = 1e9;
    assert_true(vr_resident_cost(&r) > 0);
    struct vr_err err = { 0 };
    struct vr_departure got;
    assert_false(vr_residents_settle(&r, 1, &(struct vr_newcomer){ .plan = fails }, &got, &err));
    assert_int_equal(err.code, VR_EENGINE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_brute_force), cmocka_unit_test(test_wrong_looks), cmocka_unit_test(test_few_plans),
        cmocka_unit_test(test_many),        cmocka_unit_test(test_costs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
