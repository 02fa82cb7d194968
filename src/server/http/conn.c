#include "server/http/conn.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <event2/listener.h>
#include <openssl/ssl.h>

#include "base/log.h"
#include "server/front.h"
#include "server/http/routes.h"
#include "server/http/share.h"

#define MAX_HEAD       16384
#define MAX_PIPELINED  65536       /* bytes behind a request that is being answered */
#define MAX_AT_ONCE    4           /* pipelined requests that are answered in one go */
#define MAX_WAITING    65536       /* of replies, before further pipelined requests are read */
#define HIGH_WATER     (256 << 10) /* of a stream: a reader behind by this much ... */
#define HIGH_MS        5000        /* ... that reads nothing for so long is dropped */
#define BACKLOG        4096
#define SEND_BUFFER    (128 << 10) /* in the kernel, for each connection */
#define SWEEP_MS       250
#define LINGER_MS      5000
#define ACCEPT_WAIT_MS 100
#define MAX_ACCEPTS    64         /* in a row, before others have their turn */
#define CLIENT_GONE    499        /* in the log alone */
#define SMALL_BODY     (16 << 10) /* of requests that are not for the model: they are read on the loop */

/* --- the end of a connection --- */

static void request_free(struct vr_conn *c)
{
    struct vr_incoming *r = c->request;
    if (!r) return;
    if (r->body.n) vr_client_release(&c->front->clients, c->client, r->body.n);
    vr_buf_done(&r->body);
    free(r->text);
    free(r);
    c->request = NULL;
}

struct vr_buf vr_conn_take_body(struct vr_conn *c)
{
    struct vr_buf body = c->request->body;
    vr_client_release(&c->front->clients, c->client, body.n);
    c->request->body = (struct vr_buf){ 0 };
    return body;
}

static void conn_free(struct vr_conn *c)
{
    struct vr_conns *all = &c->front->conns;
    if (c->call) {
        c->status = CLIENT_GONE;
        vr_conn_log(c);
        vr_call_cancel(c->front, c->call);
    } else if (c->gone) {
        c->status = CLIENT_GONE;
        vr_conn_log(c);
        c->gone(c);
    }
    request_free(c);
    if (c->prev)
        c->prev->next = c->next;
    else
        all->first = c->next;
    if (c->next) c->next->prev = c->prev;
    all->n--;
    c->peer->n_conns--;
    vr_client_unref(c->peer);
    vr_client_unref(c->client);
    bool unused = c->hello != NULL;
    vr_later_forget(c);
    vr_handshake_free(c->hello);
    if (c->bev) bufferevent_free(c->bev); /* closes the socket, ... */
    if (unused) close(c->fd);             /* ... if it is its own */
    free(c->origin);
    free(c->ignored);
    free(c);
}

/* Without ceremony: what waits in the kernel is thrown away with it. */
static void conn_reset(struct vr_conn *c)
{
    struct linger now = { 1, 0 };
    setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    conn_free(c);
}

/* The last reply is on its way. Closing with unread bytes in the kernel would reset the connection and take the reply
 * with it: we say that we are done, and read on for a moment. */
static void linger(struct vr_conn *c)
{
    c->state = VR_CONN_LINGER;
    c->deadline_ms = vr_now_ms() + LINGER_MS;
    if (c->shut || evbuffer_get_length(bufferevent_get_output(c->bev))) return;
    SSL *ssl = bufferevent_openssl_get_ssl(c->bev);
    if (ssl) SSL_shutdown(ssl);
    shutdown(c->fd, SHUT_WR);
    c->shut = true;
}

void vr_conn_done(struct vr_conn *c)
{
    vr_conn_log(c);
    c->gone = NULL;
    c->work = NULL;
    free(VR_TAKE(c->origin));
    free(VR_TAKE(c->ignored));
    if (!c->keep_alive || c->front->stopping) {
        linger(c);
        return;
    }
    c->state = VR_CONN_HEAD;
    c->deadline_ms = vr_now_ms() + c->front->config->limits.idle_seconds * 1000;
    /* The next request may be here already. */
    if (!c->reading && evbuffer_get_length(bufferevent_get_input(c->bev))) vr_later_go_on(c);
}

/* --- a request's policies: before its body is read --- */

static void add_id(struct vr_conn *c, struct vr_slice given)
{
    bool fine = given.p && given.n > 0 && given.n < sizeof c->id;
    for (size_t i = 0; fine && i < given.n; i++)
        fine = strchr("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_.", given.p[i]);
    if (fine) {
        memcpy(c->id, given.p, given.n);
        c->id[given.n] = '\0';
        return;
    }
    uint64_t random;
    if (getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random) random = vr_now_us();
    snprintf(c->id, sizeof c->id, "%016llx%04x", (unsigned long long)random,
             (unsigned)(c->front->conns.n_requests & 0xffff));
}

static void preflight(struct vr_conn *c, struct vr_slice headers)
{
    VR_AUTO_BUF more = { 0 };
    vr_buf_adds(&more, "Access-Control-Allow-Methods: GET, POST, DELETE, OPTIONS\r\nAccess-Control-Max-Age: 86400\r\n");
    if (headers.n) vr_buf_addf(&more, "Access-Control-Allow-Headers: %.*s\r\n", (int)headers.n, headers.p);
    vr_reply(c, 200, NULL, vr_buf_str(&more), "", 0);
}

/* Host, origin, path, method, key. False: it was answered. */
static bool admit(struct vr_conn *c, const struct vr_head *h)
{
    struct vr_front *f = c->front;
    if (c->surplus && f->conns.n > f->config->limits.max_connections) {
        f->metrics.refused_connections++;
        c->keep_alive = false;
        return vr_reply_later(c, 503, 1, "too_many_connections", "too many connections (--max-connections)"), false;
    }
    if (!vr_auth_host_ok(f->auth, h->host))
        return vr_reply_error(c, 403, NULL, "host_not_allowed",
                              "the Host header '%.*s' is not allowed; start the server with --allow-host to accept it",
                              (int)(h->host.n < 100 ? h->host.n : 100), h->host.p),
               false;
    if (h->origin.p) {
        if (!vr_auth_origin_ok(f->auth, h->origin, h->host))
            return vr_reply_error(c, 403, NULL, "origin_not_allowed",
                                  "requests from origin '%.*s' are not allowed; start the server with --cors-origin to "
                                  "accept them",
                                  (int)(h->origin.n < 100 ? h->origin.n : 100), h->origin.p),
                   false;
        c->origin = strndup(h->origin.p, h->origin.n);
    }
    if (h->method == VR_OPTIONS) return preflight(c, h->want_headers), false;

    char allow[40];
    c->route = vr_route_find(h->method, h->path, allow, sizeof allow);
    if (!c->route && *allow) {
        char more[80];
        snprintf(more, sizeof more, "Allow: %s\r\n", allow);
        vr_reply_told(
            c,
            &(struct vr_told){ 405, .code = "method_not_allowed", .message = "this path does not support that method" },
            more);
        return false;
    }
    c->key = vr_auth_key(f->auth, h);
    if (vr_auth_has_keys(f->auth) && !c->key && !(c->route && c->route->open))
        return vr_reply_error(c, 401, NULL, "invalid_api_key",
                              "invalid or missing API key: send it as 'Authorization: Bearer KEY'"),
               false;
    if (!c->route)
        return vr_reply_error(c, 404, NULL, "unknown_path", "unknown path %.*s; docs/api.md lists the endpoints",
                              (int)(h->path.n < 100 ? h->path.n : 100), h->path.p),
               false;
    if (c->key) c->client = vr_client_of_key(&f->clients, c->key, vr_now_ms());
    if (!c->client) {
        c->client = c->peer;
        vr_client_ref(c->peer);
    }
    return true;
}

/* Only what goes to the model may be large. */
static uint64_t most_body(const struct vr_conn *c)
{
    uint64_t most = c->front->config->limits.max_body_bytes;
    bool large = c->route->family < VR_FAMILY_MODELS;
    return large || most < SMALL_BODY ? most : SMALL_BODY;
}

static bool admit_body(struct vr_conn *c, const struct vr_head *h)
{
    if (h->content_length > most_body(c)) {
        c->keep_alive = false;
        return vr_reply_error(c, 413, NULL, "body_too_large", "the body has %llu bytes, but at most %llu are allowed%s",
                              (unsigned long long)h->content_length, (unsigned long long)most_body(c),
                              most_body(c) > SMALL_BODY ? " (--max-body-mib)" : " here"),
               false;
    }
    if (!vr_share_memory(c, h->content_length)) {
        c->keep_alive = false;
        return vr_reply_later(c, 503, 1, "busy", "too many large requests at once"), false;
    }
    if (h->expect_continue) {
        static const char go[] = "HTTP/1.1 100 Continue\r\n\r\n";
        bufferevent_write(c->bev, go, sizeof go - 1);
        c->queued += sizeof go - 1;
    }
    return true;
}

/* --- reading --- */

/* Replies to a request that cannot be read; nothing after it can be, either. */
static void refuse(struct vr_conn *c, const struct vr_bad_http *no)
{
    c->keep_alive = false;
    if (!*c->id) add_id(c, (struct vr_slice){ 0 });
    vr_reply_error(c, no->status, NULL, "bad_request", "%s", no->why);
    request_free(c);
}

void vr_conn_displace(struct vr_conn *c)
{
    c->front->metrics.displaced++;
    if (c->gone) c->gone(c); /* it waits to be read */
    c->keep_alive = false;
    vr_reply_later(c, 503, 1, "busy", "too many large requests at once, and your others hold the most memory");
    request_free(c);
}

/* Answered before it was read. True: the connection is good for another one. */
static bool turned_away(struct vr_conn *c)
{
    request_free(c);
    return c->state == VR_CONN_HEAD;
}

static void run_route(struct vr_conn *c)
{
    c->state = VR_CONN_BUSY;
    c->deadline_ms = 0;
    c->route->answer(c, c->request);
    request_free(c);
}

/* True: the head is complete and what comes next can be looked at. */
static bool read_head(struct vr_conn *c)
{
    struct evbuffer *in = bufferevent_get_input(c->bev);
    size_t n = evbuffer_get_length(in);
    struct vr_bad_http no;
    if (n == 0) return false;
    if (!c->request) {
        c->request = calloc(1, sizeof *c->request);
        if (!c->request) return refuse(c, &(struct vr_bad_http){ 503, "out of memory" }), false;
        c->from_us = vr_now_us();
        c->deadline_ms = c->from_us / 1000 + c->front->config->limits.header_seconds * 1000;
        c->keep_alive = false;
        c->id[0] = '\0';
        c->route = NULL;
        c->method = VR_OTHER_METHOD;
        vr_client_unref(VR_TAKE(c->client));
    }
    struct vr_incoming *r = c->request;
    const char *data = (const char *)evbuffer_pullup(in, n <= MAX_HEAD ? (ev_ssize_t)n : MAX_HEAD + 1);
    if (!data) return refuse(c, &(struct vr_bad_http){ 503, "out of memory" }), false;
    enum vr_feed fed = vr_head_scan(&r->scan, data, n <= MAX_HEAD ? n : MAX_HEAD + 1, MAX_HEAD, &no);
    if (fed == VR_FEED_MORE) return false;
    if (fed == VR_FEED_BAD) return refuse(c, &no), false;

    size_t len = r->scan.at - r->scan.skip;
    r->text = malloc(len + 1);
    if (!r->text) return refuse(c, &(struct vr_bad_http){ 503, "out of memory" }), false;
    memcpy(r->text, data + r->scan.skip, len);
    r->text[len] = '\0';
    evbuffer_drain(in, r->scan.at);
    if (!vr_head_parse(r->text, len, &r->head, &no)) return refuse(c, &no), false;

    c->front->conns.n_requests++;
    c->method = (uint8_t)r->head.method;
    c->http10 = r->head.http10;
    add_id(c, r->head.request_id);
    bool has_body = r->head.chunked || r->head.content_length;
    c->keep_alive = r->head.keep_alive && !c->front->stopping;
    if (has_body) { /* a refusal leaves a body behind, which nobody should take for a request */
        bool keep = c->keep_alive;
        c->keep_alive = false;
        if (!admit(c, &r->head) || !admit_body(c, &r->head)) return turned_away(c);
        c->keep_alive = keep;
    } else if (!admit(c, &r->head)) {
        return turned_away(c);
    }
    r->body.max = most_body(c);
    r->heard_ms = r->window_ms = vr_now_ms();
    c->state = VR_CONN_BODY;
    c->deadline_ms = 0; /* the sweep looks at its rate */
    return true;
}

/* Moves what came into the body. True when that was all of it. */
static bool read_body(struct vr_conn *c)
{
    struct vr_incoming *r = c->request;
    struct evbuffer *in = bufferevent_get_input(c->bev);
    size_t before = r->body.n;
    while (r->head.chunked || r->body.n < r->head.content_length) {
        struct evbuffer_iovec v;
        if (evbuffer_peek(in, -1, NULL, &v, 1) < 1 || v.iov_len == 0) break;
        size_t used = v.iov_len;
        struct vr_bad_http no;
        enum vr_feed fed = VR_FEED_MORE;
        if (r->head.chunked) {
            fed = vr_chunks_feed(&r->chunks, v.iov_base, v.iov_len, &used, &r->body, &no);
        } else {
            if (used > r->head.content_length - r->body.n) used = (size_t)(r->head.content_length - r->body.n);
            vr_buf_add(&r->body, v.iov_base, used);
            if (r->body.failed) {
                fed = VR_FEED_BAD;
                no = (struct vr_bad_http){ 503, "out of memory for the request body" };
            }
        }
        vr_client_hold(&c->front->clients, c->client, r->body.n - before);
        before = r->body.n;
        if (fed == VR_FEED_BAD) return refuse(c, &no), false;
        evbuffer_drain(in, used);
        r->wire_bytes += used;
        r->heard_ms = vr_now_ms();
        if (fed == VR_FEED_DONE) return true;
    }
    if (!r->head.chunked && r->body.n == r->head.content_length) return true;
    if (!vr_share_memory(c, 0)) refuse(c, &(struct vr_bad_http){ 503, "too many large requests at once" });
    return false;
}

/* Works on what came until more is needed. False: the connection is to be ended. */
static bool work(struct vr_conn *c)
{
    struct evbuffer *in = bufferevent_get_input(c->bev), *out = bufferevent_get_output(c->bev);
    for (unsigned n = 0;;) {
        switch ((enum vr_conn_state)c->state) {
        case VR_CONN_HEAD:
            if (evbuffer_get_length(out) > MAX_WAITING) return true; /* on_write goes on */
            if (evbuffer_get_length(in) && n++ == MAX_AT_ONCE) {     /* others first */
                vr_later_go_on(c);
                return true;
            }
            if (!read_head(c)) return true;
            break;
        case VR_CONN_BODY:
            if (!read_body(c)) return true;
            run_route(c);
            break;
        case VR_CONN_BUSY:
        case VR_CONN_STREAM: return evbuffer_get_length(in) <= MAX_PIPELINED;
        case VR_CONN_LINGER: return evbuffer_drain(in, evbuffer_get_length(in)), true;
        }
    }
}

static void on_read(struct bufferevent *bev, void *ctx)
{
    (void)bev;
    struct vr_conn *c = ctx;
    c->reading = true;
    bool go_on = work(c);
    c->reading = false;
    if (!go_on) conn_free(c);
}

void vr_conn_go_on(struct vr_conn *c) { on_read(c->bev, c); }

static void on_write(struct bufferevent *bev, void *ctx)
{
    struct vr_conn *c = ctx;
    if (c->state == VR_CONN_LINGER) {
        linger(c);
        if (c->half_closed) conn_free(c);
    } else if (c->state == VR_CONN_HEAD && evbuffer_get_length(bufferevent_get_input(bev))) {
        on_read(bev, c);
    }
}

/* A client that does not read: its answer is ended, and what waits for it is thrown away. */
static void drop(struct vr_conn *c)
{
    char bytes[24];
    snprintf(bytes, sizeof bytes, "%zu", evbuffer_get_length(bufferevent_get_output(c->bev)));
    vr_log_fields(VR_WARN, (const struct vr_field[]){ { "id", c->id }, { "waiting_bytes", bytes }, { 0 } },
                  "dropped a client that does not read its response");
    c->front->metrics.stalled++;
    conn_reset(c);
}

void vr_conn_close_idle(struct vr_conn *c)
{
    c->front->metrics.closed_idle++;
    conn_free(c);
}

static void on_event(struct bufferevent *bev, short what, void *ctx)
{
    struct vr_conn *c = ctx;
    if (what & BEV_EVENT_CONNECTED) return; /* the TLS handshake is done */
    if (c->overrun) return drop(c);
    bool waits = evbuffer_get_length(bufferevent_get_output(bev)) > 0;
    if (!(what & BEV_EVENT_EOF) || !waits || c->call || c->gone) {
        conn_free(c);
        return;
    }
    c->half_closed = true; /* it said all it had to say, and still listens */
    linger(c);
}

/* --- accepting --- */

/* NULL: there can be no more; the socket is still the caller's. */
static struct vr_conn *conn_new(struct vr_front *f, evutil_socket_t fd, bool surplus)
{
    struct vr_conn *c = NULL;
    if (f->conns.n < f->config->limits.max_connections + VR_SPARE_CONNS) c = calloc(1, sizeof *c);
    if (!c) return NULL;
    c->front = f;
    c->fd = fd;
    c->surplus = surplus;
    c->bev = bufferevent_socket_new(f->base, fd, f->tls ? 0 : BEV_OPT_CLOSE_ON_FREE);
    if (c->bev && f->tls) c->hello = vr_handshake_new(c);
    if (c->bev && (c->hello || !f->tls)) return c;
    if (c->bev) bufferevent_free(c->bev); /* only with TLS, so the socket stays open */
    free(c);
    return NULL;
}

static void enable(struct vr_conn *c)
{
    c->deadline_ms = vr_now_ms() + c->front->config->limits.header_seconds * 1000;
    bufferevent_setcb(c->bev, on_read, on_write, on_event, c);
    bufferevent_enable(c->bev, EV_READ | EV_WRITE);
}

void vr_conn_shake(struct vr_conn *c)
{
    struct vr_front *f = c->front;
    SSL *ssl = c->state == VR_CONN_HEAD ? SSL_new(f->tls) : NULL;
    struct bufferevent *bev =
        ssl ? bufferevent_openssl_socket_new(f->base, c->fd, ssl, BUFFEREVENT_SSL_ACCEPTING, BEV_OPT_CLOSE_ON_FREE)
            : NULL;
    if (!bev) {
        conn_free(c); /* with the SSL, where libevent came far enough; a little is lost where memory is out */
        return;
    }
    bufferevent_free(c->bev);
    c->bev = bev;
    vr_handshake_free(VR_TAKE(c->hello));
    bufferevent_openssl_set_allow_dirty_shutdown(c->bev, 1);
    enable(c);
}

static void on_accept(struct evconnlistener *l, evutil_socket_t fd, struct sockaddr *a, int n, void *ctx)
{
    (void)n;
    struct vr_front *f = ctx;
    struct vr_client *peer = vr_client_of_address(&f->clients, a, vr_now_ms());
    bool surplus = peer && f->conns.n >= f->config->limits.max_connections && !vr_share_place(f, peer);
    struct vr_conn *c = peer ? conn_new(f, fd, surplus) : NULL;
    if (!c) {
        f->metrics.refused_connections++;
        vr_client_unref(peer);
        close(fd);
        return;
    }
    c->peer = peer;
    peer->n_conns++;
    c->stalled_ms = vr_now_ms();
    c->deadline_ms = c->stalled_ms + f->config->limits.header_seconds * 1000;
    c->next = f->conns.first;
    if (c->next) c->next->prev = c;
    f->conns.first = c;
    f->conns.n++;
    if (!c->hello) enable(c);
    if (++f->conns.n_accepted % MAX_ACCEPTS == 0) {
        evconnlistener_disable(l);
        event_active(f->conns.again, EV_TIMEOUT, 0);
    }
}

/* Out of descriptors: the kernel keeps the newcomers in its queue until some are free again. */
static void on_accept_error(struct evconnlistener *l, void *ctx)
{
    struct vr_front *f = ctx;
    int error = errno;
    static uint64_t said_ms;
    if (vr_now_ms() - said_ms > 10000 || said_ms == 0) {
        said_ms = vr_now_ms();
        vr_log(VR_WARN, "cannot accept a connection: %s (%u open)", strerror(error), f->conns.n);
    }
    evconnlistener_disable(l);
    event_add(f->conns.again, &(struct timeval){ 0, ACCEPT_WAIT_MS * 1000 });
}

static void on_again(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    struct vr_front *f = ctx;
    if (!vr_reserve_fill(&f->reserve) && f->conns.n) { /* comes before newcomers */
        event_add(f->conns.again, &(struct timeval){ 0, ACCEPT_WAIT_MS * 1000 });
        return;
    }
    for (size_t i = 0; i < f->conns.n_listeners; i++) evconnlistener_enable(f->conns.listeners[i]);
}

/* --- the sweep: deadlines and readers that do not read --- */

/* True: the client takes nothing, and has had its time. */
static bool stalled(struct vr_conn *c, size_t waits, uint64_t now)
{
    uint64_t gone = c->queued - waits;
    if (waits == 0 || gone != c->sent_mark) {
        c->sent_mark = gone;
        c->stalled_ms = now;
        return false;
    }
    uint64_t ms = now - c->stalled_ms;
    return ms > c->front->config->limits.stall_seconds * 1000 ||
           (c->state == VR_CONN_STREAM && waits > HIGH_WATER && ms > HIGH_MS);
}

static void sweep_one(struct vr_conn *c, uint64_t now)
{
    struct vr_front *f = c->front;
    size_t waits = evbuffer_get_length(bufferevent_get_output(c->bev));
    f->conns.output_bytes += waits;
    if (stalled(c, waits, now) || (waits > HIGH_WATER && f->conns.output_bytes > f->config->limits.max_memory_bytes)) {
        drop(c);
        return;
    }
    if (c->call) vr_call_tick(f, c->call, now);
    if (c->state == VR_CONN_BODY && vr_share_crawls(c->request, &f->config->limits, now))
        refuse(c, &(struct vr_bad_http){ 408, "the request body came too slowly" });
    if (!c->deadline_ms || now < c->deadline_ms) return;
    if (c->request && c->state == VR_CONN_HEAD)
        refuse(c, &(struct vr_bad_http){ 408, "timed out waiting for the request" });
    else
        conn_free(c);
}

static void on_sweep(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    struct vr_front *f = ctx;
    uint64_t now = vr_now_ms();
    f->conns.output_bytes = 0;
    for (struct vr_conn *c = f->conns.first, *next; c; c = next) {
        next = c->next;
        sweep_one(c, now);
    }
    vr_clients_sweep(&f->clients, now);
}

/* --- listening --- */

/* False, with the system's reason in *no and a sentence in *err. */
static bool listen_on(struct vr_front *f, const char *host, struct addrinfo *a, int *no, struct vr_err *err)
{
    struct vr_conns *all = &f->conns;
    const struct vr_server_config *c = f->config;
    if (all->n_listeners == VR_COUNT(all->listeners))
        return vr_fail(err, VR_EUSAGE, "--host: at most %zu addresses", VR_COUNT(all->listeners));
    if (f->port) {
        if (a->ai_family == AF_INET) ((struct sockaddr_in *)(void *)a->ai_addr)->sin_port = htons(f->port);
        if (a->ai_family == AF_INET6) ((struct sockaddr_in6 *)(void *)a->ai_addr)->sin6_port = htons(f->port);
    }
    struct evconnlistener *l = evconnlistener_new_bind(
        f->base, on_accept, f, LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC | LEV_OPT_REUSEABLE, BACKLOG, a->ai_addr,
        (int)a->ai_addrlen);
    *no = l ? 0 : errno;
    if (*no == EADDRINUSE)
        return vr_fail(err, VR_EUSAGE, "port %u on %s is taken by another program; stop it, or choose another --port",
                       c->port, host);
    if (*no == EACCES)
        return vr_fail(err, VR_EUSAGE, "no permission to use port %u; choose a --port above 1023", c->port);
    if (*no == EADDRNOTAVAIL) return vr_fail(err, VR_EUSAGE, "%s is not an address of this machine", host);
    if (!l) return vr_fail(err, VR_EIO, "cannot listen on %s port %u: %s", host, c->port, strerror(*no));
    all->listeners[all->n_listeners++] = l;
    evconnlistener_set_error_cb(l, on_accept_error);

    /* What is set here, accepted sockets inherit. */
    int fd = evconnlistener_get_fd(l), on = 1, size = SEND_BUFFER, idle = 30, every = 10, times = 3;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof every);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof times);
    if (!f->port) {
        struct sockaddr_in6 own;
        socklen_t n = sizeof own;
        if (getsockname(fd, (struct sockaddr *)&own, &n) == 0) f->port = ntohs(own.sin6_port); /* as in sockaddr_in */
    }
    return true;
}

/* At all addresses that one name has, or those of them that this machine has. */
static bool listen_at(struct vr_front *f, const char *host, struct vr_err *err)
{
    struct addrinfo want = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE }, *found = NULL;
    int unknown = getaddrinfo(host, NULL, &want, &found), why_not = 0;
    if (unknown) return vr_fail(err, VR_EUSAGE, "--host: '%s': %s", host, gai_strerror(unknown));
    struct vr_err first = { 0 };
    size_t before = f->conns.n_listeners;
    for (struct addrinfo *a = found; a; a = a->ai_next) {
        struct vr_err why = { 0 };
        if (listen_on(f, host, a, &why_not, &why)) continue;
        if (!first.code || why_not == EADDRINUSE) first = why;
        if (why_not == EADDRINUSE) break; /* a half-open server helps nobody */
    }
    freeaddrinfo(found);
    bool ok = !first.code || (f->conns.n_listeners > before && why_not != EADDRINUSE);
    if (!ok && err) *err = first;
    return ok;
}

bool vr_conns_open(struct vr_front *f, struct vr_err *err)
{
    char host[VR_MAX_HOST];
    f->port = f->config->port;
    for (const char *next = f->config->host; next;) {
        next = vr_host_next(next, host);
        if (!listen_at(f, host, err)) return false;
    }
    f->conns.sweep = event_new(f->base, -1, EV_PERSIST, on_sweep, f);
    f->conns.again = event_new(f->base, -1, 0, on_again, f);
    if (!vr_later_open(f, err)) return false;
    if (!f->conns.sweep || !f->conns.again || event_add(f->conns.sweep, &(struct timeval){ 0, SWEEP_MS * 1000 }) != 0)
        return vr_fail_nomem(err, "opening the server");
    return true;
}

void vr_conns_stop(struct vr_front *f)
{
    for (size_t i = 0; i < f->conns.n_listeners; i++) evconnlistener_free(f->conns.listeners[i]);
    f->conns.n_listeners = 0;
    if (f->conns.again) event_del(f->conns.again);
    for (struct vr_conn *c = f->conns.first, *next; c; c = next) {
        next = c->next;
        c->keep_alive = false;
        if (c->state == VR_CONN_HEAD && !c->request) linger(c);
    }
}

void vr_conns_close(struct vr_front *f)
{
    for (size_t i = 0; i < f->conns.n_listeners; i++) evconnlistener_free(f->conns.listeners[i]);
    f->conns.n_listeners = 0;
    while (f->conns.first) conn_free(f->conns.first);
    vr_later_close(f);
    if (f->conns.sweep) event_free(f->conns.sweep);
    if (f->conns.again) event_free(f->conns.again);
}
