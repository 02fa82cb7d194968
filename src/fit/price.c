#include "fit/price.h"

#include <math.h>

static size_t place_of(const struct vr_pricing *p, uint32_t device)
{
    return device < p->n_devices ? p->machine_device[device] : VR_SPEED_HOST;
}

static const struct vr_speed *speed_of(const struct vr_pricing *p, uint32_t device)
{
    return p->n_devices ? &p->speeds->places[place_of(p, device)] : &p->speeds->alone;
}

/* Overlapping micro-batches: the slowest place sets the pace, be it the host that makes their graphs, and devices that
 * share a card take turns. Otherwise one place works at a time. */
static double step(const struct vr_pricing *p, const struct vr_price *price, enum vr_phase phase)
{
    double sum = price->copy_ms[phase], slowest = 0, busy[VR_MAX_DEVICES + 1] = { 0 };
    for (size_t i = 0; i <= p->n_devices; i++) {
        size_t place = place_of(p, (uint32_t)i), card = place == VR_SPEED_HOST ? place : p->speeds->card[place];
        sum += price->ms[phase][i];
        busy[card] += price->ms[phase][i];
        slowest = fmax(slowest, busy[card]);
    }
    double starting = phase == VR_PREFILL ? price->submit_ms : 0;
    bool overlap = phase == VR_PREFILL && p->pipeline;
    double ms = overlap ? fmax(fmax(slowest, price->copy_ms[phase]), starting) : sum + starting;
    return ms + price->fixed_ms[phase];
}

/* Splits beyond one for each place in use: a step goes back and forth between the devices and the host. */
static double switch_ms(const struct vr_works *w, const struct vr_pricing *p, const struct vr_price *price,
                        enum vr_phase phase)
{
    uint32_t places = 1;
    double ms = 0;
    for (size_t i = 0; i < p->n_devices; i++) {
        const struct vr_speed *s = &p->speeds->places[place_of(p, (uint32_t)i)];
        if (!(price->ms[phase][i] > 0)) continue;
        places++;
        ms = fmax(ms, phase == VR_DECODE ? s->switch_ms : s->prompt_switch_ms);
    }
    return w->n_splits[phase] > places ? (w->n_splits[phase] - places) * ms : 0;
}

/* What a step costs whatever is in it: of the slowest device that has part in it; the host's own when none has. */
static void fix(const struct vr_pricing *p, struct vr_price *price)
{
    for (enum vr_phase phase = 0; phase < VR_N_PHASES; phase++) {
        size_t n = 0;
        for (size_t i = 0; i < p->n_devices; i++) n += price->ms[phase][i] > 0;
        for (size_t i = n ? 0 : p->n_devices; i < (n ? p->n_devices : p->n_devices + 1); i++) {
            const struct vr_speed *s = speed_of(p, (uint32_t)i);
            double ms = phase == VR_DECODE ? s->step_ms : s->prompt_step_ms;
            if (price->ms[phase][i] > 0) price->fixed_ms[phase] = fmax(price->fixed_ms[phase], ms);
        }
    }
}

/* Executing, place by place. Where small kernels end faster than the host can start them, the host sets the pace. */
static void execute(const struct vr_works *w, const struct vr_pricing *p, struct vr_price *out)
{
    double submit_ms[VR_PRICE_PLACES] = { 0 }, read[VR_N_PHASES][VR_PRICE_PLACES] = { 0 };
    for (uint32_t i = 0; i < w->n_rows; i++) {
        const struct vr_work *r = &w->rows[i];
        double share = vr_work_share(r, &p->fill, r->device < p->n_devices);
        read[r->phase][r->device] += (double)r->weight_bytes + (double)r->cache_bytes * share;
    }
    for (uint32_t i = 0; i < w->n_rows; i++) {
        const struct vr_work *r = &w->rows[i];
        const struct vr_speed *s = speed_of(p, r->device);
        bool on_device = r->device < p->n_devices;
        out->ms[r->phase][r->device] += vr_work_ms(r, &p->fill, s, on_device, read[r->phase][r->device]);
        if (on_device && r->phase == VR_DECODE) submit_ms[r->device] += r->kernels * s->submit_ms;
        if (on_device && r->phase == VR_PREFILL) out->submit_ms += r->kernels * s->prompt_submit_ms;
    }
    for (size_t i = 0; i < p->n_devices; i++) out->ms[VR_DECODE][i] = fmax(out->ms[VR_DECODE][i], submit_ms[i]);
}

double vr_price_cost(const struct vr_price *p, enum vr_optimize goal, const struct vr_pricing *pricing)
{
    double weight[VR_N_PHASES];
    vr_goal_weights(goal, pricing->n_seq, weight);
    return weight[VR_DECODE] * p->step_ms[VR_DECODE] +
           weight[VR_PREFILL] * p->step_ms[VR_PREFILL] / pricing->fill.n_ubatch;
}

void vr_price(const struct vr_works *w, const struct vr_pricing *p, struct vr_price *out)
{
    *out = (struct vr_price){ 0 };
    execute(w, p, out);
    for (uint32_t i = 0; i < w->n_transfers; i++) {
        const struct vr_transfer *t = &w->transfers[i];
        if (t->n == 0) continue;
        double each = (double)t->bytes / t->n;
        size_t from = place_of(p, t->from), to = place_of(p, t->to);
        bool sent = t->weights && from == VR_SPEED_HOST;
        out->copy_ms[t->phase] += t->n * (sent ? vr_speed_send_ms(p->speeds, to, t->experts, each)
                                               : vr_speed_hop_ms(p->speeds, from, to, each));
    }
    fix(p, out);
    for (enum vr_phase phase = 0; phase < VR_N_PHASES; phase++) {
        out->copy_ms[phase] += switch_ms(w, p, out, phase);
        out->step_ms[phase] = step(p, out, phase);
    }
    if (out->step_ms[VR_DECODE] > 0) out->decode_tok_s = 1e3 / out->step_ms[VR_DECODE];
    out->total_tok_s = out->decode_tok_s * p->n_seq;
    if (out->step_ms[VR_PREFILL] > 0) out->prefill_tok_s = 1e3 * p->fill.n_ubatch / out->step_ms[VR_PREFILL];
}
