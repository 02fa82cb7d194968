/* A file over HTTP at as little processor time as there is (sendfile), so that a benchmark of programs that receive is
 * not one of the server beside them: whatever path is asked for, whole or a range of it.
 *
 *     send-file FILE ADDRESS        prints the port that it listens on; until it is killed
 *
 * A thread for each connection, as many requests on it as its peer likes. What is not "Range: bytes=A-B" is the whole
 * file: it serves what `pull` and curl ask for, and nobody else. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static int file;
static uint64_t length;

/* Up to the empty line; false at the end of the connection. */
static int read_head(int fd, char *head, size_t cap)
{
    size_t n = 0;
    while (n + 1 < cap) {
        ssize_t got = recv(fd, head + n, cap - 1 - n, 0);
        if (got <= 0) return 0;
        head[n += (size_t)got] = '\0';
        if (strstr(head, "\r\n\r\n")) return 1;
    }
    return 0;
}

static int send_part(int fd, uint64_t first, uint64_t last, int ranged)
{
    char head[256], range[96] = "";
    if (ranged)
        snprintf(range, sizeof range, "Content-Range: bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64 "\r\n", first, last,
                 length);
    int n = snprintf(head, sizeof head, "HTTP/1.1 %s\r\nContent-Length: %" PRIu64 "\r\nETag: \"v1\"\r\n%s\r\n",
                     ranged ? "206 Partial Content" : "200 OK", last - first + 1, range);
    if (send(fd, head, (size_t)n, MSG_NOSIGNAL | MSG_MORE) != n) return 0;
    for (off_t at = (off_t)first; at <= (off_t)last;)
        if (sendfile(fd, file, &at, (size_t)(last + 1 - (uint64_t)at)) <= 0) return 0;
    return 1;
}

static void *serve(void *ctx)
{
    int fd = (int)(intptr_t)ctx;
    char head[8192];
    while (read_head(fd, head, sizeof head)) {
        uint64_t first = 0, last = length - 1;
        const char *range = strcasestr(head, "\r\nRange: bytes=");
        if (range && sscanf(range + 15, "%" SCNu64 "-%" SCNu64, &first, &last) < 1) break;
        if (last >= length) last = length - 1;
        if (first > last || !send_part(fd, first, last, range != NULL)) break;
    }
    close(fd);
    return NULL;
}

int main(int argc, char **argv)
{
    struct stat st;
    struct sockaddr_in at = { .sin_family = AF_INET };
    socklen_t n = sizeof at;
    int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    file = argc == 3 ? open(argv[1], O_RDONLY) : -1;
    if (file < 0 || fstat(file, &st) != 0 || st.st_size == 0 || inet_pton(AF_INET, argv[2], &at.sin_addr) != 1 ||
        bind(fd, (struct sockaddr *)&at, sizeof at) != 0 || listen(fd, 64) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &n) != 0)
        return fprintf(stderr, "usage: send-file FILE ADDRESS\n"), 2;
    length = (uint64_t)st.st_size;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    signal(SIGPIPE, SIG_IGN);
    printf("%d\n", ntohs(at.sin_port));
    fflush(stdout);
    for (int to; (to = accept(fd, NULL, NULL)) >= 0;) {
        pthread_t thread;
        setsockopt(to, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        if (pthread_create(&thread, NULL, serve, (void *)(intptr_t)to) != 0)
            close(to);
        else
            pthread_detach(thread);
    }
    return 1;
}
