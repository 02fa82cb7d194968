#include "test.h"

#include "plan/split.h"

static void test_rows(void **state)
{
    (void)state;
    static const struct {
        double split[4];
        size_t n;
        uint32_t stations, counts[4];
    } rows[] = {
        { { 26, 47, 8 }, 3, 81, { 26, 47, 8 } },            /* counts */
        { { 0.35, 0.45, 0.20 }, 3, 81, { 29, 36, 16 } },    /* shares */
        { { 23287, 23287, 11047 }, 3, 81, { 33, 33, 15 } }, /* free memory, the engine's default */
        { { 0, 81, 0 }, 3, 81, { 0, 81, 0 } },              /* zeros leave devices out */
        { { 1, 1, 1, 1 }, 4, 10, { 3, 2, 3, 2 } },
        { { 5 }, 1, 33, { 33 } },
        { { 1, 2 }, 2, 0, { 0, 0 } },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        uint32_t counts[4] = { 9, 9, 9, 9 };
        vr_split_counts(rows[i].split, rows[i].n, rows[i].stations, counts);
        for (size_t d = 0; d < rows[i].n; d++)
            if (counts[d] != rows[i].counts[d]) fail_msg("row %zu, device %zu: %u", i, d, counts[d]);
    }
}

/* Whole counts always come out as they are. */
static void test_counts_are_kept(void **state)
{
    (void)state;
    unsigned seed = 7;
    for (int round = 0; round < 20000; round++) {
        double split[15];
        uint32_t counts[15], stations = 0;
        size_t n = 1 + (size_t)rand_r(&seed) % 15;
        for (size_t d = 0; d < n; d++) {
            split[d] = rand_r(&seed) % 60;
            stations += (uint32_t)split[d];
        }
        if (stations == 0) continue;
        vr_split_counts(split, n, stations, counts);
        for (size_t d = 0; d < n; d++) assert_int_equal(counts[d], split[d]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_rows), cmocka_unit_test(test_counts_are_kept) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
