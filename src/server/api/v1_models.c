/* GET /v1/models, /v1/models/{id}: the model that this server has, also while it loads. */
#include <inttypes.h>
#include <string.h>

#include "server/front.h"
#include "server/http/routes.h"

static void add_model(struct vr_buf *out, const struct vr_front *f)
{
    static const char *const facts[] = { "arch",     "desc",     "n_ctx",       "n_ctx_train", "n_vocab", "n_embd",
                                         "n_layers", "n_params", "model_bytes", "kind",        "vision" };
    vr_buf_addf(out, "{\"id\":%s,\"object\":\"model\",\"created\":%" PRId64 ",\"owned_by\":\"vram-llm\"",
                vr_buf_str(&f->model_json), f->started_unix);
    json_t *meta = json_object();
    for (size_t i = 0; f->engine.ready && i < VR_COUNT(facts); i++) {
        json_t *v = json_object_get(f->engine.ready, facts[i]);
        if (v) json_object_set(meta, facts[i], v);
    }
    VR_AUTO_FREE char *text = json_dumps(meta, JSON_COMPACT);
    json_decref(meta);
    if (text) vr_buf_addf(out, ",\"meta\":%s", text);
    vr_buf_adds(out, "}");
}

void vr_answer_v1_models(struct vr_conn *c, const struct vr_incoming *r)
{
    (void)r;
    VR_AUTO_BUF out = { 0 };
    vr_buf_adds(&out, "{\"object\":\"list\",\"data\":[");
    add_model(&out, c->front);
    vr_buf_adds(&out, "]}\n");
    vr_reply_buf(c, 200, "application/json", &out);
}

void vr_answer_v1_model(struct vr_conn *c, const struct vr_incoming *r)
{
    size_t n = strlen("/v1/models/");
    char id[300];
    bool fine = vr_percent_decode((struct vr_slice){ r->head.path.p + n, r->head.path.n - n }, id, sizeof id);
    if (!fine || !vr_front_is_model(c->front, id)) {
        vr_reply_error(c, 404, "model", "model_not_found", "model '%.200s' not found; this server serves '%s'",
                       fine ? id : "?", c->front->config->model_id);
        return;
    }
    VR_AUTO_BUF out = { 0 };
    add_model(&out, c->front);
    vr_buf_adds(&out, "\n");
    vr_reply_buf(c, 200, "application/json", &out);
}
