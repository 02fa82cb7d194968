/* What running out of memory teaches, and what a model that came up teaches; pure.
 *
 * An engine that failed says what its devices had free afterwards. With the parts of the plan that were still in place
 * then, that is all that could ever have been allocated: the next plan may use so much of the device and no more, less
 * a margin that doubles each time the same device fails. How much less that is than what the device reports is
 * remembered. An engine that could not say is given a sixteenth less, then an eighth, and so on. */
#ifndef VR_SERVER_SUPERVISE_RECOVERY_H
#define VR_SERVER_SUPERVISE_RECOVERY_H

#include <jansson.h>

#include "hw/learned.h"
#include "server/supervise/engine_load.h"

#define VR_MAX_RECOVERIES                                                                                              \
    12 /* plans made again before one works; twice a device is the rule, and few have more than four                   \
        */

/* A FAILED frame. */
struct vr_failed {
    enum vr_moment_of moment;
    bool out_of_memory;
    char device[32]; /* as the engine calls it; "" unknown */
    uint64_t asked_bytes, missing_bytes;
    struct {
        char name[32];
        uint64_t free_bytes;
    } left[VR_MAX_LOAD_DEVICES];
    size_t n_left;
    char message[512];
};
bool vr_failed_read(const void *json, size_t n, struct vr_failed *out) VR_MUST_CHECK;

/* Limits for the next plan. False: it was not the memory of a device of this plan, so no other plan helps. */
bool vr_recovery_failed(struct vr_learned *l, const struct vr_load *load, const struct vr_failed *f) VR_MUST_CHECK;
/* The next plan is there, for which devices were asked again: what is hidden is what they report beyond the limits. */
void vr_recovery_planned(struct vr_learned *l, const struct vr_load *next, int64_t now);
/* The engine is up: limits of this run end, and what is hidden is at most what the devices show now. True: something
 * worth keeping changed. */
bool vr_recovery_ready(struct vr_learned *l, const struct vr_load *load, const json_t *ready, int64_t now);

#endif
