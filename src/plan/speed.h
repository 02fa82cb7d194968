/* How long work takes: the one place with numbers about speed, for the planner and for pricing a dry run's graph.
 *
 *     time of a node   = max(bytes / (GB/s x share(type)), operations / (TFLOPS x share)) + launches x launch time
 *     time of a hop    = latency + bytes / GB/s of the link
 *
 * A token's time is the sum of its nodes and hops: decoding does one thing after the other. The shares and latencies
 * here are for a machine that nobody measured (docs/planner.md tells where they come from and how far off they are);
 * calibration replaces any of them, field by field. */
#ifndef VR_PLAN_SPEED_H
#define VR_PLAN_SPEED_H

#include "hw/machine.h"

#define VR_SPEED_TYPES 64 /* more than there are tensor types */
#define VR_SPEED_HOST  VR_MAX_DEVICES

struct vr_speed {
    double gbs;                  /* of its memory, 10^9 bytes per second */
    float share[VR_SPEED_TYPES]; /* of gbs that a product with weights of this type reaches; by vr_type() id */
    double tflops;               /* that matrix products reach in large batches */
    double launch_ms;            /* per kernel */
    double link_gbs, link_ms;    /* to the host: bandwidth that copies reach, and latency of one */
};

struct vr_speeds {
    struct vr_speed places[VR_MAX_DEVICES + 1]; /* as the machine's devices, and the host */
    size_t n_devices;
    struct {
        double gbs, ms; /* gbs 0: through the host */
    } direct[VR_MAX_DEVICES][VR_MAX_DEVICES];
    bool measured; /* by calibration; else taken from the table */
};

/* From the facts of the machine and the table. What the machine does not tell is guessed low. */
void vr_speeds_guess(const struct vr_machine *m, struct vr_speeds *out);
/* Nothing but memory bandwidth: no launches, no hops, every byte at full speed. For comparing with other planners. */
void vr_speeds_bandwidth(const struct vr_machine *m, struct vr_speeds *out);

/* Milliseconds of a node; VR_TYPE_NONE for one without weights. */
double vr_speed_node_ms(const struct vr_speed *s, uint32_t type, double bytes, double operations, double launches);
/* Milliseconds for moving bytes between two places: indices of devices, or VR_SPEED_HOST. 0 when they are the same. */
double vr_speed_hop_ms(const struct vr_speeds *s, size_t from, size_t to, double bytes);

#endif
