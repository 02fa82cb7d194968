/* A file's name is bytes and JSON is UTF-8: a name that is not UTF-8 is written as {"hex": "2f746d70…"}.
 *
 * Devices are named, not numbered: the message holds them in placement order, and overrides and companions refer to
 * them by name. Virtual devices ("vgpus") are told with all that makes them up, and machines that lend some ("nodes")
 * with what it takes to reach them. */
#include "engine/params/load_message.h"

#include <math.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "engine/wire/limits.h"
#include "gguf/type.h"

enum { MAX_OVERRIDES = 4096 };

static const char *const split_modes[] = { "layer", "none", "tensor", NULL };
static const char *const spec_words[] = {
#define SPEC(id, name, file, tensor, tokens, acceptance, what) name,
#include "engine/speculate/kinds.def"
#undef SPEC
    NULL
};
static const char *const flash_words[] = { "auto", "on", "off", NULL };

static size_t flash_of(const struct vr_load_params *p) { return p->flash_auto ? 0 : p->context.flash_attn ? 1 : 2; }

static void set_flash(struct vr_load_params *p, size_t i)
{
    p->flash_auto = i == 0;
    p->context.flash_attn = i != 2;
}

/* --- writing --- */

static json_t *json_path(const char *path)
{
    if (vr_utf8_is(path)) return json_string(path);
    VR_AUTO_BUF hex = { 0 };
    for (const char *at = path; *at; at++) vr_buf_addf(&hex, "%02x", (unsigned char)*at);
    return hex.failed ? NULL : json_pack("{s:s}", "hex", vr_buf_str(&hex));
}

static json_t *json_vgpu(const struct vr_vgpu_spec *d)
{
    return json_pack("{s:s, s:s, s:f, s:f, s:f, s:b, s:i, s:i}", "name", d->name, "about", d->about, "mib",
                     (double)d->total_bytes / (double)VR_MIB, "cap_mib", (double)d->free_bytes / (double)VR_MIB,
                     "run_mib", (double)d->run_bytes / (double)VR_MIB, "like_cuda", d->like_cuda, "cc", d->cc,
                     "borrowed", (int)d->borrowed);
}

static json_t *json_nodes(const struct vr_load_params *p)
{
    json_t *list = json_array();
    for (size_t i = 0; i < p->n_nodes; i++) {
        const struct vr_load_node *n = &p->nodes[i];
        json_t *devices = json_array();
        for (size_t k = 0; k < n->n_devices; k++) json_array_append_new(devices, json_string(n->devices[k]));
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:i, s:s, s:o}", "name", n->pair.name, "host", n->pair.host, "port",
                                        n->pair.port, "fingerprint", n->pair.fingerprint, "devices", devices));
    }
    return list;
}

static void write_placement(const struct vr_load_params *p, json_t *load)
{
    json_t *devices = json_array(), *split = json_array(), *overrides = json_array(), *vgpus = json_array(),
           *loras = json_array();
    for (size_t i = 0; i < vr_load_params_n_order(p); i++) {
        json_array_append_new(devices, json_string(p->devices[vr_load_params_device(p, i)].name));
        if (p->has_split) json_array_append_new(split, json_real((double)p->split[i]));
    }
    for (size_t i = 0; i < p->n_overrides; i++) {
        const struct vr_override *o = &p->overrides[i];
        json_array_append_new(overrides, json_pack("{s:s, s:s}", "pattern", o->pattern, "device",
                                                   o->device == VR_ON_CPU ? "CPU" : p->devices[o->device].name));
    }
    for (size_t i = 0; i < p->n_vgpus; i++) json_array_append_new(vgpus, json_vgpu(&p->vgpus[i]));
    json_object_set_new(load, "devices", devices);
    json_object_set_new(load, "tensor_split", split);
    json_object_set_new(load, "overrides", overrides);
    json_object_set_new(load, "vgpus", vgpus);
    for (size_t i = 0; i < p->n_loras; i++)
        json_array_append_new(
            loras, json_pack("{s:o, s:f}", "path", json_path(p->loras[i].path), "scale", (double)p->loras[i].scale));
    json_object_set_new(load, "loras", loras);
    json_object_set_new(load, "nodes", json_nodes(p));
}

bool vr_load_params_write(const struct vr_load_params *p, struct vr_buf *out, struct vr_err *err)
{
    json_t *load = json_object();
#define SET(key, value)                                                                                                \
    if (json_object_set_new(load, #key, value) != 0)                                                                   \
        return json_decref(load), vr_fail(err, VR_EUSAGE, "\"%s\" is not UTF-8 text", #key);
#define LOAD_INT(key, member, min, max)   SET(key, json_integer((json_int_t)p->member))
#define LOAD_BOOL(key, member)            SET(key, json_boolean(p->member))
#define LOAD_TYPE(key, member)            SET(key, json_string(vr_type(p->member)->name))
#define LOAD_TEXT(key, member)            SET(key, json_string(p->member))
#define LOAD_PATH(key, member)            SET(key, json_path(p->member))
#define LOAD_PICK(key, words, index, set) SET(key, json_string(words[index]))
#include "engine/params/load_message.def"
#undef LOAD_INT
#undef LOAD_BOOL
#undef LOAD_TYPE
#undef LOAD_TEXT
#undef LOAD_PATH
#undef LOAD_PICK
#undef SET
    write_placement(p, load);
    VR_AUTO_FREE char *text = json_dumps(load, JSON_COMPACT);
    json_decref(load);
    if (text) vr_buf_adds(out, text);
    return (text && !out->failed) || vr_fail_nomem(err, "writing the engine's settings");
}

/* --- reading single values --- */

static bool read_int(const json_t *v, const char *key, long min, long max, long *out, struct vr_err *err)
{
    if (!json_is_integer(v) || json_integer_value(v) < min || json_integer_value(v) > max)
        return vr_fail(err, VR_EUSAGE, "load: \"%s\" must be an integer from %ld to %ld", key, min, max);
    *out = (long)json_integer_value(v);
    return true;
}

static bool read_text(const json_t *v, const char *key, struct vr_arena *arena, const char **out, struct vr_err *err)
{
    const char *s = json_string_value(v);
    if (!s) return vr_fail(err, VR_EUSAGE, "load: \"%s\" must be a string", key);
    *out = vr_arena_strdup(arena, s);
    return *out || vr_fail_nomem(err, "reading what is to be loaded");
}

static int digit(char c)
{
    const char *at = c ? strchr("0123456789abcdef", c) : NULL;
    return at ? (int)(at - "0123456789abcdef") : -1;
}

static bool read_path(const json_t *v, const char *key, struct vr_arena *arena, const char **out, struct vr_err *err)
{
    const char *hex = json_string_value(json_object_get(v, "hex"));
    if (!hex) return read_text(v, key, arena, out, err);
    size_t n = strlen(hex) / 2;
    char *path = vr_arena_alloc(arena, n + 1, 1);
    if (!path) return vr_fail_nomem(err, "reading what is to be loaded");
    for (size_t i = 0; i < n; i++) {
        int high = digit(hex[2 * i]), low = digit(hex[2 * i + 1]);
        if (high < 0 || low < 0 || high + low == 0)
            return vr_fail(err, VR_EUSAGE, "load: \"%s\" is not the bytes of a file's name", key);
        path[i] = (char)(high * 16 + low);
    }
    *out = path;
    return true;
}

static bool read_pick(const json_t *v, const char *key, const char *const *words, size_t *out, struct vr_err *err)
{
    const char *s = json_string_value(v);
    for (*out = 0; s && words[*out]; ++*out)
        if (strcmp(s, words[*out]) == 0) return true;
    return vr_fail(err, VR_EUSAGE, "load: \"%s\" cannot be '%.40s'", key, s ? s : "?");
}

static bool read_type(const json_t *v, const char *key, uint32_t *out, struct vr_err *err)
{
    const char *s = json_string_value(v);
    *out = s ? vr_type_by_name(s) : VR_TYPE_NONE;
    return *out != VR_TYPE_NONE || vr_fail(err, VR_EUSAGE, "load: \"%s\" cannot be '%.40s'", key, s ? s : "?");
}

struct arrays {
    const json_t *devices, *tensor_split, *overrides, *vgpus, *loras, *nodes;
};

static bool read_array(const char *key, const json_t *v, struct arrays *a, struct vr_err *err)
{
    const json_t **array = strcmp(key, "devices") == 0        ? &a->devices
                           : strcmp(key, "tensor_split") == 0 ? &a->tensor_split
                           : strcmp(key, "overrides") == 0    ? &a->overrides
                           : strcmp(key, "vgpus") == 0        ? &a->vgpus
                           : strcmp(key, "loras") == 0        ? &a->loras
                           : strcmp(key, "nodes") == 0        ? &a->nodes
                                                              : NULL;
    if (!array) return vr_fail(err, VR_EUSAGE, "load: \"%.80s\" is not known", key);
    *array = v;
    return json_is_array(v) || vr_fail(err, VR_EUSAGE, "load: \"%s\" must be an array", key);
}

static bool read_field(const char *key, const json_t *v, struct vr_arena *arena, struct vr_load_params *p,
                       struct arrays *arrays, struct vr_err *err)
{
    long n;
    size_t i;
#define IS(key_) (strcmp(key, #key_) == 0)
#define LOAD_INT(key_, member, min, max)                                                                               \
    if (IS(key_)) return read_int(v, key, min, max, &n, err) && (p->member = (__typeof__(p->member))n, true);
#define LOAD_BOOL(key_, member)                                                                                        \
    if (IS(key_)) {                                                                                                    \
        p->member = json_is_true(v);                                                                                   \
        return json_is_boolean(v) || vr_fail(err, VR_EUSAGE, "load: \"%s\" must be true or false", key);               \
    }
#define LOAD_TYPE(key_, member)                                                                                        \
    if (IS(key_)) return read_type(v, key, &p->member, err);
#define LOAD_TEXT(key_, member)                                                                                        \
    if (IS(key_)) return read_text(v, key, arena, &p->member, err);
#define LOAD_PATH(key_, member)                                                                                        \
    if (IS(key_)) return read_path(v, key, arena, &p->member, err);
#define LOAD_PICK(key_, words, index, set)                                                                             \
    if (IS(key_)) return read_pick(v, key, words, &i, err) && (set, true);
#include "engine/params/load_message.def"
#undef LOAD_INT
#undef LOAD_BOOL
#undef LOAD_TYPE
#undef LOAD_TEXT
#undef LOAD_PATH
#undef LOAD_PICK
#undef IS
    return read_array(key, v, arrays, err);
}

/* --- reading devices --- */

static bool read_vgpu(const json_t *j, struct vr_vgpu_spec *out, struct vr_err *err)
{
    const char *name = json_string_value(json_object_get(j, "name")),
               *about = json_string_value(json_object_get(j, "about"));
    const json_t *mib = json_object_get(j, "mib"), *cap = json_object_get(j, "cap_mib");
    double total = json_number_value(mib), most = cap ? json_number_value(cap) : total;
    json_int_t borrowed = json_integer_value(json_object_get(j, "borrowed"));
    double run = json_number_value(json_object_get(j, "run_mib")), cc = json_number_value(json_object_get(j, "cc"));
    if (!name || strlen(name) >= sizeof out->name || !(total > 0) || !(most >= 0) || !(run >= 0))
        return vr_fail(err, VR_EUSAGE, "load: a virtual GPU needs a short \"name\" and \"mib\"");
    *out = (struct vr_vgpu_spec){ .total_bytes = (uint64_t)(total * (double)VR_MIB),
                                  .free_bytes = (uint64_t)(most * (double)VR_MIB),
                                  .run_bytes = (uint64_t)(run * (double)VR_MIB),
                                  .borrowed = borrowed == VR_BORROWED_GPU || borrowed == VR_BORROWED_CPU
                                                  ? (enum vr_borrowed)borrowed
                                                  : VR_BORROWED_NOT,
                                  .like_cuda = json_is_true(json_object_get(j, "like_cuda")),
                                  .cc = cc > 0 ? (int)cc : 860 };
    snprintf(out->name, sizeof out->name, "%s", name);
    snprintf(out->about, sizeof out->about, "%s", about ? about : "virtual GPU");
    return true;
}

static bool read_vgpus(const json_t *list, struct vr_arena *arena, struct vr_load_params *p, struct vr_err *err)
{
    size_t n = json_array_size(list);
    if (n > VR_MAX_VGPUS) return vr_fail(err, VR_EUSAGE, "load: %zu virtual GPUs, at most %d", n, VR_MAX_VGPUS);
    struct vr_vgpu_spec *all = vr_arena_alloc(arena, n + 1, sizeof *all);
    if (!all) return vr_fail_nomem(err, "reading what is to be loaded");
    for (size_t i = 0; i < n; i++)
        if (!read_vgpu(json_array_get(list, i), &all[i], err)) return false;
    p->vgpus = all;
    p->n_vgpus = n;
    return true;
}

static bool copy_text(const json_t *j, const char *key, char *out, size_t n)
{
    const char *s = json_string_value(json_object_get(j, key));
    if (!s || !*s || strlen(s) >= n) return false;
    snprintf(out, n, "%s", s);
    return true;
}

static bool read_node(const json_t *j, struct vr_load_node *out)
{
    const json_t *devices = json_object_get(j, "devices");
    json_int_t port = json_integer_value(json_object_get(j, "port"));
    size_t n = json_array_size(devices);
    if (!copy_text(j, "name", out->pair.name, sizeof out->pair.name) ||
        !copy_text(j, "host", out->pair.host, sizeof out->pair.host) ||
        !copy_text(j, "fingerprint", out->pair.fingerprint, sizeof out->pair.fingerprint) ||
        !vr_fingerprint_is(out->pair.fingerprint) || port < 1 || port > 65535 || n == 0 || n > VR_MAX_LENT)
        return false;
    out->pair.port = (uint16_t)port;
    for (size_t i = 0; i < n; i++) {
        const char *id = json_string_value(json_array_get(devices, i));
        if (!id || !*id || strlen(id) >= sizeof out->devices[0]) return false;
        snprintf(out->devices[out->n_devices++], sizeof out->devices[0], "%s", id);
    }
    return true;
}

static bool read_nodes(const json_t *list, struct vr_arena *arena, struct vr_load_params *p, struct vr_err *err)
{
    size_t n = json_array_size(list);
    if (n > VR_MAX_NODES) return vr_fail(err, VR_EUSAGE, "load: %zu nodes, at most %d", n, VR_MAX_NODES);
    struct vr_load_node *all = vr_arena_alloc(arena, n + 1, sizeof *all);
    if (!all) return vr_fail_nomem(err, "reading what is to be loaded");
    for (size_t i = 0; i < n; i++)
        if (!read_node(json_array_get(list, i), &all[i]))
            return vr_fail(err, VR_EUSAGE, "load: node %zu needs a name, an address, a fingerprint and devices", i);
    p->nodes = all;
    p->n_nodes = n;
    return true;
}

/* The index of the device of that name; one that was not named before gets the next. -1: there are too many. */
static int find_device(struct vr_load_params *p, struct vr_vgpu_spec *table, const char *name)
{
    for (size_t i = 0; i < p->n_devices; i++)
        if (strcmp(table[i].name, name) == 0) return (int)i;
    if (p->n_devices == VR_MAX_VGPUS || strlen(name) >= sizeof table->name) return -1;
    snprintf(table[p->n_devices].name, sizeof table->name, "%s", name);
    return (int)p->n_devices++;
}

static bool read_devices(const json_t *list, struct vr_load_params *p, struct vr_vgpu_spec *table, struct vr_err *err)
{
    size_t n = json_array_size(list);
    if (n > VR_MAX_VGPUS)
        return vr_fail(err, VR_EUSAGE, "load: %zu devices, at most %d; leave some out", n, VR_MAX_VGPUS);
    for (size_t i = 0; i < n; i++) {
        const char *name = json_string_value(json_array_get(list, i));
        int device = name ? find_device(p, table, name) : -1;
        if (device < 0) return vr_fail(err, VR_EUSAGE, "load: \"devices\" must be names of devices");
        p->order[p->n_order++] = (uint8_t)device;
    }
    p->devices = table;
    return true;
}

static bool read_split(const json_t *list, struct vr_load_params *p, struct vr_err *err)
{
    size_t n = json_array_size(list);
    if (n > p->n_order) return vr_fail(err, VR_EUSAGE, "load: \"tensor_split\" is longer than \"devices\"");
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(list, i);
        if (!json_is_number(v) || json_number_value(v) < 0)
            return vr_fail(err, VR_EUSAGE, "load: \"tensor_split\" must be numbers, not negative");
        p->split[i] = (float)json_number_value(v);
    }
    p->has_split = n > 0;
    return true;
}

static bool read_overrides(const json_t *list, struct vr_arena *arena, struct vr_load_params *p,
                           struct vr_vgpu_spec *table, struct vr_err *err)
{
    size_t n = json_array_size(list);
    if (n > MAX_OVERRIDES) return vr_fail(err, VR_EUSAGE, "load: %zu overrides, at most %d", n, MAX_OVERRIDES);
    struct vr_override *all = vr_arena_alloc(arena, n + 1, sizeof *all);
    if (!all) return vr_fail_nomem(err, "reading what is to be loaded");
    for (size_t i = 0; i < n; i++) {
        const json_t *o = json_array_get(list, i);
        const char *name = json_string_value(json_object_get(o, "device"));
        bool cpu = name && strcmp(name, "CPU") == 0;
        all[i].device = cpu || !name || p->n_order == 0 ? VR_ON_CPU : find_device(p, table, name);
        if (!name || !json_is_string(json_object_get(o, "pattern")) || (!cpu && all[i].device < 0))
            return vr_fail(err, VR_EUSAGE, "load: override %zu needs a \"pattern\" and a \"device\" that is there", i);
        if (!read_text(json_object_get(o, "pattern"), "pattern", arena, &all[i].pattern, err)) return false;
    }
    p->overrides = all;
    p->n_overrides = n;
    return true;
}

static bool read_loras(const json_t *list, struct vr_arena *arena, struct vr_load_params *p, struct vr_err *err)
{
    size_t n = json_array_size(list);
    if (n > VR_MOST_LORAS) return vr_fail(err, VR_EUSAGE, "load: %zu LoRA adapters, at most %d", n, VR_MOST_LORAS);
    struct vr_lora *all = vr_arena_alloc(arena, n + 1, sizeof *all);
    if (!all) return vr_fail_nomem(err, "reading what is to be loaded");
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(list, i), *scale = json_object_get(v, "scale");
        all[i].scale = (float)json_number_value(scale);
        if (!json_is_number(scale) || !isfinite(all[i].scale))
            return vr_fail(err, VR_EUSAGE, "load: LoRA adapter %zu needs a \"path\" and a \"scale\"", i);
        if (!read_path(json_object_get(v, "path"), "path", arena, &all[i].path, err)) return false;
    }
    p->loras = all;
    p->n_loras = n;
    return true;
}

bool vr_load_params_read(const json_t *load, struct vr_arena *arena, struct vr_load_params *out, struct vr_err *err)
{
    struct arrays arrays = { 0 };
    const char *key;
    const json_t *v;
    *out = vr_load_params_default();
    if (!json_is_object(load)) return vr_fail(err, VR_EUSAGE, "load: not a JSON object");
    json_object_foreach((json_t *)(uintptr_t)load, key, v)
    {
        if (!read_field(key, v, arena, out, &arrays, err)) return false;
    }
    if (!out->model[0]) return vr_fail(err, VR_EUSAGE, "load: \"model\" is missing");
    if (out->draft[0] && !out->spec) out->spec = VR_SPEC_DRAFT;
    struct vr_vgpu_spec *table = vr_arena_alloc(arena, VR_MAX_VGPUS, sizeof *table);
    if (!table) return vr_fail_nomem(err, "reading what is to be loaded");
    return read_vgpus(arrays.vgpus, arena, out, err) && read_nodes(arrays.nodes, arena, out, err) &&
           read_devices(arrays.devices, out, table, err) && read_split(arrays.tensor_split, out, err) &&
           read_overrides(arrays.overrides, arena, out, table, err) && read_loras(arrays.loras, arena, out, err);
}
