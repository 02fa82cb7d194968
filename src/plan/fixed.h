/* What the user fixed, as limits on a problem; private to plan/. */
#ifndef VR_PLAN_FIXED_H
#define VR_PLAN_FIXED_H

#include <regex.h>

#include "plan/build.h"

#define VR_TARGET_FREE (-2) /* no override finds the tensor */
#define VR_TARGET_HOST (-1)

/* The user's overrides, compiled. */
struct vr_targets {
    struct {
        regex_t regex;
        int target; /* a kind of the problem, or VR_TARGET_HOST */
    } * items;
    size_t n;
};

bool vr_targets_init(struct vr_targets *t, const struct vr_ask *ask, const struct vr_built *built,
                     struct vr_arena *arena, struct vr_err *err) VR_MUST_CHECK;
void vr_targets_done(struct vr_targets *t);
/* Where the user wants this tensor: a kind, VR_TARGET_HOST or VR_TARGET_FREE. */
int vr_targets_find(const struct vr_targets *t, const struct vr_tensor *tensor);
/* As the `allow` of a unit. */
uint32_t vr_targets_mask(int target);

/* Whether devices must come in the order of the budgets, and whether each is a kind of its own. */
bool vr_fixed_order(const struct vr_fixed *f);
bool vr_fixed_single(const struct vr_fixed *f);
/* Whether two devices of the machine may not be exchanged, because something is anchored on one of them. */
bool vr_fixed_apart(const struct vr_fixed *f, int device, int other);

/* Narrows p->allow by n_gpu_layers, the split and the anchor. */
bool vr_fixed_apply(const struct vr_ask *ask, struct vr_built *built, struct vr_err *err) VR_MUST_CHECK;

#endif
