/* What no placement can undercut, by the same dry run and prices that judge plans: everything on one card that has the
 * best of every number in the machine and room for all, plus what it costs at least that the real cards are small.
 *
 * For the latter every tensor and every layer's cache is stored bytes, and bytes read per token. Put where memory is
 * slower by t per byte read, an item costs t x density x stored bytes more. With items cut at will the cheapest way is
 * known (rearrangement): the densest into the fastest memory. Nothing that fits costs less, since tensors cannot be
 * cut, hops and lost fusions come on top, and compute buffers take room too. */
#ifndef BENCH_FLOOR_H
#define BENCH_FLOOR_H

#include <math.h>

#include "test.h"

#include "fit/fit.h"

struct floor_item {
    double stored, read;
};

static int floor_by_density(const void *a, const void *b)
{
    const struct floor_item *x = a, *y = b;
    double l = x->read * y->stored, r = y->read * x->stored;
    return (l < r) - (l > r);
}

static size_t floor_items(const struct vr_fit_ask *a, const struct vr_footprint *f, struct floor_item *out)
{
    const struct vr_model *m = a->model;
    double experts = m->n_expert && m->n_expert_used ? (double)m->n_expert_used / m->n_expert : 1;
    size_t n = 0;
    for (uint32_t i = 0; i < m->n_tensors; i++) {
        const struct vr_tensor *t = &m->tensors[i];
        bool idle = t->layer >= 0 && ((uint32_t)t->layer >= f->n_layers || f->layers[t->layer].mtp);
        if (t->role == VR_ROLE_INPUT || idle) continue;
        out[n++] = (struct floor_item){ (double)vr_weight_gpu_bytes(t),
                                        (double)t->bytes * (t->role == VR_ROLE_EXPERT ? experts : 1) };
    }
    for (uint32_t i = 0; i < f->n_layers; i++) {
        double kv = (double)f->layers[i].kv_host_bytes, streams = f->n_stream ? f->n_stream : 1;
        if (kv > 0) out[n++] = (struct floor_item){ (double)f->layers[i].kv_gpu_bytes, kv / streams * a->fill };
    }
    qsort(out, n, sizeof *out, floor_by_density);
    return n;
}

/* Milliseconds per byte read at a place, with the kernels that suit it best. */
static double floor_pace(const struct vr_speed *s)
{
    double share = 0;
    for (size_t i = 0; i < VR_SPEED_TYPES; i++) share = fmax(share, (double)fmaxf(s->share[i], s->expert_share[i]));
    return 1 / (s->gbs * share * 1e6);
}

/* What small cards cost at least. */
static double floor_spread(const struct vr_fit_ask *a, const struct floor_item *items, size_t n)
{
    double phase[VR_MAX_DEVICES + 1], room[VR_MAX_DEVICES + 1], ms = 0;
    size_t n_places = 0, at = 0;
    for (size_t i = 0; i <= a->budgets->n; i++) { /* the host is the last */
        bool host = i == a->budgets->n;
        double p = floor_pace(&a->speeds->places[host ? VR_SPEED_HOST : a->budgets->items[i].device]);
        size_t k = n_places++;
        for (; k && phase[k - 1] > p; k--) phase[k] = phase[k - 1], room[k] = room[k - 1];
        phase[k] = p;
        room[k] = host ? INFINITY : (double)a->budgets->items[i].budget_bytes;
    }
    for (size_t i = 0; i < n; i++) {
        for (double left = items[i].stored; left > 0;) {
            double here = fmin(left, room[at]);
            ms += (phase[at] - phase[0]) * items[i].read * here / items[i].stored;
            left -= here;
            room[at] -= here;
            if (left > 0) at++;
        }
    }
    return ms;
}

/* The machine with one card: the best of all, and roomy. */
static void floor_machine(const struct vr_fit_ask *a, struct vr_machine *machine, struct vr_speeds *speeds)
{
    *machine = *a->machine;
    *speeds = *a->speeds;
    machine->n_links = 0;
    machine->n_devices = speeds->n_devices = 1;
    machine->devices[0].total_bytes = machine->devices[0].free_bytes = UINT64_C(1) << 44;
    struct vr_speed *best = &speeds->places[0];
    for (size_t i = 1; i < a->machine->n_devices; i++)
        if (floor_pace(&a->speeds->places[i]) < floor_pace(best)) *best = a->speeds->places[i];
    for (size_t i = 0; i < a->machine->n_devices; i++) {
        const struct vr_speed *s = &a->speeds->places[i];
        best->tflops = fmax(best->tflops, s->tflops);
        best->attention_gbs = fmax(best->attention_gbs, s->attention_gbs);
        best->attention_tflops = fmax(best->attention_tflops, s->attention_tflops);
        best->launch_ms = fmin(best->launch_ms, s->launch_ms);
        best->product_ms = fmin(best->product_ms, s->product_ms);
        best->step_ms = fmin(best->step_ms, s->step_ms);
        best->link_gbs = fmax(best->link_gbs, s->link_gbs);
        best->link_ms = fmin(best->link_ms, s->link_ms);
        for (size_t t = 0; t < VR_SPEED_TYPES; t++) {
            best->matrix[t] = fmaxf(best->matrix[t], s->matrix[t]);
            best->expert_matrix[t] = fmaxf(best->expert_matrix[t], s->expert_matrix[t]);
        }
    }
}

/* Milliseconds per token; 0 with an error. */
static double floor_ms(const struct vr_fit_ask *a, struct vr_err *err)
{
    static struct vr_machine machine;
    static struct vr_speeds speeds;
    struct vr_budgets budgets;
    VR_AUTO_FOOTPRINT f = { 0 };
    VR_AUTO_OUTCOME o = { 0 };
    struct vr_fit_ask one = *a;
    floor_machine(a, &machine, &speeds);
    one.machine = &machine;
    one.speeds = &speeds;
    one.budgets = &budgets;
    if (!vr_budgets_select(&machine, &(struct vr_select){ .reserve_mib = "0" }, &budgets, err) ||
        !vr_footprint_compute(a->model, &a->context, &f, err) ||
        !vr_fit_given(&one, &(struct vr_given){ .n_gpu_layers = -1 }, &o, err))
        return 0;
    VR_AUTO_FREE struct floor_item *items = calloc(a->model->n_tensors + f.n_layers + 1u, sizeof *items);
    if (!items) return 0;
    return o.verdict.price.step_ms[VR_DECODE] + floor_spread(a, items, floor_items(a, &f, items));
}

#endif
