/* One poll(2) loop over four descriptors: the child's stdin, stdout, stderr and its pidfd. The pidfd tells its end even
 * when a grandchild keeps the pipes open. stdin is a socket, so that writing to a dead child is an error code and not
 * a SIGPIPE. */
#include "base/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
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
    signal(SIGPIPE, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (c->main) _exit(c->main(c->ctx));
    execvp(c->argv[0], (char *const *)(uintptr_t)c->argv);
    dprintf(2, "%s: %s\n", c->argv[0], strerror(errno));
    _exit(127);
}

/* Starts the child; fds[] are the parent's ends. */
static pid_t start(const struct vr_child *c, int fds[N_FDS], struct vr_err *err)
{
    int in[2] = { -1, -1 }, out[2] = { -1, -1 }, er[2] = { -1, -1 };
    pid_t pid = -1, self = getpid();
    bool ok = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) == 0 && pipe2(out, O_CLOEXEC) == 0 &&
              pipe2(er, O_CLOEXEC) == 0 && (pid = fork()) >= 0;
    int saved = errno;
    if (pid == 0) in_child(c, in[1], out[1], er[1], self);
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

static void feed(const struct vr_child *c, size_t *sent, int *fd)
{
    while (*sent < c->n_input) {
        ssize_t n = send(*fd, (const char *)c->input + *sent, c->n_input - *sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return;
        if (n < 0) break; /* it does not want its input: not our error */
        *sent += (size_t)n;
    }
    shut(fd);
}

/* Takes what is there; closes at the end of the stream. False when the cap is passed. */
static bool drain(struct vr_buf *b, int *fd)
{
    char chunk[16384];
    while (*fd >= 0) {
        ssize_t n = read(*fd, chunk, sizeof chunk);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return true;
        if (n <= 0) {
            shut(fd);
            return true;
        }
        vr_buf_add(b, chunk, (size_t)n);
        if (b->failed) return false;
    }
    return true;
}

/* Feeds and drains until the child has ended; kills it when it may not go on. */
static void watch(const struct vr_child *c, pid_t pid, int fds[N_FDS], struct vr_child_end *end, double deadline)
{
    size_t sent = 0;
    feed(c, &sent, &fds[IN]);
    for (;;) {
        double left = deadline - now_ms();
        if (left <= 0) {
            end->timed_out = true;
            break;
        }
        struct pollfd p[N_FDS] = {
            { fds[IN], POLLOUT, 0 }, { fds[OUT], POLLIN, 0 }, { fds[ERR], POLLIN, 0 }, { fds[END], POLLIN, 0 }
        };
        if (poll(p, N_FDS, (int)left + 1) <= 0) continue; /* EINTR, or the deadline: checked above */
        if (p[IN].revents) feed(c, &sent, &fds[IN]);
        if (!drain(&end->out, &fds[OUT]) || !drain(&end->err, &fds[ERR])) {
            end->too_much = true;
            break;
        }
        if (p[END].revents) return;
    }
    kill(-pid, SIGKILL);
    kill(pid, SIGKILL); /* in case it left its group */
}

bool vr_child_run(const struct vr_child *c, struct vr_child_end *end, struct vr_err *err)
{
    double t0 = now_ms();
    *end = (struct vr_child_end){ 0 };
    end->out.max = end->err.max = c->max_output ? c->max_output : DEFAULT_MAX_OUTPUT;
    int fds[N_FDS] = { -1, -1, -1, -1 };
    pid_t pid = start(c, fds, err);
    if (pid > 0) {
        watch(c, pid, fds, end, t0 + c->timeout_ms);
        int status = 0;
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
        drain(&end->out, &fds[OUT]);
        drain(&end->err, &fds[ERR]);
        end->exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        end->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
        end->ms = now_ms() - t0;
    }
    for (int i = 0; i < N_FDS; i++) vr_closep(&fds[i]);
    return pid > 0;
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
