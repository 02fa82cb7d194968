#include "hw/node_links.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/file.h"

#define MAX_FILE 65536
#define MOST_US  1e8
#define MOST_GBS 1e5

bool vr_node_links_path(char *out, size_t n)
{
    return vr_file_own_path("XDG_DATA_HOME", ".local/share", "links.json", out, n);
}

static bool read_text(const json_t *j, const char *key, char *out, size_t n)
{
    const char *s = json_string_value(json_object_get(j, key));
    return s && (size_t)snprintf(out, n, "%s", s) < n;
}

static bool read_rate(const json_t *j, const char *key, double most, double *out)
{
    const json_t *v = json_object_get(j, key);
    *out = json_number_value(v);
    return json_is_number(v) && *out > 0 && *out <= most;
}

static bool read_link(const json_t *j, struct vr_node_link *out)
{
    return read_text(j, "node", out->node, sizeof out->node) && read_text(j, "key", out->key, sizeof out->key) &&
           read_text(j, "address", out->address, sizeof out->address) &&
           read_text(j, "when", out->when, sizeof out->when) &&
           read_rate(j, "round_trip_us", MOST_US, &out->round_trip_us) &&
           read_rate(j, "to_gbs", MOST_GBS, &out->to_gbs) && read_rate(j, "from_gbs", MOST_GBS, &out->from_gbs);
}

static bool read_links(const json_t *tree, struct vr_node_links *out)
{
    const json_t *list = json_object_get(tree, "links");
    if (!json_is_array(list) || json_array_size(list) > VR_MAX_NODE_LINKS) return false;
    for (; out->n < json_array_size(list); out->n++)
        if (!read_link(json_array_get(list, out->n), &out->items[out->n])) return false;
    return true;
}

bool vr_node_links_load(const char *path, struct vr_node_links *out, struct vr_err *err)
{
    VR_AUTO_BUF text = { 0 };
    *out = (struct vr_node_links){ 0 };
    if (access(path, F_OK) != 0) return true;
    if (!vr_file_read(path, MAX_FILE, &text, err)) return false;
    json_t *tree = json_loadb(vr_buf_str(&text), text.n, 0, NULL);
    bool ok = read_links(tree, out);
    json_decref(tree);
    if (ok) return true;
    *out = (struct vr_node_links){ 0 };
    return vr_fail(err, VR_EFORMAT, "%s is damaged: remove it, and run 'vram-llm bench --nodes' again", path);
}

bool vr_node_links_save(const char *path, const struct vr_node_links *l, struct vr_err *err)
{
    json_t *list = json_array(), *tree = json_pack("{s:o}", "links", list);
    for (size_t i = 0; i < l->n; i++) {
        const struct vr_node_link *x = &l->items[i];
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:f, s:f, s:f, s:s}", "node", x->node, "key", x->key,
                                              "address", x->address, "round_trip_us", x->round_trip_us, "to_gbs",
                                              x->to_gbs, "from_gbs", x->from_gbs, "when", x->when));
    }
    VR_AUTO_FREE char *text = tree ? json_dumps(tree, JSON_INDENT(2)) : NULL;
    bool whole = json_array_size(list) == l->n;
    json_decref(tree);
    if (!text || !whole) return vr_fail_nomem(err, "writing what was measured");
    return vr_file_make_parents(path, err) && vr_file_write(path, text, strlen(text), err);
}

const struct vr_node_link *vr_node_link_find(const struct vr_node_links *l, const char *key, const char *address)
{
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->items[i].key, key) == 0 && strcmp(l->items[i].address, address) == 0) return &l->items[i];
    return NULL;
}

void vr_node_link_keep(struct vr_node_links *l, const struct vr_node_link *one)
{
    const struct vr_node_link *known = vr_node_link_find(l, one->key, one->address);
    size_t at = known ? (size_t)(known - l->items) : l->n;
    if (at == VR_MAX_NODE_LINKS)
        for (size_t i = at = 0; i < l->n; i++)
            if (strcmp(l->items[i].when, l->items[at].when) < 0) at = i;
    l->items[at] = *one;
    if (at == l->n) l->n++;
}

double vr_node_link_gbs(const struct vr_node_link *one) { return 2 / (1 / one->to_gbs + 1 / one->from_gbs); }

bool vr_node_link_holds(const struct vr_node_link *one, double look_us)
{
    const double slack_us = 1000; /* a moment in which one of both machines was busy */
    return look_us <= 2 * one->round_trip_us + slack_us && one->round_trip_us <= 4 * look_us + slack_us;
}
