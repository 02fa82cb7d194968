/* Replies: the status line and headers, JSON errors, streams in chunks, and the log line of a request. */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <jansson.h>

#include "base/json.h"
#include "base/log.h"
#include "server/front.h"
#include "server/http/routes.h"

#define MAX_BEHIND (4 << 20) /* bytes of a stream that wait for its reader */

/* Straight to the socket when nothing waits before it: a token then costs one system call, where the way through the
 * bufferevent costs four (write, and epoll's add, wait and delete). */
void vr_conn_send(struct vr_conn *c, const void *data, size_t n)
{
    struct evbuffer *out = bufferevent_get_output(c->bev);
    if (!c->front->tls && evbuffer_get_length(out) == 0) {
        ssize_t sent = send(c->fd, data, n, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent > 0) {
            data = (const char *)data + sent;
            n -= (size_t)sent;
        }
    }
    if (n == 0 || c->overrun) return;
    if (c->state == VR_CONN_STREAM && evbuffer_get_length(out) + n > MAX_BEHIND) {
        c->overrun = true; /* ends in a moment, by an event of its own */
        bufferevent_trigger_event(c->bev, BEV_EVENT_ERROR, BEV_TRIG_DEFER_CALLBACKS);
        return;
    }
    evbuffer_add(out, data, n);
    c->queued += n;
}

static const char *date(struct vr_conns *all)
{
    time_t now = time(NULL);
    struct tm tm;
    if (now != all->date_of && gmtime_r(&now, &tm)) {
        all->date_of = now;
        strftime(all->date, sizeof all->date, "%a, %d %b %Y %H:%M:%S GMT", &tm);
    }
    return all->date;
}

static void add_head(struct vr_conn *c, struct vr_buf *out, int status, const char *type, const char *more)
{
    c->status = (uint16_t)status;
    vr_buf_addf(out, "HTTP/1.1 %d %s\r\nDate: %s\r\nX-Request-Id: %s\r\n", status, vr_http_reason(status),
                date(&c->front->conns), c->id);
    if (type) vr_buf_addf(out, "Content-Type: %s\r\nX-Content-Type-Options: nosniff\r\n", type);
    if (c->origin)
        vr_buf_addf(out,
                    "Access-Control-Allow-Origin: %s\r\nAccess-Control-Expose-Headers: X-Request-Id, Retry-After\r\n"
                    "Vary: Origin\r\n",
                    c->origin);
    if (c->ignored) vr_buf_addf(out, "X-Ignored: %s\r\n", c->ignored);
    if (more) vr_buf_adds(out, more);
    if (c->front->stopping) c->keep_alive = false;
    if (!c->keep_alive)
        vr_buf_adds(out, "Connection: close\r\n");
    else if (c->http10)
        vr_buf_adds(out, "Connection: keep-alive\r\n");
}

void vr_reply(struct vr_conn *c, int status, const char *type, const char *more, const void *body, size_t n)
{
    VR_AUTO_BUF out = { 0 };
    add_head(c, &out, status, type, more);
    if (status != 204 && status != 304) vr_buf_addf(&out, "Content-Length: %zu\r\n", n);
    vr_buf_adds(&out, "\r\n");
    bool with_body = n && c->method != VR_HEAD;
    if (with_body && n < 16384) vr_buf_add(&out, body, n);
    if (out.failed) c->keep_alive = false; /* no memory: the client sees the connection end */
    if (!out.failed) vr_conn_send(c, out.data, out.n);
    if (!out.failed && with_body && n >= 16384) vr_conn_send(c, body, n);
    vr_conn_done(c);
}

void vr_reply_buf(struct vr_conn *c, int status, const char *type, struct vr_buf *body)
{
    if (body->failed)
        vr_reply_error(c, 503, NULL, "out_of_memory", "the server is out of memory");
    else
        vr_reply(c, status, type, NULL, vr_buf_str(body), body->n);
    vr_buf_done(body);
}

void vr_reply_json(struct vr_conn *c, int status, json_t *v)
{
    VR_AUTO_FREE char *text = v ? json_dumps(v, JSON_COMPACT) : NULL;
    json_decref(v);
    if (!text) return vr_reply_error(c, 503, NULL, "out_of_memory", "the server is out of memory");
    vr_reply(c, status, "application/json", NULL, text, strlen(text));
}

/* --- errors --- */

const char *vr_error_type(int status)
{
    switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 429: return "rate_limit_error";
    default: return status >= 500 ? "server_error" : "invalid_request_error";
    }
}

const char *vr_error_type_anthropic(int status)
{
    switch (status) {
    case 413: return "request_too_large";
    case 503: return "overloaded_error";
    default: return status >= 500 ? "api_error" : vr_error_type(status);
    }
}

static void add_or_null(struct vr_buf *out, const char *text)
{
    if (text)
        vr_json_add_string(out, text);
    else
        vr_buf_adds(out, "null");
}

void vr_error_json(struct vr_buf *out, const struct vr_told *e)
{
    vr_buf_adds(out, "{\"message\":");
    vr_json_add_string(out, e->message);
    vr_buf_addf(out, ",\"type\":\"%s\",\"param\":",
                e->llama && e->n_ctx ? "exceed_context_size_error" : vr_error_type(e->status));
    add_or_null(out, e->param);
    vr_buf_adds(out, ",\"code\":");
    add_or_null(out, e->code);
    if (e->n_ctx) vr_buf_addf(out, ",\"n_prompt_tokens\":%u,\"n_ctx\":%u", e->n_prompt, e->n_ctx);
    vr_buf_adds(out, "}");
}

void vr_reply_told(struct vr_conn *c, const struct vr_told *e, const char *more)
{
    VR_AUTO_BUF body = { 0 };
    switch (c->route ? c->route->errors : VR_ERRORS_OPENAI) {
    case VR_ERRORS_OPENAI:
    case VR_ERRORS_LLAMA:
        vr_buf_adds(&body, "{\"error\":");
        vr_error_json(&body, e);
        vr_buf_adds(&body, "}\n");
        break;
    case VR_ERRORS_ANTHROPIC:
        vr_buf_addf(&body,
                    "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":", vr_error_type_anthropic(e->status));
        vr_json_add_string(&body, e->message);
        vr_buf_addf(&body, "},\"request_id\":\"%s\"}\n", c->id);
        break;
    case VR_ERRORS_OLLAMA:
        vr_buf_adds(&body, "{\"error\":");
        vr_json_add_string(&body, e->message);
        vr_buf_adds(&body, "}\n");
        break;
    }
    vr_reply(c, e->status, "application/json", more, vr_buf_str(&body), body.n);
}

VR_PRINTF(6, 0)
static void error_reply(struct vr_conn *c, int status, const char *more, const char *param, const char *code,
                        const char *fmt, va_list ap)
{
    char message[1024];
    vsnprintf(message, sizeof message, fmt, ap);
    vr_reply_told(c, &(struct vr_told){ .status = status, .param = param, .code = code, .message = message }, more);
}

void vr_reply_error(struct vr_conn *c, int status, const char *param, const char *code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    error_reply(c, status, status == 401 ? "WWW-Authenticate: Bearer\r\n" : NULL, param, code, fmt, ap);
    va_end(ap);
}

void vr_reply_later(struct vr_conn *c, int status, unsigned seconds, const char *code, const char *fmt, ...)
{
    char more[40];
    snprintf(more, sizeof more, "Retry-After: %u\r\n", seconds);
    va_list ap;
    va_start(ap, fmt);
    error_reply(c, status, more, NULL, code, fmt, ap);
    va_end(ap);
}

/* --- streams --- */

void vr_stream_begin(struct vr_conn *c, const char *type)
{
    VR_AUTO_BUF out = { 0 };
    if (c->http10) c->keep_alive = false; /* the end of the connection is the end of the stream */
    add_head(c, &out, 200, type, "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n");
    if (!c->http10) vr_buf_adds(&out, "Transfer-Encoding: chunked\r\n");
    vr_buf_adds(&out, "\r\n");
    c->state = VR_CONN_STREAM;
    if (!out.failed) vr_conn_send(c, out.data, out.n);
}

void vr_stream_piece(struct vr_conn *c, char *data, size_t n, bool last)
{
    static const char digits[] = "0123456789abcdef";
    char *from = data;
    if (!c->http10 && n) {
        *--from = '\n';
        *--from = '\r';
        for (size_t left = n; left; left >>= 4) *--from = digits[left & 15];
        data[n++] = '\r';
        data[n++] = '\n';
    }
    if (!c->http10 && last) {
        memcpy(data + n, "0\r\n\r\n", 5);
        n += 5;
    }
    vr_conn_send(c, from, n + (size_t)(data - from));
    if (last) vr_conn_done(c);
}

/* --- the log --- */

static void peer_of(const struct vr_conn *c, char *out, size_t n)
{
    struct sockaddr_in6 a;
    socklen_t len = sizeof a;
    *out = '\0';
    if (getpeername(c->fd, (struct sockaddr *)&a, &len) != 0) return;
    const void *bytes = a.sin6_family == AF_INET ? (const void *)&((struct sockaddr_in *)(void *)&a)->sin_addr
                                                 : (const void *)&a.sin6_addr;
    if (!inet_ntop(a.sin6_family, bytes, out, (socklen_t)n)) *out = '\0';
}

void vr_conn_log(const struct vr_conn *c)
{
    static const char *const methods[] = { "GET", "HEAD", "POST", "OPTIONS", "PUT", "DELETE", "PATCH", "?" };
    struct vr_front *f = c->front;
    const struct vr_call *call = c->call;
    uint64_t now = vr_now_us();
    enum vr_family family = c->route ? c->route->family : VR_FAMILY_NONE;
    if (c->status < VR_COUNT(f->metrics.by_status[0])) f->metrics.by_status[family][c->status]++;
    char status[8], ms[24], first[24], prompt[16], cached[16], text[16], peer[64];
    struct vr_field fields[10] = { { "id", c->id }, { "status", status }, { "ms", ms }, { "peer", peer } };
    size_t n = 4;
    snprintf(status, sizeof status, "%u", c->status);
    snprintf(ms, sizeof ms, "%.1f", (double)(now - c->from_us) / 1e3);
    peer_of(c, peer, sizeof peer);
    if (call && call->begun) {
        snprintf(prompt, sizeof prompt, "%" PRIu32, call->prompt_tokens);
        snprintf(cached, sizeof cached, "%" PRIu32, call->cached_tokens);
        snprintf(text, sizeof text, "%" PRIu32, call->text_tokens);
        fields[n++] = (struct vr_field){ "prompt_tokens", prompt };
        fields[n++] = (struct vr_field){ "cached_tokens", cached };
        fields[n++] = (struct vr_field){ "text_tokens", text };
    }
    if (call && call->first_us) {
        snprintf(first, sizeof first, "%.1f", (double)(call->first_us - call->from_us) / 1e3);
        fields[n++] = (struct vr_field){ "first_ms", first };
    }
    bool quiet = c->route && c->route->quiet;
    struct vr_slice path = { "-", 1 }; /* one that is unknown is shown as it came: printable, by vr_head_parse() */
    if (c->route)
        path = (struct vr_slice){ c->route->path, strlen(c->route->path) };
    else if (c->request && c->request->head.path.p)
        path = c->request->head.path;
    vr_log_fields(quiet              ? VR_DEBUG
                  : c->status >= 500 ? VR_WARN
                                     : VR_INFO,
                  fields, "%s %.*s", methods[c->method], (int)(path.n < 100 ? path.n : 100), path.p);
}
