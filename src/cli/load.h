/* From the options to what an engine is started with: its LOAD message, its plan, its environment. */
#ifndef VR_CLI_LOAD_H
#define VR_CLI_LOAD_H

#include "cli/models.h"
#include "server/server.h"

/* `learned`: how much less than it reports each device can give. */
bool vr_load_plan(const struct vr_options *o, const struct vr_models *models, const struct vr_learned *learned,
                  struct vr_load *out, struct vr_err *err) VR_MUST_CHECK;

#endif
