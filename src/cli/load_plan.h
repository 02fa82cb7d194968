/* From the options to what an engine is started with: its LOAD message, its plan, its environment. */
#ifndef VR_CLI_LOAD_PLAN_H
#define VR_CLI_LOAD_PLAN_H

#include "cli/input.h"
#include "cli/model_files.h"
#include "server/server.h"

/* `learned`: what devices do not give, and the limits of this run. */
bool vr_load_plan(const struct vr_options *o, const struct vr_models *models, const struct vr_learned *learned,
                  struct vr_load *out, struct vr_err *err) VR_MUST_CHECK;

/* The same on a machine that is at hand: its budgets are chosen anew. `outcome` is what the load rests on, and its
 * trial what is loaded, with the devices as the engine names them. It must be empty, and is the caller's. */
bool vr_load_plan_on(struct vr_input *in, const struct vr_options *o, const struct vr_models *models,
                     const struct vr_learned *learned, struct vr_outcome *outcome, struct vr_load *out,
                     struct vr_err *err) VR_MUST_CHECK;

/* `load-plan`, with the options of serve: the same with what was learned on standard input; prints a struct vr_load. */
bool vr_cmd_load_plan(const struct vr_options *o, struct vr_buf *out, struct vr_err *err) VR_MUST_CHECK;

#endif
