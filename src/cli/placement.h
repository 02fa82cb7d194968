/* A placement of a model, found as the options say. */
#ifndef VR_CLI_PLACEMENT_H
#define VR_CLI_PLACEMENT_H

#include "cli/input.h"
#include "cli/model_files.h"
#include "fit/fit.h"

struct vr_fit_ask vr_placement_ask(const struct vr_options *o, const struct vr_input *in, const struct vr_models *m,
                                   const struct vr_speeds *speeds);
enum vr_optimize vr_placement_optimize(const struct vr_options *o); /* --optimize */
/* `ask` is changed where --allow lets it: a smaller context, a quantized cache. */
bool vr_placement_find(const struct vr_options *o, struct vr_fit_ask *ask, struct vr_outcome *out,
                       struct vr_err *err) VR_MUST_CHECK;

#endif
