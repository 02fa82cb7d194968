/* The published values of FNV-1a, and what tables need of it. */
#include "test.h"

#include "base/hash.h"

static void test_published(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t fnv1a;
    } rows[] = { { "", 0xcbf29ce484222325 }, { "a", 0xaf63dc4c8601ec8c }, { "foobar", 0x85944171f73967e8 } };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        uint64_t h = rows[i].fnv1a;
        assert_int_equal(vr_hash(rows[i].text, strlen(rows[i].text), 0), h ^ h >> 32);
    }
}

/* Names as tensors have them, in a table twice as large: about as many share a slot as chance would have it. */
static void test_spread(void **state)
{
    (void)state;
    enum { NAMES = 1024, SLOTS = 2048 };
    for (uint64_t seed = 0; seed < 3; seed++) {
        static bool taken[SLOTS];
        size_t shared = 0;
        memset(taken, 0, sizeof taken);
        for (int i = 0; i < NAMES; i++) {
            char name[32];
            snprintf(name, sizeof name, "blk.%d.attn_q.weight", i);
            uint64_t at = vr_hash(name, strlen(name), seed) % SLOTS;
            shared += taken[at];
            taken[at] = true;
        }
        assert_in_range(shared, 0, NAMES * 30 / 100); /* by chance 21 % */
    }
    assert_int_not_equal(vr_hash("x", 1, 1), vr_hash("x", 1, 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_published), cmocka_unit_test(test_spread) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
