#include "fit/price.h"

#include <math.h>
#include <string.h>

#include "gguf/type.h"

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

/* The longer of reading and computing: a kernel does both at once. */
static double busy_ms(double bytes, double gbs, double flops, double tflops)
{
    return fmax(bytes / (gbs * 1e6), flops / (tflops * 1e9));
}

static double work_ms(const struct vr_pricing *p, const struct vr_work *w)
{
    const struct vr_speed *s = &p->speeds->places[place_of(p, w->device)];
    double share = read_share(p, w->cells), flops = (double)w->flops * share;
    double cache = (double)w->cache_bytes * share, act = (double)w->act_bytes;
    uint32_t type = w->type < VR_SPEED_TYPES ? w->type : VR_TYPE_F32;
    bool prompt = w->phase == VR_PREFILL;
    double launch_ms = prompt ? s->prompt_launch_ms : s->launch_ms, ms;
    if (strcmp(w->name, "FLASH_ATTN_EXT") == 0) {
        ms = busy_ms(cache, s->attention_gbs, flops, s->attention_tflops);
    } else if (w->weight_bytes && strncmp(w->name, "MUL_MAT", 7) == 0) {
        bool experts = strcmp(w->name, "MUL_MAT_ID") == 0;
        ms = busy_ms((double)w->weight_bytes, s->gbs * (double)(experts ? s->expert_share : s->share)[type], flops,
                     (double)(experts ? s->expert_matrix : s->matrix)[type]);
        launch_ms += prompt ? s->prompt_product_ms : s->product_ms;
    } else {
        ms = vr_speed_node_ms(s, VR_TYPE_F32, (double)w->weight_bytes + cache + act, flops, 0);
    }
    return ms + w->launches * launch_ms;
}

/* Overlapping micro-batches: the slowest place sets the pace. Otherwise one place works at a time. */
static double step(const struct vr_pricing *p, const struct vr_price *price, enum vr_phase phase)
{
    double sum = price->copy_ms[phase], slowest = 0;
    for (size_t i = 0; i <= p->n_devices; i++) {
        sum += price->ms[phase][i];
        slowest = fmax(slowest, price->ms[phase][i]);
    }
    double ms = phase == VR_PREFILL && p->pipeline ? fmax(slowest, price->copy_ms[phase]) : sum;
    return ms + price->fixed_ms[phase];
}

/* Splits beyond one for each place in use: generating goes back and forth between the devices and the host. */
static double switch_ms(const struct vr_works *w, const struct vr_pricing *p, const struct vr_price *price)
{
    uint32_t places = 1;
    double ms = 0;
    for (size_t i = 0; i < p->n_devices; i++) {
        if (!(price->ms[VR_DECODE][i] > 0)) continue;
        places++;
        ms = fmax(ms, p->speeds->places[place_of(p, (uint32_t)i)].switch_ms);
    }
    return w->n_splits[VR_DECODE] > places ? (w->n_splits[VR_DECODE] - places) * ms : 0;
}

/* What a step costs whatever is in it: of the slowest device that has part in it; the host's own when none has. */
static void fix(const struct vr_pricing *p, struct vr_price *price)
{
    for (enum vr_phase phase = 0; phase < VR_N_PHASES; phase++) {
        size_t n = 0;
        for (size_t i = 0; i < p->n_devices; i++) n += price->ms[phase][i] > 0;
        for (size_t i = n ? 0 : p->n_devices; i < (n ? p->n_devices : p->n_devices + 1); i++) {
            const struct vr_speed *s = &p->speeds->places[place_of(p, (uint32_t)i)];
            double ms = phase == VR_DECODE ? s->step_ms : s->prompt_step_ms;
            if (price->ms[phase][i] > 0) price->fixed_ms[phase] = fmax(price->fixed_ms[phase], ms);
        }
    }
}

void vr_price(const struct vr_works *w, const struct vr_pricing *p, struct vr_price *out)
{
    *out = (struct vr_price){ 0 };
    double submit_ms[VR_PRICE_PLACES] = { 0 };
    for (uint32_t i = 0; i < w->n_rows; i++) {
        const struct vr_work *r = &w->rows[i];
        out->ms[r->phase][r->device] += work_ms(p, r);
        if (r->phase == VR_DECODE)
            submit_ms[r->device] += r->launches * p->speeds->places[place_of(p, r->device)].submit_ms;
    }
    /* small kernels end faster than the host can start them: then the host sets the pace */
    for (size_t i = 0; i < p->n_devices; i++) out->ms[VR_DECODE][i] = fmax(out->ms[VR_DECODE][i], submit_ms[i]);
    for (uint32_t i = 0; i < w->n_transfers; i++) {
        const struct vr_transfer *t = &w->transfers[i];
        if (t->n == 0) continue;
        double each = (double)t->bytes / t->n;
        size_t from = place_of(p, t->from), to = place_of(p, t->to);
        bool sent = t->weights && from == VR_SPEED_HOST;
        out->copy_ms[t->phase] += t->n * (sent ? vr_speed_send_ms(p->speeds, to, t->experts, each)
                                               : vr_speed_hop_ms(p->speeds, from, to, each));
    }
    out->copy_ms[VR_DECODE] += switch_ms(w, p, out);
    fix(p, out);
    for (enum vr_phase phase = 0; phase < VR_N_PHASES; phase++) out->step_ms[phase] = step(p, out, phase);
    if (out->step_ms[VR_DECODE] > 0) out->decode_tok_s = 1e3 / out->step_ms[VR_DECODE];
    if (out->step_ms[VR_PREFILL] > 0) out->prefill_tok_s = 1e3 * p->n_ubatch / out->step_ms[VR_PREFILL];
}
