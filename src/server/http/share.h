/* Fair shares of connections and of memory for bodies: when either is full, whoever has the most makes room; and what
 * comes too slowly does not keep its place. */
#ifndef VR_SERVER_HTTP_SHARE_H
#define VR_SERVER_HTTP_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/own.h"

struct vr_client;
struct vr_conn;
struct vr_front;
struct vr_incoming;
struct vr_limits;

/* A place for one more connection of that address: an idle connection of the address with the most is closed. False:
 * the newcomer's address would have as many itself, or none of the other's is idle. */
bool vr_share_place(struct vr_front *f, const struct vr_client *newcomer) VR_MUST_CHECK;

/* Memory for that many more bytes of the connection's client: the client that holds the most loses the slowest body
 * that it sends, or the newest that waits to be read, or its newest request in the queue. False: the one that would
 * hold the most is this client. */
bool vr_share_memory(struct vr_conn *c, uint64_t bytes) VR_MUST_CHECK;

/* A body that stopped coming, or came too slowly in the window that is over; then the next one begins. Pure. */
bool vr_share_crawls(struct vr_incoming *r, const struct vr_limits *limits, uint64_t now_ms) VR_MUST_CHECK;

#endif
