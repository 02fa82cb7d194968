/* Readers: threads that read large bodies (body.h), so that the loop never does.
 *
 * Eleven megabytes of JSON take a second to parse and check, during which a loop that did it would answer nobody. A
 * thread gets one body at a time and nothing else: it touches no connection, no client and no clock. Which body is next
 * the loop decides, round-robin between clients by bytes (http/turns.h), and it hears of the end through a descriptor.
 * Who leaves meanwhile cancels; the body stays with its thread until that is done with it. */
#ifndef VR_SERVER_API_READER_H
#define VR_SERVER_API_READER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "server/api/body.h"

struct event_base;
struct vr_client;
struct vr_clients;
struct vr_readers;
struct vr_body_reading;

/* `out` belongs to whoever is called, its text, too. The reading itself is gone already. */
typedef void vr_read_done(void *ctx, struct vr_body *out);

struct vr_read_ask {
    struct vr_client *client; /* who holds the body's bytes (vr_client_hold) until it is read */
    struct vr_asker asker;
    vr_read_done *done;
    void *ctx;
};

struct vr_readers *vr_readers_new(struct event_base *base, struct vr_clients *clients);
/* Waits for bodies that are being read; no callback is called. Accepts NULL. */
void vr_readers_free(struct vr_readers *r);

/* Takes the body over, which is empty then. NULL: no memory or thread; the body is as it was. */
struct vr_body_reading *vr_read_start(struct vr_readers *r, struct vr_buf *body,
                                      const struct vr_read_ask *ask) VR_MUST_CHECK;
void vr_read_cancel(struct vr_body_reading *j);
/* `ctx` of the newest that a client has waiting for a thread; NULL: it has none. */
void *vr_read_newest(const struct vr_client *client);

#endif
