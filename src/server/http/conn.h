/* Connections: bytes in, requests out to the routes, replies back.
 *
 * A libevent bufferevent carries the bytes (and TLS); the HTTP is ours (http.h), because evhttp leaves to its user the
 * things that matter here: it does not see a disconnect while a request is worked on, has no limit on connections and
 * takes forms that a proxy may read differently. Reading stays on while a request runs, so a client that goes away is
 * seen at once, by its FIN as by its RST. (An EV_CLOSED event alone would not do: epoll reports a reset as EPOLLERR,
 * which libevent turns into EV_READ | EV_WRITE, and an event that waits for neither is never called and spins:
 * measured.)
 *
 * A connection is freed by its own events and by the sweep only, never below a route: whoever holds one may write. */
#ifndef VR_SERVER_HTTP_CONN_H
#define VR_SERVER_HTTP_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "server/http/http.h"
#include "server/http/later.h"

struct vr_front;
struct vr_call;
struct vr_dialect;
struct vr_client;
struct vr_route;
struct bufferevent;
struct evconnlistener;
struct event;
struct json_t;

enum vr_conn_state {
    VR_CONN_HEAD,   /* waits for a request, or reads its head */
    VR_CONN_BODY,   /* reads its body */
    VR_CONN_BUSY,   /* a route has it */
    VR_CONN_STREAM, /* a reply is being sent in pieces */
    VR_CONN_LINGER, /* the last reply goes out; what still comes in is thrown away */
};

/* A request while it is being read; gone when the route returns, so that a stream costs little. */
struct vr_incoming {
    struct vr_head_scan scan;
    struct vr_chunks chunks;
    struct vr_head head; /* points into text */
    char *text;
    struct vr_buf body;               /* its bytes are held by the connection's client */
    uint64_t wire_bytes, heard_ms;    /* of the body so far; when the last of them came */
    uint64_t window_bytes, window_ms; /* wire_bytes at the beginning of the window in which its rate is taken */
};

struct vr_conn {
    struct vr_front *front;
    struct vr_conn *prev, *next;
    struct bufferevent *bev;    /* until its handshake has its turn: one that does nothing */
    struct vr_handshake *hello; /* that waits for it; NULL: no TLS, or it is begun */
    struct vr_turn later;       /* of requests that are here already */
    struct vr_incoming *request;
    const struct vr_route *route;
    struct vr_client *peer;   /* the address, for which the connection counts */
    struct vr_client *client; /* for whom its last request counts; NULL: none yet */
    struct vr_call *call;     /* in flight; its owner is calls.c */
    /* Set by a route that answers later and is no call: called when the client goes away before its reply is complete.
     */
    void (*gone)(struct vr_conn *c);
    void *work;                       /* that route's */
    const struct vr_dialect *dialect; /* while its body is read by a thread */
    char *ignored;                    /* what of the request has no effect, for a header of the reply; NULL: nothing */
    char *origin;                     /* an allowed one, to be echoed; NULL: none */
    char id[40];                      /* of the request, for the log and the client */
    int fd;
    unsigned key; /* the number of the request's API key; 0: none */
    uint8_t state;
    uint8_t method;
    bool surplus; /* came when there were too many: it only hears so while there are */
    bool keep_alive, http10, reading, half_closed, shut;
    bool overrun; /* reads so slowly that it is being dropped */
    uint16_t status;
    uint64_t from_us;                       /* when the request's first byte came */
    uint64_t deadline_ms;                   /* 0: none */
    uint64_t queued, sent_mark, stalled_ms; /* of the output: bytes given to bev, those gone at stalled_ms */
};

struct vr_conns {
    struct vr_conn *first;
    unsigned n; /* open */
    struct evconnlistener *listeners[8];
    size_t n_listeners;
    struct event *sweep, *again;
    struct vr_later later;
    uint64_t output_bytes; /* that waited for their readers at the last sweep */
    uint64_t n_requests;   /* of HTTP, whatever they ask for */
    uint64_t n_accepted;   /* connections */
    char date[40];
    int64_t date_of;
};

#define VR_SPARE_CONNS 64 /* beyond max_connections, so that they hear why */

/* Listens on every address of the host. */
bool vr_conns_open(struct vr_front *f, struct vr_err *err) VR_MUST_CHECK;
/* No new connections; idle ones are closed. */
void vr_conns_stop(struct vr_front *f);
void vr_conns_close(struct vr_front *f);

/* Its handshake, or its next request, has its turn (later.h); it may end it. */
void vr_conn_shake(struct vr_conn *c);
void vr_conn_go_on(struct vr_conn *c);
/* The reply is complete: logs it and goes on to the next request, or to the end. */
void vr_conn_done(struct vr_conn *c);
void vr_conn_log(const struct vr_conn *c);
/* The body of the request that its route was just given; whoever takes it holds it from now on. */
struct vr_buf vr_conn_take_body(struct vr_conn *c);
/* Another client needs the room (share.h): ends one that is idle, or answers one whose body is here with 503. */
void vr_conn_close_idle(struct vr_conn *c);
void vr_conn_displace(struct vr_conn *c);
/* Bytes for the client; never fails here: a broken connection ends by its own events. */
void vr_conn_send(struct vr_conn *c, const void *data, size_t n);

/* --- replies: reply.c --- */

/* A whole reply. `more` is NULL or further header lines, each with its CRLF. */
void vr_reply(struct vr_conn *c, int status, const char *type, const char *more, const void *body, size_t n);
void vr_reply_buf(struct vr_conn *c, int status, const char *type, struct vr_buf *body); /* empties body */
/* Takes it over; NULL: there was no memory for it. */
void vr_reply_json(struct vr_conn *c, int status, struct json_t *v);
/* In the form of its route (routes.def); param and code may be NULL. */
void vr_reply_error(struct vr_conn *c, int status, const char *param, const char *code, const char *fmt, ...)
    VR_PRINTF(5, 6);
/* 503 or 429 with Retry-After. */
void vr_reply_later(struct vr_conn *c, int status, unsigned seconds, const char *code, const char *fmt, ...)
    VR_PRINTF(5, 6);
/* An error as the client is told it; param and code may be NULL. */
struct vr_told {
    int status;
    const char *param, *code, *message;
    uint32_t n_prompt, n_ctx; /* tokens of a prompt that exceeds the context, and those that fit; 0: another reason */
    bool llama;               /* its type is llama.cpp's, where that has one of its own */
};
/* As the body of a reply; `more` is NULL or further header lines. */
void vr_reply_told(struct vr_conn *c, const struct vr_told *e, const char *more);
/* Appends OpenAI's object, without the {"error": } around it. */
void vr_error_json(struct vr_buf *out, const struct vr_told *e);
/* OpenAI's name for errors of a status: "invalid_request_error", "server_error", ...; and Anthropic's. */
const char *vr_error_type(int status);
const char *vr_error_type_anthropic(int status);

/* A reply in pieces: begin, pieces, end. Each piece is one chunk of the transfer encoding. For speed the caller leaves
 * VR_CHUNK_ROOM bytes before the data and VR_CHUNK_TAIL after it, for us to write to. */
#define VR_CHUNK_ROOM 10
#define VR_CHUNK_TAIL 8
void vr_stream_begin(struct vr_conn *c, const char *type);
void vr_stream_piece(struct vr_conn *c, char *data, size_t n, bool last);

#endif
