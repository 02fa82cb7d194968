/* Three things are read off the two graphs of a dry run.
 *
 * A wider micro-batch has the same nodes: weights are read and sent once (of experts, those that its tokens use),
 * everything else grows with its tokens.
 *
 * Decoding multiplies with the host's weights where they are: scaled to t tokens, its rows are what the host takes for
 * a batch of t. What sending takes hardly depends on t. So there is a batch from which on sending pays.
 *
 * The graph of a micro-batch was made for one of the two; for the other the difference is added. */
#include "fit/ways.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_TOKENS 65536 /* beyond every micro-batch: sending never pays */

/* The share of experts that a batch uses, if tokens choose independently. */
static double used_experts(const struct vr_ways_ask *a, double tokens)
{
    if (a->n_expert == 0 || a->n_expert_used >= a->n_expert) return 1;
    double each = (double)a->n_expert_used / a->n_expert;
    return tokens <= 1 ? each : 1 - pow(1 - each, tokens);
}

static double more_experts(const struct vr_ways_ask *a, double from, double to)
{
    return used_experts(a, to) / used_experts(a, from);
}

static bool is_expert(const struct vr_work *w) { return strcmp(w->name, "MUL_MAT_ID") == 0; }

/* Multiplied with weights that are on the host, in decoding. The output is only asked for last tokens. */
static bool on_host(const struct vr_ways_ask *a, const struct vr_work *w)
{
    return w->phase == VR_DECODE && w->device == a->pricing->n_devices && w->weight_bytes &&
           strncmp(w->name, "MUL_MAT", 7) == 0 && w->station != VR_STATION_OUTPUT;
}

/* A row of decoding as if it had t tokens. */
static struct vr_work of_batch(const struct vr_ways_ask *a, const struct vr_work *w, double t)
{
    struct vr_work b = *w;
    double n_seq = a->pricing->n_seq;
    b.phase = VR_PREFILL;
    b.flops = (uint64_t)((double)w->flops * t / n_seq);
    b.act_bytes = (uint64_t)((double)w->act_bytes * t / n_seq);
    if (is_expert(w)) b.weight_bytes = (uint64_t)((double)w->weight_bytes * more_experts(a, n_seq, t));
    return b;
}

/* What the host's weights cost a batch of t tokens: on the host, and sent to a device and multiplied there. */
struct sides {
    double host_ms, sent_ms[VR_N_LOADINGS];
};

static struct sides sides_of(const struct vr_ways_ask *a, double t)
{
    struct sides s = { 0 };
    size_t to = a->pricing->machine_device[a->first];
    for (uint32_t i = 0; i < a->works->n_rows; i++) {
        const struct vr_work *w = &a->works->rows[i];
        if (!on_host(a, w)) continue;
        struct vr_work b = of_batch(a, w, t);
        s.host_ms += vr_work_ms(&b, &a->pricing->fill, &a->speeds[0]->places[VR_SPEED_HOST], false, 0);
        for (enum vr_loading l = 0; l < VR_N_LOADINGS; l++)
            s.sent_ms[l] += vr_work_ms(&b, &a->pricing->fill, &a->speeds[l]->places[to], true, 0) +
                            w->n * vr_speed_send_ms(a->speeds[l], to, is_expert(w), (double)b.weight_bytes / w->n);
    }
    return s;
}

/* Both grow with t, the host's side faster: the first t of a grid where it is the slower one. */
static void find_pays(const struct vr_ways_ask *a, struct vr_ways *out)
{
    for (uint32_t t = 2; t <= MOST_TOKENS; t *= 2) {
        struct sides s = sides_of(a, t);
        for (enum vr_loading l = 0; l < VR_N_LOADINGS; l++)
            if (s.host_ms > 0 && !out->pays[l] && (s.host_ms >= s.sent_ms[l] || t == MOST_TOKENS)) out->pays[l] = t;
        if (out->pays[VR_MAPPED] && out->pays[VR_PINNED]) return;
    }
}

/* The works with k times as many tokens in a micro-batch. */
static void widen(const struct vr_ways_ask *a, uint32_t k, struct vr_works *w)
{
    double n = a->pricing->fill.n_ubatch, experts = more_experts(a, n, n * k);
    for (uint32_t i = 0; i < w->n_rows; i++) {
        struct vr_work *r = &w->rows[i];
        const struct vr_work *was = &a->works->rows[i];
        if (r->phase != VR_PREFILL) continue;
        if (is_expert(r)) r->weight_bytes = (uint64_t)((double)was->weight_bytes * experts);
        if (r->station == VR_STATION_OUTPUT) continue;
        r->flops = was->flops * k;
        r->act_bytes = was->act_bytes * k;
    }
    for (uint32_t i = 0; i < w->n_transfers; i++) {
        struct vr_transfer *t = &w->transfers[i];
        const struct vr_transfer *was = &a->works->transfers[i];
        if (t->phase != VR_PREFILL) continue;
        t->bytes = !was->weights  ? was->bytes * k
                   : was->experts ? (uint64_t)((double)was->bytes * experts)
                                  : was->bytes;
    }
    for (uint32_t i = 0; i < w->n_reductions; i++)
        if (w->reductions[i].phase == VR_PREFILL) w->reductions[i].bytes = a->works->reductions[i].bytes * k;
}

/* The other side instead of the one that the graph is of: slower or faster by the difference of both. */
static double instead(const struct vr_price *p, double more_ms)
{
    double ms = p->step_ms[VR_PREFILL];
    return ms > 0 ? p->prefill_tok_s * ms / fmax(ms + more_ms, ms / 1e3) : 0;
}

static void price_all(const struct vr_ways_ask *a, struct vr_works *w, struct vr_ways *out)
{
    bool sends = false;
    for (uint32_t i = 0; i < w->n_transfers; i++)
        sends |= w->transfers[i].phase == VR_PREFILL && w->transfers[i].weights;
    for (uint32_t i = 0, k = 1; i < VR_N_WIDER; i++, k *= 2) {
        struct vr_pricing pricing = *a->pricing;
        struct sides s = { 0 };
        pricing.fill.n_ubatch *= k;
        widen(a, k, w);
        if (out->pays[VR_MAPPED]) s = sides_of(a, pricing.fill.n_ubatch);
        for (enum vr_loading l = 0; l < VR_N_LOADINGS; l++) {
            struct vr_price price;
            pricing.speeds = a->speeds[l];
            vr_price(w, &pricing, &price);
            out->sent_tok_s[l][i] = sends ? price.prefill_tok_s : instead(&price, s.sent_ms[l] - s.host_ms);
            if (l == VR_MAPPED)
                out->host_tok_s[i] = sends ? instead(&price, s.host_ms - s.sent_ms[l]) : price.prefill_tok_s;
        }
    }
}

static void *copy_of(const void *from, size_t bytes)
{
    void *to = malloc(bytes ? bytes : 1);
    if (to && bytes) memcpy(to, from, bytes);
    return to;
}

bool vr_ways_find(const struct vr_ways_ask *a, struct vr_ways *out, struct vr_err *err)
{
    const struct vr_works *w = a->works;
    *out = (struct vr_ways){ .n_ubatch = a->pricing->fill.n_ubatch };
    if (a->pricing->n_devices == 0) return true;
    struct vr_works wide = *w;
    wide.rows = copy_of(w->rows, w->n_rows * sizeof *w->rows);
    wide.transfers = copy_of(w->transfers, w->n_transfers * sizeof *w->transfers);
    wide.reductions = copy_of(w->reductions, w->n_reductions * sizeof *w->reductions);
    bool ok = wide.rows && wide.transfers && wide.reductions;
    if (ok && a->offloads) find_pays(a, out);
    if (ok) price_all(a, &wide, out);
    vr_works_done(&wide);
    return ok || vr_fail_nomem(err, "pricing a plan");
}
