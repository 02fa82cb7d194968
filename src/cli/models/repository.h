/* What each model of a repository on the hub, or at a URL, would do on this machine. */
#ifndef VR_CLI_REPOSITORY_H
#define VR_CLI_REPOSITORY_H

#include "cli/input/input.h"

/* Reads the headers alone. `model` is hf:OWNER/NAME[:QUANT] or a URL. */
bool vr_plan_repository(const struct vr_options *o, const char *model, struct vr_input *in, struct vr_buf *out,
                        struct vr_err *err) VR_MUST_CHECK;

#endif
