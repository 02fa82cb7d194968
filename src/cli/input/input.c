#include "cli/input/input.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/input/nodes.h"
#include "engine/llama/confinement.h"
#include "engine/llama/library.h"
#include "engine/llama/vulkan.h"
#include "hw/bandwidth.h"
#include "hw/detect.h"
#include "hw/profile.h"
#include "hw/spec.h"

/* What `bench` measured here earlier. A profile that cannot be read is told and not in the way. */
static void take_calibration(struct vr_machine *m)
{
    char path[512];
    struct vr_err err = { 0 };
    VR_AUTO(vr_machine) saved = vr_machine_new(&err);
    if (!saved || !vr_profile_own_path(path, sizeof path) || access(path, F_OK) != 0) return;
    if (vr_profile_load(path, saved, &err))
        vr_machine_calibrate(m, saved, vr_engine_version());
    else
        vr_machine_note(m, "the calibration is not used: %s", err.msg);
}

/* Cards that this engine reaches through Vulkan only. */
static void find_vulkan(struct vr_machine *m)
{
    struct vr_vulkan list;
    struct vr_err err = { 0 };
    if (vr_engine_has("cuda") || !vr_engine_has("vulkan")) return;
    if (vr_vulkan_list(&list, &err))
        vr_vulkan_join(&list, m);
    else
        vr_machine_note(m, "The engine's Vulkan backend failed: %s.", err.msg);
}

/* What the engine's CUDA library adds up with. */
static enum vr_reduce_way find_reduce_way(const struct vr_machine *m)
{
    const char *asked = getenv("GGML_CUDA_ALLREDUCE");
    if (asked && strcmp(asked, "internal") != 0 && strcmp(asked, "nccl") != 0) return VR_REDUCE_BUTTERFLY;
    return m->n_devices > 1 && vr_engine_uses_nccl() ? VR_REDUCE_NCCL : VR_REDUCE_PAIR;
}

bool vr_input_detect(struct vr_machine *out, struct vr_err *err)
{
    if (!vr_machine_detect(NULL, out, err)) return false;
    find_vulkan(out);
    out->reduce_way = find_reduce_way(out);
    take_calibration(out);
    return vr_bandwidth_find(NULL, &out->host, err);
}

static bool read_machine(const struct vr_options *o, struct vr_machine *out, struct vr_err *err)
{
    if (o->machine && o->gpus) return vr_fail(err, VR_EUSAGE, "--machine and --gpus cannot be used together");
    if (o->machine) return vr_profile_load(o->machine, out, err);
    if (o->gpus) return vr_machine_spec(o->gpus, NULL, out, err);
    return vr_input_detect(out, err);
}

bool vr_input_machine(const struct vr_options *o, struct vr_machine *out, struct vr_err *err)
{
    if (!read_machine(o, out, err) || (o->nodes && !vr_nodes_add(o, out, err))) return false;
    if (!o->ram_mib) return true;
    out->host.ram_free_bytes = o->ram_mib * VR_MIB;
    if (out->host.ram_total_bytes < out->host.ram_free_bytes) out->host.ram_total_bytes = out->host.ram_free_bytes;
    return true;
}

/* A type by its name; memory/ says which of them a cache can have. */
static bool cache_type(const char *option, const char *name, uint32_t *out, struct vr_err *err)
{
    *out = vr_type_by_name(name);
    if (*out != VR_TYPE_NONE) return true;
    return vr_fail(err, VR_EUSAGE,
                   "--%s: unknown type '%s'; use f32, f16, bf16, q8_0, q5_1, q5_0, q4_1, q4_0 "
                   "or iq4_nl",
                   option, name);
}

static bool read_context(const struct vr_options *o, struct vr_context *c, struct vr_err *err)
{
    *c = VR_CONTEXT_DEFAULT;
    c->n_ctx = (uint32_t)o->n_ctx;
    c->n_seq = (uint32_t)o->n_seq;
    c->kv_unified = o->kv_unified;
    /* what is left to the planner begins small */
    c->n_ubatch = o->n_ubatch ? (uint32_t)o->n_ubatch : VR_N_UBATCH_DEFAULT;
    c->n_batch = o->n_batch ? (uint32_t)o->n_batch : c->n_ubatch;
    c->flash_attn = strcmp(o->flash_attn, "off") != 0;
    return cache_type("cache-type-k", o->cache_type_k, &c->type_k, err) &&
           cache_type("cache-type-v", o->cache_type_v, &c->type_v, err);
}

bool vr_input_rest(const struct vr_options *o, struct vr_input *out, struct vr_err *err)
{
    struct vr_select select = { .devices = o->devices,
                                .visible = vr_input_is_virtual(o) ? NULL : getenv("CUDA_VISIBLE_DEVICES"),
                                .device_order = o->device_order,
                                .reserve_mib = o->reserve_mib,
                                .min_budget_bytes = o->min_budget_mib * VR_MIB };
    return read_context(o, &out->context, err) && vr_budgets_select(&out->machine, &select, &out->budgets, err);
}

struct vr_input *vr_input_new(struct vr_err *err)
{
    struct vr_input *in = calloc(1, sizeof *in);
    if (!in) vr_fail_nomem(err, "reading the options");
    return in;
}

void vr_input_free(struct vr_input *in) { free(in); }

struct vr_input *vr_input_read(const struct vr_options *o, struct vr_err *err)
{
    VR_AUTO(vr_input) in = vr_input_new(err);
    return in && vr_input_machine(o, &in->machine, err) && vr_input_rest(o, in, err) ? VR_TAKE(in) : NULL;
}

struct vr_speeds *vr_input_speeds(const struct vr_options *o, const struct vr_input *in, struct vr_err *err)
{
    struct vr_speeds *s = malloc(sizeof *s);
    if (!s) return VR_FAIL_NULL(err, VR_ENOMEM, "out of memory while reading the machine's speeds");
    vr_speeds_of(&in->machine, s);
    if (o->no_mmap || strcmp(o->host_weights, "pinned") == 0) vr_speeds_pin(s);
    return s;
}

/* --- what was learned --- */

bool vr_input_is_virtual(const struct vr_options *o) { return o->gpus || o->machine; }

void vr_device_key(const struct vr_device *d, char *out, size_t n)
{
    snprintf(out, n, "%s", *d->uuid ? d->uuid : *d->pci && !*d->node ? d->pci : d->id);
}

void vr_input_learned(struct vr_input *in, const struct vr_learned *learned)
{
    struct vr_budgets *b = &in->budgets;
    size_t n = 0;
    for (size_t i = 0; i < b->n; i++) {
        struct vr_budget x = b->items[i];
        const struct vr_device *d = &in->machine.devices[x.device];
        char key[96];
        vr_device_key(d, key, sizeof key);
        const struct vr_learned_row *r = vr_learned_find((struct vr_learned *)(uintptr_t)learned, key);
        /* a reserve is for what cannot be known before: what is known now is part of it */
        if (r && r->hidden_bytes > x.reserve_bytes)
            x.budget_bytes = d->free_bytes > r->hidden_bytes ? d->free_bytes - r->hidden_bytes : 0;
        if (r && r->most_bytes && r->most_bytes < x.budget_bytes) x.budget_bytes = r->most_bytes;
        x.reserve_bytes = d->free_bytes - x.budget_bytes;
        if (x.budget_bytes >= VR_MIB)
            b->items[n++] = x;
        else
            b->excluded[b->n_excluded++] = (struct vr_excluded){ .device = x.device,
                                                                 .why = VR_EXCLUDED_ALLOCATION_FAILED,
                                                                 .free_bytes = d->free_bytes };
    }
    b->n = n;
}
