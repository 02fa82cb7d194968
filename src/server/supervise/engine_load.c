#include "server/supervise/engine_load.h"

#include <stdio.h>
#include <string.h>

#include <jansson.h>

void vr_load_done(struct vr_load *l)
{
    vr_buf_done(&l->load_json);
    vr_buf_done(&l->plan_json);
    vr_buf_done(&l->env);
    l->n_devices = 0;
}

uint64_t vr_load_bytes(const struct vr_load_device *d) { return d->model_bytes + d->context_bytes + d->compute_bytes; }

const struct vr_load_device *vr_load_find(const struct vr_load *l, const char *name)
{
    for (size_t i = 0; i < l->n_devices; i++)
        if (*name && strcmp(l->devices[i].name, name) == 0) return &l->devices[i];
    return NULL;
}

static json_t *json_device(const struct vr_load_device *d)
{
    return json_pack("{s:s, s:s?, s:I, s:I, s:I, s:I}", "key", d->key, "name", *d->name ? d->name : NULL, "free_bytes",
                     (json_int_t)d->free_bytes, "model_bytes", (json_int_t)d->model_bytes, "context_bytes",
                     (json_int_t)d->context_bytes, "compute_bytes", (json_int_t)d->compute_bytes);
}

bool vr_load_write(const struct vr_load *l, struct vr_buf *out, struct vr_err *err)
{
    json_t *env = json_array(), *devices = json_array();
    for (size_t at = 0; at < l->env.n; at += strlen(l->env.data + at) + 1)
        json_array_append_new(env, json_string(l->env.data + at));
    for (size_t i = 0; i < l->n_devices; i++) json_array_append_new(devices, json_device(&l->devices[i]));
    json_t *load = json_loadb(l->load_json.data, l->load_json.n, 0, NULL);
    json_t *plan = l->plan_json.n ? json_loadb(l->plan_json.data, l->plan_json.n, 0, NULL) : json_null();
    json_t *tree = json_pack("{s:o, s:o, s:o, s:o}", "load", load, "plan", plan, "env", env, "devices", devices);
    VR_AUTO_FREE char *text = tree ? json_dumps(tree, JSON_COMPACT) : NULL;
    json_decref(tree);
    if (text) vr_buf_adds(out, text);
    return (text && !out->failed) || vr_fail_nomem(err, "writing down how an engine is started");
}

static bool read_text(const json_t *v, char *out, size_t n)
{
    const char *s = json_string_value(v);
    return s && (size_t)snprintf(out, n, "%s", s) < n;
}

static bool read_bytes(const json_t *d, const char *name, uint64_t *out)
{
    const json_t *v = json_object_get(d, name);
    *out = (uint64_t)json_integer_value(v);
    return json_is_integer(v) && json_integer_value(v) >= 0;
}

static bool read_device(const json_t *j, struct vr_load_device *d)
{
    const json_t *name = json_object_get(j, "name");
    return read_text(json_object_get(j, "key"), d->key, sizeof d->key) &&
           (json_is_null(name) || read_text(name, d->name, sizeof d->name)) &&
           read_bytes(j, "free_bytes", &d->free_bytes) && read_bytes(j, "model_bytes", &d->model_bytes) &&
           read_bytes(j, "context_bytes", &d->context_bytes) && read_bytes(j, "compute_bytes", &d->compute_bytes);
}

static bool add_json(const json_t *v, struct vr_buf *out)
{
    VR_AUTO_FREE char *text = json_is_object(v) ? json_dumps(v, JSON_COMPACT) : NULL;
    if (text) vr_buf_adds(out, text);
    return text && !out->failed;
}

static bool read_tree(const json_t *tree, struct vr_load *out)
{
    const json_t *plan = json_object_get(tree, "plan"), *env = json_object_get(tree, "env"),
                 *devices = json_object_get(tree, "devices");
    if (!add_json(json_object_get(tree, "load"), &out->load_json)) return false;
    if (!json_is_null(plan) && !add_json(plan, &out->plan_json)) return false;
    if (!json_is_array(env) || !json_is_array(devices) || json_array_size(devices) > VR_MAX_LOAD_DEVICES) return false;
    for (size_t i = 0; i < json_array_size(env); i++) {
        const char *pair = json_string_value(json_array_get(env, i));
        if (!pair || !strchr(pair, '=')) return false;
        vr_buf_add(&out->env, pair, strlen(pair) + 1);
    }
    for (size_t i = 0; i < json_array_size(devices); i++) {
        out->devices[i] = (struct vr_load_device){ 0 };
        if (!read_device(json_array_get(devices, i), &out->devices[i])) return false;
        out->n_devices = i + 1;
    }
    return !out->env.failed;
}

bool vr_load_read(const char *text, size_t n, struct vr_load *out, struct vr_err *err)
{
    json_t *tree = json_loadb(text, n, 0, NULL);
    bool ok = read_tree(tree, out);
    json_decref(tree);
    if (ok) return true;
    vr_load_done(out);
    return vr_fail(err, VR_EINTERNAL, "what was planned cannot be read");
}
