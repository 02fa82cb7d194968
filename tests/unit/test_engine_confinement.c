/* What a process that runs the engine may still open: its model, all parts of it, and the engine's own libraries; and
 * that a CPU backend loads behind it. */
#include "test.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>

#include "engine/llama/cpu.h"
#include "engine/llama/isolated.h"
#include "engine/llama/library.h"

enum { PATIENCE_MS = 120000 };

struct answer {
    struct vr_confined confined;
    int part, other_model, beside, passwd, engine, written, program, child;
    bool cpu;
};

static int error_of(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC, 0600);
    if (fd < 0) return errno;
    close(fd);
    return 0;
}

static bool look_around(void *ctx, struct vr_buf *result, struct vr_err *err)
{
    const bool *prepares = ctx;
    struct answer a = { 0 };
    char dir[768];
    vr_engine_confine(&(struct vr_engine_needs){ .files = { scratch("m-00001-of-00003.gguf") }, .prepares = *prepares },
                      &a.confined);
    a.part = error_of(scratch("m-00003-of-00003.gguf"), O_RDONLY);
    a.other_model = error_of(scratch("n-00001-of-00003.gguf"), O_RDONLY);
    a.beside = error_of(scratch("beside"), O_WRONLY | O_CREAT);
    a.written = error_of(scratch("m-00001-of-00003.gguf"), O_RDWR);
    a.passwd = error_of("/etc/passwd", O_RDONLY);
    a.engine = vr_engine_dir(dir, sizeof dir, err) ? error_of(dir, O_RDONLY | O_DIRECTORY) : -1;
    execl("/bin/true", "true", (char *)NULL);
    a.program = errno;
    pid_t pid = fork();
    if (pid == 0) _exit(0);
    a.child = pid < 0 ? errno : waitpid(pid, NULL, 0) == pid ? 0 : -1;
    vr_confine_settle();
    a.cpu = vr_cpu_load_plain(err);
    vr_buf_add(result, &a, sizeof a);
    return true;
}

static void check(bool prepares)
{
    struct answer a;
    struct vr_err err = { 0 };
    const struct vr_isolated job = { look_around, &prepares, .what = "looking", .trusted = true,
                                     .timeout_ms = PATIENCE_MS };
    const int not_written = prepares ? EPERM : EACCES; /* by the list of system calls, or by Landlock */
    if (!vr_isolated_block(&job, &a, sizeof a, &err)) fail_msg("%s", err.msg);
    assert_true(a.cpu);
    assert_int_equal(a.part, 0);
    assert_int_equal(a.engine, 0);
    if (a.confined.state[VR_CONFINE_FILES] == VR_CONFINE_IN_FORCE) {
        assert_int_equal(a.other_model, EACCES);
        assert_int_equal(a.beside, not_written);
        assert_int_equal(a.written, not_written);
        assert_int_equal(a.passwd, EACCES);
    } else
        print_message("SKIPPED: Landlock is %s\n", vr_confine_state_words(a.confined.state[VR_CONFINE_FILES]));
    if (a.confined.state[VR_CONFINE_CALLS] == VR_CONFINE_IN_FORCE) {
        assert_int_equal(a.program, EPERM);
        assert_int_equal(a.child, prepares ? 0 : EPERM);
    } else
        print_message("SKIPPED: seccomp is %s\n", vr_confine_state_words(a.confined.state[VR_CONFINE_CALLS]));
}

static void test_engine(void **state)
{
    (void)state;
    check(false);
}

/* One that prepares requests has fewer system calls, and children. */
static void test_preparer(void **state)
{
    (void)state;
    check(true);
}

static bool opens(void *ctx, struct vr_buf *result, struct vr_err *err)
{
    (void)err;
    int e = error_of(ctx, O_RDONLY);
    vr_buf_add(result, &e, sizeof e);
    return true;
}

/* Probes are confined without asking, to the files that they name. */
static void test_isolated(void **state)
{
    (void)state;
    char model[512], other[512];
    struct vr_err err = { 0 };
    int e = -1;
    snprintf(model, sizeof model, "%s/m-00001-of-00003.gguf", scratch_dir);
    snprintf(other, sizeof other, "%s/n-00001-of-00003.gguf", scratch_dir);
    struct vr_isolated job = { opens, model, .what = "opening", .needs.files = { model }, .timeout_ms = PATIENCE_MS };
    if (!vr_isolated_block(&job, &e, sizeof e, &err)) fail_msg("%s", err.msg);
    assert_int_equal(e, 0);
    job.ctx = other;
    if (!vr_isolated_block(&job, &e, sizeof e, &err)) fail_msg("%s", err.msg);
    if (e == 0)
        print_message("SKIPPED: no Landlock here\n");
    else
        assert_int_equal(e, EACCES);
}

static int setup(void **state)
{
    if (scratch_setup(state) != 0) return -1;
    static const char *const names[] = { "m-00001-of-00003", "m-00002-of-00003", "m-00003-of-00003",
                                         "n-00001-of-00003" };
    for (size_t i = 0; i < VR_COUNT(names); i++)
        if (error_of(scratch("%s.gguf", names[i]), O_WRONLY | O_CREAT) != 0) return -1;
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_engine), cmocka_unit_test(test_preparer),
                                        cmocka_unit_test(test_isolated) };
    return cmocka_run_group_tests(tests, setup, scratch_teardown);
}
