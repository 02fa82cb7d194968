/* How long work takes: the one place with numbers about speed, for the planner and for pricing a dry run's graph.
 *
 *     time of a node   = max(bytes / (GB/s x share(type)), operations / TFLOPS(type)) + launches x launch time
 *     time of a hop    = latency + bytes / GB/s of the link
 *
 * A token's time is the sum of its nodes and hops: decoding does one thing after the other. The shares and latencies
 * of a machine that nobody measured come from speeds.def (docs/accuracy.md tells how far off they are); what `bench`
 * measured replaces any of them, field by field. */
#ifndef VR_PLAN_SPEED_H
#define VR_PLAN_SPEED_H

#include "hw/machine.h"

#define VR_SPEED_TYPES 64 /* more than there are tensor types */
#define VR_SPEED_HOST  VR_MAX_DEVICES

struct vr_speed {
    double gbs;                   /* of its memory, 10^9 bytes per second */
    float share[VR_SPEED_TYPES];  /* of gbs that a product with weights of this type reaches; by vr_type() id */
    double tflops;                /* that matrix products reach in large batches */
    float matrix[VR_SPEED_TYPES]; /* TFLOPS of a batch's product with this type */
    float expert_share[VR_SPEED_TYPES], expert_matrix[VR_SPEED_TYPES]; /* the same where tokens choose experts */
    double attention_gbs, attention_tflops;
    double launch_ms;  /* per kernel */
    double submit_ms;  /* what the host needs to start it, while the device works on those before */
    double product_ms; /* more, for one that reads weights: until it runs at full speed */
    double prompt_launch_ms, prompt_product_ms; /* the same for a batch */
    double step_ms,
        prompt_step_ms;       /* per token and per micro-batch, whatever the model: graphs made, results awaited */
    double link_gbs, link_ms; /* to the host: bandwidth that copies reach, and latency of one */
    double mapped_gbs, mapped_expert_gbs; /* the same for weights in a mapped file */
    double switch_ms;                     /* going on to the host in the middle of a token, and coming back */
};

struct vr_speeds {
    struct vr_speed places[VR_MAX_DEVICES + 1]; /* as the machine's devices, and the host */
    size_t n_devices;
    struct {
        double gbs, ms; /* gbs 0: through the host */
    } direct[VR_MAX_DEVICES][VR_MAX_DEVICES];
    bool measured; /* all devices and the host were; else at least one is taken from the table */
};

/* From the facts of the machine and the table. What the machine does not tell is guessed low. */
void vr_speeds_guess(const struct vr_machine *m, struct vr_speeds *out);
/* The same, with what was measured in place of guesses. */
void vr_speeds_of(const struct vr_machine *m, struct vr_speeds *out);
/* The host's weights are in pinned memory, not in a mapped file: they are sent at the link's full speed. */
void vr_speeds_pin(struct vr_speeds *s);
/* Nothing but memory bandwidth: no launches, no hops, every byte at full speed. For comparing with other planners. */
void vr_speeds_bandwidth(const struct vr_machine *m, struct vr_speeds *out);

/* Milliseconds of a node; VR_TYPE_NONE for one without weights. */
double vr_speed_node_ms(const struct vr_speed *s, uint32_t type, double bytes, double operations, double launches);
/* Milliseconds for sending weights that stay on the host to a device, for one batch. */
double vr_speed_send_ms(const struct vr_speeds *s, size_t to, bool experts, double bytes);
/* Milliseconds for moving bytes between two places: indices of devices, or VR_SPEED_HOST. 0 when they are the same. */
double vr_speed_hop_ms(const struct vr_speeds *s, size_t from, size_t to, double bytes);

#endif
