/* `plan A B ... --together`. */
#ifndef VR_CLI_PLAN_TOGETHER_H
#define VR_CLI_PLAN_TOGETHER_H

#include "cli/input/input.h"

/* `in` is the machine with its budgets, less what was learned. */
bool vr_plan_together(const struct vr_options *o, const struct vr_input *in, const struct vr_learned *learned,
                      struct vr_buf *out, struct vr_err *err) VR_MUST_CHECK;

#endif
