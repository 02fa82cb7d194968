#include "plan/last.h"

#include <string.h>

#define SAME 1e-9 /* relative */

static uint8_t *units_of(const struct vr_placement *x, uint32_t s) { return x->units + (size_t)s * VR_MAX_UNITS; }

static uint64_t bytes_on_host(const struct vr_problem *p, const struct vr_placement *x, uint32_t s)
{
    const struct vr_station_class *c = &p->classes[p->stations[s]];
    uint64_t bytes = 0;
    for (uint32_t u = 0; u < c->n_units; u++)
        if (units_of(x, s)[u] == VR_ON_HOST) bytes += c->units[u].piece.host_bytes;
    return bytes;
}

/* Units that may only cross a border are bound to their station. */
static bool is_free(const struct vr_station_class *c)
{
    for (uint32_t u = 0; u < c->n_units; u++)
        if (c->units[u].move != VR_MOVE_FREE) return false;
    return c->n_units > 0;
}

static bool alike(const struct vr_problem *p, const struct vr_placement *x, uint32_t s, uint32_t t)
{
    return p->stations[s] == p->stations[t] && x->core[s] == x->core[t] && x->core[s] != VR_ON_HOST;
}

static void exchange(const struct vr_placement *x, uint32_t s, uint32_t t)
{
    uint8_t was[VR_MAX_UNITS];
    memcpy(was, units_of(x, s), sizeof was);
    memcpy(units_of(x, s), units_of(x, t), sizeof was);
    memcpy(units_of(x, t), was, sizeof was);
}

/* The station before `t` that is like it and has most on the host, and more than `t`; `t` itself: none. */
static uint32_t giver(const struct vr_problem *p, const struct vr_placement *x, uint32_t t)
{
    uint32_t best = t;
    uint64_t most = bytes_on_host(p, x, t);
    for (uint32_t s = t; s-- > 0;)
        if (alike(p, x, s, t) && bytes_on_host(p, x, s) > most) best = s, most = bytes_on_host(p, x, s);
    return best;
}

static bool costs(const struct vr_problem *p, const struct vr_placement *x, unsigned situation, double *cost)
{
    struct vr_account a;
    struct vr_err no = { 0 };
    bool ok = vr_problem_account(p, x, situation, &a, &no);
    *cost = a.cost;
    return ok;
}

void vr_host_last(const struct vr_problem *p, unsigned situation, struct vr_placement *x)
{
    double was, is;
    if (!costs(p, x, situation, &was)) return;
    for (uint32_t t = p->n_stations; t-- > 0;) {
        if (!is_free(&p->classes[p->stations[t]])) continue;
        uint32_t s = giver(p, x, t);
        if (s == t) continue;
        exchange(x, s, t);
        if (!costs(p, x, situation, &is) || is > was * (1 + SAME)) exchange(x, s, t); /* a border was in the way */
    }
}
