/* A placement of a model: found as the options say, shown to people and to programs. */
#ifndef VR_CLI_PLACEMENT_H
#define VR_CLI_PLACEMENT_H

#include "cli/model_files.h"
#include "cli/show.h"
#include "fit/fit.h"

struct vr_fit_ask vr_placement_ask(const struct vr_options *o, const struct vr_input *in, const struct vr_models *m,
                                   const struct vr_speeds *speeds);
/* `ask` is changed where --allow lets it: a smaller context, a quantized cache. */
bool vr_placement_find(const struct vr_options *o, struct vr_fit_ask *ask, struct vr_outcome *out,
                       struct vr_err *err) VR_MUST_CHECK;
void vr_show_outcome(struct vr_buf *out, const struct vr_fit_ask *a, const struct vr_outcome *o);
/* VR_ENOFIT and a sentence that names every place that is too small, unless it fits. */
bool vr_outcome_check(const struct vr_fit_ask *a, const struct vr_outcome *o, struct vr_err *err) VR_MUST_CHECK;
/* The caller owns it. */
json_t *vr_json_outcome(const struct vr_fit_ask *a, const struct vr_outcome *o);

#endif
