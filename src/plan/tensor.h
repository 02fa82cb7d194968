/* Split mode tensor: which devices, and which share of every layer each of them gets.
 *
 * All devices do a stage at once and wait for each other, so a split costs, for each stage, what its slowest device
 * takes, and what adding up takes between them. The same functions price a stage here and in a dry run's graph
 * (work.h, speed.h). Shares are whole numbers of which only the ratio counts, so that the engine cuts where we do. */
#ifndef VR_PLAN_TENSOR_H
#define VR_PLAN_TENSOR_H

#include "plan/problem.h"
#include "plan/stages.h"

struct vr_spread_ask { /* nothing is owned */
    const struct vr_stages *stages;
    const struct vr_speeds *speeds;
    struct {
        uint16_t device;     /* of the machine */
        uint64_t room_bytes; /* for slices, once it takes part */
    } devices[VR_MAX_PLACED];
    size_t n;
    uint64_t slice_bytes;       /* all slices together */
    double host_cost;           /* what a byte costs more at least that stays on the host; 0: none may */
    double weight[VR_N_PHASES]; /* what a millisecond of a step, and of a micro-batch, counts */
};

struct vr_spread {
    uint8_t who[VR_MAX_PLACED]; /* of the ask's devices, in their order */
    uint32_t share[VR_MAX_PLACED];
    size_t n;
    double cost;        /* of the ask's weights */
    double lower_bound; /* no split over two devices or more costs less, nor with more of it on the host */
    double fewer_bound; /* … and none over fewer devices than n; infinite when none has room */
};

/* The cheapest split over two devices or more that has room. VR_ENOFIT: there is none. */
bool vr_spread_solve(const struct vr_spread_ask *ask, struct vr_spread *out, struct vr_err *err) VR_MUST_CHECK;
/* What the split out->who, out->share, out->n costs, as out->cost. */
bool vr_spread_price(const struct vr_spread_ask *ask, struct vr_spread *out, struct vr_err *err) VR_MUST_CHECK;
/* What no split costs less than; infinite when none has room, and nothing may stay on the host. */
bool vr_spread_bound(const struct vr_spread_ask *ask, double *bound, struct vr_err *err) VR_MUST_CHECK;

/* The slices of n devices, of a whole that is cut into `grains` pieces (0: anywhere), as the engine cuts it: it begins
 * with device `rotation`, and rounds down. Their sum is 1. */
void vr_spread_cut(double grains, const uint32_t *share, size_t n, size_t rotation, double *slice);

#endif
