#include "engine/params/load_params.h"

#include <string.h>

#include "engine/speculate/steer.h"

/* Rows of logits for embeddings of a text model: they are taken a chunk at a time. */
#define EMBEDDING_ROWS 64

/* Micro-batches of a draft head in a file of its own. The engine makes it rows of logits for all of their tokens. */
#define HEAD_UBATCH 128

struct vr_load_params vr_load_params_default(void)
{
    return (struct vr_load_params){
        .n_gpu_layers = -1,
        .pipeline = true,
        .context = VR_CONTEXT_DEFAULT,
        .flash_auto = true,
        .op_offload = true,
        .offload_min = VR_OFFLOAD_MIN,
        .steer = true,
        .node_seconds = 20,
        .mmap = true,
        .extra_bufts = true,
        .model = "",
        .draft = "",
        .mmproj = "",
        .draft_device = "",
        .mmproj_device = "",
        .cpu = "auto",
        .chat_template = "",
        .cache_mib = VR_CACHE_MIB,
        .cache_file = "",
        .cache_disk_mib = VR_CACHE_DISK_MIB,
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
    uint32_t streams = c->n_seq < VR_STEER_STREAMS ? c->n_seq : VR_STEER_STREAMS;
    uint32_t rows = p->n_outputs ? p->n_outputs : c->n_seq + (p->spec ? streams * p->n_draft : 0);
    if (p->embeddings && rows < EMBEDDING_ROWS) rows = EMBEDDING_ROWS;
    if (p->embedding_model || p->head || rows > c->n_batch) rows = c->n_batch;
    return rows < c->n_seq ? c->n_seq : rows;
}

/* Guesses that were wrong are taken back: a state is kept for each, in models that have states. The engine wants a
 * micro-batch to be larger than what it may have to take back. */
static void settle_guesses(struct vr_load_params *p)
{
    struct vr_context *c = &p->context;
    if (p->embedding_model || c->n_ubatch < 3) p->spec = VR_SPEC_OFF;
    if (!p->spec) return;
    if (p->n_draft == 0) p->n_draft = vr_spec_row(p->spec)->tokens;
    if (p->n_draft > c->n_ubatch - 2) p->n_draft = c->n_ubatch - 2;
    c->n_rollback = p->n_draft;
    c->mtp = p->spec == VR_SPEC_MTP;
    c->load_mtp |= c->mtp;
}

void vr_load_params_settle(struct vr_load_params *p)
{
    p->context = vr_context_settled(&p->context, p->embedding_model);
    settle_guesses(p);
    p->n_outputs = rows_of_logits(p);
    if (p->offload_min == 0) p->offload_min = VR_OFFLOAD_MIN;
    if (p->n_devices == 0) p->n_gpu_layers = 0;
}

bool vr_makes_embeddings(bool pools, bool causal) { return pools || !causal; }

bool vr_model_makes_embeddings(const struct vr_model *m)
{
    return vr_makes_embeddings(vr_model_u64(m, ".pooling_type", 0, 0) != 0,
                               vr_model_u64(m, ".attention.causal", 0, 1) != 0);
}

/* --- MTP heads --- */

/* Those with a graph for it in llama.cpp v0.5.0 (src/models: LLM_GRAPH_TYPE_DECODER_MTP). */
bool vr_arch_has_mtp(const char *arch)
{
    static const char *const archs[] = { "bailingmoe3", "cohere2moe", "deepseek2", "deepseek32", "deepseek4",
                                         "glm-dsa",     "glm4moe",    "hy_v3",     "mimo2",      "nemotron_h_moe",
                                         "qwen35",      "qwen35moe",  "qwen3next", "step35" };
    for (size_t i = 0; i < VR_COUNT(archs); i++)
        if (strcmp(arch, archs[i]) == 0) return true;
    return false;
}

bool vr_model_has_mtp(const struct vr_model *m) { return m->n_layers_mtp > 0 && vr_arch_has_mtp(m->arch); }

/* --- the draft --- */

struct vr_context vr_draft_context(const struct vr_context *c, enum vr_spec kind)
{
    struct vr_context d = *c;
    if (vr_spec_shares_cache(kind)) { /* it only guesses: a token for each sequence */
        d.n_batch = d.n_ubatch = d.n_seq ? d.n_seq : 1;
    } else if (vr_spec_guesses_blocks(kind)) { /* and the blocks of all streams are one micro-batch */
        d.n_batch = d.n_ubatch = HEAD_UBATCH;
    } else if (vr_spec_is_head_file(kind)) {
        if (d.n_batch == 0 || d.n_batch > HEAD_UBATCH) d.n_batch = HEAD_UBATCH;
        if (d.n_ubatch == 0 || d.n_ubatch > HEAD_UBATCH) d.n_ubatch = HEAD_UBATCH;
    }
    d.type_k = d.type_v = VR_TYPE_F16;
    d.n_rollback = 0;
    d.mtp = d.load_mtp = false;
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
    d.n_loras = 0;
    d.pipeline = all.pipeline;
    d.context = vr_draft_context(&p->context, p->spec);
    d.n_outputs = 0;
    d.embeddings = false;
    d.head = vr_spec_is_head_file(p->spec) ? p->spec : VR_SPEC_OFF;
    d.n_taps = 0;
    d.spec = VR_SPEC_OFF;
    d.model = p->draft;
    return d;
}

uint32_t vr_head_rows(uint32_t n_ubatch, uint32_t wide, uint32_t width)
{
    uint64_t rows = wide ? (uint64_t)n_ubatch * width / wide : n_ubatch;
    return rows == 0 ? 1 : rows < n_ubatch ? (uint32_t)rows : n_ubatch;
}

struct vr_load_params vr_head_params(const struct vr_load_params *p)
{
    struct vr_load_params h = *p;
    h.context = vr_draft_context(&p->context, p->spec);
    h.n_outputs = 0;
    h.embeddings = false;
    h.spec = VR_SPEC_OFF;
    return h;
}
