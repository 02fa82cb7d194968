/* The tunnel itself: bytes of a local socket become DATA packets of a secure connection, and back, until one of both
 * ends. Each side says every few seconds that it is still there, whatever else it is doing; a peer that is silent for
 * long is gone: frozen, unplugged, or behind a cut link. */
#ifndef VR_TUNNEL_PUMP_H
#define VR_TUNNEL_PUMP_H

#include <stdatomic.h>
#include <stdint.h>

#include "tunnel/secure.h"

enum vr_pump_end {
    VR_PUMP_LOCAL,  /* the local socket was closed */
    VR_PUMP_PEER,   /* the peer closed the connection */
    VR_PUMP_SILENT, /* nothing came from it for silent_ms */
    VR_PUMP_BROKEN, /* it sent what is no packet, or one that has no place here */
    VR_PUMP_NOMEM,
};

/* `sent` counts the bytes that the local socket gave; NULL: nobody wants to know. */
enum vr_pump_end vr_pump_run(struct vr_secure *s, int fd, int silent_ms, _Atomic uint64_t *sent);

#endif
