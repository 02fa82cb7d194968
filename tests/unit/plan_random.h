/* Random placement problems, small and large, for the tests of plan/. Deterministic: a seed is a problem. */
#ifndef PLAN_RANDOM_H
#define PLAN_RANDOM_H

#include <stdlib.h>
#include <string.h>

#include "plan/problem.h"

struct dice {
    uint64_t x;
};

static inline uint64_t roll(struct dice *d, uint64_t n) /* 0 .. n-1 */
{
    d->x += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = d->x;
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (z ^ z >> 31) % n;
}

static inline double toss(struct dice *d, double min, double max)
{
    return min + (max - min) * (double)roll(d, 1 << 20) / (double)(1 << 20);
}

static inline uint64_t roll_between(struct dice *d, uint64_t min, uint64_t max) { return min + roll(d, max - min + 1); }

/* What a problem may contain at most. */
struct random_size {
    uint32_t devices, kinds, layers_min, layers_max, classes, units;
    uint32_t free_units; /* in the whole problem: they are what brute force cannot have many of */
};

struct random_problem {
    struct vr_problem p;
    struct vr_station_class classes[8];
    uint16_t stations[256];
    uint32_t allow[256];
};

static inline void random_piece(struct dice *d, const struct vr_problem *p, const double *speed, uint64_t max,
                                struct vr_piece *x)
{
    memset(x, 0, sizeof *x);
    x->host_bytes = roll_between(d, 1, max);
    x->gpu_bytes = x->host_bytes + roll(d, 3);
    double share = roll(d, 2) ? 1 : toss(d, 0.05, 1); /* of its bytes, read per token */
    bool uneven = roll(d, 3) == 0;                    /* devices are not as good at this as at the rest */
    for (int phase = 0; phase < VR_N_PHASES; phase++) {
        double ms = share * (double)x->host_bytes * (phase ? 0.01 : 0.1);
        for (uint32_t k = 0; k < p->n_kinds; k++) x->ms[phase][k] = ms * speed[k] * (uneven ? toss(d, 0.3, 3) : 1);
        for (uint32_t k = 0; k <= VR_MAX_PLACED; k++)
            x->host_ms[phase][k] = ms * speed[15] * (phase ? toss(d, 0.5, 2) : 1);
    }
    for (uint32_t k = 0; k < p->n_kinds; k++) x->piped_ms[k] = x->ms[VR_PREFILL][k] * (0.5 + 0.5 * share);
}

static inline void random_kinds(struct dice *d, const struct random_size *size, struct vr_problem *p)
{
    p->n_devices = (uint32_t)roll_between(d, 1, size->devices);
    uint32_t left = p->n_devices;
    while (left && p->n_kinds < size->kinds) {
        uint32_t n = p->n_kinds + 1 == size->kinds ? left : (uint32_t)roll_between(d, 1, left);
        p->kinds[p->n_kinds++].n = n;
        left -= n;
    }
    p->n_devices -= left;
}

static inline void random_hops(struct dice *d, struct vr_problem *p)
{
    double scale = roll(d, 4) ? toss(d, 0, 3) : 0;
    for (int phase = 0; phase < VR_N_PHASES; phase++)
        for (uint32_t a = 0; a <= VR_MAX_PLACED; a++)
            for (uint32_t b = 0; b <= VR_MAX_PLACED; b++) p->hop_ms[phase][a][b] = toss(d, 0.1, 1) * scale;
    for (int phase = 0; phase < VR_N_PHASES; phase++)
        for (uint32_t k = 0; k < p->n_kinds; k++) p->open_ms[phase][k] = roll(d, 3) ? toss(d, 0, 2) * scale : 0;
    for (int phase = 0; phase < VR_N_PHASES; phase++) p->switch_ms[phase] = roll(d, 3) ? toss(d, 0, 2) * scale : 0;
}

/* The bytes of some pieces of a problem: a budget where every byte counts. */
static inline uint64_t random_subset(struct dice *d, const struct vr_problem *p)
{
    uint64_t sum = 0, one_of = roll_between(d, 2, 4);
    for (uint32_t s = 0; s < p->n_stations; s++) {
        const struct vr_station_class *c = &p->classes[p->stations[s]];
        if (roll(d, one_of) == 0) sum += c->core.gpu_bytes;
        for (uint32_t u = 0; u < c->n_units; u++)
            if (roll(d, one_of) == 0) sum += c->units[u].piece.gpu_bytes;
    }
    return sum;
}

/* Budgets so that all stations need about `share` of all devices together. */
static inline void random_budgets(struct dice *d, struct vr_problem *p)
{
    uint64_t all = 0, host = 0;
    for (uint32_t s = 0; s < p->n_stations; s++) {
        const struct vr_station_class *c = &p->classes[p->stations[s]];
        all += c->core.gpu_bytes;
        host += c->core.host_bytes;
        for (uint32_t u = 0; u < c->n_units; u++)
            all += c->units[u].piece.gpu_bytes, host += c->units[u].piece.host_bytes;
    }
    double share = toss(d, 0.4, 2.0);
    for (uint32_t k = 0; k < p->n_kinds; k++) {
        struct vr_kind *kind = &p->kinds[k];
        kind->budget_bytes = (uint64_t)((double)all * share / p->n_devices * toss(d, 0.5, 1.5)) + 1;
        uint64_t middle = roll(d, kind->budget_bytes / 4 + 1), first = roll(d, kind->budget_bytes / 3 + 1);
        uint64_t output = roll(d, kind->budget_bytes / 6 + 1), copies = roll(d, kind->budget_bytes / 6 + 1);
        for (unsigned s = 0; s < VR_N_SITUATIONS; s++)
            kind->compute_bytes[s] = middle + (s & VR_SIT_FIRST ? first : 0) + (s & VR_SIT_OUTPUT ? output : 0) +
                                     (s & VR_SIT_PIPELINE ? copies : 0);
        kind->compute_bytes[VR_SIT_FIRST | VR_SIT_OUTPUT] = middle + (first > output ? first : output);
        if (roll(d, 4) == 0) kind->budget_bytes = kind->compute_bytes[roll(d, 4)] + random_subset(d, p);
    }
    p->host_fixed_bytes = roll(d, 5);
    p->host_budget_bytes = roll(d, 3) ? UINT64_C(1) << 40 : (uint64_t)((double)host * toss(d, 0.05, 1.0));
}

static inline void random_fixes(struct dice *d, struct random_problem *r)
{
    struct vr_problem *p = &r->p;
    if (roll(d, 6) == 0) p->ordered = true;
    if (roll(d, 8) == 0) r->allow[roll(d, p->n_stations)] = UINT32_C(1) << roll(d, p->n_kinds);
    if (roll(d, 12) == 0) { /* as --n-gpu-layers does */
        uint32_t n = (uint32_t)roll(d, p->n_stations + 1);
        uint32_t devices = (UINT32_C(1) << p->n_kinds) - 1;
        for (uint32_t s = 0; s < p->n_stations; s++) r->allow[s] = s < n ? UINT32_C(1) << VR_ON_HOST : devices;
    }
    struct vr_station_class *c = &r->classes[roll(d, p->n_classes)];
    if (c->n_units && roll(d, 8) == 0)
        c->units[0].allow = UINT32_C(1) << (roll(d, 2) ? (uint64_t)VR_ON_HOST : roll(d, p->n_kinds));
    if (roll(d, 20) == 0) c->core.left_bytes = 1;
}

static inline void random_problem(uint64_t seed, const struct random_size *size, struct random_problem *r)
{
    struct dice d = { seed * 7919 + 1 };
    struct vr_problem *p = &r->p;
    memset(r, 0, sizeof *r);
    p->classes = r->classes;
    p->stations = r->stations;
    p->allow = r->allow;
    random_kinds(&d, size, p);
    double speed[16];
    for (uint32_t k = 0; k < 15; k++) speed[k] = toss(&d, 0.2, 1);
    speed[15] = toss(&d, 1, 10);
    uint64_t grain = UINT64_C(1) << roll(&d, 12); /* coarse sizes make ties */
    p->n_classes = (uint32_t)roll_between(&d, 2, size->classes);
    bool experts = roll(&d, 3) != 0;
    for (uint32_t q = 0; q < p->n_classes; q++) {
        struct vr_station_class *c = &r->classes[q];
        random_piece(&d, p, speed, roll(&d, 2) ? grain : 1 + grain / 8, &c->core);
        c->cache = q == 0 ? VR_CACHE_NONE : roll(&d, 5) ? VR_CACHE_SOME : VR_CACHE_EMPTY;
        if (q) c->n_units = (uint32_t)roll(&d, size->units + 1); /* class 0 is for the output */
        for (uint32_t u = 0; u < c->n_units; u++) {
            random_piece(&d, p, speed, grain, &c->units[u].piece);
            c->units[u].n_in = (uint8_t)roll_between(&d, 1, 3);
            c->units[u].n_along = (uint8_t)roll(&d, 3);
            for (uint32_t k = 0; k < p->n_kinds; k++) c->units[u].back_ms[0][k] = roll(&d, 2) ? toss(&d, 0, 1) : 0;
            c->units[u].move = experts && roll(&d, 8) ? VR_MOVE_FREE : VR_MOVE_BORDER;
        }
    }
    uint32_t n_layers = (uint32_t)roll_between(&d, size->layers_min, size->layers_max), free_units = 0;
    for (uint32_t s = 0; s < n_layers; s++) {
        uint32_t q = (uint32_t)roll_between(&d, 1, p->n_classes - 1), n_free = 0;
        for (uint32_t u = 0; u < r->classes[q].n_units; u++) n_free += r->classes[q].units[u].move == VR_MOVE_FREE;
        if (free_units + n_free > size->free_units)
            q = 0;
        else
            free_units += n_free;
        r->stations[s] = (uint16_t)q;
    }
    r->stations[n_layers] = 0;
    p->n_stations = n_layers + 1;
    random_hops(&d, p);
    random_budgets(&d, p);
    random_fixes(&d, r);
    p->weight[VR_DECODE] = roll(&d, 3) ? 1 : 0;
    p->weight[VR_PREFILL] = p->weight[VR_DECODE] == 0 || roll(&d, 4) == 0 ? 4 : 0;
}

#endif
