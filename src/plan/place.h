/* A solved problem in the words of llama.cpp: devices in order, layers of each, overrides. */
#ifndef VR_PLAN_PLACE_H
#define VR_PLAN_PLACE_H

#include "plan/build.h"
#include "plan/solve.h"

#define VR_PLACE_HOST (-1)

struct vr_place_override {
    const char *pattern; /* an anchored expression; the first that matches a tensor's name wins */
    int device;          /* of the machine, or VR_PLACE_HOST */
};

struct vr_plan {
    uint16_t order[VR_MAX_PLACED];    /* machine devices in placement order */
    uint32_t stations[VR_MAX_PLACED]; /* layers of each; the output counts one on the last */
    unsigned situation[VR_MAX_PLACED];
    size_t n;
    uint32_t n_gpu_layers;
    uint64_t host_unit_bytes;            /* of units on the host, also of layers there */
    struct vr_place_override *overrides; /* in the arena, like the patterns */
    size_t n_overrides;
    bool pipeline;
    double cost, lower_bound; /* of the goal (vr_goal_weights()) */
    double fastest;           /* of the least cost that was found: less where prompts were worth it; 0: not told */
    bool optimal;
    uint64_t work; /* labels that the search made */
    uint32_t n_stations;
    int16_t *where; /* of each station's core and units, n_stations x (1 + VR_MAX_UNITS): machine devices, or
                       VR_PLACE_HOST; in the arena */
};

/* The cheapest placement that fits, for the overheads that are known so far. VR_ENOFIT when nothing fits. */
bool vr_plan_make(const struct vr_ask *ask, struct vr_arena *arena, struct vr_plan *out,
                  struct vr_err *err) VR_MUST_CHECK;

/* Whether a second look at a plan (vr_ask.known), whose gap to the bound is this, may find a better one: it has units
 * on the host, and the gap is not fine, or they are those of whole layers, which the user did not ask for. */
bool vr_plan_improvable(const struct vr_ask *ask, const struct vr_plan *plan, double gap);

/* A copy that is good for vr_ask.seed, and for nothing else. */
bool vr_plan_copy(const struct vr_plan *plan, struct vr_arena *arena, struct vr_plan *out,
                  struct vr_err *err) VR_MUST_CHECK;

/* What a plan that was made earlier costs by what is asked now. */
bool vr_plan_cost(const struct vr_ask *ask, const struct vr_plan *plan, double *cost, struct vr_err *err) VR_MUST_CHECK;

#endif
