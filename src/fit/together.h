/* Several models on one machine at once: which can be loaded, where each goes, and how fast it then is.
 *
 * Models come in the order of their importance. As many as can be are loaded, the more important ones first. Of all
 * ways to place these, the one is taken in which the times of a token, each as a multiple of what it is with the
 * machine to itself, add up to the least. A way is an order in which models are placed, each into what those before it
 * left, and the devices that each may use: so a small model can go to a small card first, and a large one keeps the
 * others.
 *
 * That is a tree of orders and sets of devices, searched by branch and bound: nobody is faster than with the machine to
 * itself, nor on devices than on these alone; devices of one kind with as much taken are one choice; and where the
 * placement that a model has alone still fits, no plan is made. Within VR_SAME_SPEED a way that was found earlier
 * stays: the order of importance, with all devices for each, comes first. */
#ifndef VR_FIT_TOGETHER_H
#define VR_FIT_TOGETHER_H

#include "fit/residents.h"

#define VR_MAX_TOGETHER 8
#define VR_SAME_SPEED   0.002

struct vr_together_ask {
    size_t n_models;
    uint32_t devices;              /* of the machine, that may be used, one bit each */
    uint8_t kinds[VR_MAX_DEVICES]; /* equal for devices that are alike */
    struct vr_room capacity;       /* what models may take in all */
    unsigned most_plans;           /* then the best that was found is taken */
    /* What a model costs on `devices` while so much is taken, in any unit that is its own, and what it takes; INFINITY:
     * it does not fit. More room never makes it slower. */
    bool (*plan)(void *ctx, size_t model, uint32_t devices, const struct vr_room *taken, double *cost,
                 struct vr_room *takes, struct vr_err *err);
    void *ctx;
};

struct vr_together_model {
    bool resident;
    uint32_t devices; /* that it may use */
    double cost;      /* there */
    double alone;     /* with the machine to itself; INFINITY: it does not even fit then */
    struct vr_room takes;
};

struct vr_together {
    struct vr_together_model models[VR_MAX_TOGETHER]; /* in the order of importance */
    size_t order[VR_MAX_TOGETHER];                    /* residents, as they are placed */
    size_t n;
    double sum; /* of cost / alone over the residents */
    unsigned plans;
    bool exact; /* no other way is better */
};

bool vr_together_solve(const struct vr_together_ask *t, struct vr_together *out, struct vr_err *err) VR_MUST_CHECK;

#endif
