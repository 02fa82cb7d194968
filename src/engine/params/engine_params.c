#include "engine/params/engine_params.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/llama/bridge_nextn.h"
#include "engine/llama/library.h"
#include "engine/speculate/steer.h"

static bool set_devices(const struct vr_load_params *p, const ggml_backend_dev_t *devices, struct vr_model_params *out,
                        struct vr_err *err)
{
    size_t n = vr_load_params_n_order(p);
    if (n > VR_MAX_VGPUS)
        return vr_fail(err, VR_EUSAGE, "%zu devices: the engine supports at most %d; choose some with --devices", n,
                       VR_MAX_VGPUS);
    for (size_t i = 0; i < n; i++) {
        size_t d = vr_load_params_device(p, i);
        if (d >= p->n_devices)
            return vr_fail(err, VR_EINTERNAL, "a placement on %zu devices names device %zu", p->n_devices, d);
        out->devices[i] = devices[d];
        if (p->has_split) out->split[i] = p->split[i];
    }
    out->n_devices = n;
    out->model.devices = out->devices;
    if (p->has_split) out->model.tensor_split = out->split;
    return true;
}

static bool set_overrides(const struct vr_load_params *p, const ggml_backend_dev_t *devices,
                          struct vr_model_params *out, struct vr_err *err)
{
    out->overrides = calloc(p->n_overrides + 2, sizeof *out->overrides); /* one without a pattern ends the list */
    if (!out->overrides) return vr_fail_nomem(err, "preparing to load a model");
    size_t n = 0;
    for (; n < p->n_overrides; n++) {
        const struct vr_override *o = &p->overrides[n];
        if (o->device != VR_ON_CPU && (o->device < 0 || (size_t)o->device >= p->n_devices))
            return vr_fail(err, VR_EINTERNAL, "override '%s' names device %d of %zu", o->pattern, o->device,
                           p->n_devices);
        out->overrides[n].pattern = o->pattern;
        out->overrides[n].buft =
            o->device == VR_ON_CPU ? ggml_backend_cpu_buffer_type() : ggml_backend_dev_buffer_type(devices[o->device]);
    }
    if (!p->pipeline && n == 0)
        out->overrides[n++] =
            (struct llama_model_tensor_buft_override){ VR_NO_PIPELINE, ggml_backend_cpu_buffer_type() };
    if (n) out->model.tensor_buft_overrides = out->overrides;
    return true;
}

bool vr_model_params_fill(const struct vr_load_params *given, const ggml_backend_dev_t *devices,
                          struct vr_model_params *out, struct vr_err *err)
{
    static const enum llama_split_mode modes[] = { [VR_SPLIT_LAYER] = LLAMA_SPLIT_MODE_LAYER,
                                                   [VR_SPLIT_NONE] = LLAMA_SPLIT_MODE_NONE,
                                                   [VR_SPLIT_TENSOR] = LLAMA_SPLIT_MODE_TENSOR };
    struct vr_load_params settled = *given;
    const struct vr_load_params *p = &settled;
    vr_load_params_settle(&settled);
    *out = (struct vr_model_params){ .model = llama_model_default_params() };
    struct llama_model_params *m = &out->model;
    m->split_mode = modes[p->split_mode];
    m->n_gpu_layers = p->n_gpu_layers;
    m->load_mode = p->mmap ? (p->mlock ? LLAMA_LOAD_MODE_MMAP_MLOCK : LLAMA_LOAD_MODE_MMAP)
                           : (p->mlock ? LLAMA_LOAD_MODE_MLOCK : LLAMA_LOAD_MODE_NONE);
    m->use_extra_bufts = p->extra_bufts;
    m->load_mtp = p->context.load_mtp;
    return set_devices(p, devices, out, err) && set_overrides(p, devices, out, err);
}

void vr_model_params_done(struct vr_model_params *m)
{
    free(m->overrides);
    m->overrides = NULL;
}

bool vr_engine_environment(const struct vr_load_params *p, struct vr_err *err)
{
    char n[16];
    snprintf(n, sizeof n, "%" PRIu32, p->offload_min ? p->offload_min : VR_OFFLOAD_MIN);
    return setenv(VR_OFFLOAD_VARIABLE, n, 1) == 0 || vr_fail_nomem(err, "preparing the engine");
}

enum llama_flash_attn_type vr_flash_attn_type(const struct vr_load_params *p)
{
    return p->flash_auto           ? LLAMA_FLASH_ATTN_TYPE_AUTO
           : p->context.flash_attn ? LLAMA_FLASH_ATTN_TYPE_ENABLED
                                   : LLAMA_FLASH_ATTN_TYPE_DISABLED;
}

struct llama_context_params vr_context_params(const struct vr_load_params *given)
{
    struct vr_load_params p = *given;
    vr_load_params_settle(&p);
    const struct vr_context *c = &p.context;
    struct llama_context_params out = llama_context_default_params();
    out.n_ctx = c->n_ctx;
    out.n_batch = c->n_batch;
    out.n_ubatch = c->n_ubatch;
    out.n_seq_max = c->n_seq;
    out.n_rs_seq = c->n_rollback;
    out.n_outputs_max = p.n_outputs;
    out.n_threads = (int32_t)(p.threads ? p.threads : vr_engine_threads());
    out.n_threads_batch = p.threads_batch ? (int32_t)p.threads_batch : out.n_threads;
    out.flash_attn_type = vr_flash_attn_type(&p);
    out.type_k = (enum ggml_type)c->type_k;
    out.type_v = (enum ggml_type)c->type_v;
    out.offload_kqv = c->offload_kqv;
    out.op_offload = p.op_offload;
    out.swa_full = c->swa_full;
    out.kv_unified = c->kv_unified;
    out.embeddings = p.embedding_model;
    out.no_perf = true;
    return out;
}

struct llama_context_params vr_head_context_params(const struct vr_load_params *p, struct llama_context *model)
{
    struct vr_load_params h = vr_head_params(p);
    struct llama_context_params out = vr_context_params(&h);
    out.n_ctx = llama_n_ctx(model);
    out.ctx_type = LLAMA_CONTEXT_TYPE_MTP;
    out.ctx_other = model;
    return out;
}

struct llama_context_params vr_draft_context_params(const struct vr_load_params *p, struct llama_context *model)
{
    struct llama_context_params out = vr_context_params(p);
    if (p->head) out.ctx_other = model; /* whose token embeddings, output or cache it may share */
    if (vr_spec_shares_cache(p->head)) out.ctx_type = LLAMA_CONTEXT_TYPE_MTP;
    return out;
}

static bool says(const struct llama_model *m, const char *key, bool otherwise)
{
    char text[8] = "";
    return llama_model_meta_val_str(m, key, text, sizeof text) < 0 ? otherwise : strcmp(text, "true") == 0;
}

uint32_t vr_draft_streams(uint32_t n_seq) { return n_seq < VR_STEER_STREAMS ? n_seq : VR_STEER_STREAMS; }

bool vr_draft_from_anchor(const struct vr_load_params *p, const struct llama_model *head)
{
    return p->head == VR_SPEC_DSPARK && says(head, "dflash.sample_from_anchor", true);
}

uint32_t vr_draft_block(const struct vr_load_params *p, const struct llama_model *head)
{
    return vr_spec_guesses_blocks(p->head) ? p->n_draft + (vr_draft_from_anchor(p, head) ? 0 : 1) : 0;
}

void vr_draft_context_set(const struct vr_load_params *p, struct llama_context *ctx)
{
    if (vr_spec_guesses_blocks(p->head)) /* a block sees all of itself, unless the file says otherwise */
        llama_set_causal_attn(ctx, says(llama_get_model(ctx), "dflash.attention.causal", false));
    else if (p->head)
        vr_bridge_nextn_on(ctx, true);
}
