/* The first exchange: a client says who it is, with which versions, and what it wants; the node welcomes or refuses it.
 *
 *     HELLO
 * {"want":"look","name":"desk","program":"0.1.0","engine":"0.5.0","rpc":"7.0.0","devices":["CUDA0"],"secret":"…"}
 *     WELCOME  {"name":"attic","program":…,"engine":…,"rpc":…,"owner":"desk","machine":{…}}      hw/profile.h
 *
 * look: what is there; ECHO packets may follow. lend: these devices; DATA follows. join: with the secret of a token. */
#ifndef VR_TUNNEL_HELLO_H
#define VR_TUNNEL_HELLO_H

#include "base/buf.h"
#include "base/err.h"
#include "tunnel/pairs.h"

#define VR_MAX_LENT 15 /* devices of one node */

enum vr_want { VR_WANT_LOOK, VR_WANT_LEND, VR_WANT_JOIN, VR_N_WANTS };

/* What both sides must have in common. */
struct vr_versions {
    char program[32], engine[32], rpc[16];
};

struct vr_hello {
    enum vr_want want;
    char name[VR_NODE_NAME];
    struct vr_versions versions;
    char secret[VR_SECRET];        /* join */
    char devices[VR_MAX_LENT][24]; /* lend: ids of the node's own, in the order in which they are to be numbered */
    size_t n_devices;
};
bool vr_hello_write(const struct vr_hello *h, struct vr_buf *out);
bool vr_hello_read(const void *data, size_t n, struct vr_hello *out);

struct vr_welcome {
    char name[VR_NODE_NAME];
    struct vr_versions versions;
    char owner[VR_NODE_NAME]; /* who has its devices now; "": nobody */
    struct vr_buf machine;    /* its profile; empty: not told */
};
bool vr_welcome_write(const struct vr_welcome *w, struct vr_buf *out);
bool vr_welcome_read(const void *data, size_t n, struct vr_welcome *out);
void vr_welcome_done(struct vr_welcome *w);
#define VR_AUTO_WELCOME VR_CLEANUP(vr_welcome_done) struct vr_welcome

/* Engines that differ do not understand each other. */
bool vr_versions_match(const struct vr_versions *a, const char *a_name, const struct vr_versions *b, const char *b_name,
                       struct vr_err *err) VR_MUST_CHECK;

#endif
