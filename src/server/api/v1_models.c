/* GET /v1/models, /v1/models/{id}: the models that this server has, whether they are up or not, with their status as
 * llama.cpp's server tells it. Clients of Anthropic's API ask
 * the same path and look for other names, which are there as well. */
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "server/api/which_model.h"
#include "server/front.h"
#include "server/http/routes.h"

static void add_status(struct vr_buf *out, const struct vr_served *m)
{
    const char *state = vr_fleet_state(m);
    bool up = strcmp(state, "ready") == 0 || strcmp(state, "unloading") == 0;
    bool down = strcmp(state, "unloaded") == 0 || strcmp(state, "failed") == 0;
    vr_buf_addf(out, ",\"status\":{\"value\":\"%s\"%s}",
                up     ? "loaded"
                : down ? "unloaded"
                       : "loading",
                strcmp(state, "failed") == 0 ? ",\"failed\":true" : "");
}

static void add_model(struct vr_buf *out, const struct vr_served *m)
{
    const struct vr_front *f = m->front;
    static const char *const facts[] = { "arch",     "desc",        "n_ctx_train", "n_vocab", "n_embd", "n_layers",
                                         "n_params", "model_bytes", "kind",        "vision",  "audio" };
    const char *id = vr_buf_str(&m->id_json);
    char when[40] = "";
    struct tm tm;
    time_t started = f->started_unix;
    if (gmtime_r(&started, &tm)) strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &tm);
    vr_buf_addf(out,
                "{\"id\":%s,\"object\":\"model\",\"created\":%" PRId64
                ",\"owned_by\":\"vram-llm\",\"type\":\"model\",\"display_name\":%s,\"created_at\":\"%s\"",
                id, f->started_unix, id, when);
    json_t *meta = json_object(), *n_ctx = json_object_get(m->engine.ready, "n_ctx_seq");
    if (n_ctx) json_object_set(meta, "n_ctx", n_ctx); /* of one conversation, as llama.cpp's server has it */
    for (size_t i = 0; m->engine.ready && i < VR_COUNT(facts); i++) {
        json_t *v = json_object_get(m->engine.ready, facts[i]);
        if (v) json_object_set(meta, facts[i], v);
    }
    VR_AUTO_FREE char *text = json_dumps(meta, JSON_COMPACT);
    json_decref(meta);
    if (text) vr_buf_addf(out, ",\"meta\":%s", text);
    add_status(out, m);
    vr_buf_adds(out, "}");
}

/* What the model can, in the form that clients of llama.cpp look for. */
static void add_capabilities(struct vr_buf *out, const struct vr_served *m)
{
    const json_t *ready = m->engine.ready, *kind = json_object_get(ready, "kind");
    const char *id = vr_buf_str(&m->id_json), *text = json_string_value(kind);
    vr_buf_addf(out, "{\"name\":%s,\"model\":%s,\"type\":\"model\",\"capabilities\":[\"%s\"%s]}", id, id,
                text && strcmp(text, "embedding") == 0 ? "embedding" : "completion",
                json_is_true(json_object_get(ready, "vision")) ? ",\"multimodal\"" : "");
}

void vr_answer_v1_models(struct vr_conn *c, const struct vr_incoming *r)
{
    (void)r;
    VR_AUTO_BUF out = { 0 };
    vr_buf_adds(&out, "{\"object\":\"list\",\"data\":[");
    const struct vr_front *f = c->front;
    for (size_t i = 0; i < f->n_models; i++) {
        if (i) vr_buf_adds(&out, ",");
        add_model(&out, &f->models[i]);
    }
    vr_buf_adds(&out, "],\"models\":["); /* as llama.cpp has them beside */
    for (size_t i = 0; i < f->n_models; i++) {
        if (i) vr_buf_adds(&out, ",");
        add_capabilities(&out, &f->models[i]);
    }
    vr_buf_addf(&out, "],\"has_more\":false,\"first_id\":%s,\"last_id\":%s}\n", vr_buf_str(&f->models[0].id_json),
                vr_buf_str(&f->models[f->n_models - 1].id_json));
    vr_reply_buf(c, 200, "application/json", &out);
}

void vr_answer_v1_model(struct vr_conn *c, const struct vr_incoming *r)
{
    size_t n = strlen("/v1/models/");
    char id[300];
    bool fine = vr_percent_decode((struct vr_slice){ r->head.path.p + n, r->head.path.n - n }, id, sizeof id);
    const struct vr_served *m = vr_which_named(c, fine ? id : "?");
    if (!m) return;
    VR_AUTO_BUF out = { 0 };
    add_model(&out, m);
    vr_buf_adds(&out, "\n");
    vr_reply_buf(c, 200, "application/json", &out);
}
