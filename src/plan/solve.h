/* Solves a placement problem: the cheapest placement that fits, and how sure that is. */
#ifndef VR_PLAN_SOLVE_H
#define VR_PLAN_SOLVE_H

#include "base/arena.h"
#include "plan/problem.h"

#define VR_WORK_DEFAULT 200000 /* labels; a label takes about a tenth of a microsecond per device */

struct vr_solution {
    struct vr_placement placement; /* in the arena */
    struct vr_account account;
    double lower_bound; /* no placement costs less */
    bool optimal;       /* lower_bound reaches the cost */
    uint64_t work;
};

/* VR_ENOFIT when no placement fits. Same problem and limit, same answer: work is counted, time is not. `situation` as
 * for vr_problem_account(). */
bool vr_solve(const struct vr_problem *p, unsigned situation, uint64_t work_limit, struct vr_arena *arena,
              struct vr_solution *out, struct vr_err *err) VR_MUST_CHECK;

#endif
