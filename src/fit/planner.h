/* A planner that remembers what dry runs told it, from one context to the next; private to fit/. */
#ifndef VR_FIT_PLANNER_H
#define VR_FIT_PLANNER_H

#include "fit/outcome.h"
#include "plan/place.h"

struct vr_planner {
    struct vr_fit_ask a;       /* its context is the one being planned for … */
    struct vr_context context; /* … with what follows from it */
    struct vr_ask ask;
    struct vr_footprint footprint;
    struct vr_overheads overheads, guess;                  /* as far as known; as guessed for this context */
    uint64_t least_bytes[VR_MAX_DEVICES][VR_N_SITUATIONS]; /* compute buffers that were too much for a plan */
    struct vr_prober prober;
    struct {
        uint32_t n_ctx;
        struct vr_overheads guessed, found;
    } known[2]; /* what was found for the last two contexts, the newer one first */
    size_t n_known;
};

/* Copies what it needs of the two. To be closed also when this fails. */
bool vr_planner_open(struct vr_planner *p, const struct vr_fit_ask *a, const struct vr_goal *w,
                     struct vr_err *err) VR_MUST_CHECK;
void vr_planner_close(struct vr_planner *p);

/* Forgets what was found for other contexts. */
void vr_planner_forget(struct vr_planner *p);

/* The fastest placement for a context, confirmed by dry runs. */
bool vr_planner_prove(struct vr_planner *p, uint32_t n_ctx, struct vr_outcome *out, struct vr_err *err) VR_MUST_CHECK;
/* A good placement for it by what is known so far, quickly and without a dry run. */
bool vr_planner_guess(struct vr_planner *p, uint32_t n_ctx, struct vr_arena *arena, struct vr_plan *out,
                      struct vr_err *err) VR_MUST_CHECK;

#endif
