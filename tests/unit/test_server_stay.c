/* When a model leaves, and when one is planned again: rows. */
#include "test.h"

#include "server/fleet/stay.h"

static void test_expired(void **state)
{
    (void)state;
    static const struct {
        struct vr_stay stay;
        uint64_t ready_ms, now_ms;
        bool gone;
    } rows[] = {
        { { .ttl_ms = -1, .used_ms = 5 }, 1, 1000000000, false },
        { { .ttl_ms = 1000, .used_ms = 5000 }, 1000, 5999, false },
        { { .ttl_ms = 1000, .used_ms = 5000 }, 1000, 6000, true },
        { { .ttl_ms = 1000, .used_ms = 0 }, 5000, 5500, false }, /* loaded, and never used */
        { { .ttl_ms = 1000, .used_ms = 0 }, 5000, 6000, true },
        { { .ttl_ms = 1000, .used_ms = 2000 }, 5000, 5500, false }, /* used before it was loaded again */
        { { .ttl_ms = 0, .used_ms = 5000 }, 1000, 5000, true },     /* Ollama's keep_alive 0 */
        { { .ttl_ms = 1000, .used_ms = 5000, .pinned = true }, 1000, 1000000, false },
        { { .ttl_ms = 1000, .used_ms = 7000 }, 1000, 6500, false }, /* the clock was read before that */
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++)
        if (vr_stay_expired(&rows[i].stay, rows[i].ready_ms, rows[i].now_ms) != rows[i].gone) fail_msg("row %zu", i);
}

static void test_due(void **state)
{
    (void)state;
    static const struct {
        struct vr_stay stay;
        uint64_t n_freed, now_ms;
        bool due;
    } rows[] = {
        { { .wanted_ms = 0 }, 0, 10, false },
        { { .wanted_ms = 5 }, 0, 10, true },
        { { .wanted_ms = 5, .blocked = true, .blocked_at = 3, .blocked_until_ms = 20 }, 3, 10, false },
        { { .wanted_ms = 5, .blocked = true, .blocked_at = 3, .blocked_ms = 10, .blocked_until_ms = 5000 },
          4,
          259,
          false },
        { { .wanted_ms = 5, .blocked = true, .blocked_at = 3, .blocked_ms = 10, .blocked_until_ms = 5000 },
          4,
          260,
          true },
        { { .wanted_ms = 5, .blocked = true, .blocked_at = 3, .blocked_ms = 10, .blocked_until_ms = 5000 },
          3,
          260,
          false },
        { { .wanted_ms = 5, .blocked = true, .blocked_at = 3, .blocked_until_ms = 20 }, 3, 20, true },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++)
        if (vr_stay_due(&rows[i].stay, rows[i].n_freed, rows[i].now_ms) != rows[i].due) fail_msg("row %zu", i);
}

/* Two thirds of the time of a model that is asked for without end are spent on answers, within bounds. */
static void test_term(void **state)
{
    (void)state;
    assert_int_equal(vr_stay_term_ms(0), 500);
    assert_int_equal(vr_stay_term_ms(0.1), 500);
    assert_int_equal(vr_stay_term_ms(10), 20000);
    assert_int_equal(vr_stay_term_ms(1e9), 60000);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_expired), cmocka_unit_test(test_due),
                                        cmocka_unit_test(test_term) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
