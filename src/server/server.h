/* The front: HTTP on one side, an engine process for each model that is up on the other, one thread and one event loop
 * between them. Threads beside it parse large bodies and know nothing else.
 *
 * It listens before a model is loaded, never loads a model itself, and survives its engines: a crash ends the
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
    unsigned max_connections;   /* open at the same time; then idle ones of the address with the most make room */
    unsigned max_queue;         /* texts waiting beyond those that run; then those of the greediest client make room */
    uint64_t max_body_bytes;    /* of one request */
    uint64_t max_memory_bytes;  /* of all request bodies, and of all output that waits for its readers */
    unsigned header_seconds;    /* a request's head must be complete after so long */
    unsigned body_seconds;      /* a body that sends nothing for so long, or less than body_rate, is ended */
    unsigned body_rate;         /* bytes per second that a body must come with, over any body_seconds */
    unsigned idle_seconds;      /* a connection without a request is closed */
    unsigned stall_seconds;     /* a client that reads nothing for so long is dropped */
    unsigned stop_seconds;      /* on SIGTERM, answers may finish for so long */
    unsigned silent_seconds;    /* an engine with work that says nothing for so long is ended */
    unsigned restart_ms;        /* before the first restart of an engine; doubles up to 30 s */
    unsigned load_wait_seconds; /* a request waits at most so long for its model to be loaded */
};
struct vr_limits vr_limits_default(void);

/* A model that is served. */
struct vr_served_config {
    const char *id, *path;
    const char *const *aliases; /* NULL-terminated; NULL: none */
    const struct vr_load *load; /* the first plan; NULL: it is planned when it is wanted */
    /* A program that plans, on demand and again after a device ran out of memory (supervise/replan.h): it prints a
     * struct vr_load (engine_load.h). NULL: out of memory is final. */
    const char *const *replan_argv;
    uint64_t bytes;    /* of its files */
    bool pin, preload; /* never leaves; is loaded at the start */
    unsigned ttl_s;    /* without use, then it leaves; 0: it stays until its memory is needed */
};

/* The caller owns everything in here until vr_server_run returns. */
struct vr_server_config {
    const char *host; /* name or address */
    uint16_t port;    /* 0: any free one */
    const char *tls_cert, *tls_key;

    const char *const *api_keys; /* NULL-terminated; none: no key is asked for */
    bool share_cache;            /* prompts of one key may be reused for another's */
    const char *const *cors;     /* origins that may call us from a browser, "*" for all; NULL-terminated */
    const char *const *hosts;    /* names that a Host header may have beside the obvious ones; NULL-terminated */

    const struct vr_served_config *models; /* the first is the default */
    size_t n_models;
    bool on_demand;  /* models are loaded when they are wanted; else there is one, which has a plan and stays */
    bool any_model;  /* unknown names mean the default */
    bool ask_driver; /* the devices are this computer's: memory is free when their driver says so */
    const char *const *engine_argv; /* program and arguments; "%d" stands for the descriptor */
    /* NULL, or told what the front does: "loading" with a percentage, "ready", "restarting", "stopping". */
    void (*tell)(void *ctx, const char *state, int percent);
    /* On SIGHUP: opens the log again and gives the keys as they are now, valid until the next call. NULL: SIGHUP stops
     * us, as the end of a terminal should. */
    bool (*reload)(void *ctx, const char *const **api_keys, struct vr_err *err);
    void *ctx;
    struct vr_learned *learned; /* known before; changes */
    const char *learned_path;   /* written when it does; NULL: nowhere */

    const char *models_dir; /* whose GGUF files the page may plan with; absolute; NULL: none */
    bool hub_plans;         /* it may plan for models on the hub, too */
    bool manage;            /* every client may, also where several share the server (api/manage.h) */

    struct vr_limits limits;
};

/* Serves until SIGTERM or SIGINT. True after a stop that was asked for; *signal is the number of a second signal that
 * cut it short, or 0. */
bool vr_server_run(const struct vr_server_config *c, int *signal, struct vr_err *err) VR_MUST_CHECK;

#define VR_MAX_HOST 256
/* The first of addresses with commas between them; returns where the next one begins, NULL: it was the last. */
const char *vr_host_next(const char *list, char host[VR_MAX_HOST]);
/* Addresses that only this computer can reach: localhost, 127.0.0.0/8, ::1. */
bool vr_hosts_are_loopback(const char *list);

#endif
