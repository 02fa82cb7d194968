/* Lines as their reader gets them: through a pipe, a terminal, and descriptors that take nothing. */
#include "test.h"

#include "base/buf.h"
#include "base/log.h"

#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

static int ends[2]; /* the log's reader and the log */

static int setup(void **state)
{
    (void)state;
    alarm(120); /* a log that waits for its reader is killed, and that is the failure */
    return pipe2(ends, O_CLOEXEC);
}

static int teardown(void **state)
{
    (void)state;
    alarm(0);
    close(ends[0]);
    close(ends[1]);
    return 0;
}

/* All that was logged. */
static const char *logged(void)
{
    static char text[65536];
    size_t n = 0;
    struct pollfd p = { ends[0], POLLIN, 0 };
    while (n < sizeof text - 1 && poll(&p, 1, 0) > 0 && p.revents & POLLIN)
        n += (size_t)read(ends[0], text + n, sizeof text - 1 - n);
    text[n] = '\0';
    return text;
}

/* The one line that was logged, without its newline. */
static const char *logged_line(void)
{
    char *s = (char *)(uintptr_t)logged(), *end = strchr(s, '\n');
    assert_non_null(end);
    if (end[1]) fail_msg("more than a line: %s", s);
    assert_true((size_t)(end - s) < PIPE_BUF);
    *end = '\0';
    return s;
}

/* The same as JSON, owned by the caller. */
static json_t *logged_json(void)
{
    const char *s = logged_line();
    json_error_t e;
    json_t *o = json_loads(s, JSON_REJECT_DUPLICATES, &e);
    if (!o) fail_msg("%s: %s", e.text, s);
    return o;
}

static const char *get(json_t *o, const char *key) { return json_string_value(json_object_get(o, key)); }

static void test_text(void **state)
{
    (void)state;
    vr_log_init(ends[1], VR_LOG_TEXT, VR_DEBUG);
    static const char *const names[] = { "debug", "info ", "warn ", "error" };
    for (int level = VR_DEBUG; level <= VR_ERROR; level++) {
        vr_log((enum vr_level)level, "loaded %d layers", 81);
        const char *s = logged_line();
        int h, m, sec;
        assert_int_equal(sscanf(s, "%2d:%2d:%2d ", &h, &m, &sec), 3);
        assert_memory_equal(s + 9, names[level], 5);
        assert_string_equal(s + 14, " loaded 81 layers");
    }
    vr_log_fields(VR_INFO, (const struct vr_field[]){ { "id", "abc" }, { "ms", "12" }, { 0 } }, "loaded model");
    assert_string_equal(logged_line() + 9, "info  loaded model  id=abc  ms=12");
    vr_log_fields(VR_INFO, NULL, "no fields");
    assert_string_equal(logged_line() + 9, "info  no fields");
    vr_log_fields(VR_INFO, (const struct vr_field[]){ { 0 } }, "none either");
    assert_string_equal(logged_line() + 9, "info  none either");
    assert_int_equal(vr_log_dropped(), 0);
}

static void test_json(void **state)
{
    (void)state;
    vr_log_init(ends[1], VR_LOG_JSON, VR_DEBUG);
    static const char *const names[] = { "debug", "info", "warn", "error" };
    for (int level = VR_DEBUG; level <= VR_ERROR; level++) {
        vr_log_fields((enum vr_level)level, (const struct vr_field[]){ { "id", "abc" }, { "ms", "12" }, { 0 } },
                      "loaded %s", "model");
        json_t *o = logged_json();
        assert_int_equal(json_object_size(o), 5);
        int y, mo, d, h, m, s, ms, n = 0;
        sscanf(get(o, "ts"), "%4d-%2d-%2dT%2d:%2d:%2d.%3dZ%n", &y, &mo, &d, &h, &m, &s, &ms, &n);
        assert_int_equal(n, 24);
        assert_string_equal(get(o, "level"), names[level]);
        assert_string_equal(get(o, "msg"), "loaded model");
        assert_string_equal(get(o, "id"), "abc");
        assert_string_equal(get(o, "ms"), "12");
        json_decref(o);
    }
}

static void test_levels(void **state)
{
    (void)state;
    for (int min = VR_DEBUG; min <= VR_ERROR; min++) {
        vr_log_init(ends[1], VR_LOG_TEXT, (enum vr_level)min);
        for (int level = VR_DEBUG; level <= VR_ERROR; level++) {
            vr_log((enum vr_level)level, "x");
            assert_int_equal(*logged() != '\0', level >= min);
        }
        assert_int_equal(vr_log_dropped(), 0); /* not wanted is not lost */
    }
}

/* What a client can send: nothing of it may begin a second line or reach the terminal as a command. */
static const char hostile[] = "a\nb\r\nERROR forged\033[2Jc\x7f\x9b"
                              "d\xc2\x9b"
                              "1me\xff\xc3 \"q\" \\ {}%s ü";

static void test_hostile(void **state)
{
    (void)state;
    const struct vr_field fields[] = { { "user", hostile }, { 0 } };
    vr_log_init(ends[1], VR_LOG_TEXT, VR_DEBUG);
    vr_log_fields(VR_WARN, fields, "%s", hostile);
    const char *clean = "a b  ERROR forged [2Jc \xEF\xBF\xBD"
                        "d 1me\xEF\xBF\xBD\xEF\xBF\xBD \"q\" \\ {}%s ü";
    VR_AUTO_BUF want = { 0 };
    vr_buf_addf(&want, "warn  %s  user=%s", clean, clean);
    assert_string_equal(logged_line() + 9, want.data);

    vr_log_init(ends[1], VR_LOG_JSON, VR_DEBUG);
    vr_log_fields(VR_WARN, fields, "%s", hostile);
    json_t *o = logged_json();
    assert_int_equal(json_object_size(o), 4);
    static const char *const keys[] = { "msg", "user" };
    for (size_t i = 0; i < 2; i++) {
        assert_memory_equal(get(o, keys[i]), hostile, strlen("a\nb\r\nERROR forged\033[2Jc\x7f"));
        assert_contains(get(o, keys[i]), "1me\xEF\xBF\xBD\xEF\xBF\xBD \"q\" \\ {}%s ü");
    }
    json_decref(o);
}

/* Lines around and past the limit, of text that grows when written: each is one valid line within PIPE_BUF. */
static void test_long(void **state)
{
    (void)state;
    static const char *const kinds[] = { "x", "\"", "\001", "\xff", "ü", "東", "🙂" };
    static char text[9000];
    for (size_t k = 0; k < VR_COUNT(kinds); k++)
        for (size_t n = 200; n < sizeof text - 8; n += n < 5000 ? 37 : 900) {
            size_t len = 0;
            while (len < n) len += (size_t)sprintf(text + len, "%s", kinds[k]);
            const struct vr_field fields[] = { { "f", text }, { 0 } };
            for (int in_field = 0; in_field < 2; in_field++) {
                vr_log_init(ends[1], VR_LOG_JSON, VR_DEBUG);
                vr_log_fields(VR_INFO, in_field ? fields : NULL, "%s", in_field ? "short" : text);
                json_t *o = logged_json();
                if (in_field) {
                    assert_string_equal(get(o, "msg"), "short");
                    assert_true(!get(o, "f") == (get(o, "cut") != NULL)); /* whole, or said to be cut */
                } else {
                    assert_memory_equal(get(o, "msg"), k == 3 ? "\xEF\xBF\xBD" : text, 3);
                }
                json_decref(o);
                vr_log_init(ends[1], VR_LOG_TEXT, VR_DEBUG);
                vr_log_fields(VR_INFO, in_field ? fields : NULL, "%s", in_field ? "short" : text);
                logged_line();
                assert_int_equal(vr_log_dropped(), 0);
            }
        }
}

static void test_longest_whole(void **state)
{
    (void)state;
    vr_log_init(ends[1], VR_LOG_TEXT, VR_DEBUG);
    static char value[PIPE_BUF];
    size_t frame = strlen("00:00:00 info  m  f=");
    memset(value, 'v', PIPE_BUF - 1 - frame);
    const struct vr_field fields[] = { { "f", value }, { 0 } };
    vr_log_fields(VR_INFO, fields, "m");
    assert_int_equal(strlen(logged_line()), PIPE_BUF - 1); /* and the newline */
    value[PIPE_BUF - 1 - frame] = 'v';
    vr_log_fields(VR_INFO, fields, "m");
    assert_string_equal(logged_line() + 9, "info  m  cut=true");
}

static void test_nobody_reads(void **state)
{
    (void)state;
    static const enum vr_log_format formats[] = { VR_LOG_TEXT, VR_LOG_JSON };
    for (size_t i = 0; i < 2; i++) {
        int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
        assert_true(full >= 0);
        vr_log_init(full, formats[i], VR_INFO);
        for (int n = 0; n < 3; n++) vr_log(VR_ERROR, "lost");
        assert_int_equal(vr_log_dropped(), 3);
        close(full);
        vr_log(VR_ERROR, "lost"); /* closed */
        assert_int_equal(vr_log_dropped(), 4);
        vr_log(VR_DEBUG, "not wanted");
        assert_int_equal(vr_log_dropped(), 4);
        vr_log_init(-1, formats[i], VR_INFO);
        assert_int_equal(vr_log_dropped(), 0);
        vr_log(VR_ERROR, "lost");
        assert_int_equal(vr_log_dropped(), 1);
    }
}

static void test_closed_pipe(void **state)
{
    (void)state;
    signal(SIGPIPE, SIG_DFL);
    vr_log_init(ends[1], VR_LOG_TEXT, VR_INFO);
    vr_log(VR_INFO, "read");
    assert_contains(logged_line(), "read");
    close(ends[0]);
    vr_log(VR_INFO, "nobody"); /* SIGPIPE would end us here */
    vr_log(VR_INFO, "nobody");
    assert_int_equal(vr_log_dropped(), 2);
    ends[0] = -1;
}

/* A reader that is slow: lines are lost, none is torn, and we do not wait (alarm). */
static void test_full_pipe(void **state)
{
    (void)state;
    vr_log_init(ends[1], VR_LOG_JSON, VR_INFO);
    int room = fcntl(ends[1], F_SETPIPE_SZ, 16384);
    assert_true(room >= 16384 && room < 60000);
    unsigned n = 0;
    for (; vr_log_dropped() < 10; n++) {
        assert_true(n < 10000);
        vr_log(VR_INFO, "line %u %.*s", n, (int)(n * 13 % 700), hostile);
    }
    VR_AUTO_BUF text = { 0 };
    vr_buf_adds(&text, logged());
    unsigned lines = 0;
    for (char *s = text.data, *end; *s; s = end + 1, lines++) {
        end = strchr(s, '\n');
        assert_non_null(end);
        json_t *o = json_loadb(s, (size_t)(end - s), 0, NULL);
        assert_non_null(o);
        unsigned number;
        assert_int_equal(sscanf(get(o, "msg"), "line %u", &number), 1);
        if (lines + 10 < n) assert_int_equal(number, lines);
        json_decref(o);
    }
    assert_int_equal(lines + vr_log_dropped(), n);
    vr_log(VR_INFO, "room again");
    assert_contains(logged_line(), "room again");
    assert_int_equal(vr_log_dropped(), 10);
}

/* Lines of several processes in one pipe. */
static void test_lines_do_not_mix(void **state)
{
    (void)state;
    enum { WRITERS = 4, LINES = 30 };
    vr_log_init(ends[1], VR_LOG_TEXT, VR_INFO);
    fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
    for (int w = 0; w < WRITERS; w++) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            char text[1000];
            memset(text, 'a' + w, sizeof text - 1);
            text[sizeof text - 1] = '\0';
            for (int i = 0; i < LINES; i++) vr_log(VR_INFO, "%.*s", 100 + i * 29, text);
            _exit(vr_log_dropped() ? 1 : 0);
        }
    }
    unsigned lines = 0;
    FILE *f = fdopen(dup(ends[0]), "re");
    assert_non_null(f);
    char line[2048];
    while (lines < WRITERS * LINES && fgets(line, sizeof line, f)) {
        size_t n = strlen(line);
        assert_int_equal(line[n - 1], '\n');
        for (size_t i = 16; i + 1 < n; i++) assert_int_equal(line[i], line[15]);
        lines++;
    }
    fclose(f);
    for (int status, w = 0; w < WRITERS; w++) {
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
}

static void test_terminal(void **state)
{
    (void)state;
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    int tty = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(tty >= 0);
    char line[512];
    vr_log_init(tty, VR_LOG_TEXT, VR_INFO);
    vr_log_fields(VR_ERROR, (const struct vr_field[]){ { "k", "v\033[2J" }, { 0 } }, "m\033[2J");
    ssize_t n = read(master, line, sizeof line - 1);
    assert_true(n > 0);
    line[n] = '\0';
    assert_contains(line, "\033[31merror\033[0m m [2J  \033[2mk=\033[0mv [2J\r\n");
    vr_log_init(tty, VR_LOG_JSON, VR_INFO); /* JSON is for machines, also there */
    vr_log(VR_ERROR, "m");
    n = read(master, line, sizeof line - 1);
    assert_true(n > 0);
    line[n] = '\0';
    assert_null(strchr(line, '\033'));
    close(tty);
    close(master);
}

struct tapped {
    unsigned n;
    char last[4096];
};

static void keep(void *ctx, const char *json, size_t n)
{
    struct tapped *t = ctx;
    t->n++;
    snprintf(t->last, sizeof t->last, "%.*s", (int)n, json);
}

/* Whatever the log's format and fate, the tap gets JSON. */
static void test_tap(void **state)
{
    (void)state;
    struct tapped t = { 0 };
    vr_log_init(ends[1], VR_LOG_TEXT, VR_INFO);
    vr_log_tap(keep, &t);
    vr_log_fields(VR_WARN, (const struct vr_field[]){ { "k", "v\"" }, { 0 } }, "a\nb");
    assert_contains(logged(), "warn  a b  k=v\"");
    json_t *line = json_loads(t.last, 0, NULL);
    assert_string_equal(json_string_value(json_object_get(line, "msg")), "a\nb");
    assert_string_equal(json_string_value(json_object_get(line, "k")), "v\"");
    json_decref(line);
    vr_log(VR_DEBUG, "below the level");
    assert_int_equal(t.n, 1);
    vr_log_tap(NULL, NULL);
    vr_log(VR_INFO, "untapped");
    assert_int_equal(t.n, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_text, setup, teardown),
        cmocka_unit_test_setup_teardown(test_json, setup, teardown),
        cmocka_unit_test_setup_teardown(test_levels, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hostile, setup, teardown),
        cmocka_unit_test_setup_teardown(test_long, setup, teardown),
        cmocka_unit_test_setup_teardown(test_longest_whole, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nobody_reads, setup, teardown),
        cmocka_unit_test_setup_teardown(test_closed_pipe, setup, teardown),
        cmocka_unit_test_setup_teardown(test_full_pipe, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lines_do_not_mix, setup, teardown),
        cmocka_unit_test_setup_teardown(test_terminal, setup, teardown),
        cmocka_unit_test_setup_teardown(test_tap, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
