/* Who may talk to whom: the keys of peers, exchanged once with a join token, in one file beside this machine's own key.
 *
 *     { "nodes":   [ { "name": "attic", "host": "192.168.1.7", "port": 7433, "fingerprint": "…" } ],   whom we may
 * borrow from "clients": [ { "name": "desk", "fingerprint": "…" } ],                                       whom we lend
 * to "join":    { "secret_sha256": "…", "until": 1763300000 } }                                   one more may come
 *
 * A join token is the fingerprint of the node and a secret that is good for one use and one day: the client knows by it
 * whom it talks to before it tells the secret, and the node that the client was let in by its owner. */
#ifndef VR_TUNNEL_PAIRS_H
#define VR_TUNNEL_PAIRS_H

#include <stdint.h>

#include "base/err.h"
#include "tunnel/identity.h"

#define VR_NODE_PORT  7433
#define VR_MAX_PAIRS  64
#define VR_NODE_NAME  14 /* with its NUL: it is part of a device's id, "attic/CUDA0" */
#define VR_HOST_NAME  256
#define VR_JOIN_TOKEN 160
#define VR_SECRET     33 /* 32 digits and a NUL */

struct vr_pair {
    char name[VR_NODE_NAME];
    char host[VR_HOST_NAME]; /* of a node */
    uint16_t port;
    char fingerprint[VR_FINGERPRINT];
};

struct vr_pairs {
    struct vr_pair nodes[VR_MAX_PAIRS], clients[VR_MAX_PAIRS];
    size_t n_nodes, n_clients;
    char join_sha256[VR_FINGERPRINT]; /* "": nobody may join */
    int64_t join_until;
};

/* None yet is an empty list. */
bool vr_pairs_load(const char *dir, struct vr_pairs *out, struct vr_err *err) VR_MUST_CHECK;
bool vr_pairs_save(const char *dir, const struct vr_pairs *p, struct vr_err *err) VR_MUST_CHECK;
/* For who loads, changes and saves: nobody else does meanwhile, until the descriptor is closed. -1 on failure. */
int vr_pairs_lock(const char *dir, struct vr_err *err) VR_MUST_CHECK;
/* The same from and to memory; `path` is for messages. */
bool vr_pairs_parse(const char *path, const char *text, size_t n, struct vr_pairs *out,
                    struct vr_err *err) VR_MUST_CHECK;

/* A key that is there already gets the new name and address. by_name: and so does a name, which is one node's; two
 * clients may well have the same. False: there are too many. */
bool vr_pairs_add(struct vr_pair *list, size_t *n, const struct vr_pair *one, bool by_name,
                  struct vr_err *err) VR_MUST_CHECK;
const struct vr_pair *vr_pairs_by_key(const struct vr_pair *list, size_t n, const char *fingerprint);
/* "attic", "192.168.1.7" or "192.168.1.7:7433"; NULL: there is none. */
const struct vr_pair *vr_pairs_by_name(const struct vr_pairs *p, const char *text);

/* Letters, digits, '-', '_' and '.'; others become '-'. Never empty. */
void vr_node_name(const char *text, char out[VR_NODE_NAME]);
/* HOST, HOST:PORT, [V6] or [V6]:PORT. */
bool vr_node_address(const char *text, uint16_t port_else, char host[VR_HOST_NAME], uint16_t *port,
                     struct vr_err *err) VR_MUST_CHECK;

/* Lets one more client join: writes the token, remembers its secret's hash. */
bool vr_join_offer(struct vr_pairs *p, const char *fingerprint, int64_t now, char token[VR_JOIN_TOKEN],
                   struct vr_err *err) VR_MUST_CHECK;
bool vr_join_read(const char *token, char fingerprint[VR_FINGERPRINT], char secret[VR_SECRET],
                  struct vr_err *err) VR_MUST_CHECK;
bool vr_join_open(const struct vr_pairs *p, int64_t now);
/* Is it the secret that was offered? In a time that does not depend on the answer. */
bool vr_join_is(const struct vr_pairs *p, const char *secret, int64_t now);

#endif
