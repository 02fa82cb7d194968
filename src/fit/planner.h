/* A planner that remembers what dry runs told it, from one context to the next; private to fit/. */
#ifndef VR_FIT_PLANNER_H
#define VR_FIT_PLANNER_H

#include "fit/outcome.h"
#include "plan/place.h"

/* Overheads as they were guessed before the first dry run, and known after the last: of a context, or of a micro-batch,
 * of so many tokens. */
struct vr_known {
    double tokens;
    struct vr_overheads guessed, found;
};

struct vr_lessons {
    struct vr_known known[2]; /* of micro-batches, the newer one first */
    size_t n_known;
    struct vr_observed observed;
    struct vr_plan seed; /* the last one that was confirmed; none: no stations */
    struct vr_arena arena;
};

struct vr_planner {
    struct vr_fit_ask a;        /* its context is the one being planned for … */
    struct vr_load_params load; /* … with what follows from it */
    struct vr_ask ask;
    enum vr_optimize goal;
    enum vr_splits splits;
    bool whole_layers;                /* as in vr_goal … */
    const struct vr_outcome *unsplit; /* … and this … */
    double worth;                     /* … and this … */
    struct vr_lessons *lessons;       /* … and these */
    struct vr_observed observed;      /* of this context, from its first dry run */
    struct vr_footprint footprint;
    struct vr_overheads overheads, guess;                  /* as far as known; as guessed for this context */
    uint64_t least_bytes[VR_MAX_DEVICES][VR_N_SITUATIONS]; /* compute buffers that were too much for a plan */
    struct vr_prober prober;
    struct vr_known known[2]; /* what was found for the last two contexts, the newer one first; or in lessons */
    size_t n_known;
};

/* Copies what it needs of the two. To be closed also when this fails. */
bool vr_planner_open(struct vr_planner *p, const struct vr_fit_ask *a, const struct vr_goal *w,
                     struct vr_err *err) VR_MUST_CHECK;
void vr_planner_close(struct vr_planner *p);

/* Forgets what was found for other contexts. */
void vr_planner_forget(struct vr_planner *p);

/* The fastest placement of whole layers for a context, confirmed by dry runs. */
bool vr_planner_prove(struct vr_planner *p, uint32_t n_ctx, struct vr_outcome *out, struct vr_err *err) VR_MUST_CHECK;
/* Knows the context of `o` as if it had just been proven, after one dry run if it must. */
bool vr_planner_look(struct vr_planner *p, const struct vr_outcome *o, struct vr_err *err) VR_MUST_CHECK;
/* `out` is a placement of whole layers, for the context that was proven or looked at last: it becomes a split of every
 * layer (split mode tensor) where the goal allows that and it is faster, or must. Says what the other mode would give.
 */
bool vr_planner_spread(struct vr_planner *p, struct vr_outcome *out, struct vr_err *err) VR_MUST_CHECK;
/* A good placement for it by what is known so far, quickly and without a dry run. */
bool vr_planner_guess(struct vr_planner *p, uint32_t n_ctx, struct vr_arena *arena, struct vr_plan *out,
                      struct vr_err *err) VR_MUST_CHECK;

#endif
