/* From a file's keys to the shape of its memory, by the engine's rules.
 *
 * Each static function answers one question that llama.cpp answers while it loads hyper-parameters (load_hparams,
 * load_arch_hparams) or makes the memory module (create_memory), in the same order: later answers use earlier ones.
 * Values from the file are bounded here, so that the arithmetic on them cannot overflow. */
#include "memory/shape.h"

#include <inttypes.h>
#include <string.h>

/* No real model comes near: heads in the hundreds, widths in the thousands. */
#define MAX_VALUE (UINT32_C(1) << 24)

static const struct arch archs[] = {
#define ARCH(arch_name, ...) { .name = arch_name, ##__VA_ARGS__ },
#include "memory/archs.def"
#undef ARCH
};

const struct arch *vr_arch_find(const char *name)
{
    for (size_t i = 0; i < VR_COUNT(archs); i++)
        if (strcmp(archs[i].name, name) == 0) return &archs[i];
    return NULL;
}

/* Reads number i of a key, refusing what no model has. */
static bool read_u32(const struct vr_model *m, const char *key, uint32_t i, uint32_t fallback, uint32_t *out,
                     struct vr_err *err)
{
    uint64_t v = vr_model_u64(m, key, i, fallback);
    if (v > MAX_VALUE)
        return vr_fail(err, VR_EFORMAT, "%s: '%s%s' is %" PRIu64 ", more than any model has: the header is corrupt",
                       m->name, m->arch, key, v);
    *out = (uint32_t)v;
    return true;
}

static uint32_t get_u32(const struct vr_model *m, const char *key, uint32_t fallback)
{
    uint64_t v = vr_model_u64(m, key, 0, fallback);
    return v > MAX_VALUE ? MAX_VALUE : (uint32_t)v;
}

static bool is_list(const struct vr_model *m, const char *key)
{
    const struct vr_meta *meta = vr_model_meta(m, key);
    return meta && meta->type == VR_V_ARRAY && meta->i64;
}

static bool count_layers(const struct vr_model *m, struct shape *s, struct vr_err *err)
{
    uint32_t n = m->n_layers, n_mtp = get_u32(m, ".nextn_predict_layers", 0);
    uint64_t all = n;
    s->n_file_layers = n;
    if (s->arch->cache == CACHE_DSV4 && n_mtp > 0 && n_mtp <= n) { /* the key is there without the layers, too */
        char name[64];
        snprintf(name, sizeof name, "blk.%" PRIu32 ".nextn.eh_proj.weight", n - n_mtp);
        if (!vr_model_tensor(m, name)) n_mtp = 0;
    }
    if (n_mtp > n)
        return vr_fail(err, VR_EFORMAT,
                       "%s: %" PRIu32 " of %" PRIu32
                       " layers are for multi-token prediction (MTP): the header is corrupt",
                       m->name, n_mtp, n);
    if (s->arch->looped) {
        uint32_t loops = get_u32(m, ".num_loops", 1);
        all = (uint64_t)n * (loops ? loops : 1);
    }
    if (s->arch->router_layer) {
        all = (uint64_t)n + 1;
        n_mtp = 1; /* the engine books it as one, and still gives it KV */
    }
    if (all == 0 || all > MAX_LAYERS)
        return vr_fail(err, VR_EFORMAT, "%s: %" PRIu64 " layers: the engine supports 1 to %d", m->name, all,
                       MAX_LAYERS);
    s->n_layers = (uint32_t)all;
    s->n_trunk = s->n_layers - n_mtp;
    return true;
}

static bool read_heads(const struct vr_model *m, struct shape *s, struct vr_err *err)
{
    for (uint32_t i = 0; i < s->n_layers; i++) {
        struct layer_shape *l = &s->layers[i];
        uint32_t from = i % s->n_file_layers; /* loops repeat the file's layers */
        if (!read_u32(m, ".attention.head_count", from, 0, &l->n_head, err)) return false;
        if (!read_u32(m, ".attention.head_count_kv", from, l->n_head, &l->n_head_kv, err)) return false;
        if (!read_u32(m, ".feed_forward_length", from, 0, &l->n_ff, err)) return false;
    }
    if (s->arch->router_layer) s->layers[s->n_layers - 1] = (struct layer_shape){ .n_head = 1, .n_head_kv = 1 };
    s->n_head = s->layers[0].n_head;
    return read_u32(m, ".embedding_length", 0, 0, &s->n_embd, err) &&
           read_u32(m, ".attention.indexer.key_length", 0, 0, &s->index_head, err);
}

/* Which layers see a window. */
static void find_window(const struct vr_model *m, struct shape *s)
{
    const struct arch *a = s->arch;
    const char *pattern = ".attention.sliding_window_pattern";
    const struct vr_meta *key = vr_model_meta(m, ".attention.sliding_window");
    uint32_t set = get_u32(m, ".attention.sliding_window", 0);

    switch (a->window) {
    case WINDOW_NONE: return;
    case WINDOW_IF_SET: s->swa = set > 0; break;
    case WINDOW_ALWAYS: s->swa = true; break;
    case WINDOW_FIXED: s->swa = set > 0; break;
    case WINDOW_CHUNKED: s->swa = !key || set > 0; break;
    case WINDOW_IF_64: s->swa = s->n_trunk == 64; break;
    }
    if (!s->swa) return;
    bool fixed = a->window == WINDOW_FIXED || a->window == WINDOW_CHUNKED;
    s->n_swa = fixed || !key ? a->size : set;

    uint32_t period = is_list(m, pattern) ? a->period : get_u32(m, pattern, a->period);
    for (uint32_t i = 0; i < s->n_layers; i++) {
        struct layer_shape *l = &s->layers[i];
        if (a->cache == CACHE_DSV4)
            l->swa = true;
        else if (a->cache == CACHE_HYBRID) /* lfm2: all layers that attend */
            l->swa = i < s->n_trunk && l->n_head_kv > 0;
        else if (is_list(m, pattern))
            l->swa = vr_model_u64(m, pattern, i, 0) != 0;
        else if (i < s->n_trunk && !a->listed)
            l->swa = period == 0 || (a->full_first ? i % period != 0 : i % period < period - 1);
    }
}

static bool find_widths(const struct vr_model *m, struct shape *s, struct vr_err *err)
{
    uint32_t k = 0, v = 0, k_swa = 0, v_swa = 0, k_mla = 0, v_mla = 0;
    /* without heads in the first layer the engine takes no widths from the file; plamo2 reads them again */
    if (s->n_head > 0 || strcmp(s->arch->name, "plamo2") == 0) {
        uint32_t each = s->n_head > 0 ? s->n_embd / s->n_head : 0;
        if (!read_u32(m, ".attention.key_length", 0, each, &k, err)) return false;
        if (!read_u32(m, ".attention.value_length", 0, each, &v, err)) return false;
    }
    if (!read_u32(m, ".attention.key_length_swa", 0, k, &k_swa, err)) return false;
    if (!read_u32(m, ".attention.value_length_swa", 0, v, &v_swa, err)) return false;
    if (s->arch->mla) {
        if (!read_u32(m, ".attention.key_length_mla", 0, 0, &k_mla, err)) return false;
        if (!read_u32(m, ".attention.value_length_mla", 0, 0, &v_mla, err)) return false;
    }
    s->mla = k_mla > 0 && v_mla > 0;

    for (uint32_t i = 0; i < s->n_layers; i++) {
        struct layer_shape *l = &s->layers[i];
        l->head_k = l->swa ? k_swa : k;
        l->head_v = l->swa ? v_swa : v;
        l->k = (uint64_t)l->head_k * l->n_head_kv;
        l->v = (uint64_t)l->head_v * l->n_head_kv;
        /* one head; the engine narrows only layers without a window, in all models but deepseek4 */
        l->index_k = l->swa && s->arch->cache != CACHE_DSV4 ? l->head_k : s->index_head;
        l->index_v = l->head_v;
    }
    return true;
}

/* Which layers carry a state instead of attending. */
static void find_recurrent(const struct vr_model *m, struct shape *s)
{
    const struct arch *a = s->arch;
    bool listed = is_list(m, ".attention.recurrent_layers");
    const struct vr_meta *one = vr_model_meta(m, ".attention.recurrent_layers");
    uint32_t interval = get_u32(m, ".full_attention_interval", a->interval);
    for (uint32_t i = 0; i < s->n_layers; i++) {
        struct layer_shape *l = &s->layers[i];
        bool trunk = i < s->n_trunk;
        switch (a->cache) {
        case CACHE_STATE:
        case CACHE_HYBRID_BOTH: l->recr = true; break;
        case CACHE_HYBRID: l->recr = trunk && l->n_head_kv == 0; break;
        case CACHE_HYBRID_NEMOTRON: l->recr = trunk && l->n_head_kv == 0 && l->n_ff == 0; break;
        case CACHE_HYBRID_TRUNK:
            l->recr = listed || one ? vr_model_u64(m, ".attention.recurrent_layers", i, 0) != 0
                                    : trunk && interval > 0 && (i + 1) % interval != 0;
            break;
        default: break;
        }
    }
}

/* Which layers have an indexer of their own (sparse attention); the others use the one before. */
static void find_indexers(const struct vr_model *m, struct shape *s)
{
    const char *types = ".attention.indexer.types";
    const struct arch *a = s->arch;
    bool said = vr_model_meta(m, types) != NULL;
    bool glm_early = vr_model_u64(m, ".context_length", 0, 0) < 1048576; /* before 5.2 every layer had one */
    for (uint32_t i = 0; i < s->n_trunk; i++) {
        struct layer_shape *l = &s->layers[i];
        if (a->index_all)
            l->indexer = true;
        else if (said)
            l->indexer = vr_model_u64(m, types, i, 0) != 0;
        else if (a->index_glm)
            l->indexer = glm_early || i < 2 || (i < 78 && (i - 2) % 4 == 0);
    }
}

/* What each layer owns, as create_memory's filters say. */
static void find_owners(const struct vr_model *m, struct shape *s)
{
    const struct arch *a = s->arch;
    uint32_t n_own = s->n_layers;
    uint32_t dense = get_u32(m, ".leading_dense_block_count", 0);
    bool sparse = a->cache != CACHE_DSA_OPTIONAL || get_u32(m, ".attention.indexer.top_k", 0) > 0;
    if (a->kv_layers) n_own = a->kv_layers;
    if (a->shared_kv) {
        uint32_t shared = get_u32(m, ".attention.shared_kv_layers", 0);
        n_own = shared < s->n_layers ? s->n_layers - shared : 0;
    }
    for (uint32_t i = 0; i < s->n_layers; i++) {
        struct layer_shape *l = &s->layers[i];
        bool trunk = i < s->n_trunk;
        switch (a->cache) {
        case CACHE_KV: l->kv = i < n_own && (trunk || s->n_trunk == 0 || a->router_layer); break;
        case CACHE_NONE:
        case CACHE_BORROWED: break;
        case CACHE_STATE: l->state = trunk; break;
        case CACHE_HYBRID:
            l->kv = !l->recr;
            l->state = trunk && l->recr;
            break;
        case CACHE_HYBRID_BOTH:
            l->kv = true;
            l->state = trunk;
            break;
        case CACHE_HYBRID_NEMOTRON:
            l->kv = !l->recr && l->n_ff == 0;
            l->state = trunk && l->recr && l->n_ff == 0;
            break;
        case CACHE_HYBRID_TRUNK:
            l->kv = trunk && !l->recr;
            l->state = trunk && l->recr;
            l->index = l->kv && a->index_attention && s->index_head > 0;
            if (l->index) l->index_v = 0; /* keys only */
            break;
        case CACHE_DSA:
        case CACHE_DSA_SWA:
            l->kv = trunk;
            l->index = trunk && l->indexer;
            break;
        case CACHE_DSA_OPTIONAL:
            l->kv = true;
            l->index = sparse && l->indexer;
            break;
        case CACHE_MSA:
            l->kv = true;
            l->index = i >= dense;
            break;
        case CACHE_DSV4: l->kv = true; break;
        }
    }
}

static bool find_state(const struct vr_model *m, struct shape *s, struct vr_err *err)
{
    uint32_t conv = 0, inner = 0, state = 0, group = 0, a = 0, b = 0;
    switch (s->arch->state) {
    case STATE_NONE: break;
    case STATE_SSM:
        if (!read_u32(m, ".ssm.conv_kernel", 0, 0, &conv, err) || !read_u32(m, ".ssm.inner_size", 0, 0, &inner, err) ||
            !read_u32(m, ".ssm.state_size", 0, 0, &state, err) || !read_u32(m, ".ssm.group_count", 0, 0, &group, err))
            return false;
        if (s->arch->ungrouped) group = 0;
        if (conv > 4096 || group > 65536)
            return vr_fail(err, VR_EFORMAT, "%s: impossible SSM sizes: the header is corrupt", m->name);
        s->state_r = (conv > 0 ? conv - 1 : 0) * (inner + 2 * (uint64_t)group * state);
        s->state_s = (uint64_t)state * inner;
        break;
    case STATE_RWKV:
        if (!read_u32(m, ".wkv.head_size", 0, 0, &a, err) || !read_u32(m, ".token_shift_count", 0, 2, &b, err))
            return false;
        s->state_r = (uint64_t)b * s->n_embd;
        s->state_s = (uint64_t)a * s->n_embd;
        break;
    case STATE_SHORTCONV:
        if (!read_u32(m, ".shortconv.l_cache", 0, 0, &conv, err)) return false;
        s->state_r = (uint64_t)s->n_embd * (conv > 0 ? conv - 1 : 0);
        break;
    case STATE_KDA:
        if (!read_u32(m, ".ssm.conv_kernel", 0, 0, &conv, err) || !read_u32(m, ".kda.head_dim", 0, 0, &a, err))
            return false;
        if (conv > 4096 || a > 65536)
            return vr_fail(err, VR_EFORMAT, "%s: impossible KDA sizes: the header is corrupt", m->name);
        s->state_r = 3 * (uint64_t)(conv > 0 ? conv - 1 : 3) * s->n_head * a;
        s->state_s = (uint64_t)a * a * s->n_head;
        break;
    case STATE_LINEAR:
        if (s->layers[0].head_k > 65536)
            return vr_fail(err, VR_EFORMAT, "%s: impossible head size: the header is corrupt", m->name);
        s->state_s = (uint64_t)s->layers[0].head_k * s->layers[0].head_k * s->n_head;
        break;
    }
    return true;
}

/* qwen4exp: one layer keeps the history of its n-gram embeddings. deepseek4: some layers compress their cache. */
static bool find_extras(const struct vr_model *m, struct shape *s, struct vr_err *err)
{
    if (s->arch->index_attention && is_list(m, ".ple.layers")) {
        uint32_t at = 0, kernel = 0, ngram = 0, hc = 0;
        if (!read_u32(m, ".ple.layers", 0, MAX_VALUE, &at, err) ||
            !read_u32(m, ".ple.conv_kernel", 0, 0, &kernel, err) ||
            !read_u32(m, ".ple.ngram_size", 0, 0, &ngram, err) ||
            !read_u32(m, ".hyper_connection.count", 0, 0, &hc, err))
            return false;
        if (kernel > 4096 || ngram > 4096 || hc > 4096)
            return vr_fail(err, VR_EFORMAT, "%s: impossible n-gram embedding sizes: the header is corrupt", m->name);
        if (at < s->n_layers && kernel > 0) {
            s->layers[at].ple = true;
            s->state_ple = (uint64_t)(kernel - 1) * ngram * hc * s->n_embd;
        }
    }
    if (s->arch->cache == CACHE_DSV4)
        for (uint32_t i = 0; i < s->n_layers; i++)
            if (!read_u32(m, ".attention.compress_ratios", i, 0, &s->layers[i].ratio, err)) return false;
    return true;
}

bool vr_shape_read(const struct vr_model *m, struct shape *s, struct vr_err *err)
{
    static const struct arch plain = { .name = "" };
    *s = (struct shape){ .arch = vr_arch_find(m->arch) };
    s->known = s->arch != NULL;
    if (!s->known) s->arch = &plain;
    if (!count_layers(m, s, err)) return false;
    s->layers = vr_arena_alloc(&s->arena, s->n_layers, sizeof *s->layers);
    if (!s->layers) return vr_fail_nomem(err, "reading a model's shape");
    if (!read_heads(m, s, err)) return false;
    find_window(m, s);
    if (!find_widths(m, s, err)) return false;
    find_recurrent(m, s);
    find_indexers(m, s);
    find_owners(m, s);
    return find_state(m, s, err) && find_extras(m, s, err);
}

void vr_shape_done(struct shape *s) { vr_arena_done(&s->arena); }
