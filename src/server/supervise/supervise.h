/* The engine process: started, watched, restarted.
 *
 * A child of ours speaks frames (engine/wire.h) over one socket. When it dies, calls in flight end with an error and a
 * new one is started after a pause that doubles. When it fails because a device is out of memory, that device's budget
 * shrinks by what was missing (heal.h) and a new plan is made by another process, a bounded number of times; what was
 * learned is kept. */
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
    VR_WORKER_LOADING, /* a process runs and has not said READY */
    VR_WORKER_READY,
    VR_WORKER_RESTARTING, /* no process: a timer runs */
    VR_WORKER_STOPPING,
    VR_WORKER_GONE, /* no process, and none will come */
};

struct vr_worker {
    enum vr_worker_state state;
    pid_t pid; /* 0: none */
    int fd;
    struct event *readable, *writable, *child, *restart, *tick;
    struct evbuffer *out;              /* what the socket would not take yet */
    struct vr_buf in;                  /* bytes that are not a whole frame yet */
    struct vr_load load;               /* replaced by replan; empty: config->load */
    bool replanned, was_ready, failed; /* failed: this process said FAILED */
    bool must_plan;                    /* and another plan may help, once it is gone */
    struct vr_tasks *tasks;
    struct vr_task *planning; /* NULL: none */
    unsigned attempts;        /* since the last time it was ready for a while */
    unsigned heals;           /* plans made again since the last READY */
    unsigned n_starts, n_plans;
    int percent;
    char moment[16];   /* of loading: "load", "context", "warmup" */
    char trouble[512]; /* why it is not ready; "" when nothing went wrong */
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

/* A new process after so many milliseconds, or after a pause that doubles each time. */
void vr_worker_restart(struct vr_front *f, uint64_t ms);
void vr_worker_restart_later(struct vr_front *f);
/* What the engine is started with: the last plan. */
const struct vr_load *vr_worker_load(const struct vr_front *f);

const char *vr_worker_state_name(enum vr_worker_state s);
/* Seconds until another try is worth while. */
unsigned vr_worker_retry_s(const struct vr_front *f);

#endif
