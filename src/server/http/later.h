/* What waits for the next turn of the loop: TLS handshakes, and requests that came behind others of their connection.
 *
 * A handshake costs the server half a millisecond and more, its client next to nothing: 800 that are begun at the same
 * moment would keep everybody else waiting for 0.4 s. So a connection waits until its first bytes are here, then in the
 * line of its address (turns.h); a few have their turn each time the loop has looked after all others. Pipelined
 * requests do the same: libevent's deferred callbacks come in the same turn of the loop, up to 32 of them. */
#ifndef VR_SERVER_HTTP_LATER_H
#define VR_SERVER_HTTP_LATER_H

#include <stdbool.h>

#include "base/err.h"
#include "server/http/turns.h"

struct event;
struct vr_conn;
struct vr_front;
struct vr_handshake;

struct vr_later {
    struct vr_turns handshakes, pipelined;
    struct event *pump;
};

bool vr_later_open(struct vr_front *f, struct vr_err *err) VR_MUST_CHECK;
void vr_later_close(struct vr_front *f);

/* Waits for the first bytes, and then for its turn: vr_conn_shake(). NULL: no memory. */
struct vr_handshake *vr_handshake_new(struct vr_conn *c) VR_MUST_CHECK;
void vr_handshake_free(struct vr_handshake *h); /* accepts NULL */

/* It has more to do, and goes on when it is its turn: vr_conn_go_on(). Once is enough until then. */
void vr_later_go_on(struct vr_conn *c);
/* It ends. */
void vr_later_forget(struct vr_conn *c);

#endif
