/* FAILED: what the engine writes is what the front reads; what it does not write is refused. */
#include "test.h"

#include "engine/wire/failure.h"

static void test_round(void **state)
{
    (void)state;
    static const struct vr_failure rows[] = {
        { .stage = VR_AT_LOAD, .message = "the file is not there" },
        { .stage = VR_AT_CONTEXT,
          .out_of_memory = true,
          .device = "CUDA1",
          .asked_bytes = UINT64_C(1) << 40,
          .free_bytes = 5,
          .missing_bytes = 7,
          .left = { { "CUDA0", 1 }, { "CUDA1", 2 } },
          .n_left = 2,
          .message = "a \"quoted\" message" },
        { .stage = VR_AT_DECODE, .out_of_memory = true },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        VR_AUTO_BUF b = { 0 };
        struct vr_failure got;
        vr_failure_write(&rows[i], "[\"last words\"]", &b);
        assert_true(vr_failure_read(b.data, b.n, &got));
        assert_memory_equal(&got, &rows[i], sizeof got);
    }
}

static void test_broken(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "",
        "[]",
        "{}",
        "{\"stage\":\"tea\"}",
        "{\"stage\":\"load\"}",
        "{\"stage\":\"load\",\"device\":null,\"message\":\"m\",\"asked_bytes\":-1,\"free_bytes\":0,\"missing_bytes\":0,"
        "\"left\":[]}",
        "{\"stage\":\"load\",\"device\":5,\"message\":\"m\",\"asked_bytes\":0,\"free_bytes\":0,\"missing_bytes\":0,"
        "\"left\":[]}",
        "{\"stage\":\"load\",\"device\":null,\"message\":\"m\",\"asked_bytes\":0,\"free_bytes\":0,\"missing_bytes\":0,"
        "\"left\":[{}]}",
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct vr_failure f;
        if (vr_failure_read(rows[i], strlen(rows[i]), &f)) fail_msg("taken: %s", rows[i]);
    }
}

static void test_stages(void **state)
{
    (void)state;
    for (enum vr_load_stage s = 0, got; s < VR_N_LOAD_STAGES; s++)
        assert_true(vr_load_stage_parse(vr_load_stage_name(s), &got) && got == s);
    enum vr_load_stage none;
    assert_false(vr_load_stage_parse("warmup", &none) || vr_load_stage_parse(NULL, &none));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_round), cmocka_unit_test(test_broken),
                                        cmocka_unit_test(test_stages) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
