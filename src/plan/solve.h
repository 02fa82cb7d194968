/* Solves a placement problem: the cheapest placement that fits, and how sure that is. */
#ifndef VR_PLAN_SOLVE_H
#define VR_PLAN_SOLVE_H

#include "base/arena.h"
#include "plan/problem.h"

#define VR_WORK_HASTY   100    /* for what is known already, made to fit and polished */
#define VR_WORK_ROUGH   10000  /* for a plan whose gap to the best nobody asks for */
#define VR_TIE          0.01   /* of the time: what faster prompts may cost of it */
#define VR_WORK_DEFAULT 200000 /* labels; a label takes about a tenth of a microsecond per device */

struct vr_solution {
    struct vr_placement placement; /* in the arena */
    struct vr_account account;
    double lower_bound; /* no placement costs less */
    bool optimal;       /* lower_bound reaches the cost */
    uint64_t work;
};

/* VR_ENOFIT when no placement fits. Same problem and limit, same answer: work is counted, time is not. `situation` as
 * for vr_problem_account(). `known` is a placement to begin with, or NULL: what is found costs no more. */
bool vr_solve(const struct vr_problem *p, unsigned situation, const struct vr_placement *known, uint64_t work_limit,
              struct vr_arena *arena, struct vr_solution *out, struct vr_err *err) VR_MUST_CHECK;
/* The same without one, but for a hint: a placement that was good for a problem like this one. */
bool vr_solve_from(const struct vr_problem *p, unsigned situation, const struct vr_placement *seed, uint64_t work_limit,
                   struct vr_arena *arena, struct vr_solution *out, struct vr_err *err) VR_MUST_CHECK;

#endif
