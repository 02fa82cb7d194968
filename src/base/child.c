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
#include <time.h>
#include <unistd.h>

#include "base/text.h"

#define DEFAULT_MAX_OUTPUT ((size_t)16 << 20)

enum { IN, OUT, ERR, END, N_FDS }; /* what the parent polls */

static double now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

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

/* Starts the child; fds[] are the parent's ends. */
static pid_t start(const struct vr_child *c, int fds[N_FDS], struct vr_err *err)
{
    if (!check_pass_fds(c->pass_fds, err)) return -1;
    int in[2] = { -1, -1 }, out[2] = { -1, -1 }, er[2] = { -1, -1 };
    pid_t pid = -1;
    /* One way only: what the child writes to its stdin must not turn the end of its input into an error. */
    bool ok = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) == 0 && shutdown(in[0], SHUT_RD) == 0 &&
              pipe2(out, O_CLOEXEC) == 0 && pipe2(er, O_CLOEXEC) == 0 &&
              (pid = fork_quietly(c, in[1], out[1], er[1])) > 0;
    int saved = errno;
    vr_closep(&in[1]);
    vr_closep(&out[1]);
    vr_closep(&er[1]);
    fds[IN] = in[0];
    fds[OUT] = out[0];
    fds[ERR] = er[0];
    if (!ok) {
        vr_fail(err, VR_EIO, "cannot start a child process: %s", strerror(saved));
        return -1;
    }
    setpgid(pid, pid);
    fds[END] = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fds[END] < 0) {
        vr_fail(err, VR_EIO, "cannot watch a child process: %s", strerror(errno));
        kill(pid, SIGKILL);
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) continue;
        return -1;
    }
    for (int i = IN; i <= ERR; i++) fcntl(fds[i], F_SETFL, O_NONBLOCK);
    return pid;
}

static void shut(int *fd)
{
    vr_closep(fd);
    *fd = -1; /* poll ignores negative descriptors */
}

/* Gives it one more block; closes when all is given. */
static void feed(const struct vr_child *c, size_t *sent, int *fd)
{
    if (*sent < c->n_input) {
        ssize_t n = send(*fd, (const char *)c->input + *sent, c->n_input - *sent, MSG_NOSIGNAL);
        if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
        if (n >= 0 && (*sent += (size_t)n) < c->n_input) return;
        /* a failure: it does not want its input, which is not our error */
    }
    shut(fd);
}

/* Takes one block, up to the cap; closes at the end of the stream. False when there is more than the cap, or no
 * memory. */
static bool take(struct vr_buf *b, int *fd)
{
    char block[16384];
    ssize_t n = read(*fd, block, sizeof block);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return true;
    if (n <= 0) {
        shut(fd);
        return true;
    }
    size_t room = b->max - b->n;
    vr_buf_add(b, block, (size_t)n < room ? (size_t)n : room);
    return (size_t)n <= room && !b->failed;
}

/* Takes what the child left behind. Only what is there now: a grandchild may write to the pipe for ever. */
static bool take_rest(struct vr_buf *b, int *fd)
{
    int there = 0;
    if (*fd < 0 || ioctl(*fd, FIONREAD, &there) < 0) return true;
    size_t end = b->n + (size_t)there;
    while (*fd >= 0 && b->n < end)
        if (!take(b, fd)) return false;
    return true;
}

/* Feeds and drains until the child has ended; kills it when it may not go on. */
static void watch(const struct vr_child *c, pid_t pid, int fds[N_FDS], struct vr_child_end *end, double deadline)
{
    size_t sent = 0;
    while (!end->timed_out && !end->too_much) {
        double left = deadline - now_ms();
        struct pollfd p[N_FDS] = {
            { fds[IN], POLLOUT, 0 }, { fds[OUT], POLLIN, 0 }, { fds[ERR], POLLIN, 0 }, { fds[END], POLLIN, 0 }
        };
        if (poll(p, N_FDS, left > 0 ? (int)left + 1 : 0) > 0) {
            if (p[END].revents) return; /* asked before the deadline: an end in time is one, however late we look */
            if (p[IN].revents) feed(c, &sent, &fds[IN]);
            if (p[OUT].revents && !take(&end->out, &fds[OUT])) end->too_much = true;
            if (p[ERR].revents && !take(&end->err, &fds[ERR])) end->too_much = true;
        }
        end->timed_out = left <= 0;
    }
    kill(-pid, SIGKILL);
    kill(pid, SIGKILL); /* in case it left its group */
}

/* How it ended, and what is left in its pipes. */
static bool finish(pid_t pid, int fds[N_FDS], struct vr_child_end *end, struct vr_err *err)
{
    int status = 0;
    pid_t got;
    do got = waitpid(pid, &status, 0);
    while (got < 0 && errno == EINTR);
    if (got < 0) return vr_fail(err, VR_EINTERNAL, "cannot learn how a child process ended: %s", strerror(errno));
    bool all = take_rest(&end->out, &fds[OUT]);
    all = take_rest(&end->err, &fds[ERR]) && all;
    if (end->out.failed || end->err.failed) return vr_fail_nomem(err, "reading what a child process wrote");
    if (!all) end->too_much = true;
    end->exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    end->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    return true;
}

bool vr_child_run(const struct vr_child *c, struct vr_child_end *end, struct vr_err *err)
{
    double t0 = now_ms();
    *end = (struct vr_child_end){ 0 };
    end->out.max = end->err.max = c->max_output ? c->max_output : DEFAULT_MAX_OUTPUT;
    /* With SIGCHLD ignored, which a program can inherit, the kernel keeps no exit status for us. */
    struct sigaction chld, plain = { .sa_handler = SIG_DFL };
    sigaction(SIGCHLD, NULL, &chld);
    bool ignored = chld.sa_handler == SIG_IGN || (chld.sa_flags & SA_NOCLDWAIT);
    if (ignored) sigaction(SIGCHLD, &plain, NULL);

    int fds[N_FDS] = { -1, -1, -1, -1 };
    pid_t pid = start(c, fds, err);
    if (pid > 0) watch(c, pid, fds, end, t0 + c->timeout_ms);
    bool ok = pid > 0 && finish(pid, fds, end, err);
    end->ms = now_ms() - t0;
    for (int i = 0; i < N_FDS; i++) vr_closep(&fds[i]);
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
