/* The ways to nodes as `bench --nodes` measured them, beside the machine profile:
 *   {"links":[{"node":"attic","key":"ade5…","address":"192.168.1.7:7433","round_trip_us":310.0,"to_gbs":0.11,
 *     "from_gbs":0.11,"when":"2026-11-16T18:00:00Z"}]}
 * A way is known by the node's key and address: the same machine over another network is another way. */
#ifndef VR_HW_NODE_LINKS_H
#define VR_HW_NODE_LINKS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define VR_MAX_NODE_LINKS 64

struct vr_node_link {
    char node[16], key[72], address[280], when[32];
    double round_trip_us;    /* of the engine, to fetch a few bytes */
    double to_gbs, from_gbs; /* 10^9 bytes per second */
};

struct vr_node_links {
    struct vr_node_link items[VR_MAX_NODE_LINKS];
    size_t n;
};

/* Where they are kept. False: neither XDG_DATA_HOME nor HOME is set. */
bool vr_node_links_path(char *out, size_t n);
/* A file that is not there has none. */
bool vr_node_links_load(const char *path, struct vr_node_links *out, struct vr_err *err) VR_MUST_CHECK;
bool vr_node_links_save(const char *path, const struct vr_node_links *l, struct vr_err *err) VR_MUST_CHECK;

/* NULL: not measured. */
const struct vr_node_link *vr_node_link_find(const struct vr_node_links *l, const char *key, const char *address);
/* Instead of what was known of the way; of too many the oldest is forgotten. */
void vr_node_link_keep(struct vr_node_links *l, const struct vr_node_link *one);
/* Bytes per second of what goes there and what comes back, 10^9. */
double vr_node_link_gbs(const struct vr_node_link *one);
/* Whether the way is still that one: what a look measured (the tunnel alone, without the engine behind it) is about
 * what was kept. */
bool vr_node_link_holds(const struct vr_node_link *one, double look_us);

#endif
