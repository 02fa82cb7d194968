/* Each way is measured as the engine uses it (measure_node.h) and kept beside the machine profile (hw/node_links.h);
 * plans with --nodes then take it from there. How fast the devices are, the node says: from its own `bench`. */
#include "cli/command/bench_nodes.h"

#include <string.h>
#include <time.h>

#include <jansson.h>

#include "base/log.h"
#include "base/table.h"
#include "cli/input/nodes.h"
#include "cli/text/show.h"
#include "engine/measure/measure_node.h"
#include "hw/node_links.h"

#define MEASURE_MS 120000

struct way {
    struct vr_node_link link;
    size_t n_devices, n_measured; /* that the node lends; those of them that its `bench` measured */
};

static bool is_first(const void *ctx, const char *id) { return strcmp(ctx, id) == 0; }

/* The way to the node of device i, which is the first one of that node. */
static bool measure(const struct vr_machine *m, size_t i, struct way *out, struct vr_err *err)
{
    static struct vr_load_node nodes[VR_MAX_NODES];
    struct vr_measure_way w;
    time_t now = time(NULL);
    struct tm tm;
    size_t n = 0;
    *out = (struct way){ 0 };
    if (!vr_nodes_used(m, is_first, m->devices[i].id, nodes, &n, err) ||
        !vr_measure_node(&nodes[0], MEASURE_MS, &w, err))
        return false;
    out->link = (struct vr_node_link){ .round_trip_us = w.round_trip_us, .to_gbs = w.to_gbs, .from_gbs = w.from_gbs };
    snprintf(out->link.node, sizeof out->link.node, "%s", nodes[0].pair.name);
    snprintf(out->link.key, sizeof out->link.key, "%s", nodes[0].pair.fingerprint);
    vr_node_where(&nodes[0].pair, out->link.address, sizeof out->link.address);
    strftime(out->link.when, sizeof out->link.when, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
    for (size_t k = 0; k < m->n_devices; k++) {
        if (strcmp(m->devices[k].node, m->devices[i].node) != 0) continue;
        out->n_devices++;
        out->n_measured += m->devices[k].measured.when[0] != '\0';
    }
    return true;
}

static size_t measure_all(const struct vr_machine *m, struct way *ways)
{
    size_t n = 0;
    for (size_t i = 0; i < m->n_devices && n < VR_MAX_NODES; i++) {
        struct vr_err err = { 0 };
        if (i && strcmp(m->devices[i].node, m->devices[i - 1].node) == 0) continue; /* they lie together */
        if (measure(m, i, &ways[n], &err))
            n++;
        else
            vr_log(VR_WARN, "node %s was not measured: %s", m->devices[i].node, err.msg);
    }
    return n;
}

static void show(struct vr_buf *out, const struct way *ways, size_t n, const char *path)
{
    VR_AUTO_TABLE t = { .cols = { { "node", false },
                                  { "round trip", true },
                                  { "to it", true },
                                  { "from it", true },
                                  { "devices", false } },
                        .n_cols = 5,
                        .indent = "  ",
                        .color = vr_show_color() };
    vr_show_title(out, "Ways to nodes");
    for (size_t i = 0; i < n; i++) {
        const struct way *w = &ways[i];
        vr_table_row(&t);
        vr_table_cell(&t, "%s", w->link.node);
        vr_table_cell(&t, "%.2f ms", w->link.round_trip_us / 1e3);
        vr_table_cell(&t, "%.3f GB/s", w->link.to_gbs);
        vr_table_cell(&t, "%.3f GB/s", w->link.from_gbs);
        vr_table_cell(
            &t, w->n_measured == w->n_devices ? "%zu, calibrated" : "%zu, from data sheets: run 'vram-llm bench' there",
            w->n_devices);
    }
    vr_table_print(&t, out);
    vr_buf_addf(out, "\n  Saved to %s; every plan with --nodes now uses it.\n", path);
}

static json_t *json_ways(const struct way *ways, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        const struct vr_node_link *l = &ways[i].link;
        json_array_append_new(list, json_pack("{s:s, s:s, s:f, s:f, s:f, s:I, s:I}", "node", l->node, "address",
                                              l->address, "round_trip_us", l->round_trip_us, "to_gbs", l->to_gbs,
                                              "from_gbs", l->from_gbs, "devices", (json_int_t)ways[i].n_devices,
                                              "calibrated", (json_int_t)ways[i].n_measured));
    }
    return json_pack("{s:o}", "nodes", list);
}

bool vr_bench_nodes(const struct vr_options *o, struct vr_buf *out, struct vr_err *err)
{
    static struct way ways[VR_MAX_NODES];
    static struct vr_node_links kept;
    struct vr_err damaged = { 0 };
    char path[512];
    if (o->model)
        return vr_fail(err, VR_EUSAGE,
                       "bench --nodes measures the links to nodes and takes no model: leave out one of the two");
    if (!vr_node_links_path(path, sizeof path))
        return vr_fail(err, VR_EIO, "cannot save what is measured: neither XDG_DATA_HOME nor HOME is set");
    VR_AUTO(vr_machine) m = vr_machine_new(err);
    if (!m || !vr_nodes_add(o, m, err)) return false;
    size_t n = measure_all(m, ways);
    if (!n) return vr_fail(err, VR_EDEVICE, "no link to a node could be measured");
    if (!vr_node_links_load(path, &kept, &damaged)) vr_log(VR_WARN, "%s; a new one is written", damaged.msg);
    for (size_t i = 0; i < n; i++) vr_node_link_keep(&kept, &ways[i].link);
    if (!vr_node_links_save(path, &kept, err)) return false;
    if (o->json) return vr_json_print(json_ways(ways, n), out, err);
    show(out, ways, n, path);
    return true;
}
