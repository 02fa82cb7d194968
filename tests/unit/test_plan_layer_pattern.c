#include "test.h"

#include <regex.h>

#include "plan/layer_pattern.h"

static void test_rows(void **state)
{
    (void)state;
    static const struct {
        uint32_t from, to, step;
        const char *pattern;
    } rows[] = {
        { 7, 7, 1, "(7)" },
        { 3, 6, 1, "(3|4|5|6)" },
        { 12, 14, 1, "(12|13|14)" },
        { 8, 11, 1, "(8|9|10|11)" },
        { 12, 93, 1, "(1(2|3|4|5|6|7|8|9)|(2|3|4|5|6|7|8)(0|1|2|3|4|5|6|7|8|9)|9(0|1|2|3))" },
        { 0, 99, 5, "((0|5)|(1|2|3|4|5|6|7|8|9)(0|5))" },
        { 96, 123, 1, "(9(6|7|8|9)|1((0|1)(0|1|2|3|4|5|6|7|8|9)|2(0|1|2|3)))" },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        bool in[128] = { false };
        VR_AUTO_BUF text = { 0 };
        for (uint32_t k = rows[i].from; k <= rows[i].to; k += rows[i].step) in[k] = true;
        vr_layer_pattern(&text, in, VR_COUNT(in));
        assert_string_equal(vr_buf_str(&text), rows[i].pattern);
    }
}

/* Random sets of layers: the expression finds those and no others, and is no longer than a list. */
static void test_matches(void **state)
{
    (void)state;
    unsigned seed = 3;
    for (int round = 0; round < 200; round++) {
        bool in[260] = { false };
        VR_AUTO_BUF text = { 0 }, list = { 0 };
        uint32_t n = 1 + (uint32_t)rand_r(&seed) % 260, dense = 1 + (uint32_t)rand_r(&seed) % 12;
        for (uint32_t i = 0; i < n; i++) in[i] = (uint32_t)rand_r(&seed) % 12 < dense;
        in[(uint32_t)rand_r(&seed) % n] = true;
        for (uint32_t i = 0; i < n; i++)
            if (in[i]) vr_buf_addf(&list, "%u|", i);
        vr_buf_adds(&text, "^blk\\.");
        vr_layer_pattern(&text, in, n);
        vr_buf_adds(&text, "\\.");
        assert_true(text.n <= list.n + strlen("^blk\\.()\\."));
        regex_t re;
        assert_int_equal(regcomp(&re, vr_buf_str(&text), REG_EXTENDED | REG_NOSUB), 0);
        for (uint32_t i = 0; i < 1100; i++) {
            char name[32];
            snprintf(name, sizeof name, "blk.%u.x", i);
            assert_int_equal(regexec(&re, name, 0, NULL, 0) == 0, i < n && in[i]);
        }
        regfree(&re);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_rows), cmocka_unit_test(test_matches) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
