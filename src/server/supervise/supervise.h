/* The engine process: started, watched, restarted.
 *
 * A child of ours speaks frames (engine/wire/wire.h) over one socket. When it dies, calls in flight end with an error
 * and a new one is started after a pause that doubles. When it fails because a device is out of memory, that device's
 * budget shrinks by what was missing (recovery.h) and a new plan is made by another process (replan.h), a bounded
 * number of times; what was learned is kept. supervise.def says in which state what may happen, and what follows. */
#ifndef VR_SERVER_SUPERVISE_SUPERVISE_H
#define VR_SERVER_SUPERVISE_SUPERVISE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/err.h"
#include "engine/wire/wire.h"
#include "server/server.h"

struct vr_front;
struct event;
struct evbuffer;
struct vr_task;
struct vr_tasks;

enum vr_worker_state {
#define WORKER_STATE(name, told) VR_WORKER_##name,
#include "server/supervise/supervise.def"
#undef WORKER_STATE
    VR_N_WORKER_STATES
};

enum vr_worker_event {
    VR_ON_SAID_READY,  /* the frame READY */
    VR_ON_SAID_FAILED, /* the frame FAILED */
    VR_ON_SAID_SHORT,  /* FAILED, and a plan with less may help */
    VR_ON_HUNG_UP,     /* the end of its socket */
    VR_ON_EXITED,      /* the process is reaped */
    VR_ON_NOT_STARTED, /* there could be none */
    VR_ON_PLANNED,
    VR_ON_NOT_PLANNED,
    VR_ON_TIMER,
    VR_ON_GAVE_UP, /* no model was ever up, and none will be */
    VR_ON_STOP,    /* we are asked to end */
    VR_N_WORKER_EVENTS
};

/* Where an event leads from a state. False: it cannot happen there. Pure. */
bool vr_worker_next(enum vr_worker_state from, enum vr_worker_event event, enum vr_worker_state *to) VR_MUST_CHECK;

struct vr_worker {
    enum vr_worker_state state;
    pid_t pid; /* 0: none */
    int fd;
    struct event *readable, *writable, *child, *restart, *tick;
    struct evbuffer *out;       /* what the socket would not take yet */
    struct vr_buf in;           /* bytes that are not a whole frame yet */
    const struct vr_load *load; /* what the engine is started with: the last plan */
    struct vr_load replanned;   /* where that is, when it is not the first one */
    struct vr_tasks *tasks;
    struct vr_task *planning; /* NULL: none */
    unsigned n_ready;         /* times that a model was up */
    unsigned deaths;          /* in a row, each after less than a while of being up */
    unsigned replans;         /* in a row, since the last READY */
    unsigned n_starts, n_plans;
    int percent;
    char stage[16];     /* of loading: "start", "load", "context", "warmup" */
    char trouble[1024]; /* why it is not ready; "" when nothing went wrong */
    uint64_t pause_ms;  /* before the next start */
    uint64_t started_ms, ready_ms, restart_at_ms, heard_ms;
    json_t *ready;        /* the READY frame; NULL until then */
    struct vr_buf status; /* the last STATUS frame, JSON */
    unsigned n_seq;       /* from READY */
};

bool vr_worker_open(struct vr_front *f, struct vr_err *err) VR_MUST_CHECK;
void vr_worker_close(struct vr_front *f); /* kills it */
/* Says STOP: what runs may end within ms. */
void vr_worker_stop(struct vr_front *f, uint32_t ms);

/* False: there is no engine to send to, or it has not taken what it was sent before. */
bool vr_worker_send(struct vr_front *f, enum vr_wire_kind kind, uint32_t id, const void *payload,
                    size_t n) VR_MUST_CHECK;

/* Another plan is there, which is taken over, or there is none, and why. */
void vr_worker_planned(struct vr_front *f, struct vr_load *next);
void vr_worker_not_planned(struct vr_front *f, const struct vr_err *why);

/* "loading", "ready", "restarting", "stopping", "failed" */
const char *vr_worker_state_name(enum vr_worker_state s);
/* Seconds until another try is worth while. */
unsigned vr_worker_retry_s(const struct vr_front *f);

#endif
