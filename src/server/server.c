#include "server/server.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include <event2/event.h>
#include <openssl/ssl.h>

#include "base/log.h"
#include "server/front.h"
#include "server/http/tls.h"

enum { N_SIGNALS = 3 };
#define OTHER_FDS         64 /* that are no connections: log, engine, libraries */
#define FEW_CONNS         16 /* where not even these can be had, connections wait for descriptors */
#define MAX_PLANS         2  /* that are made at the same time for the page */
#define MAX_PLANS_WAITING 16

struct vr_limits vr_limits_default(void)
{
    return (struct vr_limits){ .max_connections = 8192,
                               .max_queue = 256,
                               .max_body_bytes = 16 << 20,
                               .max_memory_bytes = 256 << 20,
                               .header_seconds = 10,
                               .body_seconds = 10,
                               .body_rate = 4096,
                               .idle_seconds = 75,
                               .stall_seconds = 30,
                               .stop_seconds = 30,
                               .silent_seconds = 600,
                               .restart_ms = 500,
                               .load_wait_seconds = 300 };
}

void vr_front_fail(struct vr_front *f, const struct vr_err *why)
{
    if (!f->fatal.code) f->fatal = *why;
    event_base_loopexit(f->base, NULL);
}

/* --- signals --- */

static void on_stop(evutil_socket_t sig, short what, void *ctx)
{
    (void)what;
    struct vr_front *f = ctx;
    if (f->stopping) { /* at once */
        f->second_signal = sig;
        event_base_loopbreak(f->base);
        return;
    }
    f->stopping = true;
    f->stop_at_ms = vr_now_ms() + f->config->limits.stop_seconds * 1000;
    char open[16];
    snprintf(open, sizeof open, "%u", f->calls.n);
    vr_log_fields(VR_INFO, (const struct vr_field[]){ { "requests", open }, { 0 } },
                  "stopping: running requests have %u s to finish; a second signal ends them at once",
                  f->config->limits.stop_seconds);
    vr_conns_stop(f);
    vr_calls_fail_waiting(f, 503, "stopping", "the server is stopping, and this request had not begun");
    vr_fleet_stop(f, f->config->limits.stop_seconds * 1000);
    if (f->config->tell) f->config->tell(f->config->ctx, "stopping", 0);
}

static struct vr_auth *make_auth(const struct vr_server_config *c, const char *const *keys, struct vr_err *err)
{
    return vr_auth_new(
        &(struct vr_auth_config){ .keys = keys, .origins = c->cors, .hosts = c->hosts, .bound = c->host }, err);
}

/* Keys and certificate again; what cannot be read leaves both as they were. Connections that are open stay. */
static void on_reload(evutil_socket_t sig, short what, void *ctx)
{
    (void)sig;
    (void)what;
    struct vr_front *f = ctx;
    const struct vr_server_config *c = f->config;
    const char *const *keys = NULL;
    struct vr_err err = { 0 };
    vr_reserve_release(&f->reserve);
    struct vr_auth *auth = c->reload(c->ctx, &keys, &err) ? make_auth(c, keys, &err) : NULL;
    SSL_CTX *tls = auth && c->tls_cert ? vr_tls_open(c->tls_cert, c->tls_key, &err) : NULL;
    vr_reserve_fill(&f->reserve);
    if (!auth || (c->tls_cert && !tls)) {
        vr_log(VR_ERROR, "%s; API keys and certificate are unchanged", err.msg);
        vr_auth_free(auth);
        return;
    }
    vr_auth_follow(auth, f->auth);
    vr_auth_free(f->auth);
    f->auth = auth;
    SSL_CTX_free(f->tls);
    f->tls = tls;
    vr_log(VR_INFO, "reloaded %s%s", vr_auth_has_keys(auth) ? "API keys" : "the settings",
           tls ? " and the certificate" : "");
}

/* --- the loop --- */

/* As many descriptors as we need; fewer connections where so many are not to be had. */
static unsigned raise_descriptors(unsigned want)
{
    const rlim_t beside = OTHER_FDS + VR_RESERVE_FDS + VR_SPARE_CONNS;
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) != 0) return want;
    if (r.rlim_cur < want + beside) {
        r.rlim_cur = r.rlim_max < want + beside ? r.rlim_max : want + beside;
        setrlimit(RLIMIT_NOFILE, &r);
    }
    if (getrlimit(RLIMIT_NOFILE, &r) != 0 || r.rlim_cur >= want + beside) return want;
    return r.rlim_cur > beside + FEW_CONNS ? (unsigned)(r.rlim_cur - beside) : want;
}

static bool open_models(struct vr_front *f, struct vr_err *err)
{
    const struct vr_server_config *c = f->config;
    f->models = calloc(c->n_models, sizeof *f->models);
    if (!f->models) return vr_fail_nomem(err, "starting the server");
    for (; f->n_models < c->n_models; f->n_models++)
        if (!vr_served_open(&f->models[f->n_models], f, &c->models[f->n_models], err)) return f->n_models++, false;
    return true;
}

static void say_where(const struct vr_front *f)
{
    char host[VR_MAX_HOST];
    for (const char *next = f->config->host; next;) {
        next = vr_host_next(next, host);
        bool v6 = strchr(host, ':') != NULL;
        vr_log(VR_INFO, "listening on %s://%s%s%s:%u%s", f->tls ? "https" : "http", v6 ? "[" : "", host, v6 ? "]" : "",
               f->port, vr_auth_has_keys(f->auth) ? ", with API keys" : "");
    }
}

static bool front_open(struct vr_front *f, struct event **signals, struct vr_err *err)
{
    const struct vr_server_config *c = f->config;
    f->base = event_base_new();
    vr_clients_init(&f->clients, 2 * (size_t)(c->limits.max_connections + VR_SPARE_CONNS));
    if (f->base) f->readers = vr_readers_new(f->base, &f->clients);
    f->responses = vr_responses_new(VR_RESPONSES_CLIENT_BYTES, VR_RESPONSES_BYTES);
    if (!f->readers || !f->responses || !vr_calls_init(&f->calls)) return vr_fail_nomem(err, "starting the server");
    f->started_ms = vr_now_ms();
    f->started_unix = time(NULL);
    if (!open_models(f, err)) return false;
    f->auth = make_auth(c, c->api_keys, err);
    if (!f->auth || (c->tls_cert && !(f->tls = vr_tls_open(c->tls_cert, c->tls_key, err))) || !vr_conns_open(f, err))
        return false;
    const int numbers[N_SIGNALS] = { SIGTERM, SIGINT, SIGHUP };
    for (size_t i = 0; i < N_SIGNALS; i++) {
        bool again = numbers[i] == SIGHUP && c->reload;
        signals[i] = evsignal_new(f->base, numbers[i], again ? on_reload : on_stop, f);
        if (!signals[i] || event_add(signals[i], NULL) != 0) return vr_fail_nomem(err, "starting the server");
    }
    vr_reserve_fill(&f->reserve);
    f->tasks = vr_tasks_new(f->base, MAX_PLANS, MAX_PLANS_WAITING);
    f->live_feed = vr_live_feed_new(f);
    if (!f->tasks || !f->live_feed) return vr_fail_nomem(err, "starting the server");
    say_where(f);
    return vr_fleet_open(f, err);
}

static void front_close(struct vr_front *f, struct event **signals)
{
    vr_conns_close(f);
    vr_live_feed_free(f->live_feed);
    vr_tasks_free(f->tasks);
    vr_fleet_close(f);
    for (size_t i = 0; i < f->n_models; i++) vr_worker_close(&f->models[i].engine);
    vr_reserve_release(&f->reserve);
    vr_readers_free(f->readers);
    vr_responses_free(f->responses);
    vr_buf_done(&f->gpus_json);
    vr_folder_list_done(&f->folder);
    vr_calls_done(f);
    for (size_t i = 0; i < f->n_models; i++) vr_served_close(&f->models[i]);
    free(f->models);
    vr_clients_done(&f->clients);
    for (size_t i = 0; i < N_SIGNALS; i++)
        if (signals[i]) event_free(signals[i]);
    if (f->base) event_base_free(f->base);
    SSL_CTX_free(f->tls);
    vr_auth_free(f->auth);
}

bool vr_server_run(const struct vr_server_config *c, int *signal_number, struct vr_err *err)
{
    /* Large buffers come and go with requests: given back to the system, not kept in the heap. */
    mallopt(M_MMAP_THRESHOLD, 256 << 10);
    mallopt(M_TRIM_THRESHOLD, 1 << 20);
    signal(SIGPIPE, SIG_IGN);
    json_object_seed(0); /* from the system's randomness: keys of a request cannot be made to collide */
    struct vr_server_config own = *c;
    own.limits.max_connections = raise_descriptors(c->limits.max_connections);
    struct event *signals[N_SIGNALS] = { 0 };
    VR_AUTO_FREE struct vr_front *f = calloc(1, sizeof *f);
    if (!f) return vr_fail_nomem(err, "starting the server");
    f->config = &own;
    bool ok = front_open(f, signals, err);
    if (ok) event_base_dispatch(f->base);
    *signal_number = f->second_signal;
    if (ok && f->fatal.code) {
        if (err) *err = f->fatal;
        ok = false;
    }
    front_close(f, signals);
    return ok;
}
