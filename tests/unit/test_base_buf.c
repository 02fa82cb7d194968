/* Growing, the cap, and failing once for all. */
#include "test.h"

#include "base/buf.h"

static void test_empty(void **state)
{
    (void)state;
    VR_AUTO_BUF b = { 0 };
    assert_string_equal(vr_buf_str(&b), "");
    vr_buf_clear(&b);
    vr_buf_add(&b, NULL, 0);
    vr_buf_adds(&b, "");
    vr_buf_addc(&b, 'x', 0);
    vr_buf_addf(&b, "%s", "");
    assert_int_equal(b.n, 0);
    assert_false(b.failed);
    assert_non_null(b.data); /* an append of nothing is an append */
    assert_string_equal(b.data, "");
}

static void test_appends(void **state)
{
    (void)state;
    VR_AUTO_BUF b = { 0 };
    vr_buf_add(&b, "a\0b", 3);
    assert_int_equal(b.n, 3);
    assert_memory_equal(b.data, "a\0b", 4);
    vr_buf_clear(&b);
    vr_buf_adds(&b, "one ");
    vr_buf_addc(&b, '-', 3);
    vr_buf_addf(&b, " %d %s", 42, "end");
    assert_string_equal(vr_buf_str(&b), "one --- 42 end");
    assert_int_equal(b.n, strlen("one --- 42 end"));
}

/* Every length over several doublings: content and the NUL behind it, by each way to append. */
static void test_growth(void **state)
{
    (void)state;
    for (int way = 0; way < 4; way++) {
        VR_AUTO_BUF b = { 0 };
        size_t grown = 0, cap = 0;
        for (size_t i = 0; i < 3000; i++) {
            char c = (char)('a' + i % 26);
            switch (way) {
            case 0: vr_buf_add(&b, &c, 1); break;
            case 1: vr_buf_adds(&b, (const char[]){ c, 0 }); break;
            case 2: vr_buf_addc(&b, c, 1); break;
            case 3: vr_buf_addf(&b, "%c", c); break;
            }
            grown += b.cap != cap;
            cap = b.cap;
            assert_int_equal(b.n, i + 1);
            assert_true(b.cap > b.n);
            assert_int_equal(b.data[b.n], 0);
        }
        for (size_t i = 0; i < b.n; i++) assert_int_equal(b.data[i], 'a' + (int)(i % 26));
        assert_true(grown < 10); /* it doubles: appending stays cheap */
        assert_false(b.failed);
    }
}

static void test_clear_keeps_memory(void **state)
{
    (void)state;
    VR_AUTO_BUF b = { .max = 500 };
    vr_buf_addc(&b, 'x', 400);
    const char *data = b.data;
    vr_buf_clear(&b);
    assert_ptr_equal(b.data, data);
    assert_string_equal(vr_buf_str(&b), "");
    vr_buf_done(&b);
    assert_null(b.data);
    assert_int_equal(b.cap, 0);
    assert_int_equal(b.max, 500); /* the limit is the owner's */
    vr_buf_done(&b);
    vr_buf_adds(&b, "again");
    assert_string_equal(vr_buf_str(&b), "again");
}

static void add_ten(struct vr_buf *b, int way)
{
    switch (way) {
    case 0: vr_buf_add(b, "0123456789", 10); break;
    case 1: vr_buf_adds(b, "0123456789"); break;
    case 2: vr_buf_addc(b, 'c', 10); break;
    case 3: vr_buf_addf(b, "%010d", 7); break;
    }
}

static void test_cap(void **state)
{
    (void)state;
    for (int way = 0; way < 4; way++) {
        VR_AUTO_BUF b = { .max = 20 };
        add_ten(&b, way);
        add_ten(&b, way); /* exactly full */
        assert_false(b.failed);
        assert_int_equal(b.n, 20);
        vr_buf_addc(&b, 'x', 0);
        assert_false(b.failed);
        vr_buf_addc(&b, 'x', 1);
        assert_true(b.failed);
        assert_int_equal(b.n, 20);
        assert_int_equal(strlen(vr_buf_str(&b)), 20);
        vr_buf_clear(&b);
        add_ten(&b, way);
        assert_false(b.failed);
        assert_int_equal(b.n, 10);
    }
}

/* After a failure nothing is appended, even what would fit: the owner sees no text with a hole. */
static void test_failed_stays_failed(void **state)
{
    (void)state;
    for (int way = 0; way < 4; way++) {
        VR_AUTO_BUF b = { .max = 15 };
        add_ten(&b, way);
        add_ten(&b, way);
        assert_true(b.failed);
        vr_buf_adds(&b, "x");
        assert_int_equal(b.n, 10);
    }
}

static void test_absurd_sizes(void **state)
{
    (void)state;
    static const size_t sizes[] = { SIZE_MAX, SIZE_MAX - 1, SIZE_MAX - 4, SIZE_MAX / 2, SIZE_MAX / 4 };
    for (size_t i = 0; i < VR_COUNT(sizes); i++) {
        VR_AUTO_BUF b = { 0 };
        vr_buf_adds(&b, "kept");
        vr_buf_addc(&b, 'x', sizes[i]);
        assert_true(b.failed);
        assert_string_equal(vr_buf_str(&b), "kept");
        VR_AUTO_BUF fresh = { 0 };
        vr_buf_addc(&fresh, 'x', sizes[i]);
        assert_true(fresh.failed);
        assert_string_equal(vr_buf_str(&fresh), "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty),        cmocka_unit_test(test_appends),
        cmocka_unit_test(test_growth),       cmocka_unit_test(test_clear_keeps_memory),
        cmocka_unit_test(test_cap),          cmocka_unit_test(test_failed_stays_failed),
        cmocka_unit_test(test_absurd_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
