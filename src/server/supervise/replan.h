/* A plan made by another process (task.h), so that clients hear from us meanwhile: for a model that is loaded on
 * demand, and again after a device ran out of memory. It asks the devices what they have free, and is told on its
 * standard input what was learned (hw/learned.h) and who is there: {what was learned,
 * "residents":[{"model":ID,"pinned":bool,"busy":bool,"cost_s":seconds that loading it again would
 *    take,"last_used_s":age,"devices":{KEY:bytes},"host":bytes,
 *    "host_now":bytes of that which it has taken,"before":{KEY:bytes that were free before it began to load, 0 if it
 * has not}}]} KEY is what a device is called for good, as in a struct vr_load_device: an engine sees the devices of its
 * own plan alone, and its names for them are nobody else's. "before" is told of those that are being loaded. The answer
 * is a struct vr_load, with those that have to leave. */
#ifndef VR_SERVER_SUPERVISE_REPLAN_H
#define VR_SERVER_SUPERVISE_REPLAN_H

#include <jansson.h>

#include "base/err.h"
#include "fit/residents.h"
#include "server/supervise/engine_load.h"
#include "server/supervise/task.h"

struct vr_front;
struct vr_served;
struct vr_worker;

/* There is no engine, or it is gone. Ends with vr_worker_planned() or vr_worker_not_planned(). */
void vr_replan(struct vr_worker *e);
/* Writes what was learned to its file. */
void vr_replan_keep(struct vr_front *f);

/* The same for whoever wants to know, who reads the answer with vr_replan_read(). Nothing is loaded. `patient`: busy
 * models may be told to leave. `whose`: who wants to know, as task.h tells them apart; those wait for each other, and
 * no load waits for them. */
struct vr_task *vr_replan_ask(const struct vr_served *m, bool patient, const void *whose, vr_task_done *done, void *ctx,
                              struct vr_err *err) VR_MUST_CHECK;
/* What a task that planned answered; `out` is zeroed. */
bool vr_replan_read(const struct vr_child_end *end, const struct vr_err *why, struct vr_load *out,
                    struct vr_err *err) VR_MUST_CHECK;

/* What stands in the way, of a task that planned in vain: a list of kinds (fit/obstacles.def) with their figures, which
 * the caller owns; NULL: nothing is known. */
json_t *vr_replan_in_the_way(const struct vr_child_end *end);
bool vr_in_the_way_has(const json_t *list, enum vr_obstacle kind);

#endif
