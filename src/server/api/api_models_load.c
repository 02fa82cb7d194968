/* POST /api/models/load, unload, pin: what is up, as users want it; and what a load would bring, without it ("dry"). */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "server/api/body.h"
#include "server/api/manage.h"
#include "server/api/models_json.h"
#include "server/api/which_model.h"
#include "server/front.h"
#include "server/http/routes.h"
#include "server/supervise/replan.h"

/* What the body says: {"model", "dry" or "pin"}. */
struct wish {
    struct vr_served *model;
    bool flag; /* the one that this path knows; without it, its default */
};

static bool refuse(struct vr_conn *c, const struct vr_refusal *p)
{
    vr_reply_error(c, p->status, *p->param ? p->param : NULL, p->code, "%s", p->message);
    return false;
}

static bool read_fields(const json_t *body, const char *flag, struct wish *w, const char **model, struct vr_refusal *p)
{
    const char *name;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)body, name, v)
    {
        if (strcmp(name, "model") == 0) {
            if (!json_is_string(v)) return vr_refuse(p, name, "invalid_type", "'model' must be a string");
            *model = json_string_value(v);
        } else if (flag && strcmp(name, flag) == 0) {
            if (!json_is_boolean(v)) return vr_refuse(p, name, "invalid_type", "'%s' must be true or false", name);
            w->flag = json_is_true(v);
        } else {
            return vr_refuse(p, name, "unknown_field", "unknown field '%.60s'; docs/api.md lists the fields", name);
        }
    }
    return *model || vr_refuse(p, "model", "missing_field", "'model' is missing: which one is meant?");
}

/* False: it was answered. */
static bool read_wish(struct vr_conn *c, const struct vr_incoming *r, const char *flag, struct wish *w)
{
    struct vr_refusal p = { 0 };
    const char *model = NULL;
    json_t *body = vr_body_parse(vr_buf_str(&r->body), r->body.n, &p);
    bool ok = body && read_fields(body, flag, w, &model, &p);
    if (!ok)
        refuse(c, &p);
    else
        ok = (w->model = vr_which_named(c, model)) != NULL;
    json_decref(body);
    return ok;
}

static bool on_demand(struct vr_conn *c)
{
    if (c->front->config->on_demand) return true;
    vr_reply_error(c, 409, NULL, "not_on_demand",
                   "this server has one model, which stays loaded; start it with several models, --preset, "
                   "--models-dir or --idle-unload to load and unload them");
    return false;
}

static void reply_model(struct vr_conn *c, const struct vr_served *m, bool done)
{
    json_t *v = vr_models_json(m);
    if (v) json_object_set_new(v, "success", json_true()); /* what clients of llama.cpp's server look for */
    vr_reply_json(c, done ? 200 : 202, v);
}

/* --- what a load would bring --- */

struct dry {
    struct vr_conn *conn;
    const struct vr_served *model;
    struct vr_task *task;
    bool patient; /* busy models would be waited for */
};

static void on_gone(struct vr_conn *c)
{
    VR_AUTO_FREE struct dry *d = c->work;
    vr_task_cancel(d->task);
}

/* Who would leave, and who of them is busy. */
static void add_leaving(json_t *out, struct vr_front *f, const struct vr_buf *evict)
{
    json_t *all = json_array(), *busy = json_array();
    for (size_t at = 0; at < evict->n; at += strlen(evict->data + at) + 1) {
        const struct vr_served *v = vr_served_find(f, evict->data + at);
        json_array_append_new(all, json_string(evict->data + at));
        if (v && v->n_calls) json_array_append_new(busy, json_string(evict->data + at));
    }
    json_object_set_new(out, "evict", all);
    json_object_set_new(out, "wait_for", busy);
}

static void reply_dry(struct vr_conn *c, const struct vr_served *m, bool patient);

static void on_planned(void *ctx, const struct vr_child_end *end, const struct vr_err *why)
{
    VR_AUTO_FREE struct dry *d = ctx;
    struct vr_conn *c = d->conn;
    const char *id = d->model->config->id;
    VR_CLEANUP(vr_load_done) struct vr_load plan = { 0 };
    struct vr_err err = { 0 };
    c->gone = NULL;
    c->work = NULL;
    if (vr_replan_read(end, why, &plan, &err)) {
        json_t *tree = plan.plan_json.n ? json_loadb(plan.plan_json.data, plan.plan_json.n, 0, NULL) : NULL;
        json_t *out = json_pack("{s:s,s:b,s:o,s:o}", "model", id, "fits", 1, "devices", vr_models_json_devices(&plan),
                                "plan", tree ? tree : json_null());
        if (out) add_leaving(out, c->front, &plan.evict);
        return vr_reply_json(c, 200, out);
    }
    json_t *in_the_way = vr_replan_in_the_way(end);
    bool passes = vr_in_the_way_has(in_the_way, VR_OBSTACLE_BUSY) || vr_in_the_way_has(in_the_way, VR_OBSTACLE_LOADING);
    if (err.code == VR_ENOFIT && !d->patient && passes) return json_decref(in_the_way), reply_dry(c, d->model, true);
    if (err.code == VR_ENOFIT)
        return vr_reply_json(c, 200,
                             json_pack("{s:s,s:b,s:s,s:o}", "model", id, "fits", 0, "reason", err.msg, "in_the_way",
                                       in_the_way ? in_the_way : json_array()));
    json_decref(in_the_way);
    if (!end && err.code == VR_ENOMEM) return vr_reply_later(c, 503, 1, "busy", "%s", err.msg);
    vr_reply_error(c, vr_code_http(err.code), NULL, "plan_failed", "%s", err.msg);
}

static void reply_dry(struct vr_conn *c, const struct vr_served *m, bool patient)
{
    struct vr_err err = { 0 };
    struct dry *d = calloc(1, sizeof *d);
    if (d) {
        *d = (struct dry){ .conn = c, .model = m, .patient = patient };
        d->task = vr_replan_ask(m, patient, c->client, on_planned, d, &err);
    }
    if (!d || !d->task) {
        free(d);
        return vr_reply_later(c, 503, 1, "busy", "%s", *err.msg ? err.msg : "the server is out of memory");
    }
    c->work = d;
    c->gone = on_gone;
}

/* --- the paths --- */

void vr_answer_api_models_load(struct vr_conn *c, const struct vr_incoming *r)
{
    struct wish w = { 0 };
    if (!read_wish(c, r, "dry", &w)) return;
    if (w.flag) return reply_dry(c, w.model, false);
    if (!on_demand(c) || !vr_manage_admit(c)) return;
    bool up = w.model->engine.state == VR_WORKER_READY && !w.model->stay.leaves;
    if (!up) vr_fleet_ask(w.model);
    reply_model(c, w.model, up);
}

void vr_answer_api_models_unload(struct vr_conn *c, const struct vr_incoming *r)
{
    struct wish w = { 0 };
    if (!read_wish(c, r, NULL, &w) || !on_demand(c) || !vr_manage_admit(c)) return;
    if (w.model->stay.pinned)
        return vr_reply_error(c, 409, "model", "pinned",
                              "model '%s' is pinned; POST /api/models/pin with \"pin\":false first",
                              w.model->config->id);
    vr_fleet_dismiss(w.model);
    reply_model(c, w.model, w.model->engine.state == VR_WORKER_DOWN);
}

void vr_answer_api_models_pin(struct vr_conn *c, const struct vr_incoming *r)
{
    struct wish w = { .flag = true };
    if (!read_wish(c, r, "pin", &w) || !on_demand(c) || !vr_manage_admit(c)) return;
    vr_fleet_pin(w.model, w.flag);
    reply_model(c, w.model, true);
}
