/* What was learned: kept by the device's own name, read again, forgotten in time. */
#include "test.h"

#include "base/file.h"
#include "hw/learned.h"

#define DAY ((int64_t)86400)

static void test_round(void **state)
{
    (void)state;
    struct vr_learned l = { 0 }, again;
    struct vr_err err = { 0 };
    const char *path = scratch("a/b/learned.json");
    assert_true(vr_learned_load(path, 1000 * DAY, &again, &err));
    assert_int_equal(again.n, 0);
    *vr_learned_at(&l, "GPU-1") = (struct vr_learned_row){ .key = "GPU-1",
                                                           .hidden_bytes = 11,
                                                           .free_bytes = 100,
                                                           .stage = VR_AT_CONTEXT,
                                                           .when = 1000 * DAY,
                                                           .most_bytes = 7,
                                                           .fails = 2 };
    *vr_learned_at(&l, "old \"2\"") =
        (struct vr_learned_row){ .key = "old \"2\"", .hidden_bytes = 5, .when = 965 * DAY };
    vr_learned_at(&l, "limits only")->most_bytes = 9;
    l.n_fails = 3;
    assert_ptr_equal(vr_learned_at(&l, "GPU-1"), vr_learned_find(&l, "GPU-1"));
    assert_true(vr_learned_save(path, &l, &err));
    assert_true(vr_learned_load(path, 990 * DAY, &again, &err));
    assert_int_equal(again.n, 2); /* limits are of a run */
    assert_true(vr_learned_load(path, 1000 * DAY, &again, &err));
    assert_int_equal(again.n, 1); /* and this one is 35 days old */
    assert_true(vr_learned_load(path, 900 * DAY, &again, &err));
    assert_int_equal(again.n, 0); /* a clock was wrong: they would never be forgotten */
    assert_true(vr_learned_load(path, 1000 * DAY, &again, &err));
    const struct vr_learned_row *r = vr_learned_find(&again, "GPU-1");
    assert_true(r && r->hidden_bytes == 11 && r->free_bytes == 100 && r->stage == VR_AT_CONTEXT &&
                r->when == 1000 * DAY);
    assert_true(r->most_bytes == 0 && r->fails == 0 && again.n_fails == 0);
    /* all of it, for the process that plans again */
    VR_AUTO_BUF text = { 0 };
    assert_true(vr_learned_print(&l, true, &text, &err));
    assert_true(vr_learned_parse(vr_buf_str(&text), text.n, &again));
    assert_int_equal(again.n, 3);
    assert_true(vr_learned_find(&again, "limits only")->most_bytes == 9 && again.n_fails == 3);
    assert_true(vr_learned_find(&again, "GPU-1")->most_bytes == 7 && vr_learned_find(&again, "GPU-1")->fails == 2);
}

/* Models that end an engine in split mode tensor. */
static void test_splits(void **state)
{
    (void)state;
    struct vr_learned l = { 0 }, again;
    struct vr_err err = { 0 };
    const char *path = scratch("splits.json");
    struct vr_split a = { "1", "a model", "0.5.0" }, b = { "2", "b \"model\"", "0.5.0" }, c = { "3", "c", "0.5.0" };
    assert_null(vr_learned_split(&l, &a));
    vr_learned_split_died(&l, &a, "ended by signal 6", 1000 * DAY);
    vr_learned_split_died(&l, &b, "ended by signal 8", 960 * DAY);
    vr_learned_split_died(&l, &a, "ended by signal 11", 1001 * DAY); /* once more: one row */
    assert_int_equal(l.n_splits, 2);
    l.split_off = true;
    assert_true(vr_learned_save(path, &l, &err));
    assert_true(vr_learned_load(path, 985 * DAY, &again, &err));
    assert_true(again.n_splits == 2 && !again.split_off); /* that was of a run */
    assert_memory_equal(again.splits, l.splits, 2 * sizeof l.splits[0]);
    assert_true(vr_learned_load(path, 1001 * DAY, &again, &err));
    assert_true(vr_learned_split(&again, &a) && !vr_learned_split(&again, &b)); /* older than a month */
    VR_AUTO_BUF text = { 0 };
    assert_true(vr_learned_print(&l, true, &text, &err));
    assert_true(vr_learned_parse(vr_buf_str(&text), text.n, &again) && again.split_off && again.n_splits == 2);
    for (int i = 0; i < VR_MAX_LEARNED; i++) {
        snprintf(c.id, sizeof c.id, "c%d", i);
        vr_learned_split_died(
            &l, &c,
            "an assertion failed in a file whose name is longer than any, "
            "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4"
            "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4"
            "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4"
            "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4",
            1002 * DAY);
    }
    assert_int_equal(l.n_splits, VR_MAX_LEARNED);
    assert_null(vr_learned_split(&l, &b));        /* the oldest went first */
    assert_true(vr_learned_save(path, &l, &err)); /* cut between characters */
}

static void test_limits(void **state)
{
    (void)state;
    struct vr_learned l = { 0 };
    char name[200];
    memset(name, 'x', sizeof name);
    name[199] = '\0';
    assert_null(vr_learned_at(&l, name));
    assert_null(vr_learned_at(&l, ""));
    for (int i = 0; i < VR_MAX_LEARNED; i++) {
        snprintf(name, sizeof name, "GPU-%d", i);
        assert_non_null(vr_learned_at(&l, name));
    }
    assert_null(vr_learned_at(&l, "one more"));
    assert_non_null(vr_learned_at(&l, "GPU-3"));
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
                                        "{\"devices\":{\"a\":{\"hidden_bytes\":1}}}",
                                        "{\"devices\":{\"a\":{\"hidden_bytes\":-1,\"stage\":\"load\"}}}",
                                        "{\"devices\":{\"a\":{\"hidden_bytes\":\"1\",\"stage\":\"load\"}}}",
                                        "{\"devices\":{\"a\":{\"hidden_bytes\":1,\"stage\":\"tea\"}}}",
                                        "{\"devices\":{},\"splits\":{}}",
                                        "{\"devices\":{},\"splits\":[3]}",
                                        "{\"devices\":{},\"splits\":[{\"id\":\"1\",\"model\":\"m\"}]}" };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct vr_learned l;
        struct vr_err err = { 0 };
        const char *path = scratch("broken.json");
        assert_true(vr_file_write(path, rows[i], strlen(rows[i]), &err));
        assert_false(vr_learned_load(path, 0, &l, &err));
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
                                        cmocka_unit_test(test_splits), cmocka_unit_test(test_broken),
                                        cmocka_unit_test(test_path) };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
