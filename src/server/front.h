/* What the files of this room share: the front as a whole and the clocks. Each part has a header of its own. */
#ifndef VR_SERVER_FRONT_H
#define VR_SERVER_FRONT_H

#include <stdint.h>

#include <event2/event.h>
#include <openssl/types.h>

#include "base/clock.h"
#include "server/http/auth.h"
#include "server/api/calls.h"
#include "server/http/conn.h"
#include "server/supervise/task.h"
#include "server/api/metrics.h"
#include "server/api/live_feed.h"
#include "server/server.h"
#include "server/supervise/supervise.h"

struct vr_front {
    const struct vr_server_config *config;
    struct event_base *base;
    struct vr_auth *auth;
    SSL_CTX *tls; /* NULL: plain HTTP */
    struct vr_conns conns;
    struct vr_calls calls;
    struct vr_worker engine;
    struct vr_metrics metrics;
    struct vr_tasks *tasks;         /* plans that the page asks for */
    struct vr_live_feed *live_feed; /* what the page sees live */
    uint64_t started_ms;
    int64_t started_unix;     /* what "created" says about the model */
    char fingerprint[24];     /* system_fingerprint: changes with the program and the model */
    struct vr_buf model_json; /* the model's id as a JSON string */
    uint16_t port;            /* that we listen on */

    bool stopping;
    uint64_t stop_at_ms;
    int second_signal;
    struct vr_err fatal; /* why the loop ended, if it was not asked to */
};

/* Ends the loop with an error. */
void vr_front_fail(struct vr_front *f, const struct vr_err *why);
/* The model as clients name it: its id, or the file's name with or without ".gguf". */
bool vr_front_is_model(const struct vr_front *f, const char *name);

#endif
