#include "fit/price.h"

#include <math.h>

/* Caches are read up to the last filled cell, rounded up to this many. */
#define CELL_PAD 256.0

static size_t place_of(const struct vr_pricing *p, uint32_t device)
{
    return device < p->n_devices ? p->machine_device[device] : VR_SPEED_HOST;
}

/* How much of a cache of so many cells is read. A sliding window is full as soon as the context is longer. */
static double read_share(const struct vr_pricing *p, uint32_t cells)
{
    if (cells == 0) return 1;
    double filled = ceil(p->fill * p->n_ctx_seq / CELL_PAD) * CELL_PAD;
    if (filled < CELL_PAD) filled = CELL_PAD;
    return fmin(filled / cells, 1);
}

static double work_ms(const struct vr_pricing *p, const struct vr_work *w)
{
    double share = read_share(p, w->cells);
    double bytes = (double)w->weight_bytes + (double)w->cache_bytes * share + (double)w->act_bytes;
    return vr_speed_node_ms(&p->speeds->places[place_of(p, w->device)], w->type, bytes, (double)w->flops * share,
                            w->launches);
}

/* Overlapping micro-batches: the slowest place sets the pace. Otherwise one place works at a time. */
static double step(const struct vr_pricing *p, const struct vr_price *price, enum vr_phase phase)
{
    double sum = price->copy_ms[phase], slowest = 0;
    for (size_t i = 0; i <= p->n_devices; i++) {
        sum += price->ms[phase][i];
        slowest = fmax(slowest, price->ms[phase][i]);
    }
    return phase == VR_PREFILL && p->pipeline ? fmax(slowest, price->copy_ms[phase]) : sum;
}

void vr_price(const struct vr_works *w, const struct vr_pricing *p, struct vr_price *out)
{
    *out = (struct vr_price){ 0 };
    for (uint32_t i = 0; i < w->n_rows; i++) out->ms[w->rows[i].phase][w->rows[i].device] += work_ms(p, &w->rows[i]);
    for (uint32_t i = 0; i < w->n_transfers; i++) {
        const struct vr_transfer *t = &w->transfers[i];
        if (t->n == 0) continue;
        double each = (double)t->bytes / t->n;
        out->copy_ms[t->phase] += t->n * vr_speed_hop_ms(p->speeds, place_of(p, t->from), place_of(p, t->to), each);
    }
    for (enum vr_phase phase = 0; phase < VR_N_PHASES; phase++) out->step_ms[phase] = step(p, out, phase);
    if (out->step_ms[VR_DECODE] > 0) out->decode_tok_s = 1e3 / out->step_ms[VR_DECODE];
    if (out->step_ms[VR_PREFILL] > 0) out->prefill_tok_s = 1e3 * p->n_ubatch / out->step_ms[VR_PREFILL];
}
