/* What a confined process can no longer do, one row each, and what it still can. Every row runs in a child of its own,
 * which tells the error number that it got; cmocka's asserts belong to the parent. Where the kernel lacks a part, its
 * rows say so and are skipped. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/child.h"
#include "base/confine.h"

enum { PATIENCE_MS = 120000, LOST = 250 };

struct row {
    const char *name;
    int (*fn)(void); /* 0, or the error number */
    int error;       /* that it should be */
    enum vr_confine_part part;
    enum vr_confine_calls calls;
    bool fork, connect, network;
};

/* --- what is tried --- */

static char inside[512], outside[512], model[512];

static int tried(long r) { return r < 0 ? errno : 0; }
static int can_open(const char *path, int flags)
{
    int fd = open(path, flags, 0600);
    int e = tried(fd);
    if (fd >= 0) close(fd);
    return e;
}

static int read_inside(void) { return can_open(model, O_RDONLY); }
static int read_linked(void) { return can_open(scratch("link.gguf"), O_RDONLY); }
static int read_outside(void) { return can_open(outside, O_RDONLY); }
static int write_inside(void) { return can_open(model, O_RDWR); }
static int make_inside(void) { return can_open(scratch("new"), O_WRONLY | O_CREAT); }
static int make_in_cache(void) { return can_open(inside, O_WRONLY | O_CREAT); }
static int list_root(void) { return can_open("/", O_RDONLY | O_DIRECTORY); }
static int remove_model(void) { return tried(unlink(model)); }
static int run_program(void) { return tried(execl("/bin/true", "true", (char *)NULL)); }
static int run_by_fd(void)
{
    return tried(syscall(SYS_execveat, AT_FDCWD, "/bin/true", (char *[]){ "true", NULL }, (char *[]){ NULL }, 0));
}
static int inet(void) { return tried(socket(AF_INET, SOCK_STREAM, 0)); }
static int inet6(void) { return tried(socket(AF_INET6, SOCK_DGRAM, 0)); }
static int netlink(void) { return tried(socket(AF_NETLINK, SOCK_RAW, 0)); }
/* To a port that nobody listens on. */
static int reach_tcp(void)
{
    const struct sockaddr_in at = { .sin_family = AF_INET,
                                    .sin_port = htons(1),
                                    .sin_addr = { htonl(INADDR_LOOPBACK) } };
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    return fd < 0 ? errno : tried(connect(fd, (const struct sockaddr *)&at, sizeof at));
}
static int local(void) { return tried(socket(AF_UNIX, SOCK_STREAM, 0)); }
static int pair(void)
{
    int fds[2];
    return tried(socketpair(AF_UNIX, SOCK_STREAM, 0, fds));
}
static int as_root(void) { return tried(syscall(SYS_setresuid, 0, 0, 0)); }
static int as_group(void) { return tried(syscall(SYS_setgid, 0)); }
static int new_user(void) { return tried(unshare(CLONE_NEWUSER)); }
static int clone_user(void)
{
    long pid = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
    if (pid == 0) _exit(0);
    return tried(pid);
}
static int trace(void) { return tried(ptrace(PTRACE_TRACEME, 0, 0, 0)); }
static int read_parent(void) { return tried(syscall(SYS_process_vm_readv, getppid(), NULL, 0, NULL, 0, 0)); }
static int bpf(void) { return tried(syscall(SYS_bpf, 0, NULL, 0)); }
static int uring(void) { return tried(syscall(SYS_io_uring_setup, 1, NULL)); }
static int chroots(void) { return tried(chroot("/")); }
static int forks(void)
{
    pid_t pid = fork();
    if (pid == 0) _exit(0);
    int e = tried(pid);
    if (pid > 0 && waitpid(pid, NULL, 0) != pid) return LOST;
    return e;
}
static void *nothing(void *ctx) { return ctx; }
static int threads(void)
{
    pthread_t t;
    int e = pthread_create(&t, NULL, nothing, NULL);
    return e ? e : pthread_join(t, NULL);
}
static int grows(void)
{
    size_t n = (size_t)64 << 20;
    char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return errno;
    memset(p, 1, n);
    return tried(munmap(p, n));
}
static int too_large(void)
{
    void *p = mmap(NULL, (size_t)2 << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? errno : 0;
}
static int dumpable(void)
{
    struct rlimit r;
    return prctl(PR_GET_DUMPABLE) != 0 || getrlimit(RLIMIT_CORE, &r) != 0 || r.rlim_max != 0;
}
static int gains(void) { return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1; }

#define DRIVERS VR_CALLS_DRIVERS
#define COMPUTE VR_CALLS_COMPUTE
static const struct row rows[] = {
    { "reads its model", read_inside, 0, VR_CONFINE_FILES, DRIVERS },
    { "reads a model through a symbolic link", read_linked, 0, VR_CONFINE_FILES, DRIVERS },
    { "does not read another file", read_outside, EACCES, VR_CONFINE_FILES, DRIVERS },
    { "does not write its model", write_inside, EACCES, VR_CONFINE_FILES, DRIVERS },
    { "makes no file beside it", make_inside, EACCES, VR_CONFINE_FILES, DRIVERS },
    { "makes files in its cache", make_in_cache, 0, VR_CONFINE_FILES, DRIVERS },
    { "does not list the root", list_root, EACCES, VR_CONFINE_FILES, DRIVERS },
    { "does not remove its model", remove_model, EACCES, VR_CONFINE_FILES, DRIVERS },
    { "runs no program", run_program, EPERM, VR_CONFINE_CALLS, DRIVERS, .fork = true },
    { "nor by execveat", run_by_fd, EPERM, VR_CONFINE_CALLS, DRIVERS, .fork = true },
    { "no IPv4", inet, EPERM, VR_CONFINE_CALLS, DRIVERS, .connect = true },
    { "no IPv6", inet6, EPERM, VR_CONFINE_CALLS, DRIVERS },
    { "no netlink", netlink, EPERM, VR_CONFINE_CALLS, DRIVERS, .connect = true },
    { "no local sockets", local, EPERM, VR_CONFINE_CALLS, DRIVERS },
    { "networks where it has them: IPv4", inet, 0, VR_CONFINE_CALLS, DRIVERS, .network = true },
    { "… and IPv6", inet6, 0, VR_CONFINE_CALLS, DRIVERS, .network = true },
    { "… and netlink", netlink, 0, VR_CONFINE_CALLS, DRIVERS, .network = true },
    { "… and connections", reach_tcp, ECONNREFUSED, VR_CONFINE_FILES, DRIVERS, .network = true },
    { "… but no programs", run_program, EPERM, VR_CONFINE_CALLS, DRIVERS, .fork = true, .network = true },
    { "local sockets where it may connect", local, 0, VR_CONFINE_CALLS, DRIVERS, .connect = true },
    { "socket pairs", pair, 0, VR_CONFINE_CALLS, DRIVERS },
    { "does not become root", as_root, EPERM, VR_CONFINE_CALLS, DRIVERS },
    { "nor another group", as_group, EPERM, VR_CONFINE_CALLS, DRIVERS },
    { "no new namespace", new_user, EPERM, VR_CONFINE_CALLS, DRIVERS },
    { "nor by clone", clone_user, EPERM, VR_CONFINE_CALLS, DRIVERS, .fork = true },
    { "does not trace", trace, EPERM, VR_CONFINE_CALLS, DRIVERS },
    { "reads no other process", read_parent, EPERM, VR_CONFINE_CALLS, DRIVERS },
    { "no bpf", bpf, EPERM, VR_CONFINE_CALLS, DRIVERS },
    { "no io_uring", uring, EPERM, VR_CONFINE_CALLS, DRIVERS },
    { "no chroot", chroots, EPERM, VR_CONFINE_CALLS, DRIVERS },
    { "does not fork", forks, EPERM, VR_CONFINE_CALLS, DRIVERS },
    { "forks where it may", forks, 0, VR_CONFINE_CALLS, DRIVERS, .fork = true },
    { "has threads", threads, 0, VR_CONFINE_CALLS, DRIVERS },
    { "has memory", grows, 0, VR_CONFINE_MEMORY, DRIVERS },
    { "up to a limit", too_large, ENOMEM, VR_CONFINE_MEMORY, DRIVERS },
    { "leaves no core dump", dumpable, 0, VR_CONFINE_DUMPS, DRIVERS },
    { "gains no privileges", gains, 0, VR_CONFINE_PRIVILEGES, DRIVERS },
    { "computing: memory", grows, 0, VR_CONFINE_CALLS, COMPUTE },
    { "computing: reads what it was given", read_inside, 0, VR_CONFINE_CALLS, COMPUTE },
    { "computing: writes nothing", write_inside, EPERM, VR_CONFINE_CALLS, COMPUTE },
    { "computing: no program", run_program, EPERM, VR_CONFINE_CALLS, COMPUTE },
    { "computing: no socket", local, EPERM, VR_CONFINE_CALLS, COMPUTE },
    { "computing: no fork", forks, EPERM, VR_CONFINE_CALLS, COMPUTE },
    { "computing: no thread", threads, EPERM, VR_CONFINE_CALLS, COMPUTE },
    { "computing: forks where it may", forks, 0, VR_CONFINE_CALLS, COMPUTE, .fork = true },
    { "computing: no new namespace", clone_user, EPERM, VR_CONFINE_CALLS, COMPUTE, .fork = true },
};

/* --- in the child --- */

struct answer {
    struct vr_confined confined;
    int error;
};

static void confine(const struct row *r, const char *user, struct vr_confined *out)
{
    char cache[512];
    snprintf(cache, sizeof cache, "%s/cache", scratch_dir);
    const struct vr_confine_path paths[] = { { scratch("link.gguf"), VR_MAY_READ },
                                             { cache, VR_MAY_READ | VR_MAY_WRITE },
                                             { "/usr", VR_MAY_READ },
                                             { "/nonexistent", VR_MAY_READ } };
    vr_confine(&(struct vr_confine){ .calls = r->calls,
                                     .may_fork = r->fork,
                                     .may_connect = r->connect,
                                     .may_network = r->network,
                                     .confines_files = true,
                                     .paths = paths,
                                     .n_paths = VR_COUNT(paths),
                                     .data_bytes = (uint64_t)1 << 30,
                                     .user = user },
               out);
}

static int child(void *ctx)
{
    const struct row *r = ctx;
    struct answer a;
    confine(r, NULL, &a.confined);
    a.error = r->fn();
    return write(1, &a, sizeof a) == sizeof a ? 0 : 1;
}

static void ask(int (*main)(void *), const void *ctx, void *answer, size_t n)
{
    struct vr_err err = { 0 };
    VR_AUTO_CHILD_END end = { 0 };
    struct vr_child c = { .main = main, .ctx = (void *)(uintptr_t)ctx, .timeout_ms = PATIENCE_MS };
    char how[128];
    if (!vr_child_run(&c, &end, &err)) fail_msg("%s", err.msg);
    if (end.exit_status != 0 || end.out.n != n) fail_msg("%s", vr_child_how(&c, &end, how, sizeof how));
    memcpy(answer, end.out.data, n);
}

static void test_rows(void **state)
{
    (void)state;
    size_t skipped = 0;
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct answer a;
        ask(child, &rows[i], &a, sizeof a);
        if (a.confined.state[rows[i].part] != VR_CONFINE_IN_FORCE) {
            print_message("SKIPPED '%s': %s is %s here\n", rows[i].name, vr_confine_part_name(rows[i].part),
                          vr_confine_state_words(a.confined.state[rows[i].part]));
            skipped++;
        } else if (a.error != rows[i].error)
            fail_msg("'%s': %s instead of %s", rows[i].name, strerror(a.error), strerror(rows[i].error));
    }
    assert_true(skipped < VR_COUNT(rows)); /* core dumps at least can be forbidden anywhere */
}

/* --- from root to a user --- */

struct ids {
    struct vr_confined confined;
    uid_t before[3], after[3];
    int as_root, private_before, private_after, in_thread;
    int death_signal;
};

static void *private_in_thread(void *ctx)
{
    pthread_barrier_t *b = ctx;
    pthread_barrier_wait(b); /* it began before … */
    pthread_barrier_wait(b); /* … and looks afterwards */
    return (void *)(intptr_t)read_inside();
}

static int drops(void *ctx)
{
    (void)ctx;
    struct ids a = { 0 };
    static const struct row plain = { .calls = VR_CALLS_DRIVERS };
    pthread_t t;
    pthread_barrier_t b;
    void *got;
    confine(&plain, "nobody", &a.confined);
    a.private_before = read_inside();
    getresuid(&a.before[0], &a.before[1], &a.before[2]);
    a.as_root = as_root();
    prctl(PR_GET_PDEATHSIG, &a.death_signal);
    pthread_barrier_init(&b, NULL, 2);
    if (pthread_create(&t, NULL, private_in_thread, &b) != 0) return 1;
    pthread_barrier_wait(&b);
    vr_confine_settle();
    pthread_barrier_wait(&b);
    pthread_join(t, &got);
    a.in_thread = (int)(intptr_t)got;
    a.private_after = read_inside();
    getresuid(&a.after[0], &a.after[1], &a.after[2]);
    return write(1, &a, sizeof a) == sizeof a ? 0 : 1;
}

/* The folder of a test is its owner's alone, as /root is. */
static void test_user(void **state)
{
    (void)state;
    struct ids a;
    if (geteuid() != 0) {
        print_message("SKIPPED: not started as root\n");
        return;
    }
    ask(drops, NULL, &a, sizeof a);
    if (a.confined.state[VR_CONFINE_USER] != VR_CONFINE_IN_FORCE) {
        print_message("SKIPPED: %s\n", a.confined.why[VR_CONFINE_USER]);
        return;
    }
    assert_string_equal(a.confined.user, "nobody");
    assert_int_not_equal(a.before[0], 0);
    assert_int_equal(a.before[0], a.before[1]);
    assert_int_equal(a.private_before, 0); /* a model below /root can be loaded */
    assert_int_equal(a.as_root, EPERM);
    assert_int_equal(a.death_signal, SIGKILL); /* it still ends with whoever started it */
    for (int i = 0; i < 3; i++) assert_int_equal(a.after[i], a.before[0]);
    assert_int_equal(a.private_after, EACCES); /* and nothing of root's can be read afterwards, */
    assert_int_equal(a.in_thread, EACCES);     /* in no thread */
}

static void test_unknown_user(void **state)
{
    (void)state;
    uid_t uid;
    gid_t gid;
    assert_false(vr_confine_user_id("no-such-user-here", &uid, &gid));
    assert_true(vr_confine_user_id("12345", &uid, &gid));
    assert_int_equal(uid, 12345);
    assert_true(vr_confine_user_id("root", &uid, &gid));
    assert_int_equal(uid, 0);
    assert_true(vr_confine_user_id("nobody", &uid, &gid));
    assert_int_not_equal(uid, 0);
}

static int turned_off(void *ctx)
{
    struct answer a;
    setenv("VRAM_LLM_CONFINE", "off", 1);
    confine(ctx, "nobody", &a.confined);
    a.error = read_outside() || inet();
    return write(1, &a, sizeof a) == sizeof a ? 0 : 1;
}

static void test_off(void **state)
{
    (void)state;
    struct answer a;
    static const struct row plain = { .calls = VR_CALLS_DRIVERS };
    ask(turned_off, &plain, &a, sizeof a);
    assert_true(a.confined.off);
    for (size_t i = 0; i < VR_N_CONFINE_PARTS; i++) assert_int_equal(a.confined.state[i], VR_CONFINE_UNUSED);
    assert_int_equal(a.error, 0);
}

static void test_json(void **state)
{
    (void)state;
    struct vr_confined c = { .landlock_abi = 3, .user = "nobody" };
    VR_AUTO_BUF out = { 0 };
    c.state[VR_CONFINE_CALLS] = VR_CONFINE_IN_FORCE;
    c.state[VR_CONFINE_FILES] = VR_CONFINE_UNSUPPORTED;
    c.state[VR_CONFINE_USER] = VR_CONFINE_REFUSED;
    vr_confined_json(&c, &out);
    assert_string_equal(vr_buf_str(&out), "{\"seccomp\":\"in_force\",\"landlock\":\"unsupported\","
                                          "\"unprivileged_user\":\"refused\",\"no_new_privileges\":\"unused\","
                                          "\"no_core_dumps\":\"unused\",\"memory_limit\":\"unused\","
                                          "\"landlock_abi\":3,\"user\":\"nobody\"}");
}

static int setup(void **state)
{
    if (scratch_setup(state) != 0) return -1;
    snprintf(model, sizeof model, "%s/blob", scratch_dir);
    snprintf(outside, sizeof outside, "%s/secret", scratch_dir);
    snprintf(inside, sizeof inside, "%s/cache/file", scratch_dir);
    FILE *a = fopen(model, "w"), *b = fopen(outside, "w");
    if (!a || !b) return -1;
    fclose(a);
    fclose(b);
    return symlink("blob", scratch("link.gguf")) || mkdir(scratch("cache"), 0700);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows), cmocka_unit_test(test_user), cmocka_unit_test(test_unknown_user),
        cmocka_unit_test(test_off),  cmocka_unit_test(test_json),
    };
    return cmocka_run_group_tests(tests, setup, scratch_teardown);
}
