/* What the files of this room share: the front as a whole and the clocks. Each part has a header of its own. */
#ifndef VR_SERVER_FRONT_H
#define VR_SERVER_FRONT_H

#include <stdint.h>

#include <event2/event.h>
#include <openssl/types.h>

#include "base/clock.h"
#include "server/http/auth.h"
#include "server/api/calls.h"
#include "server/api/queue.h"
#include "server/api/reader.h"
#include "server/dialect/response_store.h"
#include "server/fleet/fleet.h"
#include "server/http/clients.h"
#include "server/http/conn.h"
#include "server/supervise/reserve.h"
#include "server/supervise/task.h"
#include "server/api/folder_list.h"
#include "server/api/metrics.h"
#include "server/api/live_feed.h"
#include "server/served.h"
#include "server/server.h"
#include "server/supervise/supervise.h"

struct vr_front {
    const struct vr_server_config *config;
    struct event_base *base;
    struct vr_auth *auth;
    SSL_CTX *tls; /* NULL: plain HTTP */
    struct vr_clients clients;
    struct vr_conns conns;
    struct vr_calls calls;
    struct vr_readers *readers; /* of large bodies */
    struct vr_responses *responses;
    struct vr_folder_list folder;
    struct vr_buf gpus_json;  /* GET /api/gpus: always the same, made when it is first asked for */
    struct vr_served *models; /* the first is the default */
    size_t n_models;
    struct vr_fleet fleet;
    struct vr_reserve reserve; /* of descriptors */
    struct vr_metrics metrics;
    struct vr_tasks *tasks;         /* plans that the page asks for */
    struct vr_live_feed *live_feed; /* what the page sees live */
    uint64_t started_ms;
    int64_t started_unix; /* what "created" says about a model */
    uint16_t port;        /* that we listen on */
    char cpu_path[1024];  /* the CPU backend that the last engine proved to work; "": none yet, or one failed since */

    bool stopping;
    uint64_t stop_at_ms;
    int second_signal;
    struct vr_err fatal; /* why the loop ended, if it was not asked to */
};

/* Ends the loop with an error. */
void vr_front_fail(struct vr_front *f, const struct vr_err *why);

#endif
