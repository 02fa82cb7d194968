/* What was learned: added up, kept, read again. */
#include "test.h"

#include "base/file.h"
#include "server/learn.h"

static void test_round(void **state)
{
    (void)state;
    struct vr_learned l = { 0 }, again;
    struct vr_err err = { 0 };
    const char *path = scratch("a/b/learned.json");
    assert_true(vr_learned_read(path, &again, &err));
    assert_int_equal(again.n, 0);
    assert_true(vr_learned_add(&l, "CUDA0", 5) && vr_learned_add(&l, "GPU \"1\"", 7) && vr_learned_add(&l, "CUDA0", 6));
    assert_int_equal(l.n, 2);
    assert_true(vr_learned_write(path, &l, &err));
    assert_true(vr_learned_read(path, &again, &err));
    assert_int_equal(vr_learned_less(&again, "CUDA0"), 11);
    assert_int_equal(vr_learned_less(&again, "GPU \"1\""), 7);
    assert_int_equal(vr_learned_less(&again, "CUDA9"), 0);
}

static void test_limits(void **state)
{
    (void)state;
    struct vr_learned l = { 0 };
    char name[200];
    memset(name, 'x', sizeof name);
    name[199] = '\0';
    assert_false(vr_learned_add(&l, name, 1));
    for (int i = 0; i < VR_MAX_LEARNED; i++) {
        snprintf(name, sizeof name, "CUDA%d", i);
        assert_true(vr_learned_add(&l, name, 1));
    }
    assert_false(vr_learned_add(&l, "one more", 1));
    assert_true(vr_learned_add(&l, "CUDA3", 1));
}

static void test_broken(void **state)
{
    (void)state;
    static const char *const rows[] = { "",
                                        "nonsense",
                                        "[]",
                                        "{}",
                                        "{\"devices\":[]}",
                                        "{\"devices\":{\"a\":1}}",
                                        "{\"devices\":{\"a\":{\"less_bytes\":-1}}}" };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct vr_learned l;
        struct vr_err err = { 0 };
        const char *path = scratch("broken.json");
        assert_true(vr_file_write(path, rows[i], strlen(rows[i]), &err));
        assert_false(vr_learned_read(path, &l, &err));
        assert_contains(err.msg, "delete it");
        assert_int_equal(l.n, 0);
    }
}

static void test_path(void **state)
{
    (void)state;
    char path[256];
    setenv("XDG_STATE_HOME", "/x", 1);
    assert_true(vr_learned_path(path, sizeof path));
    assert_string_equal(path, "/x/vram-llm/learned.json");
    setenv("XDG_STATE_HOME", "relative", 1);
    setenv("HOME", "/h", 1);
    assert_true(vr_learned_path(path, sizeof path));
    assert_string_equal(path, "/h/.local/state/vram-llm/learned.json");
    assert_false(vr_learned_path(path, 8));
    unsetenv("XDG_STATE_HOME");
    unsetenv("HOME");
    assert_false(vr_learned_path(path, sizeof path));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_round), cmocka_unit_test(test_limits),
                                        cmocka_unit_test(test_broken), cmocka_unit_test(test_path) };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
