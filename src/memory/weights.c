/* Weights: every tensor's home and its padded size.
 *
 * The engine keeps one buffer per kind of memory and pads each tensor in it. A tensor goes to the input (host), to its
 * layer's device, or to the output's device; rope tables are copied to each device that needs them; a tied output
 * matrix is a second copy of the token embeddings unless both are on the host. */
#include "memory/weights.h"

#include <stdlib.h>
#include <string.h>

#define ROW_PADDING 512 /* weights; the CUDA backend's MATRIX_ROW_PADDING */

enum home { HOME_LAYER, HOME_INPUT, HOME_FIRST, HOME_OUTPUT, HOME_TABLES, HOME_NOWHERE, HOME_UNKNOWN };

static const struct {
    const char *name;
    enum home home;
} homes[] = {
#define HOME(name, home) { name, home },
#include "memory/homes.def"
#undef HOME
};

uint64_t vr_row_padding(uint32_t type, uint64_t n)
{
    if (!vr_type_is_quantized(type) || n % ROW_PADDING == 0) return 0;
    return vr_type_row_bytes(type, ROW_PADDING - n % ROW_PADDING);
}

uint64_t vr_weight_gpu_bytes(const struct vr_tensor *t)
{
    return pad_to(t->bytes + vr_row_padding(t->type, t->ne[0]), GPU_ALIGN);
}

uint64_t vr_weight_host_bytes(const struct vr_tensor *t) { return pad_to(t->bytes, HOST_ALIGN); }

/* The length of a name without its last part, when that says what kind of weights it holds. */
static size_t stem_length(const char *name)
{
    static const char *const kinds[] = { ".weight", ".bias", ".scale", ".input_scale" };
    size_t n = strlen(name);
    for (size_t i = 0; i < VR_COUNT(kinds); i++) {
        size_t k = strlen(kinds[i]);
        if (n > k && strcmp(name + n - k, kinds[i]) == 0) return n - k;
    }
    return n;
}

/* The block number in "blk.7.attn_q.weight", "dec.blk.7.…", "posnet.7.…"; -1 without. */
static int block_of(const struct vr_tensor *t)
{
    static const char *const prefixes[] = { "blk.", "enc.blk.", "dec.blk.", "posnet.", "convnext." };
    if (t->layer >= 0) return t->layer;
    for (size_t i = 0; i < VR_COUNT(prefixes); i++) {
        size_t n = strlen(prefixes[i]);
        const char *digits = t->name + n;
        if (strncmp(t->name, prefixes[i], n) != 0 || *digits < '0' || *digits > '9') continue;
        char *end;
        long block = strtol(digits, &end, 10);
        if (*end == '.' && block <= MAX_LAYERS) return (int)block;
    }
    return -1;
}

/* *layer is set for HOME_LAYER. */
static enum home home_of(const struct vr_tensor *t, const struct shape *s, uint32_t *layer)
{
    bool named = strncmp(t->name, "blk.", 4) != 0; /* nearly all tensors are in blocks: ask the table for the others */
    size_t n = named ? stem_length(t->name) : 0;
    for (size_t i = 0; named && i < VR_COUNT(homes); i++) {
        if (strlen(homes[i].name) != n || strncmp(homes[i].name, t->name, n) != 0) continue;
        if (homes[i].home != HOME_FIRST) return homes[i].home;
        if (s->arch->norm_is_output && strncmp(t->name, "token_embd_norm", n) == 0) return HOME_OUTPUT;
        *layer = 0;
        return HOME_LAYER;
    }
    if (strstr(t->name, ".cross_attn_rel_b")) return HOME_NOWHERE; /* T5 carries it, nothing reads it */
    int block = block_of(t);
    if (block < 0 || (uint32_t)block >= s->n_layers) return HOME_UNKNOWN;
    *layer = (uint32_t)block;
    return HOME_LAYER;
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);
    return n >= k && strcmp(s + n - k, end) == 0;
}

/* Mamba's scan has CUDA kernels for these shapes only. ssm_a is [1, heads] in Mamba-2, [state, channels] in Mamba. */
static bool gpu_scans(const struct vr_model *m, const struct shape *s, const struct vr_tensor *t)
{
    uint64_t inner = vr_model_u64(m, ".ssm.inner_size", 0, 0), state = vr_model_u64(m, ".ssm.state_size", 0, 0);
    uint64_t group = s->arch->ungrouped ? 0 : vr_model_u64(m, ".ssm.group_count", 0, 0);
    uint64_t head = t->ne[1] ? inner / t->ne[1] : 0;
    if (t->ne[0] == 1) return (state == 128 || state == 256) && head % 16 == 0;
    return t->ne[0] == 16 && head == 1 && t->ne[1] % 128 == 0 && group <= 1;
}

/* Whether the engine adds or multiplies by this tensor value by value, instead of as a matrix. Biases of experts are
 * matrices of rows, one per expert. */
static bool is_elementwise(const struct vr_tensor *t)
{
    static const char *const parts[] = { "norm", "_lerp_", ".ssm_conv1d_", ".time_mix_ln", ".time_mix_r_k" };
    static const char *const ends[] = { ".ssm_a",       ".ssm_d",        ".time_mix_decay.weight", ".gamma.weight",
                                        "_base.weight", "_scale.weight", "_res_score.weight" };
    if (t->n_dims == 1) return !ends_with(t->name, ".attn_sinks.weight");
    if (ends_with(t->name, ".bias")) return !ends_with(t->name, "_exps.bias");
    for (size_t i = 0; i < VR_COUNT(parts); i++)
        if (strstr(t->name, parts[i])) return true;
    for (size_t i = 0; i < VR_COUNT(ends); i++)
        if (ends_with(t->name, ends[i])) return true;
    return false;
}

/* Whether the CUDA backend has a kernel for what the engine does with this tensor; what it has none for stays on the
 * host. */
static bool gpu_takes(const struct vr_model *m, const struct shape *s, const struct vr_tensor *t)
{
    const struct vr_type *type = vr_type(t->type);
    bool is_float = t->type == VR_TYPE_F32 || t->type == VR_TYPE_F16;
    if (!type || !type->name || strncmp(type->name, "tq", 2) == 0 || strcmp(type->name, "f64") == 0) return false;
    if (!is_float && is_elementwise(t)) return false;
    if (ends_with(t->name, ".ssm_conv1d.weight") || ends_with(t->name, ".shortconv.conv.weight"))
        return t->ne[1] % 128 == 0;
    if (ends_with(t->name, ".ssm_a") && s->arch->state == STATE_SSM && s->arch->interval == 0)
        return gpu_scans(m, s, t);
    return true;
}

static void add_to_layer(const struct vr_tensor *t, bool on_gpu, struct vr_layer_footprint *l)
{
    uint64_t gpu = vr_weight_gpu_bytes(t), host = vr_weight_host_bytes(t);
    l->weights_host_bytes += host;
    *(on_gpu ? &l->weights_gpu_bytes : &l->weights_left_bytes) += on_gpu ? gpu : host;
    if (on_gpu && t->role == VR_ROLE_EXPERT) l->experts_gpu_bytes += gpu;
}

/* The copy that a model without an output matrix (or, for codeshell, without an input one) gets. The engine finds the
 * token embeddings when they are on the same side already, if it made them first. */
static void add_tied(const struct vr_model *m, const struct shape *s, struct vr_footprint *f)
{
    const struct vr_tensor *in = vr_model_tensor(m, "token_embd.weight");
    const struct vr_tensor *out = vr_model_tensor(m, "output.weight");
    if (in && !out && !s->arch->no_head) {
        if (gpu_takes(m, s, in)) f->output_gpu_bytes += vr_weight_gpu_bytes(in);
        if (s->arch->output_first) f->output_host_bytes += vr_weight_host_bytes(in);
    } else if (out && !in && s->arch->input_from_output) {
        f->output_host_bytes += vr_weight_host_bytes(out);
        if (gpu_takes(m, s, out))
            f->output_gpu_bytes += vr_weight_gpu_bytes(out);
        else
            f->output_left_bytes += vr_weight_host_bytes(out);
    }
}

static bool loads_mtp(const struct arch *a, const struct vr_context *c)
{
    return a->keeps_mtp || (c->load_mtp && !a->drops_mtp);
}

void vr_weights_add(const struct vr_model *m, const struct shape *s, const struct vr_context *c, struct vr_footprint *f)
{
    for (uint32_t i = 0; i < m->n_tensors; i++) {
        const struct vr_tensor *t = &m->tensors[i];
        uint64_t gpu = vr_weight_gpu_bytes(t), host = vr_weight_host_bytes(t);
        uint32_t layer = 0;
        switch (home_of(t, s, &layer)) {
        case HOME_LAYER:
            if (f->layers[layer].mtp && !loads_mtp(s->arch, c))
                f->skipped_bytes += t->bytes;
            else
                add_to_layer(t, gpu_takes(m, s, t), &f->layers[layer]);
            break;
        case HOME_INPUT: f->input_host_bytes += host; break;
        case HOME_FIRST: break; /* home_of() makes it HOME_LAYER */
        case HOME_OUTPUT:
            f->output_host_bytes += host;
            if (gpu_takes(m, s, t))
                f->output_gpu_bytes += gpu;
            else
                f->output_left_bytes += host;
            break;
        case HOME_TABLES:
            f->tables_gpu_bytes += gpu;
            f->tables_host_bytes += host;
            break;
        case HOME_NOWHERE: f->skipped_bytes += t->bytes; break;
        case HOME_UNKNOWN:
            f->skipped_bytes += t->bytes;
            f->inexact = "the file has tensors that the engine does not know";
            break;
        }
    }
    add_tied(m, s, f);
}
