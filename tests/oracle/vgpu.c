/* The oracle's door to our own virtual GPUs, and to the dry run over them. */
#include "oracle.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "engine/probe/probe.h"
#include "engine/vgpu/vgpu.h"
#include "gguf/type.h"

static void make_specs(const struct oracle_device *devices, size_t n, struct vr_vgpu_spec specs[ORACLE_DEVICES])
{
    for (size_t i = 0; i < n && i < ORACLE_DEVICES; i++) {
        const struct oracle_device *d = &devices[i];
        specs[i] = (struct vr_vgpu_spec){ .total_bytes = d->total_mib << 20,
                                          .free_bytes = d->free_mib << 20,
                                          .cc = d->cc_major * 100 + d->cc_minor * 10 };
        snprintf(specs[i].name, sizeof(specs[i].name), "CUDA%zu", i);
        snprintf(specs[i].about, sizeof(specs[i].about), "%s", d->name);
    }
}

bool oracle_vgpu_register(const struct oracle_device *devices, size_t n)
{
    struct vr_vgpu_spec specs[ORACLE_DEVICES];
    struct vr_err err;
    make_specs(devices, n, specs);
    if (vr_vgpu_register(specs, n, VR_VGPU_SIZING, &err)) return true;
    fprintf(stderr, "%s\n", err.msg);
    return false;
}

static long number(json_t *c, const char *key, long fallback)
{
    json_t *v = json_object_get(c, key);
    return json_is_boolean(v) ? json_is_true(v) : v ? (long)json_integer_value(v) : fallback;
}

static uint32_t type(json_t *c, const char *key)
{
    const char *name = json_string_value(json_object_get(c, key));
    return vr_type_by_name(name ? name : "f16");
}

static void read_context(json_t *c, struct vr_load_params *p)
{
    const char *flash = json_string_value(json_object_get(c, "flash"));
    struct vr_context *x = &p->context;
    x->n_ctx = (uint32_t)number(c, "n_ctx", 4096);
    x->n_batch = (uint32_t)number(c, "n_batch", 2048);
    x->n_ubatch = (uint32_t)number(c, "n_ubatch", 512);
    x->n_seq = (uint32_t)number(c, "n_seq", 1);
    x->type_k = type(c, "type_k");
    x->type_v = type(c, "type_v");
    x->kv_unified = number(c, "kv_unified", 0);
    x->swa_full = number(c, "swa_full", 0);
    x->offload_kqv = number(c, "offload_kqv", 1);
    p->op_offload = number(c, "op_offload", 1);
    p->offload_min = (uint32_t)number(c, "offload_min", VR_OFFLOAD_MIN);
    p->n_outputs = (uint32_t)number(c, "n_outputs", 0);
    p->flash_auto = !flash || !strcmp(flash, "auto");
    x->flash_attn = !p->flash_auto && !strcmp(flash, "on");
}

static json_t *bytes(const struct vr_use *u)
{
    return json_pack("{sIsIsI}", "model", (json_int_t)u->model_bytes, "context", (json_int_t)u->context_bytes,
                     "compute", (json_int_t)u->compute_bytes);
}

void oracle_probe(void *oracle_case, const char *path, const struct oracle_device *devices, size_t n, void *answer)
{
    json_t *c = oracle_case, *v;
    size_t i;
    struct vr_vgpu_spec specs[ORACLE_DEVICES];
    struct vr_override overrides[8];
    struct vr_trial t = vr_trial_default();
    struct vr_load_params *p = &t.load;
    const char *mode = json_string_value(json_object_get(c, "mode"));
    bool tensor = mode && !strcmp(mode, "tensor");
    make_specs(devices, n, specs);
    t.timeout_ms = 600000;
    p->devices = specs;
    p->n_devices = n;
    p->split_mode = tensor ? VR_SPLIT_TENSOR : VR_SPLIT_LAYER;
    p->pipeline = number(c, "pipeline", 1);
    p->n_draft = (uint32_t)number(c, "guesses", 0);
    p->spec = p->n_draft ? VR_SPEC_MTP : VR_SPEC_OFF;
    p->extra_bufts = false;
    p->n_gpu_layers = (int)number(c, "ngl", -1);
    p->overrides = overrides;
    json_array_foreach(json_object_get(c, "order"), i, v) p->order[p->n_order++] = (uint8_t)json_integer_value(v);
    json_array_foreach(json_object_get(c, "split"), i, v) p->split[i] = (float)json_number_value(v);
    p->has_split = json_object_get(c, "split") != NULL;
    json_array_foreach(json_object_get(c, "overrides"), i, v) overrides[p->n_overrides++] =
        (struct vr_override){ json_string_value(json_array_get(v, 0)), VR_ON_CPU };
    read_context(c, p);
    size_t only = p->n_order ? p->order[0] : 0;
    bool draft = number(c, "draft", 0);
    if (number(c, "eagle3", 0)) p->spec = VR_SPEC_EAGLE3;
    json_array_foreach(json_object_get(c, "taps"), i, v) p->taps[p->n_taps++] = (uint32_t)json_integer_value(v);
    json_t *beside = json_object_get(c, "beside");
    if (number(c, "dflash", 0)) p->spec = VR_SPEC_DFLASH;
    if (number(c, "n_draft", 0)) p->spec = VR_SPEC_DSPARK, p->n_draft = (uint32_t)number(c, "n_draft", 0);
    if (number(c, "assistant", 0) || number(c, "states", 0)) p->spec = VR_SPEC_ASSISTANT;
    struct vr_context context = p->context;
    if (draft) *p = vr_draft_params(p, &specs[only]);

    struct vr_err err = { 0 };
    struct vr_prober prober;
    struct vr_proof proof = { 0 };
    VR_AUTO(vr_model) m = vr_model_open(path, &err);
    VR_AUTO(vr_model) other = beside ? vr_model_open(json_string_value(json_object_get(beside, "path")), &err) : NULL;
    bool open = m && (!beside || other) &&
                (other ? vr_prober_open_draft(m, other, &context, &prober, &err) : vr_prober_open(m, &prober, &err));
    if (!open || !vr_probe(&prober, &t, &proof, &err)) {
        json_object_set_new(answer, "error", json_string(err.msg));
        return;
    }
    json_t *list = json_array();
    for (i = 0; i < n; i++) {
        static const struct vr_use nothing;
        json_t *o = bytes(!draft ? &proof.devices[i] : i == only ? &proof.devices[0] : &nothing);
        if (tensor) json_object_set_new(o, "reduce", json_integer((json_int_t)proof.reduce_bytes[i]));
        json_array_append_new(list, o);
    }
    json_object_set_new(answer, "devices", list);
    json_object_set_new(answer, "host",
                        json_pack("{sIsI}", "context", (json_int_t)proof.host.context_bytes, "compute",
                                  (json_int_t)proof.host.compute_bytes));
}
