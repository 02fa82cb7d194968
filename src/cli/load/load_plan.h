/* From the options to what an engine is started with: its LOAD message, its plan, its environment. */
#ifndef VR_CLI_LOAD_PLAN_H
#define VR_CLI_LOAD_PLAN_H

#include "cli/input/input.h"
#include "cli/input/model_files.h"
#include "server/server.h"

/* `learned`: what devices do not give, and the limits of this run. */
bool vr_load_plan(const struct vr_options *o, const struct vr_models *models, const struct vr_learned *learned,
                  struct vr_load *out, struct vr_err *err) VR_MUST_CHECK;

/* The same beside models that are loaded: `others` is the text that load-plan reads (cli/load/newcomer.h). out->evict
 * has those that must leave first. */
bool vr_load_plan_beside(const struct vr_options *o, const struct vr_models *models, const struct vr_learned *learned,
                         const struct vr_buf *others, struct vr_load *out, struct vr_err *err) VR_MUST_CHECK;

/* The rest of an input whose machine is there: budgets of the devices that the engine can use, less what was learned,
 * and the context. */
bool vr_load_input(const struct vr_options *o, const struct vr_learned *learned, struct vr_input *in,
                   struct vr_err *err) VR_MUST_CHECK;

/* The same on a machine that is at hand: its budgets are chosen anew. `outcome` is what the load rests on, and its
 * trial what is loaded, with the devices as the engine names them. It must be empty, and is the caller's. */
bool vr_load_plan_on(struct vr_input *in, const struct vr_options *o, const struct vr_models *models,
                     const struct vr_learned *learned, struct vr_outcome *outcome, struct vr_load *out,
                     struct vr_err *err) VR_MUST_CHECK;

/* `load-plan`, with the options of serve: the same with what was learned, and who is loaded, on
 * standard input; prints a struct vr_load. */
bool vr_cmd_load_plan(const struct vr_options *o, struct vr_buf *out, struct vr_err *err) VR_MUST_CHECK;

#endif
