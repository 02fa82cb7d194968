/* The way to a node as the engine uses it: RPC through the tunnel, to a buffer on a device there. */
#ifndef VR_ENGINE_MEASURE_MEASURE_NODE_H
#define VR_ENGINE_MEASURE_MEASURE_NODE_H

#include "base/err.h"
#include "engine/params/load_params.h"

struct vr_measure_way {
    double round_trip_us;    /* to fetch a few bytes, the middle one of many times */
    double to_gbs, from_gbs; /* 10^9 bytes per second */
};

/* The first device of `node` is borrowed for a moment, in a child process. */
bool vr_measure_node(const struct vr_load_node *node, int timeout_ms, struct vr_measure_way *out,
                     struct vr_err *err) VR_MUST_CHECK;

#endif
