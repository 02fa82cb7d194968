/* One event is written per second and copied to each listener; a listener that does not read is dropped by the sweep,
 * as any stream is. Rates come from the engine's totals, so a second in which it was too busy to report is not lost. */
#include "server/api/live_feed.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "server/front.h"
#include "server/api/meter.h"
#include "server/http/routes.h"

#define MAX_LISTENERS 64

struct sample {
    float text_tok_s, prompt_tok_s;
    uint16_t running;
};

struct vr_live_feed {
    struct vr_front *front;
    struct event *tick;
    struct vr_meter *meter;
    struct sample history[VR_LIVE_SECONDS];
    uint64_t n_samples; /* ever; the last one is at (n - 1) % VR_LIVE_SECONDS */
    char *lines[VR_LIVE_LINES];
    uint64_t n_lines, n_told;                   /* ever; up to which the listeners know them */
    uint64_t text_tokens, prompt_tokens, at_ms; /* the engine's totals, then */
    struct vr_conn *listeners[MAX_LISTENERS];
    size_t n_listeners;
};

/* --- the log --- */

static void on_line(void *ctx, const char *json, size_t n)
{
    struct vr_live_feed *p = ctx;
    char **line = &p->lines[p->n_lines % VR_LIVE_LINES];
    char *copy = strndup(json, n);
    if (!copy) return;
    free(*line);
    *line = copy;
    p->n_lines++;
}

/* Lines from..to-1, as far as they are still there. */
static void add_lines(struct vr_buf *out, const struct vr_live_feed *p, uint64_t from, uint64_t to)
{
    if (p->n_lines > VR_LIVE_LINES && from < p->n_lines - VR_LIVE_LINES) from = p->n_lines - VR_LIVE_LINES;
    vr_buf_adds(out, "\"log\":[");
    for (uint64_t i = from; i < to; i++) vr_buf_addf(out, "%s%s", i > from ? "," : "", p->lines[i % VR_LIVE_LINES]);
    vr_buf_adds(out, "]");
}

/* --- a second --- */

static uint64_t total_of(const json_t *status, const char *name)
{
    json_int_t v = json_integer_value(json_object_get(status, name));
    return v > 0 ? (uint64_t)v : 0;
}

/* An engine that was started again counts from zero. */
static float rate(uint64_t *before, uint64_t now, uint64_t ms)
{
    uint64_t more = now > *before ? now - *before : 0;
    *before = now;
    return ms ? (float)((double)more * 1e3 / (double)ms) : 0;
}

static void take_sample(struct vr_live_feed *p, const json_t *status)
{
    uint64_t now = vr_now_ms(), ms = p->at_ms ? now - p->at_ms : 0;
    struct sample *s = &p->history[p->n_samples++ % VR_LIVE_SECONDS];
    s->text_tok_s = rate(&p->text_tokens, total_of(status, "text_tokens"), ms);
    s->prompt_tok_s = rate(&p->prompt_tokens, total_of(status, "prompt_tokens"), ms);
    s->running = (uint16_t)(p->front->calls.n < 65535 ? p->front->calls.n : 65535);
    p->at_ms = now;
}

static void add_history(struct vr_buf *out, const struct vr_live_feed *p)
{
    static const char *const names[] = { "text_tok_s", "prompt_tok_s", "running" };
    uint64_t from = p->n_samples > VR_LIVE_SECONDS ? p->n_samples - VR_LIVE_SECONDS : 0;
    vr_buf_adds(out, "\"history\":{");
    for (size_t k = 0; k < VR_COUNT(names); k++) {
        vr_buf_addf(out, "%s\"%s\":[", k ? "," : "", names[k]);
        for (uint64_t i = from; i < p->n_samples; i++) {
            const struct sample *s = &p->history[i % VR_LIVE_SECONDS];
            vr_buf_addf(out, "%s%.4g", i > from ? "," : "",
                        k == 0   ? (double)s->text_tok_s
                        : k == 1 ? (double)s->prompt_tok_s
                                 : s->running);
        }
        vr_buf_adds(out, "]");
    }
    vr_buf_adds(out, "}");
}

static void add_engine(struct vr_buf *out, const struct vr_front *f, const json_t *status)
{
    const struct vr_worker *e = &f->engine;
    uint64_t now = vr_now_ms();
    vr_buf_addf(out, "\"engine\":{\"state\":\"%s\",\"percent\":%d,\"starts\":%u,\"plans_again\":%u,\"stage\":",
                f->stopping ? "stopping" : vr_worker_state_name(e->state), e->percent, e->n_starts, e->n_plans);
    vr_json_add_string(out, e->stage);
    vr_buf_addf(out, ",\"vision\":%s,\"up_s\":%.0f,\"trouble\":",
                json_is_true(json_object_get(e->ready, "vision")) ? "true" : "false",
                e->ready_ms ? (double)(now - e->ready_ms) / 1e3 : 0.0);
    vr_json_add_string(out, e->trouble);
    VR_AUTO_FREE char *slots = json_dumps(json_object_get(status, "slots"), JSON_COMPACT);
    vr_buf_addf(out, ",\"n_ctx_seq\":%" PRIu64 ",\"queued\":%" PRIu64 ",\"slots\":%s}", total_of(status, "n_ctx_seq"),
                total_of(status, "queued"), slots ? slots : "[]");
}

/* The inside of an event's object, without the lines of the log. */
static void add_now(struct vr_buf *out, const struct vr_live_feed *p, const json_t *status)
{
    const struct vr_front *f = p->front;
    const struct vr_metrics *m = &f->metrics;
    const struct sample *s = &p->history[(p->n_samples + VR_LIVE_SECONDS - 1) % VR_LIVE_SECONDS];
    vr_buf_addf(out, "\"model\":%s,\"version\":\"%s\",\"uptime_s\":%.0f,\"max_body_bytes\":%" PRIu64 ",",
                vr_buf_str(&f->model_json), VR_VERSION, (double)(vr_now_ms() - f->started_ms) / 1e3,
                f->config->limits.max_body_bytes);
    vr_buf_addf(out,
                "\"connections\":%u,\"requests\":{\"answered\":%" PRIu64 ",\"in_flight\":%u,\"cancelled\":%" PRIu64
                "},\"tokens\":{\"prompt\":%" PRIu64 ",\"cached\":%" PRIu64 ",\"text\":%" PRIu64 "},",
                f->conns.n, m->request_s.n, f->calls.n, m->cancelled, m->prompt_tokens, m->cached_tokens,
                m->text_tokens);
    vr_buf_addf(out, "\"rate\":{\"text_tok_s\":%.4g,\"prompt_tok_s\":%.4g,\"running\":%u},\"stream_tok_s\":%.4g,",
                (double)s->text_tok_s, (double)s->prompt_tok_s, s->running, m->text_tok_s);
    add_engine(out, f, status);
    vr_buf_addf(out, ",\"meter\":%s", vr_meter_json(p->meter));
}

static json_t *status_of(const struct vr_front *f)
{
    return json_loadb(vr_buf_str(&f->engine.status), f->engine.status.n, 0, NULL);
}

static void send_event(struct vr_conn *c, const struct vr_buf *event)
{
    VR_AUTO_BUF piece = { 0 };
    vr_buf_addc(&piece, ' ', VR_CHUNK_ROOM);
    vr_buf_add(&piece, vr_buf_str(event), event->n);
    vr_buf_addc(&piece, ' ', VR_CHUNK_TAIL);
    if (!event->failed && !piece.failed) vr_stream_piece(c, piece.data + VR_CHUNK_ROOM, event->n, false);
}

static void on_tick(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    struct vr_live_feed *p = ctx;
    json_t *status = status_of(p->front);
    take_sample(p, status);
    vr_meter_want(p->meter, p->n_listeners > 0);
    if (p->n_listeners) {
        VR_AUTO_BUF event = { 0 };
        vr_buf_adds(&event, "event: tick\ndata: {");
        add_now(&event, p, status);
        vr_buf_adds(&event, ",");
        add_lines(&event, p, p->n_told, p->n_lines);
        vr_buf_adds(&event, "}\n\n");
        p->n_told = p->n_lines;
        for (size_t i = 0; i < p->n_listeners; i++) send_event(p->listeners[i], &event);
    }
    json_decref(status);
}

/* --- listeners --- */

static void on_gone(struct vr_conn *c)
{
    struct vr_live_feed *p = c->front->live_feed;
    for (size_t i = 0; i < p->n_listeners; i++)
        if (p->listeners[i] == c) p->listeners[i--] = p->listeners[--p->n_listeners];
}

void vr_answer_api_live(struct vr_conn *c, const struct vr_incoming *r)
{
    (void)r;
    struct vr_live_feed *p = c->front->live_feed;
    if (c->method == VR_HEAD) return vr_reply(c, 200, "text/event-stream; charset=utf-8", NULL, "", 0);
    if (p->n_listeners == MAX_LISTENERS)
        return vr_reply_later(c, 503, 5, "too_many_listeners", "%d clients are already watching, which is the limit",
                              MAX_LISTENERS);
    if (p->n_listeners == 0) {
        p->n_told = p->n_lines;
        vr_meter_want(p->meter, true);
    }
    p->listeners[p->n_listeners++] = c;
    c->gone = on_gone;
    json_t *status = status_of(c->front);
    VR_AUTO_BUF event = { 0 };
    vr_buf_adds(&event, "event: hello\ndata: {");
    add_now(&event, p, status);
    vr_buf_adds(&event, ",");
    add_history(&event, p);
    vr_buf_adds(&event, ",");
    add_lines(&event, p, 0, p->n_told); /* the rest comes with the next tick, for all */
    vr_buf_adds(&event, "}\n\n");
    json_decref(status);
    vr_stream_begin(c, "text/event-stream; charset=utf-8");
    send_event(c, &event);
}

/* --- lifecycle --- */

struct vr_live_feed *vr_live_feed_new(struct vr_front *f)
{
    struct vr_live_feed *p = calloc(1, sizeof *p);
    if (!p) return NULL;
    p->front = f;
    p->meter = vr_meter_new(f->base);
    p->tick = event_new(f->base, -1, EV_PERSIST, on_tick, p);
    if (!p->meter || !p->tick || event_add(p->tick, &(struct timeval){ 1, 0 }) != 0) {
        vr_live_feed_free(p);
        return NULL;
    }
    vr_log_tap(on_line, p);
    return p;
}

void vr_live_feed_free(struct vr_live_feed *p)
{
    if (!p) return;
    vr_log_tap(NULL, NULL);
    vr_meter_free(p->meter);
    if (p->tick) event_free(p->tick);
    for (size_t i = 0; i < VR_LIVE_LINES; i++) free(p->lines[i]);
    free(p);
}
