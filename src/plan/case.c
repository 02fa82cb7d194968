/* Setting up a case: the problem's times, weighted and laid out by place, infinite where something must not be. */
#include "plan/case.h"

#include <math.h>

static double weigh(const struct vr_problem *p, const double ms[VR_N_PHASES])
{
    double sum = 0;
    for (int phase = 0; phase < VR_N_PHASES; phase++) sum += p->weight[phase] * ms[phase];
    return sum;
}

static double piece_cost(const struct vr_case *c, const struct vr_piece *x, uint32_t place)
{
    double ms[VR_N_PHASES];
    for (int phase = 0; phase < VR_N_PHASES; phase++)
        ms[phase] = place < c->n_kinds ? x->ms[phase][place] : x->host_ms[phase][c->first == NONE ? 0 : c->first];
    return weigh(c->p, ms);
}

bool vr_case_may(const struct vr_case *c, uint32_t mask, uint32_t place)
{
    if (place == c->n_kinds) return c->host && (mask == 0 || (mask >> VR_ON_HOST & 1));
    return (c->usable >> place & 1) && (mask == 0 || (mask >> place & 1));
}

static uint64_t less(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

static void init_kinds(struct vr_case *c)
{
    const struct vr_problem *p = c->p;
    for (uint32_t k = 0; k < c->n_kinds; k++) {
        const uint64_t *compute = &p->kinds[k].compute_bytes[0];
        uint64_t middle = compute[c->situation], first = compute[c->situation | VR_SIT_FIRST];
        if (p->kinds[k].budget_bytes >= middle) c->usable |= UINT32_C(1) << k;
        c->cap_bytes[k] = less(p->kinds[k].budget_bytes, middle);
        c->first_bytes[k] = c->host ? first - middle : 0;
        c->output_bytes[k][0] = compute[c->situation | VR_SIT_OUTPUT] - middle;
        c->output_bytes[k][1] =
            c->host ? compute[c->situation | VR_SIT_FIRST | VR_SIT_OUTPUT] - first : c->output_bytes[k][0];
    }
}

static void init_hops(struct vr_case *c)
{
    const struct vr_problem *p = c->p;
    for (uint32_t a = 0; a < c->n_places; a++) {
        for (uint32_t b = 0; b < c->n_places; b++) {
            uint32_t from = a == c->n_kinds ? VR_ON_HOST : a, to = b == c->n_kinds ? VR_ON_HOST : b;
            double ms[VR_N_PHASES];
            for (int phase = 0; phase < VR_N_PHASES; phase++) ms[phase] = p->hop_ms[phase][from][to];
            c->hop[a][b] = weigh(p, ms);
        }
    }
    c->interrupt = weigh(p, p->switch_ms);
    for (uint32_t k = 0; k < c->n_kinds; k++) {
        double ms[VR_N_PHASES];
        for (int phase = 0; phase < VR_N_PHASES; phase++) ms[phase] = p->open_ms[phase][k];
        for (uint32_t a = 0; a < c->n_places; a++) c->enter[a][k] = c->hop[a][k] + weigh(p, ms);
    }
    for (uint32_t k = 0; k < c->n_kinds; k++) { /* only one device is entered from the host, and the path knows it */
        c->entry[k] = p->n_devices > 1 ? INFINITY : c->enter[c->n_kinds][k];
        for (uint32_t a = 0; a < c->n_kinds; a++)
            if ((a != k || p->kinds[k].n > 1) && c->enter[a][k] < c->entry[k]) c->entry[k] = c->enter[a][k];
    }
}

static void init_costs(struct vr_case *c)
{
    const struct vr_problem *p = c->p;
    for (uint32_t q = 0; q < p->n_classes; q++) {
        const struct vr_station_class *class = &p->classes[q];
        for (uint32_t place = 0; place < c->n_places; place++) {
            c->core[q * c->n_places + place] = vr_case_may(c, 0, place) ? piece_cost(c, &class->core, place) : INFINITY;
            for (uint32_t u = 0; u < class->n_units; u++) {
                double ms[VR_N_PHASES];
                for (int phase = 0; phase < VR_N_PHASES; phase++)
                    ms[phase] = place < c->n_kinds ? class->units[u].back_ms[phase][place] : 0;
                c->back[(q * c->max_units + u) * c->n_places + place] = weigh(p, ms);
                c->unit[(q * c->max_units + u) * c->n_places + place] =
                    vr_case_may(c, class->units[u].allow, place) ? piece_cost(c, &class->units[u].piece, place)
                                                                 : INFINITY;
            }
        }
    }
}

bool vr_case_init(struct vr_case *c, const struct vr_problem *p, bool host, uint32_t first, bool host_limited,
                  unsigned situation, struct vr_arena *arena)
{
    *c = (struct vr_case){ .p = p, .host = host, .first = first, .host_limited = host_limited, .situation = situation };
    c->n_kinds = p->n_kinds;
    c->n_places = p->n_kinds + 1;
    for (uint32_t q = 0; q < p->n_classes; q++)
        if (p->classes[q].n_units > c->max_units) c->max_units = p->classes[q].n_units;
    c->host_bytes = less(p->host_budget_bytes, p->host_fixed_bytes);
    init_kinds(c);
    init_hops(c);
    size_t squares = (size_t)c->n_places * c->n_places;
    c->core = vr_arena_alloc(arena, (size_t)p->n_classes * c->n_places, sizeof *c->core);
    c->unit = vr_arena_alloc(arena, (size_t)p->n_classes * (c->max_units + 1) * c->n_places, sizeof *c->unit);
    c->back = vr_arena_alloc(arena, (size_t)p->n_classes * (c->max_units + 1) * c->n_places, sizeof *c->back);
    c->through = vr_arena_alloc(arena, (size_t)p->n_classes * 2 * c->n_places, sizeof *c->through);
    c->tail = vr_arena_alloc(arena, (size_t)p->n_classes * (c->max_units + 1) * 2 * squares, sizeof *c->tail);
    c->settled = vr_arena_alloc(arena, (size_t)p->n_classes * (c->max_units + 1) * 2 * squares, sizeof *c->settled);
    c->rest = vr_arena_alloc(arena, ((size_t)p->n_stations + 1) * 2 * c->n_places, sizeof *c->rest);
    c->before = vr_arena_alloc(arena, ((size_t)p->n_stations + 1) * c->n_places, sizeof *c->before);
    if (!c->core || !c->unit || !c->back || !c->through || !c->tail || !c->settled || !c->rest || !c->before)
        return false;
    init_costs(c);
    return true;
}
