/* A tunnel to a node that lends devices: a process of its own that has the key and the connection, so that who computes
 * over it has neither. It ends with the process that started it, or with the connection. */
#ifndef VR_TUNNEL_TUNNEL_H
#define VR_TUNNEL_TUNNEL_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "tunnel/hello.h"

struct vr_tunnel {
    int fd;     /* RPC is spoken here; closed when the tunnel ends */
    int why_fd; /* a sentence comes here when it does */
    pid_t pid;
    _Atomic uint64_t *sent; /* bytes that went to the node, counted there; stays when the tunnel ends */
};

/* Forks, before there are threads; comes back when the devices are lent. A node that is silent for silent_s seconds is
 * gone. */
bool vr_tunnel_open(const struct vr_pair *node, const struct vr_hello *hello, unsigned silent_s, struct vr_tunnel *out,
                    struct vr_err *err) VR_MUST_CHECK;
/* Why it ended, if it did and said so; "" otherwise. */
void vr_tunnel_why(const struct vr_tunnel *t, char *out, size_t n);

#endif
