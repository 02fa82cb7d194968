/* What goes through the tunnel, inside TLS: packets of a kind and a length,
 *
 *     kind (1 byte) | length (3 bytes, the highest first) | payload
 *
 * and nothing else. A kind that nobody knows, or a payload that is longer than its kind allows, is the end of the
 * connection. The bytes come from a peer that has shown its key; they are read as if it had not. */
#ifndef VR_TUNNEL_PACKET_H
#define VR_TUNNEL_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define VR_PACKET_HEAD  ((size_t)4)
#define VR_PACKET_BYTES ((size_t)64 << 10) /* most bytes of DATA and ECHO */

enum vr_packet_kind {
#define PACKET(name, number, ...) VR_PACKET_##name = number,
#include "tunnel/packet.def"
#undef PACKET
};

struct vr_packet {
    enum vr_packet_kind kind;
    const uint8_t *data; /* points into what was parsed */
    size_t n;
};

/* What n bytes begin with: the length of a whole packet, which is told in *out; 0: more must come; -1: no packet. */
long vr_packet_parse(const uint8_t *bytes, size_t n, struct vr_packet *out);

/* Appends one. The payload must not be longer than its kind allows. */
void vr_packet_add(struct vr_buf *b, enum vr_packet_kind kind, const void *data, size_t n);

#endif
