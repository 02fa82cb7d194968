/* Profiles: JSON in, JSON out.
 *
 * Reading trusts nothing. One table per object says which field goes where, of what kind and within which limits; a
 * value outside of them becomes a sentence with the file and the field's path. Writing is by hand rather than through a
 * tree, because people read and edit these files: whole numbers without a fraction, others with as few digits as bring
 * back the same value, unknown facts left out. */
#include "hw/profile.h"

#include <ctype.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "hw/gpus.h"

enum kind { TEXT, MIB, SIZE, REAL, U16, U32, INT, CAPABILITY, KIND, WAY, FROM, BOOL, IGNORED };

struct field {
    const char *key;
    enum kind kind;
    size_t at;       /* in the struct */
    size_t size;     /* TEXT: of the array */
    double min, max; /* numbers */
    bool needed;
};

#define MAX_MIB ((double)(1 << 30)) /* one PiB: no machine, and still exact in a double to the byte */

#define F(type, member) offsetof(struct type, member), sizeof(((struct type *)0)->member)

static const struct field top_fields[] = {
    { "about", TEXT, F(vr_machine, about), 0, 0, false },
    { "driver", TEXT, F(vr_machine, driver), 0, 0, false },
    { "note", TEXT, F(vr_machine, note), 0, 0, false },
    { "host", IGNORED, 0, 0, 0, 0, true },
    { "devices", IGNORED, 0, 0, 0, 0, true },
    { "links", IGNORED, 0, 0, 0, 0, false },
    { "reduce_way", WAY, F(vr_machine, reduce_way), 0, 0, false },
    { "reductions", IGNORED, 0, 0, 0, 0, false },
};
static const struct field host_fields[] = {
    { "cpu", TEXT, F(vr_host, cpu), 0, 0, false },
    { "ram_total_mib", MIB, F(vr_host, ram_total_bytes), 1, MAX_MIB, true },
    { "ram_free_mib", MIB, F(vr_host, ram_free_bytes), 0, MAX_MIB, false },
    { "bandwidth_gbs", REAL, F(vr_host, bandwidth_gbs), 0, 1e5, false },
    { "bandwidth_from", FROM, F(vr_host, bandwidth_from), 0, 0, false },
    { "cores", U32, F(vr_host, cores), 0, 1 << 20, false },
    { "threads", U32, F(vr_host, threads), 0, 1 << 20, false },
    { "numa_nodes", U32, F(vr_host, numa_nodes), 0, 1024, false },
    { "measured", IGNORED, 0, 0, 0, 0, false },
    { "alone", IGNORED, 0, 0, 0, 0, false },
};
static const struct field device_fields[] = {
    { "id", IGNORED, 0, 0, 0, 0, false }, /* follows from the order */
    { "name", TEXT, F(vr_device, name), 0, 0, true },
    { "backend", TEXT, F(vr_device, backend), 0, 0, false },
    { "uuid", TEXT, F(vr_device, uuid), 0, 0, false },
    { "pci", TEXT, F(vr_device, pci), 0, 0, false },
    { "total_mib", MIB, F(vr_device, total_bytes), 0, 16.0 * (1 << 20), true },
    { "free_mib", MIB, F(vr_device, free_bytes), 0, 16.0 * (1 << 20), false },
    { "bandwidth_gbs", REAL, F(vr_device, bandwidth_gbs), 0, 1e5, false },
    { "fp16_tflops", REAL, F(vr_device, fp16_tflops), 0, 1e6, false },
    { "compute_capability", CAPABILITY, 0, 0, 0, 0, false },
    { "pcie_gen", U16, F(vr_device, pcie_gen), 0, 8, false },
    { "pcie_lanes", U16, F(vr_device, pcie_lanes), 0, 32, false },
    { "pcie_gen_max", U16, F(vr_device, pcie_gen_max), 0, 8, false },
    { "pcie_lanes_max", U16, F(vr_device, pcie_lanes_max), 0, 32, false },
    { "numa", INT, F(vr_device, numa), -1, 1023, false },
    { "note", TEXT, F(vr_device, note), 0, 0, false },
    { "node", TEXT, F(vr_device, node), 0, 0, false },
    { "net_gbs", REAL, F(vr_device, net_gbs), 0, 1e5, false },
    { "net_us", REAL, F(vr_device, net_us), 0, 1e8, false },
    { "measured", IGNORED, 0, 0, 0, 0, false },
};
static const struct field measured_fields[] = {
    { "when", TEXT, F(vr_measured, when), 0, 0, true },
    { "engine", TEXT, F(vr_measured, engine), 0, 0, false },
    { "driver", TEXT, F(vr_measured, driver), 0, 0, false },
    { "runtime_mib", SIZE, F(vr_measured, runtime_bytes), 0, 1 << 20, false },
    { "blas_mib", SIZE, F(vr_measured, blas_bytes), 0, 1 << 20, false },
    { "launch_us", REAL, F(vr_measured, launch_us), 0, 1e6, false },
    { "submit_us", REAL, F(vr_measured, submit_us), 0, 1e6, false },
    { "prompt_launch_us", IGNORED, 0, 0, 0, 0, false }, /* of older profiles, and … */
    { "prompt_submit_us", REAL, F(vr_measured, prompt_submit_us), 0, 1e6, false },
    { "prompt_pair_ns", REAL, F(vr_measured, prompt_pair_ns), 0, 1e6, false },
    { "step_us", REAL, F(vr_measured, step_us), 0, 1e7, false },
    { "prompt_step_us", IGNORED, 0, 0, 0, 0, false }, /* … so is this */
    { "product_us", REAL, F(vr_measured, product_us), 0, 1e6, false },
    { "prompt_product_us", REAL, F(vr_measured, prompt_product_us), 0, 1e6, false },
    { "attention_gbs", REAL, F(vr_measured, attention_gbs), 0, 1e6, false },
    { "attention_tflops", REAL, F(vr_measured, attention_tflops), 0, 1e6, false },
    { "up_gbs", REAL, F(vr_measured, up_gbs), 0, 1e6, false },
    { "up_us", REAL, F(vr_measured, up_us), 0, 1e6, false },
    { "down_gbs", REAL, F(vr_measured, down_gbs), 0, 1e6, false },
    { "down_us", REAL, F(vr_measured, down_us), 0, 1e6, false },
    { "mapped_gbs", REAL, F(vr_measured, mapped_gbs), 0, 1e6, false },
    { "mapped_expert_gbs", REAL, F(vr_measured, mapped_expert_gbs), 0, 1e6, false },
    { "switch_us", REAL, F(vr_measured, switch_us), 0, 1e6, false },
    { "prompt_switch_us", REAL, F(vr_measured, prompt_switch_us), 0, 1e6, false },
    { "cache_mib", REAL, F(vr_measured, cache_mib), 0, 1 << 20, false },
    { "types", IGNORED, 0, 0, 0, 0, false },
    { "ops", IGNORED, 0, 0, 0, 0, false },
};
static const struct field type_fields[] = {
    { "name", TEXT, F(vr_measured_type, name), 0, 0, true },
    { "gbs", REAL, F(vr_measured_type, gbs), 0, 1e6, false },
    { "tflops", REAL, F(vr_measured_type, tflops), 0, 1e6, false },
    { "expert_gbs", REAL, F(vr_measured_type, expert_gbs), 0, 1e6, false },
    { "expert_tflops", REAL, F(vr_measured_type, expert_tflops), 0, 1e6, false },
    { "cached_gbs", REAL, F(vr_measured_type, cached_gbs), 0, 1e6, false },
    { "wide_gbs", REAL, F(vr_measured_type, wide_gbs), 0, 1e6, false },
    { "row_ns", REAL, F(vr_measured_type, row_ns), 0, 1e6, false },
    { "expert_row_ns", REAL, F(vr_measured_type, expert_row_ns), 0, 1e6, false },
    { "us", REAL, F(vr_measured_type, us), 0, 1e6, false },
    { "prompt_us", REAL, F(vr_measured_type, prompt_us), 0, 1e6, false },
    { "least_us", REAL, F(vr_measured_type, least_us), 0, 1e6, false },
    { "expert_prompt_gbs", REAL, F(vr_measured_type, expert_prompt_gbs), 0, 1e9, false },
    { "expert_again_gbs", REAL, F(vr_measured_type, expert_again_gbs), 0, 1e9, false },
    { "expert_act_gbs", REAL, F(vr_measured_type, expert_act_gbs), 0, 1e9, false },
    { "expert_many_tflops", IGNORED, 0, 0, 0, 0, false }, /* of versions before */
};
static const struct field op_fields[] = {
    { "name", TEXT, F(vr_measured_op, name), 0, 0, true },
    { "type", TEXT, F(vr_measured_op, type), 0, 0, false },
    { "us", REAL, F(vr_measured_op, us), 0, 1e6, false },
    { "long_us", REAL, F(vr_measured_op, long_us), 0, 1e6, false },
    { "long_cells", REAL, F(vr_measured_op, long_cells), 0, 1e9, false },
    { "gbs", REAL, F(vr_measured_op, gbs), 0, 1e6, false },
    { "tflops", REAL, F(vr_measured_op, tflops), 0, 1e6, false },
    { "prompt_gbs", REAL, F(vr_measured_op, prompt_gbs), 0, 1e6, false },
    { "prompt_tflops", REAL, F(vr_measured_op, prompt_tflops), 0, 1e6, false },
    { "cached_tflops", REAL, F(vr_measured_op, cached_tflops), 0, 1e6, false },
    { "long_tflops", REAL, F(vr_measured_op, long_tflops), 0, 1e6, false },
    { "long_prompt_tflops", REAL, F(vr_measured_op, long_prompt_tflops), 0, 1e6, false },
};
static const struct field link_fields[] = {
    { "a", U16, F(vr_link, a), 0, VR_MAX_DEVICES - 1, true },
    { "b", U16, F(vr_link, b), 0, VR_MAX_DEVICES - 1, true },
    { "kind", KIND, F(vr_link, kind), 0, 0, false },
    { "n_nvlinks", U16, F(vr_link, n_nvlinks), 0, 64, false },
    { "gbs", REAL, F(vr_link, gbs), 0, 1e5, false },
    { "p2p", BOOL, F(vr_link, p2p), 0, 0, false },
    { "measured_gbs", REAL, F(vr_link, measured_gbs), 0, 1e6, false },
    { "measured_us", REAL, F(vr_link, measured_us), 0, 1e6, false },
};

static const char *const ways[VR_N_REDUCE_WAYS] = {
    [VR_REDUCE_PAIR] = "pair",
    [VR_REDUCE_NCCL] = "nccl",
    [VR_REDUCE_BUTTERFLY] = "butterfly",
};

/* Where we are, for messages: "rig.json: devices[2]." */
struct place {
    const char *path;
    char prefix[96];
    struct vr_err *err;
};

#define REFUSE(p, key, fmt, ...)                                                                                       \
    vr_fail((p)->err, VR_EFORMAT, "%s: %s%s " fmt, (p)->path, (p)->prefix, key __VA_OPT__(, ) __VA_ARGS__)

static bool get_text(const struct place *p, const struct field *f, const json_t *v, char *out)
{
    const char *s = json_string_value(v);
    if (!s) return REFUSE(p, f->key, "must be a string");
    size_t n = strlen(s);
    if (!n && f->needed) return REFUSE(p, f->key, "is empty");
    if (n >= f->size) return REFUSE(p, f->key, "is %zu bytes long, but at most %zu are allowed", n, f->size - 1);
    bool lines = !strcmp(f->key, "note");
    for (size_t i = 0, len; i < n; i += len) {
        const unsigned char *c = (const unsigned char *)s + i;
        len = vr_utf8_len(c, n - i);
        if (vr_utf8_is_control(c, len) && !(lines && *c == '\n'))
            return REFUSE(p, f->key, "contains a control character (0x%02x)", c[len - 1]);
    }
    memcpy(out, s, n + 1);
    return true;
}

static bool get_number(const struct place *p, const struct field *f, const json_t *v, double *out)
{
    if (!json_is_number(v)) return REFUSE(p, f->key, "must be a number");
    double x = json_number_value(v);
    bool whole = f->kind == U16 || f->kind == U32 || f->kind == INT;
    if (whole && x != floor(x)) return REFUSE(p, f->key, "is %g, but must be an integer", x);
    if (x < f->min && f->min >= 0) return REFUSE(p, f->key, "is %.15g, but cannot be less than %g", x, f->min);
    if (x < f->min || x > f->max)
        return REFUSE(p, f->key, "is %.15g, which is not between %g and %.15g", x, f->min, f->max);
    *out = x;
    return true;
}

static bool get_way(const struct place *p, const char *key, const json_t *v, enum vr_reduce_way *out)
{
    for (size_t i = 0; i < VR_COUNT(ways); i++)
        if (json_is_string(v) && !strcmp(ways[i], json_string_value(v))) return *out = (enum vr_reduce_way)i, true;
    return REFUSE(p, key, "must be one of pair, nccl, butterfly");
}

/* "8.6"; a number would turn 12.10 into 12.1 */
static bool get_capability(const struct place *p, const struct field *f, const json_t *v, struct vr_device *d)
{
    const char *s = json_string_value(v);
    unsigned major, minor;
    int end = 0;
    if (!s || s[strspn(s, "0123456789.")] || sscanf(s, "%2u.%2u%n", &major, &minor, &end) != 2 || s[end])
        return REFUSE(p, f->key, "must be a string like \"8.6\"");
    d->cc_major = (uint16_t)major;
    d->cc_minor = (uint16_t)minor;
    return true;
}

static bool get_field(const struct place *p, const struct field *f, const json_t *v, void *object)
{
    void *at = (char *)object + f->at;
    double x = 0;
    switch (f->kind) {
    case IGNORED: return true;
    case TEXT: return get_text(p, f, v, at);
    case CAPABILITY: return get_capability(p, f, v, object);
    case BOOL:
        if (!json_is_boolean(v)) return REFUSE(p, f->key, "must be true or false");
        *(bool *)at = json_is_true(v);
        return true;
    case KIND:
        if (json_is_string(v) && vr_link_kind_parse(json_string_value(v), at)) return true;
        return REFUSE(p, f->key, "must be one of nvlink, switch, bridge, node, system, unknown");
    case WAY: return get_way(p, f->key, v, at);
    case FROM:
        if (json_is_string(v) && vr_bandwidth_from_parse(json_string_value(v), at)) return true;
        return REFUSE(p, f->key, "must be one of modules, measured, bench, given, unknown");
    default: break;
    }
    if (!get_number(p, f, v, &x)) return false;
    if (f->kind == MIB || f->kind == SIZE) *(uint64_t *)at = (uint64_t)llround(x * (double)VR_MIB);
    if (f->kind == REAL) *(double *)at = x;
    if (f->kind == U16) *(uint16_t *)at = (uint16_t)x;
    if (f->kind == U32) *(uint32_t *)at = (uint32_t)x;
    if (f->kind == INT) *(int *)at = (int)x;
    return true;
}

static const char *field_key(size_t i, const void *fields) { return ((const struct field *)fields)[i].key; }

/* A key that we do not know is somebody else's, or a slip of the fingers that must not be passed over. */
static bool check_keys(const struct place *p, json_t *o, const struct field *fields, size_t n)
{
    const char *key;
    json_t *v;
    json_object_foreach(o, key, v)
    {
        bool known = false;
        for (size_t i = 0; i < n; i++) known = known || !strcmp(fields[i].key, key);
        int like = known ? -1 : vr_nearest(key, n, field_key, fields);
        if (like < 0 || json_object_get(o, fields[like].key)) continue;
        return vr_fail(p->err, VR_EFORMAT, "%s: %s%.40s is not a field; did you mean %s?", p->path, p->prefix, key,
                       fields[like].key);
    }
    return true;
}

static bool get_object(const struct place *p, json_t *o, const struct field *fields, size_t n, void *object)
{
    if (!json_is_object(o)) {
        int len = (int)strlen(p->prefix) - 1;
        return vr_fail(p->err, VR_EFORMAT, "%s: %.*s must be an object: { ... }", p->path, len < 0 ? 0 : len,
                       p->prefix);
    }
    if (!check_keys(p, o, fields, n)) return false;
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_object_get(o, fields[i].key);
        if (!v && fields[i].needed) return REFUSE(p, fields[i].key, "is missing");
        if (v && !get_field(p, &fields[i], v, object)) return false;
    }
    return true;
}

/* A list of measured rows of one kind; p->prefix ends with "measured.". */
static bool read_rows(const struct place *p, json_t *list, const char *key, const struct field *fields, size_t n_fields,
                      void *rows, size_t size, size_t max, size_t *n)
{
    size_t len = json_array_size(list);
    if (list && !json_is_array(list)) return REFUSE(p, key, "must be a list: [ ... ]");
    if (len > max) return REFUSE(p, key, "has %zu entries, at most %zu", len, max);
    for (*n = 0; *n < len; ++*n) {
        struct place row = *p;
        snprintf(row.prefix, sizeof row.prefix, "%.48s%s[%zu].", p->prefix, key, *n);
        if (!get_object(&row, json_array_get(list, *n), fields, n_fields, (char *)rows + *n * size)) return false;
    }
    return true;
}

/* "measured" of a device or of the host, where it has one; p->prefix is the owner's. */
static bool read_measured(const struct place *owner, const char *key, json_t *o, struct vr_measured *out)
{
    if (!o) return true;
    struct place p = *owner;
    snprintf(p.prefix, sizeof p.prefix, "%.28s%s.", owner->prefix, key);
    return get_object(&p, o, measured_fields, VR_COUNT(measured_fields), out) &&
           read_rows(&p, json_object_get(o, "types"), "types", type_fields, VR_COUNT(type_fields), out->types,
                     sizeof out->types[0], VR_MAX_MEASURED_TYPES, &out->n_types) &&
           read_rows(&p, json_object_get(o, "ops"), "ops", op_fields, VR_COUNT(op_fields), out->ops, sizeof out->ops[0],
                     VR_MAX_MEASURED_OPS, &out->n_ops);
}

static bool read_host(struct place *p, json_t *o, struct vr_host *h)
{
    snprintf(p->prefix, sizeof p->prefix, "host.");
    if (!get_object(p, o, host_fields, VR_COUNT(host_fields), h)) return false;
    if (!read_measured(p, "measured", json_object_get(o, "measured"), &h->measured)) return false;
    if (!read_measured(p, "alone", json_object_get(o, "alone"), &h->alone)) return false;
    if (!json_object_get(o, "ram_free_mib")) h->ram_free_bytes = h->ram_total_bytes;
    if (h->ram_free_bytes > h->ram_total_bytes)
        return REFUSE(p, "ram_free_mib", "is larger than ram_total_mib (%.15g > %.15g)",
                      (double)h->ram_free_bytes / (double)VR_MIB, (double)h->ram_total_bytes / (double)VR_MIB);
    return true;
}

static bool read_device(struct place *p, size_t i, json_t *o, struct vr_device *d)
{
    snprintf(p->prefix, sizeof p->prefix, "devices[%zu].", i);
    if (!get_object(p, o, device_fields, VR_COUNT(device_fields), d)) return false;
    if (!read_measured(p, "measured", json_object_get(o, "measured"), &d->measured)) return false;
    /* 0 only from a card whose driver does not tell; a plan leaves it out, a profile of it must load again */
    if (!d->total_bytes && !d->note[0]) return REFUSE(p, "total_mib", "is 0: a device has memory");
    if (!json_object_get(o, "free_mib")) d->free_bytes = d->total_bytes;
    if (d->free_bytes > d->total_bytes)
        return REFUSE(p, "free_mib", "is larger than total_mib (%.15g > %.15g)", (double)d->free_bytes / (double)VR_MIB,
                      (double)d->total_bytes / (double)VR_MIB);
    if (!d->backend[0]) {
        const struct vr_gpu *known = vr_gpu_known(d->name, d->total_bytes / VR_MIB);
        if (!known)
            return REFUSE(p, "backend", "is missing (CUDA, ROCm, Vulkan or SYCL), and '%s' is not a known GPU",
                          d->name);
        snprintf(d->backend, sizeof d->backend, "%s", known->backend);
    }
    for (const char *c = d->backend; *c; c++)
        if (!isalnum((unsigned char)*c)) return REFUSE(p, "backend", "must be a word like CUDA, not '%s'", d->backend);
    vr_gpu_fill(d);
    return true;
}

static bool read_link(struct place *p, size_t i, json_t *o, struct vr_machine *m)
{
    snprintf(p->prefix, sizeof p->prefix, "links[%zu].", i);
    struct vr_link l = { 0 };
    if (!get_object(p, o, link_fields, VR_COUNT(link_fields), &l)) return false;
    if (l.a >= l.b) return REFUSE(p, "a", "is %u, but must be less than b (%u)", l.a, l.b);
    if (l.b >= m->n_devices) return REFUSE(p, "b", "is %u, but there are only %zu devices", l.b, m->n_devices);
    if (vr_machine_link(m, l.a, l.b)) return REFUSE(p, "a", "and b (%u and %u) are linked twice", l.a, l.b);
    m->links[m->n_links++] = l;
    return true;
}

/* Which devices, and a time for each size. */
static bool read_reduction(struct place *p, size_t i, json_t *o, struct vr_machine *m)
{
    struct vr_measured_reduction r = { 0 };
    json_t *devices = json_object_get(o, "devices"), *us = json_object_get(o, "us"), *way = json_object_get(o, "way"),
           *v;
    size_t k;
    snprintf(p->prefix, sizeof p->prefix, "reductions[%zu].", i);
    json_array_foreach(devices, k, v)
    {
        json_int_t d = json_is_integer(v) ? json_integer_value(v) : -1;
        if (d < 0 || (size_t)d >= m->n_devices)
            return REFUSE(p, "devices", "must be indices of the %zu devices", m->n_devices);
        r.devices |= UINT64_C(1) << d;
    }
    if (__builtin_popcountll(r.devices) < 2) return REFUSE(p, "devices", "must be a list of at least two devices");
    if (json_array_size(us) != VR_REDUCE_SIZES) return REFUSE(p, "us", "must be a list of %d numbers", VR_REDUCE_SIZES);
    json_array_foreach(us, k, v)
    {
        r.us[k] = json_number_value(v);
        if (!(r.us[k] > 0) || r.us[k] > 1e9) return REFUSE(p, "us", "must be times in microseconds, more than 0");
    }
    if (way && !get_way(p, "way", way, &r.way)) return false;
    vr_machine_keep_reduction(m, &r);
    return true;
}

static bool read_reductions(struct place *p, json_t *list, struct vr_machine *m)
{
    if (list && !json_is_array(list))
        return vr_fail(p->err, VR_EFORMAT, "%s: reductions must be a list: [ ... ]", p->path);
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!read_reduction(p, i, json_array_get(list, i), m)) return false;
    return true;
}

static bool read_lists(struct place *p, json_t *devices, json_t *links, struct vr_machine *m)
{
    if (!json_is_array(devices)) return vr_fail(p->err, VR_EFORMAT, "%s: devices must be a list: [ ... ]", p->path);
    size_t n = json_array_size(devices);
    if (n > VR_MAX_DEVICES)
        return vr_fail(p->err, VR_EFORMAT, "%s: devices has %zu entries, at most %d", p->path, n, VR_MAX_DEVICES);
    for (size_t i = 0; i < n; i++)
        if (!read_device(p, i, json_array_get(devices, i), vr_machine_add(m))) return false;
    if (links && !json_is_array(links))
        return vr_fail(p->err, VR_EFORMAT, "%s: links must be a list: [ ... ]", p->path);
    for (size_t i = 0; i < json_array_size(links); i++)
        if (!read_link(p, i, json_array_get(links, i), m)) return false;
    vr_machine_number(m);
    return true;
}

bool vr_profile_parse(const char *path, const char *text, size_t n, struct vr_machine *out, struct vr_err *err)
{
    memset(out, 0, sizeof *out);
    json_error_t e;
    json_t *root = json_loadb(text, n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &e);
    if (!root) {
        if (json_error_code(&e) == json_error_out_of_memory) return vr_fail_nomem(err, "reading a profile");
        return vr_fail(err, VR_EFORMAT, "%s: not valid JSON: line %d, column %d: %s", path, e.line, e.column, e.text);
    }
    struct place p = { .path = path, .err = err };
    bool ok =
        json_is_object(root) ||
        vr_fail(err, VR_EFORMAT, "%s: a machine profile is one object: { \"host\": ..., \"devices\": ... }", path);
    ok = ok && get_object(&p, root, top_fields, VR_COUNT(top_fields), out);
    ok = ok && read_host(&p, json_object_get(root, "host"), &out->host);
    ok = ok && read_lists(&p, json_object_get(root, "devices"), json_object_get(root, "links"), out);
    ok = ok && read_reductions(&p, json_object_get(root, "reductions"), out);
    json_decref(root);
    return ok;
}

bool vr_profile_load(const char *path, struct vr_machine *out, struct vr_err *err)
{
    VR_AUTO_BUF text = { 0 };
    if (!vr_file_read(path, VR_PROFILE_MAX_BYTES, &text, err)) return false;
    return vr_profile_parse(path, vr_buf_str(&text), text.n, out, err);
}

/* As few digits as give the same value back; a whole number has no point. */
static void add_number(struct vr_buf *b, double v)
{
    char s[40];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(s, sizeof s, "%.*g", digits, v);
        if (strtod(s, NULL) == v) break;
    }
    vr_buf_adds(b, s);
}

static bool is_unknown(const struct field *f, const void *at)
{
    switch (f->kind) {
    case TEXT: return !*(const char *)at;
    case SIZE: return !*(const uint64_t *)at; /* in MiB too, and 0 says nothing */
    case REAL: return !(*(const double *)at > 0);
    case U16: return !*(const uint16_t *)at && !f->needed;
    case U32: return !*(const uint32_t *)at;
    case INT: return *(const int *)at < 0;
    case BOOL: return !*(const bool *)at;
    case WAY: return *(const enum vr_reduce_way *)at == VR_REDUCE_PAIR;
    case FROM: return *(const enum vr_bandwidth_from *)at == VR_FROM_NOBODY;
    case IGNORED: return true;
    default: return false;
    }
}

static void add_value(struct vr_buf *b, const struct field *f, const void *object)
{
    const void *at = (const char *)object + f->at;
    const struct vr_device *d = object;
    switch (f->kind) {
    case TEXT: vr_json_add_string(b, at); break;
    case MIB:
    case SIZE: add_number(b, (double)*(const uint64_t *)at / (double)VR_MIB); break;
    case REAL: add_number(b, *(const double *)at); break;
    case U16: vr_buf_addf(b, "%u", *(const uint16_t *)at); break;
    case U32: vr_buf_addf(b, "%" PRIu32, *(const uint32_t *)at); break;
    case INT: vr_buf_addf(b, "%d", *(const int *)at); break;
    case CAPABILITY: vr_buf_addf(b, "\"%u.%u\"", d->cc_major, d->cc_minor); break;
    case KIND: vr_json_add_string(b, vr_link_kind_name(*(const enum vr_link_kind *)at)); break;
    case WAY: vr_json_add_string(b, ways[*(const enum vr_reduce_way *)at]); break;
    case FROM: vr_json_add_string(b, vr_bandwidth_from_name(*(const enum vr_bandwidth_from *)at)); break;
    case BOOL: vr_buf_adds(b, *(const bool *)at ? "true" : "false"); break;
    case IGNORED: break;
    }
}

static void add_fields(struct vr_buf *b, size_t indent, const struct field *fields, size_t n, const void *object)
{
    const char *comma = "";
    for (size_t i = 0; i < n; i++) {
        const struct field *f = &fields[i];
        if (is_unknown(f, (const char *)object + f->at)) continue;
        if (f->kind == CAPABILITY && !((const struct vr_device *)object)->cc_major) continue;
        vr_buf_adds(b, comma);
        vr_buf_addc(b, '\n', 1);
        vr_buf_addc(b, ' ', indent);
        vr_buf_addf(b, "\"%s\": ", f->key);
        add_value(b, f, object);
        comma = ",";
    }
}

/* A row is one line: people compare them. */
static void add_rows(struct vr_buf *b, size_t indent, const char *key, const struct field *fields, size_t n_fields,
                     const void *rows, size_t size, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *row = (const char *)rows + i * size, *comma = "";
        vr_buf_adds(b, ",\n");
        vr_buf_addc(b, ' ', indent);
        if (i == 0) vr_buf_addf(b, "\"%s\": [", key);
        vr_buf_adds(b, " {");
        for (size_t f = 0; f < n_fields; f++) {
            if (is_unknown(&fields[f], row + fields[f].at)) continue;
            vr_buf_addf(b, "%s \"%s\": ", comma, fields[f].key);
            add_value(b, &fields[f], row);
            comma = ",";
        }
        vr_buf_adds(b, " }");
    }
    vr_buf_adds(b, n ? " ]" : "");
}

static void add_measured(struct vr_buf *b, size_t indent, const char *key, const struct vr_measured *m)
{
    if (!m->when[0]) return;
    vr_buf_adds(b, ",\n");
    vr_buf_addc(b, ' ', indent);
    vr_buf_addf(b, "\"%s\": {", key);
    add_fields(b, indent + 1, measured_fields, VR_COUNT(measured_fields), m);
    add_rows(b, indent + 1, "types", type_fields, VR_COUNT(type_fields), m->types, sizeof m->types[0], m->n_types);
    add_rows(b, indent + 1, "ops", op_fields, VR_COUNT(op_fields), m->ops, sizeof m->ops[0], m->n_ops);
    vr_buf_addc(b, '\n', 1);
    vr_buf_addc(b, ' ', indent);
    vr_buf_adds(b, "}");
}

static void add_reductions(struct vr_buf *b, const struct vr_machine *m)
{
    for (size_t i = 0; i < m->n_reductions; i++) {
        const struct vr_measured_reduction *r = &m->reductions[i];
        const char *comma = "";
        vr_buf_adds(b, i ? ",\n  { \"devices\": [" : ",\n \"reductions\": [\n  { \"devices\": [");
        for (size_t d = 0; d < m->n_devices; d++) {
            if (!(r->devices >> d & 1)) continue;
            vr_buf_addf(b, "%s %zu", comma, d);
            comma = ",";
        }
        vr_buf_adds(b, " ], \"us\": [");
        for (size_t k = 0; k < VR_REDUCE_SIZES; k++) {
            vr_buf_adds(b, k ? ", " : " ");
            add_number(b, r->us[k]);
        }
        vr_buf_adds(b, " ]");
        if (r->way != VR_REDUCE_PAIR) vr_buf_addf(b, ", \"way\": \"%s\"", ways[r->way]);
        vr_buf_adds(b, " }");
    }
    vr_buf_adds(b, m->n_reductions ? "\n ]" : "");
}

void vr_profile_print(const struct vr_machine *m, struct vr_buf *out)
{
    vr_buf_adds(out, "{");
    size_t before = out->n;
    add_fields(out, 1, top_fields, VR_COUNT(top_fields), m);
    vr_buf_addf(out, "%s\n \"host\": {", out->n > before ? "," : "");
    add_fields(out, 2, host_fields, VR_COUNT(host_fields), &m->host);
    add_measured(out, 2, "measured", &m->host.measured);
    add_measured(out, 2, "alone", &m->host.alone);
    vr_buf_adds(out, "\n },\n \"devices\": [");
    for (size_t i = 0; i < m->n_devices; i++) {
        vr_buf_adds(out, i ? ",\n  {" : "\n  {");
        add_fields(out, 3, device_fields, VR_COUNT(device_fields), &m->devices[i]);
        add_measured(out, 3, "measured", &m->devices[i].measured);
        vr_buf_adds(out, "\n  }");
    }
    vr_buf_adds(out, m->n_devices ? "\n ]" : "]");
    for (size_t i = 0; i < m->n_links; i++) {
        vr_buf_adds(out, i ? ",\n  {" : ",\n \"links\": [\n  {");
        add_fields(out, 3, link_fields, VR_COUNT(link_fields), &m->links[i]);
        vr_buf_adds(out, "\n  }");
    }
    vr_buf_adds(out, m->n_links ? "\n ]" : "");
    add_reductions(out, m);
    vr_buf_adds(out, "\n}\n");
}

bool vr_profile_save(const char *path, const struct vr_machine *m, struct vr_err *err)
{
    VR_AUTO_BUF text = { 0 };
    vr_profile_print(m, &text);
    if (text.failed) return vr_fail_nomem(err, "writing a profile");
    return vr_file_write(path, text.data, text.n, err);
}
