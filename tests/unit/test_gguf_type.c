#include "test.h"

#include "gguf/type.h"

static void test_table(void **state)
{
    (void)state;
    static const struct {
        uint32_t id;
        const char *name;
        uint64_t row_of_256; /* bytes */
    } rows[] = {
        { 0, "f32", 1024 },  { 1, "f16", 512 },    { 2, "q4_0", 144 },    { 8, "q8_0", 272 },
        { 12, "q4_K", 144 }, { 14, "q6_K", 210 },  { 18, "iq3_xxs", 98 }, { 23, "iq4_xs", 136 },
        { 30, "bf16", 512 }, { 39, "mxfp4", 136 }, { 40, "nvfp4", 144 },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        assert_string_equal(vr_type(rows[i].id)->name, rows[i].name);
        assert_int_equal(vr_type_row_bytes(rows[i].id, 256), rows[i].row_of_256);
        assert_int_equal(vr_type_by_name(rows[i].name), rows[i].id);
    }
}

static void test_unknown(void **state)
{
    (void)state;
    static const uint32_t withdrawn[] = { 4, 5, 31, 32, 33, 36, 37, 38, 43, 1000, UINT32_MAX };
    for (size_t i = 0; i < VR_COUNT(withdrawn); i++) assert_null(vr_type(withdrawn[i]));
    assert_int_equal(vr_type_by_name("q4_k"), 12); /* as people type it */
    assert_int_equal(vr_type_by_name("q4"), VR_TYPE_NONE);
    assert_true(vr_type_is_quantized(8));
    assert_false(vr_type_is_quantized(30));
    assert_false(vr_type_is_quantized(4));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_table), cmocka_unit_test(test_unknown) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
