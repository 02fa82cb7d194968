/* A plan for people. */
#ifndef VR_CLI_PLAN_TEXT_H
#define VR_CLI_PLAN_TEXT_H

#include "fit/fit.h"

void vr_show_outcome(struct vr_buf *out, const struct vr_fit_ask *a, const struct vr_outcome *o);
/* VR_ENOFIT and a sentence that names every place that is too small, unless it fits. */
bool vr_outcome_check(const struct vr_fit_ask *a, const struct vr_outcome *o, struct vr_err *err) VR_MUST_CHECK;

#endif
