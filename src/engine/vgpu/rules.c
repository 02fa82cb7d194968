/* The facts, in the order in which llama.cpp asks: does the device take the operation (vgpu_ops.def names a rule for
 * each), how many bytes does its result need, and which tensors must live longer because several nodes become one
 * kernel. Flash attention has the most: the head sizes that have kernels, and which kernel a batch gets, because some
 * read a quantized or f32 cache through an f16 copy that lies behind the result. */
#include "engine/vgpu/rules.h"

#include <string.h>

#include "base/text.h"

#define T(type)        (UINT64_C(1) << GGML_TYPE_##type)
#define HAS(set, type) (((set) >> (type)) & 1)

#define FLOATS      (T(F32) | T(F16) | T(BF16))
#define BASE_QUANTS (T(Q4_0) | T(Q4_1) | T(Q5_0) | T(Q5_1) | T(Q8_0))
#define K_QUANTS    (T(Q2_K) | T(Q3_K) | T(Q4_K) | T(Q5_K) | T(Q6_K))
#define I_QUANTS    (T(IQ1_M) | T(IQ1_S) | T(IQ2_S) | T(IQ2_XS) | T(IQ2_XXS) | T(IQ3_S) | T(IQ3_XXS) | T(IQ4_XS))

static const uint64_t mul_mat_types =
    FLOATS | BASE_QUANTS | K_QUANTS | I_QUANTS | T(Q1_0) | T(Q2_0) | T(Q8_K) | T(IQ4_NL) | T(MXFP4) | T(NVFP4);
static const uint64_t get_rows_types = FLOATS | BASE_QUANTS | K_QUANTS | I_QUANTS | T(I32) | T(Q1_0) | T(Q2_0);
static const uint64_t get_rows_256_types = T(IQ4_NL) | T(MXFP4); /* only rows of whole 256s */
static const uint64_t set_rows_types = FLOATS | BASE_QUANTS | T(IQ4_NL);
static const uint64_t kv_types = FLOATS | BASE_QUANTS; /* flash attention and the lightning indexer */

#define U(op) (UINT64_C(1) << GGML_UNARY_OP_##op)
static const uint64_t unary_ops = U(ABS) | U(SGN) | U(NEG) | U(STEP) | U(GELU) | U(SILU) | U(RELU) | U(SIGMOID) |
                                  U(HARDSIGMOID) | U(HARDSWISH) | U(GELU_ERF) | U(GELU_QUICK) | U(TANH) | U(EXP) |
                                  U(EXPM1) | U(SOFTPLUS) | U(ELU) | U(XIELU) | U(FLOOR) | U(CEIL) | U(ROUND) | U(TRUNC);
#define G(op) (UINT64_C(1) << GGML_GLU_OP_##op)
static const uint64_t glu_ops =
    G(REGLU) | G(GEGLU) | G(SWIGLU) | G(SWIGLU_OAI) | G(GEGLU_ERF) | G(GEGLU_QUICK) | G(SWIGLU_CLAMP);

/* The architectures that the prebuilt backends hold code for: a device runs the newest that is not newer than itself.
 * CUDA 13's build begins with 7.5; older cards run the CUDA 12 one, which begins with 5.0. */
static const int archs[] = { 500, 610, 700, 750, 800, 860, 890, 900, 1200, 1210 };

static int arch_of(int cc)
{
    int arch = 0;
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++)
        if (archs[i] <= cc) arch = archs[i];
    return arch;
}

static float param_f32(const struct ggml_tensor *t, int i)
{
    float v;
    memcpy(&v, &t->op_params[i], sizeof v);
    return v;
}

static bool is_f32(const struct ggml_tensor *t) { return t->type == GGML_TYPE_F32; }
static bool is_f32_or_f16(const struct ggml_tensor *t) { return is_f32(t) || t->type == GGML_TYPE_F16; }

/* A rule looks at the operation, and rarely at the device. */
#define RULE(name) static bool name(const struct ggml_tensor *op, int cc __attribute__((unused)))

RULE(always) { return (void)op, true; }
RULE(whole) { return ggml_is_contiguous(op->src[0]); }
RULE(rows) { return ggml_is_contiguous_rows(op->src[0]); }
RULE(src_f32) { return is_f32(op->src[0]); }
RULE(f32_whole) { return is_f32(op->src[0]) && ggml_is_contiguous(op->src[0]); }
RULE(f32_rows) { return is_f32(op->src[0]) && is_f32(op) && ggml_is_contiguous_rows(op->src[0]); }
RULE(both_whole) { return ggml_is_contiguous(op->src[0]) && ggml_is_contiguous(op->src[1]); }
RULE(unary) { return HAS(unary_ops, ggml_get_unary_op(op)) && ggml_is_contiguous(op->src[0]); }
RULE(glu) { return HAS(glu_ops, ggml_get_glu_op(op)) && ggml_is_contiguous_1(op->src[0]); }
RULE(repeat) { return is_f32_or_f16(op->src[0]); }
RULE(soft_max_back) { return param_f32(op, 1) == 0.0f; }
RULE(ssm_conv) { return op->src[0]->ne[1] % 128 == 0; }
RULE(conv_transpose_1d) { return is_f32(op->src[0]) && is_f32(op->src[1]); }

RULE(all_f32)
{
    for (int i = 0; i < 4; i++)
        if (op->src[i] && !is_f32(op->src[i])) return false;
    return is_f32(op);
}

RULE(arithmetic) { return is_f32_or_f16(op->src[0]) && is_f32_or_f16(op->src[1]) && is_f32_or_f16(op); }

RULE(mul_mat)
{
    const struct ggml_tensor *a = op->src[0], *b = op->src[1];
    if (a->nb[0] != ggml_element_size(a) || b->nb[0] != ggml_element_size(b)) return false;
    if (b->type == GGML_TYPE_F16 && a->type != GGML_TYPE_F16) return false;
    if (op->op == GGML_OP_MUL_MAT_ID && op->op_params[3] == GGML_PREC_F32) return false;
    return HAS(mul_mat_types, a->type);
}

RULE(get_rows)
{
    const struct ggml_tensor *a = op->src[0];
    return HAS(get_rows_types, a->type) || (HAS(get_rows_256_types, a->type) && a->ne[0] % 256 == 0);
}

RULE(get_rows_back) { return is_f32(op) && is_f32(op->src[0]) && op->ne[2] == 1 && op->ne[3] == 1; }

RULE(set_rows)
{
    const struct ggml_tensor *from = op->src[0], *ids = op->src[1];
    if (ids->type != GGML_TYPE_I64 && ids->type != GGML_TYPE_I32) return false;
    return (is_f32(from) && HAS(set_rows_types, op->type)) ||
           (from->type == GGML_TYPE_F16 && op->type == GGML_TYPE_F16);
}

RULE(set)
{
    return (is_f32(op) || op->type == GGML_TYPE_I32) && op->type == op->src[0]->type && op->type == op->src[1]->type;
}

RULE(cpy)
{
    enum ggml_type from = op->src[0]->type, to = op->src[1]->type;
    if (HAS(FLOATS, from) && HAS(FLOATS, to)) return true;
    if (from == GGML_TYPE_F32 && HAS(BASE_QUANTS | T(IQ4_NL) | T(I32), to)) return true;
    if (to == GGML_TYPE_F32 && HAS(BASE_QUANTS | T(I32), from)) return true;
    if (from == GGML_TYPE_I32 && to == GGML_TYPE_I32) return true;
    return from == to && ggml_is_contiguous(op->src[0]) && ggml_is_contiguous(op->src[1]);
}

RULE(repeat_back) { return is_f32(op) && op->src[0]->ne[2] * op->src[0]->ne[3] <= 1 << 15; }

RULE(concat)
{
    const struct ggml_tensor *a = op->src[0], *b = op->src[1];
    if (a->type != b->type || a->type != op->type) return false;
    int64_t block = ggml_blck_size(a->type);
    if (!ggml_is_quantized(a->type)) {
        size_t n = ggml_type_size(a->type);
        return block == 1 && (n == 1 || n == 2 || n == 4 || n == 8);
    }
    bool laid = op->op_params[0] == 3 ? ggml_is_contiguous(a) && ggml_is_contiguous(b)
                                      : ggml_is_contiguous_to_3(a) && ggml_is_contiguous_to_3(b);
    return laid && a->ne[0] % block == 0 && b->ne[0] % block == 0;
}

RULE(col2im_1d)
{
    const struct ggml_tensor *a = op->src[0];
    return HAS(FLOATS, a->type) && op->type == a->type && ggml_is_contiguous(a) && ggml_is_contiguous(op);
}

RULE(rope)
{
    const struct ggml_tensor *a = op->src[0];
    return a->nb[0] == ggml_type_size(a->type) && ggml_is_contiguous_2(a);
}

RULE(ssm_scan)
{
    const int64_t *state = op->src[0]->ne; /* {d_state, d_head, n_head, n_seqs} */
    if (op->src[3]->ne[0] == 1)            /* Mamba-2 */
        return (state[0] == 128 || state[0] == 256) && state[1] % 16 == 0;
    if (op->op_params[0] > 1) return false;
    return state[0] == 16 && state[1] == 1 && state[2] % 128 == 0 && op->src[4]->ne[1] == 1;
}

/* 16-byte aligned rows in all dimensions, as the kernels that load four values at a time want them. */
static bool aligned_rows(const struct ggml_tensor *t)
{
    if (!t || ggml_is_quantized(t->type)) return true;
    for (int i = 1; i < GGML_MAX_DIMS; i++)
        if (t->nb[i] % 16 != 0) return false;
    return true;
}

RULE(lightning_indexer)
{
    const struct ggml_tensor *q = op->src[0], *k = op->src[1];
    return q->ne[0] == 128 && (q->ne[1] == 64 || q->ne[1] == 32) && aligned_rows(q) && aligned_rows(k) &&
           HAS(kv_types, k->type);
}

/* Head sizes with a kernel. `gqa`: only where query heads can be grouped per KV head, in multiples of so many. */
static const struct {
    int64_t k, v;
    int gqa;
} heads[] = {
    { 40, 40, 0 },   { 64, 64, 0 },   { 72, 72, 0 },   { 80, 80, 0 },    { 96, 96, 0 },   { 112, 112, 0 },
    { 128, 128, 0 }, { 256, 256, 0 }, { 192, 128, 8 }, { 320, 256, 32 }, { 512, 512, 1 }, { 576, 512, 1 },
};

/* The kernel that gathers only the keys a sparse mask leaves; it takes a decode away from the vector kernel. */
static bool sparse_decode(const struct ggml_tensor *op, int64_t gqa)
{
    const struct ggml_tensor *q = op->src[0], *k = op->src[1], *v = op->src[2], *mask = op->src[3];
    if (gqa <= 4 || k->ne[0] != v->ne[0] || (k->ne[0] != 256 && k->ne[0] != 512)) return false;
    int64_t n_kv = op->op_params[4];
    int64_t n_gather = (q->ne[1] < 8 ? q->ne[1] : 8) * n_kv;
    int64_t floor = 2 * n_gather > 4096 ? 2 * n_gather : 4096;
    return mask && n_kv > 0 && param_f32(op, 1) == 0.0f && param_f32(op, 2) == 0.0f && mask->ne[0] == k->ne[1] &&
           mask->ne[1] >= q->ne[1] && mask->ne[2] == 1 && k->ne[1] >= floor;
}

/* With tensor cores (Turing and later): the vector kernel only for the smallest batches. */
static enum vr_attn_kernel kernel_turing(const struct ggml_tensor *op, int cc, int64_t gqa, bool grouped, bool vec_ok)
{
    const struct ggml_tensor *q = op->src[0], *k = op->src[1], *v = op->src[2];
    if (!vec_ok) return VR_ATTN_MMA;
    if (ggml_is_quantized(k->type) || ggml_is_quantized(v->type)) {
        if (q->ne[1] <= (cc >= 890 ? 2 : 1)) return VR_ATTN_VEC;
    } else if (cc >= 890 && q->ne[1] == 1 && q->ne[3] == 1 && !(grouped && sparse_decode(op, gqa)) &&
               !(gqa > 4 && (q->ne[0] >= 256 || k->ne[1] >= 8192))) {
        return VR_ATTN_VEC;
    }
    return !grouped && q->ne[1] == 1 ? VR_ATTN_VEC : VR_ATTN_MMA;
}

static enum vr_attn_kernel kernel_volta(const struct ggml_tensor *op, int64_t gqa, bool vec_ok)
{
    const struct ggml_tensor *q = op->src[0];
    int64_t max = q->ne[0] == 320 ? 32 : q->ne[0] == 576 || q->ne[0] == 192 ? 16 : 8;
    int64_t cols = 1;
    while (gqa % (2 * cols) == 0 && cols < max) cols *= 2;
    if (vec_ok && q->ne[1] * cols <= 2) return VR_ATTN_VEC;
    return q->ne[1] * cols <= 16 ? VR_ATTN_TILE : VR_ATTN_MMA;
}

/* Heads that look at the same head of the cache can be computed together. */
static bool is_grouped(const struct ggml_tensor *op)
{
    const struct ggml_tensor *q = op->src[0], *k = op->src[1], *v = op->src[2], *mask = op->src[3];
    return q->ne[2] / k->ne[2] >= 2 && mask && param_f32(op, 1) == 0.0f && k->ne[1] % 256 == 0 && aligned_rows(q) &&
           aligned_rows(k) && aligned_rows(v) && aligned_rows(mask);
}

enum vr_attn_kernel vr_rule_attn_kernel(const struct ggml_tensor *op, int cc)
{
    const struct ggml_tensor *q = op->src[0], *k = op->src[1], *v = op->src[2], *mask = op->src[3];
    int64_t gqa = q->ne[2] / k->ne[2];
    bool grouped = is_grouped(op);

    bool known = false;
    for (size_t i = 0; i < sizeof heads / sizeof heads[0] && !known; i++)
        known =
            heads[i].k == k->ne[0] && heads[i].v == v->ne[0] && (!heads[i].gqa || (grouped && gqa % heads[i].gqa == 0));
    if (!known || !HAS(kv_types, k->type) || !HAS(kv_types, v->type)) return VR_ATTN_NONE;
    if (mask && mask->ne[2] != 1) return VR_ATTN_NONE;

    int64_t head = q->ne[0];
    bool vec_ok = head <= 256 && head % 64 == 0 && head != 192 && k->ne[1] % 256 == 0;
    bool mma_ok = head != 40 && head != 72;
    if (arch_of(cc) >= 750 && mma_ok) return kernel_turing(op, cc, gqa, grouped, vec_ok);
    if (arch_of(cc) == 700 && mma_ok) return kernel_volta(op, gqa, vec_ok);
    if (vec_ok && (ggml_is_quantized(k->type) || ggml_is_quantized(v->type))) {
        if (q->ne[1] <= 2) return VR_ATTN_VEC;
    } else if (vec_ok && q->ne[1] == 1 && !grouped) {
        return VR_ATTN_VEC;
    }
    return VR_ATTN_TILE;
}

/* From Turing on the matrix kernel rounds up to what it has been made for: of eleven heads it computes sixteen. Without
 * tensor cores few heads of a batch are computed one by one. */
int vr_rule_attn_together(const struct ggml_tensor *op, int cc)
{
    enum vr_attn_kernel kernel = vr_rule_attn_kernel(op, cc);
    int64_t gqa = op->src[0]->ne[2] / op->src[1]->ne[2], head = op->src[0]->ne[0];
    if (kernel == VR_ATTN_NONE || kernel == VR_ATTN_VEC || !is_grouped(op)) return 1;
    if (kernel == VR_ATTN_TILE && gqa <= 4 && head <= 256 && op->src[0]->ne[1] > 16) return 1;
    int most = head == 320 ? 32 : head == 576 || head == 192 ? 16 : 8, n = 1;
    bool rounds = kernel == VR_ATTN_MMA && arch_of(cc) >= 750 && most == 8;
    while (n < most && (rounds ? n < gqa : gqa % (2 * n) == 0)) n *= 2;
    return n;
}

RULE(flash_attn) { return vr_rule_attn_kernel(op, cc) != VR_ATTN_NONE; }

bool vr_rule_supports(const struct ggml_tensor *op, int cc)
{
    static bool (*const by_op[GGML_OP_COUNT])(const struct ggml_tensor *, int) = {
#define OP(id, rule) [GGML_OP_##id] = rule,
#include "engine/vgpu/vgpu_ops.def"
#undef OP
    };
    return by_op[op->op] && by_op[op->op](op, cc);
}

bool vr_rule_offloads(const struct ggml_tensor *op, int least)
{
    switch (op->op) {
    case GGML_OP_GET_ROWS: return false;
    case GGML_OP_MUL_MAT: return op->ne[1] >= least;
    case GGML_OP_MUL_MAT_ID:
    case GGML_OP_ROPE:
    case GGML_OP_ROPE_BACK: return op->ne[2] >= least;
    default: return ggml_nrows(op) >= least;
    }
}

/* The vector kernel exists for these pairs; f32 is read as f16. For any other pair both become f16 first. */
static bool vec_reads(enum ggml_type k, enum ggml_type v)
{
    if (k == GGML_TYPE_F32) k = GGML_TYPE_F16;
    if (v == GGML_TYPE_F32) v = GGML_TYPE_F16;
    return k == v && HAS(T(F16) | T(BF16) | T(Q4_0) | T(Q8_0), k);
}

static size_t attn_bytes(const struct ggml_tensor *op, int cc)
{
    const struct ggml_tensor *k = op->src[1], *v = op->src[2];
    enum vr_attn_kernel kernel = vr_rule_attn_kernel(op, cc);
    size_t n = ggml_nbytes(op);
    if (kernel == VR_ATTN_NONE) return n;
    bool all = kernel != VR_ATTN_VEC || !vec_reads(k->type, v->type);
    bool copy_k = k->type != GGML_TYPE_F16 && (all || k->type == GGML_TYPE_F32);
    bool copy_v = v->type != GGML_TYPE_F16 && (all || v->type == GGML_TYPE_F32);
    bool same = v->view_src && (v->view_src == k || (v->view_src == k->view_src && v->view_offs == k->view_offs));
    if (copy_k) n = GGML_PAD(n, VR_CUDA_ALIGN) + (size_t)ggml_nelements(k) * 2;
    if (copy_v && !same) n = GGML_PAD(n, VR_CUDA_ALIGN) + (size_t)ggml_nelements(v) * 2;
    return n;
}

size_t vr_rule_alloc_bytes(const struct ggml_tensor *t, int cc)
{
    enum { ROW = 512 }; /* matrix kernels read whole rows of so many weights */
    size_t n = t->op == GGML_OP_FLASH_ATTN_EXT ? attn_bytes(t, cc) : ggml_nbytes(t);
    if (ggml_is_quantized(t->type) && t->ne[0] % ROW != 0) n += ggml_row_size(t->type, ROW - t->ne[0] % ROW);
    return n;
}

/* --- the pool --- */

#define VECTORS 8 /* columns that the matrix-vector kernels take */

/* A float matrix times many columns is left to the vendor's library, which wants all in one type: f16 where the device
 * computes well with it and the product does not ask for more. */
static size_t blas_pool_bytes(const struct ggml_tensor *t, int cc)
{
    const struct ggml_tensor *a = t->src[0], *b = t->src[1];
    bool f16_ok = cc >= 600 && cc != 610, f32 = t->op_params[0] == GGML_PREC_F32;
    enum ggml_type type = ggml_is_quantized(a->type) ? GGML_TYPE_F16 : a->type;
    if (f32 || (type == GGML_TYPE_F16 && !f16_ok) || (type == GGML_TYPE_BF16 && cc < 800)) type = GGML_TYPE_F32;
    size_t each = ggml_type_size(type), n = 0;
    if (a->type != type) n += (size_t)ggml_nelements(a) * each;
    if (b->type != type) n += (size_t)ggml_nelements(b) * each;
    if (type == GGML_TYPE_F16 && cc != 700) n += (size_t)ggml_nelements(t) * each;
    return n;
}

/* Quantized weights: the other side is rounded to 8 bits, in blocks of 32 with 4 bytes each; rows of whole 512s. */
static size_t rounded_bytes(const struct ggml_tensor *b, int64_t columns)
{
    return (size_t)(GGML_PAD(b->ne[0], 512) * columns) / 32 * 36;
}

size_t vr_rule_pool_bytes(const struct ggml_tensor *t, int cc)
{
    enum { DP4A_COLUMNS = 64 }; /* Volta multiplies more of them through f16 */
    if (t->op == GGML_OP_MUL_MAT_ID) {
        const struct ggml_tensor *a = t->src[0], *b = t->src[1], *ids = t->src[2];
        int64_t columns = ids->ne[1] <= VECTORS ? b->ne[1] * b->ne[2] : ids->ne[0] * ids->ne[1];
        if (ggml_is_quantized(a->type)) return rounded_bytes(b, columns);
        return ids->ne[1] <= VECTORS ? 0 : (size_t)((b->ne[0] + t->ne[0]) * columns) * sizeof(float);
    }
    if (t->op != GGML_OP_MUL_MAT || t->op_params[1] == GGML_HINT_SRC0_IS_HADAMARD) return 0;
    int64_t columns = t->src[1]->ne[1];
    bool plain = is_f32(t) && is_f32(t->src[1]);
    if (!ggml_is_quantized(t->src[0]->type)) return plain && columns <= VECTORS ? 0 : blas_pool_bytes(t, cc);
    if (plain && (cc < 700 || cc >= 750 || columns < DP4A_COLUMNS))
        return rounded_bytes(t->src[1], columns * t->src[1]->ne[2] * t->src[1]->ne[3]);
    return blas_pool_bytes(t, cc);
}

/* A factor of a product: all experts' outputs, or one weight for each of them. */
static bool is_full(const struct ggml_tensor *t, const struct ggml_tensor *mul)
{
    return t && is_f32(t) && ggml_is_contiguous(t) && ggml_are_same_shape(t, mul);
}
static bool is_weight(const struct ggml_tensor *t, const struct ggml_tensor *mul)
{
    return t && is_f32(t) && ggml_is_contiguous(t) && t->ne[0] == 1 && t->ne[1] == mul->ne[1] &&
           t->ne[2] == mul->ne[2] && t->ne[3] == mul->ne[3];
}
static bool factors(const struct ggml_tensor *mul, const struct ggml_tensor **full, const struct ggml_tensor **weight)
{
    for (int a = 0; a < 2; a++) {
        if (!is_full(mul->src[a], mul) || !is_weight(mul->src[1 - a], mul)) continue;
        *full = mul->src[a];
        *weight = mul->src[1 - a];
        return true;
    }
    return false;
}

/* View number `n` of the weighted outputs: expert n of every token. */
static bool is_expert_view(const struct ggml_tensor *t, const struct ggml_tensor *all, int n, int64_t n_tokens)
{
    return t->src[0] == all && t->view_src == all && is_f32(t) && t->ne[0] == all->ne[0] && t->ne[1] == n_tokens &&
           t->ne[2] == 1 && t->ne[3] == 1 && t->nb[0] == all->nb[0] && t->nb[1] == all->nb[2] &&
           t->view_offs == (size_t)n * all->nb[1];
}

/* The experts' outputs, times a scale perhaps, times the router's weight, then summed over the experts in order:
 * MUL [MUL] and, interleaved, a VIEW per expert and an ADD per expert but the first. */
int vr_rule_expert_sum(const struct ggml_cgraph *g, int i, const struct ggml_tensor **experts,
                       const struct ggml_tensor **scale, const struct ggml_tensor **weights)
{
    enum { MAX_EXPERTS = 15, MAX_NODES = 2 * MAX_EXPERTS + 1 };
    const struct ggml_tensor *first = g->nodes[i], *weighted = first, *scaled = NULL;
    if (first->op != GGML_OP_MUL || !is_f32(first) || !ggml_is_contiguous(first)) return 0;
    int n_muls = 1;
    const struct ggml_tensor *second = i + 1 < g->n_nodes ? g->nodes[i + 1] : NULL;
    *scale = NULL;
    if (second && second->op == GGML_OP_MUL && is_f32(second) && ggml_is_contiguous(second) &&
        factors(second, &scaled, weights) && scaled == first && factors(first, experts, scale)) {
        weighted = second;
        n_muls = 2;
    } else {
        *scale = NULL;
        if (!factors(first, experts, weights)) return 0;
    }

    int64_t k = weighted->ne[1], n_tokens = weighted->ne[2] * weighted->ne[3];
    if (k < 2 || k > MAX_EXPERTS || n_tokens <= 0) return 0;
    int n_nodes = 2 * (int)k + n_muls - 1;
    if (i + n_nodes > g->n_nodes) return 0;

    enum ggml_op ops[MAX_NODES];
    const struct ggml_tensor *views[MAX_EXPERTS], *sum = NULL;
    int n_views = 0, n_adds = 0;
    for (int n = 0; n < n_nodes; n++) {
        const struct ggml_tensor *t = g->nodes[i + n];
        ops[n] = n < n_muls ? GGML_OP_MUL : t->op;
        if (n < n_muls) continue;
        if (t->op == GGML_OP_VIEW) {
            if (n_views >= k || !is_expert_view(t, weighted, n_views, n_tokens)) return 0;
            views[n_views++] = t;
        } else {
            if (t->op != GGML_OP_ADD || n_adds + 1 >= n_views || !is_f32(t)) return 0;
            if (t->src[0] != (n_adds ? sum : views[0]) || t->src[1] != views[n_adds + 1]) return 0;
            sum = t;
            n_adds++;
        }
    }
    if (n_views != k || n_adds != k - 1 || !sum || !ggml_is_contiguous(sum) || sum->ne[0] != weighted->ne[0] ||
        sum->ne[1] != n_tokens || sum->ne[2] != 1 || sum->ne[3] != 1)
        return 0;
    int last = i + n_nodes - 1;
    return ggml_can_fuse_subgraph(g, i, n_nodes, ops, &last, 1) ? n_nodes : 0;
}

/* A walk along nodes that must follow one another. */
struct walk {
    const struct ggml_cgraph *g;
    int begin, at;
    enum ggml_op ops[16];
};

static const struct ggml_tensor *node_at(const struct walk *w)
{
    return w->at < w->g->n_nodes ? w->g->nodes[w->at] : NULL;
}

/* The node here is `op` and reads `src` first; `src` NULL takes any. Goes on. */
static bool step(struct walk *w, enum ggml_op op, const struct ggml_tensor *src)
{
    const struct ggml_tensor *t = node_at(w);
    if (!t || t->op != op || (src && t->src[0] != src)) return false;
    w->ops[w->at++ - w->begin] = op;
    return true;
}

static const struct ggml_tensor *behind(const struct walk *w, int n) { return w->g->nodes[w->at - n]; }

/* Division by the sum of the chosen weights: RESHAPE SUM_ROWS CLAMP DIV RESHAPE. All or nothing. */
static void step_norm(struct walk *w)
{
    struct walk n = *w;
    if (!step(&n, GGML_OP_RESHAPE, behind(&n, 1)) || !step(&n, GGML_OP_SUM_ROWS, behind(&n, 1)) ||
        !step(&n, GGML_OP_CLAMP, behind(&n, 1)))
        return;
    const struct ggml_tensor *div = node_at(&n);
    if (!step(&n, GGML_OP_DIV, behind(&n, 3)) || div->src[1] != behind(&n, 2)) return;
    if (step(&n, GGML_OP_RESHAPE, behind(&n, 1))) *w = n;
}

/* Kernels exist for these numbers of experts. */
static bool expert_count_ok(const struct ggml_tensor *ids)
{
    size_t n = ids->nb[1] / ids->nb[0];
    return ((n & (n - 1)) == 0 && n <= 512) || n == 288 || n == 576;
}

static bool softmax_plain(const struct ggml_tensor *t)
{
    return ggml_is_contiguous(t->src[0]) && param_f32(t, 0) == 1.0f && param_f32(t, 1) == 0.0f && !t->src[1] &&
           !t->src[2];
}

/* The router: probabilities of all experts, the best k of them, their weights, perhaps normalised and scaled. */
int vr_rule_expert_choice(const struct ggml_cgraph *g, int i)
{
    struct walk w = { .g = g, .begin = i, .at = i };
    const struct ggml_tensor *gate = g->nodes[i];
    if (gate->op == GGML_OP_SOFT_MAX) {
        if (!step(&w, GGML_OP_SOFT_MAX, NULL)) return 0;
    } else if (gate->op == GGML_OP_UNARY && ggml_get_unary_op(gate) == GGML_UNARY_OP_SIGMOID) {
        if (!step(&w, GGML_OP_UNARY, NULL)) return 0;
    } else if (gate->op == GGML_OP_UNARY && ggml_get_unary_op(gate) == GGML_UNARY_OP_SOFTPLUS) {
        if (!step(&w, GGML_OP_UNARY, NULL) || !step(&w, GGML_OP_SQRT, gate)) return 0;
    } else {
        return 0;
    }

    const struct ggml_tensor *probs = behind(&w, 1), *ranked = probs;
    if (!step(&w, GGML_OP_RESHAPE, probs)) return 0;
    const struct ggml_tensor *reshaped = behind(&w, 1);
    if (step(&w, GGML_OP_ADD, probs)) ranked = behind(&w, 1); /* a bias for ranking only */
    if (!step(&w, GGML_OP_ARGSORT, ranked) || !step(&w, GGML_OP_VIEW, behind(&w, 1))) return 0;
    int outputs[2] = { w.at - 1, 0 };
    const struct ggml_tensor *ids = behind(&w, 1);
    const struct ggml_tensor *chosen = node_at(&w);
    if (!step(&w, GGML_OP_GET_ROWS, reshaped) || chosen->src[1] != ids) return 0;
    step_norm(&w);
    step(&w, GGML_OP_SCALE, behind(&w, 1));

    outputs[1] = w.at - 1;
    if (!ggml_can_fuse_subgraph(g, i, w.at - i, w.ops, outputs, 2)) return 0;
    if (!expert_count_ok(ids) || !ggml_is_contiguous(behind(&w, 1)) || !ggml_is_contiguous(gate->src[0])) return 0;
    if (gate->op == GGML_OP_SOFT_MAX && !softmax_plain(gate)) return 0;
    return w.at - i;
}

int vr_rule_expert_choice_late(const struct ggml_cgraph *g, int i)
{
    static const enum ggml_op ops[] = { GGML_OP_ARGSORT, GGML_OP_VIEW,     GGML_OP_GET_ROWS,
                                        GGML_OP_RESHAPE, GGML_OP_SOFT_MAX, GGML_OP_RESHAPE };
    enum { N = sizeof ops / sizeof ops[0] };
    int outputs[2] = { i + 1, i + N - 1 };
    if (!ggml_can_fuse_subgraph(g, i, N, ops, outputs, 2)) return 0;
    struct ggml_tensor **n = &g->nodes[i];
    for (int k = 3; k < N; k++)
        if (n[k]->src[0] != n[k - 1]) return 0;
    if (i == 0 || n[1]->src[0] != n[0] || n[2]->src[0] != n[-1] || n[2]->src[1] != n[1]) return 0;
    return expert_count_ok(n[1]) && softmax_plain(n[4]) && ggml_is_contiguous(n[5]) ? N : 0;
}

void vr_rule_optimize(const struct ggml_cgraph *g, const struct ggml_backend_graph_optimize_params *p)
{
    for (int i = 0; i < g->n_nodes; i++) {
        const struct ggml_tensor *experts, *scale, *weights;
        int n = vr_rule_expert_sum(g, i, &experts, &scale, &weights);
        if (n) {
            const struct ggml_tensor *keep[] = { experts, weights, scale };
            struct ggml_tensor *until = g->nodes[i + n - 1];
            for (int k = 0; k < 3; k++)
                if (keep[k]) p->add_alloc_dep(p->user_data, (struct ggml_tensor *)(uintptr_t)keep[k], until);
            i += n - 1;
        }
        n = vr_rule_expert_choice(g, i);
        if (!n) continue;
        /* until the node behind the group, which may already be the next split's: the nodes of all splits are one
         * array, and a router is never its last part */
        struct ggml_tensor *until = g->nodes[i + n];
        for (int k = i; k < i + n; k++) {
            p->add_alloc_dep(p->user_data, g->nodes[k], until);
            for (int s = 0; s < GGML_MAX_SRC; s++)
                if (g->nodes[k]->src[s]) p->add_alloc_dep(p->user_data, g->nodes[k]->src[s], until);
        }
        i += n - 1;
    }
}

uint64_t vr_rule_reduce_bytes(const int *cc, size_t n)
{
    enum { COPY_MIB = 32, SINCE_CC = 700 };
    return n == 2 && cc[0] >= SINCE_CC && cc[1] >= SINCE_CC ? COPY_MIB * VR_MIB : 0;
}
