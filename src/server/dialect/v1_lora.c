/* GET and POST /lora-adapters, as llama.cpp's server has them. What the engine told when it was ready is kept up to
 * date here: after a restart it has the scales of --lora again, and tells those. */
#include <math.h>

#include "engine/wire/limits.h"
#include "server/api/manage.h"
#include "server/api/which_model.h"
#include "server/dialect/fields.h"
#include "server/front.h"
#include "server/http/routes.h"

static json_t *adapters(const struct vr_served *m) { return vr_get(m->engine.ready, "loras"); }

void vr_answer_lora_adapters(struct vr_conn *c, const struct vr_incoming *r)
{
    const struct vr_served *m = vr_which_queried(c, r);
    if (!m) return;
    if (!adapters(m)) return vr_reply(c, 200, "application/json", NULL, "[]\n", 3);
    vr_reply_json(c, 200, json_incref(adapters(m)));
}

/* [{"id":0,"scale":0.5}]: those that are not named are off. */
static bool read_scales(struct vr_conn *c, const json_t *list, size_t n, float *out)
{
    if (!json_is_array(list))
        return vr_reply_error(c, 400, NULL, "invalid_type", "the body must be an array of {\"id\", \"scale\"}"), false;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *v = json_array_get(list, i), *id = json_object_get(v, "id"), *scale = json_object_get(v, "scale");
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= (json_int_t)n) {
            vr_reply_error(c, 400, "id", "invalid_value", "entry %zu names no LoRA adapter: there are %zu, from 0 on",
                           i, n);
            return false;
        }
        if (!json_is_number(scale) || !(fabs(json_number_value(scale)) <= 100)) {
            vr_reply_error(c, 400, "scale", "invalid_value", "the scale of entry %zu must be from -100 to 100", i);
            return false;
        }
        out[json_integer_value(id)] = (float)json_number_value(scale);
    }
    return true;
}

void vr_answer_set_lora_adapters(struct vr_conn *c, const struct vr_incoming *r)
{
    struct vr_served *m = vr_which_queried(c, r);
    if (!m || !vr_manage_admit(c)) return;
    float scales[VR_MOST_LORAS] = { 0 };
    VR_AUTO_BUF frame = { 0 };
    json_t *all = adapters(m), *list = json_loadb(vr_buf_str(&r->body), r->body.n, JSON_REJECT_DUPLICATES, NULL);
    size_t n = json_array_size(all);
    if (m->engine.state != VR_WORKER_READY)
        vr_reply_later(c, 503, vr_worker_retry_s(&m->engine), "engine_restarting", "the model is not loaded");
    else if (n <= VR_MOST_LORAS && read_scales(c, list, n, scales)) {
        vr_wire_add_lora(&frame, scales, n);
        bool sent = !frame.failed && (n == 0 || vr_worker_send(&m->engine, VR_WIRE_LORA, 0, frame.data + VR_WIRE_HEAD,
                                                               frame.n - VR_WIRE_HEAD));
        for (size_t i = 0; sent && i < n; i++)
            json_object_set_new(json_array_get(all, i), "scale", json_real((double)scales[i]));
        if (sent)
            vr_reply(c, 200, "application/json", NULL, "{\"success\":true}\n", 17);
        else
            vr_reply_later(c, 503, 1, "busy", "the engine accepts nothing right now; retry later");
    }
    json_decref(list);
}
