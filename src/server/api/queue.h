/* The queue of a model: requests that wait for its engine, and whose turn it is.
 *
 * The engine is given as many choices as it has slots and a few more, so that the next prompt is prepared while the
 * last one runs; all others wait here, where turns go round between clients (http/turns.h), a request with n choices
 * costing n turns. A client that has nothing at the engine need not wait for those that have much: the engine shares
 * its slots between clients, too. When the queue is full, a newcomer who asks for less than the greediest of
 * those who wait takes the place of that one's newest request; where nobody is greedier, a client that has nothing
 * waiting or running gets a place beyond the limit: a polite client is never turned away because of others. */
#ifndef VR_SERVER_API_QUEUE_H
#define VR_SERVER_API_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/own.h"
#include "server/http/clients.h"
#include "server/http/turns.h"

struct vr_front;
struct vr_served;
struct vr_call;
struct event;

struct vr_queue {
    struct vr_turns turns;
    unsigned running; /* choices that the engine has, as counted by vr_queue_depth() */
    struct event *pump;
};

/* How many choices an engine with that many slots has at once; a request counts for as many as there are slots at the
 * most. Pure. */
unsigned vr_queue_depth(unsigned n_seq);
/* Whose request gives way to one of `cost` choices in the line `newcomer`: the newest of the client with the most
 * waiting and recently used, if the newcomer would still have less. NULL: nobody's. Pure. */
struct vr_turn *vr_queue_displaced(const struct vr_turns *all, const struct vr_client_line *newcomer, size_t cost,
                                   uint64_t now_ms);

bool vr_queue_open(struct vr_served *m) VR_MUST_CHECK;
void vr_queue_close(struct vr_served *m);

/* Is there room for that many more, or can it be made? */
bool vr_queue_admit(struct vr_served *m, const struct vr_client_line *line, size_t n_choices) VR_MUST_CHECK;
/* Ends the newest request of those that a client has waiting for one model. False: it has none. */
bool vr_queue_drop_newest(struct vr_front *f, const struct vr_client *client) VR_MUST_CHECK;
/* At the end of its client's line; it is sent when its turn comes. */
void vr_queue_add(struct vr_call *call);
/* It ends, or so many choices of it did: the engine has room, or a place is free. */
void vr_queue_leave(struct vr_call *call);
void vr_queue_ended(struct vr_call *call, unsigned n_choices);
/* The engine may take more than before. */
void vr_queue_kick(struct vr_served *m);

#endif
