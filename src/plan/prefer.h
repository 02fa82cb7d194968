/* Which of the plans that are as good: private to plan/.
 *
 * The goal comes first. But nobody wants a plan that is a hair faster and leaves more on the host, or reads prompts at
 * half the speed. So, beside a plan that is known: no more on the host than it has there; and of the plans whose cost
 * is within VR_TIE of the least, those with the fewest devices, then the one with the fastest prompts. */
#ifndef VR_PLAN_PREFER_H
#define VR_PLAN_PREFER_H

#include "base/arena.h"
#include "plan/problem.h"

/* Changes `x` accordingly; `known` is allowed and costs no less than x. It may end as `known`. False when memory is
 * out. Not for pipelines. */
bool vr_prefer(const struct vr_problem *p, const struct vr_placement *known, struct vr_arena *arena,
               struct vr_placement *x) VR_MUST_CHECK;

#endif
