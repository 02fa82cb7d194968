/* The client's side: calling a node, and what it answers. */
#ifndef VR_TUNNEL_DIAL_H
#define VR_TUNNEL_DIAL_H

#include "tunnel/hello.h"
#include "tunnel/secure.h"

#define VR_DIAL_MS 20000 /* to answer, on a machine that is busy, too; a node that needs longer is not there */

/* Calls it and says HELLO. NULL: it cannot be reached, is not who it was, or refused, and why. The caller frees both.
 */
struct vr_secure *vr_dial(const struct vr_pair *node, const struct vr_identity *self, const struct vr_hello *hello,
                          struct vr_welcome *out, struct vr_err *err) VR_MUST_CHECK;

/* The link, measured after a welcome to look: the best of some round trips, and a few hundred kilobytes there and back;
 * bytes one way per second, 10^9. */
struct vr_link_speed {
    double rtt_us, gbs;
};
bool vr_dial_measure(struct vr_secure *s, struct vr_link_speed *out, struct vr_err *err) VR_MUST_CHECK;

#endif
