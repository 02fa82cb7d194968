/* What running out of memory teaches, and what a model that came up teaches; pure.
 *
 * An engine that failed says what its devices had free afterwards. With the parts of the plan that were still in place
 * then, that is all that could ever have been allocated: the next plan may use so much of the device and no more, less
 * a margin that doubles each time the same device fails. How much less that is than what the device reports is
 * remembered. An engine that could not say is given a sixteenth less, then an eighth, and so on. */
#ifndef VR_SERVER_SUPERVISE_RECOVERY_H
#define VR_SERVER_SUPERVISE_RECOVERY_H

#include <jansson.h>

#include "engine/wire/failure.h"
#include "hw/learned.h"
#include "server/supervise/engine_load.h"

/* Plans made again before one works; twice a device is the rule, and few have more than four. */
#define VR_MAX_RECOVERIES 12

/* Limits for the next plan. False: it was not the memory of a device of this plan, so no other plan helps. */
bool vr_recovery_failed(struct vr_learned *l, const struct vr_load *load, const struct vr_failure *f) VR_MUST_CHECK;
/* The next plan is there, for which devices were asked again: what is hidden is what they report beyond the limits. */
void vr_recovery_planned(struct vr_learned *l, const struct vr_load *next, int64_t now);
/* Within the limits there is no plan, but there may be one when other models have left, and the limits were for what
 * could be had beside them: they become what is hidden, and end. */
void vr_recovery_unplanned(struct vr_learned *l, const struct vr_load *last, int64_t now);
/* The engine is up: limits of this run end, and what is hidden is at most what the devices show now. True: something
 * worth keeping changed. */
bool vr_recovery_ready(struct vr_learned *l, const struct vr_load *load, const json_t *ready, int64_t now);

#endif
