/* Equal devices are one kind: of a kind, those with the most room are taken. So a choice of devices is a number for
 * each kind, and there are few of them. Each has a lower bound (bound_of()); in the order of their bounds they are
 * searched until the next bound is no less than the best split.
 *
 * For given devices the cost is a sum of maxima of straight lines in the shares, but for the pieces that slices are cut
 * by. It is searched from where all devices would need the same time (level()), from shares that are whole pieces, and
 * from equal ones, by moving less and less of a share from one device to another. How far that may be from the best is
 * the gap to the bound, for which every stage may choose slices of its own. */
#include "plan/tensor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

#define PARTS     5040 /* that shares are counted in: halves, thirds, … tenths are whole numbers of them */
#define FEW       64   /* pieces: few enough to try shares that are a number of them */
#define HALVINGS  60
#define PRICINGS  40 /* rounds in which memory is given a price */
#define SAME_COST 1e-9

/* What a kind of device takes for a stage: whatever its slice, for having one, and for all of it. */
struct stage_ms {
    double whole, begun[VR_N_CUTS], all[VR_N_CUTS];
    double starting; /* what the host takes to start its kernels */
};

struct table {
    const struct vr_spread_ask *ask;
    uint8_t kind[VR_MAX_PLACED];  /* of each device */
    uint8_t first[VR_MAX_PLACED]; /* device of a kind */
    size_t n_kinds;
    struct stage_ms *ms; /* n_stages x n_kinds */
};

/* Devices that take part, and what is the same for any shares of theirs. */
struct team {
    uint8_t who[VR_MAX_PLACED];
    size_t n;
    double fixed;               /* cost */
    double most[VR_MAX_PLACED]; /* share that each has room for */
    double over;                /* of all slices has none */
};

/* --- times --- */

static struct vr_work part_of(const struct vr_work *w, double part)
{
    struct vr_work r = *w;
    r.weight_bytes = (uint64_t)((double)w->weight_bytes * part);
    r.cache_bytes = (uint64_t)((double)w->cache_bytes * part);
    r.act_bytes = (uint64_t)((double)w->act_bytes * part);
    r.flops = (uint64_t)((double)w->flops * part);
    return r;
}

#define SMALL_PART 0.125

static void price_stage(const struct vr_stages *s, const struct vr_stage *stage, const struct vr_speed *speed,
                        struct stage_ms *out)
{
    for (uint32_t i = 0; i < stage->n_rows; i++) {
        const struct vr_work *w = &s->rows[stage->first_row + i];
        double all = vr_work_ms(w, &s->fill, speed, true, 0);
        out->starting += w->kernels * (stage->phase == VR_DECODE ? speed->submit_ms : speed->prompt_submit_ms);
        if (!w->sliced) {
            out->whole += all;
            continue;
        }
        struct vr_work small = part_of(w, SMALL_PART);
        double slope = (all - vr_work_ms(&small, &s->fill, speed, true, 0)) / (1 - SMALL_PART);
        out->all[w->device] += slope;
        out->begun[w->device] += all - slope;
    }
}

static bool make_table(const struct vr_spread_ask *ask, struct table *t, struct vr_arena *arena, struct vr_err *err)
{
    const struct vr_speed *places = ask->speeds->places;
    *t = (struct table){ .ask = ask };
    for (size_t i = 0; i < ask->n; i++) {
        size_t k = 0;
        while (k < t->n_kinds && memcmp(&places[ask->devices[t->first[k]].device], &places[ask->devices[i].device],
                                        sizeof places[0]) != 0)
            k++;
        t->kind[i] = (uint8_t)k;
        if (k == t->n_kinds) t->first[t->n_kinds++] = (uint8_t)i;
    }
    t->ms = vr_arena_alloc(arena, ask->stages->n * t->n_kinds + 1, sizeof *t->ms);
    if (!t->ms) return vr_fail_nomem(err, "planning");
    for (uint32_t s = 0; s < ask->stages->n; s++)
        for (size_t k = 0; k < t->n_kinds; k++)
            price_stage(ask->stages, &ask->stages->list[s], &places[ask->devices[t->first[k]].device],
                        &t->ms[s * t->n_kinds + k]);
    return true;
}

static const struct stage_ms *ms_of(const struct table *t, uint32_t stage, uint8_t device)
{
    return &t->ms[stage * t->n_kinds + t->kind[device]];
}

/* Reductions, copies, and what a step takes whatever is in it. */
static double fixed_cost(const struct table *t, const struct team *m)
{
    const struct vr_spread_ask *a = t->ask;
    double ms[VR_N_PHASES] = { 0 }, step[VR_N_PHASES] = { 0 }, cost = 0;
    uint64_t devices = 0;
    for (size_t i = 0; i < m->n; i++) {
        uint16_t device = a->devices[m->who[i]].device;
        const struct vr_speed *s = &a->speeds->places[device];
        devices |= UINT64_C(1) << device;
        step[VR_DECODE] = fmax(step[VR_DECODE], s->step_ms);
        step[VR_PREFILL] = fmax(step[VR_PREFILL], s->prompt_step_ms);
        for (enum vr_phase p = 0; p < VR_N_PHASES; p++) {
            double n = a->stages->told[p].n;
            if (n > 0) ms[p] += n * vr_speed_hop_ms(a->speeds, VR_SPEED_HOST, device, a->stages->told[p].bytes / n);
        }
        for (uint32_t k = 0; k < a->stages->n; k++) /* of a batch's kernels each is started by itself */
            if (a->stages->list[k].phase == VR_PREFILL)
                ms[VR_PREFILL] += a->stages->list[k].n * ms_of(t, k, m->who[i])->starting;
    }
    for (uint32_t i = 0; i < a->stages->n_reductions; i++) {
        const struct vr_reduction *r = &a->stages->reductions[i];
        ms[r->phase] += r->n * vr_speed_reduce_ms(a->speeds, devices, (double)r->bytes);
    }
    for (enum vr_phase p = 0; p < VR_N_PHASES; p++) cost += a->weight[p] * (ms[p] + step[p]);
    return cost;
}

/* What the host takes to start all kernels of a token's stage: no device can be faster. */
static double starting_ms(const struct table *t, uint32_t stage, const struct team *m)
{
    double ms = 0;
    if (t->ask->stages->list[stage].phase != VR_DECODE) return 0;
    for (size_t i = 0; i < m->n; i++) ms += ms_of(t, stage, m->who[i])->starting;
    return ms;
}

void vr_spread_cut(double grains, const uint32_t *share, size_t n, size_t rotation, double *slice)
{
    uint64_t all = 0, scan = 0;
    for (size_t i = 0; i < n; i++) all += share[i];
    double low = 0, whole = grains > 0 ? grains : 1;
    for (size_t j = 0; j < n; j++) {
        size_t i = (j + rotation) % n;
        scan += share[i];
        double high = whole * (double)scan / (double)all;
        if (grains > 0 && j + 1 < n) high = floor(high);
        slice[i] = (high - low) / whole;
        low = high;
    }
}

/* The mean over rotations, which layers go through in turn. */
static double stage_cost(const struct table *t, uint32_t stage, const struct team *m, const uint32_t *share)
{
    const struct vr_stage *s = &t->ask->stages->list[stage];
    double slice[VR_N_CUTS][VR_MAX_PLACED], sum = 0, least = starting_ms(t, stage, m);
    bool pieces = false;
    for (size_t c = 0; c < VR_N_CUTS; c++) {
        pieces |= s->grains[c] > 0;
        if (!(s->grains[c] > 0)) vr_spread_cut(0, share, m->n, 0, slice[c]);
    }
    size_t rotations = pieces ? m->n : 1;
    for (size_t r = 0; r < rotations; r++) {
        double slowest = least, busy[VR_MAX_DEVICES] = { 0 }; /* each card: devices that share one take turns */
        for (size_t c = 0; c < VR_N_CUTS; c++)
            if (s->grains[c] > 0) vr_spread_cut(s->grains[c], share, m->n, r, slice[c]);
        for (size_t i = 0; i < m->n; i++) {
            const struct stage_ms *ms = ms_of(t, stage, m->who[i]);
            double *now = &busy[t->ask->speeds->card[t->ask->devices[m->who[i]].device]];
            *now += ms->whole;
            for (size_t c = 0; c < VR_N_CUTS; c++)
                if (slice[c][i] > 0) *now += ms->begun[c] + ms->all[c] * slice[c][i];
            slowest = fmax(slowest, *now);
        }
        sum += slowest;
    }
    return t->ask->weight[s->phase] * s->n * sum / (double)rotations;
}

/* Infinite where a device has no room for its share. */
static double cost_of(const struct table *t, const struct team *m, const uint32_t *share)
{
    uint64_t all = 0;
    double cost = m->fixed;
    for (size_t i = 0; i < m->n; i++) all += share[i];
    for (size_t i = 0; i < m->n; i++)
        if (share[i] == 0 || (double)share[i] > m->most[i] * (double)all) return INFINITY;
    for (uint32_t s = 0; s < t->ask->stages->n; s++)
        if (t->ask->weight[t->ask->stages->list[s].phase] > 0) cost += stage_cost(t, s, m, share);
    return cost;
}

/* --- what no shares cost less than --- */

/* Of one stage as straight lines: from `base` on, `slope` for all of it. */
struct line {
    double base, slope;
};

/* How much a device does of a stage in so many milliseconds, in whole pieces where there are some. */
static double done_by(const struct line *l, double ms, double grains)
{
    double part = ms <= l->base ? 0 : l->slope > 0 ? fmin((ms - l->base) / l->slope, 1) : 1;
    return grains > 0 ? floor(part * grains + 1e-9) / grains : part;
}

static double least_ms(const struct line *lines, size_t n, double grains, double all, double low)
{
    double high = low;
    for (size_t i = 0; i < n; i++) high = fmax(high, lines[i].base + lines[i].slope);
    for (int k = 0; k < HALVINGS && high - low > SAME_COST * high; k++) {
        double middle = (low + high) / 2, done = 0;
        for (size_t i = 0; i < n; i++) done += done_by(&lines[i], middle, grains);
        if (done >= all - 1e-12)
            high = middle;
        else
            low = middle;
    }
    return low;
}

/* The stage's lines, all cuts together. A device that has a slice pays for beginning: its own price, or (so that the
 * lines bend one way only) the least of all. Returns how much of the sum of the cuts has to be done in all, in terms of
 * each device's own sum: 1 where devices differ by one factor, less where they do not. *low: what the slowest takes
 * without a slice. */
static double stage_lines(const struct table *t, uint32_t stage, const struct team *m, bool own, struct line *out,
                          double *low)
{
    double all = 0, least[VR_N_CUTS], begun = INFINITY;
    for (size_t c = 0; c < VR_N_CUTS; c++) least[c] = INFINITY;
    for (size_t i = 0; i < m->n; i++) {
        const struct stage_ms *ms = ms_of(t, stage, m->who[i]);
        double mine = INFINITY; /* of any cut: it need not have a slice of all */
        out[i] = (struct line){ ms->whole, 0 };
        for (size_t c = 0; c < VR_N_CUTS; c++) {
            out[i].slope += ms->all[c];
            if (ms->all[c] > 0) mine = fmin(mine, ms->begun[c]);
        }
        if (!(mine < INFINITY)) mine = 0;
        begun = fmin(begun, mine);
        if (own) out[i].base += mine;
        for (size_t c = 0; c < VR_N_CUTS; c++)
            least[c] = fmin(least[c], out[i].slope > 0 ? ms->all[c] / out[i].slope : 0);
        *low = fmax(*low, ms->whole);
    }
    for (size_t c = 0; c < VR_N_CUTS; c++) all += least[c];
    for (size_t i = 0; i < m->n && !own; i++) out[i].base += begun;
    return all;
}

/* The pieces of a stage that has one cut alone, if they are whole. */
static double pieces_of(const struct table *t, uint32_t stage, uint8_t device)
{
    const struct stage_ms *ms = ms_of(t, stage, device);
    double grains = 0;
    size_t cuts = 0;
    for (size_t c = 0; c < VR_N_CUTS; c++) {
        if (!(ms->all[c] > 0)) continue;
        grains = t->ask->stages->list[stage].grains[c];
        cuts++;
    }
    return cuts == 1 && grains == floor(grains) ? grains : 0;
}

/* Every stage by itself, without limits to memory. */
static double bound_alone(const struct table *t, const struct team *m)
{
    double bound = m->fixed;
    for (uint32_t s = 0; s < t->ask->stages->n; s++) {
        const struct vr_stage *stage = &t->ask->stages->list[s];
        if (!(t->ask->weight[stage->phase] > 0)) continue;
        struct line lines[VR_MAX_PLACED];
        double low = starting_ms(t, s, m), all = stage_lines(t, s, m, true, lines, &low);
        bound += t->ask->weight[stage->phase] * stage->n * least_ms(lines, m->n, pieces_of(t, s, m->who[0]), all, low);
    }
    return bound;
}

/* Memory at a price: devices in the order of their prices, cheapest first. */
struct priced {
    double price[VR_MAX_PLACED];
    uint8_t order[VR_MAX_PLACED];
};

/* The least of ms + the sum of scale x price[i] x slice[i] that is done in ms: the cheapest do as much as they can. */
static double priced_at(const struct line *lines, size_t n, const struct priced *p, double scale, double all, double ms,
                        double *x)
{
    double left = all, cost = ms;
    for (size_t k = 0; k < n; k++) {
        size_t i = p->order[k];
        x[i] = fmin(done_by(&lines[i], ms, 0), left);
        left -= x[i];
        cost += scale * p->price[i] * x[i];
    }
    return cost;
}

static double least_priced(const struct line *lines, size_t n, const struct priced *p, double scale, double all,
                           double low, double *x)
{
    double a = least_ms(lines, n, 0, all, low) * (1 + SAME_COST), b = a;
    for (size_t i = 0; i < n; i++) b = fmax(b, lines[i].base + lines[i].slope);
    for (int k = 0; k < HALVINGS && b - a > 1e-6 * b; k++) { /* it has one valley */
        double u = a + (b - a) / 3, v = b - (b - a) / 3;
        if (priced_at(lines, n, p, scale, all, u, x) <= priced_at(lines, n, p, scale, all, v, x))
            b = v;
        else
            a = u;
    }
    return priced_at(lines, n, p, scale, all, a, x) - 1e-6 * b;
}

static void sort_prices(struct priced *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t k = i;
        for (; k && p->price[p->order[k - 1]] > p->price[i]; k--) p->order[k] = p->order[k - 1];
        p->order[k] = (uint8_t)i;
    }
}

/* All stages with a price on the memory of each device in place of its limit. In used[], the share of all bytes that
 * each device then has: of one phase, because the other has the same tensors. */
static double bound_at(const struct table *t, const struct team *m, const struct priced *p, double *used)
{
    const struct vr_stages *all = t->ask->stages;
    enum vr_phase phase = t->ask->weight[VR_DECODE] > 0 ? VR_DECODE : VR_PREFILL;
    double bound = m->fixed, bytes = 0;
    for (uint32_t s = 0; s < all->n; s++)
        if (all->list[s].phase == phase) bytes += all->list[s].n * all->list[s].bytes;
    for (size_t i = 0; i < m->n; i++) {
        used[i] = 0;
        bound -= p->price[i] * m->most[i];
    }
    for (uint32_t s = 0; s < all->n; s++) {
        const struct vr_stage *stage = &all->list[s];
        double weight = t->ask->weight[stage->phase] * stage->n, x[VR_MAX_PLACED];
        double part = stage->phase == phase && bytes > 0 ? stage->n * stage->bytes / bytes : 0;
        if (!(weight > 0)) continue;
        struct line lines[VR_MAX_PLACED];
        double low = starting_ms(t, s, m), sum = stage_lines(t, s, m, false, lines, &low);
        bound += weight * least_priced(lines, m->n, p, part / weight, sum, low, x);
        for (size_t i = 0; i < m->n; i++) used[i] += part * x[i];
    }
    return bound;
}

/* Prices rise where too much is used, until the bound stops rising. `best`: what some split costs. */
static double bound_by_memory(const struct table *t, const struct team *m, double best)
{
    struct priced p = { 0 };
    double bound = 0;
    for (int round = 0; round < PRICINGS && bound < best; round++) {
        double used[VR_MAX_PLACED], square = 0;
        sort_prices(&p, m->n);
        double now = bound_at(t, m, &p, used);
        bound = fmax(bound, now);
        for (size_t i = 0; i < m->n; i++) {
            double over = used[i] - m->most[i];
            if (over > 0 || p.price[i] > 0) square += over * over;
        }
        if (!(square > 1e-12)) break;
        for (size_t i = 0; i < m->n; i++)
            p.price[i] = fmax(p.price[i] + (best - now) / square * (used[i] - m->most[i]), 0);
    }
    return bound;
}

/* --- shares for given devices --- */

/* Where all devices would take the same time, as far as they have room. */
static void level(const struct table *t, const struct team *m, double *x)
{
    struct line lines[VR_MAX_PLACED] = { 0 };
    for (uint32_t s = 0; s < t->ask->stages->n; s++) {
        const struct vr_stage *stage = &t->ask->stages->list[s];
        for (size_t i = 0; i < m->n; i++) {
            const struct stage_ms *ms = ms_of(t, s, m->who[i]);
            double weight = t->ask->weight[stage->phase] * stage->n;
            lines[i].base += weight * ms->whole;
            for (size_t c = 0; c < VR_N_CUTS; c++) {
                lines[i].base += weight * ms->begun[c];
                lines[i].slope += weight * ms->all[c];
            }
        }
    }
    double low = 0, high = 0;
    for (size_t i = 0; i < m->n; i++) high = fmax(high, lines[i].base + lines[i].slope);
    for (int k = 0; k < HALVINGS; k++) {
        double middle = (low + high) / 2, done = 0;
        for (size_t i = 0; i < m->n; i++) done += x[i] = fmin(done_by(&lines[i], middle, 0), m->most[i]);
        if (done >= 1)
            high = middle;
        else
            low = middle;
    }
    for (size_t i = 0; i < m->n; i++) x[i] = fmin(done_by(&lines[i], high, 0), m->most[i]);
}

/* x in whole parts, each at least one and none more than it has room for, that add up if that can be: what is furthest
 * from its due is changed first. */
static void round_shares(const struct team *m, const double *x, uint32_t parts, uint32_t *share)
{
    uint32_t sum = 0;
    for (size_t i = 0; i < m->n; i++) {
        share[i] = (uint32_t)(x[i] * parts);
        if (share[i] == 0) share[i] = 1;
        sum += share[i];
    }
    while (sum != parts) {
        bool more = sum < parts;
        size_t at = m->n;
        for (size_t i = 0; i < m->n; i++) {
            if (more ? (double)(share[i] + 1) > m->most[i] * parts : share[i] == 1) continue;
            double over = share[i] - x[i] * parts, than = at < m->n ? share[at] - x[at] * parts : 0;
            if (at == m->n || (more ? over < than : over > than)) at = i;
        }
        if (at == m->n) return;
        more ? share[at]++ : share[at]--;
        more ? sum++ : sum--;
    }
}

static void keep_better(const struct table *t, const struct team *m, const uint32_t *share, struct vr_spread *best)
{
    double cost = cost_of(t, m, share);
    if (!(cost < best->cost * (1 - SAME_COST))) return;
    memcpy(best->who, m->who, sizeof best->who);
    memcpy(best->share, share, m->n * sizeof *share);
    best->n = m->n;
    best->cost = cost;
}

/* Moves shares from one device to another while that helps, in smaller and smaller portions. */
static void improve(const struct table *t, const struct team *m, struct vr_spread *best)
{
    for (uint32_t portion = PARTS / 4; portion; portion /= 3)
        for (bool again = true; again;) {
            double before = best->cost;
            for (size_t a = 0; a < m->n; a++)
                for (size_t b = 0; b < m->n; b++) {
                    uint32_t share[VR_MAX_PLACED];
                    memcpy(share, best->share, sizeof share);
                    if (a == b || share[a] <= portion) continue;
                    share[a] -= portion;
                    share[b] += portion;
                    keep_better(t, m, share, best);
                }
            again = best->cost < before * (1 - 1e-6);
        }
}

/* x in parts, made better; in *best if it is. */
static void improve_from(const struct table *t, const struct team *m, const double *x, struct vr_spread *best)
{
    struct vr_spread mine = { .cost = INFINITY };
    uint32_t share[VR_MAX_PLACED];
    round_shares(m, x, PARTS, share);
    keep_better(t, m, share, &mine);
    if (!(mine.cost < INFINITY)) return;
    improve(t, m, &mine);
    if (mine.cost < best->cost * (1 - SAME_COST)) *best = mine;
}

/* Shares that are whole pieces of what has few of them. */
static void try_pieces(const struct table *t, const struct team *m, const double *x, struct vr_spread *best)
{
    uint32_t share[VR_MAX_PLACED];
    for (uint32_t s = 0; s < t->ask->stages->n; s++)
        for (size_t c = 0; c < VR_N_CUTS; c++) {
            double grains = t->ask->stages->list[s].grains[c];
            if (grains < (double)m->n || grains > FEW) continue;
            round_shares(m, x, (uint32_t)grains, share);
            keep_better(t, m, share, best);
        }
}

/* Two or three devices are few enough to look everywhere. */
static void try_grid(const struct table *t, const struct team *m, struct vr_spread *best)
{
    uint32_t step = m->n == 2 ? PARTS / 240 : PARTS / 30, share[VR_MAX_PLACED];
    for (uint32_t a = step; a < PARTS && m->n <= 3; a += step)
        for (uint32_t b = m->n == 2 ? PARTS - a : step; a + b <= PARTS - (m->n == 3); b += step) {
            share[0] = a;
            share[1] = b;
            share[2] = PARTS - a - b;
            keep_better(t, m, share, best);
        }
}

static void search_shares(const struct table *t, const struct team *m, struct vr_spread *best)
{
    struct vr_spread mine = { .cost = INFINITY };
    uint32_t share[VR_MAX_PLACED];
    double x[VR_MAX_PLACED];
    for (size_t i = 0; i < m->n; i++) share[i] = 1;
    keep_better(t, m, share, &mine); /* first, so that nothing else stands for it */
    level(t, m, x);
    try_pieces(t, m, x, &mine);
    try_grid(t, m, &mine);
    improve_from(t, m, x, &mine);
    if (!(mine.cost < INFINITY)) return;
    double all = 0;
    for (size_t i = 0; i < m->n; i++) all += mine.share[i];
    for (size_t i = 0; i < m->n; i++) x[i] = mine.share[i] / all;
    improve_from(t, m, x, &mine);
    if (mine.cost < best->cost) *best = mine;
}

static uint32_t common(uint32_t a, uint32_t b) { return b ? common(b, a % b) : a; }

/* "3:1" says the same as "768:256". */
static void reduce_shares(struct vr_spread *s)
{
    uint32_t all = 0;
    for (size_t i = 0; i < s->n; i++) all = common(all, s->share[i]);
    for (size_t i = 0; i < s->n; i++) s->share[i] /= all;
}

/* --- which devices --- */

/* For its buffers at least; what is over has to stay on the host. */
static bool has_room(const struct table *t, struct team *m)
{
    double all = 0;
    for (size_t i = 0; i < m->n; i++) {
        double room = (double)t->ask->devices[m->who[i]].room_bytes, need = (double)t->ask->slice_bytes;
        m->most[i] = room < need ? room / need : 1;
        if (!(m->most[i] > 0)) return false;
        all += m->most[i];
    }
    m->over = fmax(1 - all, 0);
    return m->over == 0 || t->ask->host_cost > 0;
}

/* Choice number c: so many of each kind, as digits; those with the most room. */
static void pick(const struct table *t, uint32_t c, struct team *m)
{
    bool in[VR_MAX_PLACED] = { false };
    for (size_t k = 0; k < t->n_kinds; k++) {
        uint32_t n = 0;
        for (size_t i = 0; i < t->ask->n; i++) n += t->kind[i] == k;
        for (uint32_t wanted = c % (n + 1); wanted; wanted--) {
            size_t most = t->ask->n;
            for (size_t i = 0; i < t->ask->n; i++) {
                if (t->kind[i] != k || in[i]) continue;
                if (most == t->ask->n || t->ask->devices[i].room_bytes > t->ask->devices[most].room_bytes) most = i;
            }
            in[most] = true;
        }
        c /= n + 1;
    }
    m->n = 0;
    for (size_t i = 0; i < t->ask->n; i++)
        if (in[i]) m->who[m->n++] = (uint8_t)i;
}

struct choice {
    double bound;
    uint32_t number;
};

static int by_bound(const void *a, const void *b)
{
    const struct choice *x = a, *y = b;
    if (x->bound != y->bound) return x->bound < y->bound ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

/* All choices of two devices or more that have room, in the order of their bounds: what does not fit on them would stay
 * on the host. NULL: memory is out. */
static struct choice *choices_of(const struct table *t, struct vr_arena *arena, uint32_t *n)
{
    uint32_t all = 1;
    for (size_t k = 0; k < t->n_kinds; k++) {
        uint32_t of_kind = 0;
        for (size_t i = 0; i < t->ask->n; i++) of_kind += t->kind[i] == k;
        all *= of_kind + 1;
    }
    struct choice *list = vr_arena_alloc(arena, all, sizeof *list);
    *n = 0;
    for (uint32_t c = 0; list && c < all; c++) {
        struct team m;
        pick(t, c, &m);
        if (m.n < 2 || !has_room(t, &m)) continue;
        m.fixed = fixed_cost(t, &m);
        double hosted = m.over * (double)t->ask->slice_bytes * t->ask->host_cost;
        list[(*n)++] = (struct choice){ bound_alone(t, &m) + hosted, c };
    }
    if (list) qsort(list, *n, sizeof *list, by_bound);
    return list;
}

bool vr_spread_bound(const struct vr_spread_ask *ask, double *bound, struct vr_err *err)
{
    VR_AUTO_ARENA arena = { 0 };
    struct table t;
    uint32_t n;
    if (!make_table(ask, &t, &arena, err)) return false;
    const struct choice *list = choices_of(&t, &arena, &n);
    if (!list) return vr_fail_nomem(err, "planning");
    *bound = n ? list[0].bound : INFINITY;
    return true;
}

static bool is_limited(const struct table *t, const struct team *m)
{
    double x[VR_MAX_PLACED];
    level(t, m, x);
    for (size_t i = 0; i < m->n; i++)
        if (x[i] > m->most[i] * (1 - 1e-9)) return true;
    return false;
}

bool vr_spread_solve(const struct vr_spread_ask *ask, struct vr_spread *out, struct vr_err *err)
{
    VR_AUTO_ARENA arena = { 0 };
    struct table t;
    uint32_t n;
    if (!make_table(ask, &t, &arena, err)) return false;
    struct choice *list = choices_of(&t, &arena, &n);
    if (!list) return vr_fail_nomem(err, "planning");
    *out = (struct vr_spread){ .cost = INFINITY };
    for (uint32_t i = 0; i < n && list[i].bound < out->cost; i++) {
        struct team m;
        pick(&t, list[i].number, &m);
        if (!has_room(&t, &m) || m.over > 0) continue; /* the caller says what stays on the host, and asks again */
        m.fixed = fixed_cost(&t, &m);
        search_shares(&t, &m, out);
        if (out->cost < INFINITY && is_limited(&t, &m))
            list[i].bound = fmax(list[i].bound, bound_by_memory(&t, &m, out->cost));
    }
    if (!(out->cost < INFINITY)) return vr_fail(err, VR_ENOFIT, "no split over all devices has room");
    reduce_shares(out);
    out->lower_bound = out->cost;
    out->fewer_bound = INFINITY;
    for (uint32_t i = 0; i < n; i++) {
        struct team m;
        pick(&t, list[i].number, &m);
        out->lower_bound = fmin(out->lower_bound, list[i].bound);
        if (m.n < out->n) out->fewer_bound = fmin(out->fewer_bound, list[i].bound);
    }
    return true;
}

bool vr_spread_price(const struct vr_spread_ask *ask, struct vr_spread *out, struct vr_err *err)
{
    VR_AUTO_ARENA arena = { 0 };
    struct table t;
    if (!make_table(ask, &t, &arena, err)) return false;
    struct team m = { .n = out->n };
    memcpy(m.who, out->who, sizeof m.who);
    for (size_t i = 0; i < m.n; i++) m.most[i] = 1;
    m.fixed = fixed_cost(&t, &m);
    out->cost = cost_of(&t, &m, out->share);
    return true;
}
