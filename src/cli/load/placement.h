/* A placement of a model, found as the options say. */
#ifndef VR_CLI_PLACEMENT_H
#define VR_CLI_PLACEMENT_H

#include "cli/input/input.h"
#include "cli/input/model_files.h"
#include "fit/choices.h"
#include "hw/learned.h"

struct vr_fit_ask vr_placement_ask(const struct vr_options *o, const struct vr_input *in, const struct vr_models *m,
                                   const struct vr_speeds *speeds);
/* Tells `ask` what split mode tensor did with its model before; `out` is what that is remembered by. */
void vr_placement_learned(struct vr_fit_ask *ask, const struct vr_learned *learned, struct vr_split *out);
enum vr_optimize vr_placement_optimize(const struct vr_options *o); /* --optimize */
/* --split-mode; VR_EUSAGE for one that the engine no longer has. */
bool vr_placement_splits(const struct vr_options *o, enum vr_splits *out, struct vr_err *err) VR_MUST_CHECK;
struct vr_open vr_placement_open(const struct vr_options *o); /* what they leave to the planner */
/* `ask` is changed where --allow lets it: a smaller context, a quantized cache. */
bool vr_placement_find(const struct vr_options *o, struct vr_fit_ask *ask, struct vr_outcome *out,
                       struct vr_err *err) VR_MUST_CHECK;
/* The prompt cache's share of host memory of which so much is left; --cache-ram decides. */
bool vr_placement_cache(const struct vr_options *o, uint64_t left_bytes, uint32_t *mib,
                        struct vr_err *err) VR_MUST_CHECK;

#endif
