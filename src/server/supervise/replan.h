/* A plan made again after a device ran out of memory: by another process (task.h), so that clients hear from us
 * meanwhile. It asks the devices again what they have free, and is told what was learned. */
#ifndef VR_SERVER_SUPERVISE_REPLAN_H
#define VR_SERVER_SUPERVISE_REPLAN_H

struct vr_front;

/* The engine that failed is gone. Ends with vr_worker_planned() or vr_worker_not_planned(). */
void vr_replan(struct vr_front *f);
/* Writes what was learned to its file. */
void vr_replan_keep(const struct vr_front *f);

#endif
