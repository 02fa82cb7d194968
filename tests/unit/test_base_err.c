/* Codes and sentences. */
#include "test.h"

static const struct row {
    enum vr_code code;
    int exit_status, http;
    const char *kind;
} rows[] = {
    { VR_OK, 0, 200, "ok" },
    { VR_EUSAGE, 2, 400, "invalid_request_error" },
    { VR_EFORMAT, 3, 400, "invalid_file" },
    { VR_ENOFIT, 4, 507, "does_not_fit" },
    { VR_EIO, 5, 500, "io_error" },
    { VR_ENOMEM, 6, 503, "out_of_memory" },
    { VR_EENGINE, 7, 502, "engine_error" },
    { VR_EDEVICE, 8, 503, "device_error" },
    { VR_ESPLIT, 10, 502, "split_error" },
    { VR_EINTERNAL, 9, 500, "internal_error" },
};

static void test_codes(void **state)
{
    (void)state;
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        assert_int_equal(vr_code_exit(rows[i].code), rows[i].exit_status);
        assert_int_equal(vr_code_http(rows[i].code), rows[i].http);
        assert_string_equal(vr_code_kind(rows[i].code), rows[i].kind);
        enum vr_code code = VR_OK;
        assert_int_equal(vr_code_parse(rows[i].kind, &code), rows[i].code != VR_OK); /* no error is called ok */
        assert_int_equal(code, rows[i].code);
    }
    enum vr_code none;
    assert_false(vr_code_parse("tea", &none) || vr_code_parse(NULL, &none));
}

static void *fails(struct vr_err *err) { return VR_FAIL_NULL(err, VR_ENOFIT, "%d MiB missing", 12); }

static void test_fail(void **state)
{
    (void)state;
    struct vr_err err = { 0 };
    assert_false(vr_fail(&err, VR_EFORMAT, "%s: byte %d", "a.gguf", 7));
    assert_int_equal(err.code, VR_EFORMAT);
    assert_string_equal(err.msg, "a.gguf: byte 7");
    assert_false(vr_fail_more(&err, "; %s", "download it again"));
    assert_int_equal(err.code, VR_EFORMAT);
    assert_string_equal(err.msg, "a.gguf: byte 7; download it again");
    assert_false(vr_fail_nomem(&err, "planning"));
    assert_int_equal(err.code, VR_ENOMEM);
    assert_string_equal(err.msg, "out of memory while planning");
    assert_null(fails(&err));
    assert_int_equal(err.code, VR_ENOFIT);
    assert_string_equal(err.msg, "12 MiB missing");
}

static void test_nobody_asks(void **state)
{
    (void)state;
    assert_false(vr_fail(NULL, VR_EIO, "x"));
    assert_false(vr_fail_nomem(NULL, "x"));
    assert_false(vr_fail_more(NULL, "x"));
    assert_null(fails(NULL));
}

/* A message that is told again with its place in front. */
static void test_message_in_itself(void **state)
{
    (void)state;
    struct vr_err err = { 0 };
    vr_fail(&err, VR_EIO, "no such file");
    vr_fail(&err, err.code, "profile.json: %s", err.msg);
    assert_string_equal(err.msg, "profile.json: no such file");
}

static void test_long_messages_are_cut(void **state)
{
    (void)state;
    struct {
        struct vr_err err;
        char guard[64];
    } e = { 0 };
    memset(e.guard, 'g', sizeof e.guard);
    char lengthy[5000];
    memset(lengthy, 'x', sizeof lengthy - 1);
    lengthy[sizeof lengthy - 1] = '\0';
    vr_fail(&e.err, VR_EIO, "%s", lengthy);
    assert_int_equal(strlen(e.err.msg), sizeof e.err.msg - 1);
    vr_fail_more(&e.err, "%s", lengthy); /* nothing fits any more */
    assert_int_equal(strlen(e.err.msg), sizeof e.err.msg - 1);
    vr_fail(&e.err, VR_EIO, "%.1000s", lengthy);
    vr_fail_more(&e.err, "%s", lengthy);
    assert_int_equal(strlen(e.err.msg), sizeof e.err.msg - 1);
    for (size_t i = 0; i < sizeof e.guard; i++) assert_int_equal(e.guard[i], 'g');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_codes),
        cmocka_unit_test(test_fail),
        cmocka_unit_test(test_nobody_asks),
        cmocka_unit_test(test_message_in_itself),
        cmocka_unit_test(test_long_messages_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
