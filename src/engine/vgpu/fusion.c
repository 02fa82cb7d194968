/* The backend looks at each node in turn and tries its fusions in a fixed order; the first that matches takes the
 * nodes. Here they are in that order. Two things are left out: fusions for types and models that read their scales
 * from a sidecar (NVFP4) or make sound, and the check that a result does not overwrite an input, which needs
 * addresses. So the count is a lower bound, and equal for every model it was compared with. */
#include "engine/vgpu/fusion.h"

#include <string.h>

#include "engine/vgpu/rules.h"

bool vr_node_is_free(const struct ggml_tensor *t)
{
    switch (t->op) {
    case GGML_OP_NONE:
    case GGML_OP_VIEW:
    case GGML_OP_RESHAPE:
    case GGML_OP_PERMUTE:
    case GGML_OP_TRANSPOSE: return true;
    default: return ggml_is_empty(t);
    }
}

static bool f32(const struct ggml_tensor *t) { return t->type == GGML_TYPE_F32; }

static bool chain(const struct ggml_cgraph *g, int i, const enum ggml_op *ops, int n)
{
    return i + n <= g->n_nodes && ggml_can_fuse(g, i, ops, n);
}
#define CHAIN(g, i, ...)                                                                                               \
    chain(g, i, (const enum ggml_op[]){ __VA_ARGS__ }, sizeof((enum ggml_op[]){ __VA_ARGS__ }) / sizeof(enum ggml_op))

/* The nodes are these operations and only the last one's result is used elsewhere. */
static bool group(const struct ggml_cgraph *g, int i, const enum ggml_op *ops, int n)
{
    int last = i + n - 1;
    return ggml_can_fuse_subgraph(g, i, n, ops, &last, 1);
}
#define GROUP(g, i, ...)                                                                                               \
    group(g, i, (const enum ggml_op[]){ __VA_ARGS__ }, sizeof((enum ggml_op[]){ __VA_ARGS__ }) / sizeof(enum ggml_op))

static bool plain_rope(const struct ggml_tensor *rope)
{
    int mode = rope->op_params[2];
    return mode == GGML_ROPE_TYPE_NORMAL || mode == GGML_ROPE_TYPE_NEOX;
}

/* Rotated keys go straight into the cache. */
static bool rope_to_cache(const struct ggml_tensor *rope, const struct ggml_tensor *view, const struct ggml_tensor *set)
{
    return rope->src[0]->ne[3] == 1 && (f32(set) || set->type == GGML_TYPE_F16) && set->src[1]->type == GGML_TYPE_I64 &&
           ggml_is_contiguous(view) && view->ne[0] == rope->ne[0] * rope->ne[1] && plain_rope(rope);
}

static bool norm_mul(const struct ggml_tensor *norm, const struct ggml_tensor *mul)
{
    if (!f32(norm) || !f32(mul->src[0]) || !f32(mul->src[1]) || !f32(mul)) return false;
    if (norm == mul->src[1] && !ggml_are_same_shape(mul->src[0], norm)) return false;
    return ggml_is_contiguous_rows(mul->src[0]) && ggml_is_contiguous_rows(mul->src[1]);
}

static bool norm_rope(const struct ggml_tensor *norm, const struct ggml_tensor *mul, const struct ggml_tensor *rope)
{
    return norm_mul(norm, mul) && f32(norm->src[0]) && f32(rope) && rope->src[0] == mul &&
           ggml_are_same_shape(norm, mul) && ggml_is_contiguous_rows(norm->src[0]) && plain_rope(rope) &&
           rope->op_params[1] % 2 == 0 && rope->src[0]->ne[0] % 2 == 0 && rope->op_params[15] == 0;
}

static int fuse_norm(const struct ggml_cgraph *g, int i)
{
    struct ggml_tensor **n = &g->nodes[i];
    if (GROUP(g, i, GGML_OP_RMS_NORM, GGML_OP_MUL, GGML_OP_ROPE, GGML_OP_VIEW, GGML_OP_SET_ROWS) &&
        n[1]->src[0] == n[0] && n[3]->src[0] == n[2] && n[4]->src[0] == n[3] && norm_rope(n[0], n[1], n[2]) &&
        rope_to_cache(n[2], n[3], n[4]))
        return 5;
    if (CHAIN(g, i, GGML_OP_RMS_NORM, GGML_OP_MUL, GGML_OP_ROPE) && norm_rope(n[0], n[1], n[2])) return 3;
    if (CHAIN(g, i, GGML_OP_RMS_NORM, GGML_OP_MUL, GGML_OP_ADD) && norm_mul(n[0], n[1]) && f32(n[2]->src[0]) &&
        f32(n[2]->src[1]) && f32(n[2]) && ggml_is_contiguous(n[2]->src[0]) && ggml_is_contiguous_rows(n[2]->src[1]))
        return 3;
    return CHAIN(g, i, GGML_OP_RMS_NORM, GGML_OP_MUL) && norm_mul(n[0], n[1]) ? 2 : 1;
}

/* A run of additions (or products), each of the one before and something of the same layout. */
static int fuse_run(const struct ggml_cgraph *g, int i)
{
    enum ggml_op op = g->nodes[i]->op;
    int n = 1;
    for (; n <= 7; n++) {
        const enum ggml_op two[] = { op, op };
        if (!chain(g, i + n - 1, two, 2)) break;
        const struct ggml_tensor *a = g->nodes[i + n - 1], *b = g->nodes[i + n];
        if (b->src[0] != a || !ggml_are_same_layout(a->src[1], b->src[1])) break;
    }
    return n;
}

/* The matrix-vector kernels take what follows along: one token, or a few for experts. */
static bool is_vector(const struct ggml_tensor *mm, int cc)
{
    const struct ggml_tensor *w = mm->src[0], *x = mm->src[1];
    bool experts = mm->op == GGML_OP_MUL_MAT_ID;
    if (!f32(x) || !f32(mm)) return false;
    if (ggml_is_quantized(w->type)) /* 4 is the least of the limits per type and device; most are 8 */
        return cc > 600 && x->ne[1] <= 8 && (experts ? mm->ne[2] <= 4 : mm->ne[1] == 1);
    bool small = w->ne[1] <= 512 || w->ne[2] * w->ne[3] == 1 || f32(w);
    return w->ne[0] % 2 == 0 && small && (experts ? mm->ne[2] == 1 : mm->ne[1] == 1);
}

static bool plain_glu(const struct ggml_tensor *glu)
{
    switch (ggml_get_glu_op(glu)) {
    case GGML_GLU_OP_SWIGLU:
    case GGML_GLU_OP_GEGLU:
    case GGML_GLU_OP_SWIGLU_OAI:
    case GGML_GLU_OP_SWIGLU_CLAMP: return glu->op_params[1] == 0;
    default: return false;
    }
}

/* Gate and up are the same matrix product of the same input, with weights of the same type and shape. */
static bool twins(const struct ggml_tensor *a, const struct ggml_tensor *b)
{
    return a->src[0]->type == b->src[0]->type && ggml_are_same_shape(a->src[0], b->src[0]) &&
           ggml_are_same_stride(a->src[0], b->src[0]) && a->src[1] == b->src[1] && a->src[2] == b->src[2];
}

static int fuse_mul_mat(const struct ggml_cgraph *g, int i, int cc)
{
    struct ggml_tensor **n = &g->nodes[i];
    enum ggml_op mm = n[0]->op, bias = mm == GGML_OP_MUL_MAT ? GGML_OP_ADD : GGML_OP_ADD_ID;
    if (!is_vector(n[0], cc)) return 1;
    if (GROUP(g, i, mm, bias, mm, bias, GGML_OP_GLU) && plain_glu(n[4]) && twins(n[0], n[2]) && n[4]->src[0] == n[1] &&
        n[4]->src[1] == n[3] &&
        (mm == GGML_OP_MUL_MAT_ID ||
         (ggml_are_same_shape(n[1]->src[0], n[1]->src[1]) && ggml_are_same_shape(n[3]->src[0], n[3]->src[1]))))
        return 5;
    if (GROUP(g, i, mm, mm, GGML_OP_GLU) && plain_glu(n[2]) && twins(n[0], n[1]) && n[2]->src[0] == n[0] &&
        n[2]->src[1] == n[1])
        return 3;
    if (!CHAIN(g, i, mm, bias)) return 1;
    if (mm == GGML_OP_MUL_MAT_ID) return n[1]->src[0] == n[0] && n[1]->src[2] == n[0]->src[2] ? 2 : 1;
    return ggml_are_same_shape(n[1]->src[0], n[1]->src[1]) ? 2 : 1;
}

static int fuse_unary(const struct ggml_cgraph *g, int i)
{
    struct ggml_tensor **n = &g->nodes[i];
    enum ggml_unary_op op = ggml_get_unary_op(n[0]);
    bool type_ok = f32(n[0]) || n[0]->type == GGML_TYPE_F16;
    if ((op == GGML_UNARY_OP_SILU || op == GGML_UNARY_OP_SIGMOID || op == GGML_UNARY_OP_SOFTPLUS) && type_ok &&
        CHAIN(g, i, GGML_OP_UNARY, GGML_OP_MUL)) {
        const struct ggml_tensor *other = n[1]->src[n[1]->src[0] == n[0]];
        if (n[0]->type == n[1]->type && other->type == n[0]->type && ggml_is_contiguous_1(other) &&
            ggml_is_contiguous_1(n[0]->src[0]) && ggml_are_same_shape(other, n[0]))
            return 2;
    }
    if (op == GGML_UNARY_OP_RELU && type_ok && CHAIN(g, i, GGML_OP_UNARY, GGML_OP_SQR) && n[0]->type == n[1]->type &&
        ggml_is_contiguous(n[0]->src[0]))
        return 2;
    return 1;
}

static bool is_unary(const struct ggml_tensor *t, enum ggml_unary_op op) { return ggml_get_unary_op(t) == op; }

static int fuse_conv(const struct ggml_cgraph *g, int i)
{
    struct ggml_tensor **n = &g->nodes[i];
    if (CHAIN(g, i, GGML_OP_SSM_CONV, GGML_OP_ADD, GGML_OP_UNARY) && is_unary(n[2], GGML_UNARY_OP_SILU)) {
        const struct ggml_tensor *bias = n[1]->src[n[1]->src[0] == n[0]];
        if (f32(bias) && ggml_is_contiguous(bias) && ggml_nelements(bias) == n[0]->ne[0]) return 3;
    }
    return CHAIN(g, i, GGML_OP_SSM_CONV, GGML_OP_UNARY) && is_unary(n[1], GGML_UNARY_OP_SILU) ? 2 : 1;
}

/* The new state is written into the cache by the same kernel. */
static int fuse_delta_net(const struct ggml_cgraph *g, int i)
{
    const struct ggml_tensor *node = g->nodes[i];
    for (int k = i + 1; k < g->n_nodes; k++) {
        const struct ggml_tensor *t = g->nodes[k];
        if (vr_node_is_free(t)) continue;
        bool ours = t->op == GGML_OP_CPY && t->src[0]->op == GGML_OP_VIEW && t->src[0]->view_src == node &&
                    ggml_is_contiguous(t->src[0]);
        return ours ? k - i + 1 : 1;
    }
    return 1;
}

int vr_fused_nodes(const struct ggml_cgraph *g, int i, int cc)
{
    const struct ggml_tensor *t = g->nodes[i], *a, *b, *c;
    struct ggml_tensor **n = &g->nodes[i];
    int k;
    switch (t->op) {
    case GGML_OP_MUL: return (k = vr_rule_expert_sum(g, i, &a, &b, &c)) ? k : fuse_run(g, i);
    case GGML_OP_ADD: return fuse_run(g, i);
    case GGML_OP_SOFT_MAX: return (k = vr_rule_expert_choice(g, i)) ? k : 1;
    case GGML_OP_UNARY: return (k = vr_rule_expert_choice(g, i)) ? k : fuse_unary(g, i);
    case GGML_OP_ARGSORT: return (k = vr_rule_expert_choice_late(g, i)) ? k : 1;
    case GGML_OP_ROPE:
        return GROUP(g, i, GGML_OP_ROPE, GGML_OP_VIEW, GGML_OP_SET_ROWS) && rope_to_cache(n[0], n[1], n[2]) ? 3 : 1;
    case GGML_OP_MUL_MAT:
    case GGML_OP_MUL_MAT_ID: return fuse_mul_mat(g, i, cc);
    case GGML_OP_RMS_NORM: return fuse_norm(g, i);
    case GGML_OP_SSM_CONV: return fuse_conv(g, i);
    case GGML_OP_GATED_DELTA_NET: return fuse_delta_net(g, i);
    case GGML_OP_SCALE:
        return CHAIN(g, i, GGML_OP_SCALE, GGML_OP_UNARY, GGML_OP_SCALE) && is_unary(n[1], GGML_UNARY_OP_TANH) &&
                       n[0]->op_params[1] == 0 && n[2]->op_params[1] == 0
                   ? 3
                   : 1;
    default: return 1;
    }
}

static int attention_kernels(const struct ggml_tensor *t, int cc)
{
    bool vec = vr_rule_attn_kernel(t, cc) == VR_ATTN_VEC;
    int n = 2;
    for (int i = 1; i <= 2; i++) /* K and V are made f16 first, except where the vector kernel reads them as they are */
        n += !vec && t->src[i]->type != GGML_TYPE_F16;
    return n;
}

int vr_node_kernels(const struct ggml_tensor *t, int cc)
{
    enum { MAX_VECTORS = 8 }; /* columns that the matrix-vector kernels take */
    bool experts = t->op == GGML_OP_MUL_MAT_ID;
    if (t->op == GGML_OP_FLASH_ATTN_EXT) return attention_kernels(t, cc);
    if (t->op != GGML_OP_MUL_MAT && !experts) return 1;
    bool vector = (experts ? t->ne[2] : t->ne[1]) <= MAX_VECTORS;
    if (ggml_is_quantized(t->src[0]->type)) /* round, multiply; large: sort by expert, multiply, add the parts */
        return vector ? 2 : experts ? 4 : 3;
    if (is_vector(t, cc) || f32(t->src[0])) return 1;
    return 3; /* to f16, multiply, back to f32 */
}
