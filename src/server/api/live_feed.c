/* One event is written per second and copied to each listener; a listener that does not read is dropped by the sweep,
 * as any stream is. Rates come from the engine's totals, so a second in which it was too busy to report is not lost. */
#include "server/api/live_feed.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "server/front.h"
#include "server/api/manage.h"
#include "server/api/meter.h"
#include "server/api/which_model.h"
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
    uint64_t n_lines, n_told; /* ever; up to which the listeners know them */
    uint64_t at_ms;           /* of the last sample */
    struct {
        struct vr_conn *conn;
        struct vr_served *model; /* whose engine it looks at; NULL: one that is up */
    } listeners[MAX_LISTENERS];
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

/* Lines from..to-1, as far as they are still there. They tell of every client where it is and how long its prompts are:
 * where several share the server, none of them is told. */
static void add_lines(struct vr_buf *out, const struct vr_live_feed *p, uint64_t from, uint64_t to)
{
    if (!vr_manage_allowed(p->front)) from = to;
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

static json_t *status_of(const struct vr_served *m)
{
    return json_loadb(vr_buf_str(&m->engine.status), m->engine.status.n, 0, NULL);
}

/* An engine that was started again counts from zero. */
static float rate(uint64_t *before, uint64_t now, uint64_t ms)
{
    uint64_t more = now > *before ? now - *before : 0;
    *before = now;
    return ms ? (float)((double)more * 1e3 / (double)ms) : 0;
}

/* All engines together. */
static void take_sample(struct vr_live_feed *p)
{
    struct vr_front *f = p->front;
    uint64_t now = vr_now_ms(), ms = p->at_ms ? now - p->at_ms : 0;
    struct sample *s = &p->history[p->n_samples++ % VR_LIVE_SECONDS];
    s->text_tok_s = s->prompt_tok_s = 0;
    for (size_t i = 0; i < f->n_models; i++) {
        struct vr_served *m = &f->models[i];
        if (!m->engine.status.n && !m->seen_text_tokens && !m->seen_prompt_tokens) continue;
        json_t *status = status_of(m);
        s->text_tok_s += rate(&m->seen_text_tokens, total_of(status, "text_tokens"), ms);
        s->prompt_tok_s += rate(&m->seen_prompt_tokens, total_of(status, "prompt_tokens"), ms);
        json_decref(status);
    }
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

static void add_engine(struct vr_buf *out, const struct vr_served *m, const json_t *status)
{
    const struct vr_worker *e = &m->engine;
    uint64_t now = vr_now_ms();
    vr_buf_addf(out, "\"engine\":{\"state\":\"%s\",\"percent\":%d,\"starts\":%u,\"plans_again\":%u,\"stage\":",
                m->front->stopping ? "stopping" : vr_worker_state_name(e->state), e->percent, e->n_starts, e->n_plans);
    vr_json_add_string(out, e->stage);
    if (e->state == VR_WORKER_LOADING && e->sent_bytes)
        vr_buf_addf(out, ",\"sent_bytes\":%" PRIu64 ",\"sent_mb_s\":%.1f", e->sent_bytes, vr_worker_sent_mb_s(e));
    vr_buf_addf(out, ",\"vision\":%s,\"up_s\":%.0f,\"trouble\":",
                json_is_true(json_object_get(e->ready, "vision")) ? "true" : "false",
                e->ready_ms ? (double)(now - e->ready_ms) / 1e3 : 0.0);
    vr_json_add_string(out, e->trouble);
    VR_AUTO_FREE char *slots = json_dumps(json_object_get(status, "slots"), JSON_COMPACT);
    VR_AUTO_FREE char *cache = json_dumps(json_object_get(status, "cache"), JSON_COMPACT);
    VR_AUTO_FREE char *spec = json_dumps(json_object_get(status, "spec"), JSON_COMPACT);
    vr_buf_addf(out, ",\"n_ctx_seq\":%" PRIu64 ",\"queued\":%" PRIu64 ",\"slots\":%s,\"cache\":%s,\"spec\":%s}",
                total_of(status, "n_ctx_seq"), total_of(status, "queued") + m->queue.turns.waiting,
                slots ? slots : "[]", cache ? cache : "null", spec ? spec : "null");
}

static void add_models(struct vr_buf *out, const struct vr_front *f)
{
    vr_buf_adds(out, ",\"models\":[");
    for (size_t i = 0; i < f->n_models; i++) {
        const struct vr_served *m = &f->models[i];
        vr_buf_addf(out, "%s{\"id\":%s,\"state\":\"%s\",\"percent\":%d,\"running\":%zu,\"waiting\":%zu}", i ? "," : "",
                    vr_buf_str(&m->id_json), vr_fleet_state(m), m->engine.percent, m->n_calls - m->queue.turns.n,
                    m->queue.turns.n);
    }
    vr_buf_adds(out, "]");
}

/* The inside of an event's object, without the lines of the log. */
static void add_now(struct vr_buf *out, const struct vr_live_feed *p, const struct vr_served *one)
{
    json_t *status = status_of(one);
    const struct vr_front *f = p->front;
    const struct vr_metrics *m = &f->metrics;
    const struct sample *s = &p->history[(p->n_samples + VR_LIVE_SECONDS - 1) % VR_LIVE_SECONDS];
    vr_buf_addf(out, "\"model\":%s,\"version\":\"%s\",\"uptime_s\":%.0f,\"max_body_bytes\":%" PRIu64 ",",
                vr_buf_str(&one->id_json), VR_VERSION, (double)(vr_now_ms() - f->started_ms) / 1e3,
                f->config->limits.max_body_bytes);
    vr_buf_addf(out,
                "\"connections\":%u,\"requests\":{\"answered\":%" PRIu64 ",\"in_flight\":%u,\"cancelled\":%" PRIu64
                "},\"tokens\":{\"prompt\":%" PRIu64 ",\"cached\":%" PRIu64 ",\"text\":%" PRIu64 ",\"guessed\":%" PRIu64
                ",\"accepted\":%" PRIu64 "},",
                f->conns.n, m->request_s.n, f->calls.n, m->cancelled, m->prompt_tokens, m->cached_tokens,
                m->text_tokens, m->drafted_tokens, m->accepted_tokens);
    vr_buf_addf(out, "\"rate\":{\"text_tok_s\":%.4g,\"prompt_tok_s\":%.4g,\"running\":%u},\"stream_tok_s\":%.4g,",
                (double)s->text_tok_s, (double)s->prompt_tok_s, s->running, one->counts.text_tok_s);
    add_engine(out, one, status);
    json_decref(status);
    add_models(out, f);
    vr_buf_addf(out, ",\"meter\":%s", vr_meter_json(p->meter));
}

static const struct vr_served *looked_at(const struct vr_live_feed *p, const struct vr_served *m)
{
    return m ? m : vr_served_default(p->front, true);
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
    VR_AUTO_BUF event = { 0 };
    const struct vr_served *of = NULL; /* whose engine is in the event */
    take_sample(p);
    vr_meter_want(p->meter, p->n_listeners > 0);
    for (size_t i = 0; i < p->n_listeners; i++) {
        const struct vr_served *m = looked_at(p, p->listeners[i].model);
        if (m != of) {
            vr_buf_clear(&event);
            vr_buf_adds(&event, "event: tick\ndata: {");
            add_now(&event, p, m);
            vr_buf_adds(&event, ",");
            add_lines(&event, p, p->n_told, p->n_lines);
            vr_buf_adds(&event, "}\n\n");
            of = m;
        }
        send_event(p->listeners[i].conn, &event);
    }
    if (p->n_listeners) p->n_told = p->n_lines;
}

/* --- listeners --- */

static void on_gone(struct vr_conn *c)
{
    struct vr_live_feed *p = c->front->live_feed;
    for (size_t i = 0; i < p->n_listeners; i++)
        if (p->listeners[i].conn == c) p->listeners[i--] = p->listeners[--p->n_listeners];
}

static size_t count_of(const struct vr_live_feed *p, const struct vr_client *client)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n_listeners; i++) n += p->listeners[i].conn->client == client;
    return n;
}

/* In a full house the client with the most listeners loses one, if that leaves it no fewer than the newcomer has. */
static bool make_room(struct vr_live_feed *p, const struct vr_client *newcomer)
{
    struct vr_conn *of_most = NULL;
    size_t most = count_of(p, newcomer) + 1;
    if (p->n_listeners < MAX_LISTENERS) return true;
    for (size_t i = 0; i < p->n_listeners; i++) {
        size_t n = count_of(p, p->listeners[i].conn->client);
        if (n <= most) continue;
        most = n;
        of_most = p->listeners[i].conn;
    }
    if (!of_most) return false;
    char end[VR_CHUNK_ROOM + VR_CHUNK_TAIL];
    on_gone(of_most);
    vr_stream_piece(of_most, end + VR_CHUNK_ROOM, 0, true);
    return true;
}

void vr_answer_api_live(struct vr_conn *c, const struct vr_incoming *r)
{
    struct vr_live_feed *p = c->front->live_feed;
    struct vr_served *m = vr_which_queried(c, r);
    if (!m) return;
    if (c->method == VR_HEAD) return vr_reply(c, 200, "text/event-stream; charset=utf-8", NULL, "", 0);
    if (!make_room(p, c->client))
        return vr_reply_later(c, 503, 5, "too_many_listeners", "%d clients are already watching, which is the limit",
                              MAX_LISTENERS);
    if (p->n_listeners == 0) {
        p->n_told = p->n_lines;
        vr_meter_want(p->meter, true);
    }
    p->listeners[p->n_listeners].conn = c;
    p->listeners[p->n_listeners++].model = r->head.query.n ? m : NULL;
    c->gone = on_gone;
    VR_AUTO_BUF event = { 0 };
    vr_buf_adds(&event, "event: hello\ndata: {");
    add_now(&event, p, m);
    vr_buf_adds(&event, ",");
    add_history(&event, p);
    vr_buf_adds(&event, ",");
    add_lines(&event, p, 0, p->n_told); /* the rest comes with the next tick, for all */
    vr_buf_adds(&event, "}\n\n");
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
