/* A plan as a picture: every device as a bar of its memory. */
#ifndef VR_CLI_SVG_H
#define VR_CLI_SVG_H

#include "fit/fit.h"

bool vr_svg_outcome(struct vr_buf *out, const struct vr_fit_ask *a, const struct vr_outcome *o,
                    struct vr_err *err) VR_MUST_CHECK;

#endif
