/* One connection in TLS 1.3 between two machines that know each other's keys. Both show a certificate; who shows a key
 * that is not known gets no byte of ours. Nothing blocks but opening and the two helpers at the end, each up to a
 * deadline. */
#ifndef VR_TUNNEL_SECURE_H
#define VR_TUNNEL_SECURE_H

#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "tunnel/identity.h"
#include "tunnel/packet.h"

struct vr_secure;

struct vr_secure_ask {
    const struct vr_identity *self;
    bool server; /* we were called */
    bool (*known)(void *ctx, const char *fingerprint);
    void *ctx;
    const char *peer; /* for messages */
    int timeout_ms;
};

/* Takes the socket over, also when it fails. */
struct vr_secure *vr_secure_open(int fd, const struct vr_secure_ask *ask, struct vr_err *err) VR_MUST_CHECK;
void vr_secure_free(struct vr_secure *s); /* closes */
VR_DEFINE_AUTO(vr_secure);

int vr_secure_fd(const struct vr_secure *s);
const char *vr_secure_peer(const struct vr_secure *s); /* its fingerprint */
/* Bytes that were read from the socket and not yet taken: poll(2) does not see them. */
bool vr_secure_pending(const struct vr_secure *s);

/* Bytes done; 0: none now; -1: the connection is over. */
long vr_secure_read(struct vr_secure *s, void *out, size_t n);
long vr_secure_write(struct vr_secure *s, const void *data, size_t n);

/* All of it, within timeout_ms. */
bool vr_secure_send(struct vr_secure *s, const struct vr_buf *b, int timeout_ms, struct vr_err *err) VR_MUST_CHECK;
/* The next packet, within timeout_ms; its payload stays until the next call. What came behind it is kept. */
bool vr_secure_next(struct vr_secure *s, struct vr_packet *out, int timeout_ms, struct vr_err *err) VR_MUST_CHECK;
/* What vr_secure_next() has read and not told. */
const struct vr_buf *vr_secure_rest(struct vr_secure *s);

#endif
