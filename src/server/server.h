/* The front: HTTP on one side, one engine process on the other, one thread and one event loop between them.
 *
 * It listens before the model is loaded, never loads a model itself, and survives its engine: a crash ends the
 * requests in flight with an error that says so, and a new engine is started. */
#ifndef VR_SERVER_SERVER_H
#define VR_SERVER_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "hw/learned.h"
#include "server/supervise/engine_load.h"

struct vr_limits {
    unsigned max_connections;  /* open at the same time; the next one gets 503 */
    unsigned max_queue;        /* texts waiting beyond those that run; the next one gets 429 */
    uint64_t max_body_bytes;   /* of one request */
    uint64_t max_memory_bytes; /* of all request bodies, and of all output that waits for its readers */
    unsigned header_seconds;   /* a request's head must be complete after so long */
    unsigned idle_seconds;     /* a connection without a request is closed */
    unsigned stall_seconds;    /* a client that reads nothing for so long is dropped */
    unsigned stop_seconds;     /* on SIGTERM, answers may finish for so long */
    unsigned silent_seconds;   /* an engine with work that says nothing for so long is ended */
    unsigned restart_ms;       /* before the first restart of an engine; doubles up to 30 s */
};
struct vr_limits vr_limits_default(void);

/* The caller owns everything in here until vr_server_run returns. */
struct vr_server_config {
    const char *host; /* name or address */
    uint16_t port;    /* 0: any free one */
    const char *tls_cert, *tls_key;

    const char *const *api_keys; /* NULL-terminated; none: no key is asked for */
    const char *const *cors;     /* origins that may call us from a browser, "*" for all; NULL-terminated */
    const char *const *hosts;    /* names that a Host header may have beside the obvious ones; NULL-terminated */

    const char *model_id, *model_path;
    const char *const *engine_argv; /* program and arguments; "%d" stands for the descriptor */
    const struct vr_load *load;     /* the first plan */
    /* A program that plans again after a device ran out of memory: what was learned (hw/learned.h, with this run's
     * limits) comes on its stdin, and it prints a struct vr_load (engine_load.h). NULL: out of memory is final. */
    const char *const *replan_argv;
    /* NULL, or told what the front does: "loading" with a percentage, "ready", "restarting", "stopping". */
    void (*tell)(void *ctx, const char *state, int percent);
    /* On SIGHUP: opens the log again and gives the keys as they are now, valid until the next call. NULL: SIGHUP stops
     * us, as the end of a terminal should. */
    bool (*reload)(void *ctx, const char *const **api_keys, struct vr_err *err);
    void *ctx;
    struct vr_learned *learned; /* known before; changes */
    const char *learned_path;   /* written when it does; NULL: nowhere */

    const char *models_dir; /* whose GGUF files the page may plan with; absolute; NULL: none */

    struct vr_limits limits;
};

/* Serves until SIGTERM or SIGINT. True after a stop that was asked for; *signal is the number of a second signal that
 * cut it short, or 0. */
bool vr_server_run(const struct vr_server_config *c, int *signal, struct vr_err *err) VR_MUST_CHECK;

/* An address that only this computer can reach: localhost, 127.0.0.0/8, ::1. */
bool vr_host_is_loopback(const char *host);

#endif
