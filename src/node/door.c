#include "node/door.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include "base/log.h"

#define MAX_VISITS 32 /* at once; more are closed unheard … */
#define MAX_OF_ONE 16 /* … and more from one sender: a stranger does not keep the others out */
#define PAUSE_NS   500000000

int vr_door_open(const char *host, uint16_t *port, struct vr_err *err)
{
    struct addrinfo *list, want = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV };
    char number[8];
    snprintf(number, sizeof number, "%u", *port);
    int error = getaddrinfo(host, number, &want, &list), on = 1, fd = -1;
    if (error) return vr_fail(err, VR_EUSAGE, "--listen: %s: %s", host, gai_strerror(error)), -1;
    fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    bool ok = fd >= 0 && bind(fd, list->ai_addr, list->ai_addrlen) == 0 && listen(fd, 64) == 0;
    if (!ok) vr_fail(err, VR_EIO, "cannot listen on %s port %u: %s", host, *port, strerror(errno));
    freeaddrinfo(list);
    struct sockaddr_storage at;
    socklen_t n = sizeof at;
    if (ok && getsockname(fd, (struct sockaddr *)&at, &n) == 0)
        *port = ntohs(at.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&at)->sin6_port
                                               : ((struct sockaddr_in *)&at)->sin_port);
    if (ok || fd < 0) return fd;
    close(fd);
    return -1;
}

static volatile sig_atomic_t stopping;
static void on_stop(int signal) { (void)signal, stopping = 1; }

/* An address, or what one machine has of IPv6: the 2^64 that begin alike. */
struct sender {
    unsigned char bytes[16];
};

static struct sender sender_of(const struct sockaddr_storage *from)
{
    struct sender s = { { 0 } };
    const struct in6_addr *v6 = &((const struct sockaddr_in6 *)from)->sin6_addr;
    if (from->ss_family == AF_INET)
        memcpy(s.bytes, &((const struct sockaddr_in *)from)->sin_addr, sizeof(struct in_addr));
    else if (from->ss_family == AF_INET6)
        memcpy(s.bytes, v6, IN6_IS_ADDR_V4MAPPED(v6) ? sizeof *v6 : sizeof *v6 / 2);
    return s;
}

struct visits {
    struct {
        pid_t pid;
        struct sender sender;
    } at[MAX_VISITS];
    size_t n;
};

static bool is_welcome(const struct visits *v, const struct sender *s)
{
    size_t same = 0;
    for (size_t i = 0; i < v->n; i++) same += memcmp(&v->at[i].sender, s, sizeof *s) == 0;
    return v->n < MAX_VISITS && same < MAX_OF_ONE;
}

static void reap(struct visits *v)
{
    for (pid_t pid; v->n && (pid = waitpid(-1, NULL, WNOHANG)) > 0;)
        for (size_t i = 0; i < v->n; i++)
            if (v->at[i].pid == pid) v->at[i] = v->at[--v->n];
}

/* SIGINT and SIGTERM come while it waits and at no other time: one that came just before would wake nobody. */
static void block_stop(int how)
{
    sigset_t both;
    sigemptyset(&both);
    sigaddset(&both, SIGINT);
    sigaddset(&both, SIGTERM);
    sigprocmask(how, &both, NULL);
}

/* In the child. */
static int receive(const struct vr_node *n, struct vr_owner *owner, int fd, const char *address)
{
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    block_stop(SIG_UNBLOCK);
    return vr_node_visit(n, owner, fd, address);
}

static bool accept_one(const struct vr_node *n, struct vr_owner *owner, int listening, struct visits *v)
{
    struct sockaddr_storage from;
    socklen_t len = sizeof from;
    char address[64] = "?";
    int fd = accept4(listening, (struct sockaddr *)&from, &len, SOCK_CLOEXEC);
    if (fd < 0) return false;
    getnameinfo((const struct sockaddr *)&from, len, address, sizeof address, NULL, 0, NI_NUMERICHOST);
    struct sender sender = sender_of(&from);
    bool welcome = is_welcome(v, &sender);
    pid_t parent = getpid(), pid = welcome ? fork() : -1;
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(listening);
        _exit(getppid() == parent ? receive(n, owner, fd, address) : 1);
    }
    if (welcome && pid < 0) vr_log(VR_WARN, "%s cannot be answered: %s", address, strerror(errno));
    close(fd);
    if (pid < 0) return true;
    v->at[v->n].pid = pid;
    v->at[v->n++].sender = sender;
    return true;
}

bool vr_door_run(const struct vr_node *n, int fd, struct vr_err *err)
{
    struct vr_owner *owner = vr_owner_new(err);
    struct sigaction stop = { .sa_handler = on_stop };
    struct visits visits = { .n = 0 };
    if (!owner) return false;
    sigset_t open;
    sigprocmask(SIG_SETMASK, NULL, &open);
    block_stop(SIG_BLOCK);
    sigaction(SIGINT, &stop, NULL);
    sigaction(SIGTERM, &stop, NULL);
    while (!stopping) {
        struct pollfd p = { fd, POLLIN, 0 };
        const struct timespec soon = { .tv_nsec = PAUSE_NS };
        if (ppoll(&p, 1, visits.n ? &soon : NULL, &open) < 0 && errno != EINTR)
            return vr_fail(err, VR_EIO, "listening failed: %s", strerror(errno));
        reap(&visits);
        if (!p.revents || accept_one(n, owner, fd, &visits) || errno == EAGAIN || errno == EINTR) continue;
        vr_log(VR_WARN, "a connection could not be accepted: %s", strerror(errno));
        nanosleep(&soon, NULL); /* it waits there still: poll() would not */
    }
    return true;
}
