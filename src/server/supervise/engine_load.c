#include "server/supervise/engine_load.h"

#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "base/json.h"

void vr_load_done(struct vr_load *l)
{
    vr_buf_done(&l->load_json);
    vr_buf_done(&l->plan_json);
    vr_buf_done(&l->env);
    vr_buf_done(&l->evict);
    vr_buf_done(&l->in_the_way);
    l->n_devices = 0;
}

uint64_t vr_load_bytes(const struct vr_load_device *d) { return d->model_bytes + d->context_bytes + d->compute_bytes; }

uint64_t vr_load_host_bytes(const struct vr_load *l)
{
    static const char *const parts[] = { "model_bytes", "context_bytes", "compute_bytes", "beside_bytes",
                                         "cache_bytes" };
    json_t *plan = l->plan_json.n ? json_loadb(l->plan_json.data, l->plan_json.n, 0, NULL) : NULL;
    const json_t *host = json_object_get(plan, "host");
    uint64_t sum = 0;
    for (size_t i = 0; i < VR_COUNT(parts); i++) {
        json_int_t v = json_integer_value(json_object_get(host, parts[i]));
        if (v > 0) sum += (uint64_t)v;
    }
    json_decref(plan);
    return sum;
}

size_t vr_load_borrowed(const struct vr_load *l)
{
    size_t n = 0;
    for (size_t i = 0; i < l->n_devices; i++) n += strchr(l->devices[i].name, '/') != NULL;
    return n;
}

static bool uses(const struct vr_load *l, const char *key)
{
    for (size_t i = 0; i < l->n_devices; i++)
        if (*l->devices[i].name && strcmp(l->devices[i].key, key) == 0) return true;
    return false;
}

bool vr_load_shares(const struct vr_load *a, const struct vr_load *b)
{
    bool any_a = false, any_b = false;
    for (size_t i = 0; i < a->n_devices; i++) {
        if (!*a->devices[i].name) continue;
        any_a = true;
        if (uses(b, a->devices[i].key)) return true;
    }
    for (size_t i = 0; i < b->n_devices; i++) any_b |= *b->devices[i].name != '\0';
    return !any_a && !any_b;
}

bool vr_load_uses_all(const struct vr_load *l)
{
    for (size_t i = 0; i < l->n_devices; i++)
        if (!*l->devices[i].name) return false;
    return true;
}

const struct vr_load_device *vr_load_find(const struct vr_load *l, const char *name)
{
    for (size_t i = 0; i < l->n_devices; i++)
        if (*name && strcmp(l->devices[i].name, name) == 0) return &l->devices[i];
    return NULL;
}

static json_t *json_device(const struct vr_load_device *d)
{
    return json_pack("{s:s, s:s, s:s?, s:I, s:I, s:I, s:I, s:I}", "key", d->key, "id", d->id, "name",
                     *d->name ? d->name : NULL, "free_bytes", (json_int_t)d->free_bytes, "reserve_bytes",
                     (json_int_t)d->reserve_bytes, "model_bytes", (json_int_t)d->model_bytes, "context_bytes",
                     (json_int_t)d->context_bytes, "compute_bytes", (json_int_t)d->compute_bytes);
}

static json_t *json_texts(const struct vr_buf *texts)
{
    json_t *list = json_array();
    for (size_t at = 0; at < texts->n; at += strlen(texts->data + at) + 1)
        json_array_append_new(list, json_string(texts->data + at));
    return list;
}

bool vr_load_write(const struct vr_load *l, struct vr_buf *out, struct vr_err *err)
{
    json_t *env = json_texts(&l->env), *evict = json_texts(&l->evict), *devices = json_array();
    for (size_t i = 0; i < l->n_devices; i++) json_array_append_new(devices, json_device(&l->devices[i]));
    json_t *load = json_loadb(l->load_json.data, l->load_json.n, 0, NULL);
    json_t *plan = l->plan_json.n ? json_loadb(l->plan_json.data, l->plan_json.n, 0, NULL) : json_null();
    json_t *split = l->split.id[0] ? json_pack("{s:s, s:s, s:s}", "id", l->split.id, "model", l->split.model, "engine",
                                               l->split.engine)
                                   : json_null();
    json_t *tree = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "load", load, "plan", plan, "env", env, "devices",
                             devices, "split", split, "evict", evict);
    VR_AUTO_FREE char *text = tree ? json_dumps(tree, JSON_COMPACT) : NULL;
    json_decref(tree);
    if (text) vr_buf_adds(out, text);
    return (text && !out->failed) || vr_fail_nomem(err, "writing down how an engine is started");
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
    return vr_json_read_text(json_object_get(j, "key"), d->key, sizeof d->key) &&
           vr_json_read_text(json_object_get(j, "id"), d->id, sizeof d->id) &&
           (json_is_null(name) || vr_json_read_text(name, d->name, sizeof d->name)) &&
           read_bytes(j, "free_bytes", &d->free_bytes) &&
           (!json_object_get(j, "reserve_bytes") || read_bytes(j, "reserve_bytes", &d->reserve_bytes)) &&
           read_bytes(j, "model_bytes", &d->model_bytes) && read_bytes(j, "context_bytes", &d->context_bytes) &&
           read_bytes(j, "compute_bytes", &d->compute_bytes);
}

static bool read_split(const json_t *j, struct vr_split *out)
{
    return json_is_null(j) || (vr_json_read_text(json_object_get(j, "id"), out->id, sizeof out->id) &&
                               vr_json_read_text(json_object_get(j, "model"), out->model, sizeof out->model) &&
                               vr_json_read_text(json_object_get(j, "engine"), out->engine, sizeof out->engine));
}

static bool add_json(const json_t *v, struct vr_buf *out)
{
    VR_AUTO_FREE char *text = json_is_object(v) ? json_dumps(v, JSON_COMPACT) : NULL;
    if (text) vr_buf_adds(out, text);
    return text && !out->failed;
}

/* Strings, each with its NUL, all of which have `has` in them. */
static bool read_texts(const json_t *list, char has, struct vr_buf *out)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *text = json_string_value(json_array_get(list, i));
        if (!text || !*text || (has && !strchr(text, has))) return false;
        vr_buf_add(out, text, strlen(text) + 1);
    }
    return !out->failed;
}

static bool read_tree(const json_t *tree, struct vr_load *out)
{
    const json_t *plan = json_object_get(tree, "plan"), *env = json_object_get(tree, "env"),
                 *devices = json_object_get(tree, "devices");
    if (!add_json(json_object_get(tree, "load"), &out->load_json)) return false;
    if (!json_is_null(plan) && !add_json(plan, &out->plan_json)) return false;
    if (!json_is_array(env) || !json_is_array(devices) || json_array_size(devices) > VR_MAX_LOAD_DEVICES) return false;
    if (!read_texts(env, '=', &out->env) || !read_texts(json_object_get(tree, "evict"), 0, &out->evict)) return false;
    for (size_t i = 0; i < json_array_size(devices); i++) {
        out->devices[i] = (struct vr_load_device){ 0 };
        if (!read_device(json_array_get(devices, i), &out->devices[i])) return false;
        out->n_devices = i + 1;
    }
    return read_split(json_object_get(tree, "split"), &out->split);
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
