#include "tunnel/packet.h"

#include <assert.h>

/* -1: no such kind */
static long most_of(uint8_t kind)
{
    switch (kind) {
#define PACKET(name, number, most, ...)                                                                                \
    case number:                                                                                                       \
        return (long)(most);
#include "tunnel/packet.def"
#undef PACKET
    default: return -1;
    }
}

long vr_packet_parse(const uint8_t *bytes, size_t n, struct vr_packet *out)
{
    if (n == 0) return 0;
    long most = most_of(bytes[0]);
    if (most < 0) return -1;
    if (n < VR_PACKET_HEAD) return 0;
    size_t length = (size_t)bytes[1] << 16 | (size_t)bytes[2] << 8 | bytes[3];
    if (length > (size_t)most) return -1;
    if (n - VR_PACKET_HEAD < length) return 0;
    *out = (struct vr_packet){ (enum vr_packet_kind)bytes[0], bytes + VR_PACKET_HEAD, length };
    return (long)(VR_PACKET_HEAD + length);
}

void vr_packet_add(struct vr_buf *b, enum vr_packet_kind kind, const void *data, size_t n)
{
    assert((long)n <= most_of((uint8_t)kind));
    const uint8_t head[VR_PACKET_HEAD] = { (uint8_t)kind, (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n };
    vr_buf_add(b, head, sizeof head);
    if (n) vr_buf_add(b, data, n);
}
