/* Several models on one machine: against every order and every set of devices, never over what there is; and that the
 * joint way beats one after the other where it should. */
#include "test.h"

#include <math.h>

#include "fit/together.h"

static uint64_t seed;
static uint64_t roll(uint64_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 33) % n;
}

/* A model fills the fastest devices first; each device in use costs it `overhead` bytes there. */
struct world {
    struct vr_together_ask t;
    double speed[VR_MAX_DEVICES], host_speed;
    uint64_t need[VR_MAX_TOGETHER], overhead;
};

static bool plan(void *ctx, size_t model, uint32_t devices, const struct vr_room *taken, double *cost,
                 struct vr_room *takes, struct vr_err *err)
{
    const struct world *w = ctx;
    uint64_t left = w->need[model];
    (void)err;
    *takes = (struct vr_room){ 0 };
    *cost = 0;
    for (uint32_t rest = devices; left && rest;) {
        size_t best = VR_MAX_DEVICES;
        for (size_t d = 0; d < VR_MAX_DEVICES; d++)
            if (rest >> d & 1 && (best == VR_MAX_DEVICES || w->speed[d] > w->speed[best])) best = d;
        rest &= ~(UINT32_C(1) << best);
        uint64_t gone = taken->devices[best] + w->overhead, have = w->t.capacity.devices[best];
        uint64_t here = have > gone ? have - gone : 0;
        if (here > left) here = left;
        if (!here) continue;
        takes->devices[best] = here + w->overhead;
        *cost += (double)here / w->speed[best];
        left -= here;
    }
    takes->host = left;
    *cost += (double)left / w->host_speed;
    if (taken->host + left > w->t.capacity.host) *cost = INFINITY;
    return true;
}

static bool holds(const struct world *w, const struct vr_room *taken, const struct vr_room *takes)
{
    for (size_t d = 0; d < VR_MAX_DEVICES; d++)
        if (takes->devices[d] && taken->devices[d] + takes->devices[d] > w->t.capacity.devices[d]) return false;
    return taken->host + takes->host <= w->t.capacity.host;
}

/* The least sum for these models over all orders and sets of devices. */
static double brute(const struct world *w, uint32_t waiting, const struct vr_room *taken, const double *alone)
{
    double best = waiting ? INFINITY : 0;
    const struct vr_room none = { 0 };
    for (size_t i = 0; i < w->t.n_models; i++)
        for (uint32_t devices = w->t.devices; waiting >> i & 1; devices = (devices - 1) & w->t.devices) {
            struct vr_room takes, sum = *taken;
            double cost;
            (void)plan((void *)(uintptr_t)w, i, devices, &none, &cost, &takes, NULL);
            if (!isinf(cost) && !holds(w, taken, &takes))
                (void)plan((void *)(uintptr_t)w, i, devices, taken, &cost, &takes, NULL);
            if (!isinf(cost)) {
                vr_room_add(&sum, &takes);
                best = fmin(best, cost / alone[i] + brute(w, waiting & ~(UINT32_C(1) << i), &sum, alone));
            }
            if (!((devices - 1) & w->t.devices)) break;
        }
    return best;
}

static void make_world(struct world *w)
{
    size_t n = 1 + roll(3);
    *w = (struct world){ .t = { .n_models = 1 + roll(n == 3 ? 3 : 4), .most_plans = 100000, .plan = plan, .ctx = w } };
    for (size_t d = 0; d < n; d++) {
        bool twin = d && roll(2);
        w->t.devices |= UINT32_C(1) << d;
        w->t.kinds[d] = twin ? w->t.kinds[d - 1] : (uint8_t)d;
        w->speed[d] = twin ? w->speed[d - 1] : (double)(5 + roll(20));
        w->t.capacity.devices[d] = twin ? w->t.capacity.devices[d - 1] : 4 + roll(20);
    }
    w->host_speed = 1;
    w->t.capacity.host = roll(40);
    w->overhead = roll(2);
    for (size_t i = 0; i < w->t.n_models; i++) w->need[i] = 1 + roll(24);
}

static void check_room(const struct world *w, const struct vr_together *got)
{
    struct vr_room sum = { 0 };
    for (size_t i = 0; i < w->t.n_models; i++)
        if (got->models[i].resident) vr_room_add(&sum, &got->models[i].takes);
    for (size_t d = 0; d < VR_MAX_DEVICES; d++) assert_true(sum.devices[d] <= w->t.capacity.devices[d]);
    assert_true(sum.host <= w->t.capacity.host);
}

static void test_brute_force(void **state)
{
    (void)state;
    unsigned plans = 0, better = 0, not_all = 0;
    for (unsigned k = 1; k <= 1000; k++) {
        struct world w;
        seed = k;
        make_world(&w);
        struct vr_err err = { 0 };
        struct vr_together got;
        double alone[VR_MAX_TOGETHER];
        const struct vr_room none = { 0 };
        struct vr_room takes;
        uint32_t fit = 0, resident = 0, asked = 0;
        assert_true(vr_together_solve(&w.t, &got, &err) && got.exact);
        check_room(&w, &got);
        for (size_t i = 0; i < w.t.n_models; i++) {
            (void)plan(&w, i, w.t.devices, &none, &alone[i], &takes, NULL);
            if (!isinf(alone[i])) fit |= UINT32_C(1) << i;
            asked |= (uint32_t)got.models[i].resident << i;
        }
        for (uint32_t rest = fit; rest; rest &= rest - 1) /* the first ones that can */
            if (!isinf(brute(&w, resident | (rest & -rest), &none, alone))) resident |= rest & -rest;
        double want = brute(&w, resident, &none, alone), greedy = 0;
        if (asked != resident) fail_msg("world %u: residents %x, by brute force %x", k, asked, resident);
        if (got.sum > want * (1 + VR_SAME_SPEED) + 1e-9 || got.sum < want - 1e-9)
            fail_msg("world %u: %.6f, by brute force %.6f", k, got.sum, want);
        struct vr_room taken = { 0 };
        for (size_t i = 0; i < w.t.n_models; i++) { /* one after the other */
            double cost;
            if (!(resident >> i & 1)) continue;
            (void)plan(&w, i, w.t.devices, &taken, &cost, &takes, NULL);
            greedy += cost / alone[i];
            vr_room_add(&taken, &takes);
        }
        better += greedy > got.sum * 1.05;
        not_all += resident != (UINT32_C(1) << w.t.n_models) - 1;
        plans += got.plans;
    }
    print_message(
        "1,000 worlds: %.1f plans each; %u times more than 5 %% better than one after the other; %u times not "
        "all fit\n",
        plans / 1000.0, better, not_all);
    assert_true(better > 50 && not_all > 50);
}

/* A fast card of 24 and a slower one of 8: one after the other, the small model takes the fast one, and the large one
 * goes to the host in part. */
static void test_small_one_aside(void **state)
{
    (void)state;
    struct world w = { .t = { .n_models = 2, .devices = 3, .kinds = { 0, 1 }, .most_plans = 1000, .plan = plan },
                       .speed = { 20, 18 },
                       .host_speed = 0.5,
                       .overhead = 4,
                       .need = { 4, 20 } };
    w.t.ctx = &w;
    w.t.capacity = (struct vr_room){ .devices = { 24, 8 }, .host = 100 };
    struct vr_err err = { 0 };
    struct vr_together got;
    assert_true(vr_together_solve(&w.t, &got, &err));
    assert_true(got.exact);
    assert_int_equal(got.n, 2);
    assert_int_equal(got.models[0].takes.devices[1], 8);
    assert_int_equal(got.models[1].takes.devices[0], 24);
    assert_int_equal(got.models[1].takes.host, 0);
}

static void test_limits(void **state)
{
    (void)state;
    struct world w = { .t = { .n_models = 2, .devices = 1, .most_plans = 2, .plan = plan }, .speed = { 9 } };
    w.t.ctx = &w;
    w.host_speed = 1;
    w.need[0] = w.need[1] = 8;
    w.t.capacity = (struct vr_room){ .devices = { 10 }, .host = 6 };
    struct vr_err err = { 0 };
    struct vr_together got;
    assert_true(vr_together_solve(&w.t, &got, &err)); /* no third plan, so the second model cannot be placed */
    assert_false(got.exact);
    assert_true(got.models[0].resident && !got.models[1].resident);
    w.t.most_plans = 3;
    assert_true(vr_together_solve(&w.t, &got, &err));
    assert_true(got.models[0].resident && got.models[1].resident);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_brute_force),
        cmocka_unit_test(test_small_one_aside),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
