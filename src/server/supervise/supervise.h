/* The engine process: started, watched, restarted.
 *
 * A child of ours speaks frames (engine/wire/wire.h) over one socket. When it dies, calls in flight end with an error
 * and a new one is started after a pause that doubles. When it fails because a device is out of memory, that device's
 * budget shrinks by what was missing (recovery.h) and a new plan is made by another process (replan.h), a bounded
 * number of times; what was learned is kept. When it crashes or hangs in split mode tensor, the new plan has whole
 * layers, and that is kept for this model, too. supervise.def says in which state what may happen, and what follows. */
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
struct vr_served;
struct event;
struct evbuffer;
struct vr_task;

#define VR_MAX_REQUEST_BYTES (64 << 20) /* of a REQUEST, as in wire.def */

enum vr_worker_state {
#define WORKER_STATE(name, told) VR_WORKER_##name,
#include "server/supervise/supervise.def"
#undef WORKER_STATE
    VR_N_WORKER_STATES
};

enum vr_worker_event {
    VR_ON_SAID_READY,  /* the frame READY */
    VR_ON_SAID_FAILED, /* the frame FAILED */
    VR_ON_SAID_SHORT,  /* FAILED, and another plan may help */
    VR_ON_BLAMED,      /* it died without a word, and another plan may help */
    VR_ON_HUNG_UP,     /* the end of its socket */
    VR_ON_EXITED,      /* the process is reaped */
    VR_ON_NOT_STARTED, /* there could be none */
    VR_ON_PLANNED,
    VR_ON_NOT_PLANNED,
    VR_ON_BLOCKED, /* there is no plan while others are busy */
    VR_ON_TIMER,
    VR_ON_RESTED,    /* the same, where it is loaded on demand */
    VR_ON_WANTED,    /* somebody asks for the model */
    VR_ON_HAS_ROOM,  /* who had to leave is gone */
    VR_ON_NOT_FREED, /* they are, but their memory is not free */
    VR_ON_UNLOAD,    /* it is to leave, or need not come any more */
    VR_ON_GAVE_UP,   /* no model was ever up, and none will be */
    VR_ON_STOP,      /* we are asked to end */
    VR_N_WORKER_EVENTS
};

/* Where an event leads from a state. False: it cannot happen there. Pure. */
bool vr_worker_next(enum vr_worker_state from, enum vr_worker_event event, enum vr_worker_state *to) VR_MUST_CHECK;

/* The deaths in a row that count when an engine ends that was up for so long: none after a time of health. Pure. */
unsigned vr_worker_deaths(unsigned before, uint64_t up_ms);
/* The pause after so many: it doubles with each, up to 30 s. Pure. */
uint64_t vr_worker_pause_ms(unsigned deaths, unsigned restart_ms);

struct vr_worker {
    struct vr_front *front;
    struct vr_served *model; /* that it holds, or would */
    enum vr_worker_state state;
    pid_t pid; /* 0: none */
    int fd;
    struct event *readable, *writable, *restart;
    struct evbuffer *out;       /* what the socket would not take yet */
    struct vr_buf in;           /* bytes that are not a whole frame yet */
    const struct vr_load *load; /* what the engine is started with: the last plan; NULL: none was made yet */
    struct vr_load replanned;   /* where that is, when it is not the first one */
    uint64_t host_bytes;        /* of that plan */
    struct vr_task *planning;   /* a plan, or a look whether memory is free (free_memory.h); NULL: none */
    bool split_off;             /* split mode tensor ended its engine, and is not tried again */
    bool hung;                  /* it was ended because it did not come on */
    bool came_up;               /* the last time that it was started or planned */
    unsigned n_ready;           /* times that a model was up */
    unsigned deaths;            /* in a row, each after less than a while of being up */
    unsigned replans;           /* in a row, since the last READY */
    unsigned n_starts, n_plans;
    int percent;
    uint64_t sent_bytes;   /* of loading: to other machines */
    uint64_t load_from_ms; /* when it began to load: the first PROGRESS */
    char stage[16];        /* of loading: "start", "load", "context", "warmup" */
    char trouble[1024];    /* why it is not ready; "" when nothing went wrong */
    json_t *in_the_way;    /* the same as data, where it has no place: kinds of fit/obstacles.def; NULL: none */
    uint64_t pause_ms;     /* before the next start */
    uint64_t plan_from_ms, planned_ms, started_ms, ready_ms, restart_at_ms, heard_ms, pulse_ms;
    uint64_t told_ms;           /* to end */
    double load_s;              /* what the last load took; 0: there was none */
    json_t *ready;              /* the READY frame; NULL until then */
    struct vr_buf status;       /* the last STATUS frame, JSON */
    struct vr_wire_pulse pulse; /* the last PULSE frame */
    unsigned n_seq;             /* from READY */
};

/* Megabytes per second of what is sent to other machines while it loads; 0: nothing is. */
double vr_worker_sent_mb_s(const struct vr_worker *e);

bool vr_worker_open(struct vr_worker *e, struct vr_served *model, struct vr_err *err) VR_MUST_CHECK;
void vr_worker_close(struct vr_worker *e); /* kills it; accepts one that was never opened */
/* With the plan that the configuration has. */
bool vr_worker_start(struct vr_worker *e, struct vr_err *err) VR_MUST_CHECK;
/* Says STOP: what runs may end within ms. */
void vr_worker_stop(struct vr_worker *e, uint32_t ms);
/* SIGCHLD came, which may be about it. */
void vr_worker_reap(struct vr_worker *e);
/* Once a second. */
void vr_worker_tick(struct vr_worker *e, uint64_t now_ms);

/* On demand (server/fleet): a model that is DOWN is planned; once it has a plan it waits in ROOM until it is told that
 * there is room; and it leaves, or its load is given up. */
void vr_worker_load(struct vr_worker *e);
void vr_worker_has_room(struct vr_worker *e);
/* There is none yet, and what is missing is taken over: it is planned again, with what there is. */
void vr_worker_not_freed(struct vr_worker *e, json_t *in_the_way);
void vr_worker_unload(struct vr_worker *e);
/* Nobody waits for it any more: what was in its way is no trouble. */
void vr_worker_forgive(struct vr_worker *e);

/* False: there is no engine to send to, or it has not taken what it was sent before. */
bool vr_worker_send(struct vr_worker *e, enum vr_wire_kind kind, uint32_t id, const void *payload,
                    size_t n) VR_MUST_CHECK;

/* Another plan is there, which is taken over, or there is none, and why; `in_the_way`, which is taken over, may be
 * NULL.
 */
void vr_worker_planned(struct vr_worker *e, struct vr_load *next);
void vr_worker_not_planned(struct vr_worker *e, const struct vr_err *why, json_t *in_the_way);

/* "loading", "ready", "restarting", "stopping", "failed", "unloaded", "unloading" */
const char *vr_worker_state_name(enum vr_worker_state s);
/* Seconds until another try is worth while. */
unsigned vr_worker_retry_s(const struct vr_worker *e);

#endif
