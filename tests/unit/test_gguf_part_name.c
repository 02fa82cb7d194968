/* Names of files, one row each: parts of a split model, models in one file, and what is neither. */
#include "test.h"

#include "gguf/part_name.h"

static void test_names(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        bool part, gguf;
        size_t n_stem;
        unsigned no, count;
    } rows[] = {
        { "m-00002-of-00009.gguf", true, true, 1, 2, 9 },
        { "dir/m-00001-of-00001.gguf", true, true, 5, 1, 1 },
        { "m-00010-of-00009.gguf", true, false, 1, 10, 9 }, /* which no model has */
        { "m.gguf", false, true, 1, 1, 1 },
        { "M.GGUF", false, true, 1, 1, 1 },
        { "m-00000-of-00009.gguf", false, true, 16, 1, 1 },
        { "m-2-of-9.gguf", false, true, 8, 1, 1 },
        { "m-00002-of-00009.gguf.part", false, false, 0, 0, 0 },
        { "-00002-of-00009.gguf", false, true, 15, 1, 1 }, /* a part of nothing */
        { ".gguf", false, false, 0, 0, 0 },
        { "m.bin", false, false, 0, 0, 0 },
        { "", false, false, 0, 0, 0 },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        size_t n_stem;
        unsigned no, count;
        if (vr_part_name(rows[i].path, &n_stem, &no, &count) != rows[i].part) fail_msg("%s: a part?", rows[i].path);
        if (vr_gguf_name(rows[i].path, &n_stem, &no, &count) != rows[i].gguf) fail_msg("%s: a model?", rows[i].path);
        if (!rows[i].gguf) continue;
        assert_int_equal(n_stem, rows[i].n_stem);
        assert_int_equal(no, rows[i].no);
        assert_int_equal(count, rows[i].count);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_names) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
