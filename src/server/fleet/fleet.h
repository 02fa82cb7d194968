/* The fleet: which of the models are up, who is loaded next, and who leaves for it.
 *
 * Every model has an engine process of its own (supervise.h) or none. One at a time is decided on: the one that is
 * wanted for the longest is planned by another process (replan.h), which is told who is there with how many bytes and
 * answers where the newcomer goes and who has to leave for it: idle models that are not pinned. Models that share no
 * device load side by side; one that would go where another is being loaded is planned again when that is over. Those
 * are sent nothing more, end when what runs has ended, and count as gone when their processes are reaped and the driver
 * says that their memory is free (free_memory.h); then the newcomer is loaded. Where only busy models are in its way,
 * it is planned again when one of them has had its time (stay.h), or when memory was freed. A load that nobody waits
 * for any more is given up.
 *
 * All of that is decided in one place, on_step(), which looks at every model and can be called at any time; whatever
 * changes says vr_fleet_changed(), and it comes with the next turn of the loop. A server with one model that stays uses
 * the same path, in which that model is always wanted and nobody leaves. */
#ifndef VR_SERVER_FLEET_FLEET_H
#define VR_SERVER_FLEET_FLEET_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "base/err.h"

struct event;
struct vr_front;
struct vr_served;
struct vr_tasks;

struct vr_fleet {
    struct event *step, *child, *tick;
    struct vr_tasks *tasks; /* that plan */
    uint64_t n_freed;       /* times that a model became idle or left */
    uint64_t n_planned;     /* plans that were taken over */
};

bool vr_fleet_open(struct vr_front *f, struct vr_err *err) VR_MUST_CHECK; /* the models are open */
void vr_fleet_close(struct vr_front *f);
/* All engines are told to end; the loop does when they have. */
void vr_fleet_stop(struct vr_front *f, uint32_t ms);

/* Something is different: a state, a request, what was asked for. */
void vr_fleet_changed(struct vr_front *f);
/* The same, and memory may be had now that could not be had before. */
void vr_fleet_freed(struct vr_front *f);

/* There is no plan for `m` now. True: busy models are in its way, and it waits for them. */
bool vr_fleet_waits(struct vr_served *m, const struct vr_err *why) VR_MUST_CHECK;
/* There is a plan for `m`. True: it is not carried out, since another model is being loaded on a device of it, or was
 * planned meanwhile; `m` is planned again. `*in_the_way` is the caller's. */
bool vr_fleet_defers(struct vr_served *m, json_t **in_the_way) VR_MUST_CHECK;
/* Who is there beside `newcomer`, for the process that plans (replan.h). `patient`: busy ones count as idle, because
 * they can be waited for. */
json_t *vr_fleet_residents(const struct vr_served *newcomer, bool patient);

/* It is to be up, or to leave. */
void vr_fleet_ask(struct vr_served *m);
void vr_fleet_dismiss(struct vr_served *m);
void vr_fleet_pin(struct vr_served *m, bool pinned);
/* It leaves after so long without use from now on, until it has left; negative: it stays. */
void vr_fleet_keep(struct vr_served *m, int64_t ttl_ms);

/* As users are told: "unloaded", "queued", "planning", "making_room", "loading", "ready", "unloading", "restarting",
 * "failed". */
const char *vr_fleet_state(const struct vr_served *m);
/* A request for it that was not sent waits for more than its turn. */
bool vr_fleet_is_coming(const struct vr_served *m);

#endif
