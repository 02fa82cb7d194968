#include "engine/prepare/zygote.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/llama/confinement.h"
#include "engine/prepare/worker.h"

struct zygote {
    int control, children; /* the second: readable when one has ended */
    const struct vr_zygote_setup *setup;
    struct vr_preparer preparer;
    pid_t pids[VR_MOST_WORKERS]; /* 0: none */
};

static bool tell(const struct zygote *z, const struct vr_zygote_news *news, int fd)
{
    char room[CMSG_SPACE(sizeof fd)] = { 0 };
    struct iovec v = { (void *)(uintptr_t)news, sizeof *news };
    struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
    if (fd >= 0) {
        m.msg_control = room;
        m.msg_controllen = sizeof room;
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(c), &fd, sizeof fd);
    }
    return sendmsg(z->control, &m, MSG_NOSIGNAL) == sizeof *news;
}

/* --- workers --- */

/* In the child, which may do no more than the zygote. */
static int become_worker(const struct zygote *z, int fd, const struct vr_zygote_order *order)
{
    const struct vr_prepare_setup setup = { .preparer = &z->preparer,
                                            .chat_template = z->setup->chat_template,
                                            .chats = order->chats,
                                            .stage = &z->setup->stages[order->slot] };
    sigset_t none;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(z->control);
    close(z->children);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    return vr_prepare_worker(fd, &setup);
}

static bool fork_worker(struct zygote *z, const struct vr_zygote_order *order)
{
    struct vr_zygote_news news = { .what = VR_NEWS_NOT_BORN, .slot = order->slot };
    int pair[2];
    if (z->pids[order->slot]) return true; /* it lives */
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) return tell(z, &news, -1);
    pid_t zygote = getpid(), pid = fork();
    if (pid == 0) {
        close(pair[0]);
        _exit(getppid() == zygote ? become_worker(z, pair[1], order) : 1);
    }
    close(pair[1]);
    if (pid > 0) {
        z->pids[order->slot] = pid;
        news.what = VR_NEWS_BORN;
    }
    bool ok = tell(z, &news, pid > 0 ? pair[0] : -1);
    close(pair[0]);
    return ok;
}

static bool obey(struct zygote *z)
{
    struct vr_zygote_order order;
    ssize_t n = recv(z->control, &order, sizeof order, 0);
    if (n < 0 && errno == EINTR) return true;
    if (n != sizeof order || order.slot >= VR_MOST_WORKERS) return false;
    if (order.what == VR_ORDER_FORK) return fork_worker(z, &order);
    if (z->pids[order.slot]) kill(z->pids[order.slot], SIGKILL);
    return true;
}

static bool reap(struct zygote *z)
{
    struct signalfd_siginfo ignored;
    struct vr_zygote_news news = { .what = VR_NEWS_DIED };
    pid_t pid;
    if (read(z->children, &ignored, sizeof ignored) < 0) return true;
    while ((pid = waitpid(-1, &news.status, WNOHANG)) > 0)
        for (uint32_t i = 0; i < VR_MOST_WORKERS; i++) {
            if (z->pids[i] != pid) continue;
            z->pids[i] = 0;
            news.slot = i;
            if (!tell(z, &news, -1)) return false;
        }
    return true;
}

/* --- the process --- */

static bool load(struct zygote *z)
{
    struct vr_zygote_news news = { .what = VR_NEWS_LOADED };
    struct vr_err err = { 0 };
    if (!vr_preparer_open(&z->preparer, z->setup->model, z->setup->chat_template, &err)) {
        news.what = VR_NEWS_NOT_LOADED;
        snprintf(news.why, sizeof news.why, "%.399s", err.msg);
    }
    return tell(z, &news, -1) && news.what == VR_NEWS_LOADED;
}

int vr_zygote_run(int control, const struct vr_zygote_setup *setup)
{
    struct zygote z = { .control = control, .setup = setup };
    sigset_t children;
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    sigprocmask(SIG_BLOCK, &children, NULL);
    z.children = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
    vr_engine_confine(&(struct vr_engine_needs){ .files = { setup->model }, .prepares = true }, NULL);
    if (z.children < 0 || !load(&z)) return 1;
    vr_confine_settle(); /* the file is read */
    for (;;) {
        struct pollfd p[2] = { { control, POLLIN, 0 }, { z.children, POLLIN, 0 } };
        if (poll(p, 2, -1) < 0 && errno != EINTR) return 1;
        if (p[1].revents && !reap(&z)) return 0;
        if (p[0].revents && !obey(&z)) return 0; /* the engine process is gone; workers go with this one */
    }
}
