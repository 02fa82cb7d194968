/* Limits of a worker, in processes that exceed them. */
#include "test.h"

#include <sys/mman.h>
#include <sys/wait.h>

#include "base/child.h"
#include "engine/prepare/budget.h"

static atomic_int *stage;

static int open_budget(void)
{
    struct vr_err err;
    if (!vr_budget_open(stage, &err)) return 1;
    vr_budget_begin(1);
    vr_budget_stage(VR_STAGE_TOKENS);
    return 0;
}

static int burn(void *ctx)
{
    (void)ctx;
    if (open_budget()) return 1;
    for (volatile uint64_t n = 0;;) n++;
}

/* Takes memory until there is none; status 0: that was soon, and was told. */
static int hoard(void *ctx)
{
    (void)ctx;
    size_t block = 16 << 20, n = 0;
    struct vr_refusal why;
    if (open_budget()) return 1;
    while (n < 256 && mmap(NULL, block, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED) n++;
    vr_refuse_nomem(&why);
    vr_budget_explain(&why);
    return n >= 24 && n <= 40 && why.status == 400 && strcmp(why.code, "too_costly") == 0 &&
                   strstr(why.message, "tokenizing the prompt takes more than 512 MiB of memory")
               ? 0
               : 2;
}

static void run(int (*fn)(void *), struct vr_child_end *end)
{
    struct vr_err err = { 0 };
    const struct vr_child c = { .main = fn, .timeout_ms = 120000 };
    assert_true(vr_child_run(&c, end, &err));
}

static void test_time(void **state)
{
    (void)state;
    VR_AUTO_CHILD_END end = { 0 };
    struct vr_refusal why;
    run(burn, &end);
    assert_int_equal(end.signal, VR_BUDGET_SIGNAL);
    assert_int_equal(atomic_load(stage), VR_STAGE_TOKENS);
    vr_budget_refuse(&why, atomic_load(stage), 1, end.signal, false);
    assert_int_equal(why.status, 400);
    assert_string_equal(why.code, "too_costly");
    assert_string_equal(why.message, "tokenizing the prompt takes more than 1.0 s of processor time, the limit for a "
                                     "request of this size");
}

static void test_memory(void **state)
{
    (void)state;
    VR_AUTO_CHILD_END end = { 0 };
    run(hoard, &end);
    assert_int_equal(end.exit_status, 0);
}

static void test_words(void **state)
{
    (void)state;
    struct vr_refusal why;
    vr_budget_refuse(&why, VR_STAGE_CHAT_TOOLS, 100, SIGSEGV, false);
    assert_string_equal(why.param, "tools");
    assert_string_equal(why.code, "prepare_failed");
    assert_contains(why.message, "ended by signal 11");
    vr_budget_refuse(&why, 4711, 100, SIGKILL, true); /* a stage that a worker made up */
    assert_string_equal(why.message, "reading the request did not come to an end");
    assert_true(vr_budget_ms(500000) >= 2000 && vr_budget_ms((size_t)64 << 20) <= 30000);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_time), cmocka_unit_test(test_memory),
                                        cmocka_unit_test(test_words) };
    stage = mmap(NULL, sizeof *stage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
