/* GET /api/models, /api/gpus: what the page can plan with. */
#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "hw/gpus.h"
#include "server/front.h"
#include "server/http/routes.h"
#include "server/api/model_list.h"

void vr_answer_api_models(struct vr_conn *c, const struct vr_incoming *r)
{
    (void)r;
    const struct vr_server_config *config = c->front->config;
    struct vr_err err = { 0 };
    VR_CLEANUP(vr_model_list_done) struct vr_model_list list = { 0 };
    if (config->models_dir && !vr_model_list_read(config->models_dir, &list, &err))
        return vr_reply_error(c, 500, NULL, "unreadable", "%s", err.msg);
    VR_AUTO_BUF out = { 0 };
    vr_buf_addf(&out, "{\"loaded\":%s,\"models_dir\":%s,\"more\":%s,\"models\":[", vr_buf_str(&c->front->model_json),
                config->models_dir ? "true" : "false", list.more ? "true" : "false");
    for (size_t i = 0; i < list.n; i++) {
        const struct vr_listed_model *m = &list.items[i];
        vr_buf_adds(&out, i ? ",{\"id\":" : "{\"id\":");
        vr_json_add_string(&out, m->id);
        vr_buf_addf(&out, ",\"bytes\":%" PRIu64 ",\"parts\":%u,\"missing_parts\":%u}", m->bytes, m->n_parts,
                    m->n_parts - m->n_found);
    }
    vr_buf_adds(&out, "]}\n");
    vr_reply_buf(c, 200, "application/json", &out);
}

void vr_answer_api_gpus(struct vr_conn *c, const struct vr_incoming *r)
{
    (void)r;
    VR_AUTO_BUF out = { 0 };
    vr_buf_adds(&out, "{\"gpus\":[");
    for (size_t i = 0; i < vr_gpu_count(); i++) {
        const struct vr_gpu *g = vr_gpu_at(i);
        char name[128];
        vr_buf_adds(&out, i ? ",{\"name\":" : "{\"name\":");
        vr_json_add_string(&out, vr_gpu_label(g, name, sizeof name));
        vr_buf_addf(&out,
                    ",\"backend\":\"%s\",\"mib\":%" PRIu32
                    ",\"bandwidth_gbs\":%g,\"fp16_tflops\":%g,\"pcie_gen\":%u,\"pcie_lanes\":%u}",
                    g->backend, g->mib, g->gbs, g->tflops, g->pcie_gen, g->pcie_lanes);
    }
    vr_buf_adds(&out, "]}\n");
    vr_reply_buf(c, 200, "application/json", &out);
}
