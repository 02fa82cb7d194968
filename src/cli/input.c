#include "cli/input.h"

#include <string.h>

#include "base/text.h"
#include "hw/detect.h"
#include "hw/profile.h"
#include "hw/spec.h"

bool vr_input_machine(const struct vr_options *o, struct vr_machine *out, struct vr_err *err)
{
    if (o->machine && o->gpus)
        return vr_fail(err, VR_EUSAGE, "--machine and --gpus both name the devices: give one of them");
    if (o->machine) return vr_profile_load(o->machine, out, err);
    if (o->gpus) return vr_machine_spec(o->gpus, NULL, out, err);
    return vr_machine_detect(NULL, out, err);
}

/* A type of the KV cache by its name. */
static bool cache_type(const char *option, const char *name, uint32_t *out, struct vr_err *err)
{
    static const char *const names[] = { "f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl" };
    for (size_t i = 0; i < VR_COUNT(names); i++)
        if (strcasecmp(names[i], name) == 0) return *out = vr_type_by_name(name), true;
    int i = vr_nearest(name, VR_COUNT(names), vr_nearest_in_array, names);
    return vr_fail(err, VR_EUSAGE, "--%s: the cache cannot be of type '%s'; did you mean %s?", option, name,
                   i >= 0 ? names[i] : "q8_0");
}

static bool read_context(const struct vr_options *o, struct vr_context *c, struct vr_err *err)
{
    *c = VR_CONTEXT_DEFAULT;
    c->n_ctx = (uint32_t)o->n_ctx;
    c->n_seq = (uint32_t)o->n_seq;
    c->n_batch = (uint32_t)o->n_batch;
    c->n_ubatch = (uint32_t)o->n_ubatch;
    c->flash_attn = strcmp(o->flash_attn, "off") != 0;
    return cache_type("cache-type-k", o->cache_type_k, &c->type_k, err) &&
           cache_type("cache-type-v", o->cache_type_v, &c->type_v, err);
}

bool vr_input_read(const struct vr_options *o, struct vr_input *out, struct vr_err *err)
{
    struct vr_select select = { .devices = o->devices,
                                .device_order = o->device_order,
                                .reserve_mib = o->reserve_mib,
                                .min_budget_bytes = o->min_budget_mib * VR_MIB };
    return read_context(o, &out->context, err) && vr_input_machine(o, &out->machine, err) &&
           vr_budgets_select(&out->machine, &select, &out->budgets, err);
}
