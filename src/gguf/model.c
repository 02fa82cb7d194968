/* Puts the parts of a model together, decides each tensor's layer and role, and works out the facts.
 *
 * A split model is a set of files named NAME-00001-of-00009.gguf, each with split.no, split.count and
 * split.tensors.count. Any of them may be given; the others are looked for beside it. The first one carries the
 * metadata. */
#include "gguf/model.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/text.h"
#include "gguf/part.h"
#include "gguf/part_name.h"
#include "gguf/role.h"
#include "gguf/type.h"

#define MAX_LAYERS 512 /* the engine's */
#define MAX_PARTS  1024

static const char *split_path(struct vr_arena *a, const char *path, size_t n_stem, unsigned no, unsigned count)
{
    return vr_arena_printf(a, "%.*s-%05u-of-%05u.gguf", (int)n_stem, path, no, count);
}

/* The whole number under `key` in a part. */
static int64_t part_number(const struct vr_part_head *p, const char *key, int64_t fallback)
{
    const struct vr_meta *e = vr_part_meta(p, key);
    return e && e->type != VR_V_ARRAY && e->i64 ? e->i64[0] : fallback;
}

/* Names every part that is not there, so that one look is enough. */
static bool parts_missing(const struct vr_model *m, struct vr_err *err)
{
    VR_AUTO_BUF names = { 0 };
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->n_parts; i++) {
        if (access(m->parts[i].path, F_OK) == 0) continue;
        if (n < 4) vr_buf_addf(&names, "%s%s", n ? ", " : "", vr_file_name(m->parts[i].path));
        n++;
    }
    if (n == 0) return false;
    if (n > 4) vr_buf_addf(&names, " and %" PRIu32 " more", n - 4);
    vr_fail(err, VR_EIO, "%s of %" PRIu32 " parts %s missing from the directory: %s", n == 1 ? "1" : "some", m->n_parts,
            n == 1 ? "is" : "are", vr_buf_str(&names));
    return true;
}

/* What part i says of itself against what its place among the parts demands. */
static bool part_belongs(const struct vr_part_head *p, const struct vr_part_head *first, uint32_t i, uint32_t n,
                         struct vr_err *err)
{
    const char *path = p->facts.path;
    int64_t no = part_number(p, "split.no", -1), count = part_number(p, "split.count", -1);
    if (no < 0)
        return vr_fail(err, VR_EFORMAT,
                       "%s: its name says it is part of a split model, but its header does not (split.no is missing)",
                       path);
    if (count != (int64_t)n)
        return vr_fail(err, VR_EFORMAT,
                       "%s: part of a model split into %" PRId64 " parts, not of this one, split into %" PRIu32
                       ": it belongs to another model",
                       path, count, n);
    if (no != (int64_t)i)
        return vr_fail(err, VR_EFORMAT,
                       "%s: contains part %" PRId64 " of %" PRIu32 ", but its name says %" PRIu32
                       ": the files were renamed",
                       path, no + 1, n, i + 1);
    static const char *const same[] = { "general.architecture", "general.name", "split.tensors.count" };
    for (size_t k = 0; k < VR_COUNT(same); k++) {
        const struct vr_meta *a = vr_part_meta(first, same[k]), *b = vr_part_meta(p, same[k]);
        bool differ = a && b &&
                      ((a->string && b->string && strcmp(a->string, b->string) != 0) ||
                       (a->i64 && b->i64 && a->n && b->n && a->i64[0] != b->i64[0]));
        if (differ)
            return vr_fail(err, VR_EFORMAT, "%s: its %s differs from part 1: it belongs to another model", path,
                           same[k]);
    }
    return true;
}

/* Reads all parts. heads[] is in the arena; m->parts gets the facts. */
static struct vr_part_head *read_parts(struct vr_model *m, const char *path, struct vr_err *err)
{
    struct vr_arena *a = &m->arena;
    struct vr_part_head given;
    const char *own = vr_arena_strdup(a, path);
    if (!own) return vr_fail_nomem(err, "reading a model"), NULL;
    if (!vr_part_read(own, 0, a, &given, err)) return NULL;
    int64_t count = part_number(&given, "split.count", 1);
    if (count < 1 || count > MAX_PARTS)
        return VR_FAIL_NULL(err, VR_EFORMAT,
                            "%s: split into %" PRId64 " parts, but 1 to %d are allowed: the file is "
                            "corrupt",
                            path, count, MAX_PARTS);

    m->n_parts = (uint32_t)count;
    m->parts = vr_arena_alloc(a, m->n_parts, sizeof *m->parts);
    struct vr_part_head *heads = vr_arena_alloc(a, m->n_parts, sizeof *heads);
    if (!m->parts || !heads) return vr_fail_nomem(err, "reading a model"), NULL;
    if (count == 1) {
        heads[0] = given;
        m->parts[0] = given.facts;
        return heads;
    }

    size_t n_stem;
    unsigned no, of;
    if (!vr_part_name(own, &n_stem, &no, &of))
        return VR_FAIL_NULL(err, VR_EFORMAT,
                            "%s: part %" PRId64 " of %" PRId64 ", but its name does not end in "
                            "-%05" PRId64 "-of-%05" PRId64 ".gguf, so the others cannot be found: rename it back",
                            path, part_number(&given, "split.no", 0) + 1, count, part_number(&given, "split.no", 0) + 1,
                            count);
    if (of != (unsigned)count)
        return VR_FAIL_NULL(err, VR_EFORMAT,
                            "%s: its name says %u parts, but its header says %" PRId64 ": the file was renamed", path,
                            of, count);
    for (uint32_t i = 0; i < m->n_parts; i++) {
        m->parts[i].path = split_path(a, own, n_stem, i + 1, of);
        if (!m->parts[i].path) return vr_fail_nomem(err, "reading a model"), NULL;
    }
    if (parts_missing(m, err)) return NULL;
    for (uint32_t i = 0; i < m->n_parts; i++) {
        if (!vr_part_read(m->parts[i].path, (uint16_t)i, a, &heads[i], err)) return NULL;
        if (!part_belongs(&heads[i], &heads[0], i, m->n_parts, err)) return NULL;
        m->parts[i] = heads[i].facts;
    }
    return heads;
}

/* All tensors in one list; no name twice. */
static bool join_tensors(struct vr_model *m, const struct vr_part_head *heads, struct vr_err *err)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < m->n_parts; i++) n += heads[i].facts.n_tensors;
    int64_t said = part_number(&heads[0], "split.tensors.count", (int64_t)n);
    if (m->n_parts > 1 && said != (int64_t)n)
        return vr_fail(err, VR_EFORMAT,
                       "%s: all parts together contain %" PRIu64 " tensors, but the first one declares %" PRId64
                       ": a part belongs to another model",
                       m->parts[0].path, n, said);
    m->n_tensors = (uint32_t)n;
    m->tensors = m->n_parts == 1 ? heads[0].tensors : vr_arena_alloc(&m->arena, n, sizeof *m->tensors);
    if (!m->tensors || !vr_names_init(&m->names, &m->arena, m->n_tensors)) return vr_fail_nomem(err, "reading a model");
    for (uint32_t i = 0, at = 0; i < m->n_parts; i++) {
        uint32_t k = heads[i].facts.n_tensors;
        if (m->n_parts > 1 && k) memcpy(m->tensors + at, heads[i].tensors, k * sizeof *m->tensors);
        at += k;
    }
    for (uint32_t i = 0; i < m->n_tensors; i++) {
        const struct vr_tensor *t = &m->tensors[i];
        if (vr_names_add(&m->names, t->name, i)) continue;
        const struct vr_tensor *other = vr_model_tensor(m, t->name);
        if (other->part == t->part)
            return vr_fail(err, VR_EFORMAT, "%s: duplicate tensor '%s': the file is corrupt", m->parts[t->part].path,
                           t->name);
        return vr_fail(err, VR_EFORMAT, "%s: tensor '%s' is also in %s: one of them belongs to another model",
                       m->parts[t->part].path, t->name, vr_file_name(m->parts[other->part].path));
    }
    return true;
}

/* Every layer's attention norm is as wide as the model; a part where it is not comes from another model. */
static bool same_width(const struct vr_model *m, struct vr_err *err)
{
    const struct vr_tensor *first = NULL;
    for (uint32_t i = 0; i < m->n_tensors && m->n_parts > 1; i++) {
        const struct vr_tensor *t = &m->tensors[i];
        if (t->layer < 0 || !strstr(t->name, ".attn_norm.weight")) continue;
        if (!first) first = t;
        if (t->ne[0] != first->ne[0])
            return vr_fail(
                err, VR_EFORMAT,
                "%s: tensor '%s' is %" PRIu64 " wide where %s has %" PRIu64 ": the part belongs to another model",
                m->parts[t->part].path, t->name, t->ne[0], vr_file_name(m->parts[first->part].path), first->ne[0]);
    }
    return true;
}

/* A number of at most `max` under ".key", or the fallback when it is absent. */
static bool fact(const struct vr_model *m, const char *key, uint64_t max, uint32_t fallback, uint32_t *out,
                 struct vr_err *err)
{
    const struct vr_meta *e = vr_model_meta(m, key);
    *out = fallback;
    if (!e) return true;
    if (e->type == VR_V_ARRAY || !e->i64)
        return vr_fail(err, VR_EFORMAT, "%s: '%s' is not an integer", m->parts[0].path, e->key);
    if (e->i64[0] < 0 || (uint64_t)e->i64[0] > max)
        return vr_fail(err, VR_EFORMAT, "%s: '%s' is %" PRId64 ", but 0 to %" PRIu64 " is allowed", m->parts[0].path,
                       e->key, e->i64[0], max);
    *out = (uint32_t)e->i64[0];
    return true;
}

/* A number per layer: one for all, or an array with one for each. */
static bool layer_fact(const struct vr_model *m, const char *key, uint32_t layer, uint32_t fallback, uint32_t *out,
                       struct vr_err *err)
{
    const struct vr_meta *e = vr_model_meta(m, key);
    *out = fallback;
    if (!e) return true;
    if (!e->i64) return vr_fail(err, VR_EFORMAT, "%s: '%s' is not an array of integers", m->parts[0].path, e->key);
    if (e->type == VR_V_ARRAY && e->n < m->n_layers)
        return vr_fail(err, VR_EFORMAT, "%s: '%s' has %" PRIu64 " values for %" PRIu32 " layers", m->parts[0].path,
                       e->key, e->n, m->n_layers);
    int64_t v = e->i64[e->type == VR_V_ARRAY ? layer : 0];
    if (v < 0 || v > 1 << 24)
        return vr_fail(err, VR_EFORMAT, "%s: '%s' is %" PRId64 " for layer %" PRIu32 ", but 0 to %d is allowed",
                       m->parts[0].path, e->key, v, layer, 1 << 24);
    *out = (uint32_t)v;
    return true;
}

/* "Q4_K_M" from the file type, or the type that most bytes are in. */
static const char *quant_name(const struct vr_model *m)
{
    switch (vr_model_u64(m, "general.file_type", 0, UINT64_MAX)) {
#define FTYPE(id, name)                                                                                                \
    case id:                                                                                                           \
        return name;
#include "gguf/ftypes.def"
#undef FTYPE
    default: break;
    }
    uint64_t bytes[64] = { 0 };
    uint32_t most = 0;
    for (uint32_t i = 0; i < m->n_tensors; i++) {
        uint32_t type = m->tensors[i].type;
        bytes[type % 64] += m->tensors[i].bytes;
        if (bytes[type % 64] > bytes[most]) most = type % 64;
    }
    return m->n_tensors ? vr_type(most)->name : "none";
}

/* The string under `key` as it may be shown, NULL if absent: what is not printable UTF-8 becomes '?'. */
static bool shown_meta(struct vr_model *m, const char *key, const char **shown, struct vr_err *err)
{
    const struct vr_meta *e = vr_model_meta(m, key);
    *shown = NULL;
    if (!e || !e->string) return true;
    char *out = vr_arena_strdup(&m->arena, e->string);
    if (!out) return vr_fail_nomem(err, "reading a model");
    vr_utf8_mask(out);
    *shown = out;
    return true;
}

static bool model_facts(struct vr_model *m, struct vr_err *err)
{
    const char *path = m->parts[0].path;
    if (!shown_meta(m, "general.architecture", &m->arch, err) || !shown_meta(m, "general.name", &m->name, err))
        return false;
    if (!m->arch || !*m->arch)
        return vr_fail(err, VR_EFORMAT,
                       "%s: general.architecture is missing: this is not a model, or its first part is corrupt", path);
    if (!m->name || !*m->name) m->name = vr_file_name(path);
    m->quant = quant_name(m);
    const struct vr_meta *tokens = vr_model_meta(m, "tokenizer.ggml.tokens");
    const struct vr_tensor *embd = vr_model_tensor(m, "token_embd.weight");
    uint32_t n_vocab = tokens && tokens->n <= UINT32_MAX   ? (uint32_t)tokens->n
                       : embd && embd->ne[1] <= UINT32_MAX ? (uint32_t)embd->ne[1]
                                                           : 0;
    if (!fact(m, ".block_count", MAX_LAYERS, 0, &m->n_layers, err) ||
        !fact(m, ".nextn_predict_layers", MAX_LAYERS, 0, &m->n_layers_mtp, err) ||
        !fact(m, ".embedding_length", 1 << 24, 0, &m->n_embd, err) ||
        !fact(m, ".context_length", UINT32_MAX, 0, &m->n_ctx_train, err) ||
        !fact(m, ".vocab_size", UINT32_MAX, n_vocab, &m->n_vocab, err) ||
        !fact(m, ".expert_count", 1 << 16, 0, &m->n_expert, err) ||
        !fact(m, ".expert_used_count", 1 << 16, 0, &m->n_expert_used, err))
        return false;
    if (tokens) m->n_vocab = n_vocab;
    if (m->n_layers_mtp > m->n_layers)
        return vr_fail(err, VR_EFORMAT,
                       "%s: %" PRIu32 " layers for multi-token prediction (MTP), but the model has only %" PRIu32, path,
                       m->n_layers_mtp, m->n_layers);
    if (m->n_expert_used > m->n_expert)
        return vr_fail(err, VR_EFORMAT, "%s: %" PRIu32 " experts used per token, but the model has only %" PRIu32, path,
                       m->n_expert_used, m->n_expert);
    m->tied = embd && !vr_model_tensor(m, "output.weight");
    return true;
}

static bool layer_facts(struct vr_model *m, struct vr_err *err)
{
    m->layers = vr_arena_alloc(&m->arena, m->n_layers, sizeof *m->layers);
    if (!m->layers) return vr_fail_nomem(err, "reading a model");
    for (uint32_t i = 0; i < m->n_layers; i++) {
        struct vr_layer *l = &m->layers[i];
        if (!layer_fact(m, ".attention.head_count", i, 0, &l->n_head, err) ||
            !layer_fact(m, ".attention.head_count_kv", i, l->n_head, &l->n_head_kv, err) ||
            !layer_fact(m, ".feed_forward_length", i, 0, &l->n_ff, err))
            return false;
        l->mtp = i >= m->n_layers - m->n_layers_mtp;
    }
    return true;
}

bool vr_model_is_adapter(const struct vr_model *m)
{
    const struct vr_meta *type = vr_model_meta(m, "general.type");
    return type && type->string && strcmp(type->string, "adapter") == 0;
}

static bool sort_tensors(struct vr_model *m, struct vr_err *err)
{
    bool adapter = vr_model_is_adapter(m); /* its tensors belong to another file's layers */
    for (uint32_t i = 0; i < m->n_tensors; i++) {
        struct vr_tensor *t = &m->tensors[i];
        t->layer = adapter ? -1 : vr_role_layer(t->name);
        t->role = vr_role_of(t->name);
        m->tensor_bytes += t->bytes;
        m->params += t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3];
        if (t->layer < 0) {
            uint64_t *sum = t->role == VR_ROLE_INPUT    ? &m->input_bytes
                            : t->role == VR_ROLE_OUTPUT ? &m->output_bytes
                                                        : &m->other_bytes;
            *sum += t->bytes;
            continue;
        }
        if ((uint32_t)t->layer >= m->n_layers)
            return vr_fail(err, VR_EFORMAT,
                           "%s: tensor '%s' is of layer %" PRId32 ", but the model has %" PRIu32 " layers",
                           m->parts[t->part].path, t->name, t->layer, m->n_layers);
        struct vr_layer *l = &m->layers[t->layer];
        l->bytes += t->bytes;
        l->role_bytes[t->role] += t->bytes;
    }
    for (uint32_t i = 0; i < m->n_parts; i++) m->file_bytes += m->parts[i].file_bytes;
    return true;
}

struct vr_model *vr_model_open(const char *path, struct vr_err *err)
{
    VR_AUTO(vr_model) m = calloc(1, sizeof *m);
    if (!m) return vr_fail_nomem(err, "reading a model"), NULL;
    const struct vr_part_head *heads = read_parts(m, path, err);
    if (!heads) return NULL;
    m->meta = heads[0].meta;
    m->n_meta = heads[0].n_meta;
    m->keys = heads[0].keys;
    if (!join_tensors(m, heads, err) || !model_facts(m, err) || !layer_facts(m, err) || !sort_tensors(m, err) ||
        !same_width(m, err))
        return NULL;
    return VR_TAKE(m);
}

void vr_model_free(struct vr_model *m)
{
    if (!m) return;
    vr_arena_done(&m->arena);
    free(m);
}

const struct vr_meta *vr_model_meta(const struct vr_model *m, const char *key)
{
    char full[256];
    if (*key == '.') {
        if (!m->arch || snprintf(full, sizeof full, "%s%s", m->arch, key) >= (int)sizeof full) return NULL;
        key = full;
    }
    const uint32_t *i = vr_names_find(&m->keys, key);
    return i ? &m->meta[*i] : NULL;
}

uint64_t vr_model_u64(const struct vr_model *m, const char *key, uint32_t i, uint64_t fallback)
{
    const struct vr_meta *e = vr_model_meta(m, key);
    if (!e || !e->i64) return fallback;
    if (e->type != VR_V_ARRAY) i = 0;
    return i < e->n && e->i64[i] >= 0 ? (uint64_t)e->i64[i] : fallback;
}

double vr_model_f64(const struct vr_model *m, const char *key, uint32_t i, double fallback)
{
    const struct vr_meta *e = vr_model_meta(m, key);
    if (!e || !e->f64) return fallback;
    if (e->type != VR_V_ARRAY) i = 0;
    return i < e->n ? e->f64[i] : fallback;
}

uint64_t vr_model_hash(const struct vr_model *m)
{
    uint64_t h = vr_hash(m->arch, strlen(m->arch), m->n_tensors);
    for (uint32_t i = 0; i < m->n_tensors; i++) {
        const struct vr_tensor *t = &m->tensors[i];
        h = vr_hash(t->name, strlen(t->name), h);
        h = vr_hash(t->ne, sizeof t->ne, h ^ t->type);
    }
    return h;
}

const struct vr_tensor *vr_model_tensor(const struct vr_model *m, const char *name)
{
    const uint32_t *i = vr_names_find(&m->names, name);
    return i ? &m->tensors[*i] : NULL;
}
