/* Both ends of the probe. The parent forks (it has linked the engine but never called it, so there are no threads and
 * no CUDA to be afraid of); the child brings back a struct and the rows that it counts (engine/llama/isolated.h).
 *
 * Why the graphs are reserved again after the context is made: the figure that a context without allocation reports
 * comes from a scheduler that forgot which layer belongs to which device; reserving as decoding does is exact. The
 * virtual GPUs see the sizes. */
#include "engine/probe/probe.h"

#include <malloc.h>
#include <string.h>

#include <ggml-backend-impl.h>

#include "base/clock.h"
#include "base/file.h"
#include "engine/llama/bridge.h"
#include "engine/llama/bridge_nextn.h"
#include "engine/llama/cpu.h"
#include "engine/llama/isolated.h"
#include "engine/llama/lora.h"
#include "engine/params/engine_params.h"
#include "engine/probe/slices.h"
#include "engine/vgpu/vgpu.h"
#include "engine/wire/limits.h"
#include "gguf/strip.h"
#include "gguf/type.h"

enum { PATTERN = 192 };

struct fitted_override {
    char pattern[PATTERN];
    int device;
};

struct question {
    const struct vr_prober *prober;
    const struct vr_trial *trial;
    const uint64_t *margins;
};

struct vr_trial vr_trial_default(void)
{
    return (struct vr_trial){ .load = vr_load_params_default(), .timeout_ms = 20000 };
}

void vr_proof_done(struct vr_proof *p)
{
    vr_works_done(&p->works);
    *p = (struct vr_proof){ 0 };
}

void vr_fitted_done(struct vr_fitted *f)
{
    for (size_t i = 0; i < f->n_overrides; i++) free((void *)(uintptr_t)f->overrides[i].pattern);
    free(f->overrides);
    *f = (struct vr_fitted){ 0 };
}

static void set_name(struct vr_prober *p, const struct vr_model *m)
{
    snprintf(p->name, sizeof p->name, "%s", vr_file_name(m->parts[0].path));
}

bool vr_prober_open(const struct vr_model *m, struct vr_prober *out, struct vr_err *err)
{
    *out = (struct vr_prober){ .fd = vr_model_strip(m, err) };
    set_name(out, m);
    return out->fd >= 0;
}

bool vr_prober_open_draft(const struct vr_model *draft, const struct vr_model *m, const struct vr_context *context,
                          struct vr_prober *out, struct vr_err *err)
{
    if (!vr_prober_open(draft, out, err)) return false;
    if (!vr_spec_is_head_file(vr_spec_of_file(draft))) return true;
    int fd = vr_model_strip(m, err);
    if (fd < 0) return vr_prober_close(out), false;
    out->beside_fd = fd;
    out->beside = *context;
    return true;
}

void vr_prober_open_mmproj(const struct vr_model *mmproj, struct vr_prober *out)
{
    *out = (struct vr_prober){ .path = mmproj->parts[0].path, .mmproj = true, .file_bytes = mmproj->tensor_bytes };
    for (uint32_t i = 0; i < mmproj->n_tensors; i++) out->host_bytes += vr_weight_host_bytes(&mmproj->tensors[i]);
    set_name(out, mmproj);
}

void vr_prober_close(struct vr_prober *p)
{
    if (p->fd > 0) close(p->fd);
    if (p->beside_fd > 0) close(p->beside_fd);
    *p = (struct vr_prober){ .fd = -1 };
}

/* --- in the child --- */

/* Errors of the engine, one line each, for the parent. The one that only says that loading failed says nothing. */
static void on_log(enum ggml_log_level level, const char *text, void *ctx)
{
    (void)ctx;
    if (level != GGML_LOG_LEVEL_ERROR || strstr(text, ": failed to load model\n")) return;
    if (write(2, text, strlen(text)) < 0) return; /* the parent is gone */
}

/* Variables that change what the engine does would change the plan with it. */
static void clean_environment(void)
{
    extern char **environ;
    for (char **e = environ; e && *e;) {
        char name[128];
        size_t n = strcspn(*e, "=");
        bool theirs = strncmp(*e, "GGML_", 5) == 0 || strncmp(*e, "LLAMA_", 6) == 0;
        if (!theirs || n >= sizeof name) {
            e++;
            continue;
        }
        snprintf(name, sizeof name, "%.*s", (int)n, *e);
        unsetenv(name);
        e = environ;
    }
    setenv("GGML_NO_BACKTRACE", "1", 1);   /* it would start a debugger */
    setenv("CUDA_VISIBLE_DEVICES", "", 1); /* an engine with CUDA built in must not wake the GPUs for this */
}

/* What this process frees it soon takes again: nothing is given back, or it would come back as zeros, page by page. */
static void keep_memory(void)
{
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
}

/* The engine's CPU backend, and the trial's devices as virtual ones. */
static bool start_engine(const struct vr_load_params *p, struct vr_err *err)
{
    llama_log_set(on_log, NULL);
    return vr_engine_environment(p, err) && vr_cpu_load_plain(err) &&
           (!p->n_devices || vr_vgpu_register(p->devices, p->n_devices, VR_VGPU_SIZING, err));
}

struct setup {
    struct vr_model_params model;
    struct llama_context_params context;
    char path[4096];
};

/* What is loaded, but that nothing is read or allocated. */
static bool prepare(const struct question *q, struct setup *s, struct vr_err *err)
{
    struct vr_load_params p = q->trial->load;
    ggml_backend_dev_t devices[VR_MAX_VGPUS];
    if (!start_engine(&p, err)) return false;
    for (size_t i = 0; i < p.n_devices; i++) devices[i] = vr_vgpu_device(i);
    p.threads = p.threads_batch = 1;
    if (!vr_model_params_fill(&p, devices, &s->model, err)) return false;
    s->model.model.no_alloc = true;
    s->model.model.load_mode = LLAMA_LOAD_MODE_NONE;
    s->context = vr_context_params(&p);
    if (q->prober->path)
        snprintf(s->path, sizeof s->path, "%s", q->prober->path);
    else
        snprintf(s->path, sizeof s->path, "/proc/self/fd/%d", q->prober->fd);
    return true;
}

/* Weights and cache by buffer type; those that are split over all devices are sliced afterwards. The compute figure is
 * only right where nothing of ours is involved. */
static bool read_breakdown(const struct llama_context *ctx, size_t n_devices, struct vr_proof *p, struct vr_err *err)
{
    struct vr_bridge_use uses[64];
    int n = vr_bridge_breakdown(ctx, uses, 64, err);
    if (n < 0) return false;
    for (int i = 0; i < n && i < 64; i++) {
        struct vr_use *to = &p->host;
        if (ggml_backend_buft_is_meta(uses[i].buft)) continue;
        for (size_t d = 0; d < n_devices; d++)
            if (vr_vgpu_buffer_type(d) == uses[i].buft) to = &p->devices[d];
        to->model_bytes += uses[i].model_bytes;
        to->context_bytes += uses[i].context_bytes;
        if (n_devices == 0) to->compute_bytes += uses[i].compute_bytes;
    }
    return true;
}

/* The same in split mode tensor, where the engine only says how large whole tensors are, but for states, which it
 * allocates at once. */
static bool read_slices(const struct llama_context *ctx, const struct vr_load_params *l, struct vr_slices *s,
                        struct vr_proof *p, struct vr_err *err)
{
    s->meta = vr_slices_backend(vr_bridge_sched(ctx));
    if (!s->meta) return vr_fail(err, VR_EENGINE, "the engine does not split tensors");
    vr_slices_begin(s, vr_load_params_device(l, 0));
    bool read = read_breakdown(ctx, p->n_devices, p, err);
    if (!vr_slices_end(s, err) || !read) return false;
    for (size_t i = 0; i < p->n_devices; i++) {
        struct vr_vgpu_use use = vr_vgpu_used(i);
        p->devices[i].model_bytes = use.weight_bytes;
        p->devices[i].context_bytes = use.other_bytes;
    }
    return true;
}

/* What adding up takes on each device, once the largest graph was computed. */
static void read_reduce_bytes(struct vr_proof *p)
{
    for (size_t i = 0; i < p->n_devices; i++) {
        struct vr_vgpu_use use = vr_vgpu_used(i);
        p->reduce_bytes[i] = use.reduce_bytes + use.other_bytes - p->devices[i].context_bytes;
    }
}

/* Reserves the graph of one phase, for a look at what it does: a row of logits per sequence, or the embeddings of all
 * tokens. */
static bool look(struct llama_context *ctx, enum vr_phase phase, uint32_t n_tokens, const struct vr_load_params *l,
                 const struct vr_slices *slices, struct vr_proof *p, struct vr_err *err)
{
    uint32_t n_seq = llama_n_seq_max(ctx);
    vr_work_begin(slices);
    struct ggml_cgraph *g = vr_bridge_reserve(ctx, n_tokens, n_seq, l->embedding_model ? n_tokens : n_seq, err);
    return g && vr_work_end(g, slices, phase, l->n_devices, &p->works, err);
}

/* Architectures whose largest graph is the one for a single sequence. */
static bool one_seq_is_worst(const struct llama_model *model)
{
    char arch[64] = "";
    llama_model_meta_val_str(model, "general.architecture", arch, sizeof arch);
    return strcmp(arch, "kimi-linear") == 0 || strcmp(arch, "minimax-01") == 0;
}

/* What is in use for another context than the one that is asked about. */
struct others {
    uint64_t compute_bytes[VR_MAX_VGPUS + 1]; /* the host is the last */
    uint64_t output_bytes;
};

static struct others find_others(size_t n_devices)
{
    struct others o = { 0 };
    for (size_t i = 0; i <= n_devices && n_devices; i++) o.compute_bytes[i] = vr_vgpu_used(i).compute_bytes;
    if (n_devices) o.output_bytes = vr_vgpu_used(n_devices).other_bytes;
    return o;
}

/* The graphs that a real load reserves: a full micro-batch, and one token per sequence. */
static bool reserve_all(struct llama_context *ctx, const struct vr_trial *t, uint32_t n_outputs,
                        const struct vr_slices *slices, const struct others *others, struct vr_proof *p,
                        struct vr_err *err)
{
    size_t n_devices = t->load.n_devices;
    bool want_work = t->want_work || slices->meta; /* only a look shows what the engine cannot split */
    uint32_t n_seq = llama_n_seq_max(ctx), n_tokens = llama_n_ubatch(ctx);
    if (n_tokens > llama_n_ctx(ctx)) n_tokens = llama_n_ctx(ctx);
    if (n_outputs > n_tokens) n_outputs = n_tokens;
    if (n_seq > 1 && one_seq_is_worst(llama_get_model(ctx)) && !vr_bridge_reserve(ctx, n_tokens, 1, n_outputs, err))
        return false;
    struct ggml_cgraph *g = vr_bridge_reserve(ctx, n_tokens, n_seq, n_outputs, err);
    if (!g) return false;
    for (int i = 0; i < ggml_graph_n_nodes(g) && !p->flash; i++)
        p->flash = ggml_graph_node(g, i)->op == GGML_OP_FLASH_ATTN_EXT;
    if (want_work ? !look(ctx, VR_DECODE, n_seq, &t->load, slices, p, err)
                  : !vr_bridge_reserve(ctx, n_seq, n_seq, n_seq, err))
        return false;
    uint32_t streams = vr_draft_streams(n_seq), block = vr_draft_block(&t->load, llama_get_model(ctx)) * streams;
    if (t->load.head == VR_SPEC_DSPARK && !vr_bridge_reserve(ctx, block, streams, block, err)) return false;
    for (size_t i = 0; i < n_devices; i++)
        p->devices[i].compute_bytes = vr_vgpu_used(i).compute_bytes - others->compute_bytes[i];
    if (n_devices) {
        struct vr_vgpu_use host = vr_vgpu_used(n_devices);
        p->host.compute_bytes = host.compute_bytes - others->compute_bytes[n_devices];
        p->output_bytes = host.other_bytes - others->output_bytes;
    }
    /* last, because a prompt with few outputs may run its last layer elsewhere, and need more there */
    if (want_work && !look(ctx, VR_PREFILL, n_tokens, &t->load, slices, p, err)) return false;
    if (slices->meta) read_reduce_bytes(p);
    if (!t->want_work) vr_works_done(&p->works);
    return true;
}

/* In split mode tensor, a second context has a cache that is sliced, too, and what it takes to add up. Where its
 * weights are sliced again, that is not counted. */
static bool add_slices(struct llama_context *head, const struct vr_load_params *l, struct vr_proof *p,
                       struct vr_err *err)
{
    struct vr_slices s = { .meta = vr_slices_backend(vr_bridge_sched(head)) };
    struct vr_proof unused = { 0 };
    uint64_t before[VR_MAX_VGPUS];
    uint32_t n_seq = llama_n_seq_max(head), n_tokens = llama_n_ubatch(head);
    if (n_tokens > llama_n_ctx(head)) n_tokens = llama_n_ctx(head);
    if (!s.meta) return vr_fail(err, VR_EENGINE, "the engine does not split the MTP head's cache");
    for (size_t i = 0; i < p->n_devices; i++) before[i] = vr_vgpu_used(i).other_bytes;
    vr_slices_begin(&s, vr_load_params_device(l, 0));
    bool read = read_breakdown(head, p->n_devices, &unused, err);
    if (!vr_slices_end(&s, err) || !read) return false;
    for (size_t i = 0; i < p->n_devices; i++) p->devices[i].context_bytes += vr_vgpu_used(i).other_bytes - before[i];
    p->host.context_bytes += unused.host.context_bytes;
    bool ok =
        look(head, VR_DECODE, n_seq, l, &s, &unused, err) && look(head, VR_PREFILL, n_tokens, l, &s, &unused, err);
    vr_works_done(&unused.works);
    read_reduce_bytes(p);
    return ok;
}

/* A context is made before it is told what to give out, and its first buffers may be larger than those that stay. What
 * was reserved is never given back here, so this comes last. */
static bool reserve_first(struct llama_context *ctx, const struct vr_load_params *l, uint32_t n_outputs,
                          struct vr_proof *p, struct vr_err *err)
{
    const struct others before = find_others(p->n_devices);
    uint32_t n_seq = llama_n_seq_max(ctx), n_tokens = llama_n_ubatch(ctx);
    if (n_tokens > llama_n_ctx(ctx)) n_tokens = llama_n_ctx(ctx);
    vr_bridge_give_nothing(ctx, l->taps, l->n_taps);
    if (!vr_bridge_reserve(ctx, n_tokens, n_seq, n_outputs < n_tokens ? n_outputs : n_tokens, err)) return false;
    for (size_t i = 0; i < p->n_devices; i++)
        p->first_bytes[i] = p->devices[i].compute_bytes + vr_vgpu_used(i).compute_bytes - before.compute_bytes[i];
    return true;
}

/* The second context of a model whose MTP head guesses: a cache of its own, and graphs for prompts and for guesses. The
 * weights are the model's and are counted. */
static bool add_head(struct llama_context *ctx, const struct vr_load_params *l, struct vr_proof *p, struct vr_err *err)
{
    struct vr_bridge_use uses[64];
    size_t n_devices = p->n_devices;
    const struct others before = find_others(n_devices);
    struct llama_model *model = (struct llama_model *)(uintptr_t)llama_get_model(ctx);
    struct llama_context *head = llama_init_from_model(model, vr_head_context_params(l, ctx));
    if (!head) return vr_fail(err, VR_EENGINE, "the engine cannot create a context for the MTP head");
    vr_bridge_nextn_on(head, true);
    uint32_t n_seq = llama_n_seq_max(head), n_tokens = llama_n_ubatch(head);
    if (n_tokens > llama_n_ctx(head)) n_tokens = llama_n_ctx(head);
    if (!vr_bridge_reserve(head, n_tokens, n_seq, n_seq < n_tokens ? n_seq : n_tokens, err) ||
        !vr_bridge_reserve(head, n_seq, n_seq, n_seq, err))
        return false;
    int n = vr_bridge_breakdown(head, uses, 64, err);
    if (n < 0) return false;
    for (int i = 0; i < n && i < 64 && l->split_mode != VR_SPLIT_TENSOR; i++) {
        struct vr_use *to = &p->host;
        for (size_t d = 0; d < n_devices; d++)
            if (vr_vgpu_buffer_type(d) == uses[i].buft) to = &p->devices[d];
        to->context_bytes += uses[i].context_bytes;
        if (n_devices == 0) to->compute_bytes += uses[i].compute_bytes;
    }
    for (size_t i = 0; i < n_devices; i++)
        p->devices[i].compute_bytes += vr_vgpu_used(i).compute_bytes - before.compute_bytes[i];
    if (n_devices == 0) return true;
    struct vr_vgpu_use host = vr_vgpu_used(n_devices);
    p->host.compute_bytes += host.compute_bytes - before.compute_bytes[n_devices];
    p->output_bytes = host.other_bytes;
    return l->split_mode != VR_SPLIT_TENSOR || add_slices(head, l, p, err);
}

/* The model that a draft head reads. It may share its token embeddings, which are always on the host, and its output or
 * the cache of some layers, which are where the head is: so all of the model is said to be there. */
static struct llama_context *open_beside(const struct question *q, struct vr_err *err)
{
    const struct vr_load_params *head = &q->trial->load;
    struct vr_load_params p = vr_load_params_default();
    VR_AUTO_MODEL_PARAMS m = { 0 };
    ggml_backend_dev_t devices[VR_MAX_VGPUS];
    char path[64];
    p.context.n_ctx = p.context.n_batch = p.context.n_ubatch = 64;
    p.devices = head->devices;
    p.n_devices = head->n_devices;
    for (size_t i = 0; i < p.n_devices; i++) devices[i] = vr_vgpu_device(i);
    if (vr_spec_shares_cache(head->head)) {
        p.context = q->prober->beside;
        p.flash_auto = head->flash_auto;
    }
    if (!vr_model_params_fill(&p, devices, &m, err)) return NULL;
    m.model.no_alloc = true;
    m.model.load_mode = LLAMA_LOAD_MODE_NONE;
    snprintf(path, sizeof path, "/proc/self/fd/%d", q->prober->beside_fd);
    struct llama_model *model = llama_model_load_from_file(path, m.model);
    struct llama_context *ctx = model ? llama_init_from_model(model, vr_context_params(&p)) : NULL;
    if (!ctx) vr_fail(err, VR_EENGINE, "the engine cannot load the model that the draft head reads");
    return ctx;
}

/* Without devices of ours, what the engine allocated: the figure that it reports is of the graph as it was before the
 * model gave out hidden states. */
static uint64_t sched_bytes(struct llama_context *ctx)
{
    ggml_backend_sched_t sched = vr_bridge_sched(ctx);
    uint64_t bytes = 0;
    for (int i = 0; i < ggml_backend_sched_get_n_backends(sched); i++)
        bytes += ggml_backend_sched_get_buffer_size(sched, ggml_backend_sched_get_backend(sched, i));
    return bytes;
}

/* Host memory for what a model gives out to a head, and a head to us, once it is computed. */
static void add_given_out(struct llama_context *ctx, const struct vr_load_params *l, struct vr_proof *p)
{
    const struct llama_model *m = llama_get_model(ctx);
    uint64_t width = (uint64_t)llama_model_n_embd(m), vocab = (uint64_t)llama_vocab_n_tokens(llama_model_get_vocab(m));
    if (l->head) p->output_bytes = llama_n_ubatch(ctx) * (vocab + width) * sizeof(float);
    uint64_t rows = l->n_taps + (vr_spec_shares_cache(l->spec) ? 1 : 0);
    p->output_bytes += rows * width * llama_n_batch(ctx) * sizeof(float);
}

/* Pictures are not a context's business: weights and the graph of one picture, on one device. */
static bool measure_mmproj(const struct question *q, struct vr_proof *p, struct vr_err *err)
{
    const struct vr_load_params *t = &q->trial->load;
    const struct vr_prober *m = q->prober;
    struct vr_bridge_clip clip;
    if (!start_engine(t, err)) return false;
    if (!vr_bridge_clip_reserve(m->path, t->n_devices ? vr_vgpu_device(0) : NULL, vr_flash_attn_type(t), &clip, err))
        return false;
    p->n_devices = t->n_devices;
    p->n_embd = clip.n_embd;
    if (t->n_devices) {
        struct vr_vgpu_use use = vr_vgpu_used(0);
        p->devices[0] = (struct vr_use){ .model_bytes = use.weight_bytes, .compute_bytes = use.compute_bytes };
        p->host.compute_bytes = clip.cpu_bytes + vr_vgpu_used(t->n_devices).compute_bytes;
    } else {
        p->host.model_bytes = m->host_bytes;
        p->host.compute_bytes = clip.cpu_bytes > m->file_bytes ? clip.cpu_bytes - m->file_bytes : 0;
    }
    return true;
}

/* Adapters go where the model's tensors are. On devices they are counted as they are allocated; the host's, which may
 * be pinned and then look like a device's buffer, by their sizes: *pinned of them do. NULL without err: there are none.
 */
static struct vr_loras *load_loras(const struct vr_load_params *l, struct llama_model *model, struct vr_proof *p,
                                   uint64_t *pinned, struct vr_err *err)
{
    const char *paths[VR_MOST_LORAS];
    struct vr_bridge_use uses[64];
    *pinned = 0;
    if (l->n_loras == 0) return NULL;
    for (size_t i = 0; i < l->n_loras; i++) paths[i] = l->loras[i].path;
    struct vr_loras *made = vr_bridge_loras_load(model, paths, l->n_loras, err);
    if (!made) return NULL;
    for (size_t i = 0; i < l->n_devices; i++) {
        struct vr_vgpu_use use = vr_vgpu_used(i);
        p->devices[i].model_bytes += use.weight_bytes + use.other_bytes;
    }
    int n = vr_bridge_loras_uses(made, uses, 64);
    for (int i = 0; i < n && i < 64; i++) {
        bool on_device = false;
        for (size_t d = 0; d < l->n_devices; d++) on_device |= vr_vgpu_buffer_type(d) == uses[i].buft;
        if (!on_device) p->host.model_bytes += uses[i].model_bytes;
    }
    if (l->n_devices) *pinned = vr_vgpu_used(l->n_devices).other_bytes;
    return made;
}

/* All on: whatever requests choose is less. */
static bool use_loras(struct vr_loras *loras, struct llama_context *ctx, struct vr_err *err)
{
    float ones[VR_MOST_LORAS];
    for (size_t i = 0; i < VR_MOST_LORAS; i++) ones[i] = 1;
    return !loras || vr_bridge_loras_set(loras, ctx, ones, err);
}

static bool measure(const struct question *q, struct vr_proof *p, struct vr_err *err)
{
    if (q->prober->mmproj) return measure_mmproj(q, p, err);
    struct setup s = { 0 };
    const struct vr_load_params *l = &q->trial->load;
    if (!prepare(q, &s, err)) return false;
    struct llama_model *model = llama_model_load_from_file(s.path, s.model.model);
    if (!model) return vr_fail(err, VR_EENGINE, "the engine cannot load this model");
    uint64_t pinned;
    struct vr_loras *loras = load_loras(&q->trial->load, model, p, &pinned, err);
    if (!loras && q->trial->load.n_loras) return false;
    struct llama_context *beside = NULL;
    if (q->prober->beside_fd && !(beside = open_beside(q, err))) return false;
    const struct others others = find_others(l->n_devices);
    s.context = vr_draft_context_params(&q->trial->load, beside);
    struct llama_context *ctx = llama_init_from_model(model, s.context);
    if (!ctx) return vr_fail(err, VR_EENGINE, "the engine cannot create a context with these settings");
    p->n_devices = q->trial->load.n_devices;
    p->n_ctx = llama_n_ctx(ctx);
    p->n_copies = (uint32_t)ggml_backend_sched_get_n_copies(vr_bridge_sched(ctx));
    p->pipeline = p->n_copies > 1;
    struct vr_slices slices = { 0 };
    bool tensor = l->split_mode == VR_SPLIT_TENSOR && p->n_devices, mtp = l->spec == VR_SPEC_MTP;
    bool states = mtp || vr_spec_shares_cache(l->spec);
    if (tensor && ((states && !mtp) || l->n_taps))
        return vr_fail(err, VR_EENGINE, "draft heads are not supported in split mode tensor");
    if (states) vr_bridge_nextn_on(ctx, false);
    vr_draft_context_set(l, ctx);
    vr_bridge_taps_on(ctx, l->taps, l->n_taps);
    if (!use_loras(loras, ctx, err) ||
        !(tensor ? read_slices(ctx, &q->trial->load, &slices, p, err) : read_breakdown(ctx, p->n_devices, p, err)) ||
        !reserve_all(ctx, q->trial, s.context.n_outputs_max, &slices, &others, p, err))
        return false;
    p->output_bytes -= pinned < p->output_bytes ? pinned : p->output_bytes;
    if (p->n_devices == 0 && (states || l->n_taps || l->head == VR_SPEC_DSPARK))
        p->host.compute_bytes = sched_bytes(ctx);
    add_given_out(ctx, l, p);
    if (mtp && !add_head(ctx, &q->trial->load, p, err)) return false;
    return tensor || (!states && !l->n_taps) || reserve_first(ctx, l, s.context.n_outputs_max, p, err);
}

static bool probe_child(void *ctx, struct vr_buf *result, struct vr_err *err)
{
    struct vr_proof p = { 0 };
    clean_environment();
    keep_memory();
    if (!measure(ctx, &p, err)) return false;
    vr_buf_add(result, &p, sizeof p);
    if (p.works.n_rows) vr_buf_add(result, p.works.rows, p.works.n_rows * sizeof *p.works.rows);
    if (p.works.n_transfers) vr_buf_add(result, p.works.transfers, p.works.n_transfers * sizeof *p.works.transfers);
    if (p.works.n_reductions) vr_buf_add(result, p.works.reductions, p.works.n_reductions * sizeof *p.works.reductions);
    return true;
}

static int device_of(ggml_backend_buffer_type_t buft, size_t n_devices)
{
    for (size_t d = 0; d < n_devices; d++)
        if (vr_vgpu_buffer_type(d) == buft) return (int)d;
    return VR_ON_CPU;
}

static bool fit(const struct question *q, struct vr_fitted *f, struct fitted_override **list, struct vr_err *err)
{
    struct setup s = { 0 };
    size_t max = llama_max_tensor_buft_overrides(), margins[128] = { 0 }, n_devices = q->trial->load.n_devices;
    if (!prepare(q, &s, err)) return false;
    /* it changes only what has its default value */
    struct llama_model_params fresh = llama_model_default_params();
    fresh.devices = s.model.devices;
    fresh.use_extra_bufts = s.model.model.use_extra_bufts;
    struct llama_model_tensor_buft_override *overrides = calloc(max, sizeof *overrides);
    *list = calloc(max, sizeof **list);
    if (!overrides || !*list) return vr_fail_nomem(err, "running llama.cpp's fit");
    float *split = s.model.split;
    memset(split, 0, sizeof s.model.split);
    for (size_t i = 0; i < n_devices; i++) margins[i] = q->margins ? q->margins[i] : (size_t)1 << 30;
    double t0 = vr_now_fine_ms();
    int status = vr_bridge_fit(s.path, &fresh, &s.context, split, overrides, margins, 4096, err);
    if (status < 0) return false;
    f->ms = vr_now_fine_ms() - t0;
    f->fits = status == 0;
    f->n_gpu_layers = fresh.n_gpu_layers;
    f->n_ctx = s.context.n_ctx;
    f->dry_runs = (uint32_t)vr_vgpu_contexts(0);
    memcpy(f->split, split, sizeof f->split);
    for (size_t i = 0; i < max && fresh.tensor_buft_overrides && overrides[i].pattern; i++) {
        struct fitted_override *o = &(*list)[f->n_overrides++];
        snprintf(o->pattern, sizeof o->pattern, "%s", overrides[i].pattern);
        o->device = device_of(overrides[i].buft, n_devices);
    }
    return true;
}

static bool fit_child(void *ctx, struct vr_buf *result, struct vr_err *err)
{
    struct vr_fitted f = { 0 };
    struct fitted_override *list = NULL;
    clean_environment();
    if (!fit(ctx, &f, &list, err)) return false;
    vr_buf_add(result, &f, sizeof f);
    vr_buf_add(result, list, f.n_overrides * sizeof *list);
    return true;
}

/* --- in the parent --- */

static bool ask(bool (*fn)(void *, struct vr_buf *, struct vr_err *), const char *what, struct question *q,
                struct vr_buf *result, double *ms, struct vr_err *err)
{
    struct vr_isolated job = { .fn = fn,
                               .ctx = q,
                               .what = what,
                               .of = q->prober->name,
                               .quiet = true, /* on_log() */
                               .needs.files = { q->prober->path },
                               .timeout_ms = q->trial->timeout_ms,
                               .pass_fds = { q->prober->fd, q->prober->beside_fd },
                               .ms = ms };
    for (size_t i = 0; i < q->trial->load.n_loras; i++) job.needs.files[1 + i] = q->trial->load.loras[i].path;
    return vr_isolated_run(&job, result, err);
}

/* A copy of n rows that follow in a result, in *rows, which the caller frees; NULL for none. */
static bool take_rows(const struct vr_buf *result, size_t *at, size_t n, size_t size, void **rows, const char *what,
                      struct vr_err *err)
{
    *rows = NULL;
    if (n > (result->n - *at) / size) return vr_fail(err, VR_EENGINE, "%s sent half an answer", what);
    if (n == 0) return true;
    *rows = malloc(n * size);
    return (*rows && vr_isolated_next(result, at, *rows, n * size)) || vr_fail_nomem(err, "reading a dry run's answer");
}

bool vr_probe(const struct vr_prober *p, const struct vr_trial *trial, struct vr_proof *out, struct vr_err *err)
{
    struct question q = { .prober = p, .trial = trial };
    VR_AUTO_BUF result = { 0 };
    struct vr_proof proof;
    size_t at = 0;
    double ms;
    if (!ask(probe_child, "the engine's dry run", &q, &result, &ms, err)) {
        if (err->code == VR_EENGINE && trial->load.split_mode == VR_SPLIT_TENSOR) err->code = VR_ESPLIT;
        return false;
    }
    const char *what = "the engine's dry run";
    void *rows = NULL, *transfers = NULL, *reductions = NULL;
    if (!vr_isolated_next(&result, &at, &proof, sizeof proof))
        return vr_fail(err, VR_EENGINE, "%s sent half an answer", what);
    const struct vr_works *w = &proof.works;
    bool whole = take_rows(&result, &at, w->n_rows, sizeof *w->rows, &rows, what, err) &&
                 take_rows(&result, &at, w->n_transfers, sizeof *w->transfers, &transfers, what, err) &&
                 take_rows(&result, &at, w->n_reductions, sizeof *w->reductions, &reductions, what, err);
    if (!whole) {
        free(rows);
        free(transfers);
        free(reductions);
        return false;
    }
    proof.works.rows = rows;
    proof.works.transfers = transfers;
    proof.works.reductions = reductions;
    *out = proof;
    out->ms = ms;
    return true;
}

bool vr_probe_fit(const struct vr_prober *p, const struct vr_trial *trial, const uint64_t *margin_bytes,
                  struct vr_fitted *out, struct vr_err *err)
{
    struct question q = { .prober = p, .trial = trial, .margins = margin_bytes };
    VR_AUTO_BUF result = { 0 };
    struct vr_fitted f;
    size_t at = 0;
    if (trial->load.n_devices == 0) return vr_fail(err, VR_EUSAGE, "%s: no device to fit it to", p->name);
    if (!ask(fit_child, "llama.cpp's fit", &q, &result, NULL, err)) return false;
    const char *what = "llama.cpp's fit";
    VR_AUTO_FREE void *rows = NULL;
    if (!vr_isolated_next(&result, &at, &f, sizeof f)) return vr_fail(err, VR_EENGINE, "%s sent half an answer", what);
    size_t n = f.n_overrides;
    struct fitted_override *list;
    if (!take_rows(&result, &at, n, sizeof *list, &rows, what, err)) return false;
    list = rows;
    *out = f;
    out->n_overrides = 0;
    out->overrides = calloc(n + 1, sizeof *out->overrides);
    for (size_t i = 0; out->overrides && i < n; i++) {
        list[i].pattern[PATTERN - 1] = '\0';
        char *pattern = strdup(list[i].pattern);
        if (!pattern) break;
        out->overrides[out->n_overrides++] = (struct vr_override){ pattern, list[i].device };
    }
    if (out->n_overrides == n && out->overrides) return true;
    vr_fitted_done(out);
    return vr_fail_nomem(err, "running llama.cpp's fit");
}
