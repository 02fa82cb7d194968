/* A CPU variant is used only after it has multiplied: one that traps or refuses is passed over, whatever it claims. */
#include "test.h"

#include <signal.h>

#include "base/child.h"
#include "engine/llama/cpu.h"
#include "engine/llama/library.h"

static char engine[768], best[1024]; /* where the variants are; the one that was chosen */

static void link_variant(const char *dir, const char *name)
{
    char from[1024];
    snprintf(from, sizeof from, "%s/%s", engine, name);
    assert_int_equal(symlink(from, scratch("%s/%s", dir, name)), 0);
}

/* Builds tests/stubs/cpu_variant.c as a variant. */
static void build_stub(const char *dir, const char *name, const char *define)
{
    const char *const argv[] = {
        "cc", "-shared", "-fPIC", define, "-o", scratch("%s/%s", dir, name), "tests/stubs/cpu_variant.c", NULL
    };
    struct vr_child c = { .argv = argv, .timeout_ms = 120000 };
    VR_AUTO_CHILD_END end = { 0 };
    struct vr_err err = { 0 };
    if (!vr_child_run(&c, &end, &err)) fail_msg("%s", err.msg);
    if (end.exit_status != 0) fail_msg("%s", vr_buf_str(&end.err));
}

static void test_this_machine(void **state)
{
    (void)state;
    struct vr_err err = { 0 };
    if (!vr_cpu_choose(best, sizeof best, &err)) fail_msg("%s", err.msg);
    print_message("%s\n", best);
    assert_contains(best, "/libggml-cpu");
}

static void test_which_engine(void **state)
{
    (void)state;
    print_message("llama.cpp %s in %s\n", vr_engine_version(), engine);
    assert_true(vr_engine_version()[0] >= '0' && vr_engine_version()[0] <= '9');
    assert_true(vr_engine_has("cpu"));
    assert_false(vr_engine_has("abacus"));
}

static void test_a_trap_is_passed_over(void **state)
{
    (void)state;
    char path[1024];
    struct vr_err err = { 0 };
    assert_int_equal(mkdir(scratch("mixed"), 0755), 0);
    build_stub("mixed", "libggml-cpu-amx.so", "-DTRAPS");
    build_stub("mixed", "libggml-cpu-shy.so", "-DREFUSES");
    const char *good = strrchr(best, '/') + 1;
    link_variant("mixed", good);
    if (!vr_cpu_choose_in(scratch("mixed"), path, sizeof path, &err)) fail_msg("%s", err.msg);
    assert_string_equal(path, scratch("mixed/%s", good));
}

static void test_nothing_works(void **state)
{
    (void)state;
    char path[1024];
    struct vr_err err = { 0 };
    assert_int_equal(mkdir(scratch("bad"), 0755), 0);
    build_stub("bad", "libggml-cpu-amx.so", "-DTRAPS");
    assert_false(vr_cpu_choose_in(scratch("bad"), path, sizeof path, &err));
    assert_int_equal(err.code, VR_EENGINE);
    assert_contains(err.msg, "no CPU backend of the engine works on this processor: ");
    assert_contains(err.msg, "libggml-cpu-amx.so failed (killed by signal");
    assert_int_equal(mkdir(scratch("empty"), 0755), 0);
    assert_false(vr_cpu_choose_in(scratch("empty"), path, sizeof path, &err));
}

static int setup(void **state)
{
    return scratch_setup(state) == 0 && vr_engine_dir(engine, sizeof engine, NULL) ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_which_engine),
        cmocka_unit_test(test_this_machine),
        cmocka_unit_test(test_a_trap_is_passed_over),
        cmocka_unit_test(test_nothing_works),
    };
    return cmocka_run_group_tests(tests, setup, scratch_teardown);
}
