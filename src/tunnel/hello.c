#include "tunnel/hello.h"

#include <string.h>

#include <jansson.h>

static const char *const wants[VR_N_WANTS] = { "look", "lend", "join" };

/* A text member that finds room, or false. */
static bool get_text(const json_t *j, const char *key, char *out, size_t n)
{
    const json_t *v = json_object_get(j, key);
    if (!json_is_string(v) || json_string_length(v) >= n || strlen(json_string_value(v)) != json_string_length(v))
        return false;
    snprintf(out, n, "%s", json_string_value(v));
    return true;
}

static bool get_versions(const json_t *j, struct vr_versions *v)
{
    return get_text(j, "program", v->program, sizeof v->program) &&
           get_text(j, "engine", v->engine, sizeof v->engine) && get_text(j, "rpc", v->rpc, sizeof v->rpc);
}

/* Names go into messages and ids: what is not fit for it is replaced. */
static bool get_name(const json_t *j, const char *key, char out[VR_NODE_NAME])
{
    const char *name = json_string_value(json_object_get(j, key));
    if (name) vr_node_name(name, out);
    return name != NULL;
}

static bool print(json_t *j, struct vr_buf *out)
{
    char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;
    json_decref(j);
    if (text) vr_buf_adds(out, text);
    free(text);
    return text && !out->failed;
}

static json_t *json_versions(const char *name, const struct vr_versions *v)
{
    return json_pack("{s:s, s:s, s:s, s:s}", "name", name, "program", v->program, "engine", v->engine, "rpc", v->rpc);
}

bool vr_hello_write(const struct vr_hello *h, struct vr_buf *out)
{
    json_t *j = json_versions(h->name, &h->versions), *devices = json_array();
    json_object_set_new(j, "want", json_string(wants[h->want]));
    if (h->secret[0]) json_object_set_new(j, "secret", json_string(h->secret));
    for (size_t i = 0; i < h->n_devices; i++) json_array_append_new(devices, json_string(h->devices[i]));
    json_object_set_new(j, "devices", devices);
    return print(j, out);
}

static bool read_hello(const json_t *j, struct vr_hello *out)
{
    const json_t *devices = json_object_get(j, "devices");
    const char *want = json_string_value(json_object_get(j, "want"));
    while (want && out->want < VR_N_WANTS && strcmp(want, wants[out->want]) != 0) out->want++;
    if (!want || out->want == VR_N_WANTS || !get_name(j, "name", out->name) || !get_versions(j, &out->versions))
        return false;
    if (out->want == VR_WANT_JOIN && !get_text(j, "secret", out->secret, sizeof out->secret)) return false;
    for (; out->n_devices < json_array_size(devices); out->n_devices++) {
        const char *id = json_string_value(json_array_get(devices, out->n_devices));
        if (out->n_devices == VR_MAX_LENT || !id || !*id || strlen(id) >= sizeof out->devices[0]) return false;
        snprintf(out->devices[out->n_devices], sizeof out->devices[0], "%s", id);
    }
    return out->want != VR_WANT_LEND || out->n_devices > 0;
}

bool vr_hello_read(const void *data, size_t n, struct vr_hello *out)
{
    *out = (struct vr_hello){ 0 };
    json_t *j = json_loadb(data, n, 0, NULL);
    bool ok = read_hello(j, out);
    json_decref(j);
    return ok;
}

bool vr_welcome_write(const struct vr_welcome *w, struct vr_buf *out)
{
    json_t *j = json_versions(w->name, &w->versions);
    if (w->owner[0]) json_object_set_new(j, "owner", json_string(w->owner));
    if (w->machine.n) json_object_set_new(j, "machine", json_loadb(w->machine.data, w->machine.n, 0, NULL));
    return print(j, out);
}

bool vr_welcome_read(const void *data, size_t n, struct vr_welcome *out)
{
    *out = (struct vr_welcome){ 0 };
    json_t *j = json_loadb(data, n, 0, NULL), *machine = json_object_get(j, "machine");
    bool ok = get_name(j, "name", out->name) && get_versions(j, &out->versions);
    get_name(j, "owner", out->owner);
    if (ok && json_is_object(machine)) ok = print(json_incref(machine), &out->machine);
    json_decref(j);
    if (!ok) vr_welcome_done(out);
    return ok;
}

void vr_welcome_done(struct vr_welcome *w) { vr_buf_done(&w->machine); }

bool vr_versions_match(const struct vr_versions *a, const char *a_name, const struct vr_versions *b, const char *b_name,
                       struct vr_err *err)
{
    if (strcmp(a->engine, b->engine) == 0 && strcmp(a->rpc, b->rpc) == 0) return true;
    return vr_fail(err, VR_EUSAGE,
                   "%s runs vram-llm %s with llama.cpp %s (RPC %s), %s runs %s with %s (RPC %s): install the same "
                   "version on both",
                   a_name, a->program, a->engine, a->rpc, b_name, b->program, b->engine, b->rpc);
}
