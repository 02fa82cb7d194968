/* Sizes are those of the tensors in the file, as in the picture of --svg; what the engine's padding and second copies
 * add to them is "other_bytes", so that all of them together are "model_bytes". */
#include "cli/text/layout.h"

#include <stdlib.h>
#include <string.h>

#include "cli/text/show.h"

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
    json_object_update_new(place,
                           json_pack("{s:I, s:f, s:s, s:f}", "total_bytes", (json_int_t)d->total_bytes, "bandwidth_gbs",
                                     d->bandwidth_gbs, "link", vr_show_link(link, sizeof link, d), "link_gbs",
                                     d->node[0] ? d->net_gbs : vr_device_link_gbs(d)));
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

static uint64_t used_bytes(const struct vr_verdict *v, size_t device)
{
    for (size_t i = 0; i < v->n_devices; i++) {
        const struct vr_judged *j = &v->devices[i];
        if (j->device == device) return j->use.model_bytes + j->use.context_bytes + j->use.compute_bytes;
    }
    return 0;
}

/* Machines that lend devices: the way there, what they lend, and what the plan uses of it. A node's devices lie
 * together. */
static json_t *json_nodes(const struct vr_machine *m, const struct vr_verdict *v)
{
    json_t *list = json_array();
    for (size_t i = 0, end; i < m->n_devices; i = end) {
        const struct vr_device *d = &m->devices[i];
        uint64_t lent = 0, used = 0;
        json_t *ids = json_array();
        for (end = i; end < m->n_devices && strcmp(m->devices[end].node, d->node) == 0; end++) {
            lent += m->devices[end].free_bytes;
            used += used_bytes(v, end);
            json_array_append_new(ids, json_string(m->devices[end].id));
        }
        if (d->node[0])
            json_array_append_new(list, json_pack("{s:s, s:f, s:f, s:O, s:I, s:I}", "name", d->node, "round_trip_ms",
                                                  d->net_us / 1e3, "gbs", d->net_gbs, "devices", ids, "lent_bytes",
                                                  (json_int_t)lent, "used_bytes", (json_int_t)used));
        json_decref(ids);
    }
    return list;
}

/* A tensor's part in one place. */
static void add_tensor(const struct vr_tensor *t, double part, struct cell *cells, uint64_t *outside)
{
    uint64_t bytes = (uint64_t)(part * (double)t->bytes);
    if (t->layer < 0) {
        *outside += bytes;
        return;
    }
    struct cell *c = &cells[t->layer];
    c->bytes += bytes;
    if (bytes > c->largest) {
        c->largest = bytes;
        c->type = t->type;
    }
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
    for (size_t place = 0; place <= v->n_devices; place++) {
        double part = vr_outcome_slice(a, o, where, place);
        for (uint32_t i = 0; i < m->n_tensors; i++)
            if (place == v->n_devices ? where[i] < 0 : vr_outcome_has(o, where[i], place))
                add_tensor(&m->tensors[i], part, cells + place * m->n_layers, &outside[place]);
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
    if (h->bandwidth_from)
        json_object_set_new(host, "bandwidth_from", json_string(vr_bandwidth_from_name(h->bandwidth_from)));
    json_object_set_new(plan, "links", json_links(a->machine, v));
    json_t *nodes = json_nodes(a->machine, v);
    if (json_array_size(nodes)) json_object_set(plan, "nodes", nodes);
    json_decref(nodes);
}
