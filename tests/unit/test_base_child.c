/* Children that behave, and every way not to. What the child itself finds out, it tells as its exit status: cmocka's
 * asserts belong to the parent. */
#include "test.h"

#include "base/child.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

#define SH(script) ((const char *const[]){ "sh", "-c", script, NULL })

enum { PATIENCE_MS = 120000 }; /* more than a busy machine takes for anything here */

static void run(const struct vr_child *c, struct vr_child_end *end)
{
    struct vr_err err = { 0 };
    vr_child_end_done(end);
    if (!vr_child_run(c, end, &err)) fail_msg("%s", err.msg);
    assert_int_equal(err.code, VR_OK);
}

static void run_sh(const char *script, struct vr_child_end *end)
{
    run(&(struct vr_child){ .argv = SH(script), .timeout_ms = PATIENCE_MS }, end);
}

static int n_open_fds(void)
{
    DIR *d = opendir("/proc/self/fd");
    if (!d) return -1;
    int n = 0;
    while (readdir(d)) n++;
    closedir(d);
    return n;
}

/* No child is left, not even as a zombie. */
static bool childless(void) { return waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD; }

/* Gone, or dead and not yet fetched by whoever inherited it. */
static bool dies(pid_t pid)
{
    for (int ms = 0; ms < PATIENCE_MS; ms += 10, usleep(10000)) {
        char path[64], state = 'X';
        snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
        FILE *f = fopen(path, "re");
        if (!f) return true;
        int n = fscanf(f, "%*d %*s %c", &state);
        fclose(f);
        if (n != 1 || state == 'Z' || state == 'X') return true;
    }
    kill(pid, SIGKILL);
    return false;
}

static double cpu_ms(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e3 +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e3;
}

/* --- programs --- */

static const struct row {
    const char *name;
    const char *const *argv;
    const char *input, *out, *err;
    int exit_status, signal;
    const char *how;
} rows[] = {
    { "quiet", (const char *const[]){ "true", NULL }, "", "", "", 0, 0, "exited with status 0" },
    { "status", (const char *const[]){ "sh", "-c", "exit 3", NULL }, "", "", "", 3, 0, "exited with status 3" },
    { "status 255", (const char *const[]){ "sh", "-c", "exit 255", NULL }, "", "", "", 255, 0, "status 255" },
    { "both streams", (const char *const[]){ "sh", "-c", "echo to out; echo to err >&2; exit 1", NULL }, "", "to out\n",
      "to err\n", 1, 0, "status 1" },
    { "input", (const char *const[]){ "cat", NULL }, "some\ninput", "some\ninput", "", 0, 0, "status 0" },
    { "no input is an end", (const char *const[]){ "cat", NULL }, "", "", "", 0, 0, "status 0" },
    { "arguments", (const char *const[]){ "printf", "%s|", "a b", "", "$HOME", NULL }, "", "a b||$HOME|", "", 0, 0,
      "status 0" },
    { "killed", (const char *const[]){ "sh", "-c", "echo first; kill -SEGV $$", NULL }, "", "first\n", "", -1, SIGSEGV,
      "killed by signal 11 (Segmentation fault)" },
    { "aborted", (const char *const[]){ "sh", "-c", "kill -ABRT $$", NULL }, "", "", "", -1, SIGABRT, "signal 6" },
    { "no such program", (const char *const[]){ "vr-no-such-program", NULL }, "", "",
      "vr-no-such-program: No such file or directory\n", 127, 0, "status 127" },
    { "no such path", (const char *const[]){ "/no/such/program", NULL }, "", "",
      "/no/such/program: No such file or directory\n", 127, 0, "status 127" },
    { "not a program", (const char *const[]){ "/etc/passwd", NULL }, "", "", "/etc/passwd: Permission denied\n", 127, 0,
      "status 127" },
};

static void test_programs(void **state)
{
    (void)state;
    VR_AUTO_CHILD_END end = { 0 };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        const struct row *r = &rows[i];
        struct vr_child c = {
            .argv = r->argv, .input = r->input, .n_input = strlen(r->input), .timeout_ms = PATIENCE_MS
        };
        run(&c, &end);
        char how[100];
        vr_child_how(&c, &end, how, sizeof how);
        if (end.exit_status != r->exit_status || end.signal != r->signal || !strstr(how, r->how))
            fail_msg("%s: %s", r->name, how);
        if (strcmp(vr_buf_str(&end.out), r->out) != 0) fail_msg("%s: '%s'", r->name, vr_buf_str(&end.out));
        if (r->err && strcmp(vr_buf_str(&end.err), r->err) != 0) fail_msg("%s: '%s'", r->name, vr_buf_str(&end.err));
        assert_false(end.timed_out);
        assert_false(end.too_much);
        assert_true(end.ms > 0);
    }
    assert_true(childless());
}

/* --- input --- */

static void test_large_input(void **state)
{
    (void)state;
    enum { N = 8 << 20 };
    VR_AUTO_FREE char *input = malloc(N);
    assert_non_null(input);
    for (size_t i = 0; i < N; i++) input[i] = (char)(i * 2654435761u >> 13);
    VR_AUTO_CHILD_END end = { 0 };
    run(
        &(struct vr_child){
            .argv = (const char *const[]){ "cat", NULL }, .input = input, .n_input = N, .timeout_ms = PATIENCE_MS },
        &end);
    assert_int_equal(end.exit_status, 0);
    assert_int_equal(end.out.n, N);
    assert_memory_equal(end.out.data, input, N);

    /* One that ends; one that closes it and goes on; one that takes a little; one that answers into it. */
    static const char *const scripts[] = {
        "echo done",
        "exec <&-; sleep 0.1; echo done",
        "head -c 10 >/dev/null; exec <&-; sleep 0.1; echo done",
        "trap '' PIPE; echo x >&0; cat >/dev/null && echo done",
    };
    for (size_t i = 0; i < VR_COUNT(scripts); i++) {
        run(&(struct vr_child){ .argv = SH(scripts[i]), .input = input, .n_input = N, .timeout_ms = PATIENCE_MS },
            &end);
        assert_int_equal(end.exit_status, 0);
        assert_string_equal(vr_buf_str(&end.out), "done\n");
    }
}

/* Waiting costs no processor time (2 ms in 200 were measured): streams that are closed, or that nobody reads, must not
 * wake us again and again. */
static void test_no_busy_waiting(void **state)
{
    (void)state;
    static char input[1 << 20];
    static const struct {
        const char *script;
        size_t n_input;
    } waits[] = {
        { "sleep 0.2", 0 },
        { "sleep 0.2", sizeof input },
        { "exec >&- 2>&-; sleep 0.2", 0 },
        { "exec >&- 2>&-; sleep 0.2", sizeof input },
        { "exec <&-; sleep 0.2", sizeof input },
        { "exec <&- >&- 2>&-; sleep 0.2", sizeof input },
    };
    for (size_t i = 0; i < VR_COUNT(waits); i++) {
        VR_AUTO_CHILD_END end = { 0 };
        struct vr_child c = { .argv = SH(waits[i].script), .timeout_ms = PATIENCE_MS };
        c.input = input;
        c.n_input = waits[i].n_input;
        double before = cpu_ms();
        run(&c, &end);
        double spent = cpu_ms() - before;
        assert_int_equal(end.exit_status, 0);
        assert_true(end.ms >= 200);
        if (spent > end.ms / 5) fail_msg("'%s' took %.0f ms of processor time in %.0f", waits[i].script, spent, end.ms);
    }
}

/* --- the deadline --- */

/* Runs a script into a deadline that leaves it the time to say so many words first, however busy the machine is. */
static void run_into_deadline(const char *script, int n_words, struct vr_child_end *end)
{
    for (int ms = 300, n = 0; n < n_words; ms *= 4) {
        assert_true(ms < PATIENCE_MS);
        run(&(struct vr_child){ .argv = SH(script), .timeout_ms = ms }, end);
        assert_true(end->timed_out);
        assert_true(end->ms >= ms);
        n = 0;
        for (const char *s = vr_buf_str(&end->out); *s; s++) n += *s == '\n';
    }
}

static void test_deadline(void **state)
{
    (void)state;
    VR_AUTO_CHILD_END end = { 0 };
    static const char *const scripts[] = {
        "echo begun; exec sleep 600",
        "echo begun; trap '' TERM INT HUP; while :; do sleep 1; done",
        "echo begun; exec 1>&- 2>&-; exec sleep 600",
    };
    for (size_t i = 0; i < VR_COUNT(scripts); i++) {
        run_into_deadline(scripts[i], 1, &end);
        assert_int_equal(end.signal, SIGKILL);
        assert_int_equal(end.exit_status, -1);
        assert_string_equal(vr_buf_str(&end.out), "begun\n"); /* what it said before is kept */
    }
    char how[100];
    const struct vr_child c = { .argv = SH("sleep 60"), .timeout_ms = 1234 };
    assert_string_equal(vr_child_how(&c, &end, how, sizeof how), "ran longer than 1,234 ms");
    assert_true(childless());
}

/* The whole group is killed, with a grandchild that holds the pipes. */
static void test_deadline_takes_the_group(void **state)
{
    (void)state;
    VR_AUTO_CHILD_END end = { 0 };
    run_into_deadline("sleep 600 & echo $!; (sleep 600 & echo $!; wait); wait", 2, &end);
    int child, grandchild;
    assert_int_equal(sscanf(vr_buf_str(&end.out), "%d %d", &child, &grandchild), 2);
    assert_true(dies(child));
    assert_true(dies(grandchild));
}

/* A grandchild that outlives the child, with or without a group of its own, does not hold us. */
static void test_grandchild_outlives(void **state)
{
    (void)state;
    static const char *const scripts[] = { "sleep 600 & echo $!", "setsid sleep 600 & echo $!",
                                           "yes & echo $! >&2; exit 0" };
    for (size_t i = 0; i < VR_COUNT(scripts); i++) {
        VR_AUTO_CHILD_END end = { 0 };
        run(&(struct vr_child){ .argv = SH(scripts[i]), .timeout_ms = PATIENCE_MS, .max_output = 64 << 20 }, &end);
        assert_false(end.timed_out);
        assert_int_equal(end.exit_status, 0);
        int pid = atoi(vr_buf_str(i == 2 ? &end.err : &end.out));
        assert_true(pid > 0);
        kill(pid, SIGKILL);
        assert_true(dies(pid));
    }
}

/* Single bytes, faster than they can be read: each read brings one, and the deadline still holds. */
static int drip(void *ctx)
{
    (void)ctx;
    while (write(1, "x", 1) == 1 && write(2, "y", 1) == 1) continue;
    return 0;
}

static void test_deadline_under_fire(void **state)
{
    (void)state;
    VR_AUTO_CHILD_END end = { 0 };
    run(&(struct vr_child){ .main = drip, .timeout_ms = 200, .max_output = 256 << 20 }, &end);
    assert_true(end.timed_out);
    assert_false(end.too_much);
    assert_true(end.out.n > 0);
}

/* We are stopped over the deadline; the child had ended in time, and what it left in the pipe is judged like the rest.
 * Where the machine is so busy that it did not end in time, a later deadline is tried. */
static int watch_stopped(void *ctx)
{
    (void)ctx;
    for (int ms = 500; ms < PATIENCE_MS / 4; ms *= 2) {
        struct vr_child_end end = { 0 };
        char script[200];
        snprintf(script, sizeof script,
                 "p=$PPID; (sleep %.1f; kill -CONT $p) & kill -STOP $p; printf 0123456789x; exit 3", ms * 1.6e-3);
        struct vr_child c = { .argv = SH(script), .timeout_ms = ms, .max_output = 10 };
        if (!vr_child_run(&c, &end, NULL)) return 100;
        if (end.timed_out) continue;
        if (end.ms < ms) return 101; /* it was not stopped */
        if (!end.too_much || end.out.n != 10) return 103;
        return end.exit_status;
    }
    return 102;
}

static void test_ended_in_time(void **state)
{
    (void)state;
    VR_AUTO_CHILD_END end = { 0 };
    run(&(struct vr_child){ .main = watch_stopped, .timeout_ms = PATIENCE_MS }, &end);
    assert_int_equal(end.exit_status, 3);
}

static void burn(double ms)
{
    struct timespec t;
    do clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    while ((double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6 < ms);
}

static int burn_a_little(void *ctx)
{
    (void)ctx;
    burn(60);
    return 0;
}

/* All on one processor: nine that never rest, and one that has little to do, which takes it ten times as long. */
static int crowd(void *ctx)
{
    (void)ctx;
    cpu_set_t one;
    struct vr_child_end end = { 0 };
    CPU_ZERO(&one);
    CPU_SET((size_t)sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);
    pid_t others[9];
    for (size_t i = 0; i < VR_COUNT(others); i++)
        if ((others[i] = fork()) == 0) burn(PATIENCE_MS);
    bool ran = vr_child_run(&(struct vr_child){ .main = burn_a_little, .timeout_ms = 120 }, &end, NULL);
    for (size_t i = 0; i < VR_COUNT(others); i++) kill(others[i], SIGKILL);
    if (!ran) return 100;
    if (end.ms < 120) return 101; /* it was not held up */
    return end.timed_out ? 102 : end.exit_status;
}

static void test_waiting_for_a_processor(void **state)
{
    (void)state;
    VR_AUTO_CHILD_END end = { 0 };
    run(&(struct vr_child){ .main = crowd, .timeout_ms = PATIENCE_MS }, &end);
    assert_int_equal(end.exit_status, 0);
}

/* --- the cap --- */

static void test_output_cap(void **state)
{
    (void)state;
    static const struct {
        const char *script;
        size_t max, n_out, n_err;
        bool too_much, killed;
    } caps[] = {
        { "printf 0123456789", 10, 10, 0, false, false },
        { "printf 0123456789; printf 0123456789 >&2", 10, 10, 10, false, false },
        { "printf 0123456789x", 10, 10, 0, true, false },
        { "printf 0123456789x >&2", 10, 0, 10, true, false },
        { "yes", 1000, 1000, 0, true, true },
        { "yes >&2", 1000, 0, 1000, true, true },
        { "yes", 100000, 100000, 0, true, true },
        { "head -c 3000000 /dev/zero", 3000000, 3000000, 0, false, false },
        { "head -c 16777216 /dev/zero", 0, 16777216, 0, false, false },
        { "head -c 16777217 /dev/zero; sleep 60", 0, 16777216, 0, true, true },
    };
    for (size_t i = 0; i < VR_COUNT(caps); i++) {
        VR_AUTO_CHILD_END end = { 0 };
        struct vr_child c = { .argv = SH(caps[i].script), .timeout_ms = PATIENCE_MS, .max_output = caps[i].max };
        run(&c, &end);
        if (end.too_much != caps[i].too_much || end.out.n != caps[i].n_out || end.err.n != caps[i].n_err)
            fail_msg("%s: %zu and %zu bytes, %d", caps[i].script, end.out.n, end.err.n, end.too_much);
        assert_false(end.timed_out);
        if (caps[i].killed) assert_int_equal(end.signal, SIGKILL);
        char how[100];
        vr_child_how(&c, &end, how, sizeof how);
        if (caps[i].too_much) assert_contains(how, "wrote more than");
        if (caps[i].max == 1000) assert_string_equal(how, "wrote more than 1,000 bytes");
    }
    assert_true(childless());
}

/* --- functions of ours --- */

struct sum {
    int a, b;
};

static int add(void *ctx)
{
    struct sum *s = ctx;
    char in[100];
    ssize_t n = read(0, in, sizeof in);
    dprintf(1, "%d and %.*s", s->a + s->b, (int)n, in);
    dprintf(2, "to err");
    s->a = 99; /* the child's copy */
    return s->b;
}

static int print_and_return(void *ctx)
{
    printf("through stdio %d", *(int *)ctx);
    return 4;
}

static int crash(void *ctx)
{
    raise(*(int *)ctx);
    return 0;
}

static void test_function(void **state)
{
    (void)state;
    VR_AUTO_CHILD_END end = { 0 };
    struct sum s = { 40, 2 };
    run(&(struct vr_child){ .main = add, .ctx = &s, .input = "text", .n_input = 4, .timeout_ms = PATIENCE_MS }, &end);
    assert_string_equal(vr_buf_str(&end.out), "42 and text");
    assert_string_equal(vr_buf_str(&end.err), "to err");
    assert_int_equal(end.exit_status, 2);
    assert_int_equal(s.a, 40);

    static const int signals[] = { SIGSEGV, SIGABRT, SIGTERM, SIGUSR1, SIGPIPE, SIGKILL };
    for (size_t i = 0; i < VR_COUNT(signals); i++) {
        int number = signals[i];
        run(&(struct vr_child){ .main = crash, .ctx = &number, .timeout_ms = PATIENCE_MS }, &end);
        assert_int_equal(end.signal, signals[i]);
        assert_int_equal(end.exit_status, -1);
    }
}

/* What the child prints with stdio arrives; what the parent had not yet written is written once, and by the parent. */
static void test_stdio(void **state)
{
    (void)state;
    VR_AUTO_CHILD_END end = { 0 };
    const char *path = scratch("unflushed");
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    fputs("once ", f);
    printf(" "); /* stays in the buffer when stdout is no terminal */
    run(&(struct vr_child){ .main = print_and_return, .ctx = &(int){ 7 }, .timeout_ms = PATIENCE_MS }, &end);
    assert_string_equal(vr_buf_str(&end.out), "through stdio 7");
    assert_int_equal(end.exit_status, 4);
    fputs("end", f);
    assert_int_equal(fclose(f), 0);
    char text[64] = "";
    f = fopen(path, "re");
    assert_non_null(f);
    assert_non_null(fgets(text, sizeof text, f));
    fclose(f);
    assert_string_equal(text, "once end");
}

/* --- descriptors --- */

/* All descriptors that are open, as a line: "0 1 2 9". */
static int list_fds(void *ctx)
{
    (void)ctx;
    VR_AUTO_BUF b = { 0 };
    for (int fd = 0; fd < 1100; fd++) {
        int flags = fcntl(fd, F_GETFD);
        if (flags >= 0) vr_buf_addf(&b, "%s%d%s", fd ? " " : "", fd, flags & FD_CLOEXEC ? "(cloexec)" : "");
    }
    return write(1, b.data, b.n) == (ssize_t)b.n ? 0 : 1;
}

static void test_pass_fds(void **state)
{
    (void)state;
    static const struct {
        int pass[4];
        const char *open;
    } lists[] = {
        { { 0 }, "0 1 2" },
        { { 20 }, "0 1 2 20" },
        { { 20, 21 }, "0 1 2 20 21" },
        { { 22, 20 }, "0 1 2 20 22" },
        { { 23, 20, 22, 21 }, "0 1 2 20 21 22 23" },
        { { 1000, 20, 1001 }, "0 1 2 20 1000 1001" },
        { { 20, 20, 20, 20 }, "0 1 2 20" },
    };
    static const int opened[] = { 20, 21, 22, 23, 1000, 1001 };
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    assert_true(null >= 0);
    for (size_t i = 0; i < VR_COUNT(opened); i++)
        assert_int_equal(dup3(null, opened[i], i % 2 ? O_CLOEXEC : 0), opened[i]);
    VR_AUTO_CHILD_END end = { 0 };
    for (size_t i = 0; i < VR_COUNT(lists); i++) {
        struct vr_child c = { .main = list_fds, .timeout_ms = PATIENCE_MS };
        memcpy(c.pass_fds, lists[i].pass, sizeof c.pass_fds);
        run(&c, &end);
        assert_string_equal(vr_buf_str(&end.out), lists[i].open);
    }
    assert_true(fcntl(21, F_GETFD) & FD_CLOEXEC); /* the parent's own flag stays */
    struct vr_child lowest = { .main = list_fds, .timeout_ms = PATIENCE_MS, .pass_fds = { null } };
    run(&lowest, &end);
    char want[32];
    snprintf(want, sizeof want, "0 1 2 %d", null);
    assert_string_equal(vr_buf_str(&end.out), want);

    int p[2]; /* and over exec, with data */
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    assert_int_equal(dup3(p[0], 20, O_CLOEXEC), 20);
    assert_int_equal(write(p[1], "through", 7), 7);
    close(p[1]);
    close(p[0]);
    run(&(struct vr_child){ .argv = SH("cat /dev/fd/20; [ -e /proc/self/fd/21 ] && echo ' and 21'; exit 0"),
                            .timeout_ms = PATIENCE_MS,
                            .pass_fds = { 20 } },
        &end);
    assert_string_equal(vr_buf_str(&end.out), "through");
    for (size_t i = 0; i < VR_COUNT(opened); i++) close(opened[i]);
    close(null);
}

static void test_bad_pass_fds(void **state)
{
    (void)state;
    static const int bad[] = { 999, 1, 2, -1, INT32_MAX };
    int before = n_open_fds();
    for (size_t i = 0; i < VR_COUNT(bad); i++) {
        VR_AUTO_CHILD_END end = { 0 };
        struct vr_err err = { 0 };
        struct vr_child c = { .argv = SH("exit 0"), .timeout_ms = PATIENCE_MS, .pass_fds = { bad[i] } };
        assert_false(vr_child_run(&c, &end, &err));
        assert_int_equal(err.code, VR_EINTERNAL);
        assert_contains(err.msg, "cannot be passed to a child process");
    }
    assert_int_equal(n_open_fds(), before);
    assert_true(childless());
}

/* A parent without standard streams: the pipes get numbers 0 to 2. */
static int without_streams(void *ctx)
{
    unsigned which = *(unsigned *)ctx;
    for (int fd = 0; fd < 3; fd++)
        if (which & 1u << fd) close(fd);
    struct vr_child_end end = { 0 };
    struct vr_child c = {
        .argv = SH("cat; echo out; echo err >&2; exit 5"), .timeout_ms = PATIENCE_MS, .input = "in ", .n_input = 3
    };
    bool ok = vr_child_run(&c, &end, NULL) && strcmp(vr_buf_str(&end.out), "in out\n") == 0 &&
              strcmp(vr_buf_str(&end.err), "err\n") == 0 && end.exit_status == 5;
    vr_child_end_done(&end);
    return ok ? 0 : 1;
}

static void test_parent_without_streams(void **state)
{
    (void)state;
    for (unsigned which = 0; which < 8; which++) {
        VR_AUTO_CHILD_END end = { 0 };
        run(&(struct vr_child){ .main = without_streams, .ctx = &which, .timeout_ms = PATIENCE_MS }, &end);
        if (end.exit_status != 0) fail_msg("with the streams %u closed: %d", which, end.exit_status);
    }
}

/* --- signals --- */

static volatile sig_atomic_t n_handled;
static void handle(int s)
{
    (void)s;
    n_handled = n_handled + 1;
}

/* 0 when no signal is blocked and all do what they do by default. */
static int signals_are_plain(void *ctx)
{
    (void)ctx;
    sigset_t blocked;
    sigprocmask(SIG_SETMASK, NULL, &blocked);
    for (int s = 1; s < NSIG; s++) {
        struct sigaction a = { 0 };
        if (sigismember(&blocked, s) == 1) return s;
        if (sigaction(s, NULL, &a) == 0 && a.sa_handler != SIG_DFL) return 100 + s;
    }
    return 0;
}

static void test_child_signals(void **state)
{
    (void)state;
    sigset_t some, before, after;
    sigemptyset(&some);
    sigaddset(&some, SIGTERM);
    sigaddset(&some, SIGUSR1);
    sigaddset(&some, SIGCHLD);
    sigprocmask(SIG_BLOCK, &some, &before);
    signal(SIGUSR2, handle);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    VR_AUTO_CHILD_END end = { 0 };
    run(&(struct vr_child){ .main = signals_are_plain, .timeout_ms = PATIENCE_MS }, &end);
    assert_int_equal(end.exit_status, 0);
    /* over exec; and one that is blocked here ends it there */
    run(&(struct vr_child){ .argv = (const char *const[]){ "cat", "/proc/self/status", NULL },
                            .timeout_ms = PATIENCE_MS },
        &end);
    static const char *const masks[] = { "SigBlk:", "SigIgn:", "SigCgt:" };
    for (size_t i = 0; i < VR_COUNT(masks); i++) {
        const char *line = strstr(vr_buf_str(&end.out), masks[i]);
        assert_non_null(line);
        /* the C library keeps signals 32 and 33 for itself and lets nobody touch them, not even to undo what a parent
         * of ours did */
        assert_int_equal(strtoull(line + 7, NULL, 16) & ~(UINT64_C(3) << 31), 0);
    }
    run_sh("kill -TERM $$; sleep 5", &end);
    assert_int_equal(end.signal, SIGTERM);
    sigprocmask(SIG_SETMASK, NULL, &after); /* ours are as they were */
    for (int s = 1; s < NSIG; s++)
        assert_int_equal(sigismember(&after, s),
                         sigismember(&before, s) == 1 || s == SIGTERM || s == SIGUSR1 || s == SIGCHLD);
    struct sigaction a;
    sigaction(SIGUSR2, NULL, &a);
    assert_true(a.sa_handler == handle);
    sigprocmask(SIG_SETMASK, &before, NULL);
    signal(SIGUSR2, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGINT, SIG_DFL);
}

/* A signal every half millisecond, and system calls that are not restarted. */
static void test_interrupted(void **state)
{
    (void)state;
    enum { N = 4 << 20 };
    VR_AUTO_BUF input = { 0 };
    vr_buf_addc(&input, 'i', N);
    struct sigaction a = { .sa_handler = handle };
    sigaction(SIGALRM, &a, NULL);
    n_handled = 0;
    setitimer(ITIMER_REAL, &(struct itimerval){ { 0, 500 }, { 0, 500 } }, NULL);
    VR_AUTO_CHILD_END end = { 0 }, late = { 0 };
    struct vr_err err = { 0 };
    struct vr_child c = { .argv = SH("sleep 0.1; cat"), .input = input.data, .n_input = N, .timeout_ms = PATIENCE_MS };
    struct vr_child slow = { .argv = SH("sleep 600"), .timeout_ms = 200 };
    bool ok = vr_child_run(&c, &end, &err) && vr_child_run(&slow, &late, &err);
    setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL);
    signal(SIGALRM, SIG_DFL);
    if (!ok) fail_msg("%s", err.msg);
    assert_true(n_handled > 10);
    assert_int_equal(end.exit_status, 0);
    assert_int_equal(end.out.n, N);
    assert_memory_equal(end.out.data, input.data, N);
    assert_true(late.timed_out && late.ms >= 200);
    assert_true(childless());
}

/* With SIGCHLD ignored the kernel reaps children itself and forgets their status; ours is known all the same. */
static void test_sigchld(void **state)
{
    (void)state;
    const struct sigaction ways[] = {
        { .sa_handler = SIG_IGN },
        { .sa_handler = handle, .sa_flags = SA_NOCLDWAIT },
        { .sa_handler = SIG_DFL, .sa_flags = SA_NOCLDWAIT },
        { .sa_handler = handle },
    };
    for (size_t i = 0; i < VR_COUNT(ways); i++) {
        sigaction(SIGCHLD, &ways[i], NULL);
        VR_AUTO_CHILD_END end = { 0 };
        struct vr_err err = { 0 };
        bool ok = vr_child_run(&(struct vr_child){ .argv = SH("exit 7"), .timeout_ms = PATIENCE_MS }, &end, &err);
        struct sigaction after;
        sigaction(SIGCHLD, NULL, &after);
        signal(SIGCHLD, SIG_DFL);
        if (!ok) fail_msg("%s", err.msg);
        assert_int_equal(end.exit_status, 7);
        assert_true(after.sa_handler == ways[i].sa_handler);
        assert_int_equal(after.sa_flags & SA_NOCLDWAIT, ways[i].sa_flags & SA_NOCLDWAIT);
    }
}

/* Somebody else takes the child's status: an error, not a success. */
static void reap_all(int s)
{
    (void)s;
    int saved = errno;
    while (waitpid(-1, NULL, WNOHANG) > 0) continue;
    errno = saved;
}

static void test_status_stolen(void **state)
{
    (void)state;
    struct sigaction a = { .sa_handler = reap_all };
    sigaction(SIGCHLD, &a, NULL);
    VR_AUTO_CHILD_END end = { 0 };
    struct vr_err err = { 0 };
    bool ok =
        vr_child_run(&(struct vr_child){ .argv = SH("sleep 0.05; exit 7"), .timeout_ms = PATIENCE_MS }, &end, &err);
    signal(SIGCHLD, SIG_DFL);
    assert_false(ok);
    assert_contains(err.msg, "cannot learn how a child process ended");
}

/* --- nothing is left behind --- */

static void test_two_hundred(void **state)
{
    (void)state;
    static char input[300000];
    static const char *const nothing[] = { "true", NULL }, *const missing[] = { "vr-no-such-program", NULL };
    int before = n_open_fds();
    for (int i = 0; i < 200; i++) {
        VR_AUTO_CHILD_END end = { 0 };
        struct vr_child c = { .argv = nothing, .timeout_ms = PATIENCE_MS };
        switch (i % 5) {
        case 1: c.argv = missing; break;
        case 2: c = (struct vr_child){ .main = drip, .timeout_ms = 1 + i % 7 }; break;
        case 3: c = (struct vr_child){ .main = drip, .timeout_ms = PATIENCE_MS, .max_output = (size_t)i }; break;
        case 4:
            c.input = input;
            c.n_input = sizeof input;
            break;
        }
        run(&c, &end);
        switch (i % 5) {
        case 1: assert_int_equal(end.exit_status, 127); break;
        case 2: assert_true(end.timed_out); break;
        case 3: assert_true(end.too_much); break;
        default: assert_int_equal(end.exit_status, 0);
        }
    }
    assert_int_equal(n_open_fds(), before);
    assert_true(childless());
}

/* With room for one descriptor more each time: a sentence as long as it is too few, then a child. */
static void test_out_of_descriptors(void **state)
{
    (void)state;
    int before = n_open_fds(), n_failed = 0;
    int next = dup(0); /* the lowest number that is free: all below are taken */
    assert_true(next > 2);
    close(next);
    struct rlimit limit, tight;
    getrlimit(RLIMIT_NOFILE, &limit);
    for (int room = 0; room < 12; room++) {
        VR_AUTO_CHILD_END end = { 0 };
        struct vr_err err = { 0 };
        tight = (struct rlimit){ (rlim_t)(next + room), limit.rlim_max };
        setrlimit(RLIMIT_NOFILE, &tight);
        bool ok = vr_child_run(&(struct vr_child){ .argv = SH("echo x"), .timeout_ms = PATIENCE_MS }, &end, &err);
        setrlimit(RLIMIT_NOFILE, &limit);
        n_failed += !ok;
        if (!ok) {
            assert_int_equal(err.code, VR_EIO);
            assert_contains(err.msg, "Too many open files");
        } else {
            assert_string_equal(vr_buf_str(&end.out), "x\n");
        }
        assert_int_equal(n_open_fds(), before);
        assert_true(childless());
    }
    assert_true(n_failed >= 3 && n_failed < 12);
}

/* The parent is killed; its child, which has a group of its own, dies as well. */
static int parent_of_sleeper(void *ctx)
{
    struct vr_child_end end = { 0 };
    struct vr_child c = { .argv = (const char *const[]){ "sh", "-c", "echo $$ >\"$0\"; exec sleep 600", ctx, NULL },
                          .timeout_ms = PATIENCE_MS };
    return vr_child_run(&c, &end, NULL) ? 0 : 1;
}

static void test_dies_with_its_parent(void **state)
{
    (void)state;
    char path[512];
    snprintf(path, sizeof path, "%s", scratch("pid"));
    VR_AUTO_CHILD_END end = { 0 };
    int pid = 0;
    for (int ms = 600; pid == 0; ms *= 4) { /* until it is there before its parent is killed */
        assert_true(ms < PATIENCE_MS);
        run(&(struct vr_child){ .main = parent_of_sleeper, .ctx = path, .timeout_ms = ms }, &end);
        assert_true(end.timed_out);
        FILE *f = fopen(path, "re");
        if (f && fscanf(f, "%d", &pid) != 1) pid = 0;
        if (f) fclose(f);
    }
    assert_true(pid > 0);
    assert_true(dies(pid));
}

static void test_done_twice(void **state)
{
    (void)state;
    struct vr_child_end end = { 0 };
    vr_child_end_done(&end);
    run_sh("echo x", &end);
    vr_child_end_done(&end);
    assert_null(end.out.data);
    vr_child_end_done(&end);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_programs),
        cmocka_unit_test(test_large_input),
        cmocka_unit_test(test_no_busy_waiting),
        cmocka_unit_test(test_deadline),
        cmocka_unit_test(test_deadline_takes_the_group),
        cmocka_unit_test(test_grandchild_outlives),
        cmocka_unit_test(test_deadline_under_fire),
        cmocka_unit_test(test_ended_in_time),
        cmocka_unit_test(test_waiting_for_a_processor),
        cmocka_unit_test(test_output_cap),
        cmocka_unit_test(test_function),
        cmocka_unit_test(test_stdio),
        cmocka_unit_test(test_pass_fds),
        cmocka_unit_test(test_bad_pass_fds),
        cmocka_unit_test(test_parent_without_streams),
        cmocka_unit_test(test_child_signals),
        cmocka_unit_test(test_interrupted),
        cmocka_unit_test(test_sigchld),
        cmocka_unit_test(test_status_stolen),
        cmocka_unit_test(test_two_hundred),
        cmocka_unit_test(test_out_of_descriptors),
        cmocka_unit_test(test_dies_with_its_parent),
        cmocka_unit_test(test_done_twice),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
