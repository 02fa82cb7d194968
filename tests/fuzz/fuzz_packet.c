/* What comes through a tunnel: read as a whole and byte by byte it is the same, no payload reaches past its packet, and
 * what is read of a HELLO or a WELCOME can be written and read again. The list of pairs and tokens are read, too. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tunnel/hello.h"
#include "tunnel/packet.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void must(bool truth)
{
    if (!truth) abort();
}

static void read_hello(const struct vr_packet *p)
{
    struct vr_hello a, b;
    VR_AUTO_BUF text = { 0 };
    if (!vr_hello_read(p->data, p->n, &a)) return;
    must(a.want < VR_N_WANTS && a.n_devices <= VR_MAX_LENT && a.name[0]);
    must(vr_hello_write(&a, &text) && vr_hello_read(text.data, text.n, &b));
    must(memcmp(&a, &b, sizeof a) == 0);
}

static void read_welcome(const struct vr_packet *p)
{
    VR_AUTO_WELCOME a = { 0 }, b = { 0 };
    VR_AUTO_BUF text = { 0 };
    if (!vr_welcome_read(p->data, p->n, &a)) return;
    must(vr_welcome_write(&a, &text) && vr_welcome_read(text.data, text.n, &b));
    must(strcmp(a.name, b.name) == 0 && strcmp(a.owner, b.owner) == 0);
    must(strcmp(vr_buf_str(&a.machine), vr_buf_str(&b.machine)) == 0);
}

/* A packet is there with its last byte and not before; what is no packet is known with the first four. */
static void read_slowly(const uint8_t *data, size_t n, long whole)
{
    struct vr_packet p;
    size_t most = n < 64 ? n : 64;
    for (size_t k = 0; k < most; k++) {
        long len = vr_packet_parse(data, k, &p);
        must(whole > 0 ? (k < (size_t)whole ? len == 0 : len == whole) : len == 0 || len == whole);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct vr_packet p;
    VR_AUTO_BUF again = { 0 };
    for (size_t at = 0; at < n;) {
        long len = vr_packet_parse(data + at, n - at, &p);
        read_slowly(data + at, n - at, len);
        if (len <= 0) break;
        must((size_t)len == VR_PACKET_HEAD + p.n && p.data == data + at + VR_PACKET_HEAD);
        vr_buf_clear(&again);
        vr_packet_add(&again, p.kind, p.data, p.n);
        must(again.n == (size_t)len && memcmp(again.data, data + at, again.n) == 0);
        if (p.kind == VR_PACKET_HELLO) read_hello(&p);
        if (p.kind == VR_PACKET_WELCOME) read_welcome(&p);
        at += (size_t)len;
    }
    struct vr_pairs *pairs = malloc(sizeof *pairs);
    struct vr_err err = { 0 };
    if (pairs && !vr_pairs_parse("pairs.json", (const char *)data, n, pairs, &err)) must(err.code != VR_OK);
    free(pairs);
    char text[256], host[VR_HOST_NAME], fingerprint[VR_FINGERPRINT], secret[VR_SECRET];
    uint16_t port;
    snprintf(text, sizeof text, "%.*s", (int)(n < 255 ? n : 255), (const char *)data);
    if (vr_join_read(text, fingerprint, secret, &err)) must(vr_fingerprint_is(fingerprint));
    if (vr_node_address(text, 1, host, &port, &err)) must(host[0]);
    return 0;
}
