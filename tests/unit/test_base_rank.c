/* Numbers by their place in order. */
#include "test.h"

#include "base/rank.h"

static void test_rank(void **state)
{
    (void)state;
    double v[] = { 5, 1, 4, 2, 3 };
    assert_float_equal(vr_rank(v, 5, 0.5), 3, 0);
    assert_float_equal(vr_rank(v, 5, 0), 1, 0);
    assert_float_equal(vr_rank(v, 5, 1), 5, 0);
    assert_float_equal(vr_rank(v, 4, 0.25), 2, 0);
    assert_float_equal(vr_rank(v, 0, 0.5), 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_rank) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
