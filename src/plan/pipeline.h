/* Prompts in a pipeline: micro-batches overlap on several devices, so the slowest of them sets the pace. */
#ifndef VR_PLAN_PIPELINE_H
#define VR_PLAN_PIPELINE_H

#include "plan/solve.h"

/* The cheapest placement that the engine runs as a pipeline: everything on devices, nothing moved. Its cost is infinite
 * when there is none, or none was found (the bound then tells which). */
bool vr_pipeline_solve(const struct vr_problem *p, struct vr_arena *arena, struct vr_solution *out,
                       struct vr_err *err) VR_MUST_CHECK;

/* `x` is a pipeline for token generation alone. It becomes one of the same number of devices at most whose slowest one
 * takes the least in prompts, of those that cost no more than `most`; it stays where that is hardly evener. */
bool vr_pipeline_even(const struct vr_problem *p, double most, struct vr_arena *arena, struct vr_solution *x,
                      struct vr_err *err) VR_MUST_CHECK;

#endif
