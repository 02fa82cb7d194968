/* One poll(2) loop over four descriptors: the child's stdin, stdout, stderr and its pidfd. The pidfd tells its end even
 * when a grandchild keeps the pipes open. stdin is a socket, so that writing to a dead child is an error code and not
 * a SIGPIPE; the price is that the child cannot open /dev/stdin by name.
 *
 * One turn of the loop moves at most one block each way, so nothing the child does can hold us past the deadline. All
 * signals are blocked across the fork: no handler of the parent ever runs in the child, which starts with every signal
 * at its default and none blocked. */
#include "base/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"

#define DEFAULT_MAX_OUTPUT ((size_t)16 << 20)
#define HELD_UP_MS         100 /* how often a child is looked at that waits for a processor past its time */

enum { IN = VR_CHILD_IN, OUT = VR_CHILD_OUT, ERR = VR_CHILD_ERR, END = VR_CHILD_END, N_FDS = VR_CHILD_FDS };

/* Closes all but 0, 1, 2 and the descriptors that were promised to the child. */
static void close_others(const int pass[4])
{
    unsigned from = 3;
    for (;;) {
        unsigned next = ~0u; /* the lowest promised one from `from` on */
        for (size_t i = 0; i < 4 && pass[i]; i++)
            if ((unsigned)pass[i] >= from && (unsigned)pass[i] < next) next = (unsigned)pass[i];
        if (next > from) close_range(from, next == ~0u ? ~0u : next - 1, 0);
        if (next == ~0u) return;
        fcntl((int)next, F_SETFD, 0);
        from = next + 1;
    }
}

static _Noreturn void in_child(const struct vr_child *c, int in, int out, int err, pid_t parent)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127); /* the parent died before the line above */
    if (dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0) _exit(127);
    close_others(c->pass_fds);
    for (int s = 1; s < NSIG; s++) signal(s, SIG_DFL); /* SIGKILL and SIGSTOP refuse, and need not */
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (c->nice && nice(c->nice) == -1) errno = 0; /* it runs all the same */
    if (c->main) {
        int status = c->main(c->ctx);
        fflush(NULL);
        _exit(status);
    }
    execvp(c->argv[0], (char *const *)(uintptr_t)c->argv);
    dprintf(2, "%s: %s\n", c->argv[0], strerror(errno));
    _exit(127);
}

/* One that is not open could be one of our own pipes in a moment, and the child would hold the wrong end of it. */
static bool check_pass_fds(const int pass[4], struct vr_err *err)
{
    for (size_t i = 0; i < 4 && pass[i]; i++)
        if (pass[i] < 3 || fcntl(pass[i], F_GETFD) < 0)
            return vr_fail(err, VR_EINTERNAL, "descriptor %d cannot be passed to a child process: %s", pass[i],
                           pass[i] < 3 ? "its number is taken" : "it is not open");
    return true;
}

/* fork() that no signal handler can fall into. */
static pid_t fork_quietly(const struct vr_child *c, int in, int out, int err)
{
    sigset_t all, before;
    sigfillset(&all);
    pid_t self = getpid();
    if (c->main) fflush(NULL); /* or the child would print what we have not yet */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = fork();
    if (pid == 0) in_child(c, in, out, err, self);
    int saved = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = saved;
    return pid;
}

static void close_all(struct vr_child_live *l)
{
    for (int i = 0; i < N_FDS; i++) vr_closep(&l->fds[i]);
}

bool vr_child_start(const struct vr_child *c, struct vr_child_live *l, struct vr_err *err)
{
    *l = (struct vr_child_live){ .fds = { -1, -1, -1, -1 } };
    if (!check_pass_fds(c->pass_fds, err)) return false;
    int in[2] = { -1, -1 }, out[2] = { -1, -1 }, er[2] = { -1, -1 };
    /* One way only: what the child writes to its stdin must not turn the end of its input into an error. */
    bool ok = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) == 0 && shutdown(in[0], SHUT_RD) == 0 &&
              pipe2(out, O_CLOEXEC) == 0 && pipe2(er, O_CLOEXEC) == 0 &&
              (l->pid = fork_quietly(c, in[1], out[1], er[1])) > 0;
    int saved = errno;
    vr_closep(&in[1]);
    vr_closep(&out[1]);
    vr_closep(&er[1]);
    l->fds[IN] = in[0];
    l->fds[OUT] = out[0];
    l->fds[ERR] = er[0];
    if (!ok) {
        close_all(l);
        return vr_fail(err, VR_EIO, "cannot start a child process: %s", strerror(saved));
    }
    setpgid(l->pid, l->pid);
    l->fds[END] = (int)syscall(SYS_pidfd_open, l->pid, 0);
    if (l->fds[END] < 0) {
        vr_fail(err, VR_EIO, "cannot watch a child process: %s", strerror(errno));
        kill(l->pid, SIGKILL);
        while (waitpid(l->pid, NULL, 0) < 0 && errno == EINTR) continue;
        close_all(l);
        return false;
    }
    for (int i = IN; i <= ERR; i++) fcntl(l->fds[i], F_SETFL, O_NONBLOCK);
    return true;
}

static void shut(int *fd)
{
    vr_closep(fd);
    *fd = -1; /* poll ignores negative descriptors */
}

void vr_child_feed(const struct vr_child *c, struct vr_child_live *l)
{
    if (l->sent < c->n_input) {
        ssize_t n = send(l->fds[IN], (const char *)c->input + l->sent, c->n_input - l->sent, MSG_NOSIGNAL);
        if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
        if (n >= 0 && (l->sent += (size_t)n) < c->n_input) return;
        /* a failure: it does not want its input, which is not our error */
    }
    shut(&l->fds[IN]);
}

bool vr_child_take(struct vr_child_live *l, int which, struct vr_buf *b)
{
    char block[16384];
    ssize_t n = read(l->fds[which], block, sizeof block);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return true;
    if (n <= 0) {
        shut(&l->fds[which]);
        return true;
    }
    size_t room = b->max - b->n;
    vr_buf_add(b, block, (size_t)n < room ? (size_t)n : room);
    return (size_t)n <= room && !b->failed;
}

/* Takes what the child left behind. Only what is there now: a grandchild may write to the pipe for ever. */
static bool take_rest(struct vr_child_live *l, int which, struct vr_buf *b)
{
    int there = 0;
    if (l->fds[which] < 0 || ioctl(l->fds[which], FIONREAD, &there) < 0) return true;
    size_t end = b->n + (size_t)there;
    while (l->fds[which] >= 0 && b->n < end)
        if (!vr_child_take(l, which, b)) return false;
    return true;
}

void vr_child_kill(const struct vr_child_live *l)
{
    kill(-l->pid, SIGKILL);
    kill(l->pid, SIGKILL); /* in case it left its group */
}

/* It wants to run and has had less of a processor than it may have: the machine is busy, and that is no fault of its
 * own. One that sleeps is not held up by that. */
static bool held_up(pid_t pid, double limit_ms)
{
    char path[64], state = 0;
    clockid_t clock;
    struct timespec used;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "re");
    if (!f) return false;
    bool read = fscanf(f, "%*d (%*[^)]) %c", &state) == 1;
    fclose(f);
    if (!read || !strchr("RD", state) || clock_getcpuclockid(pid, &clock) != 0) return false;
    return clock_gettime(clock, &used) == 0 && (double)used.tv_sec * 1e3 + (double)used.tv_nsec / 1e6 < limit_ms;
}

/* Feeds and drains until the child has ended; kills it when it may not go on. */
static void watch(const struct vr_child *c, struct vr_child_live *l, struct vr_child_end *end, double deadline)
{
    while (!end->timed_out && !end->too_much) {
        double left = deadline - vr_now_fine_ms();
        if (left <= 0 && held_up(l->pid, c->timeout_ms)) left = HELD_UP_MS;
        struct pollfd p[N_FDS] = { { l->fds[IN], POLLOUT, 0 },
                                   { l->fds[OUT], POLLIN, 0 },
                                   { l->fds[ERR], POLLIN, 0 },
                                   { l->fds[END], POLLIN, 0 } };
        if (poll(p, N_FDS, left > 0 ? (int)left + 1 : 0) > 0) {
            if (p[END].revents) return; /* asked before the deadline: an end in time is one, however late we look */
            if (p[IN].revents) vr_child_feed(c, l);
            if (p[OUT].revents && !vr_child_take(l, OUT, &end->out)) end->too_much = true;
            if (p[ERR].revents && !vr_child_take(l, ERR, &end->err)) end->too_much = true;
        }
        end->timed_out = left <= 0;
    }
    vr_child_kill(l);
}

bool vr_child_finish(struct vr_child_live *l, struct vr_child_end *end, struct vr_err *err)
{
    int status = 0;
    pid_t got;
    do got = waitpid(l->pid, &status, 0);
    while (got < 0 && errno == EINTR);
    int saved = errno;
    bool all = got < 0 || take_rest(l, OUT, &end->out);
    all = (got < 0 || take_rest(l, ERR, &end->err)) && all;
    close_all(l);
    if (got < 0) return vr_fail(err, VR_EINTERNAL, "cannot learn how a child process ended: %s", strerror(saved));
    if (end->out.failed || end->err.failed) return vr_fail_nomem(err, "reading what a child process wrote");
    if (!all) end->too_much = true;
    end->exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    end->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    return true;
}

void vr_child_end_init(struct vr_child_end *end, const struct vr_child *c)
{
    *end = (struct vr_child_end){ 0 };
    end->out.max = end->err.max = c->max_output ? c->max_output : DEFAULT_MAX_OUTPUT;
}

bool vr_child_run(const struct vr_child *c, struct vr_child_end *end, struct vr_err *err)
{
    double t0 = vr_now_fine_ms();
    vr_child_end_init(end, c);
    /* With SIGCHLD ignored, which a program can inherit, the kernel keeps no exit status for us. */
    struct sigaction chld, plain = { .sa_handler = SIG_DFL };
    sigaction(SIGCHLD, NULL, &chld);
    bool ignored = chld.sa_handler == SIG_IGN || (chld.sa_flags & SA_NOCLDWAIT);
    if (ignored) sigaction(SIGCHLD, &plain, NULL);

    struct vr_child_live l;
    bool ok = vr_child_start(c, &l, err);
    if (ok) watch(c, &l, end, t0 + c->timeout_ms);
    ok = ok && vr_child_finish(&l, end, err);
    end->ms = vr_now_fine_ms() - t0;
    if (ignored) sigaction(SIGCHLD, &chld, NULL);
    return ok;
}

const char *vr_child_how(const struct vr_child *c, const struct vr_child_end *end, char *out, size_t n)
{
    struct vr_num num;
    if (end->timed_out)
        snprintf(out, n, "ran longer than %s ms", vr_fmt_count(&num, (uint64_t)c->timeout_ms));
    else if (end->too_much)
        snprintf(out, n, "wrote more than %s bytes", vr_fmt_count(&num, end->out.max));
    else if (end->signal)
        snprintf(out, n, "killed by signal %d (%s)", end->signal, strsignal(end->signal));
    else
        snprintf(out, n, "exited with status %d", end->exit_status);
    return out;
}

void vr_child_end_done(struct vr_child_end *end)
{
    vr_buf_done(&end->out);
    vr_buf_done(&end->err);
}
