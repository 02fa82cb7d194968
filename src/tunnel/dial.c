#include "tunnel/dial.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"

#define CONNECT_MS  5000 /* its kernel answers, however busy it is */
#define ROUND_TRIPS 8
#define ECHOES      16 /* packets of VR_PACKET_BYTES: a megabyte */

/* --- reaching it --- */

static bool connected(int fd, uint64_t until_ms)
{
    int error = 0;
    socklen_t n = sizeof error;
    uint64_t now = vr_now_ms();
    struct pollfd p = { fd, POLLOUT, 0 };
    if (poll(&p, 1, now < until_ms ? (int)(until_ms - now) : 0) <= 0) return errno = ETIMEDOUT, false;
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n);
    return error == 0 || (errno = error, false);
}

static int connect_to(const struct vr_pair *node, struct vr_err *err)
{
    struct addrinfo *list, want = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV };
    char port[8];
    snprintf(port, sizeof port, "%u", node->port);
    int error = getaddrinfo(node->host, port, &want, &list), why = 0, fd = -1;
    if (error) return vr_fail(err, VR_EIO, "node %s: %s: %s", node->name, node->host, gai_strerror(error)), -1;
    for (struct addrinfo *a = list; a && fd < 0; a = a->ai_next) {
        uint64_t until = vr_now_ms() + CONNECT_MS; /* one that answers nothing takes none of the next one's time */
        fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd >= 0 && (connect(fd, a->ai_addr, a->ai_addrlen) == 0 || (errno == EINPROGRESS && connected(fd, until))))
            break;
        why = errno;
        if (fd >= 0) close(fd);
        fd = -1;
    }
    freeaddrinfo(list);
    if (fd < 0)
        vr_fail(err, VR_EIO, "node %s: %s port %u: %s", node->name, node->host, node->port,
                why == ECONNREFUSED ? "nothing listens there; is 'vram-llm node' running?" : strerror(why));
    return fd;
}

static bool is_node(void *ctx, const char *fingerprint) { return strcmp(ctx, fingerprint) == 0; }

static bool hear(struct vr_secure *s, const struct vr_pair *node, int timeout_ms, struct vr_welcome *out,
                 struct vr_err *err)
{
    struct vr_packet p;
    if (!vr_secure_next(s, &p, timeout_ms, err)) return false;
    if (p.kind == VR_PACKET_REFUSAL)
        return vr_fail(err, VR_EDEVICE, "node %s refused: %.*s", node->name, (int)p.n, (const char *)p.data);
    if (p.kind == VR_PACKET_WELCOME && vr_welcome_read(p.data, p.n, out)) return true;
    return vr_fail(err, VR_EFORMAT, "node %s did not answer as 'vram-llm node' does", node->name);
}

struct vr_secure *vr_dial(const struct vr_pair *node, const struct vr_identity *self, const struct vr_hello *hello,
                          struct vr_welcome *out, struct vr_err *err)
{
    char who[VR_NODE_NAME + 8];
    VR_AUTO_BUF text = { 0 }, packet = { 0 };
    int ms = hello->want == VR_WANT_LEND ? 2 * VR_DIAL_MS : VR_DIAL_MS; /* drivers are loaded for that */
    *out = (struct vr_welcome){ 0 };
    snprintf(who, sizeof who, "node %s", node->name);
    int fd = connect_to(node, err);
    if (fd < 0) return NULL;
    const struct vr_secure_ask ask = { .self = self,
                                       .known = is_node,
                                       .ctx = (void *)(uintptr_t)node->fingerprint,
                                       .peer = who,
                                       .timeout_ms = VR_DIAL_MS };
    VR_AUTO(vr_secure) s = vr_secure_open(fd, &ask, err);
    if (!s) return NULL;
    if (!vr_hello_write(hello, &text)) return VR_FAIL_NULL(err, VR_ENOMEM, "out of memory while calling a node");
    vr_packet_add(&packet, VR_PACKET_HELLO, text.data, text.n);
    if (!vr_secure_send(s, &packet, VR_DIAL_MS, err) || !hear(s, node, ms, out, err)) return NULL;
    if (vr_versions_match(&hello->versions, hello->name, &out->versions, node->name, err)) return VR_TAKE(s);
    vr_welcome_done(out);
    return NULL;
}

/* --- measuring --- */

/* `times` packets of n bytes there and back; both ways at once, so that neither side waits for the other to read. */
static bool echo(struct vr_secure *s, size_t n, size_t times, double *us, struct vr_err *err)
{
    static const char zeros[VR_PACKET_BYTES];
    static char block[16 << 10];
    VR_AUTO_BUF b = { 0 };
    for (size_t i = 0; i < times; i++) vr_packet_add(&b, VR_PACKET_ECHO, zeros, n);
    if (b.failed) return vr_fail_nomem(err, "measuring a link");
    double t0 = vr_now_fine_us();
    for (size_t sent = 0, came = 0; came < b.n;) {
        struct pollfd p = { vr_secure_fd(s), (short)(POLLIN | (sent < b.n ? POLLOUT : 0)), 0 };
        long out = sent < b.n ? vr_secure_write(s, b.data + sent, b.n - sent) : 0;
        long in = out < 0 ? -1 : vr_secure_read(s, block, sizeof block);
        if (in < 0) return vr_fail(err, VR_EIO, "the node closed the connection while the link was measured");
        sent += (size_t)out;
        came += (size_t)in;
        if (!out && !in && poll(&p, 1, VR_DIAL_MS) <= 0)
            return vr_fail(err, VR_EIO, "the node did not answer while the link was measured");
    }
    *us = vr_now_fine_us() - t0;
    return true;
}

bool vr_dial_measure(struct vr_secure *s, struct vr_link_speed *out, struct vr_err *err)
{
    double us, best = 0;
    for (int i = 0; i < ROUND_TRIPS; i++) {
        if (!echo(s, 1, 1, &us, err)) return false;
        best = i == 0 || us < best ? us : best;
    }
    if (!echo(s, VR_PACKET_BYTES, ECHOES, &us, err)) return false;
    double sending = us - best > 1 ? us - best : 1;
    *out = (struct vr_link_speed){ .rtt_us = best, .gbs = (double)(VR_PACKET_BYTES * ECHOES) / sending / 1e3 };
    return true;
}
