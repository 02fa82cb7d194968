/* Small files: the whole, or a sentence; and a writer that fails leaves no trace. */
#include "test.h"

#include "base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

static void spill(const char *path, const char *text)
{
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void expect_file(const char *path, const char *text)
{
    VR_AUTO_BUF b = { 0 };
    struct vr_err err = { 0 };
    if (!vr_file_read(path, 1 << 20, &b, &err)) fail_msg("%s", err.msg);
    assert_string_equal(vr_buf_str(&b), text);
    assert_int_equal(b.n, strlen(text));
}

static mode_t mode_of(const char *path)
{
    struct stat st;
    assert_int_equal(lstat(path, &st), 0);
    return st.st_mode & 07777;
}

/* How many names a directory holds: a temporary file that stayed would be one more. */
static int n_entries(const char *dir)
{
    DIR *d = opendir(dir);
    assert_non_null(d);
    int n = 0;
    for (struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.' || e->d_name[1] > '.';
    closedir(d);
    return n;
}

/* A directory of its own for a test. */
static const char *fresh_dir(void)
{
    static char path[512];
    static int n;
    snprintf(path, sizeof path, "%s/%d", scratch_dir, n++);
    assert_int_equal(mkdir(path, 0755), 0);
    return path;
}

static const char *in(const char *dir, const char *name)
{
    static char paths[4][800];
    static unsigned at;
    char *p = paths[at++ % 4];
    snprintf(p, sizeof paths[0], "%s/%s", dir, name);
    return p;
}

static void test_read(void **state)
{
    (void)state;
    const char *path = in(fresh_dir(), "f");
    spill(path, "");
    expect_file(path, "");
    spill(path, "some text\n");
    expect_file(path, "some text\n");
    VR_AUTO_BUF b = { 0 };
    struct vr_err err = { 0 };
    vr_buf_adds(&b, "before ");
    assert_true(vr_file_read(path, 100, &b, &err));
    assert_string_equal(b.data, "before some text\n");
    assert_int_equal(err.code, VR_OK); /* untouched */
}

static void test_read_cap(void **state)
{
    (void)state;
    const char *path = in(fresh_dir(), "f");
    static char text[70001];
    static const size_t sizes[] = { 1, 100, 16383, 16384, 16385, 32768, 70000 };
    for (size_t i = 0; i < VR_COUNT(sizes); i++) {
        for (size_t k = 0; k < sizes[i]; k++) text[k] = (char)('a' + k % 23);
        text[sizes[i]] = '\0';
        spill(path, text);
        VR_AUTO_BUF b = { 0 };
        struct vr_err err = { 0 };
        assert_true(vr_file_read(path, sizes[i], &b, &err));
        assert_int_equal(b.n, sizes[i]);
        assert_string_equal(b.data, text);
        vr_buf_clear(&b);
        assert_false(vr_file_read(path, sizes[i] - 1, &b, &err));
        assert_int_equal(err.code, VR_EFORMAT);
        assert_memory_equal(err.msg, path, strlen(path));
        assert_contains(err.msg, "larger than");
    }
    VR_AUTO_BUF b = { 0 };
    struct vr_err err = { 0 };
    assert_false(vr_file_read("/dev/zero", 100000, &b, &err)); /* without an end */
    assert_contains(err.msg, "/dev/zero: larger than 100000 bytes");
    assert_true(b.n <= 100000);
    VR_AUTO_BUF tight = { .max = 10 };
    assert_false(vr_file_read(path, 1 << 20, &tight, &err));
    assert_int_equal(err.code, VR_ENOMEM);
}

static void test_not_there(void **state)
{
    (void)state;
    const char *dir = fresh_dir();
    spill(in(dir, "f"), "x");
    const struct {
        const char *path, *why;
    } rows[] = { { in(dir, "missing"), "No such file" },
                 { dir, "Is a directory" },
                 { in(dir, "f/g"), "Not a directory" },
                 { "", "No such file" } };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        VR_AUTO_BUF b = { 0 };
        struct vr_err err = { 0 };
        assert_false(vr_file_read(rows[i].path, 100, &b, &err));
        assert_int_equal(err.code, VR_EIO);
        assert_memory_equal(err.msg, rows[i].path, strlen(rows[i].path));
        assert_contains(err.msg, rows[i].why);
        if (i == 0) continue;
        err = (struct vr_err){ 0 };
        assert_false(vr_file_write(rows[i].path, "new", 3, &err));
        assert_int_equal(err.code, VR_EIO);
        assert_memory_equal(err.msg, rows[i].path, strlen(rows[i].path));
        assert_contains(err.msg, rows[i].why);
    }
    struct vr_err err = { 0 };
    assert_false(vr_file_write(in(dir, "no/such/dir"), "new", 3, &err));
    assert_contains(err.msg, "No such file");
    assert_int_equal(n_entries(dir), 1);
}

static void test_write(void **state)
{
    (void)state;
    const char *dir = fresh_dir(), *path = in(dir, "f");
    struct vr_err err = { 0 };
    assert_true(vr_file_write(path, "first", 5, &err));
    expect_file(path, "first");
    assert_true(vr_file_write(path, "2nd", 3, &err)); /* nothing of a longer old file stays */
    expect_file(path, "2nd");
    assert_true(vr_file_write(path, NULL, 0, &err));
    expect_file(path, "");
    VR_AUTO_BUF big = { 0 };
    vr_buf_addc(&big, 'b', 1000000);
    assert_true(vr_file_write(path, big.data, big.n, &err));
    expect_file(path, big.data);
    assert_int_equal(n_entries(dir), 1);
    assert_int_equal(err.code, VR_OK);
}

static void test_permissions(void **state)
{
    (void)state;
    static const mode_t masks[] = { 022, 077, 002, 0, 027 };
    const char *dir = fresh_dir();
    mode_t before = umask(022);
    for (size_t i = 0; i < VR_COUNT(masks); i++) {
        const char *path = in(dir, "f");
        unlink(path);
        umask(masks[i]);
        struct vr_err err = { 0 };
        bool ok = vr_file_write(path, "x", 1, &err);
        mode_t after = umask(022);
        assert_true(ok);
        assert_int_equal(after, masks[i]); /* put back */
        assert_int_equal(mode_of(path), 0666 & ~masks[i]);
    }
    const char *path = in(dir, "f"); /* an old file's are kept, as open() would */
    assert_int_equal(chmod(path, 0640), 0);
    assert_true(vr_file_write(path, "y", 1, NULL));
    assert_int_equal(mode_of(path), 0640);
    umask(before);
}

static void test_unwritable_directory(void **state)
{
    (void)state;
    const char *dir = fresh_dir(), *path = in(dir, "f");
    spill(path, "old");
    assert_int_equal(chmod(scratch_dir, 0755), 0); /* it is the last directory that refuses */
    assert_int_equal(chmod(dir, 0555), 0);
    bool root = geteuid() == 0;
    if (root && seteuid(65534) != 0) skip(); /* root writes everywhere */
    struct vr_err err = { 0 };
    bool ok = vr_file_write(path, "new", 3, &err), other = vr_file_write(in(dir, "g"), "new", 3, NULL);
    if (root) assert_int_equal(seteuid(0), 0);
    assert_int_equal(chmod(dir, 0755), 0);
    assert_false(ok);
    assert_false(other);
    assert_int_equal(err.code, VR_EIO);
    assert_contains(err.msg, path);
    assert_contains(err.msg, "Permission denied");
    expect_file(path, "old");
    assert_int_equal(n_entries(dir), 1);
}

/* A disk that is full after 1000 bytes, as a limit of the process. */
static void test_full_disk(void **state)
{
    (void)state;
    const char *dir = fresh_dir(), *path = in(dir, "f");
    spill(path, "old and whole");
    VR_AUTO_BUF big = { 0 };
    vr_buf_addc(&big, 'b', 100000);
    struct rlimit before, tight;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    tight = before;
    tight.rlim_cur = 1000;
    signal(SIGXFSZ, SIG_IGN);
    fflush(NULL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    struct vr_err err = { 0 };
    bool ok = vr_file_write(path, big.data, big.n, &err), fresh = vr_file_write(in(dir, "g"), big.data, big.n, NULL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_DFL);
    assert_false(ok);
    assert_false(fresh);
    assert_int_equal(err.code, VR_EIO);
    assert_contains(err.msg, "File too large");
    expect_file(path, "old and whole");
    assert_int_equal(n_entries(dir), 1);
}

/* Names beside which no temporary file can be made. */
static void test_awkward_names(void **state)
{
    (void)state;
    const char *dir = fresh_dir();
    char path[800];
    snprintf(path, sizeof path, "%s/", in(dir, "not-there")); /* mkostemp makes not-there/.XXXXXX: refused */
    assert_false(vr_file_write(path, "x", 1, NULL));
    assert_int_equal(n_entries(dir), 0);
    char name[300];
    memset(name, 'n', sizeof name - 1);
    name[255] = '\0'; /* as long as a name may be: none is left for the one beside it */
    struct vr_err err = { 0 };
    assert_false(vr_file_write(in(dir, name), "x", 1, &err));
    assert_contains(err.msg, "File name too long");
    assert_int_equal(n_entries(dir), 0);
}

/* Devices and pipes are written to, never replaced by a file. The device is a node of our own: root could really lose
 * /dev/full to a fault here. */
static void test_devices(void **state)
{
    (void)state;
    const char *dir = fresh_dir(), *fifo = in(dir, "fifo"), *full = in(dir, "full");
    struct vr_err err = { 0 };
    struct stat st;
    assert_int_equal(mkfifo(fifo, 0600), 0);
    int p = open(fifo, O_RDWR | O_CLOEXEC);
    assert_true(p >= 0);
    char back[8] = "";
    assert_true(vr_file_write(fifo, "piped", 5, &err));
    assert_true(lstat(fifo, &st) == 0 && S_ISFIFO(st.st_mode));
    assert_int_equal(read(p, back, sizeof back), 5);
    assert_string_equal(back, "piped");
    close(p);
    int node = mknod(full, S_IFCHR | 0600, makedev(1, 7)) == 0 ? open(full, O_WRONLY | O_CLOEXEC) : -1;
    if (node >= 0) { /* not for everybody, nor on every disk */
        close(node);
        assert_false(vr_file_write(full, "x", 1, &err));
        assert_contains(err.msg, "full: No space left");
        assert_true(lstat(full, &st) == 0 && S_ISCHR(st.st_mode));
    }

    int ends[2]; /* a pipe without a name */
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    char path[64];
    snprintf(path, sizeof path, "/dev/fd/%d", ends[1]);
    assert_true(vr_file_write(path, "again", 5, &err));
    assert_int_equal(read(ends[0], back, sizeof back), 5);
    assert_string_equal(back, "again");
    close(ends[0]);
    close(ends[1]);
}

static void test_links(void **state)
{
    (void)state;
    const char *dir = fresh_dir(), *path = in(dir, "real"), *link = in(dir, "link");
    spill(path, "old");
    assert_int_equal(symlink("real", link), 0);
    assert_true(vr_file_write(link, "new", 3, NULL));
    struct stat st;
    assert_true(lstat(link, &st) == 0 && S_ISLNK(st.st_mode));
    expect_file(path, "new");
    assert_int_equal(n_entries(dir), 2);
}

/* While one process writes again and again, another reads: always one whole version. */
static void test_never_half(void **state)
{
    (void)state;
    const char *dir = fresh_dir(), *path = in(dir, "f");
    VR_AUTO_BUF a = { 0 }, b = { 0 };
    vr_buf_addc(&a, 'a', 200000);
    vr_buf_addc(&b, 'b', 90000);
    assert_true(vr_file_write(path, a.data, a.n, NULL));
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        bool ok = true;
        for (int i = 0; i < 40; i++) ok = vr_file_write(path, i % 2 ? a.data : b.data, i % 2 ? a.n : b.n, NULL) && ok;
        _exit(ok ? 0 : 1);
    }
    int status, reads = 0;
    do {
        VR_AUTO_BUF got = { 0 };
        assert_true(vr_file_read(path, 1 << 20, &got, NULL));
        const struct vr_buf *want = got.n == a.n ? &a : &b;
        assert_int_equal(got.n, want->n);
        assert_memory_equal(got.data, want->data, want->n);
        reads++;
    } while (waitpid(pid, &status, WNOHANG) == 0);
    assert_int_equal(status, 0);
    assert_true(reads > 1);
    assert_int_equal(n_entries(dir), 1);
}

static void test_own_path(void **state)
{
    (void)state;
    char path[64];
    static const struct {
        const char *variable, *home, *want; /* want NULL: no place */
    } rows[] = {
        { "/data", "/home/u", "/data/vram-llm/f" },
        { "data", "/home/u", "/home/u/.local/share/vram-llm/f" }, /* relative: not by the rules */
        { "", "/home/u", "/home/u/.local/share/vram-llm/f" },
        { NULL, "/home/u", "/home/u/.local/share/vram-llm/f" },
        { NULL, "u", NULL },
        { NULL, NULL, NULL },
        { "/a-directory-whose-name-alone-is-as-long-as-the-room-for-the-path", "/home/u", NULL },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        VR_AUTO_FREE char *home = getenv("HOME") ? strdup(getenv("HOME")) : NULL;
        rows[i].variable ? setenv("VR_TEST_HOME", rows[i].variable, 1) : unsetenv("VR_TEST_HOME");
        rows[i].home ? setenv("HOME", rows[i].home, 1) : unsetenv("HOME");
        bool found = vr_file_own_path("VR_TEST_HOME", ".local/share", "f", path, sizeof path);
        if (home) setenv("HOME", home, 1);
        assert_int_equal(found, rows[i].want != NULL);
        if (found) assert_string_equal(path, rows[i].want);
    }
}

static void test_parents(void **state)
{
    (void)state;
    const char *dir = fresh_dir(), *path = in(dir, "a/b/c/file");
    struct vr_err err = { 0 };
    for (int twice = 0; twice < 2; twice++) assert_true(vr_file_make_parents(path, &err));
    assert_int_equal(mode_of(in(dir, "a/b/c")), 0700);
    assert_int_equal(n_entries(in(dir, "a/b/c")), 0);
    spill(in(dir, "plain"), "");
    assert_false(vr_file_make_parents(in(dir, "plain/b/c"), &err));
    assert_non_null(strstr(err.msg, "plain/b: cannot make the directory: Not a directory"));
    assert_true(vr_file_make_parents("file", &err));
    assert_true(vr_file_make_parents("", &err));
}

static void test_name(void **state)
{
    (void)state;
    assert_string_equal(vr_file_name("/a/b.gguf"), "b.gguf");
    assert_string_equal(vr_file_name("b.gguf"), "b.gguf");
    assert_string_equal(vr_file_name("a/"), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read),        cmocka_unit_test(test_read_cap),
        cmocka_unit_test(test_not_there),   cmocka_unit_test(test_write),
        cmocka_unit_test(test_permissions), cmocka_unit_test(test_unwritable_directory),
        cmocka_unit_test(test_full_disk),   cmocka_unit_test(test_awkward_names),
        cmocka_unit_test(test_devices),     cmocka_unit_test(test_links),
        cmocka_unit_test(test_never_half),  cmocka_unit_test(test_own_path),
        cmocka_unit_test(test_parents),     cmocka_unit_test(test_name),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
