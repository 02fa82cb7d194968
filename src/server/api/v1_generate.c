/* POST /v1/chat/completions, /v1/completions, /v1/embeddings, and what all dialects share. */
#include "server/api/generate.h"

#include <stdio.h>
#include <string.h>

#include "server/api/body.h"
#include "server/api/manage.h"
#include "server/api/which_model.h"
#include "server/front.h"
#include "server/http/routes.h"

#define SMALL_BODY (16 << 10) /* bytes, which take a millisecond at worst: many may come at once */

static void reply_refusal(struct vr_conn *c, const struct vr_refusal *p)
{
    vr_reply_error(c, p->status, *p->param ? p->param : NULL, p->code, "%s", p->message);
}

/* Is there an engine, or will there be one? False: it was answered. On demand there will, unless it just failed. */
static bool engine_is_there(struct vr_conn *c, const struct vr_served *m)
{
    const struct vr_worker *e = &m->engine;
    unsigned later = vr_worker_retry_s(e);
    bool on_demand = c->front->config->on_demand, rests = e->state == VR_WORKER_WAITING;
    if (e->state == VR_WORKER_READY || (on_demand && !rests)) return true;
    if (on_demand && !e->came_up)
        vr_reply_later(c, 503, later, "model_load_failed", "model '%s' could not be loaded: %s", m->config->id,
                       e->trouble);
    else if (e->state == VR_WORKER_LOADING)
        vr_reply_later(c, 503, later, "model_loading", "the model is loading (%s, %d %%)", e->stage, e->percent);
    else
        vr_reply_later(c, 503, later, "engine_restarting", "the engine is restarting: %s", e->trouble);
    return false;
}

/* And room in its queue? */
static bool engine_takes(struct vr_conn *c, struct vr_served *m, size_t n_choices)
{
    if (c->front->stopping) return vr_reply_later(c, 503, 5, "stopping", "the server is stopping"), false;
    if (!engine_is_there(c, m)) return false;
    const struct vr_client_line *line = vr_client_line(c->client, m);
    if (!line) return vr_reply_later(c, 503, 1, "busy", "the server is busy; retry later"), false;
    if (!vr_queue_admit(m, line, n_choices))
        return vr_reply_later(c, 429, vr_worker_retry_s(&m->engine), "queue_full",
                              "the queue is full: %u answers are running or waiting", m->n_texts),
               false;
    return true;
}

/* It is not up: nobody has to leave. */
static void reply_unloaded(struct vr_conn *c, const struct vr_dialect *d, struct vr_served *m)
{
    VR_AUTO_BUF out = { 0 };
    vr_fleet_dismiss(m);
    d->unloaded(&out, d, m);
    vr_reply_buf(c, 200, "application/json", &out);
}

/* A body that was read: what it holds is taken over. */
static void submit(struct vr_conn *c, const struct vr_dialect *d, struct vr_body *b)
{
    struct vr_front *f = c->front;
    const struct vr_reply_form *w = &b->form;
    if (!b->ok) return reply_refusal(c, &b->why);
    struct vr_served *m = vr_which_model(c, w->model);
    if (!m) return;
    if (b->n > VR_MAX_REQUEST_BYTES)
        return vr_reply_error(c, 413, NULL, "body_too_large", "the request has %zu bytes for the engine, at most %d",
                              b->n, VR_MAX_REQUEST_BYTES);
    if (w->unload && f->config->on_demand && vr_fleet_is_coming(m)) return reply_unloaded(c, d, m);
    if (!engine_takes(c, m, w->n_choices)) return;
    struct vr_call *call = vr_call_new(m, c, d, w->n_choices);
    if (!call) return vr_reply_later(c, 503, 1, "busy", "the server is busy; retry later");
    if (w->keep) vr_fleet_keep(m, w->keep_ms);
    call->stream = w->stream && d->done; /* what is only counted is no stream */
    call->usage = w->usage;
    call->logprobs = w->logprobs;
    call->base64 = w->base64;
    call->slot = w->slot;
    call->memo = VR_TAKE(b->memo);
    call->n_memo = b->n_memo;
    vr_client_hold(&f->clients, call->line->client, call->n_memo);
    vr_call_submit(f, call, VR_TAKE(b->json), b->n);
}

static void on_read(struct vr_conn *c, const struct vr_dialect *d, struct vr_body *b)
{
    c->ignored = VR_TAKE(b->ignored);
    submit(c, d, b);
    vr_body_done(b);
}

/* What the prefixes of this request may be shared with. */
static struct vr_asker asker_of(const struct vr_conn *c, const struct vr_dialect *d)
{
    struct vr_asker who = { .dialect = d,
                            .whose = { .client = c->client->number,
                                       .tenant =
                                           c->front->config->share_cache ? 0 : vr_auth_tenant(c->front->auth, c->key) },
                            .key = c->key,
                            .responses = c->front->responses,
                            .may_keep = vr_manage_allowed(c->front) };
    if (!vr_multipart_boundary(c->request->head.content_type, who.boundary)) *who.boundary = '\0';
    return who;
}

static void on_gone(struct vr_conn *c) { vr_read_cancel(c->work); }

static void on_large(void *ctx, struct vr_body *b)
{
    struct vr_conn *c = ctx;
    c->gone = NULL;
    c->work = NULL;
    on_read(c, c->dialect, b);
}

void vr_generate_aside(struct vr_conn *c, const struct vr_dialect *d)
{
    VR_AUTO_BUF body = vr_conn_take_body(c);
    c->dialect = d;
    c->work = vr_read_start(c->front->readers, &body, &(struct vr_read_ask){ c->client, asker_of(c, d), on_large, c });
    c->gone = c->work ? on_gone : NULL;
    if (!c->work) vr_reply_later(c, 503, 1, "busy", "the server is busy; retry later");
}

void vr_generate(struct vr_conn *c, const struct vr_incoming *r, const struct vr_dialect *d)
{
    if (r->body.n > SMALL_BODY) return vr_generate_aside(c, d);
    struct vr_body b;
    struct vr_asker asker = asker_of(c, d);
    vr_body_read(vr_buf_str(&r->body), r->body.n, &asker, &b);
    on_read(c, d, &b);
}

void vr_answer_v1_chat_completions(struct vr_conn *c, const struct vr_incoming *r)
{
    vr_generate(c, r, &vr_openai_chat);
}
void vr_answer_v1_completions(struct vr_conn *c, const struct vr_incoming *r)
{
    vr_generate(c, r, &vr_openai_completion);
}
void vr_answer_v1_embeddings(struct vr_conn *c, const struct vr_incoming *r)
{
    vr_generate(c, r, &vr_openai_embedding);
}
