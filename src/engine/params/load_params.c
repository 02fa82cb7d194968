#include "engine/params/load_params.h"

/* Rows of logits for embeddings of a text model: they are taken a chunk at a time. */
#define EMBEDDING_ROWS 64

struct vr_load_params vr_load_params_default(void)
{
    return (struct vr_load_params){
        .n_gpu_layers = -1,
        .pipeline = true,
        .context = VR_CONTEXT_DEFAULT,
        .flash_auto = true,
        .op_offload = true,
        .n_draft = VR_DRAFT_TOKENS,
        .mmap = true,
        .extra_bufts = true,
        .model = "",
        .draft = "",
        .mmproj = "",
        .draft_device = "",
        .mmproj_device = "",
        .cpu = "auto",
        .chat_template = "",
    };
}

const char *vr_split_mode_name(enum vr_split_mode mode)
{
    static const char *const names[] = {
        [VR_SPLIT_LAYER] = "layer", [VR_SPLIT_NONE] = "none", [VR_SPLIT_TENSOR] = "tensor"
    };
    return names[mode];
}

size_t vr_load_params_n_order(const struct vr_load_params *p) { return p->n_order ? p->n_order : p->n_devices; }

size_t vr_load_params_device(const struct vr_load_params *p, size_t i) { return p->n_order ? p->order[i] : i; }

/* --- what follows from other settings --- */

struct vr_context vr_context_settled(const struct vr_context *c, bool embedding_model)
{
    struct vr_context s = *c;
    if (s.n_seq == 0) s.n_seq = 1;
    if (s.n_batch == 0) s.n_batch = VR_N_BATCH_DEFAULT;
    if (s.n_ubatch == 0) s.n_ubatch = VR_N_UBATCH_DEFAULT;
    if (s.n_batch < s.n_seq) s.n_batch = s.n_seq; /* a token of each sequence */
    if (s.n_ubatch > s.n_batch) s.n_ubatch = s.n_batch;
    if (embedding_model) { /* a whole text is one micro-batch where every token sees every other */
        if (s.n_batch < s.n_ctx) s.n_batch = s.n_ctx;
        s.n_ubatch = s.n_batch;
        s.kv_unified = true;
    }
    return s;
}

/* One row per sequence, and those that check drafted tokens; an embedding model has one per token. */
static uint32_t rows_of_logits(const struct vr_load_params *p)
{
    const struct vr_context *c = &p->context;
    uint32_t streams = c->n_seq < VR_DRAFT_STREAMS ? c->n_seq : VR_DRAFT_STREAMS;
    uint32_t rows = p->n_outputs ? p->n_outputs : c->n_seq + (p->has_draft ? streams * p->n_draft : 0);
    if (p->embeddings && rows < EMBEDDING_ROWS) rows = EMBEDDING_ROWS;
    if (p->embedding_model || rows > c->n_batch) rows = c->n_batch;
    return rows < c->n_seq ? c->n_seq : rows;
}

void vr_load_params_settle(struct vr_load_params *p)
{
    p->context = vr_context_settled(&p->context, p->embedding_model);
    p->n_outputs = rows_of_logits(p);
    if (p->n_devices == 0) p->n_gpu_layers = 0;
}

bool vr_makes_embeddings(bool pools, bool causal) { return pools || !causal; }

bool vr_model_makes_embeddings(const struct vr_model *m)
{
    return vr_makes_embeddings(vr_model_u64(m, ".pooling_type", 0, 0) != 0,
                               vr_model_u64(m, ".attention.causal", 0, 1) != 0);
}

/* --- the draft --- */

struct vr_context vr_draft_context(const struct vr_context *c)
{
    struct vr_context d = *c;
    d.type_k = d.type_v = VR_TYPE_F16;
    return d;
}

struct vr_load_params vr_draft_params(const struct vr_load_params *p, const struct vr_vgpu_spec *device)
{
    struct vr_load_params d = *p;
    const struct vr_load_params all = vr_load_params_default();
    d.devices = device;
    d.n_devices = device ? 1 : 0;
    d.n_order = 0;
    d.n_gpu_layers = all.n_gpu_layers;
    d.split_mode = all.split_mode;
    d.has_split = false;
    d.n_overrides = 0;
    d.pipeline = all.pipeline;
    d.context = vr_draft_context(&p->context);
    d.n_outputs = 0;
    d.embeddings = d.has_draft = false;
    d.model = p->draft;
    return d;
}
