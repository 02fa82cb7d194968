/* Directories as people have them, and as somebody who wants out would make them. */
#include "test.h"

#include <sys/stat.h>
#include <unistd.h>

#include "server/api/model_list.h"
#include "test_hw_tree.h"

static struct vr_model_list s;

static void read_it(void)
{
    struct vr_err err = { 0 };
    char dir[600];
    snprintf(dir, sizeof dir, "%s/models", scratch_dir);
    vr_model_list_done(&s);
    if (!vr_model_list_read(dir, &s, &err)) fail_msg("%s", err.msg);
}

static int make_tree(void **state)
{
    scratch_setup(state);
    static const char *const files[] = { "Qwen3-30B-A3B-Q4_K_M.gguf", /* ends like a part, and is none */
                                         "b.GGUF",
                                         "hub/org/split-00002-of-00003.gguf",
                                         "hub/org/split-00001-of-00003.gguf",
                                         "hub/org/split-00003-of-00003.gguf",
                                         "half-00002-of-00002.gguf",
                                         "hub/org/mmproj-f16.gguf",
                                         "notes.txt",
                                         ".hidden.gguf",
                                         ".cache/x.gguf",
                                         "1/2/3/deep.gguf",
                                         "1/2/3/4/too-deep.gguf",
                                         "bad\nname.gguf",
                                         "bad\xff.gguf",
                                         ".gguf",
                                         "odd-00004-of-00003.gguf" };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[200];
        snprintf(path, sizeof path, "models/%s", files[i]);
        tree_put(path, "12345");
    }
    tree_put("outside/secret.gguf", "secret");
    tree_link("models/link.gguf", "outside/secret.gguf");
    tree_link("models/linked", "outside");
    char fifo[600];
    snprintf(fifo, sizeof fifo, "%s/models/fifo.gguf", scratch_dir);
    return mkfifo(fifo, 0600);
}

static void test_list(void **state)
{
    (void)state;
    static const struct {
        const char *id;
        uint64_t bytes;
        unsigned n_parts, n_found;
    } want[] = {
        { "1/2/3/deep.gguf", 5, 1, 1 },
        { "Qwen3-30B-A3B-Q4_K_M.gguf", 5, 1, 1 },
        { "b.GGUF", 5, 1, 1 },
        { "half-00002-of-00002.gguf", 5, 2, 1 },
        { "hub/org/split-00001-of-00003.gguf", 15, 3, 3 },
    };
    read_it();
    for (size_t i = 0; i < s.n; i++) print_message("%s\n", s.items[i].id);
    assert_int_equal(s.n, sizeof want / sizeof *want);
    for (size_t i = 0; i < s.n; i++) {
        assert_string_equal(s.items[i].id, want[i].id);
        assert_int_equal(s.items[i].bytes, want[i].bytes);
        assert_int_equal(s.items[i].n_parts, want[i].n_parts);
        assert_int_equal(s.items[i].n_found, want[i].n_found);
    }
    assert_false(s.more);
}

static void test_find(void **state)
{
    (void)state;
    static const char *const no[] = {
        "",          "nothing.gguf",  "link.gguf",   "linked/secret.gguf",       "../outside/secret.gguf",
        "./b.GGUF",  "hub/../b.GGUF", "/etc/passwd", "half-00002-of-00002.gguf", "hub/org/split-00002-of-00003.gguf",
        "notes.txt", "fifo.gguf"
    };
    read_it();
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        if (vr_model_list_find(&s, no[i])) fail_msg("'%s' was found", no[i]);
    assert_non_null(vr_model_list_find(&s, "b.GGUF"));
    assert_non_null(vr_model_list_find(&s, "hub/org/split-00001-of-00003.gguf"));
    struct vr_err err = { 0 };
    struct vr_model_list none;
    assert_false(vr_model_list_read("/nowhere/at/all", &none, &err));
    assert_contains(err.msg, "/nowhere/at/all: No such file");
}

static void test_many(void **state)
{
    (void)state;
    for (int i = 0; i < VR_MAX_LISTED + 10; i++) {
        char path[80];
        snprintf(path, sizeof path, "models/many/%04d.gguf", i);
        tree_put(path, "");
    }
    read_it();
    assert_int_equal(s.n, VR_MAX_LISTED);
    assert_true(s.more);
    vr_model_list_done(&s);
    assert_int_equal(s.n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_list), cmocka_unit_test(test_find),
                                        cmocka_unit_test(test_many) };
    return cmocka_run_group_tests(tests, make_tree, scratch_teardown);
}
