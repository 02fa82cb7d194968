/* A network on loopback: every byte arrives a set time after it was sent, and at most so many per second.
 *
 *     slow-link TO_PORT ONE_WAY_US MB_PER_S        prints the port that it listens on; 0 MB/s: no limit
 *
 * One process for each connection, asleep until a byte comes or is due (ppoll with a timer slack of a nanosecond): on
 * an idle machine a round trip is right to about 0.05 ms. What is under way is limited, as a real link's is. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CHUNK    (16 << 10)
#define UNDERWAY 1024 /* chunks in one direction */

struct chunk {
    uint64_t due_ns;
    size_t n, at;
    char data[CHUNK];
};

struct way { /* one direction: a ring of chunks */
    int from, to;
    int ended;        /* the sender closed; what is under way still arrives */
    uint64_t line_ns; /* when the line has sent all that it was given */
    size_t first, n;
    struct chunk ring[UNDERWAY];
};

static uint64_t latency_ns;
static double ns_per_byte;

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void take(struct way *w)
{
    while (!w->ended && w->n < UNDERWAY) {
        struct chunk *c = &w->ring[(w->first + w->n) % UNDERWAY];
        ssize_t n = recv(w->from, c->data, CHUNK, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (n <= 0) {
            w->ended = 1;
            return;
        }
        uint64_t now = now_ns(), begin = now > w->line_ns ? now : w->line_ns;
        w->line_ns = begin + (uint64_t)(ns_per_byte * (double)n);
        c->due_ns = w->line_ns + latency_ns;
        c->n = (size_t)n;
        c->at = 0;
        w->n++;
    }
}

/* What is due. False: the receiver is gone, or all has arrived and no more comes. */
static int give(struct way *w)
{
    while (w->n && w->ring[w->first].due_ns <= now_ns()) {
        struct chunk *c = &w->ring[w->first];
        ssize_t n = send(w->to, c->data + c->at, c->n - c->at, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return 1;
        if (n < 0) return 0;
        c->at += (size_t)n;
        if (c->at < c->n) return 1;
        w->first = (w->first + 1) % UNDERWAY;
        w->n--;
    }
    return w->n || !w->ended;
}

/* Asleep until a byte comes, until one is due, or until there is room for one that is. */
static int sleep_until(const struct way *ways)
{
    uint64_t now = now_ns(), least = UINT64_MAX;
    struct pollfd fds[2] = { { ways[0].from, 0, 0 }, { ways[1].from, 0, 0 } };
    for (int i = 0; i < 2; i++) {
        const struct way *w = &ways[i];
        if (w->n < UNDERWAY && !w->ended) fds[i].events |= POLLIN;
        if (!w->n) continue;
        uint64_t due = w->ring[w->first].due_ns;
        if (due <= now)
            fds[1 - i].events |= POLLOUT;
        else if (due - now < least)
            least = due - now;
    }
    struct timespec t = { (time_t)(least / 1000000000u), (long)(least % 1000000000u) };
    return ppoll(fds, 2, least == UINT64_MAX ? NULL : &t, NULL) >= 0 || errno == EINTR;
}

static void carry(int a, int b)
{
    struct way *ways = calloc(2, sizeof *ways);
    if (!ways) return;
    ways[0].from = ways[1].to = a;
    ways[0].to = ways[1].from = b;
    while (sleep_until(ways)) {
        take(&ways[0]);
        take(&ways[1]);
        if (!give(&ways[0]) || !give(&ways[1])) return;
    }
}

static int dial(uint16_t port)
{
    int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_port = htons(port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    if (connect(fd, (struct sockaddr *)&to, sizeof to) != 0) return -1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

int main(int argc, char **argv)
{
    if (argc != 4) return fprintf(stderr, "slow-link TO_PORT ONE_WAY_US MB_PER_S\n"), 2;
    uint16_t port = (uint16_t)atoi(argv[1]);
    latency_ns = (uint64_t)(atof(argv[2]) * 1e3);
    ns_per_byte = atof(argv[3]) > 0 ? 1e3 / atof(argv[3]) : 0;
    signal(SIGCHLD, SIG_IGN);
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0); /* inherited by the processes for connections */
    int on = 1, listening = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t n = sizeof at;
    if (bind(listening, (struct sockaddr *)&at, n) != 0 || listen(listening, 64) != 0) return perror("slow-link"), 1;
    getsockname(listening, (struct sockaddr *)&at, &n);
    printf("port %u\n", ntohs(at.sin_port));
    fflush(stdout);
    for (;;) {
        int fd = accept(listening, NULL, NULL);
        if (fd < 0 || fork() != 0) {
            if (fd >= 0) close(fd);
            continue;
        }
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        int to = dial(port);
        if (to >= 0) carry(fd, to);
        _exit(0);
    }
}
