/* What a dry run's graph costs in time: every node that a device executes, every byte that crosses. The same formula
 * for our plans and for anybody else's (plan/speed.h), so that they can be compared. */
#ifndef VR_FIT_PRICE_H
#define VR_FIT_PRICE_H

#include "engine/probe/graph.h"
#include "plan/build.h"

#define VR_PRICE_PLACES (VR_MAX_DEVICES + 1) /* devices as in the trial; their number is the host */

struct vr_price {
    double ms[VR_N_PHASES][VR_PRICE_PLACES]; /* executing there */
    double copy_ms[VR_N_PHASES];             /* between places, adding up over devices among it */
    double spread_ms[VR_N_PHASES];           /* split mode tensor: of all devices at once; else 0 */
    double submit_ms;                        /* the host makes a micro-batch's graph and starts its kernels */
    double fixed_ms[VR_N_PHASES];            /* whatever the model */
    double step_ms[VR_N_PHASES];             /* one decoding step for all sequences; of a prompt, each micro-batch */
    double decode_tok_s, prefill_tok_s;      /* of each sequence; of the prompt */
    double total_tok_s;                      /* of all sequences together */
};

struct vr_pricing {
    const struct vr_speeds *speeds;
    const uint16_t *machine_device; /* of each device of the trial */
    size_t n_devices;
    struct vr_fill fill;
    uint32_t n_seq;    /* tokens of a decoding step */
    uint32_t n_prompt; /* tokens of a prompt; 0: VR_PROMPT_DEFAULT */
    bool pipeline;     /* micro-batches overlap on several devices */
};

/* What the planner minimises (vr_goal_weights()). */
double vr_price_cost(const struct vr_price *p, enum vr_optimize goal, const struct vr_pricing *pricing);

void vr_price(const struct vr_works *w, const struct vr_pricing *p, struct vr_price *out);

#endif
