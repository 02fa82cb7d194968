#include "fit/price.h"

#include <math.h>
#include <string.h>

static size_t place_of(const struct vr_pricing *p, uint32_t device)
{
    return device < p->n_devices ? p->machine_device[device] : VR_SPEED_HOST;
}

static const struct vr_speed *speed_of(const struct vr_pricing *p, uint32_t device)
{
    return p->n_devices ? &p->speeds->places[place_of(p, device)] : &p->speeds->alone;
}

static bool overlaps(const struct vr_pricing *p)
{
    for (size_t i = 0; i < p->n_devices; i++)
        if (!speed_of(p, (uint32_t)i)->overlaps) return false;
    return true;
}

/* One place works at a time. Overlapping micro-batches: the first one fills the pipeline; for those behind it the
 * slowest place sets the pace, be it the host that makes their graphs, and devices that share a card take turns. */
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
    if (price->spread_ms[phase] > 0) { /* all at once, and only the host for itself */
        double alone = price->ms[phase][p->n_devices];
        return price->spread_ms[phase] + price->copy_ms[phase] + alone + starting + price->fixed_ms[phase];
    }
    double ms = sum + starting, first = vr_prompt_first(p->n_prompt, p->fill.n_ubatch);
    if (phase == VR_PREFILL && p->pipeline && overlaps(p))
        ms = first * ms + (1 - first) * fmax(fmax(slowest, price->copy_ms[phase]), starting);
    return ms + price->fixed_ms[phase];
}

/* Split mode tensor: all cards do a stage at once, and wait for each other. Devices that share a card take turns but
 * for the beginnings of kernels, which overlap. One thread starts all their kernels. */
static double spread_ms(const struct vr_works *w, const struct vr_pricing *p, const double *read, enum vr_phase phase)
{
    double total = 0, work[VR_MAX_DEVICES] = { 0 }, begun[VR_PRICE_PLACES] = { 0 },
           starting = 0; /* work: of each card */
    uint16_t stage = 0;
    for (uint32_t i = 0; i <= w->n_rows; i++) {
        const struct vr_work *r = i < w->n_rows ? &w->rows[i] : NULL;
        if (r && (r->phase != phase || r->device >= p->n_devices)) continue;
        if (!r || r->stage != stage) { /* rows are in the order of stages */
            double slowest = phase == VR_DECODE ? starting : 0;
            for (uint32_t d = 0; d < p->n_devices; d++)
                slowest = fmax(slowest, work[p->speeds->card[place_of(p, d)]] + begun[d]);
            total += slowest;
            memset(work, 0, sizeof work);
            memset(begun, 0, sizeof begun);
            starting = 0;
        }
        if (!r) break;
        stage = r->stage;
        const struct vr_speed *s = speed_of(p, r->device);
        double ms = vr_work_ms(r, &p->fill, s, true, read[r->device]), begins = fmin(ms, r->kernels * s->launch_ms);
        work[p->speeds->card[place_of(p, r->device)]] += ms - begins;
        begun[r->device] += begins;
        starting += r->kernels * s->submit_ms;
    }
    return total;
}

/* Parts are added up over the devices that have some. */
static double reduce_ms(const struct vr_works *w, const struct vr_pricing *p, enum vr_phase phase)
{
    uint64_t devices = 0;
    double ms = 0;
    for (uint32_t i = 0; i < w->n_rows; i++)
        if (w->rows[i].device < p->n_devices) devices |= UINT64_C(1) << p->machine_device[w->rows[i].device];
    for (uint32_t i = 0; i < w->n_reductions; i++) {
        const struct vr_reduction *r = &w->reductions[i];
        if (r->phase == phase) ms += r->n * vr_speed_reduce_ms(p->speeds, devices, (double)r->bytes);
    }
    return ms;
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

/* The attention mask of a micro-batch, from all its tokens to all: the host fills it while the device has the one
 * before to do, so the first one's alone is waited for. */
static double mask_ms(const struct vr_pricing *p, const struct vr_speed *s)
{
    double tokens = p->fill.n_ubatch;
    return vr_prompt_first(p->n_prompt, p->fill.n_ubatch) * tokens * tokens * s->pair_ms;
}

/* What a step costs whatever is in it: of the slowest device that has part in it; the host's own when none has. */
static void fix(const struct vr_pricing *p, struct vr_price *price)
{
    for (enum vr_phase phase = 0; phase < VR_N_PHASES; phase++) {
        size_t n = 0;
        for (size_t i = 0; i < p->n_devices; i++) n += price->ms[phase][i] > 0;
        for (size_t i = n ? 0 : p->n_devices; i < (n ? p->n_devices : p->n_devices + 1); i++) {
            const struct vr_speed *s = speed_of(p, (uint32_t)i);
            double ms = phase == VR_DECODE ? s->step_ms : s->prompt_step_ms + mask_ms(p, s);
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
    for (enum vr_phase phase = 0; phase < VR_N_PHASES && w->n_reductions; phase++) {
        out->spread_ms[phase] = spread_ms(w, p, read[phase], phase);
        out->copy_ms[phase] += reduce_ms(w, p, phase);
    }
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
