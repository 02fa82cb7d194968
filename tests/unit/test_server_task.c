/* Jobs on an event loop: those that do well, and every way not to. The loop turns until all expected callbacks came. */
#include "test.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <event2/event.h>

#include "server/supervise/task.h"

static struct event_base *base;

struct heard {
    unsigned n;
    int exit_status, signal;
    bool timed_out, too_much, no_end;
    char out[256], err[256], why[1024];
    size_t n_out;
    struct vr_tasks *then; /* the callback starts another one here */
    struct vr_task_ask *ask;
};

static void on_done(void *ctx, const struct vr_child_end *end, const struct vr_err *err)
{
    struct heard *h = ctx;
    h->n++;
    h->no_end = !end;
    if (end) {
        h->exit_status = end->exit_status;
        h->signal = end->signal;
        h->timed_out = end->timed_out;
        h->too_much = end->too_much;
        h->n_out = end->out.n;
        snprintf(h->out, sizeof h->out, "%s", vr_buf_str(&end->out));
        snprintf(h->err, sizeof h->err, "%s", vr_buf_str(&end->err));
    } else {
        snprintf(h->why, sizeof h->why, "%s", err->msg);
    }
    struct vr_err no = { 0 };
    struct vr_tasks *then = h->then;
    h->then = NULL;
    if (then && !vr_task_start(then, h->ask, &no)) fail_msg("%s", no.msg);
}

#define SH(script)  ((const char *const[]){ "sh", "-c", script, NULL })
#define ASK(h, ...) ((struct vr_task_ask){ .timeout_ms = 120000, .done = on_done, .ctx = h, __VA_ARGS__ })

static struct vr_task *start(struct vr_tasks *tasks, const struct vr_task_ask *ask)
{
    struct vr_err err = { 0 };
    struct vr_task *j = vr_task_start(tasks, ask, &err);
    if (!j) fail_msg("%s", err.msg);
    return j;
}

static void turn_until(const unsigned *n, unsigned want)
{
    for (int i = 0; i < 6000 && *n < want; i++) {
        struct timeval step = { 0, 20000 };
        event_base_loopexit(base, &step);
        event_base_dispatch(base);
    }
    assert_int_equal(*n, want);
}

static bool childless(void) { return waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD; }

static int n_open_fds(void)
{
    DIR *d = opendir("/proc/self/fd");
    int n = 0;
    while (readdir(d)) n++;
    closedir(d);
    return n;
}

static const struct row {
    const char *name;
    const char *const *argv;
    const char *input;
    int timeout_ms;
    size_t max_output;
    const char *out, *err;
    int exit_status, signal;
    bool timed_out, too_much;
    const char *how;
} rows[] = {
    { "quiet", SH("true"), "", 0, 0, "", "", 0, 0, false, false, "exited with status 0" },
    { "status", SH("exit 3"), "", 0, 0, "", "", 3, 0, false, false, "exited with status 3" },
    { "both streams", SH("echo one; echo two >&2"), "", 0, 0, "one\n", "two\n", 0, 0, false, false, "status 0" },
    { "input", SH("cat"), "some words", 0, 0, "some words", "", 0, 0, false, false, "status 0" },
    { "input that is not read", SH("exec 0<&-; echo x"), "words", 0, 0, "x\n", "", 0, 0, false, false, "status 0" },
    { "hangs", SH("echo begun; exec sleep 1000"), "", 200, 0, "begun\n", "", -1, SIGKILL, true, false,
      "longer than 200 ms" },
    { "hangs in a group", SH("sleep 1000 & sleep 1000"), "", 200, 0, "", "", -1, SIGKILL, true, false, "longer" },
    { "a grandchild keeps the pipes", SH("p=$PPID; while kill -0 $p; do sleep 1; done 2>/dev/null & echo done"), "", 0,
      0, "done\n", "", 0, 0, false, false, "status 0" },
    { "is killed", SH("kill -SEGV $$"), "", 0, 0, "", "", -1, SIGSEGV, false, false, "killed by signal 11" },
    { "cannot be executed", (const char *const[]){ "/nowhere/at/all", NULL }, "", 0, 0, "",
      "/nowhere/at/all: No such file or directory\n", 127, 0, false, false, "status 127" },
    { "floods", SH("yes"), "", 0, 4, "y\ny\n", "", -1, SIGKILL, false, true, "wrote more than 4 bytes" },
    { "floods stderr", SH("yes >&2"), "", 0, 4, "", "y\ny\n", -1, SIGKILL, false, true, "wrote more" },
    { "floods and ends", SH("echo 123456789"), "", 0, 4, "1234", "", 0, 0, false, true, "wrote more" },
};

static void test_rows(void **state)
{
    (void)state;
    int fds = n_open_fds();
    struct vr_tasks *tasks = vr_tasks_new(base, 2, 2);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *r = &rows[i];
        struct heard h = { 0 };
        struct vr_task_ask ask =
            ASK(&h, .argv = r->argv, .input = r->input, .n_input = strlen(r->input), .max_output = r->max_output);
        for (int ms = r->timeout_ms; h.n == 0 || (ms && ms < 60000 && strcmp(h.out, r->out) != 0); ms *= 4) {
            if (ms) ask.timeout_ms = ms; /* longer where the machine is so busy that it did not come to speak */
            h = (struct heard){ 0 };
            start(tasks, &ask);
            turn_until(&h.n, 1);
        }
        if (r->timeout_ms) ask.timeout_ms = r->timeout_ms;
        print_message("%s\n", r->name);
        assert_false(h.no_end);
        assert_string_equal(h.out, r->out);
        assert_string_equal(h.err, r->err);
        assert_int_equal(h.timed_out, r->timed_out);
        assert_int_equal(h.too_much, r->too_much);
        if (!r->too_much) { /* whether it was killed in time is a race that nobody cares about */
            assert_int_equal(h.exit_status, r->exit_status);
            assert_int_equal(h.signal, r->signal);
        }
        struct vr_err why = { 0 };
        struct vr_child_end end = { .exit_status = r->exit_status,
                                    .signal = r->signal,
                                    .timed_out = r->timed_out,
                                    .too_much = r->too_much,
                                    .out.max = r->max_output };
        assert_false(vr_task_failure(&end, ask.timeout_ms, "it", &why));
        assert_int_equal(why.code, VR_EINTERNAL);
        assert_contains(why.msg, r->how);
        assert_true(childless());
    }
    vr_tasks_free(tasks);
    assert_int_equal(n_open_fds(), fds);
}

/* What this program says of its failures is data; what is not that is no error of its own. */
static void test_errors(void **state)
{
    (void)state;
    static const struct {
        const char *out;
        enum vr_code code; /* VR_OK: it says nothing */
    } said[] = {
        { "{\"error\":{\"kind\":\"does_not_fit\",\"message\":\"too large\"}}\n", VR_ENOFIT },
        { "{\"error\":{\"kind\":\"invalid_request_error\",\"message\":\"too large\"}}", VR_EUSAGE },
        { "{\"error\":{\"kind\":\"ok\",\"message\":\"too large\"}}", VR_OK },
        { "{\"error\":{\"kind\":\"tea\",\"message\":\"too large\"}}", VR_OK },
        { "{\"error\":{\"kind\":\"does_not_fit\"}}", VR_OK },
        { "{\"fits\":false}", VR_OK },
        { "vram-llm: too large", VR_OK },
        { "", VR_OK },
    };
    for (size_t i = 0; i < VR_COUNT(said); i++) {
        struct vr_err err = { 0 };
        VR_AUTO_CHILD_END end = { .exit_status = 4 };
        vr_buf_adds(&end.out, said[i].out);
        assert_int_equal(vr_task_error(&end, &err), said[i].code != VR_OK);
        assert_int_equal(err.code, said[i].code);
        assert_false(vr_task_failure(&end, 1000, "planning", &err));
        assert_string_equal(err.msg, said[i].code ? "too large" : "planning exited with status 4");
    }
}

static void test_large_both_ways(void **state)
{
    (void)state;
    struct vr_tasks *tasks = vr_tasks_new(base, 1, 0);
    size_t n = 3 << 20;
    char *text = malloc(n);
    memset(text, 'x', n);
    struct heard h = { 0 };
    start(tasks, &ASK(&h, .argv = SH("cat"), .input = text, .n_input = n));
    free(text); /* copied */
    turn_until(&h.n, 1);
    assert_int_equal(h.n_out, n);
    assert_int_equal(h.exit_status, 0);
    vr_tasks_free(tasks);
}

static void test_limits(void **state)
{
    (void)state;
    struct vr_tasks *tasks = vr_tasks_new(base, 1, 1);
    struct heard a = { 0 }, b = { 0 }, c = { 0 };
    struct vr_err err = { 0 };
    /* the second one sees what the first one left: they do not run at the same time */
    char script[2][700];
    snprintf(script[0], sizeof script[0], "sleep 0.2; echo x >%s", scratch("order"));
    snprintf(script[1], sizeof script[1], "cat %s", scratch("order"));
    start(tasks, &ASK(&a, .argv = SH(script[0])));
    start(tasks, &ASK(&b, .argv = SH(script[1])));
    assert_null(vr_task_start(tasks, &ASK(&c, .argv = SH("true")), &err));
    assert_int_equal(err.code, VR_ENOMEM);
    assert_contains(err.msg, "1 tasks are running and 1 are waiting");
    turn_until(&b.n, 1);
    assert_int_equal(a.n, 1);
    assert_string_equal(b.out, "x\n");
    assert_int_equal(c.n, 0);
    vr_tasks_free(tasks);
}

/* Who has the fewest running is next; who has the most gives a place up to one who has fewer, but not to an equal. */
static void test_owners(void **state)
{
    (void)state;
    static const int greedy, polite, other;
    struct vr_tasks *tasks = vr_tasks_new(base, 1, 3);
    struct heard g[4] = { 0 }, p = { 0 }, o[2] = { 0 };
    struct vr_err err = { 0 };
    char script[5][700];
    snprintf(script[0], sizeof script[0], "while ! test -e %s; do sleep 0.05; done", scratch("go"));
    for (int i = 1; i < 5; i++)
        snprintf(script[i], sizeof script[i], "echo %d >>%s; cat %s", i, scratch("turns"), scratch("turns"));
    start(tasks, &ASK(&g[0], .argv = SH(script[0]), .whose = &greedy));
    for (int i = 1; i < 4; i++) start(tasks, &ASK(&g[i], .argv = SH(script[1]), .whose = &greedy));
    assert_null(vr_task_start(tasks, &ASK(&g[0], .argv = SH("true"), .whose = &greedy), &err));
    start(tasks, &ASK(&p, .argv = SH(script[2]), .whose = &polite));
    assert_int_equal(g[3].n, 1); /* the newest */
    assert_true(g[3].no_end);
    assert_contains(g[3].why, "most of them are yours");
    start(tasks, &ASK(&o[0], .argv = SH(script[3]), .whose = &other));
    assert_int_equal(g[2].n, 1);
    assert_null(
        vr_task_start(tasks, &ASK(&o[1], .argv = SH("true"), .whose = &other), &err)); /* as many as the greedy one */
    assert_int_equal(err.code, VR_ENOMEM);
    fclose(fopen(scratch("go"), "w"));
    turn_until(&o[0].n, 1);
    turn_until(&g[1].n, 1);
    assert_string_equal(g[1].out, "1\n"); /* nobody runs: the oldest first */
    assert_string_equal(p.out, "1\n2\n");
    assert_string_equal(o[0].out, "1\n2\n3\n");
    vr_tasks_free(tasks);
}

static void test_shares(void **state)
{
    (void)state;
    static const int greedy, polite;
    struct vr_tasks *tasks = vr_tasks_new(base, 2, 8);
    struct heard g[4] = { 0 }, p = { 0 };
    char wait[700];
    snprintf(wait, sizeof wait, "while ! test -e %s; do sleep 0.05; done", scratch("end"));
    start(tasks, &ASK(&g[0], .argv = SH(wait), .whose = &greedy));
    struct vr_task *second = start(tasks, &ASK(&g[1], .argv = SH(wait), .whose = &greedy));
    start(tasks, &ASK(&g[2], .argv = SH("true"), .whose = &greedy));
    start(tasks, &ASK(&p, .argv = SH("true"), .whose = &polite, .nice = 5));
    vr_task_cancel(second);
    turn_until(&p.n, 1); /* before the one that came first, whose owner has one running */
    assert_int_equal(g[0].n, 0);
    fclose(fopen(scratch("end"), "w"));
    turn_until(&g[2].n, 1);
    vr_tasks_free(tasks);
}

static void test_cancel(void **state)
{
    (void)state;
    struct vr_tasks *tasks = vr_tasks_new(base, 1, 2);
    struct heard a = { 0 }, b = { 0 }, c = { 0 };
    struct vr_task *running = start(tasks, &ASK(&a, .argv = SH("sleep 1000")));
    struct vr_task *waiting = start(tasks, &ASK(&b, .argv = SH("echo never")));
    start(tasks, &ASK(&c, .argv = SH("echo last")));
    vr_task_cancel(waiting);
    vr_task_cancel(running);
    vr_task_cancel(NULL);
    turn_until(&c.n, 1);
    assert_string_equal(c.out, "last\n");
    assert_int_equal(a.n + b.n, 0);
    assert_true(childless());
    vr_tasks_free(tasks);
}

static void test_callback_starts_another(void **state)
{
    (void)state;
    struct vr_tasks *tasks = vr_tasks_new(base, 1, 0);
    struct heard h = { 0 };
    struct vr_task_ask ask = ASK(&h, .argv = SH("echo again"));
    h.then = tasks;
    h.ask = &ask;
    start(tasks, &ask);
    turn_until(&h.n, 2);
    assert_string_equal(h.out, "again\n");
    vr_tasks_free(tasks);
}

/* Freed in the middle of everything: nobody is left, and nobody hears of it. */
static void test_free_all(void **state)
{
    (void)state;
    int fds = n_open_fds();
    struct vr_tasks *tasks = vr_tasks_new(base, 2, 2);
    struct heard h = { 0 };
    struct vr_task *one = start(tasks, &ASK(&h, .argv = SH("sleep 1000")));
    for (int i = 0; i < 3; i++) start(tasks, &ASK(&h, .argv = SH("sleep 1000 & sleep 1000")));
    vr_task_cancel(one); /* killed, not yet reaped */
    vr_tasks_free(tasks);
    vr_tasks_free(NULL);
    assert_int_equal(h.n, 0);
    assert_true(childless());
    assert_int_equal(n_open_fds(), fds);
}

/* A status that somebody else fetched is told as an error, not invented. */
static void test_status_stolen(void **state)
{
    (void)state;
    struct vr_tasks *tasks = vr_tasks_new(base, 1, 0);
    struct heard h = { 0 };
    start(tasks, &ASK(&h, .argv = SH("true")));
    assert_true(waitpid(-1, NULL, 0) > 0);
    turn_until(&h.n, 1);
    assert_true(h.no_end);
    assert_contains(h.why, "cannot learn how");
    vr_tasks_free(tasks);
}

/* This program itself: what a task is for. */
static void test_self(void **state)
{
    (void)state;
    struct vr_tasks *tasks = vr_tasks_new(base, 1, 0);
    struct heard h = { 0 };
    start(tasks, &ASK(&h, .argv = ((const char *const[]){ VR_SELF, "as-a-child", NULL })));
    turn_until(&h.n, 1);
    assert_int_equal(h.exit_status, 42);
    vr_tasks_free(tasks);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "as-a-child") == 0) return 42;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_large_both_ways),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_owners),
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_callback_starts_another),
        cmocka_unit_test(test_free_all),
        cmocka_unit_test(test_status_stolen),
        cmocka_unit_test(test_self),
    };
    base = event_base_new();
    int failed = cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
    event_base_free(base);
    return failed;
}
