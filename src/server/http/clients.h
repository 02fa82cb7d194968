/* Clients: whom a connection, a body or a place in the queue counts for.
 *
 * A client is an API key where keys are set and the request has a valid one, else the address it comes from; of an
 * IPv6 address the first 64 bits, since whoever has one has all of the rest. Connections always count for their
 * address: the key is known only later. Behind a proxy without keys everybody is one client.
 *
 * An entry lives while something refers to it, and after that until its recent use is forgotten, so that coming back
 * is no way around a share. The table is bounded; an entry that nothing refers to makes room. No clock of its own. */
#ifndef VR_SERVER_HTTP_CLIENTS_H
#define VR_SERVER_HTTP_CLIENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/own.h"
#include "server/http/turns.h"

struct sockaddr;
struct vr_client;

#define VR_CLIENT_BUCKETS 4096

/* What a client has at one model's engine, and waiting for it: each model has a queue of its own (api/queue.h). */
struct vr_client_line {
    struct vr_line line; /* a turn costs a choice */
    struct vr_client *client;
    const void *of;     /* the model */
    unsigned n_running; /* choices that the engine has */
    struct vr_client_line *next;
};

struct vr_client {
    struct vr_client *next; /* in its bucket */
    uint8_t id[9];          /* a letter for what follows, and that */
    uint64_t number;        /* for the engine; no two have the same */
    unsigned n_refs;
    unsigned n_conns;
    uint64_t body_bytes;          /* of requests that are being read, or wait */
    struct vr_client_line *lines; /* one for each model that it asked for */
    struct vr_line bodies;        /* that wait for a reader; a turn costs a byte */
    struct vr_line handshakes;    /* TLS; a turn costs one */
    struct vr_line pipelined;     /* connections with more requests; a turn costs one */
    double use;                   /* turns that it was given, of which half is forgotten after VR_USE_HALF_MS */
    uint64_t use_ms;
};
#define VR_USE_HALF_MS 30000

struct vr_clients {
    struct vr_client *buckets[VR_CLIENT_BUCKETS];
    uint64_t seed;
    uint64_t last;       /* number given */
    size_t n, max, hand; /* `hand`: the bucket where room is looked for next */
    uint64_t body_bytes; /* of all */
};

void vr_clients_init(struct vr_clients *all, size_t max);
void vr_clients_done(struct vr_clients *all);

/* The entry, with one more reference. NULL: no memory, or something refers to every entry. */
struct vr_client *vr_client_of_address(struct vr_clients *all, const struct sockaddr *a, uint64_t now_ms) VR_MUST_CHECK;
struct vr_client *vr_client_of_key(struct vr_clients *all, unsigned key, uint64_t now_ms) VR_MUST_CHECK;
void vr_client_ref(struct vr_client *c);
void vr_client_unref(struct vr_client *c); /* accepts NULL; frees nothing: see vr_clients_sweep */
/* Forgets those that nothing refers to and whose use is forgotten. */
void vr_clients_sweep(struct vr_clients *all, uint64_t now_ms);

/* Its line for a model, made when it is asked for first. NULL: no memory. */
struct vr_client_line *vr_client_line(struct vr_client *c, const void *of) VR_MUST_CHECK;

void vr_client_hold(struct vr_clients *all, struct vr_client *c, uint64_t bytes);
void vr_client_release(struct vr_clients *all, struct vr_client *c, uint64_t bytes);

/* Turns that it was given. */
void vr_client_used(struct vr_client *c, double turns, uint64_t now_ms);
double vr_client_use(const struct vr_client *c, uint64_t now_ms);

/* Who has the most; NULL: nobody has any. */
struct vr_client *vr_clients_most_conns(const struct vr_clients *all);
struct vr_client *vr_clients_most_bytes(const struct vr_clients *all);

#endif
