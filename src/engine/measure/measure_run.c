/* Whole models: loaded as `serve` loads them, timed as its batches run. Tokens are noise; none is sampled, because what
 * sampling costs is not the machine's. */
#include <math.h>
#include <string.h>

#include <ggml-backend-impl.h>
#include <ggml.h>
#include <gguf.h>

#include "base/clock.h"
#include "base/rank.h"
#include "engine/llama/bridge.h"
#include "engine/llama/cpu.h"
#include "engine/llama/held.h"
#include "engine/llama/lastlog.h"
#include "engine/process/loader.h"
#include "engine/measure/measure_stage.h"
#include "hw/detect.h"

/* --- a model that computes next to nothing --- */

enum { EMBD = 256, HEADS = 4, HEAD = 64, FF = 256, VOCAB = 512, EXPERTS = 8, USED = 2 };

struct maker {
    struct ggml_context *ctx;
    struct gguf_context *gguf;
    uint32_t seed;
};

static void add_tensor(struct maker *m, const char *name, enum ggml_type type, int64_t a, int64_t b, int64_t c)
{
    struct ggml_tensor *t = ggml_new_tensor_3d(m->ctx, type, a, b, c);
    float row[FF > EMBD ? FF : EMBD];
    ggml_set_name(t, name);
    for (int64_t r = 0; r < b * c; r++) {
        for (int64_t i = 0; i < a; i++) row[i] = (float)(vr_noise(&m->seed) >> 8) / (float)(1 << 24) - 0.5f;
        ggml_quantize_chunk(type, row, (char *)t->data + (size_t)r * ggml_row_size(type, a), 0, 1, a, NULL);
    }
    gguf_add_tensor(m->gguf, t);
}

static void add_layer(struct maker *m, uint32_t il, enum ggml_type type, bool experts)
{
    const struct {
        const char *name;
        enum ggml_type type;
        int64_t a, b, c;
        bool want;
    } rows[] = {
        { "attn_norm", GGML_TYPE_F32, EMBD, 1, 1, true },
        { "attn_q", type, EMBD, EMBD, 1, true },
        { "attn_k", type, EMBD, EMBD, 1, true },
        { "attn_v", type, EMBD, EMBD, 1, true },
        { "attn_output", type, EMBD, EMBD, 1, true },
        { "ffn_norm", GGML_TYPE_F32, EMBD, 1, 1, true },
        { "ffn_gate", type, EMBD, FF, 1, !experts },
        { "ffn_up", type, EMBD, FF, 1, !experts },
        { "ffn_down", type, FF, EMBD, 1, !experts },
        { "ffn_gate_inp", GGML_TYPE_F32, EMBD, EXPERTS, 1, experts },
        { "ffn_gate_exps", type, EMBD, FF, EXPERTS, experts },
        { "ffn_up_exps", type, EMBD, FF, EXPERTS, experts },
        { "ffn_down_exps", type, FF, EMBD, EXPERTS, experts },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%u.%s.weight", il, rows[i].name);
        if (rows[i].want) add_tensor(m, name, rows[i].type, rows[i].a, rows[i].b, rows[i].c);
    }
}

static void add_settings(struct gguf_context *g, const struct vr_measure_tiny *t)
{
    gguf_set_val_str(g, "general.architecture", "llama");
    gguf_set_val_str(g, "general.name", "a model that computes next to nothing");
    gguf_set_val_str(g, "tokenizer.ggml.model", "no_vocab");
    const struct {
        const char *key;
        uint32_t value;
    } rows[] = { { "llama.block_count", t->n_layers },    { "llama.context_length", 4096 },
                 { "llama.embedding_length", EMBD },      { "llama.feed_forward_length", FF },
                 { "llama.attention.head_count", HEADS }, { "llama.attention.head_count_kv", HEADS },
                 { "llama.rope.dimension_count", HEAD },  { "llama.vocab_size", VOCAB } };
    for (size_t i = 0; i < VR_COUNT(rows); i++) gguf_set_val_u32(g, rows[i].key, rows[i].value);
    gguf_set_val_f32(g, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    if (!t->experts) return;
    gguf_set_val_u32(g, "llama.expert_count", EXPERTS);
    gguf_set_val_u32(g, "llama.expert_used_count", USED);
}

struct make_ask {
    const char *path;
    const struct vr_measure_tiny *t;
};

static bool make_child(void *ctx, struct vr_buf *result, struct vr_err *err)
{
    (void)result; /* is the file */
    const struct make_ask *a = ctx;
    enum ggml_type type = a->t->floats ? GGML_TYPE_F16 : GGML_TYPE_Q8_0;
    size_t layer = (size_t)(4 * EMBD * EMBD + 3 * EMBD * FF * (a->t->experts ? EXPERTS : 1)) * 2 + (1 << 16);
    struct maker m = { .ctx = ggml_init((struct ggml_init_params){ layer * a->t->n_layers + (8 << 20), NULL, false }),
                       .gguf = gguf_init_empty(),
                       .seed = 1 };
    if (!m.ctx || !m.gguf) return vr_fail_nomem(err, "making a model to measure with");
    add_settings(m.gguf, a->t);
    add_tensor(&m, "token_embd.weight", type, EMBD, VOCAB, 1);
    for (uint32_t il = 0; il < a->t->n_layers; il++) add_layer(&m, il, type, a->t->experts);
    add_tensor(&m, "output_norm.weight", GGML_TYPE_F32, EMBD, 1, 1);
    add_tensor(&m, "output.weight", type, EMBD, VOCAB, 1);
    return gguf_write_to_file(m.gguf, a->path, false) || vr_fail(err, VR_EIO, "%s: cannot write the file", a->path);
}

bool vr_measure_make(const char *path, const struct vr_measure_tiny *t, struct vr_err *err)
{
    struct make_ask a = { .path = path, .t = t };
    return vr_measure_ask(make_child, &a, NULL, 20000, NULL, 0, err);
}

/* --- a run --- */

#define WARM_TOKENS  6
#define LEAST_TOKENS 8
#define MOST_TOKENS  4096 /* of which the times are kept */
#define MOST_PROMPTS 32   /* short ones; fewer when they are slow */
#define PROMPTS_MS   400.0
#define LAST_BATCHES 3 /* of a long prompt: the context hardly grows meanwhile */
#define WAKE_MS      500.0

struct run_ask {
    const struct vr_load_params *load;
    const char *env;
    size_t n_env;
    uint32_t n_decode;
    double seconds;
    struct vr_measure_run out;
};

/* What is in use on each device, by the driver's own count. Devices of the engine have the order of the visible ones.
 */
static void read_use(size_t which, struct vr_measure_run *out)
{
    static struct vr_machine m;
    struct vr_err none;
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (!vr_machine_detect(&(struct vr_detect){ .shown = "" }, &m, &none)) return; /* each card once */
    for (size_t i = 0; i < m.n_devices; i++) {
        const struct vr_device *d = &m.devices[i];
        const char *at = visible && d->uuid[0] ? strstr(visible, d->uuid) : NULL;
        if (!at) continue;
        size_t k = 0;
        for (const char *c = visible; c < at; c++) k += *c == ',';
        if (k >= VR_MEASURE_DEVICES) continue;
        uint64_t used = d->total_bytes - d->free_bytes;
        if (which == 0) out->devices[k].before_bytes = used;
        if (which == 1) out->devices[k].loaded_bytes = used;
        if (which == 2) out->devices[k].after_bytes = used;
    }
}

static bool decode(struct vr_engine *e, struct llama_batch *b, uint32_t n, uint32_t at, struct vr_err *err)
{
    static uint32_t seed = 9;
    for (uint32_t i = 0; i < n; i++) {
        b->token[i] = (llama_token)((vr_noise(&seed) >> 8) % (e->n_vocab ? e->n_vocab : 1));
        b->pos[i] = (llama_pos)(at + i);
        b->n_seq_id[i] = 1;
        b->seq_id[i][0] = 0;
        b->logits[i] = i + 1 == n;
    }
    b->n_tokens = (int32_t)n;
    int rc = vr_bridge_decode(e->ctx, *b, err);
    if (rc != 0) return vr_fail(err, VR_EENGINE, "the engine could not compute a batch (%d)", rc);
    return true;
}

static bool one_token(struct vr_engine *e, struct llama_batch *b, uint32_t at, struct vr_err *err)
{
    if (!decode(e, b, 1, at, err)) return false;
    llama_get_logits_ith(e->ctx, 0); /* waits, as sampling does */
    return true;
}

/* Times n single tokens from position `at` on: the middle one, since what else the computer does delays some. *fill:
 * the tokens in the context then. */
static bool time_tokens(struct vr_engine *e, struct llama_batch *b, uint32_t n, double seconds, uint32_t at, double *ms,
                        uint32_t *fill, struct vr_err *err)
{
    for (int i = 0; i < WARM_TOKENS; i++) /* graphs are recorded */
        if (!one_token(e, b, at++, err)) return false;
    static double took[MOST_TOKENS];
    double t0 = vr_now_fine_ms(), last = t0;
    uint32_t i = 0;
    while (i < n && (i < LEAST_TOKENS || last - t0 < seconds * 1e3)) { /* where they are slow, fewer tell enough */
        if (!one_token(e, b, at + i, err)) return false;
        double now = vr_now_fine_ms();
        took[i++ % MOST_TOKENS] = now - last;
        last = now;
    }
    *fill = at + i / 2;
    if (i > MOST_TOKENS) i = MOST_TOKENS;
    *ms = vr_rank(took, i, 0.5);
    return true;
}

/* Tokens in the context with the middle micro-batch of the batch that ends at `at`. */
static uint32_t middle_fill(const struct vr_engine *e, uint32_t at)
{
    uint32_t batch = at < e->n_batch ? at : e->n_batch;
    return batch > e->n_ubatch ? at - (batch - e->n_ubatch) / 2 : at;
}

/* Reads prompt from *at up to `until` or until the time is up; *ms: what a micro-batch takes, the middle of the last
 * full batches, no more than `last`; *fill: the tokens in the context then. A batch may hold several micro-batches,
 * which is where devices overlap. */
static bool read_prompt(struct vr_engine *e, struct llama_batch *b, uint32_t *at, uint32_t until, double seconds,
                        uint32_t last, double *ms, uint32_t *fill, struct vr_err *err)
{
    double t0 = vr_now_fine_ms(), took[LAST_BATCHES], some[LAST_BATCHES];
    uint32_t step = e->n_batch, n_full = 0, end = 0;
    while (*at < until) {
        uint32_t n = until - *at < step ? until - *at : step;
        double t = vr_now_fine_ms();
        if (!decode(e, b, n, *at, err)) return false;
        llama_synchronize(e->ctx);
        *at += n;
        if (n == step || n_full == 0) {
            took[n_full++ % LAST_BATCHES] = (vr_now_fine_ms() - t) / ((double)n / e->n_ubatch);
            end = *at;
        }
        if (vr_now_fine_ms() - t0 > seconds * 1e3) break;
    }
    if (last > n_full) last = n_full;
    for (uint32_t i = 0; i < last; i++) some[i] = took[(n_full - 1 - i) % LAST_BATCHES];
    *ms = last ? vr_rank(some, last, 0.5) : 0;
    *fill = middle_fill(e, last ? end - (last - 1) / 2 * step : *at);
    return true;
}

/* An idle device has slow clocks: it works for a while before anything counts. And a prompt touches all weights, so
 * that every page of a mapped file is there. */
static bool wake(struct vr_engine *e, struct llama_batch *b, uint32_t prompt, double seconds, struct vr_err *err)
{
    uint32_t at = 0, fill;
    double t0 = vr_now_fine_ms(), ms;
    if (!read_prompt(e, b, &at, prompt, seconds, 1, &ms, &fill, err)) return false;
    llama_memory_clear(e->memory, false);
    for (at = 0; vr_now_fine_ms() - t0 < fmin(WAKE_MS, seconds * WAKE_MS); at++) {
        if (at + 1 >= e->n_ctx_seq || at >= 200) { /* within the first cells of the cache */
            llama_memory_clear(e->memory, false);
            at = 0;
        }
        if (!one_token(e, b, at, err)) return false;
    }
    llama_memory_clear(e->memory, false);
    return true;
}

/* A short prompt again and again: the middle one, once pools have grown and kernels are loaded. */
static bool time_prompt(struct vr_engine *e, struct llama_batch *b, uint32_t *at, uint32_t until, double seconds,
                        double *ms, uint32_t *fill, struct vr_err *err)
{
    double took[MOST_PROMPTS], unused, t0 = 0;
    size_t n = 0;
    for (int i = -1; i < MOST_PROMPTS && (i < 1 || vr_now_fine_ms() - t0 < fmin(PROMPTS_MS, seconds * PROMPTS_MS));
         i++) {
        llama_memory_clear(e->memory, false);
        *at = 0;
        if (i == 0) t0 = vr_now_fine_ms();
        if (!read_prompt(e, b, at, until, seconds, 1, i < 0 ? &unused : &took[n++], fill, err)) return false;
    }
    *ms = vr_rank(took, n, 0.5);
    return true;
}

static bool time_all(struct run_ask *a, struct vr_engine *e, struct vr_err *err)
{
    struct vr_measure_run *out = &a->out;
    uint32_t room = e->n_ctx_seq, at = 0, n = a->n_decode;
    struct llama_batch b = llama_batch_init((int32_t)e->n_batch, 0, 1);
    out->n_ubatch = e->n_ubatch;
    if (room < 2 * n + 4 * WARM_TOKENS) n = room > 8 * WARM_TOKENS ? (room - 4 * WARM_TOKENS) / 2 : 1;
    uint32_t some = e->n_batch * 2 <= room ? e->n_batch * 2 : e->n_batch; /* two, so that no graph is used again */
    if (some > room) some = room;
    if (!wake(e, &b, some, a->seconds, err) ||
        !time_tokens(e, &b, n, a->seconds, 0, &out->decode_ms[0], &out->decode_fill[0], err))
        return false;
    if (!time_prompt(e, &b, &at, some, a->seconds, &out->prefill_ms[0], &out->prefill_fill[0], err)) return false;
    uint32_t until = room > n + 2 * WARM_TOKENS ? room - n - 2 * WARM_TOKENS : 1;
    if (at > until) llama_memory_clear(e->memory, false), at = 0; /* a small context: room for the tokens */
    if (at < until &&
        !read_prompt(e, &b, &at, until, a->seconds, LAST_BATCHES, &out->prefill_ms[1], &out->prefill_fill[1], err))
        return false;
    if (at + n + WARM_TOKENS <= room &&
        !time_tokens(e, &b, n, a->seconds, at, &out->decode_ms[1], &out->decode_fill[1], err))
        return false;
    llama_batch_free(b);
    return true;
}

/* Split mode tensor: the engine tells of one device, whose compute buffer is as large on each. */
static void read_held(uint64_t compute_bytes, struct vr_measure_run *out)
{
    for (size_t i = 0; i < vr_held_count() && i < VR_MEASURE_DEVICES; i++) {
        struct vr_held h = vr_held_on(i);
        snprintf(out->devices[i].name, sizeof out->devices[i].name, "%s", ggml_backend_dev_name(h.device));
        out->devices[i].model_bytes = h.model_bytes;
        out->devices[i].context_bytes = h.context_bytes;
        out->devices[i].compute_bytes = compute_bytes;
        out->n_devices = i + 1;
    }
}

static void read_own_figures(const struct vr_engine *e, struct vr_measure_run *out)
{
    struct vr_bridge_use uses[64];
    struct vr_err none;
    int n = vr_bridge_breakdown(e->ctx, uses, (int)VR_COUNT(uses), &none);
    for (int i = 0; i < n && i < (int)VR_COUNT(uses); i++) {
        ggml_backend_dev_t dev = ggml_backend_buft_get_device(uses[i].buft);
        if (ggml_backend_buft_is_host(uses[i].buft) || !dev ||
            ggml_backend_dev_type(dev) == GGML_BACKEND_DEVICE_TYPE_CPU)
            continue;
        if (ggml_backend_buft_is_meta(uses[i].buft)) {
            read_held(uses[i].compute_bytes, out);
            continue;
        }
        const char *name = ggml_backend_buft_name(uses[i].buft);
        size_t k = 0;
        while (name[k] && (name[k] < '0' || name[k] > '9')) k++;
        size_t at = (size_t)atoi(name + k);
        if (at >= VR_MEASURE_DEVICES) continue;
        snprintf(out->devices[at].name, sizeof out->devices[at].name, "%s", name);
        out->devices[at].model_bytes = uses[i].model_bytes;
        out->devices[at].context_bytes = uses[i].context_bytes;
        out->devices[at].compute_bytes = uses[i].compute_bytes;
        if (at >= out->n_devices) out->n_devices = at + 1;
    }
}

static bool run_child(void *ctx, struct vr_buf *result, struct vr_err *err)
{
    struct run_ask *a = ctx;
    for (size_t at = 0; at < a->n_env; at += strlen(a->env + at) + 1) putenv((char *)(uintptr_t)(a->env + at));
    read_use(0, &a->out);
    vr_lastlog_start();
    struct vr_engine engine;
    struct vr_failure why = { 0 };
    const struct vr_load_hooks hooks = { 0 };
    double t0 = vr_now_fine_ms();
    if (!vr_engine_load_params(a->load, &hooks, &engine, &why)) return vr_fail(err, VR_EENGINE, "%s", why.message);
    a->out.load_ms = vr_now_fine_ms() - t0;
    read_own_figures(&engine, &a->out);
    read_use(1, &a->out);
    if (!time_all(a, &engine, err)) return false;
    read_use(2, &a->out);
    vr_buf_add(result, &a->out, sizeof a->out);
    return true;
}

bool vr_measure_run(const struct vr_load_params *load, const char *env, size_t n_env, uint32_t n_decode, double seconds,
                    int timeout_ms, struct vr_measure_run *out, struct vr_err *err)
{
    char cpu[1024];
    struct vr_load_params p = *load;
    if (strcmp(p.cpu, "auto") == 0) { /* here: proving a variant forks, which a confined process may not */
        if (!vr_cpu_choose(cpu, sizeof cpu, err)) return false;
        p.cpu = cpu;
    }
    struct run_ask a = { .load = &p, .env = env, .n_env = n_env, .n_decode = n_decode, .seconds = seconds };
    const struct vr_engine_needs needs = vr_engine_needs_of(&p);
    return vr_measure_ask(run_child, &a, &needs, timeout_ms, out, sizeof *out, err);
}
