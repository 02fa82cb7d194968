#include "tunnel/pump.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"

#define BEATS 6 /* that may get lost before the peer is taken for gone */

struct flow { /* bytes on their way, in a buffer that is emptied before it is filled again */
    struct vr_buf b;
    size_t at;
};

struct pump {
    struct vr_secure *s;
    int fd;
    struct flow out, in;  /* to the peer; to the local socket */
    struct vr_buf parsed; /* what came from the peer and is not a whole packet yet */
    uint64_t heard_ms, beat_ms;
    _Atomic uint64_t *sent;
    char block[VR_PACKET_BYTES];
};

static bool empty(const struct flow *f) { return f->at == f->b.n; }

static void moved(struct flow *f, size_t n)
{
    f->at += n;
    if (!empty(f)) return;
    vr_buf_clear(&f->b);
    f->at = 0;
}

/* Packets of what was parsed, until one waits for the local socket. False: the connection is over, and why. */
static bool take_packets(struct pump *p, enum vr_pump_end *why)
{
    size_t at = 0;
    struct vr_packet k;
    long len = 0;
    while (empty(&p->in) &&
           (len = vr_packet_parse((const uint8_t *)vr_buf_str(&p->parsed) + at, p->parsed.n - at, &k)) > 0) {
        if (k.kind == VR_PACKET_DATA)
            vr_buf_add(&p->in.b, k.data, k.n);
        else if (k.kind != VR_PACKET_BEAT)
            return *why = VR_PUMP_BROKEN, false;
        at += (size_t)len;
    }
    if (at) {
        memmove(p->parsed.data, p->parsed.data + at, p->parsed.n - at);
        p->parsed.n -= at;
    }
    if (p->in.b.failed || p->parsed.failed) return *why = VR_PUMP_NOMEM, false;
    if (len < 0) *why = VR_PUMP_BROKEN;
    return len >= 0;
}

static bool from_peer(struct pump *p, enum vr_pump_end *why)
{
    long n = vr_secure_read(p->s, p->block, sizeof p->block);
    if (n < 0) return *why = VR_PUMP_PEER, false;
    if (n == 0) return true;
    p->heard_ms = vr_now_ms();
    vr_buf_add(&p->parsed, p->block, (size_t)n);
    return take_packets(p, why);
}

static bool to_local(struct pump *p, enum vr_pump_end *why)
{
    ssize_t n = send(p->fd, p->in.b.data + p->in.at, p->in.b.n - p->in.at, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (n < 0) return *why = VR_PUMP_LOCAL, false;
    moved(&p->in, (size_t)n);
    return !empty(&p->in) || take_packets(p, why);
}

static bool from_local(struct pump *p, enum vr_pump_end *why)
{
    ssize_t n = recv(p->fd, p->block, sizeof p->block, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (n <= 0) return *why = VR_PUMP_LOCAL, false;
    if (p->sent) atomic_fetch_add(p->sent, (uint64_t)n);
    vr_packet_add(&p->out.b, VR_PACKET_DATA, p->block, (size_t)n);
    return !p->out.b.failed || (*why = VR_PUMP_NOMEM, false);
}

static bool to_peer(struct pump *p, enum vr_pump_end *why)
{
    long n = vr_secure_write(p->s, p->out.b.data + p->out.at, p->out.b.n - p->out.at);
    if (n < 0) return *why = VR_PUMP_PEER, false;
    moved(&p->out, (size_t)n);
    return true;
}

/* "Still there", in time; and is the peer? Who does not read cannot hear. */
static bool watch(struct pump *p, uint64_t now, uint64_t silent_ms, enum vr_pump_end *why)
{
    if (!empty(&p->in)) p->heard_ms = now;
    if (now - p->heard_ms >= silent_ms) return *why = VR_PUMP_SILENT, false;
    if (empty(&p->out) && now - p->beat_ms >= silent_ms / BEATS) {
        vr_packet_add(&p->out.b, VR_PACKET_BEAT, NULL, 0);
        p->beat_ms = now;
    }
    return true;
}

static bool turn(struct pump *p, uint64_t silent_ms, enum vr_pump_end *why)
{
    short peer = (short)((empty(&p->in) ? POLLIN : 0) | (empty(&p->out) ? 0 : POLLOUT));
    short local = (short)((empty(&p->out) ? POLLIN : 0) | (empty(&p->in) ? 0 : POLLOUT));
    /* of neither nothing is heard while nothing is wanted: a connection that is over would be told again and again */
    struct pollfd fds[2] = { { peer ? vr_secure_fd(p->s) : -1, peer, 0 }, { local ? p->fd : -1, local, 0 } };
    bool ready = empty(&p->in) && vr_secure_pending(p->s);
    if (poll(fds, 2, ready ? 0 : (int)(silent_ms / BEATS)) < 0 && errno != EINTR) return *why = VR_PUMP_NOMEM, false;
    if (!empty(&p->in) && fds[1].revents && !to_local(p, why)) return false;
    if (!empty(&p->out) && (fds[0].revents & ~POLLIN) && !to_peer(p, why)) return false;
    if (empty(&p->in) && (ready || fds[0].revents & ~POLLOUT) && !from_peer(p, why)) return false;
    if (!empty(&p->in) && !to_local(p, why)) return false; /* most often there is room */
    if (empty(&p->out) && fds[1].revents & ~POLLOUT && !from_local(p, why)) return false;
    if (!watch(p, vr_now_ms(), silent_ms, why)) return false;
    return empty(&p->out) || to_peer(p, why);
}

enum vr_pump_end vr_pump_run(struct vr_secure *s, int fd, int silent_ms, _Atomic uint64_t *sent)
{
    enum vr_pump_end why = VR_PUMP_NOMEM;
    struct pump *p = calloc(1, sizeof *p);
    if (!p) return why;
    p->s = s;
    p->fd = fd;
    p->sent = sent;
    p->heard_ms = p->beat_ms = vr_now_ms();
    const struct vr_buf *rest = vr_secure_rest(s);
    if (rest->n) vr_buf_add(&p->parsed, rest->data, rest->n);
    bool ok = !p->parsed.failed && take_packets(p, &why);
    while (ok) ok = turn(p, (uint64_t)silent_ms, &why);
    vr_buf_done(&p->out.b);
    vr_buf_done(&p->in.b);
    vr_buf_done(&p->parsed);
    free(p);
    return why;
}
