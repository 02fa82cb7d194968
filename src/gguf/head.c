/* What the engine would abort at, or believe, is refused here: it asserts most of this while it computes. */
#include "gguf/head.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "gguf/cursor.h"
#include "gguf/type.h"

#define EAGLE3_TAPS 3

static const char *path_of(const struct vr_model *m) { return m->parts[0].path; }

size_t vr_head_taps(const struct vr_model *head, uint32_t out[VR_MOST_TAPS])
{
    char key[96];
    snprintf(key, sizeof key, "%.64s.target_layers", head->arch);
    const struct vr_meta *e = vr_model_meta(head, key);
    if (!e || e->type != VR_V_ARRAY || !e->i64 || e->n > VR_MOST_TAPS) return 0;
    for (size_t i = 0; i < e->n; i++)
        out[i] = e->i64[i] < 0 || e->i64[i] > INT32_MAX ? UINT32_MAX : (uint32_t)e->i64[i];
    return (size_t)e->n;
}

static bool is_dflash(const struct vr_model *head) { return strcmp(head->arch, "dflash") == 0; }

bool vr_head_shares_cache(const struct vr_model *head) { return strcmp(head->arch, "gemma4-assistant") == 0; }

/* DFlash's own token embeddings are its output, too. */
bool vr_head_shares_output(const struct vr_model *head)
{
    bool tied = vr_head_shares_cache(head) || (is_dflash(head) && vr_model_tensor(head, "token_embd.weight"));
    return !tied && !vr_model_tensor(head, "output.weight");
}

uint32_t vr_head_block(const struct vr_model *head)
{
    uint64_t block = is_dflash(head) ? vr_model_u64(head, ".block_size", 0, 16) : 0;
    bool anchor = vr_model_tensor(head, "markov_w1.weight") && vr_model_u64(head, ".sample_from_anchor", 0, 1);
    if (block && !anchor) block--; /* the first one is known */
    return (uint32_t)(block > 64 ? 64 : block);
}

bool vr_head_shares_input(const struct vr_model *head)
{
    return vr_head_shares_cache(head) || vr_model_tensor(head, "token_embd.weight") == NULL;
}

/* Those of llama.cpp v0.5.0 whose graphs give out what a layer is given (src/models: t_layer_inp), as wide as their
 * embeddings (qwen4exp's is wider, and the engine aborts). */
static bool gives_layers(const char *arch)
{
    static const char *const archs[] = { "bailingmoe3", "deepseek4",    "gemma4",    "gpt-oss",    "hunyuan-dense",
                                         "hunyuan_vl",  "lfm2",         "lfm2moe",   "llama",      "minimax-01",
                                         "minimax-m2",  "muse-glimmer", "nanbeige",  "nemotron_h", "nemotron_h_moe",
                                         "qwen3",       "qwen35",       "qwen35moe", "qwen3moe",   "qwen3next" };
    for (size_t i = 0; i < VR_COUNT(archs); i++)
        if (strcmp(arch, archs[i]) == 0) return true;
    return false;
}

static bool check_taps(const struct vr_model *m, const struct vr_model *head, struct vr_err *err)
{
    uint32_t taps[VR_MOST_TAPS], n_layers = m->n_layers - m->n_layers_mtp;
    size_t n = vr_head_taps(head, taps);
    if (is_dflash(head) && n == 0)
        return vr_fail(err, VR_EUSAGE,
                       "%s: a DFlash head names the layers that it reads (dflash.target_layers), %d at most",
                       path_of(head), VR_MOST_TAPS);
    if (!is_dflash(head) && n != EAGLE3_TAPS)
        return vr_fail(err, VR_EUSAGE, "%s: an EAGLE-3 head names three layers that it reads (eagle3.target_layers)",
                       path_of(head));
    for (size_t i = 0; i < n; i++)
        if (taps[i] >= n_layers)
            return vr_fail(err, VR_EUSAGE,
                           "%s is a head of another model: it reads layer %" PRIu32 ", and %s has %" PRIu32,
                           path_of(head), taps[i], m->name, n_layers);
    return true;
}

/* A head of keys and one of values, of layers with a window or without one. */
static void head_widths(const struct vr_model *m, bool window, uint64_t out[2])
{
    uint64_t each = m->layers[0].n_head ? m->n_embd / m->layers[0].n_head : 0;
    uint64_t k = vr_model_u64(m, ".attention.key_length", 0, each),
             v = vr_model_u64(m, ".attention.value_length", 0, each);
    out[0] = window ? vr_model_u64(m, ".attention.key_length_swa", 0, k) : k;
    out[1] = window ? vr_model_u64(m, ".attention.value_length_swa", 0, v) : v;
}

/* What it shares has the model's width. */
static bool check_shared(const struct vr_model *m, const struct vr_model *head, struct vr_err *err)
{
    bool input = vr_head_shares_input(head), output = vr_head_shares_output(head);
    if ((input || output) && head->n_embd != m->n_embd)
        return vr_fail(err, VR_EUSAGE,
                       "%s has no %s of its own and cannot use %s of %s, which %s %" PRIu32
                       " dimensions instead of %" PRIu32,
                       path_of(head), input ? "token embeddings" : "output matrix", input ? "those" : "that", m->name,
                       input ? "have" : "has", m->n_embd, head->n_embd);
    if (output && vr_model_tensor(head, "d2t"))
        return vr_fail(err, VR_EUSAGE, "%s knows some tokens (d2t), and has no output matrix for them: it is corrupt",
                       path_of(head));
    const struct vr_tensor *own = vr_model_tensor(head, "token_embd.weight");
    if (!own || own->ne[1] >= m->n_vocab) return true;
    return vr_fail(err, VR_EUSAGE,
                   "%s has embeddings of %" PRIu64 " tokens, and %s has %" PRIu32
                   ": the file is corrupt, or a head of another model",
                   path_of(head), own->ne[1], m->name, m->n_vocab);
}

static bool check_widths(const struct vr_model *m, const struct vr_model *head, struct vr_err *err)
{
    uint64_t hidden = is_dflash(head) ? head->n_embd : vr_model_u64(head, ".target_hidden_size", 0, 0);
    if (hidden != m->n_embd)
        return vr_fail(err, VR_EUSAGE,
                       "%s is a head of another model: it reads hidden states of %" PRIu64
                       " dimensions, those of %s have %" PRIu32,
                       path_of(head), hidden, m->name, m->n_embd);
    if (!is_dflash(head) && head->n_layers != 1)
        return vr_fail(err, VR_EUSAGE, "%s: an EAGLE-3 head has one layer, this one has %" PRIu32, path_of(head),
                       head->n_layers);
    return check_shared(m, head, err);
}

/* What a DFlash head is asked with: a block of which all tokens but the first are masked. */
static bool check_block(const struct vr_model *m, const struct vr_model *head, struct vr_err *err)
{
    uint64_t mask = vr_model_u64(head, "tokenizer.ggml.mask_token_id", 0, UINT64_MAX), widths[2];
    head_widths(head, false, widths);
    if (vr_model_u64(head, ".hyper_connection.count", 0, 0))
        return vr_fail(err, VR_EUSAGE, "%s has DeepSeek-V4's layers: heads of that kind are not supported",
                       path_of(head));
    if (mask >= m->n_vocab)
        return vr_fail(err, VR_EUSAGE,
                       "%s: a DFlash head names its mask (tokenizer.ggml.mask_token_id), a token of the model",
                       path_of(head));
    if (vr_model_tensor(head, "markov_w1.weight") && !vr_model_meta(head, "dflash.block_size"))
        return vr_fail(err, VR_EUSAGE, "%s: a DSpark head says how long its blocks are (dflash.block_size)",
                       path_of(head));
    if (vr_head_block(head) == 0)
        return vr_fail(err, VR_EUSAGE, "%s: its blocks have no token to guess (dflash.block_size)", path_of(head));
    if (widths[0] != widths[1])
        return vr_fail(err, VR_EUSAGE, "%s: keys and values differ in width: the engine cannot use it", path_of(head));
    return true;
}

/* --- which tokens it knows --- */

static bool read_map(const struct vr_model *m, const struct vr_model *head, const struct vr_tensor *t,
                     struct vr_cursor *c, struct vr_err *err)
{
    if (!vr_cursor_skip(c, t->offset, err)) return false;
    for (uint64_t i = 0; i < t->ne[0]; i++) {
        uint64_t token;
        if (!vr_cursor_u64(c, &token, err)) return false;
        if (token >= m->n_vocab)
            return vr_fail(err, VR_EUSAGE,
                           "%s: its token %" PRIu64 " stands for token %" PRIu64 " of the model (d2t), and %s has "
                           "%" PRIu32 ": the file is corrupt, or a head of another model",
                           path_of(head), i, token, m->name, m->n_vocab);
    }
    return true;
}

static bool check_map(const struct vr_model *m, const struct vr_model *head, struct vr_err *err)
{
    const struct vr_tensor *t = vr_model_tensor(head, "d2t"), *out = vr_model_tensor(head, "output.weight");
    if (!t) return true;
    if (strcmp(vr_type(t->type)->name, "i64") != 0 || t->n_dims != 1 || !out || t->ne[0] != out->ne[1])
        return vr_fail(err, VR_EUSAGE, "%s: 'd2t' must be a 64-bit number for each row of 'output.weight'",
                       path_of(head));
    uint8_t window[VR_CURSOR_WINDOW];
    const struct vr_part *part = &head->parts[t->part];
    struct vr_cursor c = { .fd = open(part->path, O_RDONLY | O_CLOEXEC),
                           .path = part->path,
                           .size = part->file_bytes,
                           .window = window,
                           .what = "the tensor",
                           .which = t->name };
    if (c.fd < 0) return vr_fail(err, VR_EIO, "%s: %s", part->path, strerror(errno));
    bool ok = read_map(m, head, t, &c, err);
    close(c.fd);
    return ok;
}

static bool check_reads_layers(const struct vr_model *m, const struct vr_model *head, struct vr_err *err)
{
    if (!gives_layers(m->arch))
        return vr_fail(err, VR_EUSAGE, "%s: the engine does not give out the layers of '%s' models to draft heads",
                       path_of(head), m->arch);
    return check_taps(m, head, err) && check_widths(m, head, err) && check_map(m, head, err) &&
           (!is_dflash(head) || check_block(m, head, err));
}

/* --- heads that read the model's cache --- */

static bool in_window(const struct vr_model *m, uint32_t layer)
{
    return vr_model_u64(m, ".attention.sliding_window_pattern", layer, 0) != 0;
}

/* As the engine does it (llama_model::create_memory): the last two layers, or those that these have theirs from. */
static void cache_layers(const struct vr_model *m, uint32_t out[2])
{
    uint64_t shared = vr_model_u64(m, ".attention.shared_kv_layers", 0, 0);
    uint32_t n = shared < m->n_layers ? m->n_layers - (uint32_t)shared : 0;
    out[0] = n < 2 ? 0 : n - 2;
    out[1] = n < 2 ? 0 : n - 1;
}

size_t vr_head_anchors(const struct vr_model *m, const struct vr_model *head, uint32_t out[VR_MOST_ANCHORS])
{
    if (vr_head_shares_cache(head)) return cache_layers(m, out), 2;
    out[0] = m->n_layers;
    return vr_head_shares_output(head) ? 1 : 0;
}

/* One of its layers against the layer of the model whose keys and values it reads. */
static bool check_reader(const struct vr_model *m, const struct vr_model *head, uint32_t layer, struct vr_err *err)
{
    const struct vr_layer *l = &head->layers[layer];
    uint32_t from[2];
    uint64_t ours[2], theirs[2];
    bool window = in_window(head, layer);
    cache_layers(m, from);
    uint32_t n_kv = m->layers[from[window ? 0 : 1]].n_head_kv;
    head_widths(head, window, ours);
    head_widths(m, window, theirs);
    bool same = ours[0] == theirs[0] && ours[1] == theirs[1] && l->n_head_kv == n_kv;
    if (same && n_kv && l->n_head && l->n_head % n_kv == 0) return true;
    return vr_fail(err, VR_EUSAGE,
                   "%s is a head of another model: its layer %" PRIu32 " reads keys of %" PRIu32 " heads with %" PRIu64
                   " dimensions, and %s keeps those of %" PRIu32 " with %" PRIu64,
                   path_of(head), layer, l->n_head_kv, ours[0], m->name, n_kv, theirs[0]);
}

/* The engine takes the last layer but one for one with a window, and the last for one without. */
static bool check_reads_cache(const struct vr_model *m, const struct vr_model *head, struct vr_err *err)
{
    uint32_t from[2];
    uint64_t hidden = vr_model_u64(head, ".embedding_length_out", 0, 0);
    cache_layers(m, from);
    if (strcmp(m->arch, "gemma4") != 0 || m->n_layers < 2 || !in_window(m, m->n_layers - 2) ||
        in_window(m, m->n_layers - 1) || from[0] == from[1] || !in_window(m, from[0]) || in_window(m, from[1]))
        return vr_fail(err, VR_EUSAGE, "%s is a Gemma 4 assistant, and %s is not a Gemma 4 model", path_of(head),
                       m->name);
    if (hidden != m->n_embd || hidden == head->n_embd)
        return vr_fail(err, VR_EUSAGE,
                       "%s is a head of another model: it reads hidden states of %" PRIu64
                       " dimensions, those of %s have %" PRIu32,
                       path_of(head), hidden, m->name, m->n_embd);
    if (head->n_layers_mtp != head->n_layers)
        return vr_fail(err, VR_EUSAGE,
                       "%s: all layers of a Gemma 4 assistant guess, of this one %" PRIu32 " of %" PRIu32,
                       path_of(head), head->n_layers_mtp, head->n_layers);
    for (uint32_t i = 0; i < head->n_layers; i++)
        if (!check_reader(m, head, i, err)) return false;
    return true;
}

bool vr_head_check(const struct vr_model *m, const struct vr_model *head, struct vr_err *err)
{
    return vr_head_shares_cache(head) ? check_reads_cache(m, head, err) : check_reads_layers(m, head, err);
}
