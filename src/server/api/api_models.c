/* GET /api/models, /api/gpus: the models that are served, and what the page can plan with. */
#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "hw/gpus.h"
#include "server/api/manage.h"
#include "server/api/models_json.h"
#include "server/front.h"
#include "server/http/routes.h"

void vr_answer_api_models(struct vr_conn *c, const struct vr_incoming *r)
{
    (void)r;
    const struct vr_server_config *config = c->front->config;
    struct vr_err err = { 0 };
    const struct vr_catalog *list = vr_folder_list_get(&c->front->folder, config->models_dir, &err);
    if (!list) return vr_reply_error(c, 500, NULL, "unreadable", "%s", err.msg);
    VR_AUTO_BUF out = { 0 };
    struct vr_front *f = c->front;
    vr_buf_addf(&out, "{\"loaded\":%s,\"models_dir\":%s,\"hub\":%s,\"more\":%s,\"models\":[",
                vr_buf_str(&vr_served_default(f, true)->id_json), config->models_dir ? "true" : "false",
                config->hub_plans ? "true" : "false", list->more ? "true" : "false");
    for (size_t i = 0; i < list->n_items; i++) {
        const struct vr_listed *m = &list->items[i];
        vr_buf_adds(&out, i ? ",{\"id\":" : "{\"id\":");
        vr_json_add_string(&out, m->id);
        vr_buf_addf(&out, ",\"bytes\":%" PRIu64 ",\"parts\":%u,\"missing_parts\":%u}", m->bytes, m->n_parts,
                    m->n_parts - m->n_found);
    }
    vr_buf_addf(&out, "],\"default\":%s,\"on_demand\":%s,\"manage\":%s,\"served\":[", vr_buf_str(&f->models[0].id_json),
                config->on_demand ? "true" : "false", vr_manage_allowed(f) ? "true" : "false");
    for (size_t i = 0; i < f->n_models; i++) {
        json_t *one = vr_models_json(&f->models[i]);
        VR_AUTO_FREE char *text = one ? json_dumps(one, JSON_COMPACT) : NULL;
        json_decref(one);
        vr_buf_addf(&out, "%s%s", i ? "," : "", text ? text : "{}");
    }
    vr_buf_adds(&out, "]}\n");
    vr_reply_buf(c, 200, "application/json", &out);
}

/* Some 200 names, each compared with all others: 10 ms. */
static void print_gpus(struct vr_buf *out)
{
    vr_buf_adds(out, "{\"gpus\":[");
    for (size_t i = 0; i < vr_gpu_count(); i++) {
        const struct vr_gpu *g = vr_gpu_at(i);
        char name[128];
        vr_buf_adds(out, i ? ",{\"name\":" : "{\"name\":");
        vr_json_add_string(out, vr_gpu_label(g, name, sizeof name));
        vr_buf_addf(out,
                    ",\"backend\":\"%s\",\"mib\":%" PRIu32
                    ",\"bandwidth_gbs\":%g,\"fp16_tflops\":%g,\"pcie_gen\":%u,\"pcie_lanes\":%u}",
                    g->backend, g->mib, g->gbs, g->tflops, g->pcie_gen, g->pcie_lanes);
    }
    vr_buf_adds(out, "]}\n");
}

void vr_answer_api_gpus(struct vr_conn *c, const struct vr_incoming *r)
{
    (void)r;
    struct vr_buf *all = &c->front->gpus_json;
    if (!all->n) print_gpus(all);
    if (!all->failed) return vr_reply(c, 200, "application/json", NULL, all->data, all->n);
    vr_buf_done(all);
    vr_reply_error(c, 503, NULL, "out_of_memory", "the server is out of memory");
}
