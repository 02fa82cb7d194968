/* Both ends of the probe. The parent forks (it has linked the engine but never called it, so there are no threads and
 * no CUDA to be afraid of), the child answers on its stdout in the parent's own memory layout: one struct answer, then
 * the rows. Everything the engine prints goes to stderr, of which the parent keeps the last line for its message.
 *
 * Why the graphs are reserved again after the context is made: the figure that a context without allocation reports
 * comes from a scheduler that forgot which layer belongs to which device; reserving as decoding does is exact. The
 * virtual GPUs see the sizes. */
#include "engine/probe/probe.h"

#include <string.h>

#include <llama.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/file.h"
#include "engine/llama/bridge.h"
#include "engine/llama/cpu.h"
#include "engine/vgpu/vgpu.h"
#include "gguf/strip.h"
#include "gguf/type.h"

#define MAGIC     0x70726f62u /* "prob" */
#define NO_TENSOR "^no tensor has this name$"

enum { PATTERN = 192 };

struct answer {
    uint32_t magic;
    bool ok;
    struct vr_err err; /* when not ok */
    struct vr_proof proof;
    struct vr_fitted fitted;
};

struct fitted_override {
    char pattern[PATTERN];
    int device;
};

struct question {
    const struct vr_prober *prober;
    const struct vr_trial *trial;
    const uint64_t *margins;
    int out; /* the child's real stdout */
};

struct vr_trial vr_trial_default(void)
{
    return (struct vr_trial){
        .n_gpu_layers = -1,
        .pipeline = true,
        .context = VR_CONTEXT_DEFAULT,
        .flash_auto = true,
        .op_offload = true,
        .timeout_ms = 20000,
    };
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
    const char *path = m->parts[0].path, *slash = strrchr(path, '/');
    snprintf(p->name, sizeof p->name, "%s", slash ? slash + 1 : path);
}

bool vr_prober_open(const struct vr_model *m, struct vr_prober *out, struct vr_err *err)
{
    *out = (struct vr_prober){ .fd = vr_model_strip(m, err) };
    set_name(out, m);
    return out->fd >= 0;
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

struct setup { /* the engine's parameters, and the arrays they point to */
    struct llama_model_params model;
    struct llama_context_params context;
    ggml_backend_dev_t devices[VR_MAX_SPLIT + 1];
    struct llama_model_tensor_buft_override *overrides;
    float split[128];
};

static bool set_devices(const struct vr_trial *t, struct setup *s, struct vr_err *err)
{
    size_t n = t->n_order ? t->n_order : t->n_devices;
    if (n > VR_MAX_VGPUS)
        return vr_fail(err, VR_EUSAGE, "%zu devices: the engine supports at most %d; choose some with --devices", n,
                       VR_MAX_VGPUS);
    for (size_t i = 0; i < n; i++) {
        size_t d = t->n_order ? t->order[i] : i;
        if (d >= t->n_devices)
            return vr_fail(err, VR_EINTERNAL, "a trial of %zu devices names device %zu", t->n_devices, d);
        s->devices[i] = vr_vgpu_device(d);
    }
    s->model.devices = s->devices;
    return true;
}

static bool set_overrides(const struct vr_trial *t, struct setup *s, struct vr_err *err)
{
    s->overrides = calloc(t->n_overrides + 2, sizeof *s->overrides);
    if (!s->overrides) return vr_fail_nomem(err, "preparing a dry run");
    size_t n = 0;
    for (; n < t->n_overrides; n++) {
        const struct vr_override *o = &t->overrides[n];
        if (o->device != VR_ON_CPU && (o->device < 0 || (size_t)o->device >= t->n_devices))
            return vr_fail(err, VR_EINTERNAL, "override '%s' names device %d of %zu", o->pattern, o->device,
                           t->n_devices);
        s->overrides[n].pattern = o->pattern;
        s->overrides[n].buft =
            o->device == VR_ON_CPU ? ggml_backend_cpu_buffer_type() : vr_vgpu_buffer_type((size_t)o->device);
    }
    /* any override at all ends pipelining, also one that finds nothing */
    if (!t->pipeline && n == 0)
        s->overrides[n++] = (struct llama_model_tensor_buft_override){ NO_TENSOR, ggml_backend_cpu_buffer_type() };
    if (n) s->model.tensor_buft_overrides = s->overrides;
    return true;
}

static void set_context(const struct vr_trial *t, struct llama_context_params *out)
{
    const struct vr_context *c = &t->context;
    *out = llama_context_default_params();
    out->n_ctx = c->n_ctx;
    out->n_batch = c->n_batch ? c->n_batch : out->n_batch;
    out->n_ubatch = c->n_ubatch ? c->n_ubatch : out->n_ubatch;
    out->n_seq_max = c->n_seq ? c->n_seq : 1;
    out->n_rs_seq = c->n_rollback;
    out->n_outputs_max = t->n_outputs;
    out->n_threads = out->n_threads_batch = 1; /* nothing is computed */
    out->flash_attn_type = t->flash_auto   ? LLAMA_FLASH_ATTN_TYPE_AUTO
                           : c->flash_attn ? LLAMA_FLASH_ATTN_TYPE_ENABLED
                                           : LLAMA_FLASH_ATTN_TYPE_DISABLED;
    out->type_k = (enum ggml_type)c->type_k;
    out->type_v = (enum ggml_type)c->type_v;
    out->kv_unified = c->kv_unified;
    out->swa_full = c->swa_full;
    out->op_offload = t->op_offload;
    out->offload_kqv = c->offload_kqv;
}

static bool prepare(const struct question *q, struct setup *s, char *path, size_t n, struct vr_err *err)
{
    static const enum llama_split_mode modes[] = { LLAMA_SPLIT_MODE_LAYER, LLAMA_SPLIT_MODE_NONE,
                                                   LLAMA_SPLIT_MODE_TENSOR };
    const struct vr_trial *t = q->trial;
    llama_log_set(on_log, NULL);
    if (!vr_cpu_load_plain(err)) return false;
    if (t->n_devices && !vr_vgpu_register(t->devices, t->n_devices, VR_VGPU_SIZING, err)) return false;
    s->model = llama_model_default_params();
    s->model.no_alloc = true;
    s->model.load_mode = LLAMA_LOAD_MODE_NONE;
    s->model.use_extra_bufts = false;
    s->model.split_mode = modes[t->split_mode];
    s->model.n_gpu_layers = t->n_gpu_layers;
    s->model.load_mtp = t->context.load_mtp;
    for (size_t i = 0; i < VR_MAX_SPLIT; i++) s->split[i] = t->split[i];
    if (t->has_split) s->model.tensor_split = s->split;
    set_context(t, &s->context);
    if (q->prober->path)
        snprintf(path, n, "%s", q->prober->path);
    else
        snprintf(path, n, "/proc/self/fd/%d", q->prober->fd);
    return set_devices(t, s, err) && set_overrides(t, s, err);
}

/* Weights and cache by buffer type. The compute figure is only right where nothing of ours is involved. */
static bool read_breakdown(const struct llama_context *ctx, size_t n_devices, struct vr_proof *p, struct vr_err *err)
{
    struct vr_bridge_use uses[64];
    int n = vr_bridge_breakdown(ctx, uses, 64, err);
    if (n < 0) return false;
    for (int i = 0; i < n && i < 64; i++) {
        struct vr_use *to = &p->host;
        for (size_t d = 0; d < n_devices; d++)
            if (vr_vgpu_buffer_type(d) == uses[i].buft) to = &p->devices[d];
        to->model_bytes += uses[i].model_bytes;
        to->context_bytes += uses[i].context_bytes;
        if (n_devices == 0) to->compute_bytes += uses[i].compute_bytes;
    }
    return true;
}

/* Reserves the graph of one phase, for a look at what it does. */
static bool look(struct llama_context *ctx, enum vr_phase phase, uint32_t n_tokens, size_t n_devices,
                 struct vr_proof *p, struct vr_err *err)
{
    uint32_t n_seq = llama_n_seq_max(ctx);
    vr_work_begin();
    struct ggml_cgraph *g = vr_bridge_reserve(ctx, n_tokens, n_seq, n_seq, err);
    return g && vr_work_end(g, phase, n_devices, &p->works, err);
}

/* Architectures whose largest graph is the one for a single sequence. */
static bool one_seq_is_worst(const struct llama_model *model)
{
    char arch[64] = "";
    llama_model_meta_val_str(model, "general.architecture", arch, sizeof arch);
    return strcmp(arch, "kimi-linear") == 0 || strcmp(arch, "minimax-01") == 0;
}

/* The graphs that a real load reserves: a full micro-batch, and one token per sequence. */
static bool reserve_all(struct llama_context *ctx, const struct vr_trial *t, struct vr_proof *p, struct vr_err *err)
{
    uint32_t n_seq = llama_n_seq_max(ctx), n_tokens = llama_n_ubatch(ctx);
    uint32_t n_outputs = t->n_outputs ? t->n_outputs : llama_n_batch(ctx);
    if (n_tokens > llama_n_ctx(ctx)) n_tokens = llama_n_ctx(ctx);
    if (n_outputs > n_tokens) n_outputs = n_tokens;
    if (n_seq > 1 && one_seq_is_worst(llama_get_model(ctx)) && !vr_bridge_reserve(ctx, n_tokens, 1, n_outputs, err))
        return false;
    struct ggml_cgraph *g = vr_bridge_reserve(ctx, n_tokens, n_seq, n_outputs, err);
    if (!g) return false;
    for (int i = 0; i < ggml_graph_n_nodes(g) && !p->flash; i++)
        p->flash = ggml_graph_node(g, i)->op == GGML_OP_FLASH_ATTN_EXT;
    if (t->want_work ? !look(ctx, VR_DECODE, n_seq, t->n_devices, p, err)
                     : !vr_bridge_reserve(ctx, n_seq, n_seq, n_seq, err))
        return false;
    for (size_t i = 0; i < t->n_devices; i++) p->devices[i].compute_bytes = vr_vgpu_used(i).compute_bytes;
    if (t->n_devices) {
        struct vr_vgpu_use host = vr_vgpu_used(t->n_devices);
        p->host.compute_bytes = host.compute_bytes;
        p->output_bytes = host.other_bytes;
    }
    /* last, because a prompt with few outputs may run its last layer elsewhere, and need more there */
    return !t->want_work || look(ctx, VR_PREFILL, n_tokens, t->n_devices, p, err);
}

/* Pictures are not a context's business: weights and the graph of one picture, on one device. */
static bool measure_mmproj(const struct question *q, struct vr_proof *p, struct vr_err *err)
{
    const struct vr_trial *t = q->trial;
    const struct vr_prober *m = q->prober;
    struct vr_bridge_clip clip;
    double t0 = vr_now_fine_ms();
    llama_log_set(on_log, NULL);
    if (!vr_cpu_load_plain(err)) return false;
    if (t->n_devices && !vr_vgpu_register(t->devices, t->n_devices, VR_VGPU_SIZING, err)) return false;
    enum llama_flash_attn_type flash = t->flash_auto           ? LLAMA_FLASH_ATTN_TYPE_AUTO
                                       : t->context.flash_attn ? LLAMA_FLASH_ATTN_TYPE_ENABLED
                                                               : LLAMA_FLASH_ATTN_TYPE_DISABLED;
    if (!vr_bridge_clip_reserve(m->path, t->n_devices ? vr_vgpu_device(0) : NULL, flash, &clip, err)) return false;
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
    p->load_ms = vr_now_fine_ms() - t0;
    return true;
}

static bool measure(const struct question *q, struct vr_proof *p, struct vr_err *err)
{
    if (q->prober->mmproj) return measure_mmproj(q, p, err);
    struct setup s = { 0 };
    char path[4096];
    if (!prepare(q, &s, path, sizeof path, err)) return false;
    double t0 = vr_now_fine_ms();
    struct llama_model *model = llama_model_load_from_file(path, s.model);
    if (!model) return vr_fail(err, VR_EENGINE, "the engine cannot load this model");
    double t1 = vr_now_fine_ms();
    struct llama_context *ctx = llama_init_from_model(model, s.context);
    if (!ctx) return vr_fail(err, VR_EENGINE, "the engine cannot create a context with these settings");
    double t2 = vr_now_fine_ms();
    p->n_devices = q->trial->n_devices;
    p->n_ctx = llama_n_ctx(ctx);
    p->n_copies = (uint32_t)ggml_backend_sched_get_n_copies(vr_bridge_sched(ctx));
    p->pipeline = p->n_copies > 1;
    if (!read_breakdown(ctx, p->n_devices, p, err) || !reserve_all(ctx, q->trial, p, err)) return false;
    p->load_ms = t1 - t0;
    p->context_ms = t2 - t1;
    p->reserve_ms = vr_now_fine_ms() - t2;
    return true;
}

/* The engine may print; its output must not mix with ours. */
static int take_stdout(void)
{
    int fd = dup(1);
    return fd >= 0 && dup2(2, 1) >= 0 ? fd : -1;
}

static int probe_main(void *ctx)
{
    struct question *q = ctx;
    static struct answer a = { .magic = MAGIC };
    q->out = take_stdout();
    clean_environment();
    a.ok = measure(q, &a.proof, &a.err);
    const struct vr_works *w = &a.proof.works;
    bool sent = vr_fd_write(q->out, &a, sizeof a) &&
                (!w->n_rows || vr_fd_write(q->out, w->rows, w->n_rows * sizeof *w->rows)) &&
                (!w->n_transfers || vr_fd_write(q->out, w->transfers, w->n_transfers * sizeof *w->transfers));
    return sent ? 0 : 1; /* nothing is freed: the process ends here */
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
    char path[4096];
    size_t max = llama_max_tensor_buft_overrides(), margins[128] = { 0 };
    if (!prepare(q, &s, path, sizeof path, err)) return false;
    /* it changes only what has its default value */
    struct llama_model_params fresh = llama_model_default_params();
    fresh.devices = s.model.devices;
    fresh.use_extra_bufts = false;
    struct llama_model_tensor_buft_override *overrides = calloc(max, sizeof *overrides);
    *list = calloc(max, sizeof **list);
    if (!overrides || !*list) return vr_fail_nomem(err, "running llama.cpp's fit");
    memset(s.split, 0, sizeof s.split);
    for (size_t i = 0; i < q->trial->n_devices; i++) margins[i] = q->margins ? q->margins[i] : (size_t)1 << 30;
    double t0 = vr_now_fine_ms();
    int status = vr_bridge_fit(path, &fresh, &s.context, s.split, overrides, margins, 4096, err);
    if (status < 0) return false;
    f->ms = vr_now_fine_ms() - t0;
    f->fits = status == 0;
    f->n_gpu_layers = fresh.n_gpu_layers;
    f->n_ctx = s.context.n_ctx;
    f->dry_runs = (uint32_t)vr_vgpu_contexts(0);
    memcpy(f->split, s.split, sizeof f->split);
    for (size_t i = 0; i < max && fresh.tensor_buft_overrides && overrides[i].pattern; i++) {
        struct fitted_override *o = &(*list)[f->n_overrides++];
        snprintf(o->pattern, sizeof o->pattern, "%s", overrides[i].pattern);
        o->device = device_of(overrides[i].buft, q->trial->n_devices);
    }
    return true;
}

static int fit_main(void *ctx)
{
    struct question *q = ctx;
    static struct answer a = { .magic = MAGIC };
    struct fitted_override *list = NULL;
    q->out = take_stdout();
    clean_environment();
    a.ok = fit(q, &a.fitted, &list, &a.err);
    size_t n = a.fitted.n_overrides;
    return vr_fd_write(q->out, &a, sizeof a) && (!n || vr_fd_write(q->out, list, n * sizeof *list)) ? 0 : 1;
}

/* --- in the parent --- */

/* The last line the engine wrote, without the name of the function that wrote it. */
static const char *last_words(struct vr_buf *text, char *out, size_t n)
{
    char *s = text->data;
    size_t len = text->n;
    while (len && (s[len - 1] == '\n' || s[len - 1] == '\r' || s[len - 1] == ' ')) len--;
    size_t begin = len;
    while (begin && s[begin - 1] != '\n') begin--;
    if (len == begin) return "";
    const char *line = s + begin, *colon = memchr(line, ':', len - begin);
    size_t skip = 0;
    if (colon && strncmp(line, "llama_", 6) == 0 && memchr(line, ' ', (size_t)(colon - line)) == NULL)
        skip = (size_t)(colon - line) + 1 + (colon[1] == ' ');
    snprintf(out, n, "; last message: %.*s", (int)(len - begin - skip), line + skip);
    return out;
}

/* Runs the child and checks its answer; what follows the answer is at *rest. */
static bool ask(const struct vr_prober *p, const struct vr_trial *t, struct question *q, int (*fn)(void *),
                struct vr_child_end *end, struct answer *a, struct vr_err *err)
{
    struct vr_child c = { .main = fn, .ctx = q, .timeout_ms = t->timeout_ms, .pass_fds = { p->fd } };
    char words[512], how[128];
    if (!vr_child_run(&c, end, err)) return vr_fail_more(err, " (for a dry run of %s)", p->name);
    bool whole = end->exit_status == 0 && !end->timed_out && end->out.n >= sizeof *a;
    if (whole) memcpy(a, end->out.data, sizeof *a);
    if (!whole || a->magic != MAGIC)
        return vr_fail(err, VR_EENGINE, "%s: the engine's dry run failed (%s)%s", p->name,
                       vr_child_how(&c, end, how, sizeof how), last_words(&end->err, words, sizeof words));
    if (!a->ok)
        return vr_fail(err, a->err.code, "%s: %s%s", p->name, a->err.msg, last_words(&end->err, words, sizeof words));
    return true;
}

/* A copy of n bytes of the answer at *at, which moves on. NULL when it is shorter than it says. */
static void *rest(const struct vr_child_end *end, size_t *at, size_t n)
{
    if (n == 0 || n > end->out.n - *at) return NULL;
    void *p = malloc(n);
    if (p) memcpy(p, end->out.data + *at, n);
    *at += n;
    return p;
}

bool vr_probe(const struct vr_prober *p, const struct vr_trial *trial, struct vr_proof *out, struct vr_err *err)
{
    struct question q = { p, trial, NULL, -1 };
    VR_AUTO_FREE struct answer *a = calloc(1, sizeof *a);
    VR_AUTO_CHILD_END end = { 0 };
    if (!a) return vr_fail_nomem(err, "starting a dry run");
    if (!ask(p, trial, &q, probe_main, &end, a, err)) return false;
    size_t at = sizeof *a;
    struct vr_works *w = &a->proof.works;
    w->rows = rest(&end, &at, w->n_rows * sizeof *w->rows);
    w->transfers = rest(&end, &at, w->n_transfers * sizeof *w->transfers);
    *out = a->proof;
    out->ms = end.ms;
    if ((!w->rows && w->n_rows) || (!w->transfers && w->n_transfers)) {
        out->works.n_rows = out->works.n_transfers = 0;
        vr_proof_done(out);
        return vr_fail(err, VR_EENGINE, "%s: the engine's dry run sent an incomplete result", p->name);
    }
    return true;
}

bool vr_probe_fit(const struct vr_prober *p, const struct vr_trial *trial, const uint64_t *margin_bytes,
                  struct vr_fitted *out, struct vr_err *err)
{
    struct question q = { p, trial, margin_bytes, -1 };
    VR_AUTO_FREE struct answer *a = calloc(1, sizeof *a);
    VR_AUTO_CHILD_END end = { 0 };
    if (!a) return vr_fail_nomem(err, "running llama.cpp's fit");
    if (trial->n_devices == 0) return vr_fail(err, VR_EUSAGE, "%s: no device to fit it to", p->name);
    if (!ask(p, trial, &q, fit_main, &end, a, err)) return false;
    size_t at = sizeof *a, n = a->fitted.n_overrides;
    VR_AUTO_FREE struct fitted_override *list = rest(&end, &at, n * sizeof *list);
    if (n && !list) return vr_fail(err, VR_EENGINE, "%s: llama.cpp's fit sent an incomplete result", p->name);
    *out = a->fitted;
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
