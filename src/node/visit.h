/* One connection to a node, in a process of its own: who comes, what they want, and whether they get it. */
#ifndef VR_NODE_VISIT_H
#define VR_NODE_VISIT_H

#include <sys/types.h>

#include "engine/rpc/lend.h"
#include "hw/machine.h"
#include "tunnel/hello.h"

/* What a node lends, and how it finds out. */
struct vr_node {
    char dir[512]; /* of its key and its pairs */
    char name[VR_NODE_NAME];
    struct vr_versions versions;
    /* Its machine, with the devices that it lends and what may be used of each as their free memory. */
    bool (*describe)(void *ctx, struct vr_machine *out, struct vr_err *err);
    /* How the engine is to lend these devices of that machine. */
    bool (*prepare)(void *ctx, const struct vr_machine *m, const struct vr_hello *hello, struct vr_lend *out,
                    struct vr_err *err);
    void *ctx;
    int silent_ms; /* a client that is not heard of for so long is gone */
};

/* Shared by all visits: who has the devices. They belong to one client at a time. */
struct vr_owner;
struct vr_owner *vr_owner_new(struct vr_err *err) VR_MUST_CHECK;

/* The rest of the process's life. Returns its exit status. */
int vr_node_visit(const struct vr_node *n, struct vr_owner *owner, int fd, const char *address);

#endif
