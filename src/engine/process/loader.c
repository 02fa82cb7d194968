/* Loading by plan: the placement is not decided here but obeyed, to the layer. Three moments can run out of memory, and
 * each is told apart: the weights, the context (cache and compute buffers), and the first computation, for which a
 * warm-up batch as large as any that will come is run before anybody is told that the model is up. */
#include "engine/process/loader.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <string.h>

#include <ggml-backend-impl.h>
#include <openssl/evp.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/text.h"
#include "engine/llama/cpu.h"
#include "engine/process/cache_file.h"
#include "engine/llama/bridge_nextn.h"
#include "engine/process/draft_head.h"
#include "engine/process/stops.h"
#include "engine/llama/library.h"
#include "engine/llama/held.h"
#include "engine/llama/lastlog.h"
#include "engine/llama/vocab_texts.h"
#include "engine/params/engine_params.h"
#include "engine/params/load_message.h"
#include "engine/rpc/borrow.h"
#include "engine/vgpu/vgpu.h"
#include "gguf/pair.h"

/* What loading builds up. */
struct loading {
    struct vr_load_params plan;
    struct vr_engine *e;
    const struct vr_load_hooks *hooks;
    struct vr_failure *why;
    ggml_backend_dev_t devices[VR_MAX_VGPUS]; /* the plan's */
    int percent;
};

/* --- failing --- */

/* What the devices have left, now that whatever failed has been given back. */
static void ask_left(struct vr_failure *f)
{
    for (size_t i = 0; i < ggml_backend_dev_count() && f->n_left < VR_COUNT(f->left); i++) {
        ggml_backend_dev_t dev = ggml_backend_dev_get(i);
        size_t total_bytes = 0, free_bytes = 0;
        enum ggml_backend_dev_type type = ggml_backend_dev_type(dev);
        if (type != GGML_BACKEND_DEVICE_TYPE_GPU && type != GGML_BACKEND_DEVICE_TYPE_IGPU) continue;
        ggml_backend_dev_memory(dev, &free_bytes, &total_bytes);
        snprintf(f->left[f->n_left].name, sizeof f->left[0].name, "%s", ggml_backend_dev_name(dev));
        f->left[f->n_left++].free_bytes = free_bytes;
    }
}

/* Names of buffers are those of devices, but for pinned memory, which is the host's. */
static void name_device(struct vr_failure *f)
{
    struct vr_vgpu_refusal refusal;
    struct vr_shortage s = vr_lastlog_shortage();
    f->out_of_memory = s.any;
    f->asked_bytes = s.asked_bytes;
    snprintf(f->device, sizeof f->device, "%s", s.device);
    if (vr_vgpu_refused(&refusal)) { /* these know exactly */
        f->out_of_memory = true;
        f->asked_bytes = refusal.asked_bytes;
        f->free_bytes = refusal.free_bytes;
        snprintf(f->device, sizeof f->device, "%s", refusal.device);
        return;
    }
    const char *borrowed = vr_borrow_device(f->device);
    if (borrowed) snprintf(f->device, sizeof f->device, "%s", borrowed);
    for (size_t i = 0; i < f->n_left; i++)
        if (strcmp(f->left[i].name, f->device) == 0) f->free_bytes = f->left[i].free_bytes;
}

void vr_failure_explain(struct vr_failure *f, enum vr_load_stage stage, const char *what, bool ask_devices)
{
    *f = (struct vr_failure){ .stage = stage };
    if (ask_devices) ask_left(f);
    name_device(f);
    if (f->asked_bytes > f->free_bytes && f->device[0] && (f->n_left || f->free_bytes))
        f->missing_bytes = f->asked_bytes - f->free_bytes;
    char reason[400];
    struct vr_num asked, missing;
    vr_lastlog_reason(reason, sizeof reason);
    if (!f->out_of_memory)
        snprintf(f->message, sizeof f->message, "%s%s%s", what, reason[0] ? ": " : "", reason);
    else if (f->missing_bytes)
        snprintf(f->message, sizeof f->message, "%s: out of memory on %s: %s asked for at once, %s more than there is",
                 what, f->device[0] ? f->device : "a device", vr_fmt_bytes(&asked, f->asked_bytes),
                 vr_fmt_bytes(&missing, f->missing_bytes));
    else if (f->asked_bytes) /* what the failed attempt had is free again: the gap cannot be told */
        snprintf(f->message, sizeof f->message, "%s: out of memory on %s: %s asked for at once", what,
                 f->device[0] ? f->device : "a device", vr_fmt_bytes(&asked, f->asked_bytes));
    else
        snprintf(f->message, sizeof f->message, "%s: out of memory on %s", what, f->device[0] ? f->device : "a device");
}

static bool refuse(struct loading *l, const struct vr_err *err)
{
    *l->why = (struct vr_failure){ .stage = VR_AT_LOAD };
    snprintf(l->why->message, sizeof l->why->message, "%s", err->msg);
    return false;
}

/* --- devices --- */

static bool load_cpu(struct loading *l, struct vr_err *err)
{
    char *path = l->e->cpu;
    snprintf(path, sizeof l->e->cpu, "%s", l->plan.cpu);
    if (strcmp(path, "auto") == 0 && !vr_cpu_choose(path, sizeof l->e->cpu, err)) return false;
    return vr_cpu_load(path, err);
}

static bool find_devices(struct loading *l, struct vr_err *err)
{
    for (size_t i = 0; i < l->plan.n_devices; i++) {
        const char *name = l->plan.devices[i].name;
        l->devices[i] = ggml_backend_dev_by_name(name);
        if (l->devices[i]) continue;
        char reason[300];
        vr_lastlog_reason(reason, sizeof reason);
        return vr_fail(err, VR_EDEVICE,
                       "the engine does not see the device %.40s%s%s; 'vram-llm doctor' shows what it sees", name,
                       reason[0] ? ": " : "", reason);
    }
    return true;
}

static bool is_real(const char *name) { return name[0] && !strchr(name, '/'); }

/* GPUs of this machine, as opposed to those that are made up or borrowed. */
static bool on_real_devices(const struct vr_load_params *p)
{
    bool any = is_real(p->draft_device) || is_real(p->mmproj_device);
    for (size_t i = 0; i < p->n_devices; i++) any |= is_real(p->devices[i].name);
    return any && !p->n_vgpus;
}

struct vr_engine_needs vr_engine_needs_of(const struct vr_load_params *p)
{
    struct vr_engine_needs needs = { .files = { p->model, p->draft, p->mmproj, p->cpu },
                                     .devices = on_real_devices(p) };
    for (size_t i = 0; i < p->n_loras; i++) needs.files[4 + i] = p->loras[i].path;
    return needs;
}

/* The backends of the plan's devices: made up here, those of the engine, and those of other machines. */
static bool load_devices(struct loading *l, struct vr_err *err)
{
    const struct vr_load_params *p = &l->plan;
    if (!vr_engine_environment(p, err)) return false;
    if (p->n_vgpus && !vr_vgpu_register(p->vgpus, p->n_vgpus, VR_VGPU_EXECUTING, err)) return false;
    return (!on_real_devices(p) || vr_engine_load_backends(err)) && vr_borrow_register(err) && find_devices(l, err);
}

/* --- the model --- */

static bool on_progress(float part, void *ctx)
{
    struct loading *l = ctx;
    int percent = (int)(part * 100);
    if (percent != l->percent && l->hooks->progress) l->hooks->progress(l->hooks->ctx, "load", percent);
    l->percent = percent;
    return !(l->hooks->give_up && l->hooks->give_up(l->hooks->ctx));
}

static bool load_model(struct loading *l, struct vr_err *err)
{
    VR_AUTO_MODEL_PARAMS m = { 0 };
    if (!vr_file_readable(l->plan.model))
        return vr_fail(err, VR_EIO, "%s: %s", l->plan.model, strerror(errno)) || refuse(l, err);
    if (!vr_model_params_fill(&l->plan, l->devices, &m, err)) return refuse(l, err);
    if (l->plan.split_mode == VR_SPLIT_TENSOR) vr_held_begin(m.devices, m.n_devices);
    m.model.progress_callback = on_progress;
    m.model.progress_callback_user_data = l;
    double t0 = vr_now_fine_ms();
    l->e->model = llama_model_load_from_file(l->plan.model, m.model);
    l->e->load_ms = vr_now_fine_ms() - t0;
    l->e->sent_bytes = vr_borrow_sent_bytes();
    vr_held_end();
    if (!l->e->model) return vr_failure_explain(l->why, VR_AT_LOAD, "the model did not load", true), false;
    if (l->plan.mlock && vr_lastlog_shortage().mlock) {
        vr_fail(err, VR_EIO, "the model's memory cannot be locked: raise the limit (ulimit -l) or leave out --mlock");
        return refuse(l, err);
    }
    l->e->vocab = llama_model_get_vocab(l->e->model);
    l->e->n_vocab = (uint32_t)llama_vocab_n_tokens(l->e->vocab);
    l->e->n_embd = (uint32_t)llama_model_n_embd_out(l->e->model);
    if (llama_model_has_encoder(l->e->model) && llama_model_has_decoder(l->e->model)) {
        vr_fail(err, VR_EUSAGE, "this model has an encoder and a decoder; only models with one of them are served");
        return refuse(l, err);
    }
    return true;
}

/* --- adapters --- */

/* The file that an adapter is, as long as it is not written again. */
static uint64_t file_id(const char *path)
{
    struct stat s = { 0 };
    if (stat(path, &s) != 0) s.st_size = -1;
    const int64_t facts[] = { s.st_size, s.st_mtim.tv_sec, s.st_mtim.tv_nsec };
    return vr_hash(facts, sizeof facts, vr_hash(path, strlen(path), 0));
}

/* Scales come from strangers, who must not find any that look like another's. */
void vr_lora_key(const struct vr_engine *e, struct vr_lora_scales *s)
{
    struct {
        uint64_t id;
        double scale;
    } on[VR_MOST_LORAS] = { 0 };
    unsigned char sum[EVP_MAX_MD_SIZE] = { 0 };
    bool any = false;
    for (size_t i = 0; i < e->n_loras; i++) {
        if (s->of[i] == 0) continue;
        on[i].id = e->lora_ids[i];
        on[i].scale = (double)s->of[i];
        any = true;
    }
    s->key = 0;
    if (!any) return;
    if (EVP_Digest(on, sizeof on, sum, NULL, EVP_sha256(), NULL))
        memcpy(&s->key, sum, sizeof s->key);
    else
        s->key = vr_hash(on, sizeof on, vr_hash_secret());
}

/* Before the context, which counts their operations. */
static bool load_loras(struct loading *l, struct vr_err *err)
{
    struct vr_engine *e = l->e;
    const char *paths[VR_MOST_LORAS];
    if (l->plan.n_loras == 0) return true;
    for (size_t i = 0; i < l->plan.n_loras; i++) {
        paths[i] = l->plan.loras[i].path;
        snprintf(e->lora_paths[i], sizeof e->lora_paths[i], "%.511s", paths[i]);
        e->lora_ids[i] = file_id(paths[i]);
        e->lora.of[i] = l->plan.loras[i].scale;
        if (!vr_file_readable(paths[i]))
            return vr_fail(err, VR_EIO, "%s: %s", paths[i], strerror(errno)) || refuse(l, err);
    }
    e->loras = vr_bridge_loras_load(e->model, paths, l->plan.n_loras, err);
    if (!e->loras) return vr_failure_explain(l->why, VR_AT_LOAD, err->msg, true), false;
    e->n_loras = l->plan.n_loras;
    vr_lora_key(e, &e->lora);
    return true;
}

/* All on for the first computation, which no other set exceeds. The first request sets its own. */
static bool set_loras(struct loading *l, struct vr_err *err)
{
    struct vr_engine *e = l->e;
    struct vr_lora_scales ones;
    for (size_t i = 0; i < VR_MOST_LORAS; i++) ones.of[i] = 1;
    vr_lora_key(e, &ones);
    e->lora_first = ones.key;
    if (!e->loras || vr_bridge_loras_set(e->loras, e->ctx, ones.of, err)) return true;
    return vr_failure_explain(l->why, VR_AT_CONTEXT, err->msg, true), false;
}

/* --- the context --- */

static bool meta_is(const struct llama_model *m, const char *suffix, char *out, size_t n)
{
    char arch[64], key[128];
    if (llama_model_meta_val_str(m, "general.architecture", arch, sizeof arch) < 0) return false;
    snprintf(key, sizeof key, "%s.%s", arch, suffix);
    return llama_model_meta_val_str(m, key, out, n) >= 0;
}

static bool is_causal(const struct llama_model *m)
{
    char v[32];
    return !(meta_is(m, "attention.causal", v, sizeof v) && strcmp(v, "false") == 0);
}

static bool is_embedding_model(const struct llama_model *m)
{
    char v[32];
    return vr_makes_embeddings(meta_is(m, "pooling_type", v, sizeof v) && strcmp(v, "0") != 0, is_causal(m));
}

static bool make_context(struct loading *l)
{
    struct vr_engine *e = l->e;
    l->plan.embedding_model = is_embedding_model(e->model);
    vr_load_params_settle(&l->plan);
    struct llama_context_params c = vr_context_params(&l->plan);
    c.abort_callback = l->hooks->abort;
    c.abort_callback_data = l->hooks->ctx;
    if (l->hooks->progress) l->hooks->progress(l->hooks->ctx, "context", 0);
    double t0 = vr_now_fine_ms();
    e->ctx = llama_init_from_model(e->model, c);
    e->context_ms = vr_now_fine_ms() - t0;
    vr_held_end();
    if (!e->ctx) return vr_failure_explain(l->why, VR_AT_CONTEXT, "the context could not be made", true), false;
    e->text = !l->plan.embedding_model;
    e->n_threads = (uint32_t)c.n_threads;
    e->n_threads_batch = (uint32_t)c.n_threads_batch;
    e->memory = llama_get_memory(e->ctx);
    e->n_ctx_seq = llama_n_ctx_seq(e->ctx);
    e->n_seq = llama_n_seq_max(e->ctx);
    e->n_batch = llama_n_batch(e->ctx);
    e->n_ubatch = llama_n_ubatch(e->ctx);
    e->n_outputs = c.n_outputs_max;
    e->unified = c.kv_unified;
    e->sliced = l->plan.split_mode == VR_SPLIT_TENSOR;
    e->pooling = llama_pooling_type(e->ctx);
    e->ranks = !e->text && e->pooling == LLAMA_POOLING_TYPE_RANK;
    e->embeddings = e->text ? l->plan.embeddings : !e->ranks;
    e->n_swa = c.swa_full ? 0 : (uint32_t)llama_model_n_swa(e->model);
    e->keep_billing_header = l->plan.keep_billing_header;
    e->cache_bytes = (uint64_t)l->plan.cache_mib * VR_MIB;
    e->cache_disk_bytes = (uint64_t)l->plan.cache_disk_mib * VR_MIB;
    e->can_cut = !llama_model_is_recurrent(e->model) && !llama_model_is_hybrid(e->model);
    if (e->cache_bytes && (!e->can_cut || (e->n_swa && e->n_swa < e->n_ctx_seq)))
        e->stop_step = vr_stop_step(e->n_ctx_seq);
    if (l->plan.cache_file[0]) vr_cache_owner(&l->plan, e);
    return true;
}

/* No layer's cache is on the host, and no tensor was sent there by name. */
static bool all_on_devices(const struct loading *l)
{
    struct vr_bridge_use uses[64];
    struct vr_err err;
    int n = vr_bridge_breakdown(l->e->ctx, uses, (int)VR_COUNT(uses), &err);
    if (l->plan.n_devices == 0 || n < 0 || n > (int)VR_COUNT(uses)) return false;
    for (int k = 0; k < n; k++)
        if (ggml_backend_buft_is_host(uses[k].buft) && uses[k].context_bytes) return false;
    for (size_t i = 0; i < l->plan.n_overrides; i++)
        if (l->plan.overrides[i].device == VR_ON_CPU) return false;
    return !l->e->draft || l->plan.draft_device[0];
}

/* Threads that wait for work between batches instead of being made for each. They wait by spinning, and every batch
 * wakes all of them, also where all that the host does is to look tokens up, in one thread: there they would only take
 * cores from the thread that feeds the devices, and from the front. */
static void attach_threads(struct vr_engine *e)
{
    if (e->on_devices) return;
    ggml_backend_dev_t cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    ggml_backend_reg_t reg = cpu ? ggml_backend_dev_backend_reg(cpu) : NULL;
    struct ggml_threadpool *(*make)(struct ggml_threadpool_params *) =
        reg ? (struct ggml_threadpool * (*)(struct ggml_threadpool_params *))
                  ggml_backend_reg_get_proc_address(reg, "ggml_threadpool_new")
            : NULL;
    uint32_t n = e->n_threads > e->n_threads_batch ? e->n_threads : e->n_threads_batch;
    struct ggml_threadpool_params p = ggml_threadpool_params_default((int)n);
    e->pool = make ? make(&p) : NULL;
    if (e->pool) llama_attach_threadpool(e->ctx, e->pool, e->pool);
    if (e->pool && e->draft) llama_attach_threadpool(e->draft, e->pool, e->pool);
    if (e->pool && e->head) llama_attach_threadpool(e->head, e->pool, e->pool);
}

/* --- the draft --- */

/* As the engine's own speculation asks for it; what the headers say was compared before (gguf/pair.h). */
static bool same_vocabulary(const struct llama_vocab *a, const struct llama_vocab *b)
{
    bool bos = llama_vocab_get_add_bos(a), eos = llama_vocab_get_add_eos(a);
    int32_t more = llama_vocab_n_tokens(a) - llama_vocab_n_tokens(b);
    return llama_vocab_type(a) == llama_vocab_type(b) && bos == llama_vocab_get_add_bos(b) &&
           eos == llama_vocab_get_add_eos(b) && (!bos || llama_vocab_bos(a) == llama_vocab_bos(b)) &&
           (!eos || llama_vocab_eos(a) == llama_vocab_eos(b)) && abs(more) <= VR_DRAFT_VOCAB_SLACK;
}

static bool can_draft(struct loading *l, struct vr_err *err)
{
    const struct vr_engine *e = l->e;
    const struct llama_model *d = e->draft_model;
    if (!same_vocabulary(e->vocab, llama_model_get_vocab(d)))
        vr_fail(err, VR_EUSAGE, "the draft model's vocabulary differs from the model's: use one of the same family");
    else if (vr_spec_is_head_file(e->spec) && llama_vocab_n_tokens(llama_model_get_vocab(d)) != (int32_t)e->n_vocab)
        vr_fail(err, VR_EUSAGE, "the draft head and the model differ in their number of tokens");
    else if (llama_model_is_recurrent(d) || llama_model_is_hybrid(d))
        vr_fail(err, VR_EUSAGE, "a recurrent model cannot be a draft model: its state cannot be rolled back");
    else
        return true;
    return refuse(l, err);
}

/* What the head reads, the model gives out from now on. */
static bool tap_model(struct loading *l, struct vr_err *err)
{
    struct vr_engine *e = l->e;
    if (e->shares_cache) return vr_bridge_nextn_on(e->ctx, false), true;
    e->n_taps = vr_bridge_head_taps(e->draft_model, e->taps, VR_MOST_TAPS);
    bool ok = e->n_taps > 0 && e->n_taps <= VR_MOST_TAPS;
    for (size_t i = 0; ok && i < e->n_taps; i++) ok = e->taps[i] < (uint32_t)llama_model_n_layer(e->model);
    if (!ok) {
        vr_fail(err, VR_EUSAGE, "the draft head reads layers that the model does not have");
        return refuse(l, err);
    }
    vr_bridge_taps_on(e->ctx, e->taps, e->n_taps);
    return true;
}

/* If it fails, the model and its context are in place: for the memory that is missed it is as if a computation had
 * failed. */
static bool load_draft(struct loading *l, struct vr_err *err)
{
    struct vr_engine *e = l->e;
    const char *name = l->plan.draft_device;
    ggml_backend_dev_t device = name[0] ? ggml_backend_dev_by_name(name) : NULL;
    if (name[0] && !device) {
        vr_fail(err, VR_EDEVICE, "the engine does not see the draft's device %.40s", name);
        return refuse(l, err);
    }
    static const struct vr_vgpu_spec one;
    struct vr_load_params p = vr_draft_params(&l->plan, device ? &one : NULL);
    p.context.n_ctx = llama_n_ctx(e->ctx);
    VR_AUTO_MODEL_PARAMS m = { 0 };
    if (!vr_model_params_fill(&p, &device, &m, err)) return refuse(l, err);
    e->draft_model = llama_model_load_from_file(p.model, m.model);
    if (!e->draft_model) return vr_failure_explain(l->why, VR_AT_DECODE, "the draft did not load", true), false;
    if (!can_draft(l, err)) return false;
    e->shares_cache = vr_spec_shares_cache(p.head);
    if (p.head && !tap_model(l, err)) return false;
    e->draft = llama_init_from_model(e->draft_model, vr_draft_context_params(&p, e->ctx));
    if (!e->draft)
        return vr_failure_explain(l->why, VR_AT_DECODE, "the draft's context could not be made", true), false;
    vr_draft_context_set(&p, e->draft);
    e->block = vr_draft_block(&p, e->draft_model);
    e->from_anchor = vr_draft_from_anchor(&p, e->draft_model);
    return true;
}

/* --- guesses --- */

/* A second context over the model's own weights. The first one gives out hidden states from now on. */
static bool make_head(struct loading *l, struct vr_err *err)
{
    struct vr_engine *e = l->e;
    char arch[64] = "";
    llama_model_meta_val_str(e->model, "general.architecture", arch, sizeof arch);
    if (llama_model_n_layer_nextn(e->model) == 0 || !vr_arch_has_mtp(arch)) {
        vr_fail(err, VR_EUSAGE, "this model has no MTP head that the engine can use: leave out --spec mtp");
        return refuse(l, err);
    }
    vr_bridge_nextn_on(e->ctx, false);
    vr_held_again();
    e->head = llama_init_from_model(e->model, vr_head_context_params(&l->plan, e->ctx));
    vr_held_end();
    if (!e->head)
        return vr_failure_explain(l->why, VR_AT_DECODE, "the MTP head's context could not be made", true), false;
    vr_bridge_nextn_on(e->head, true);
    return true;
}

/* Whoever guesses, and what it takes. */
static bool load_guesser(struct loading *l, struct vr_err *err)
{
    struct vr_engine *e = l->e;
    if (!l->plan.spec || !e->text) return true;
    e->spec = l->plan.spec;
    e->n_draft = l->plan.n_draft;
    e->steer = l->plan.steer;
    if (!e->can_cut && llama_n_rs_seq(e->ctx) < e->n_draft) {
        vr_fail(err, VR_EUSAGE,
                "the engine keeps no earlier states of this recurrent model, so rejected tokens cannot be rolled back: "
                "it cannot use speculative decoding");
        return refuse(l, err);
    }
    bool file = vr_spec_row(e->spec)->file != NULL;
    if (file && !l->plan.draft[0]) {
        vr_fail(err, VR_EUSAGE, "speculative decoding with %s needs its file: --draft FILE",
                vr_spec_row(e->spec)->what);
        return refuse(l, err);
    }
    if (file) return load_draft(l, err);
    return e->spec != VR_SPEC_MTP || make_head(l, err);
}

/* --- the first computation --- */

/* On GPUs a batch of full size, since pools and workspaces grow with it; on the CPU the weights are just touched. */
static bool warm_up(struct loading *l, struct llama_context *ctx, struct vr_err *err)
{
    struct vr_engine *e = l->e;
    if (l->hooks->progress) l->hooks->progress(l->hooks->ctx, "warmup", 0);
    bool on_device = l->plan.n_devices || l->plan.draft_device[0];
    uint32_t room = e->n_ctx_seq - 1, n = on_device ? e->n_ubatch : 2;
    if (n > room) n = room;
    llama_token token = llama_vocab_bos(e->vocab);
    if (token < 0 || (uint32_t)token >= e->n_vocab) token = 0;
    struct llama_batch b = llama_batch_init((int32_t)n, 0, 1);
    for (uint32_t i = 0; i < n; i++) {
        b.token[i] = token;
        b.pos[i] = (llama_pos)i;
        b.n_seq_id[i] = 1;
        b.seq_id[i][0] = 0;
        b.logits[i] = i + 1 == n || !e->text;
    }
    b.n_tokens = (int32_t)n;
    int rc = vr_bridge_decode(ctx, b, err);
    if (rc == 0 && e->text && n < room) { /* and one as streams will ask for */
        b.n_tokens = 1;
        b.pos[0] = (llama_pos)n;
        b.logits[0] = 1;
        rc = vr_bridge_decode(ctx, b, err);
    }
    llama_synchronize(ctx);
    llama_batch_free(b);
    if (llama_get_memory(ctx)) llama_memory_clear(llama_get_memory(ctx), false);
    if (rc == 0) return true;
    vr_failure_explain(l->why, VR_AT_DECODE, "the first computation failed", true);
    if (rc == -2) l->why->out_of_memory = true;
    return false;
}

/* What a head makes of features, at most at once. */
static int warm_up_features(const struct vr_engine *e, struct vr_err *err)
{
    uint32_t wide = (uint32_t)e->n_taps * (uint32_t)llama_model_n_embd(e->model);
    uint32_t n = vr_head_rows(llama_n_ubatch(e->draft), wide, (uint32_t)llama_model_n_embd(e->draft_model));
    if (n > e->n_ctx_seq - 1) n = e->n_ctx_seq - 1;
    struct llama_batch b = vr_draft_head_batch(n, wide);
    int rc = -2;
    for (uint32_t i = 0; b.token && i < n; i++) {
        memset(b.embd + (size_t)i * wide, 0, wide * sizeof *b.embd);
        b.pos[i] = (llama_pos)i;
        b.n_seq_id[i] = 1;
        b.seq_id[i][0] = 0;
        b.logits[i] = 0;
    }
    b.n_tokens = (int32_t)n;
    struct llama_batch given = { .n_tokens = (int32_t)n, .embd = b.embd };
    if (b.token && !vr_spec_guesses_blocks(e->spec)) rc = vr_bridge_encode(e->draft, given, err);
    if (b.token && vr_spec_guesses_blocks(e->spec)) rc = vr_bridge_decode(e->draft, vr_draft_head_given(&b), err);
    llama_synchronize(e->draft);
    vr_draft_head_batch_free(b);
    return rc;
}

/* The same for a head: tokens, which come with hidden states, but for a block of guesses. */
static bool warm_up_head(struct loading *l, struct llama_context *head, uint32_t width, struct vr_err *err)
{
    struct vr_engine *e = l->e;
    bool on_device = l->plan.n_devices || l->plan.draft_device[0];
    uint32_t room = e->n_ctx_seq - 1, n = on_device || e->shares_cache ? llama_n_ubatch(head) : 2;
    if (n > room) n = room;
    uint32_t each = e->block && e->block < room ? e->block : n;
    if (e->block) n = each * vr_draft_streams(e->n_seq);
    if (e->shares_cache) each = 1; /* what its graph is reserved for */
    struct llama_batch b = vr_draft_head_batch(n, width);
    for (uint32_t i = 0; b.token && i < n; i++) {
        memset(b.embd + (size_t)i * width, 0, width * sizeof *b.embd);
        b.pos[i] = (llama_pos)(i % each);
        b.n_seq_id[i] = 1;
        b.seq_id[i][0] = (llama_seq_id)(i / each);
        b.logits[i] = e->block || i + 1 == n;
    }
    b.n_tokens = (int32_t)n;
    struct llama_batch tokens = b;
    if (e->block) tokens.embd = NULL;
    int rc = b.token ? vr_bridge_decode(head, tokens, err) : -2;
    llama_synchronize(head);
    vr_draft_head_batch_free(b);
    llama_memory_clear(llama_get_memory(head), false);
    if (rc == 0 && e->n_taps) rc = warm_up_features(e, err);
    llama_memory_clear(llama_get_memory(head), false);
    if (rc == 0) return true;
    vr_failure_explain(l->why, VR_AT_DECODE, "the draft head's first computation failed", true);
    if (rc == -2) l->why->out_of_memory = true;
    return false;
}

/* An mmproj, all on one device. Its buffers are made here, for a picture of usual size. */
static bool load_vision(struct loading *l, struct vr_err *err)
{
    const struct vr_load_params *p = &l->plan;
    ggml_backend_dev_t dev = p->mmproj_device[0] ? ggml_backend_dev_by_name(p->mmproj_device) : NULL;
    if (p->mmproj_device[0] && !dev) {
        vr_fail(err, VR_EDEVICE, "the engine does not see the mmproj's device %.40s", p->mmproj_device);
        return refuse(l, err);
    }
    l->e->vision = vr_bridge_vision_open(p->mmproj, l->e->model, dev, vr_flash_attn_type(p), (int)l->e->n_threads_batch,
                                         vr_lastlog_hear, err);
    if (l->e->vision) return true;
    if (err->code == VR_EUSAGE) return refuse(l, err);
    return vr_failure_explain(l->why, VR_AT_DECODE, err->msg, true), false;
}

static bool load_all(struct loading *l, struct vr_err *err)
{
    struct vr_engine *e = l->e;
    if (!load_cpu(l, err) || !load_devices(l, err)) return refuse(l, err);
    vr_lastlog_forget();
    if (!load_model(l, err) || !load_loras(l, err) || !make_context(l) || !set_loras(l, err)) return false;
    if (!load_guesser(l, err)) return false;
    if (l->plan.mmproj[0] && !load_vision(l, err)) return false;
    e->on_devices = all_on_devices(l);
    attach_threads(e);
    if (!warm_up(l, e->ctx, err)) return false;
    bool ok = !e->draft || e->n_taps || e->shares_cache || warm_up(l, e->draft, err);
    if (e->n_taps) ok = warm_up_head(l, e->draft, (uint32_t)llama_model_n_embd(e->draft_model), err);
    if (e->head) ok = warm_up_head(l, e->head, e->n_embd, err);
    if (e->shares_cache) ok = warm_up_head(l, e->draft, e->n_embd, err);
    if (!ok) return false;
    if (e->text && !(e->token_index = vr_vocab_texts(e->vocab, err))) return refuse(l, err);
    return true;
}

bool vr_engine_load_params(const struct vr_load_params *p, const struct vr_load_hooks *hooks, struct vr_engine *out,
                           struct vr_failure *why)
{
    *out = (struct vr_engine){ 0 };
    struct vr_err err = { 0 };
    struct loading l = { .e = out, .hooks = hooks, .why = why, .percent = -1, .plan = *p };
    bool ok = load_all(&l, &err);
    if (!ok) vr_engine_done(out);
    return ok;
}

bool vr_engine_load(const json_t *load, const struct vr_load_hooks *hooks, struct vr_engine *out,
                    struct vr_failure *why)
{
    *out = (struct vr_engine){ 0 };
    struct vr_err err = { 0 };
    struct loading l = { .e = out, .hooks = hooks, .why = why, .percent = -1 };
    VR_AUTO_ARENA arena = { 0 };
    if (!vr_load_params_read(load, &arena, &l.plan, &err)) return refuse(&l, &err);
    return vr_engine_load_params(&l.plan, hooks, out, why);
}

void vr_engine_done(struct vr_engine *e)
{
    vr_bridge_vision_close(e->vision);
    if (e->draft) llama_free(e->draft);
    if (e->head) llama_free(e->head);
    if (e->draft_model) llama_model_free(e->draft_model);
    if (e->ctx) llama_free(e->ctx);
    vr_token_index_free(e->token_index);
    vr_bridge_loras_free(e->loras);
    if (e->model) llama_model_free(e->model);
    *e = (struct vr_engine){ 0 };
}

/* --- READY --- */

static const char *device_name(ggml_backend_buffer_type_t buft)
{
    const char *name = ggml_backend_buft_name(buft), *borrowed = vr_borrow_device(name);
    return borrowed ? borrowed : name;
}

static void add_use(const struct vr_bridge_use *u, ggml_backend_dev_t dev, const char *name, bool first,
                    struct vr_buf *out)
{
    size_t free_bytes = 0, total_bytes = 0;
    vr_buf_addf(out, "%s{\"name\":", first ? "" : ",");
    vr_json_add_string(out, name);
    ggml_backend_dev_memory(dev, &free_bytes, &total_bytes);
    vr_buf_addf(out, ",\"model_bytes\":%llu,\"context_bytes\":%llu,\"compute_bytes\":%llu,\"free_bytes\":%llu}",
                (unsigned long long)u->model_bytes, (unsigned long long)u->context_bytes,
                (unsigned long long)u->compute_bytes, (unsigned long long)free_bytes);
}

/* Split mode tensor: one device over all to the engine. */
static void add_held(const struct vr_bridge_use *spread, bool second, struct vr_buf *out)
{
    for (size_t i = 0; i < vr_held_count(); i++) {
        struct vr_held h = vr_held_on(i);
        struct vr_bridge_use u = { NULL, h.model_bytes, second ? h.second_bytes : h.context_bytes,
                                   spread->compute_bytes };
        add_use(&u, h.device, ggml_backend_dev_name(h.device), i == 0, out);
    }
}

/* Adapters beside the weights that they are for. */
static int add_loras(const struct vr_loras *l, struct vr_bridge_use *uses, int n, int most)
{
    struct vr_bridge_use more[64];
    int n_more = l ? vr_bridge_loras_uses(l, more, (int)VR_COUNT(more)) : 0;
    for (int i = 0; i < n_more && i < (int)VR_COUNT(more); i++) {
        int at = 0;
        while (at < n && uses[at].buft != more[i].buft) at++;
        if (at == n && n == most) break;
        if (at == n) uses[n++] = (struct vr_bridge_use){ .buft = more[i].buft };
        uses[at].model_bytes += more[i].model_bytes;
    }
    return n;
}

/* Of one context; the second over the same weights or not. */
static void add_uses(const struct llama_context *ctx, const struct vr_loras *loras, bool second, struct vr_buf *out)
{
    struct vr_bridge_use uses[64], host = { 0 };
    struct vr_err err;
    int n = vr_bridge_breakdown(ctx, uses, (int)VR_COUNT(uses), &err);
    n = add_loras(loras, uses, n < (int)VR_COUNT(uses) ? n : (int)VR_COUNT(uses), (int)VR_COUNT(uses));
    bool first = true;
    vr_buf_adds(out, "\"devices\":[");
    for (int i = 0; i < n && i < (int)VR_COUNT(uses); i++) {
        if (ggml_backend_buft_is_host(uses[i].buft) || !ggml_backend_buft_get_device(uses[i].buft) ||
            ggml_backend_dev_type(ggml_backend_buft_get_device(uses[i].buft)) == GGML_BACKEND_DEVICE_TYPE_CPU) {
            host.model_bytes += uses[i].model_bytes;
            host.context_bytes += uses[i].context_bytes;
            host.compute_bytes += uses[i].compute_bytes;
            continue;
        }
        if (ggml_backend_buft_is_meta(uses[i].buft))
            add_held(&uses[i], second, out);
        else
            add_use(&uses[i], ggml_backend_buft_get_device(uses[i].buft), device_name(uses[i].buft), first, out);
        first = false;
    }
    vr_buf_addf(out, "],\"host\":{\"model_bytes\":%llu,\"context_bytes\":%llu,\"compute_bytes\":%llu}",
                (unsigned long long)host.model_bytes, (unsigned long long)host.context_bytes,
                (unsigned long long)host.compute_bytes);
}

static const char *yes(bool b) { return b ? "true" : "false"; }

static void add_lora_list(const struct vr_engine *e, struct vr_buf *out)
{
    static const char *const texts[] = { "task_name", "prompt_prefix" };
    vr_buf_adds(out, ",\"loras\":[");
    for (size_t i = 0; i < e->n_loras; i++) {
        vr_buf_addf(out, "%s{\"id\":%zu,\"path\":", i ? "," : "", i);
        vr_json_add_string(out, e->lora_paths[i]);
        vr_buf_addf(out, ",\"scale\":%.9g", (double)e->lora.of[i]);
        for (size_t k = 0; k < VR_COUNT(texts); k++) {
            char key[64], text[1024];
            snprintf(key, sizeof key, "adapter.lora.%s", texts[k]);
            vr_bridge_loras_meta(e->loras, i, key, text, sizeof text);
            vr_buf_addf(out, ",\"%s\":", texts[k]);
            vr_json_add_string(out, text);
        }
        vr_buf_adds(out, "}");
    }
    vr_buf_adds(out, "]");
}

void vr_engine_ready_json(const struct vr_engine *e, const struct vr_confined *confined, struct vr_buf *out)
{
    char arch[64] = "", desc[128] = "";
    llama_model_meta_val_str(e->model, "general.architecture", arch, sizeof arch);
    llama_model_desc(e->model, desc, sizeof desc);
    vr_buf_adds(out, "{\"engine\":");
    vr_json_add_string(out, llama_version());
    vr_buf_adds(out, ",\"arch\":");
    vr_json_add_string(out, arch);
    vr_buf_adds(out, ",\"desc\":");
    vr_json_add_string(out, desc);
    vr_buf_addf(out,
                ",\"n_ctx\":%u,\"n_ctx_seq\":%u,\"n_ctx_train\":%d,\"n_seq\":%u,\"n_vocab\":%u,\"n_embd\":%u,"
                "\"n_layers\":%d,\"n_params\":%llu,\"model_bytes\":%llu,\"kind\":\"%s\",\"embeddings\":%s",
                llama_n_ctx(e->ctx), e->n_ctx_seq, llama_model_n_ctx_train(e->model), e->n_seq, e->n_vocab, e->n_embd,
                llama_model_n_layer(e->model), (unsigned long long)llama_model_n_params(e->model),
                (unsigned long long)llama_model_size(e->model),
                e->text    ? "text"
                : e->ranks ? "rerank"
                           : "embedding",
                yes(e->embeddings));
    add_lora_list(e, out);
    vr_buf_addf(out, ",\"vision\":%s,\"audio\":%s", yes(e->vision && vr_bridge_vision_sees(e->vision)),
                yes(e->vision && vr_bridge_vision_rate(e->vision)));
    const struct vr_chat_caps *c = &e->caps;
    vr_buf_addf(out, ",\"chat\":{\"template\":%s,\"tools\":%s,\"parallel_tools\":%s,\"reasoning\":%s,\"system\":%s,",
                yes(e->chats && c->given), yes(e->chats && c->tools), yes(e->chats && c->parallel_tools),
                yes(e->chats && c->reasoning), yes(e->chats && c->system));
    vr_buf_adds(out, "\"problem\":");
    if (e->no_chats[0])
        vr_json_add_string(out, e->no_chats);
    else
        vr_buf_adds(out, "null");
    vr_buf_adds(out, "}");
    vr_buf_addf(out, ",\"threads\":%u,\"cpu\":", e->n_threads);
    const char *slash = strrchr(e->cpu, '/');
    vr_json_add_string(out, slash ? slash + 1 : e->cpu);
    vr_buf_adds(out, ",\"cpu_path\":");
    vr_json_add_string(out, e->cpu);
    vr_buf_addf(out, ",\"load_ms\":%.1f,\"context_ms\":%.1f,\"sent_bytes\":%" PRIu64, e->load_ms, e->context_ms,
                e->sent_bytes);
    vr_buf_adds(out, ",");
    add_uses(e->ctx, e->loras, false, out);
    if (e->draft) {
        vr_buf_adds(out, ",\"draft\":{");
        add_uses(e->draft, NULL, false, out);
        vr_buf_adds(out, "}");
    }
    if (e->head) {
        vr_buf_adds(out, ",\"head\":{");
        add_uses(e->head, NULL, true, out);
        vr_buf_adds(out, "}");
    }
    vr_buf_addf(out, ",\"spec\":\"%s\"", vr_spec_row(e->spec)->name);
    vr_buf_adds(out, ",\"confinement\":");
    vr_confined_json(confined, out);
    vr_buf_adds(out, "}");
}
