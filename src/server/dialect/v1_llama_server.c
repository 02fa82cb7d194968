/* The paths of llama.cpp's server that are not OpenAI's. */
#include <string.h>

#include "base/json.h"
#include "server/api/generate.h"
#include "server/api/which_model.h"
#include "server/dialect/fields.h"
#include "server/dialect/native.h"
#include "server/front.h"
#include "server/http/routes.h"

void vr_answer_completion(struct vr_conn *c, const struct vr_incoming *r) { vr_generate(c, r, &vr_native_completion); }
void vr_answer_infill(struct vr_conn *c, const struct vr_incoming *r) { vr_generate(c, r, &vr_native_infill); }
void vr_answer_embedding(struct vr_conn *c, const struct vr_incoming *r) { vr_generate(c, r, &vr_native_embedding); }
void vr_answer_tokenize(struct vr_conn *c, const struct vr_incoming *r) { vr_generate(c, r, &vr_native_tokenize); }
void vr_answer_detokenize(struct vr_conn *c, const struct vr_incoming *r) { vr_generate(c, r, &vr_native_detokenize); }
void vr_answer_chat_count(struct vr_conn *c, const struct vr_incoming *r) { vr_generate(c, r, &vr_native_count); }
void vr_answer_apply_template(struct vr_conn *c, const struct vr_incoming *r)
{
    vr_generate(c, r, &vr_native_template);
}

static json_t *or_null(json_t *v) { return v ? json_incref(v) : json_null(); }

void vr_answer_props(struct vr_conn *c, const struct vr_incoming *r)
{
    const struct vr_served *m = vr_which_queried(c, r);
    if (!m) return;
    const json_t *ready = m->engine.ready;
    vr_reply_json(c, 200,
                  json_pack("{s:{s:o},s:o,s:s,s:o,s:{s:b,s:b},s:o,s:s,s:b}", "default_generation_settings", "n_ctx",
                            or_null(vr_get(ready, "n_ctx_seq")), "total_slots", or_null(vr_get(ready, "n_seq")),
                            "model_alias", m->config->id, "model_path", vr_json_text(m->config->path), "modalities",
                            "vision", json_is_true(vr_get(ready, "vision")), "audio",
                            json_is_true(vr_get(ready, "audio")), "chat_template_caps", or_null(vr_get(ready, "chat")),
                            "build_info", "vram-llm " VR_VERSION, "is_sleeping", m->engine.state == VR_WORKER_DOWN));
}

/* What the engine told last about its slots; before it said anything they are idle. */
void vr_answer_slots(struct vr_conn *c, const struct vr_incoming *r)
{
    const struct vr_served *m = vr_which_queried(c, r);
    if (!m) return;
    const struct vr_worker *e = &m->engine;
    json_t *status = json_loadb(vr_buf_str(&e->status), e->status.n, 0, NULL), *list = json_array(), *slot;
    size_t i;
    json_array_foreach(json_object_get(status, "slots"), i, slot)
    {
        const char *state = vr_get_text(slot, "state");
        json_array_append_new(list, json_pack("{s:O?,s:o,s:b,s:O?,s:O?,s:O?}", "id", vr_get(slot, "id"), "n_ctx",
                                              or_null(vr_get(status, "n_ctx_seq")), "is_processing",
                                              state && strcmp(state, "idle") != 0, "n_prompt_tokens",
                                              vr_get(slot, "n_prompt"), "n_prompt_tokens_cache",
                                              vr_get(slot, "n_cached"), "n_decoded", vr_get(slot, "n_text")));
    }
    for (json_int_t k = 0; !status && k < json_integer_value(vr_get(e->ready, "n_seq")); k++)
        json_array_append_new(list, json_pack("{s:I,s:o,s:b}", "id", k, "n_ctx", or_null(vr_get(e->ready, "n_ctx_seq")),
                                              "is_processing", 0));
    json_decref(status);
    vr_reply_json(c, 200, list);
}
