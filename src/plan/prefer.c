/* A plan that is preferable is looked for as any better plan is: by small changes (polish.c), of a problem in which
 * what is to be spared has a price. Bytes on the host get a rising one until they are few enough; prompts a falling one
 * until generation is fast enough. */
#include "plan/prefer.h"

#include <math.h>
#include <string.h>

#include "plan/case.h"
#include "plan/solve.h"

#define ROUNDS      2   /* of shaking, with each price */
#define FIRST_RENT  0.5 /* of what a byte costs on the host: the first price for it */
#define MAX_RENT    4.0
#define GIVEN       0.25 /* of what is gained: for no more on the host */
#define RENT_RISE   2.0
#define FIRST_COUNT 8.0 /* times VR_TIE: how much prompts count at first */
#define COUNT_FALL  0.125

struct preference {
    const struct vr_problem *p;
    struct vr_problem priced; /* as p, with prices and the host's limit */
    double limit;             /* of the cost */
    uint64_t host_bytes;
    uint32_t n_devices;
    int phase; /* of the goal: where the price of bytes goes */
    struct vr_placement *x, found;
};

static void copy(const struct vr_problem *p, const struct vr_placement *from, struct vr_placement *to)
{
    memcpy(to->core, from->core, p->n_stations);
    memcpy(to->units, from->units, (size_t)p->n_stations * VR_MAX_UNITS);
}

static double prompt_ms(const struct vr_account *a)
{
    double sum = a->hop_ms[VR_PREFILL];
    for (uint32_t i = 0; i <= VR_MAX_PLACED; i++) sum += a->ms[VR_PREFILL][i];
    return sum;
}

static void set_prices(struct preference *f, double per_byte, double prompts)
{
    struct vr_problem *q = &f->priced;
    for (uint32_t i = 0; i < q->n_classes; i++) {
        q->classes[i] = f->p->classes[i];
        for (uint32_t u = 0; u <= q->classes[i].n_units; u++) {
            struct vr_piece *x = u ? &q->classes[i].units[u - 1].piece : &q->classes[i].core;
            for (uint32_t k = 0; k <= VR_MAX_PLACED; k++)
                x->host_ms[f->phase][k] += per_byte * (double)x->host_bytes / f->p->weight[f->phase];
        }
    }
    q->weight[VR_PREFILL] = f->p->weight[VR_PREFILL] + prompts;
}

/* From x, by the prices. *fine: f->found is allowed, and a is its account. */
static bool look(struct preference *f, bool *fine, struct vr_account *a)
{
    double cost = INFINITY;
    copy(f->p, f->x, &f->found);
    if (!vr_polish(&f->priced, &f->found, ROUNDS, 1, &cost)) return false;
    *fine = vr_problem_account(f->p, &f->found, 0, a, NULL) && a->cost <= f->limit &&
            a->weight_bytes[VR_ON_HOST] <= f->host_bytes && a->n_order <= f->n_devices;
    return true;
}

static bool spare_host(struct preference *f, const struct vr_account *now, bool *fine)
{
    *fine = now->weight_bytes[VR_ON_HOST] <= f->host_bytes;
    if (*fine) return true;
    double each = now->ms[f->phase][VR_ON_HOST] * f->p->weight[f->phase] / (double)now->weight_bytes[VR_ON_HOST];
    for (double rent = FIRST_RENT; rent <= MAX_RENT && !*fine; rent *= RENT_RISE) {
        struct vr_account a;
        set_prices(f, rent * each, 0);
        if (!look(f, fine, &a)) return false;
    }
    if (*fine) copy(f->p, &f->found, f->x);
    return true;
}

/* All prompts together count as much as VR_TIE of the cost, or more of it while that is not too much. */
static bool favour_prompts(struct preference *f, double most)
{
    struct vr_account now, a;
    if (!vr_problem_account(f->p, f->x, 0, &now, NULL)) return true;
    f->limit = fmin(most, now.cost * (1 + VR_TIE));
    double prompts = VR_TIE * now.cost / prompt_ms(&now);
    bool fine = false;
    for (double count = FIRST_COUNT; count >= 1 && !fine; count *= COUNT_FALL) {
        set_prices(f, 0, count * prompts);
        if (!look(f, &fine, &a)) return false;
    }
    if (fine && prompt_ms(&a) < prompt_ms(&now)) copy(f->p, &f->found, f->x);
    return true;
}

bool vr_prefer(const struct vr_problem *p, const struct vr_placement *known, struct vr_arena *arena,
               struct vr_placement *x)
{
    struct preference f = { .p = p, .priced = *p, .x = x, .phase = p->weight[VR_DECODE] > 0 ? VR_DECODE : VR_PREFILL };
    struct vr_account now, was;
    bool fine,
        fits = vr_problem_account(p, known, 0, &was, NULL); /* else memory got less since: it is counted anyway */
    if (!vr_problem_account(p, x, 0, &now, NULL)) return true;
    f.limit = fmin(was.cost, fmax(now.cost * (1 + VR_TIE), now.cost + GIVEN * (was.cost - now.cost)));
    f.host_bytes = was.weight_bytes[VR_ON_HOST];
    f.n_devices = now.n_order > was.n_order ? now.n_order : was.n_order;
    f.priced.classes = vr_arena_alloc(arena, p->n_classes, sizeof *f.priced.classes);
    f.found.core = vr_arena_alloc(arena, p->n_stations, 1);
    f.found.units = vr_arena_alloc(arena, p->n_stations, VR_MAX_UNITS);
    if (!f.priced.classes || !f.found.core || !f.found.units) return false;
    if (!spare_host(&f, &now, &fine)) return false;
    if (!fine && fits && was.cost * (1 - VR_TIE) <= now.cost) copy(p, known, x);
    if (!fine && now.weight_bytes[VR_ON_HOST] > f.host_bytes) f.host_bytes = now.weight_bytes[VR_ON_HOST];
    if (p->host_fixed_bytes + f.host_bytes < p->host_budget_bytes)
        f.priced.host_budget_bytes = p->host_fixed_bytes + f.host_bytes;
    return p->weight[VR_PREFILL] > 0 || favour_prompts(&f, was.cost);
}
