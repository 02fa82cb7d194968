/* Ranges of the same classes are found, whatever their order, and no others; and what memory is in which grain. */
#include "test.h"

#include "plan/ranges.h"
#include "plan_random.h"

#define N_STATIONS 24
#define N_ROWS     (400 / EACH)

static int by_class(const void *a, const void *b) { return *(const uint16_t *)a - *(const uint16_t *)b; }

/* The same by sorting. */
static bool same(const struct vr_problem *p, uint32_t a, uint32_t b, uint32_t len, bool ends)
{
    uint16_t x[N_STATIONS], y[N_STATIONS];
    memcpy(x, p->stations + a, len * sizeof *x);
    memcpy(y, p->stations + b, len * sizeof *y);
    if (ends && (x[0] != y[0] || x[len - 1] != y[len - 1])) return false;
    qsort(x, len, sizeof *x, by_class);
    qsort(y, len, sizeof *y, by_class);
    return memcmp(x, y, len * sizeof *x) == 0;
}

static void test_random_rows(void **state)
{
    (void)state;
    uint64_t alike = 0, in_other_order = 0;
    for (uint64_t seed = 1; seed <= N_ROWS; seed++) {
        struct dice d = { seed };
        uint16_t stations[N_STATIONS], like[N_STATIONS];
        bool alive[N_STATIONS], ends = seed % 2;
        struct vr_problem p = { .stations = stations, .n_stations = N_STATIONS };
        struct vr_ranges r;
        p.n_classes = (uint32_t)roll_between(&d, 1, 4);
        for (uint32_t s = 0; s < N_STATIONS; s++) stations[s] = (uint16_t)roll(&d, p.n_classes);
        assert_true(vr_ranges_init(&r, &p, ends));
        for (uint32_t len = 1; len <= N_STATIONS; len++) {
            for (uint32_t s = 0; s < N_STATIONS; s++) alive[s] = roll(&d, 8) != 0;
            vr_ranges_like(&r, len, alive, like);
            for (uint32_t s = 0; s < N_STATIONS; s++) {
                uint32_t first = 0;
                bool here = alive[s] && s + len <= N_STATIONS;
                while (here && !(alive[first] && same(&p, first, s, len, ends))) first++;
                assert_int_equal(like[s], here ? first : VR_NO_RANGE);
                alike += here && first < s;
                in_other_order +=
                    here && first < s && memcmp(stations + first, stations + s, len * sizeof *stations) != 0;
            }
        }
        vr_ranges_done(&r);
    }
    print_message("%lu ranges like an earlier one, %lu of them in another order\n", alike, in_other_order);
    assert_true(alike > N_ROWS * 10 && in_other_order > N_ROWS * 5);
}

static void test_grains(void **state)
{
    (void)state;
    static const uint64_t sizes[] = { 0, 1, 7, 1000, 1 << 20, UINT64_C(24) << 30, UINT64_C(1) << 50 };
    for (size_t i = 0; i < VR_COUNT(sizes); i++) {
        double grains = vr_grains(sizes[i], 64);
        uint32_t before = 0;
        for (uint64_t k = 0; k <= 1000; k++) {
            uint32_t g = vr_grain(sizes[i] / 1000 * k, grains, 64);
            assert_true(g >= before && g <= 64);
            before = g;
        }
        assert_int_equal(vr_grain(UINT64_MAX, grains, 64), sizes[i] ? 64 : 0);
    }
    assert_int_equal(vr_grain(512, vr_grains(1024, 64), 64), 32);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_random_rows), cmocka_unit_test(test_grains) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
