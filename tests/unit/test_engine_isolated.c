/* A function in a child process: what it brings back, and everything that can go wrong on the way, one row each. */
#include "test.h"

#include <signal.h>

#include "engine/llama/isolated.h"

static bool brings(void *ctx, struct vr_buf *result, struct vr_err *err)
{
    (void)err;
    printf("the engine prints to standard output, too\n");
    fflush(stdout);
    vr_buf_add(result, ctx, 4);
    vr_buf_addc(result, 'x', 100000);
    return true;
}

static void test_result(void **state)
{
    (void)state;
    char word[5] = "abcd", got[4], rest[100000];
    VR_AUTO_BUF result = { 0 };
    struct vr_err err = { 0 };
    size_t at = 0;
    struct vr_isolated job = { .fn = brings, .ctx = word, .what = "this", .timeout_ms = 20000 };
    if (!vr_isolated_run(&job, &result, &err)) fail_msg("%s", err.msg);
    assert_int_equal(result.n, 100004);
    assert_true(vr_isolated_next(&result, &at, got, sizeof got));
    assert_memory_equal(got, "abcd", 4);
    assert_false(vr_isolated_next(&result, &at, rest, 100001));
    assert_true(vr_isolated_next(&result, &at, rest, 100000));
    assert_int_equal(rest[99999], 'x');
    assert_false(vr_isolated_next(&result, &at, got, 1));
}

static bool says_no(void *ctx, struct vr_buf *result, struct vr_err *err)
{
    vr_buf_adds(result, "half a result");
    dprintf(2, "one line\nllama_model_load: error: %s\n\n", (const char *)ctx);
    return vr_fail(err, VR_EFORMAT, "the file is odd");
}

static bool crashes(void *ctx, struct vr_buf *result, struct vr_err *err)
{
    (void)ctx, (void)result, (void)err;
    dprintf(2, "/src/ggml.c:12: GGML_ASSERT(n > 0) failed");
    raise(SIGSEGV);
    return true;
}

static bool crashes_mutely(void *ctx, struct vr_buf *result, struct vr_err *err)
{
    (void)ctx, (void)result, (void)err;
    raise(SIGILL);
    return true;
}

static bool hangs(void *ctx, struct vr_buf *result, struct vr_err *err)
{
    (void)ctx, (void)result, (void)err;
    while (pause() < 0) continue;
    return true;
}

/* Whoever finds our end of the pipe can write what looks like nothing we know. */
static bool writes_garbage(void *ctx, struct vr_buf *result, struct vr_err *err)
{
    (void)ctx, (void)result, (void)err;
    char noise[4096];
    memset(noise, 0x5a, sizeof noise);
    for (int fd = 3; fd < 16; fd++)
        if (write(fd, noise, sizeof noise) > 0) break;
    _exit(0);
}

static bool leaves(void *ctx, struct vr_buf *result, struct vr_err *err)
{
    (void)ctx, (void)result, (void)err;
    _exit(0); /* as a library that calls exit() */
}

static bool brings_too_much(void *ctx, struct vr_buf *result, struct vr_err *err)
{
    (void)ctx, (void)err;
    vr_buf_addc(result, 'x', 5000);
    return true;
}

static bool runs_out(void *ctx, struct vr_buf *result, struct vr_err *err)
{
    (void)ctx, (void)err;
    result->failed = true; /* as when an allocation fails */
    return true;
}

static void test_failures(void **state)
{
    (void)state;
    static const struct {
        struct vr_isolated job;
        enum vr_code code;
        const char *says;
    } rows[] = {
        { { .fn = says_no, .of = "m.gguf", .quiet = true },
          VR_EFORMAT,
          "m.gguf: the file is odd; last message: error: bad magic" },
        { { .fn = says_no }, VR_EFORMAT, "the file is odd" },
        { { .fn = crashes, .of = "m.gguf" },
          VR_EENGINE,
          "m.gguf: the job failed (killed by signal 11 (Segmentation fault)); last message: "
          "/src/ggml.c:12: GGML_ASSERT(n > 0) failed" },
        { { .fn = crashes_mutely }, VR_EENGINE, "the job failed (killed by signal 4 (Illegal instruction))" },
        { { .fn = hangs, .timeout_ms = 50 }, VR_EENGINE, "the job failed (ran longer than 50 ms)" },
        { { .fn = writes_garbage }, VR_EENGINE, "the job failed (exited with status 0)" },
        { { .fn = leaves }, VR_EENGINE, "the job failed (exited with status 0)" },
        { { .fn = brings_too_much, .max_bytes = 4999 }, VR_EENGINE, "the job failed (wrote more than " },
        { { .fn = runs_out }, VR_ENOMEM, "collecting a result" },
        { { .fn = leaves, .of = "m.gguf", .pass_fds = { 9999 } },
          VR_EINTERNAL,
          "m.gguf: descriptor 9999 cannot be passed to a child process" },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct vr_isolated job = rows[i].job;
        VR_AUTO_BUF result = { 0 };
        struct vr_err err = { 0 };
        char ctx[] = "bad magic";
        job.ctx = ctx;
        job.what = "the job";
        if (!job.timeout_ms) job.timeout_ms = 20000;
        if (vr_isolated_run(&job, &result, &err)) fail_msg("row %zu: succeeded", i);
        if (err.code != rows[i].code || !strstr(err.msg, rows[i].says)) fail_msg("row %zu: %s", i, err.msg);
        assert_int_equal(result.n, 0);
        if (!job.quiet && rows[i].job.fn == says_no) assert_string_equal(err.msg, rows[i].says);
    }
}

static void test_block(void **state)
{
    (void)state;
    char out[5000];
    struct vr_err err = { 0 };
    struct vr_isolated job = { .fn = brings_too_much, .what = "this", .timeout_ms = 20000, .max_bytes = 5000 };
    if (!vr_isolated_block(&job, out, sizeof out, &err)) fail_msg("%s", err.msg);
    assert_int_equal(out[4999], 'x');
    assert_false(vr_isolated_block(&job, out, 4999, &err));
    assert_int_equal(err.code, VR_EENGINE);
    assert_string_equal(err.msg, "this brought 5000 bytes where 4999 were expected");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_result),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
