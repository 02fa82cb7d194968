/* Sizes are those of the tensors in the file, as in the picture of --svg; what the engine's padding and second copies
 * add to them is "other_bytes", so that all of them together are "model_bytes". */
#include "cli/layout.h"

#include <stdlib.h>

#include "cli/show.h"

struct cell { /* what of a layer is in one place */
    uint64_t bytes, largest;
    uint32_t type; /* of its largest tensor */
};

/* Sets what is in a place: cells of its layers, and `outside` the layers. */
static void set_layers(json_t *place, const struct cell *cells, uint32_t n_layers, uint64_t outside)
{
    json_t *list = json_array();
    uint64_t sum = outside, all = (uint64_t)json_integer_value(json_object_get(place, "model_bytes"));
    for (uint32_t il = 0; il < n_layers; il++) {
        sum += cells[il].bytes;
        if (cells[il].bytes)
            json_array_append_new(list, json_pack("{s:i, s:I, s:s}", "layer", (int)il, "bytes",
                                                  (json_int_t)cells[il].bytes, "type", vr_type(cells[il].type)->name));
    }
    json_object_update_new(place, json_pack("{s:o, s:I, s:I}", "layers", list, "output_bytes", (json_int_t)outside,
                                            "other_bytes", (json_int_t)(all > sum ? all - sum : 0)));
}

static void set_speeds(json_t *place, const struct vr_device *d)
{
    char link[48];
    json_object_update_new(place, json_pack("{s:I, s:f, s:s, s:f}", "total_bytes", (json_int_t)d->total_bytes,
                                            "bandwidth_gbs", d->bandwidth_gbs, "link",
                                            vr_show_link(link, sizeof link, d), "link_gbs", vr_device_link_gbs(d)));
}

/* Links between devices of the plan that somebody told about. */
static json_t *json_links(const struct vr_machine *m, const struct vr_verdict *v)
{
    json_t *list = json_array();
    for (size_t i = 0; i < v->n_devices; i++)
        for (size_t k = i + 1; k < v->n_devices; k++) {
            const struct vr_link *l = vr_machine_link(m, v->devices[i].device, v->devices[k].device);
            if (l)
                json_array_append_new(list,
                                      json_pack("{s:s, s:s, s:s, s:f, s:b}", "a", m->devices[v->devices[i].device].id,
                                                "b", m->devices[v->devices[k].device].id, "kind",
                                                vr_link_kind_name(l->kind), "gbs", l->gbs, "p2p", l->p2p));
        }
    return list;
}

void vr_json_layout(const struct vr_fit_ask *a, const struct vr_outcome *o, json_t *plan)
{
    const struct vr_model *m = a->model;
    const struct vr_verdict *v = &o->verdict;
    struct vr_err ignored; /* without memory there is a plan without its picture */
    VR_AUTO_FREE int *where = calloc(m->n_tensors + 1, sizeof *where);
    VR_AUTO_FREE struct cell *cells = calloc((v->n_devices + 1) * (m->n_layers + 1), sizeof *cells);
    VR_AUTO_FREE uint64_t *outside = calloc(v->n_devices + 1, sizeof *outside);
    if (!where || !cells || !outside || !vr_outcome_where(a, o, where, &ignored)) return;
    for (uint32_t i = 0; i < m->n_tensors; i++) {
        const struct vr_tensor *t = &m->tensors[i];
        size_t place = where[i] < 0 ? v->n_devices : (size_t)where[i];
        if (t->layer < 0) {
            outside[place] += t->bytes;
            continue;
        }
        struct cell *c = &cells[place * m->n_layers + (uint32_t)t->layer];
        c->bytes += t->bytes;
        if (t->bytes > c->largest) {
            c->largest = t->bytes;
            c->type = t->type;
        }
    }
    for (size_t i = 0; i < v->n_devices; i++) {
        json_t *place = json_array_get(json_object_get(plan, "devices"), i);
        set_layers(place, cells + i * m->n_layers, m->n_layers, outside[i]);
        set_speeds(place, &a->machine->devices[v->devices[i].device]);
    }
    json_t *host = json_object_get(plan, "host");
    const struct vr_host *h = &a->machine->host;
    set_layers(host, cells + v->n_devices * m->n_layers, m->n_layers, outside[v->n_devices]);
    json_object_update_new(host, json_pack("{s:s, s:I, s:I, s:f}", "name", h->cpu, "total_bytes",
                                           (json_int_t)h->ram_total_bytes, "free_bytes", (json_int_t)h->ram_free_bytes,
                                           "bandwidth_gbs", h->bandwidth_gbs));
    json_object_set_new(plan, "links", json_links(a->machine, v));
}
