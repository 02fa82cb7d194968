/* GET /health, /metrics, /api/plan, /api/status: how the server does. */
#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "server/api/which_model.h"
#include "server/front.h"
#include "server/http/routes.h"

/* A server that loads models on demand is well while it listens. */
static bool is_well(const struct vr_served *m)
{
    const struct vr_front *f = m->front;
    return !f->stopping && (f->config->on_demand || m->engine.state == VR_WORKER_READY);
}

static const char *state_of(const struct vr_served *m)
{
    if (m->front->stopping) return "stopping";
    return is_well(m) ? "ok" : vr_worker_state_name(m->engine.state);
}

static void add_counts(struct vr_buf *out, const struct vr_front *f)
{
    unsigned ready = 0, coming = 0;
    for (size_t i = 0; i < f->n_models; i++) {
        ready += f->models[i].engine.state == VR_WORKER_READY;
        coming += f->models[i].engine.state == VR_WORKER_LOADING || f->models[i].stay.wanted_ms;
    }
    vr_buf_addf(out, ",\"models\":{\"all\":%zu,\"ready\":%u,\"loading\":%u}", f->n_models, ready, coming);
}

void vr_answer_health(struct vr_conn *c, const struct vr_incoming *r)
{
    (void)r;
    struct vr_front *f = c->front;
    const struct vr_served *m = vr_served_default(f, true);
    const struct vr_worker *e = &m->engine;
    bool ok = is_well(m);
    VR_AUTO_BUF out = { 0 };
    vr_buf_addf(&out, "{\"status\":\"%s\"", state_of(m));
    if (f->config->on_demand) add_counts(&out, f);
    if (!ok && e->state == VR_WORKER_LOADING)
        vr_buf_addf(&out, ",\"percent\":%d,\"stage\":\"%s\"", e->percent, e->stage);
    if (!ok && *e->trouble) {
        vr_buf_adds(&out, ",\"reason\":");
        vr_json_add_string(&out, e->trouble);
    }
    vr_buf_adds(&out, "}\n");
    vr_reply_buf(c, ok ? 200 : 503, "application/json", &out);
}

void vr_answer_metrics(struct vr_conn *c, const struct vr_incoming *r)
{
    (void)r;
    VR_AUTO_BUF out = { 0 };
    vr_metrics_print(c->front, &out);
    vr_reply_buf(c, 200, "text/plain; version=0.0.4; charset=utf-8", &out);
}

void vr_answer_api_plan(struct vr_conn *c, const struct vr_incoming *r)
{
    const struct vr_served *m = vr_which_queried(c, r);
    if (!m) return;
    const struct vr_buf *plan = m->engine.load ? &m->engine.load->plan_json : NULL;
    if (!plan || plan->n == 0) {
        vr_reply_error(c, 404, NULL, "no_plan", "there is no plan for this model%s",
                       plan ? "" : " yet: it has not been loaded");
        return;
    }
    vr_reply(c, 200, "application/json", NULL, plan->data, plan->n);
}

static void add_engine(struct vr_buf *out, const struct vr_worker *e)
{
    vr_buf_addf(out, "\"engine\":{\"state\":\"%s\",\"percent\":%d,\"stage\":", vr_worker_state_name(e->state),
                e->percent);
    vr_json_add_string(out, e->stage);
    vr_buf_addf(out, ",\"pid\":%d,\"starts\":%u,\"plans_again\":%u,\"trouble\":", (int)e->pid, e->n_starts, e->n_plans);
    if (*e->trouble)
        vr_json_add_string(out, e->trouble);
    else
        vr_buf_adds(out, "null");
    VR_AUTO_FREE char *ready = e->ready ? json_dumps(e->ready, JSON_COMPACT) : NULL;
    vr_buf_addf(out, ",\"ready\":%s,\"status\":", ready ? ready : "null");
    json_t *status = json_loadb(vr_buf_str(&e->status), e->status.n, 0, NULL); /* nothing unchecked goes out */
    VR_AUTO_FREE char *text = status ? json_dumps(status, JSON_COMPACT) : NULL;
    json_decref(status);
    vr_buf_addf(out, "%s}", text ? text : "null");
}

void vr_answer_api_status(struct vr_conn *c, const struct vr_incoming *r)
{
    const struct vr_front *f = c->front;
    const struct vr_served *m = vr_which_queried(c, r);
    if (!m) return;
    VR_AUTO_BUF out = { 0 };
    vr_buf_addf(&out, "{\"status\":\"%s\",\"version\":\"%s\",\"model\":%s,\"uptime_s\":%.1f,", state_of(m), VR_VERSION,
                vr_buf_str(&m->id_json), (double)(vr_now_ms() - f->started_ms) / 1e3);
    vr_buf_addf(&out,
                "\"connections\":%u,\"http_requests\":%" PRIu64 ",\"requests\":{\"answered\":%" PRIu64
                ",\"in_flight\":%u,\"texts_in_flight\":%u,\"waiting\":%zu,"
                "\"max_queue\":%u,\"cancelled\":%" PRIu64 "},\"tokens\":{\"prompt\":%" PRIu64 ",\"cached\":%" PRIu64
                ",\"text\":%" PRIu64 "},",
                f->conns.n, f->conns.n_requests, f->metrics.request_s.n, f->calls.n, f->calls.n_texts,
                vr_calls_waiting(f), f->config->limits.max_queue, f->metrics.cancelled, f->metrics.prompt_tokens,
                f->metrics.cached_tokens, f->metrics.text_tokens);
    add_engine(&out, &m->engine);
    vr_buf_adds(&out, "}\n");
    vr_reply_buf(c, 200, "application/json", &out);
}
