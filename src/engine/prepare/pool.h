/* The workers that prepare requests, as the engine process sees them. One thread owns all of this: it polls the
 * descriptors together with its own and gives the pool its turn.
 *
 * A request waits in arrival order for an idle worker. Two are there from the start; when a request waits and none is
 * idle, one more is forked, up to VR_MOST_WORKERS: what takes long never holds up what does not. One client has at most
 * VR_MOST_OF_CLIENT of them. A worker that exceeds its budget (budget.h), crashes or sleeps is killed, its request is
 * refused, and another takes its place. */
#ifndef VR_ENGINE_PREPARE_POOL_H
#define VR_ENGINE_PREPARE_POOL_H

#include <poll.h>

#include "engine/prepare/worker.h"
#include "engine/prepare/zygote.h"

#define VR_POOL_FDS       (1 + VR_MOST_WORKERS)
#define VR_MOST_OF_CLIENT (VR_MOST_WORKERS / 2)

/* A request that is prepared; part of the caller's. */
struct vr_prepare_job {
    struct vr_prepare_job *next;
    uint64_t client;
    const char *body; /* the caller's, until the job is done or dropped */
    size_t n_body;
    double added_ms;
};

struct vr_pool;

struct vr_pool_hooks {
    /* It is prepared: the answer's bytes for vr_prepared_read(), which the callee takes over; or it is refused. */
    void (*done)(void *ctx, struct vr_prepare_job *job, struct vr_buf *answer);
    void (*refused)(void *ctx, struct vr_prepare_job *job, const struct vr_refusal *why);
    void *ctx;
};

/* Forks the zygote; `not_there` is a descriptor that it must not keep. Before any thread, and before any backend is
 * loaded. */
struct vr_pool *vr_pool_start(const char *model, const char *chat_template_or_null, int not_there,
                              const struct vr_pool_hooks *hooks, struct vr_err *err) VR_MUST_CHECK;

/* The descriptors to wait for, and how long at most (-1: no limit). */
int vr_pool_wait(const struct vr_pool *p, struct pollfd fds[VR_POOL_FDS]);
/* What happened. False and err: the zygote is gone, or no worker can be had; there will be no more results. */
bool vr_pool_turn(struct vr_pool *p, const struct pollfd fds[VR_POOL_FDS], struct vr_err *err) VR_MUST_CHECK;

/* Whether the template was tried, and what came of it. */
bool vr_pool_hello(const struct vr_pool *p, struct vr_prepare_hello *out) VR_MUST_CHECK;
/* What every request is prepared for; before the first. */
void vr_pool_set_facts(struct vr_pool *p, const struct vr_prepare_facts *facts);

void vr_pool_add(struct vr_pool *p, struct vr_prepare_job *job);
/* Nobody wants it any more. False: it is not here. */
bool vr_pool_drop(struct vr_pool *p, const struct vr_prepare_job *job);

struct vr_pool_state {
    unsigned n_waiting, n_running; /* requests */
    double oldest_ms;              /* since the oldest of them came; 0: none */
};
struct vr_pool_state vr_pool_state(const struct vr_pool *p);

#endif
