/* POST /v1/chat/completions, /v1/completions, /v1/embeddings: checked here, answered by the engine (calls.c). */
#include <stdio.h>
#include <string.h>

#include "server/api/body.h"
#include "server/front.h"
#include "server/http/routes.h"

static void reply_refusal(struct vr_conn *c, const struct vr_refusal *p)
{
    vr_reply_error(c, p->status, *p->param ? p->param : NULL, p->code, "%s", p->message);
}

/* Is there an engine, and room in its queue? False: it was answered. */
static bool engine_takes(struct vr_conn *c, size_t n_choices)
{
    struct vr_front *f = c->front;
    const struct vr_worker *e = &f->engine;
    unsigned later = vr_worker_retry_s(f);
    if (f->stopping) return vr_reply_later(c, 503, 5, "stopping", "the server is stopping"), false;
    if (e->state == VR_WORKER_LOADING)
        return vr_reply_later(c, 503, later, "model_loading", "the model is loading (%s, %d %%)", e->stage, e->percent),
               false;
    if (e->state != VR_WORKER_READY)
        return vr_reply_later(c, 503, later, "engine_restarting", "the engine is restarting: %s", e->trouble), false;
    if (f->calls.n_texts + n_choices > e->n_seq + f->config->limits.max_queue || f->calls.n_unused == 0)
        return vr_reply_later(c, 429, later, "queue_full", "the queue is full: %u answers are running or waiting",
                              f->calls.n_texts),
               false;
    return true;
}

/* The checked body goes to the engine. False: there was no room. */
static bool hand_over(struct vr_conn *c, json_t *body, enum vr_request_kind kind, const struct vr_reply_form *w)
{
    struct vr_front *f = c->front;
    VR_AUTO_FREE char *json = json_dumps(body, JSON_COMPACT);
    struct vr_call *call = json ? vr_call_new(f, c, kind, w->n_choices) : NULL;
    if (!call) return false;
    call->stream = w->stream;
    call->usage = w->usage;
    call->logprobs = w->logprobs;
    call->base64 = w->base64;
    return vr_call_send(f, call, json, strlen(json));
}

static void generate(struct vr_conn *c, json_t *body, enum vr_request_kind kind)
{
    struct vr_front *f = c->front;
    struct vr_refusal p = { 0 };
    struct vr_reply_form w;
    if (!vr_body_check(body, kind, &w, &p)) return reply_refusal(c, &p);
    if (*w.model && !vr_front_is_model(f, w.model)) {
        vr_reply_error(c, 404, "model", "model_not_found", "model '%.200s' not found; this server serves '%s'", w.model,
                       f->config->model_id);
        return;
    }
    if (!engine_takes(c, w.n_choices)) return;
    if (!hand_over(c, body, kind, &w)) vr_reply_later(c, 503, 1, "busy", "the server is busy; retry later");
}

static void answer(struct vr_conn *c, const struct vr_incoming *r, enum vr_request_kind kind)
{
    struct vr_refusal p = { 0 };
    json_t *body = vr_body_parse(vr_buf_str(&r->body), r->body.n, &p);
    if (!body) return reply_refusal(c, &p);
    generate(c, body, kind);
    json_decref(body);
}

void vr_answer_v1_chat_completions(struct vr_conn *c, const struct vr_incoming *r) { answer(c, r, VR_CHAT); }
void vr_answer_v1_completions(struct vr_conn *c, const struct vr_incoming *r) { answer(c, r, VR_COMPLETION); }
void vr_answer_v1_embeddings(struct vr_conn *c, const struct vr_incoming *r) { answer(c, r, VR_EMBEDDING); }
