/* Alignment, blocks of every size, zeroes, and products that overflow. */
#include "test.h"

#include "base/arena.h"

#include <stdalign.h>

static bool aligned(const void *p) { return (uintptr_t)p % alignof(max_align_t) == 0; }

static bool all_zero(const void *p, size_t n)
{
    const unsigned char *c = p;
    for (size_t i = 0; i < n; i++)
        if (c[i]) return false;
    return true;
}

/* Strings of odd lengths between objects: each object stays aligned and zeroed, nothing overlaps. */
static void test_aligned_and_apart(void **state)
{
    (void)state;
    VR_AUTO_ARENA a = { 0 };
    enum { N = 2000 };
    static struct {
        unsigned char *p;
        size_t n;
        char *s;
    } got[N];
    for (size_t i = 0; i < N; i++) {
        got[i].n = i * 7 % 300;
        got[i].p = vr_arena_alloc(&a, got[i].n, 1);
        got[i].s = vr_arena_printf(&a, "%zu", i);
        assert_non_null(got[i].p);
        assert_true(aligned(got[i].p));
        assert_true(all_zero(got[i].p, got[i].n));
        memset(got[i].p, (int)(i % 255) + 1, got[i].n); /* to be found again below, if nobody else writes here */
    }
    for (size_t i = 0; i < N; i++) {
        char text[16];
        snprintf(text, sizeof text, "%zu", i);
        assert_string_equal(got[i].s, text);
        for (size_t k = 0; k < got[i].n; k++) assert_int_equal(got[i].p[k], (i % 255) + 1);
    }
}

static void test_big_blocks(void **state)
{
    (void)state;
    static const size_t sizes[] = { 1, 16 * 1024 - 1, 16 * 1024, 16 * 1024 + 1, 1 << 20, 3, 5 << 20, 40 };
    VR_AUTO_ARENA a = { 0 };
    unsigned char *got[VR_COUNT(sizes)];
    for (size_t i = 0; i < VR_COUNT(sizes); i++) {
        got[i] = vr_arena_alloc(&a, sizes[i], 1);
        assert_non_null(got[i]);
        assert_true(aligned(got[i]));
        assert_true(all_zero(got[i], sizes[i]));
        memset(got[i], (int)i + 1, sizes[i]);
    }
    size_t sum = 0;
    for (size_t i = 0; i < VR_COUNT(sizes); i++) {
        sum += sizes[i];
        assert_int_equal(got[i][0], i + 1);
        assert_int_equal(got[i][sizes[i] - 1], i + 1);
    }
    assert_true(a.total >= sum);
    assert_true(a.total < sum + VR_COUNT(sizes) * (16 * 1024 + 64));
}

/* Memory that was used before comes back zeroed. */
static void test_zeroed_again(void **state)
{
    (void)state;
    for (int round = 0; round < 8; round++) {
        VR_AUTO_ARENA a = { 0 };
        for (int i = 0; i < 64; i++) {
            unsigned char *p = vr_arena_alloc(&a, 100, 9);
            assert_non_null(p);
            assert_true(all_zero(p, 900));
            memset(p, 0xA5, 900);
        }
    }
}

static void test_nothing(void **state)
{
    (void)state;
    VR_AUTO_ARENA a = { 0 };
    void *p = vr_arena_alloc(&a, 0, 8), *q = vr_arena_alloc(&a, 8, 0), *r = vr_arena_alloc(&a, 0, 0);
    assert_non_null(p);
    assert_non_null(q);
    assert_non_null(r);
    assert_ptr_not_equal(p, q);
    assert_ptr_not_equal(q, r);
    assert_string_equal(vr_arena_strndup(&a, NULL, 0), "");
    assert_string_equal(vr_arena_strdup(&a, ""), "");
    assert_string_equal(vr_arena_printf(&a, "%s", ""), "");
}

static void test_overflow(void **state)
{
    (void)state;
    static const struct {
        size_t n, size;
    } rows[] = {
        { SIZE_MAX, 2 },         { 2, SIZE_MAX }, { SIZE_MAX / 2 + 1, 2 }, { (size_t)1 << 32, (size_t)1 << 32 },
        { SIZE_MAX / 8 + 1, 8 }, { SIZE_MAX, 1 }, { SIZE_MAX - 8, 1 },     { SIZE_MAX - 32, 1 },
        { 1, SIZE_MAX / 2 },
    };
    VR_AUTO_ARENA a = { 0 };
    char *before = vr_arena_strdup(&a, "before");
    size_t total = a.total;
    for (size_t i = 0; i < VR_COUNT(rows); i++) assert_null(vr_arena_alloc(&a, rows[i].n, rows[i].size));
    assert_null(vr_arena_strndup(&a, "x", SIZE_MAX));
    assert_null(vr_arena_strndup(&a, "x", SIZE_MAX - 1));
    assert_int_equal(a.total, total);
    assert_string_equal(before, "before");
    assert_string_equal(vr_arena_strdup(&a, "after"), "after");
}

static void test_strings(void **state)
{
    (void)state;
    VR_AUTO_ARENA a = { 0 };
    assert_string_equal(vr_arena_strndup(&a, "abcdef", 3), "abc");
    assert_memory_equal(vr_arena_strndup(&a, "a\0b", 3), "a\0b", 4);
    assert_string_equal(vr_arena_printf(&a, "blk.%d.%s", 7, "attn_q"), "blk.7.attn_q");
    char *lengthy = vr_arena_printf(&a, "%*d", 40000, 1);
    assert_non_null(lengthy);
    assert_int_equal(strlen(lengthy), 40000);
    assert_int_equal(lengthy[39999], '1');
}

static void test_done(void **state)
{
    (void)state;
    struct vr_arena a = { 0 };
    vr_arena_done(&a);
    assert_non_null(vr_arena_alloc(&a, 1, 100000));
    vr_arena_done(&a);
    assert_null(a.head);
    assert_int_equal(a.total, 0);
    vr_arena_done(&a);
    assert_string_equal(vr_arena_strdup(&a, "again"), "again");
    vr_arena_done(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_aligned_and_apart),
        cmocka_unit_test(test_big_blocks),
        cmocka_unit_test(test_zeroed_again),
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_overflow),
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
