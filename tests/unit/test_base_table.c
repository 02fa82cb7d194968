/* Exact text: what is compared is what a person sees. */
#include "test.h"

#include "base/table.h"

static void expect(struct vr_table *t, const char *want)
{
    VR_AUTO_BUF out = { 0 };
    vr_table_print(t, &out);
    assert_false(out.failed);
    assert_string_equal(vr_buf_str(&out), want);
}

static void test_columns(void **state)
{
    (void)state;
    VR_AUTO_TABLE t = { .cols = { { "layer" }, { "MiB", .right = true }, { "what" } }, .n_cols = 3 };
    vr_table_row(&t);
    vr_table_cell(&t, "%d-%d", 0, 9);
    vr_table_cell(&t, "%s", "1,234.50");
    vr_table_cell(&t, "attention");
    vr_table_row(&t);
    vr_table_cell(&t, "output layer");
    vr_table_cell(&t, "7.00");
    vr_table_cell(&t, "x");
    expect(&t, "layer              MiB  what\n"
               "0-9           1,234.50  attention\n"
               "output layer      7.00  x\n");
}

static void test_right_at_the_end(void **state)
{
    (void)state;
    VR_AUTO_TABLE t = { .cols = { { "id" }, { "tokens per second", .right = true } }, .n_cols = 2, .indent = "  " };
    vr_table_cell(&t, "CUDA0");
    vr_table_cell(&t, "12.5");
    expect(&t, "  id     tokens per second\n"
               "  CUDA0               12.5\n");
}

static void test_title_only(void **state)
{
    (void)state;
    VR_AUTO_TABLE t = { .cols = { { "a" }, { "b", .right = true } }, .n_cols = 2 };
    expect(&t, "a  b\n");
}

static void test_utf8_and_colour(void **state)
{
    (void)state;
    VR_AUTO_TABLE t = { .cols = { { "Größe", .right = true }, { "Ort" }, { "ok" } }, .n_cols = 3 };
    vr_table_cell(&t, "%s3%s", vr_style(true, VR_RED), vr_style(true, VR_PLAIN));
    vr_table_cell(&t, "Zürich");
    vr_table_cell(&t, "✓");
    vr_table_cell(&t, "12345");
    vr_table_cell(&t, "%sBern%s", vr_style(true, VR_BOLD), vr_style(true, VR_PLAIN));
    vr_table_cell(&t, "✗");
    expect(&t, "Größe  Ort     ok\n"
               "    \033[31m3\033[0m  Zürich  ✓\n"
               "12345  \033[1mBern\033[0m    ✗\n");
}

/* A style ends on the line on which it began. */
static void test_dim_titles(void **state)
{
    (void)state;
    VR_AUTO_TABLE t = { .cols = { { "a" }, { "b" } }, .n_cols = 2, .color = true, .indent = " " };
    vr_table_cell(&t, "1");
    vr_table_cell(&t, "22");
    vr_table_rule(&t);
    vr_table_cell(&t, "3");
    vr_table_cell(&t, "4");
    expect(&t, " \033[2ma  b\033[0m\n"
               " 1  22\n"
               " \033[2m─────\033[0m\n"
               " 3  4\n");
}

static void test_rules(void **state)
{
    (void)state;
    VR_AUTO_TABLE t = { .cols = { { "a" }, { "bb" } }, .n_cols = 2 };
    vr_table_rule(&t); /* under the titles */
    vr_table_cell(&t, "1");
    vr_table_cell(&t, "2");
    vr_table_cell(&t, "3");
    vr_table_rule(&t); /* fills the row up first */
    vr_table_rule(&t); /* twice is once */
    vr_table_cell(&t, "total");
    vr_table_cell(&t, "9");
    vr_table_rule(&t); /* before a row that never comes */
    expect(&t, "a      bb\n"
               "─────────\n"
               "1      2\n"
               "3\n"
               "─────────\n"
               "total  9\n");
}

/* Rows that are too short are filled up, and no line ends in spaces. */
static void test_short_rows(void **state)
{
    (void)state;
    VR_AUTO_TABLE t = { .cols = { { "first" }, { "second" }, { "third", .right = true } },
                        .n_cols = 3,
                        .indent = "  " };
    vr_table_row(&t);
    vr_table_row(&t); /* a row without cells is none */
    vr_table_cell(&t, "1");
    vr_table_row(&t);
    vr_table_cell(&t, "2");
    vr_table_cell(&t, "b");
    vr_table_row(&t);
    vr_table_cell(&t, "%s", "");
    vr_table_cell(&t, "%s", "");
    vr_table_cell(&t, "c");
    vr_table_row(&t);
    vr_table_cell(&t, "%s", "");
    vr_table_row(&t);
    vr_table_cell(&t, "last");
    expect(&t, "  first  second  third\n"
               "  1\n"
               "  2      b\n"
               "                     c\n"
               "\n"
               "  last\n");
}

static void test_again(void **state)
{
    (void)state;
    struct vr_table t = { .cols = { { "a" } }, .n_cols = 1 };
    vr_table_cell(&t, "1");
    expect(&t, "a\n1\n");
    expect(&t, "a\n1\n"); /* printing changes nothing */
    vr_table_cell(&t, "2");
    expect(&t, "a\n1\n2\n");
    vr_table_done(&t);
    expect(&t, "a\n");
    vr_table_cell(&t, "3");
    expect(&t, "a\n3\n");
    vr_table_done(&t);
}

static void test_appends_and_fails(void **state)
{
    (void)state;
    VR_AUTO_TABLE t = { .cols = { { "a" }, { "b" } }, .n_cols = 2 };
    vr_table_cell(&t, "1");
    VR_AUTO_BUF out = { 0 };
    vr_buf_adds(&out, "before\n");
    vr_table_print(&t, &out);
    assert_string_equal(vr_buf_str(&out), "before\na  b\n1\n");

    VR_AUTO_BUF tight = { .max = 5 };
    vr_table_print(&t, &tight);
    assert_true(tight.failed);

    VR_AUTO_TABLE full = { .cols = { { "a" } }, .n_cols = 1, .text = { .max = 4 } };
    vr_table_cell(&full, "too long for it");
    vr_table_cell(&full, "x");
    VR_AUTO_BUF whole = { 0 };
    vr_table_print(&full, &whole); /* a table with a hole is not printed */
    assert_true(whole.failed);
    assert_string_equal(vr_buf_str(&whole), "");
}

static void test_many(void **state)
{
    (void)state;
    VR_AUTO_TABLE t = { .n_cols = VR_TABLE_COLS };
    for (size_t c = 0; c < VR_TABLE_COLS; c++) t.cols[c] = (struct vr_col){ "t", .right = c % 2 };
    for (int i = 0; i < 500 * VR_TABLE_COLS; i++) vr_table_cell(&t, "%d", i);
    VR_AUTO_BUF out = { 0 };
    vr_table_print(&t, &out);
    size_t lines = 0;
    for (const char *s = out.data; *s; s++) lines += *s == '\n';
    assert_int_equal(lines, 501);
}

static void test_styles(void **state)
{
    (void)state;
    for (int s = VR_PLAIN; s <= VR_CYAN; s++) {
        assert_string_equal(vr_style(false, (enum vr_style)s), "");
        assert_int_equal(vr_style(true, (enum vr_style)s)[0], '\033');
        for (int o = VR_PLAIN; o < s; o++)
            assert_string_not_equal(vr_style(true, (enum vr_style)s), vr_style(true, (enum vr_style)o));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_columns),
        cmocka_unit_test(test_right_at_the_end),
        cmocka_unit_test(test_title_only),
        cmocka_unit_test(test_utf8_and_colour),
        cmocka_unit_test(test_dim_titles),
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_short_rows),
        cmocka_unit_test(test_again),
        cmocka_unit_test(test_appends_and_fails),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_styles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
