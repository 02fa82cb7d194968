/* The meaning of a problem: which placements are allowed and what each costs. Written for clarity and not for speed;
 * the search has its own incremental account, and every plan it finds is checked against this one. */
#include "plan/problem.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

uint32_t vr_problem_kind_of(const struct vr_problem *p, uint32_t device)
{
    uint32_t k = 0;
    for (; k + 1 < p->n_kinds && device >= p->kinds[k].n; k++) device -= p->kinds[k].n;
    return k;
}

void vr_problem_free_units(struct vr_problem *p)
{
    for (uint32_t q = 0; q < p->n_classes; q++)
        for (uint32_t u = 0; u < p->classes[q].n_units; u++) p->classes[q].units[u].move = VR_MOVE_FREE;
}

static uint32_t kind_or_host(const struct vr_problem *p, uint32_t place)
{
    return place == VR_ON_HOST ? VR_ON_HOST : vr_problem_kind_of(p, place);
}

static bool allows(uint32_t mask, uint32_t kind) { return mask == 0 || (mask >> kind & 1); }

static bool times_fine(const struct vr_problem *p, const struct vr_piece *x)
{
    for (int phase = 0; phase < VR_N_PHASES; phase++) {
        for (uint32_t k = 0; k < p->n_kinds; k++)
            if (!isfinite(x->ms[phase][k]) || x->ms[phase][k] < 0) return false;
        for (uint32_t k = 0; k <= VR_MAX_PLACED; k++)
            if (!isfinite(x->host_ms[phase][k]) || x->host_ms[phase][k] < 0) return false;
    }
    return true;
}

static bool unit_sound(const struct vr_problem *p, const struct vr_unit *unit)
{
    for (int phase = 0; phase < VR_N_PHASES; phase++)
        for (uint32_t k = 0; k < p->n_kinds; k++)
            if (!isfinite(unit->back_ms[phase][k]) || unit->back_ms[phase][k] < 0) return false;
    return unit->n_in > 0 && times_fine(p, &unit->piece);
}

static bool kinds_fine(const struct vr_problem *p, struct vr_err *err)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < p->n_kinds; k++) {
        const struct vr_kind *kind = &p->kinds[k];
        if (kind->n == 0) return vr_fail(err, VR_EINTERNAL, "device kind %u of the problem is empty", k);
        n += kind->n;
        for (unsigned s = 0; s < VR_N_SITUATIONS; s++)
            for (unsigned bit = 1; bit < VR_N_SITUATIONS; bit <<= 1)
                if (kind->compute_bytes[s | bit] < kind->compute_bytes[s])
                    return vr_fail(err, VR_EINTERNAL, "kind %u: situation %u needs less than %u", k, s | bit, s);
    }
    if (n != p->n_devices || n > VR_MAX_PLACED)
        return vr_fail(err, VR_EINTERNAL, "the problem has %u devices, its kinds have %u", p->n_devices, n);
    return true;
}

bool vr_problem_check(const struct vr_problem *p, struct vr_err *err)
{
    if (p->n_kinds > VR_MAX_PLACED || p->n_stations < 1 || p->n_stations > VR_MAX_STATIONS)
        return vr_fail(err, VR_EINTERNAL, "a problem of %u kinds and %u stations is out of bounds", p->n_kinds,
                       p->n_stations);
    if (!kinds_fine(p, err)) return false;
    for (uint32_t c = 0; c < p->n_classes; c++) {
        const struct vr_station_class *class = &p->classes[c];
        bool fine = class->n_units <= VR_MAX_UNITS && times_fine(p, &class->core);
        for (uint32_t u = 0; fine && u < class->n_units; u++) fine = unit_sound(p, &class->units[u]);
        if (!fine)
            return vr_fail(err, VR_EINTERNAL,
                           "station class %u has a time that is not a number, or a unit that no copy reaches", c);
    }
    for (uint32_t s = 0; s < p->n_stations; s++)
        if (p->stations[s] >= p->n_classes) return vr_fail(err, VR_EINTERNAL, "station %u has no class", s);
    for (int phase = 0; phase < VR_N_PHASES; phase++)
        for (uint32_t a = 0; a <= VR_MAX_PLACED; a++)
            for (uint32_t b = 0; b <= VR_MAX_PLACED; b++)
                if (!isfinite(p->hop_ms[phase][a][b]) || p->hop_ms[phase][a][b] < 0)
                    return vr_fail(err, VR_EINTERNAL, "the hop from %u to %u has no time", a, b);
    for (int phase = 0; phase < VR_N_PHASES; phase++)
        for (uint32_t k = 0; k < p->n_kinds; k++)
            if (!isfinite(p->open_ms[phase][k]) || p->open_ms[phase][k] < 0)
                return vr_fail(err, VR_EINTERNAL, "opening a device of kind %u has no time", k);
    if (!(p->first_share >= 0 && p->first_share <= 1))
        return vr_fail(err, VR_EINTERNAL, "the first micro-batch is %g of a prompt", p->first_share);
    for (int phase = 0; phase < VR_N_PHASES; phase++)
        if (!isfinite(p->switch_ms[phase]) || p->switch_ms[phase] < 0)
            return vr_fail(err, VR_EINTERNAL, "leaving a core has no time");
    return true;
}

/* Whether every place that has layers can be loaded. */
static bool caches_fine(const struct vr_problem *p, const struct vr_placement *x, struct vr_err *err)
{
    uint32_t some = 0, empty = 0;
    for (uint32_t s = 0; s < p->n_stations; s++) {
        enum vr_cache cache = p->classes[p->stations[s]].cache;
        some |= (uint32_t)(cache == VR_CACHE_SOME) << x->core[s];
        empty |= (uint32_t)(cache == VR_CACHE_EMPTY) << x->core[s];
    }
    return (empty & ~some) == 0 || vr_fail(err, VR_EINTERNAL, "a place has layers, but none with a cache");
}

/* Order of the devices, stations on each, and whether weights are on the host. */
static bool survey(const struct vr_problem *p, const struct vr_placement *x, struct vr_account *a, struct vr_err *err)
{
    uint32_t last = VR_ON_HOST;
    for (uint32_t s = 0; s < p->n_stations; s++) {
        const struct vr_station_class *class = &p->classes[p->stations[s]];
        uint32_t d = x->core[s];
        if (d != VR_ON_HOST && d >= p->n_devices) return vr_fail(err, VR_EINTERNAL, "station %u is on no device", s);
        if (!allows(p->allow[s], kind_or_host(p, d)))
            return vr_fail(err, VR_EINTERNAL, "station %u is on a device that is not allowed for it", s);
        if (d != last) {
            if (d == VR_ON_HOST) return vr_fail(err, VR_EINTERNAL, "station %u is on the host after a device", s);
            if (a->n_stations[d])
                return vr_fail(err, VR_EINTERNAL, "device %u has stations that do not follow each other", d);
            if (p->ordered && last != VR_ON_HOST && kind_or_host(p, d) < kind_or_host(p, last))
                return vr_fail(err, VR_EINTERNAL, "device %u is out of order", d);
            a->order[a->n_order++] = (uint8_t)d;
            last = d;
        }
        a->n_stations[d]++;
        a->on_host |= d == VR_ON_HOST || class->core.left_bytes > 0;
        for (uint32_t u = 0; u < class->n_units; u++) {
            uint32_t e = x->units[s * VR_MAX_UNITS + u];
            a->on_host |= e == VR_ON_HOST || class->units[u].piece.left_bytes > 0;
            a->moved |= e != d;
        }
    }
    return true;
}

/* Whether unit u of station s may be at e. Which devices are in use is known by now. */
static bool unit_fine(const struct vr_problem *p, const struct vr_placement *x, const struct vr_account *a, uint32_t s,
                      const struct vr_unit *unit, uint32_t e)
{
    uint32_t d = x->core[s];
    if (e != VR_ON_HOST && (e >= p->n_devices || a->n_stations[e] == 0)) return false;
    if (!allows(unit->allow, kind_or_host(p, e))) return false;
    if (e == d || unit->move == VR_MOVE_FREE) return true;
    uint32_t before = s ? x->core[s - 1] : VR_ON_HOST;
    uint32_t after = s + 1 < p->n_stations ? x->core[s + 1] : d;
    return (before != d && e == before) || (after != d && e == after);
}

struct walk {
    const struct vr_problem *p;
    struct vr_account *a;
    uint32_t at, first; /* where the token is; kind of the first device, VR_MAX_PLACED for none */
};

static void copy(struct walk *w, uint32_t from, uint32_t to, unsigned n)
{
    if (to == from) return;
    for (int phase = 0; phase < VR_N_PHASES; phase++)
        w->a->hop_ms[phase] += n * w->p->hop_ms[phase][kind_or_host(w->p, from)][kind_or_host(w->p, to)];
}

static void hop(struct walk *w, uint32_t to, unsigned n)
{
    copy(w, w->at, to, n);
    w->at = to;
}

/* As hop(), away from a core or back to it. */
static void change(struct walk *w, uint32_t to, unsigned n)
{
    for (int phase = 0; phase < VR_N_PHASES && to != w->at; phase++) w->a->hop_ms[phase] += w->p->switch_ms[phase];
    hop(w, to, n);
}

static void bring_back(struct walk *w, const struct vr_unit *unit, uint32_t core)
{
    if (core == VR_ON_HOST) return;
    for (int phase = 0; phase < VR_N_PHASES; phase++)
        w->a->hop_ms[phase] += unit->back_ms[phase][vr_problem_kind_of(w->p, core)];
}

static void visit(struct walk *w, const struct vr_piece *x, uint32_t place)
{
    uint32_t kind = kind_or_host(w->p, place);
    bool host = place == VR_ON_HOST;
    w->a->weight_bytes[place] += host ? x->host_bytes : x->gpu_bytes;
    if (!host) w->a->weight_bytes[VR_ON_HOST] += x->left_bytes;
    for (int phase = 0; phase < VR_N_PHASES; phase++)
        w->a->ms[phase][place] += host ? x->host_ms[phase][w->first] : x->ms[phase][kind];
    if (!host) w->a->piped_ms[place] += x->piped_ms[kind];
}

/* In a pipeline, what takes longest sets the pace: a device, the copies, or the host that starts all of it; but not for
 * the first micro-batch, before which there is nothing to overlap with. */
static double phase_ms(const struct vr_problem *p, const struct vr_account *a, enum vr_phase phase, bool pipeline)
{
    double sum = a->hop_ms[phase], slowest = a->hop_ms[phase], starting = 0;
    for (uint32_t i = 0; i <= VR_MAX_PLACED; i++) sum += a->ms[phase][i];
    for (uint32_t i = 0; i < VR_MAX_PLACED; i++) {
        slowest = fmax(slowest, a->piped_ms[i]);
        starting += a->ms[VR_PREFILL][i] - a->piped_ms[i];
    }
    if (!pipeline || phase != VR_PREFILL) return sum;
    return p->first_share * sum + (1 - p->first_share) * fmax(slowest, starting);
}

static bool within(const struct vr_problem *p, const struct vr_account *a, struct vr_err *err)
{
    for (uint32_t d = 0; d < p->n_devices; d++) {
        uint64_t used = a->weight_bytes[d] + a->compute_bytes[d];
        uint64_t budget = p->kinds[vr_problem_kind_of(p, d)].budget_bytes;
        if (a->n_stations[d] && used > budget)
            return vr_fail(err, VR_ENOFIT, "device %u would hold %" PRIu64 " bytes of %" PRIu64, d, used, budget);
    }
    uint64_t host = a->weight_bytes[VR_ON_HOST] + p->host_fixed_bytes;
    if (host > p->host_budget_bytes)
        return vr_fail(err, VR_ENOFIT, "the host would hold %" PRIu64 " bytes of %" PRIu64, host, p->host_budget_bytes);
    return true;
}

bool vr_problem_account(const struct vr_problem *p, const struct vr_placement *x, unsigned situation,
                        struct vr_account *out, struct vr_err *err)
{
    memset(out, 0, sizeof *out);
    if (!survey(p, x, out, err) || !caches_fine(p, x, err)) return false;
    struct walk w = { p, out, VR_ON_HOST, out->n_order ? vr_problem_kind_of(p, out->order[0]) : VR_MAX_PLACED };
    for (uint32_t s = 0; s < p->n_stations; s++) {
        const struct vr_station_class *class = &p->classes[p->stations[s]];
        hop(&w, x->core[s], 1);
        visit(&w, &class->core, x->core[s]);
        for (uint32_t u = 0; u < class->n_units; u++) {
            uint32_t e = x->units[s * VR_MAX_UNITS + u];
            if (!unit_fine(p, x, out, s, &class->units[u], e))
                return vr_fail(err, VR_EINTERNAL, "unit %u of station %u must not be at %u", u, s, e);
            change(&w, e, e == x->core[s] ? 1 : class->units[u].n_in);
            if (e != VR_ON_HOST) copy(&w, x->core[s], e, class->units[u].n_along);
            if (e == VR_ON_HOST) bring_back(&w, &class->units[u], x->core[s]);
            visit(&w, &class->units[u].piece, e);
        }
        change(&w, x->core[s], 1);
    }
    hop(&w, VR_ON_HOST, 1);
    for (uint32_t i = 0; i < out->n_order; i++) {
        uint32_t d = out->order[i];
        unsigned sit = situation | (i == 0 && out->on_host ? VR_SIT_FIRST : 0);
        if (i + 1 == out->n_order) sit |= VR_SIT_OUTPUT;
        uint32_t k = vr_problem_kind_of(p, d);
        out->compute_bytes[d] = p->kinds[k].compute_bytes[sit];
        for (int phase = 0; phase < VR_N_PHASES; phase++) out->hop_ms[phase] += p->open_ms[phase][k];
    }
    for (int phase = 0; phase < VR_N_PHASES; phase++)
        out->cost += p->weight[phase] * phase_ms(p, out, phase, (situation & VR_SIT_PIPELINE) != 0);
    return within(p, out, err);
}
