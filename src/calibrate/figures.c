#include "calibrate/figures.h"

#include <math.h>
#include <string.h>

#include "base/rank.h"
#include "hw/profile.h"
#include "plan/speed.h"

#define LEAST_US 0.01 /* 0 would mean: not measured */

/* --- kernels and steps --- */

double vr_figure_submit_ms(const struct vr_timed *few, const struct vr_timed *many)
{
    double kernels = many->slow_starts - few->slow_starts;
    return kernels > 0 ? fmax((many->took - few->took) / kernels, 0) : 0;
}

double vr_figure_prompt_submit_ms(const struct vr_timed *few, const struct vr_timed *many)
{
    double kernels = (many->slow_starts - many->free_starts) - (few->slow_starts - few->free_starts);
    double left = (many->took - many->free_starts) - (few->took - few->free_starts);
    return kernels > 0 ? fmax(left / kernels, 0) : 0;
}

double vr_figure_beyond_us(double took_ms, double priced_ms) { return fmax(took_ms - priced_ms, 0) * 1e3; }

double vr_figure_switch_us(double took_ms, double free_ms, double slow_ms)
{
    double changes = slow_ms - free_ms;
    return changes > 0 ? fmax((took_ms - free_ms) / changes * 1e3, LEAST_US) : 0;
}

/* --- memory --- */

uint64_t vr_figure_outside_bytes(const struct vr_measure_run *r)
{
    uint64_t planned = r->devices[0].model_bytes + r->devices[0].context_bytes + r->devices[0].compute_bytes;
    uint64_t most =
        r->devices[0].after_bytes > r->devices[0].loaded_bytes ? r->devices[0].after_bytes : r->devices[0].loaded_bytes;
    uint64_t taken = most > r->devices[0].before_bytes ? most - r->devices[0].before_bytes : 0;
    return taken > planned ? taken - planned : 0;
}

void vr_figure_memory(uint64_t plain, uint64_t floats, uint64_t experts, struct vr_measured *m)
{
    uint64_t most = floats > experts ? floats : experts;
    m->runtime_bytes = plain;
    m->blas_bytes = most > plain ? most - plain : 0;
}

/* --- products, operations, links --- */

void vr_figure_product(const struct vr_measure_products *p, struct vr_measured_type *t)
{
    double kernels = p->kernels > 0 ? p->kernels : 1;
    t->gbs = p->gbs, t->tflops = p->tflops;
    t->expert_gbs = p->expert_gbs, t->expert_tflops = p->expert_tflops;
    t->cached_gbs = p->cached_gbs, t->wide_gbs = p->wide_gbs;
    t->row_ns = p->row_ns, t->expert_row_ns = p->expert_row_ns;
    t->least_us = p->least_us;
    t->expert_prompt_gbs = p->expert_prompt_gbs;
    t->expert_again_gbs = p->expert_again_gbs, t->expert_act_gbs = p->expert_act_gbs;
    t->us = p->product_us / kernels;
    t->prompt_us = p->prompt_product_us / kernels;
}

void vr_figure_products(double *us, double *prompt_us, size_t n, struct vr_measured *m)
{
    if (n == 0) return;
    m->product_us = vr_rank(us, n, 0.5);
    m->prompt_product_us = vr_rank(prompt_us, n, 0.5);
}

void vr_figure_kernels(bool device, struct vr_measured *m)
{
    m->launch_us = device ? m->product_us : vr_op_middle_us(m);
    m->product_us = fmax(m->product_us - m->launch_us, 0);
    m->prompt_product_us = device ? fmax(m->prompt_product_us - m->launch_us, 0) : m->product_us;
}

void vr_figure_attention(const struct vr_measured_op *op, struct vr_measured *m)
{
    if (strcmp(op->name, vr_op_name(VR_OP_ATTENTION)) != 0 || strcmp(op->type, "f16") != 0) return;
    /* of the host operations are known, four for each byte in this shape */
    m->attention_gbs = op->gbs > 0 ? op->gbs : op->tflops * 1e3 / 4;
    m->attention_tflops = op->prompt_tflops;
}

void vr_figure_link(const struct vr_measure_link *l, struct vr_measured *m)
{
    m->up_gbs = l->up_gbs, m->up_us = l->up_us;
    m->down_gbs = l->down_gbs, m->down_us = l->down_us;
    m->mapped_gbs = l->mapped_gbs, m->mapped_expert_gbs = l->mapped_expert_gbs;
}

void vr_figure_link_again(const struct vr_measure_link *l, struct vr_measured *m)
{
    m->up_gbs = fmax(m->up_gbs, l->up_gbs);
    m->down_gbs = fmax(m->down_gbs, l->down_gbs);
    vr_rate_again(&m->mapped_gbs, l->mapped_gbs, NULL, 0);
    vr_rate_again(&m->mapped_expert_gbs, l->mapped_expert_gbs, NULL, 0);
}

void vr_figure_pair(const struct vr_measure_link *l, struct vr_link *out)
{
    out->measured_gbs = fmin(l->up_gbs, l->down_gbs);
    out->measured_us = fmax(l->up_us, l->down_us);
}

void vr_figure_twin(const struct vr_measured *twin, struct vr_measured *m)
{
    const struct vr_measure_link own = { .up_gbs = m->up_gbs,
                                         .up_us = m->up_us,
                                         .down_gbs = m->down_gbs,
                                         .down_us = m->down_us,
                                         .mapped_gbs = m->mapped_gbs,
                                         .mapped_expert_gbs = m->mapped_expert_gbs };
    *m = *twin;
    vr_figure_link(&own, m);
}
