/* The time of a row: products with weights by the rates of their type, all else by its own kind where that was
 * measured. */
#include "plan/work.h"

#include <math.h>
#include <string.h>

#include "gguf/type.h"

/* Caches are read up to the last filled cell, rounded up to this many. */
#define CELL_PAD 256.0
/* Columns of the matrices that rotate heads: larger ones compute more for each byte. */
#define MOST_ROTATED 256
/* Heads that share a head of the cache, from which on a device's attention is measured for many. */
#define MANY_HEADS 6
/* Cells that one part of a device's attention reads, and from how many on there are all parts that there will be. */
#define FEW_CELLS  256.0
#define MANY_CELLS 4096.0

/* How much of a cache of so many cells is worked on. A sliding window is full as soon as the context is longer. Flash
 * attention passes over cells that nobody may see: in a prompt each token sees those before it, and on the host single
 * tokens see no padding. CUDA's gains nothing by it (`whole`): each multiprocessor gets as many cells of a batch, and
 * those that pass over theirs wait for the others. */
double vr_work_share(const struct vr_work *w, const struct vr_fill *f, bool whole)
{
    if (w->cells == 0) return 1;
    bool skips = strcmp(w->name, "FLASH_ATTN_EXT") == 0, prompt = w->phase == VR_PREFILL;
    double filled = f->share * f->n_ctx_seq;
    if (skips && prompt && !whole)
        filled = fmax(filled - f->n_ubatch / 2.0, f->n_ubatch / 2.0);
    else if (!skips || whole)
        filled = fmax(ceil(filled / CELL_PAD) * CELL_PAD, CELL_PAD);
    return fmin(fmax(filled, 1) / w->cells, 1);
}

static double or_more(double rate, double otherwise) { return rate > 0 ? rate : otherwise; }

/* The longer of reading and computing: a kernel does both at once. */
static double busy_ms(double bytes, double gbs, double flops, double tflops)
{
    return fmax(bytes / (gbs * 1e6), flops / (tflops * 1e9));
}

/* How many heads a device computes for each that there is: its kernel fills its places up. */
static double filled_up(const struct vr_work *w)
{
    if (w->heads == 0 || w->together <= 1) return 1;
    return ceil((double)w->heads / w->together) * w->together / w->heads;
}

/* A batch's attention by how many heads the kernel takes at once: what they have in common is fetched once. Two are in
 * the middle of one and four. */
static double batch_tflops(const struct vr_speed *s, const struct vr_work *w, const struct vr_speed_op *four,
                           double cells)
{
    const struct vr_speed_op *one = vr_speed_find(s, VR_OP_ATTENTION_ONE, w->type);
    const struct vr_speed_op *many = vr_speed_find(s, VR_OP_ATTENTION_MANY, w->type);
    double usual = vr_speed_prompt_tflops(four, cells);
    if (w->together >= 8) return or_more(many ? many->prompt_tflops : 0, usual);
    if (w->together == 0 || w->together > 2 || !one || !(one->prompt_tflops > 0)) return usual;
    return w->together == 2 ? sqrt(one->prompt_tflops * usual) : one->prompt_tflops;
}

/* The kind of an operation that may have been measured by itself; VR_N_OPS: none. */
static enum vr_op_kind kind_of(const struct vr_work *w)
{
    static const struct {
        const char *name;
        enum vr_op_kind kind;
    } rows[] = { { "FLASH_ATTN_EXT", VR_OP_ATTENTION },
                 { "SET_ROWS", VR_OP_SET_ROWS },
                 { "SOFT_MAX", VR_OP_SOFT_MAX },
                 { "RMS_NORM", VR_OP_NORM },
                 { "NORM", VR_OP_NORM },
                 { "ROPE", VR_OP_ROPE },
                 { "SWIGLU", VR_OP_GLU },
                 { "GEGLU", VR_OP_GLU },
                 { "SWIGLU_OAI", VR_OP_GLU },
                 { "ADD", VR_OP_ADD },
                 { "CONT", VR_OP_CONT },
                 { "CPY", VR_OP_CONT } };
    if (strcmp(w->name, "MUL_MAT") == 0)
        return w->cache_bytes ? VR_OP_CACHE_PRODUCT : w->columns <= MOST_ROTATED ? VR_OP_ROTATE : VR_N_OPS;
    if (strcmp(w->name, "MUL") == 0) return w->weight_bytes ? VR_OP_NORM : VR_OP_ADD; /* the second half of a norm */
    for (size_t i = 0; i < VR_COUNT(rows); i++)
        if (strcmp(w->name, rows[i].name) == 0) return rows[i].kind;
    return VR_N_OPS;
}

/* What an operation's kernels cost at any size. Over a cache it was measured as a whole, however many kernels it is
 * made of; the more cells, the more parts there are to put together, up to where it was measured, or to the next
 * kernel. */
static double kernels_ms(const struct vr_speed *s, const struct vr_work *w, uint32_t launches,
                         const struct vr_speed_op *op, enum vr_op_kind kind, double share)
{
    if (w->phase == VR_PREFILL) return launches * s->launch_ms;
    if (!op) return launches * or_more(s->other_ms, s->launch_ms);
    if (kind != VR_OP_ATTENTION && kind != VR_OP_CACHE_PRODUCT) return launches * op->ms;
    double cells = w->cells * share, parts = fmax((cells - FEW_CELLS) / (MANY_CELLS - FEW_CELLS), 0);
    if (parts > 1 && cells > op->long_cells) parts = 1;
    return w->n * (op->ms + parts * op->long_ms);
}

/* What is no product with weights. Where another row's kernel does it along, its activations never leave the chip. */
static double other_ms(const struct vr_speed *s, const struct vr_work *w, uint32_t launches, bool on_device,
                       double share, double all_bytes)
{
    bool prompt = w->phase == VR_PREFILL;
    double cache = (double)w->cache_bytes * share, act = (double)w->act_bytes * share, flops = (double)w->flops * share;
    double cells = w->cells * share;
    enum vr_op_kind kind = kind_of(w);
    const struct vr_speed_op *op = kind == VR_N_OPS ? NULL : vr_speed_find(s, kind, w->type), *many = NULL;
    if (kind == VR_OP_ATTENTION && !prompt && w->heads >= MANY_HEADS)
        many = vr_speed_find(s, VR_OP_ATTENTION_MANY, w->type);
    if (many) op = many;
    double least = kernels_ms(s, w, launches, op, kind, share);
    if (launches == 0) act = 0;
    if (kind == VR_OP_ATTENTION) {
        double gbs = op ? or_more(op->gbs, s->gbs * (double)s->share[VR_TYPE_F16]) : s->attention_gbs;
        double one = op ? or_more(vr_speed_tflops(s, op, cells, all_bytes), s->attention_tflops) : s->attention_tflops;
        double batch = op ? or_more(batch_tflops(s, w, op, cells), s->attention_tflops) : s->attention_tflops;
        return busy_ms(cache, gbs, flops * (s->whole_tiles ? filled_up(w) : 1), prompt ? batch : one) + least;
    }
    double bytes = kind == VR_OP_CACHE_PRODUCT && op ? cache : (double)w->weight_bytes + cache + act;
    if (!op) return vr_speed_node_ms(s, VR_TYPE_F32, bytes, flops, 0) + least;
    if (kind == VR_OP_NORM && on_device && !prompt) /* a device takes all rows at once: one row's time */
        bytes = launches * 2.0 * sizeof(float) * w->columns;
    double usual = s->gbs * (double)s->share[VR_TYPE_F32], gbs = prompt ? op->prompt_gbs : op->gbs;
    double tflops = prompt ? op->prompt_tflops : vr_speed_tflops(s, op, cells, all_bytes);
    return busy_ms(bytes, or_more(gbs, usual), tflops > 0 ? flops : 0, or_more(tflops, 1)) + least;
}

/* What a kernel of a batch's product costs at any size. Floats are cuBLAS's work: it takes the host longer to start
 * than the device to do, so what was measured is that, and price->submit_ms has part of it. */
static double prompt_kernel_ms(const struct vr_speed *s, uint32_t type)
{
    double ms = or_more((double)s->prompt_type_ms[type], s->launch_ms + s->prompt_product_ms);
    return vr_type_is_quantized(type) ? ms : fmax(ms - s->prompt_submit_ms, 0);
}

/* How many tiles of tokens an expert computes that gets `mean` of them, give or take what chance does. */
static double tiles(double mean, double tile)
{
    double spread = sqrt(2 * mean), sure = fmax(floor((mean - 4 * spread) / tile), 0), n = 1 + sure;
    for (double full = (sure + 1) * tile; full < mean + 4 * spread; full += tile)
        n += erfc((full + 0.5 - mean) / spread) / 2;
    return n;
}

/* A batch's product by expert: each goes through its weights once for every tile of its tokens, however few are in it.
 */
static double experts_ms(const struct vr_speed *s, const struct vr_work *w, uint32_t type)
{
    const struct vr_type *t = vr_type(type);
    double bytes = (double)w->weight_bytes, weights = bytes / t->bytes * t->block;
    double ms = bytes / ((double)s->expert_read[type] * 1e6);
    if (s->expert_again[type] > 0 && weights > 0)
        ms += (tiles((double)w->flops / (2 * weights), s->tile) - 1) * bytes / ((double)s->expert_again[type] * 1e6);
    return ms + (double)w->flops / ((double)s->expert_matrix[type] * 1e9);
}

double vr_work_ms(const struct vr_work *w, const struct vr_fill *f, const struct vr_speed *s, bool on_device,
                  double all_bytes)
{
    uint32_t type = w->type < VR_SPEED_TYPES ? w->type : VR_TYPE_F32, launches = on_device ? w->kernels : w->n;
    bool prompt = w->phase == VR_PREFILL, whole = prompt ? s->whole_tiles : on_device;
    if (!w->weight_bytes || strncmp(w->name, "MUL_MAT", 7) != 0)
        return other_ms(s, w, launches, on_device, vr_work_share(w, f, whole), all_bytes);
    bool experts = strcmp(w->name, "MUL_MAT_ID") == 0;
    double bytes = (double)w->weight_bytes;
    double reading = vr_speed_read_ms(s, type, experts, bytes, w->columns, all_bytes);
    double computing = (double)w->flops / ((double)(experts ? s->expert_matrix : s->matrix)[type] * 1e9);
    double act_gbs = experts && s->expert_act[type] > 0 ? (double)s->expert_act[type] : s->act_gbs;
    double moving = prompt && act_gbs > 0 ? (double)w->act_bytes / (act_gbs * 1e6) : 0;
    double ms = fmax(reading + moving, computing);
    if (prompt && experts && s->expert_read[type] > 0) ms = experts_ms(s, w, type) + moving;
    if (prompt) return ms + launches * prompt_kernel_ms(s, type);
    ms += launches * or_more((double)s->type_ms[type], s->launch_ms + s->product_ms);
    return fmax(ms, launches * (double)s->least_ms[type]);
}
