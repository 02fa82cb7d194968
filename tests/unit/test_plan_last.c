/* Whose units are on the host: the last layers' of those that are alike, and nothing else changes. */
#include "test.h"

#include "plan/last.h"
#include "plan/solve.h"
#include "plan_random.h"

#define N_PROBLEMS (600 / EACH)

static const struct random_size sizes[] = {
    /* devices kinds layers classes units free */
    { 2, 1, 8, 24, 2, 3, 64 },
    { 3, 2, 8, 40, 3, 2, 80 },
    { 4, 4, 4, 12, 2, 1, 12 },
};

/* How late what is on the host is. */
static double lateness(const struct vr_problem *p, const struct vr_placement *x)
{
    double sum = 0;
    for (uint32_t s = 0; s < p->n_stations; s++)
        for (uint32_t u = 0; u < p->classes[p->stations[s]].n_units; u++)
            if (x->units[s * VR_MAX_UNITS + u] == VR_ON_HOST)
                sum += s * (double)p->classes[p->stations[s]].units[u].piece.host_bytes;
    return sum;
}

static void test_random(void **state)
{
    (void)state;
    unsigned solved = 0, later = 0;
    for (uint64_t seed = 1; seed <= N_PROBLEMS; seed++) {
        struct random_problem r;
        random_problem(seed, &sizes[seed % VR_COUNT(sizes)], &r);
        VR_AUTO_ARENA arena = { 0 };
        struct vr_solution x;
        struct vr_err err = { 0 };
        if (!vr_solve(&r.p, 0, NULL, 2000, &arena, &x, &err)) continue;
        solved++;
        double before = lateness(&r.p, &x.placement);
        struct vr_account now;
        vr_host_last(&r.p, 0, &x.placement);
        if (!vr_problem_account(&r.p, &x.placement, 0, &now, &err)) fail_msg("seed %lu: %s", seed, err.msg);
        if (now.cost > x.account.cost * (1 + 1e-9)) fail_msg("seed %lu: it costs more now", seed);
        assert_memory_equal(now.weight_bytes, x.account.weight_bytes, sizeof now.weight_bytes);
        double after = lateness(&r.p, &x.placement);
        if (after < before) fail_msg("seed %lu: earlier than before", seed);
        later += after > before;
        vr_host_last(&r.p, 0, &x.placement); /* again: it stays so */
        if (lateness(&r.p, &x.placement) != after) fail_msg("seed %lu: not settled", seed);
    }
    print_message("%u solved, %u changed\n", solved, later);
    assert_true(solved > N_PROBLEMS / 2 && later > N_PROBLEMS / 100);
}

/* Ten equal layers on one device, of which the solver or anybody left the first three on the host. */
static void test_plain(void **state)
{
    (void)state;
    struct vr_station_class classes[2] = {
        { .core = { .gpu_bytes = 10, .host_bytes = 10 },
          .n_units = 1,
          .units = { { .piece = { .gpu_bytes = 100, .host_bytes = 100 }, .move = VR_MOVE_FREE } } },
        { .cache = VR_CACHE_NONE, .core = { .gpu_bytes = 5, .host_bytes = 5 } },
    };
    uint16_t stations[11] = { [10] = 1 };
    uint32_t allow[11] = { 0 };
    struct vr_problem p = { .kinds = { { .n = 1, .budget_bytes = 10000 } },
                            .n_kinds = 1,
                            .n_devices = 1,
                            .classes = classes,
                            .n_classes = 2,
                            .stations = stations,
                            .allow = allow,
                            .n_stations = 11,
                            .weight = { 1, 0 },
                            .host_budget_bytes = 10000 };
    uint8_t core[11] = { 0 }, units[11 * VR_MAX_UNITS] = { 0 };
    struct vr_placement x = { core, units };
    for (int s = 0; s < 3; s++) units[s * VR_MAX_UNITS] = VR_ON_HOST;
    vr_host_last(&p, 0, &x);
    for (int s = 0; s < 10; s++) assert_int_equal(units[s * VR_MAX_UNITS], s < 7 ? 0 : VR_ON_HOST);
    classes[0].units[0].move = VR_MOVE_BORDER; /* bound to its station */
    units[9 * VR_MAX_UNITS] = 0;
    units[0] = VR_ON_HOST;
    vr_host_last(&p, 0, &x);
    assert_int_equal(units[0], VR_ON_HOST);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_plain), cmocka_unit_test(test_random) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
