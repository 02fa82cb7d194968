/* Improving a plan by small changes, for problems too large to search through.
 *
 * Changes of units: move one, move a run, exchange two, exchange all units of two stations; each by the difference in
 * cost that the stations concerned see. Changes of cores: shift a border by one station, or take a device out of the
 * row and put it in elsewhere with one station, units staying where they are or following; or have more or fewer cores
 * on the host and settle the units anew. These are counted from the start. When nothing helps any more, the plan is
 * shaken (some units to the host, some borders shifted) and improved again, and kept if it got better: tensors are few
 * and large, and the way from one tight packing to the next leads through looser ones.
 *
 * All in a fixed order with dice of our own: the result is determined by the plan it starts from. */
#include "plan/case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MIN_GAIN      1e-9 /* ms: below this, a change is rounding */
#define MAX_SWEEPS    40
#define MORE          4 /* times the rounds asked for, where they take little */
#define MAX_KICKS     6
#define MAX_HOST_STEP 4 /* cores that go to the host at once */

struct polish {
    const struct vr_problem *p;
    struct vr_placement *x;
    uint8_t kind[VR_MAX_PLACED + 1]; /* of each device, and of the host: VR_ON_HOST */
    uint32_t first;                  /* kind of the first device; VR_MAX_PLACED: none */
    bool in_use[VR_MAX_PLACED + 1];
    int64_t left[VR_MAX_PLACED + 1];                  /* bytes; the host is the last */
    double hop[VR_MAX_PLACED + 1][VR_MAX_PLACED + 1]; /* between devices */
    double interrupt;
    double *host_cost;    /* [class][core and units] */
    double *cost;         /* [class][core and units][kind] */
    double *back;         /* [class][unit][kind of the core] */
    double *station_cost; /* of each station as it is */
    double *moved;   /* [station][unit][place]: what it costs more to have this unit there; not a number: not known */
    bool on_host;    /* weights are: the first device has paid for it */
    bool hosts;      /* cores go to the host and back */
    bool *dirty;     /* stations whose exchanges are to be tried again */
    bool sparing;    /* the host's memory, not time */
    double spare_ms; /* time left for that */
    uint64_t dice;
    uint64_t work;
};

#define PIECES (VR_MAX_UNITS + 1)
#define PLACES (VR_MAX_PLACED + 1)

static const struct vr_station_class *class_of(const struct polish *o, uint32_t s)
{
    return &o->p->classes[o->p->stations[s]];
}

static double piece_cost(const struct polish *o, uint32_t q, uint32_t piece, uint32_t place)
{
    size_t at = (size_t)q * PIECES + piece;
    return place == VR_ON_HOST ? o->host_cost[at] : o->cost[at * VR_MAX_PLACED + o->kind[place]];
}

/* A station with its units at `units`: all but the way to the next core. */
static double cost_of(struct polish *o, uint32_t s, const uint8_t *units)
{
    uint32_t q = o->p->stations[s], core = o->x->core[s], at = core;
    double sum = piece_cost(o, q, 0, core);
    for (uint32_t u = 0; u < o->p->classes[q].n_units; u++) {
        const struct vr_unit *unit = &o->p->classes[q].units[u];
        uint32_t to = units[u];
        sum += piece_cost(o, q, u + 1, to) + o->hop[at][to] * (to == core ? 1 : unit->n_in);
        if (to != at) sum += o->interrupt;
        if (to != VR_ON_HOST)
            sum += o->hop[core][to] * unit->n_along;
        else if (core != VR_ON_HOST)
            sum += o->back[((size_t)q * PIECES + u) * VR_MAX_PLACED + o->kind[core]];
        at = to;
    }
    o->work++;
    return sum + o->hop[at][core] + (at == core ? 0 : o->interrupt);
}

static double *moved_at(const struct polish *o, uint32_t s) { return &o->moved[(size_t)s * VR_MAX_UNITS * PLACES]; }

/* What moving unit u of station s to e, and nothing else, costs more. */
static double moved(struct polish *o, uint32_t s, uint32_t u, uint32_t e)
{
    double *known = &moved_at(o, s)[u * PLACES + e];
    if (!isnan(*known)) return *known;
    uint8_t units[VR_MAX_UNITS];
    memcpy(units, &o->x->units[s * VR_MAX_UNITS], sizeof units);
    units[u] = (uint8_t)e;
    return *known = cost_of(o, s, units) - o->station_cost[s];
}

static void forget_moved(struct polish *o, uint32_t s, uint32_t n)
{
    memset(moved_at(o, s), 0xff, (size_t)n * VR_MAX_UNITS * PLACES * sizeof *o->moved);
}

static int64_t bytes_at(const struct vr_piece *x, uint32_t place)
{
    return (int64_t)(place == VR_ON_HOST ? x->host_bytes : x->gpu_bytes);
}

/* Whether unit u of station s may be at e, given where the cores are. */
static bool may_be(const struct polish *o, uint32_t s, uint32_t u, uint32_t e)
{
    const struct vr_unit *unit = &class_of(o, s)->units[u];
    uint32_t core = o->x->core[s];
    if (e == VR_ON_HOST ? !o->on_host : !o->in_use[e]) return false;
    if (unit->allow && !(unit->allow >> o->kind[e] & 1)) return false;
    if (e == core || unit->move == VR_MOVE_FREE) return true;
    uint32_t before = s ? o->x->core[s - 1] : VR_ON_HOST, after = s + 1 < o->p->n_stations ? o->x->core[s + 1] : core;
    return (before != core && e == before) || (after != core && e == after);
}

static bool fits(const struct polish *o, const int64_t *change)
{
    for (uint32_t d = 0; d <= VR_MAX_PLACED; d++)
        if (change[d] > 0 && change[d] > o->left[d]) return false;
    return true;
}

static void set_units(struct polish *o, uint32_t s, const uint8_t *units, double cost)
{
    o->dirty[s] = true;
    memcpy(&o->x->units[s * VR_MAX_UNITS], units, VR_MAX_UNITS);
    o->station_cost[s] = cost;
    forget_moved(o, s, 1);
}

static void charge(struct polish *o, const int64_t *change)
{
    for (uint32_t d = 0; d <= VR_MAX_PLACED; d++) o->left[d] -= change[d];
}

static void add_change(const struct polish *o, uint32_t s, const uint8_t *units, int64_t *change)
{
    const struct vr_station_class *class = class_of(o, s);
    for (uint32_t u = 0; u < class->n_units; u++) {
        uint32_t was = o->x->units[s * VR_MAX_UNITS + u], is = units[u];
        if (was == is) continue;
        change[was] -= bytes_at(&class->units[u].piece, was);
        change[is] += bytes_at(&class->units[u].piece, is);
    }
}

static bool helps(const struct polish *o, double more) { return more < (o->sparing ? o->spare_ms : -MIN_GAIN); }

/* Stations s and t (or s alone: t == s) get new units, if that helps: the time, or the host while there is time to
 * spare.
 */
static bool change_units(struct polish *o, uint32_t s, const uint8_t *su, uint32_t t, const uint8_t *tu)
{
    double was = o->station_cost[s], cs = cost_of(o, s, su), ct = 0;
    if (t != s) {
        was += o->station_cost[t];
        ct = cost_of(o, t, tu);
    }
    double more = cs + ct - was;
    if (!helps(o, more)) return false;
    int64_t change[VR_MAX_PLACED + 1] = { 0 };
    add_change(o, s, su, change);
    if (t != s) add_change(o, t, tu, change);
    if ((o->sparing && change[VR_ON_HOST] >= 0) || !fits(o, change)) return false;
    o->spare_ms -= more;
    charge(o, change);
    set_units(o, s, su, cs);
    if (t != s) set_units(o, t, tu, ct);
    return true;
}

/* Whether a unit of station s fits at e, after `freed` bytes left it: much cheaper than counting what it would cost. */
static bool has_room(const struct polish *o, uint32_t s, uint32_t u, uint32_t e, int64_t freed)
{
    int64_t more = bytes_at(&class_of(o, s)->units[u].piece, e) - freed;
    return more <= 0 || more <= o->left[e];
}

static bool move_one(struct polish *o, uint32_t s)
{
    uint8_t units[VR_MAX_UNITS];
    bool any = false;
    for (uint32_t u = 0; u < class_of(o, s)->n_units; u++) {
        for (uint32_t e = 0; e <= VR_MAX_PLACED; e++) {
            memcpy(units, &o->x->units[s * VR_MAX_UNITS], sizeof units);
            if (e == units[u] || (e != VR_ON_HOST && e >= o->p->n_devices)) continue;
            if (!has_room(o, s, u, e, 0) || !may_be(o, s, u, e) || !helps(o, moved(o, s, u, e))) continue;
            units[u] = (uint8_t)e;
            any |= change_units(o, s, units, s, NULL);
        }
    }
    return any;
}

/* Runs of units of station s, from u to v, all to e. */
static bool move_run(struct polish *o, uint32_t s)
{
    uint32_t n = class_of(o, s)->n_units;
    bool any = false;
    for (uint32_t u = 0; u < n; u++) {
        for (uint32_t v = u + 1; v < n; v++) {
            for (uint32_t e = 0; e <= VR_MAX_PLACED; e++) {
                uint8_t units[VR_MAX_UNITS];
                bool may = e == VR_ON_HOST || e < o->p->n_devices;
                memcpy(units, &o->x->units[s * VR_MAX_UNITS], sizeof units);
                for (uint32_t i = u; i <= v && may; i++) {
                    may = (units[i] == e || has_room(o, s, i, e, 0)) && may_be(o, s, i, e);
                    units[i] = (uint8_t)e;
                }
                if (may) any |= change_units(o, s, units, s, NULL);
            }
        }
    }
    return any;
}

static bool exchange(struct polish *o, uint32_t s, uint32_t t)
{
    uint32_t ns = class_of(o, s)->n_units, nt = class_of(o, t)->n_units;
    uint8_t *xs = &o->x->units[s * VR_MAX_UNITS], *xt = &o->x->units[t * VR_MAX_UNITS];
    uint8_t us[VR_MAX_UNITS], ut[VR_MAX_UNITS];
    bool any = false;
    if (memcmp(xs, xt, VR_MAX_UNITS) == 0) return false;
    for (uint32_t u = 0; u < ns; u++) {
        for (uint32_t v = 0; v < nt; v++) {
            if (xs[u] == xt[v]) continue;
            int64_t at_s = bytes_at(&class_of(o, s)->units[u].piece, xs[u]);
            int64_t at_t = bytes_at(&class_of(o, t)->units[v].piece, xt[v]);
            if (!has_room(o, s, u, xt[v], at_t) || !has_room(o, t, v, xs[u], at_s)) continue;
            if (!may_be(o, s, u, xt[v]) || !may_be(o, t, v, xs[u])) continue;
            if (!helps(o, moved(o, s, u, xt[v]) + moved(o, t, v, xs[u]))) continue;
            memcpy(us, xs, sizeof us);
            memcpy(ut, xt, sizeof ut);
            us[u] = xt[v];
            ut[v] = xs[u];
            any |= change_units(o, s, us, t, ut);
        }
    }
    if (ns != nt) return any;
    bool may = true;
    for (uint32_t u = 0; u < ns && may; u++) may = may_be(o, s, u, xt[u]) && may_be(o, t, u, xs[u]);
    memcpy(us, xt, sizeof us);
    memcpy(ut, xs, sizeof ut);
    return (may && change_units(o, s, us, t, ut)) || any;
}

/* --- the account --- */

/* As far as memory goes, from an account that may tell of too much. */
static void count_left(struct polish *o, const struct vr_account *a)
{
    memset(o->in_use, 0, sizeof o->in_use);
    memset(o->left, 0, sizeof o->left);
    o->on_host = a->on_host;
    for (uint32_t i = 0; i < a->n_order; i++) {
        uint32_t d = a->order[i];
        o->in_use[d] = true;
        o->left[d] = (int64_t)(o->p->kinds[o->kind[d]].budget_bytes - a->weight_bytes[d] - a->compute_bytes[d]);
    }
    o->left[VR_ON_HOST] = (int64_t)(o->p->host_budget_bytes - o->p->host_fixed_bytes - a->weight_bytes[VR_ON_HOST]);
}

static bool recount(struct polish *o)
{
    struct vr_account a;
    if (!vr_problem_account(o->p, o->x, 0, &a, NULL)) return false;
    count_left(o, &a);
    o->first = a.n_order ? vr_problem_kind_of(o->p, a.order[0]) : VR_MAX_PLACED;
    for (uint32_t q = 0; q < o->p->n_classes; q++) {
        const struct vr_station_class *class = &o->p->classes[q];
        for (uint32_t piece = 0; piece <= class->n_units; piece++) {
            const struct vr_piece *x = piece ? &class->units[piece - 1].piece : &class->core;
            double sum = 0;
            for (int phase = 0; phase < VR_N_PHASES; phase++) sum += o->p->weight[phase] * x->host_ms[phase][o->first];
            o->host_cost[(size_t)q * PIECES + piece] = sum;
        }
    }
    for (uint32_t s = 0; s < o->p->n_stations; s++) o->station_cost[s] = cost_of(o, s, &o->x->units[s * VR_MAX_UNITS]);
    forget_moved(o, 0, o->p->n_stations);
    return true;
}

/* Takes another plan if it is allowed and better; else puts the old one back. */
static bool accept(struct polish *o, const struct vr_placement *old, double *cost)
{
    struct vr_account a;
    o->work += o->p->n_stations;
    if (vr_problem_account(o->p, o->x, 0, &a, NULL) && a.cost < *cost - MIN_GAIN) {
        *cost = a.cost;
        memcpy(old->core, o->x->core, o->p->n_stations);
        memcpy(old->units, o->x->units, (size_t)o->p->n_stations * VR_MAX_UNITS);
        return true;
    }
    memcpy(o->x->core, old->core, o->p->n_stations);
    memcpy(o->x->units, old->units, (size_t)o->p->n_stations * VR_MAX_UNITS);
    return false;
}

/* Station s to device d; units that were with its core follow when `along`. */
static void move_core(struct polish *o, uint32_t s, uint32_t d, bool along)
{
    uint8_t was = o->x->core[s];
    o->x->core[s] = (uint8_t)d;
    for (uint32_t u = 0; along && u < class_of(o, s)->n_units; u++) {
        uint8_t *e = &o->x->units[s * VR_MAX_UNITS + u];
        if (*e == was) *e = (uint8_t)d;
    }
}

static bool shift_borders(struct polish *o, const struct vr_placement *old, double *cost)
{
    bool any = false;
    for (uint32_t s = 0; s + 1 < o->p->n_stations; s++) {
        for (uint32_t way = 0; way < 4; way++) {
            uint8_t a = o->x->core[s], b = o->x->core[s + 1];
            if (a == b) break;
            if (way & 1)
                move_core(o, s, b, way & 2);
            else
                move_core(o, s + 1, a, way & 2);
            any |= accept(o, old, cost);
        }
    }
    return any;
}

/* Device d leaves the row, its stations go to a neighbour, and it comes back with one station at a border. */
static bool reseat(struct polish *o, const struct vr_placement *old, double *cost)
{
    uint32_t n = o->p->n_stations;
    bool any = false;
    for (uint32_t d = 0; d < o->p->n_devices; d++) {
        for (uint32_t to = 0; to < n; to++) {
            for (uint32_t way = 0; way < 2; way++) {
                uint32_t begin = 0, end;
                while (begin < n && old->core[begin] != d) begin++;
                for (end = begin; end < n && old->core[end] == d;) end++;
                if (begin == n || (to >= begin && to < end)) continue;
                bool border =
                    to == 0 || to + 1 == n || old->core[to] != old->core[to - 1] || old->core[to] != old->core[to + 1];
                uint32_t heir = way     ? (end < n ? old->core[end] : VR_ON_HOST)
                                : begin ? old->core[begin - 1]
                                        : VR_ON_HOST;
                if (!border || heir == VR_ON_HOST) continue;
                for (uint32_t s = begin; s < end; s++) move_core(o, s, heir, false);
                move_core(o, to, d, false);
                any |= accept(o, old, cost);
            }
        }
    }
    return any;
}

/* --- shaking --- */

static uint32_t roll(struct polish *o, uint32_t n) /* 0 .. n-1 */
{
    o->dice += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = o->dice;
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)((z ^ z >> 31) % n);
}

/* Unit u of station s leaves device `from`: for the host, or where most room is. */
static bool evict(struct polish *o, uint32_t s, uint32_t u, uint32_t from)
{
    const struct vr_piece *x = &class_of(o, s)->units[u].piece;
    uint32_t to = from;
    if (may_be(o, s, u, VR_ON_HOST)) to = VR_ON_HOST;
    for (uint32_t d = 0; to != VR_ON_HOST && d < o->p->n_devices; d++)
        if (d != from && may_be(o, s, u, d) && o->left[d] >= bytes_at(x, d) && (to == from || o->left[d] > o->left[to]))
            to = d;
    if (to == from) return false;
    o->left[from] += bytes_at(x, from);
    o->left[to] -= bytes_at(x, to);
    o->x->units[s * VR_MAX_UNITS + u] = (uint8_t)to;
    o->dirty[s] = true;
    return true;
}

static void kick_border(struct polish *o)
{
    uint32_t n = o->p->n_stations - 1, at = n ? roll(o, n) : 0, way = roll(o, 2);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t s = (at + i) % n, from = s + way, to = s + 1 - way;
        uint8_t a = o->x->core[from], b = o->x->core[to];
        if (a == b || b == VR_ON_HOST || a == VR_ON_HOST) continue;
        const struct vr_piece *x = &class_of(o, from)->core;
        o->left[a] += bytes_at(x, a);
        o->left[b] -= bytes_at(x, b);
        o->x->core[from] = b;
        o->dirty[from] = true;
        return;
    }
}

/* How many of the first stations are on the host. */
static uint32_t host_stations(const struct polish *o)
{
    uint32_t n = 0;
    while (n < o->p->n_stations && o->x->core[n] == VR_ON_HOST) n++;
    return n;
}

static void kick_units(struct polish *o)
{
    uint32_t s = roll(o, o->p->n_stations), n = class_of(o, s)->n_units, only = n ? roll(o, 2 * n) : 0;
    for (uint32_t u = 0; u < n; u++) {
        uint8_t at = o->x->units[s * VR_MAX_UNITS + u];
        if (at != VR_ON_HOST && (only >= n || only == u)) evict(o, s, u, at);
    }
}

/* Where a device has too much now, units leave it, in a random order. */
static bool make_room(struct polish *o)
{
    uint32_t n = o->p->n_stations * VR_MAX_UNITS, at = roll(o, n);
    for (uint32_t d = 0; d < o->p->n_devices; d++) {
        for (uint32_t i = 0; i < n && o->left[d] < 0; i++) {
            uint32_t j = (uint32_t)((at + (uint64_t)i * 61) % n); /* 61 and n have no common factor but by chance */
            uint32_t s = j / VR_MAX_UNITS, u = j % VR_MAX_UNITS;
            if (u < class_of(o, s)->n_units && o->x->units[j] == d) evict(o, s, u, d);
        }
        if (o->left[d] < 0) return false;
    }
    return true;
}

static bool shake(struct polish *o)
{
    for (uint32_t i = roll(o, MAX_KICKS) + 1; i > 0; i--) {
        if (roll(o, 4) == 0)
            kick_border(o);
        else
            kick_units(o);
    }
    return make_room(o);
}

/* --- */

static void price_pieces(struct polish *o)
{
    const struct vr_problem *p = o->p;
    for (uint32_t q = 0; q < p->n_classes; q++) {
        const struct vr_station_class *class = &p->classes[q];
        for (uint32_t piece = 0; piece <= class->n_units; piece++) {
            const struct vr_piece *x = piece ? &class->units[piece - 1].piece : &class->core;
            for (uint32_t k = 0; k < p->n_kinds; k++) {
                double sum = 0;
                for (int phase = 0; phase < VR_N_PHASES; phase++) sum += p->weight[phase] * x->ms[phase][k];
                o->cost[((size_t)q * PIECES + piece) * VR_MAX_PLACED + k] = sum;
            }
        }
        for (uint32_t u = 0; u < class->n_units; u++)
            for (uint32_t k = 0; k < p->n_kinds; k++)
                for (int phase = 0; phase < VR_N_PHASES; phase++)
                    o->back[((size_t)q * PIECES + u) * VR_MAX_PLACED + k] +=
                        p->weight[phase] * class->units[u].back_ms[phase][k];
    }
    for (int phase = 0; phase < VR_N_PHASES; phase++) o->interrupt += p->weight[phase] * p->switch_ms[phase];
    for (uint32_t d = 0; d < p->n_devices; d++) o->kind[d] = (uint8_t)vr_problem_kind_of(p, d);
    o->kind[VR_ON_HOST] = VR_ON_HOST;
    for (uint32_t a = 0; a <= VR_MAX_PLACED; a++)
        for (uint32_t b = 0; b <= VR_MAX_PLACED; b++)
            for (int phase = 0; phase < VR_N_PHASES && a != b; phase++)
                o->hop[a][b] += p->weight[phase] * p->hop_ms[phase][o->kind[a]][o->kind[b]];
}

/* Until no change of units helps. */
static bool settle_units(struct polish *o)
{
    uint32_t n = o->p->n_stations;
    bool any = false;
    for (unsigned i = 0; i < MAX_SWEEPS; i++) {
        bool more = false;
        for (uint32_t s = 0; s < n; s++) more |= move_one(o, s) | move_run(o, s);
        for (uint32_t s = 0; s < n; s++) {
            if (!o->dirty[s]) continue;
            o->dirty[s] = false;
            for (uint32_t t = 0; t < n; t++) more |= t != s && exchange(o, s, t);
        }
        if (!more) return any;
        any = true;
    }
    return any;
}

static void copy(const struct vr_problem *p, const struct vr_placement *from, struct vr_placement *to)
{
    memcpy(to->core, from->core, p->n_stations);
    memcpy(to->units, from->units, (size_t)p->n_stations * VR_MAX_UNITS);
}

static void take_along(struct polish *o, uint32_t s, uint32_t from, uint32_t to)
{
    for (uint32_t u = 0; u < class_of(o, s)->n_units; u++) {
        const struct vr_piece *x = &class_of(o, s)->units[u].piece;
        uint8_t *at = &o->x->units[s * VR_MAX_UNITS + u];
        if (*at != from) continue;
        o->left[from] += bytes_at(x, from);
        o->left[to] -= bytes_at(x, to);
        *at = (uint8_t)to;
    }
}

/* The first n stations are on the host from now on, with their units or without: where the cache is large and half
 * empty, attention is what the host does best, and FFN matrices stay as guests of the devices. */
static bool host_cores(struct polish *o, uint32_t n, bool along)
{
    uint32_t was = host_stations(o), device = o->x->core[was < o->p->n_stations ? was : 0];
    if (n >= o->p->n_stations || was == o->p->n_stations) return false;
    for (uint32_t s = n < was ? n : was; s < (n < was ? was : n); s++) {
        const struct vr_piece *x = &class_of(o, s)->core;
        uint32_t from = o->x->core[s], to = n < was ? device : VR_ON_HOST;
        o->left[from] += bytes_at(x, from);
        o->left[to] -= bytes_at(x, to);
        o->x->core[s] = (uint8_t)to;
        o->dirty[s] = true;
        if (along) take_along(o, s, from, to);
    }
    return make_room(o);
}

/* More or fewer cores on the host, and units into the room that this makes. */
static bool shift_host(struct polish *o, struct vr_placement *old, double *cost)
{
    bool any = false;
    for (uint32_t step = MAX_HOST_STEP; step; step /= 2) {
        for (uint32_t way = 0; way < 4; way++) {
            bool more = true;
            while (more && recount(o) && o->on_host) {
                uint32_t n = host_stations(o);
                if ((way & 1) && n < step) break;
                memset(o->dirty, false, o->p->n_stations);
                more = host_cores(o, way & 1 ? n - step : n + step, way & 2) && recount(o);
                if (more) settle_units(o);
                more = accept(o, old, cost);
                any |= more;
            }
        }
    }
    return any;
}

/* Units and cores by turns. False when the plan is not allowed. */
static bool descend(struct polish *o, struct vr_placement *old, bool deep, double *cost)
{
    for (unsigned i = 0; i < MAX_SWEEPS; i++) {
        struct vr_account a;
        if (!recount(o)) return false;
        bool any = settle_units(o);
        if (!vr_problem_account(o->p, o->x, 0, &a, NULL)) return false;
        *cost = a.cost;
        copy(o->p, o->x, old);
        any = shift_borders(o, old, cost);
        if (deep) any |= reseat(o, old, cost);
        if (deep && o->hosts) any |= shift_host(o, old, cost);
        if (!any) return true;
        memset(o->dirty, true, o->p->n_stations);
    }
    return true;
}

static void improve(struct polish *o, struct vr_placement *best, struct vr_placement *old, unsigned rounds,
                    uint64_t work, double *cost)
{
    memset(o->dirty, true, o->p->n_stations);
    if (!descend(o, old, true, cost)) return;
    copy(o->p, o->x, best);
    for (unsigned i = 0; i < rounds || (i < MORE * rounds && o->work < work); i++) {
        double now = INFINITY;
        copy(o->p, best, o->x);
        memset(o->dirty, false, o->p->n_stations);
        if (!recount(o) || !shake(o) || !descend(o, old, false, &now)) continue;
        if (now < *cost - MIN_GAIN) {
            memset(o->dirty, true, o->p->n_stations);
            if (!descend(o, old, true, &now)) continue;
            *cost = now;
            copy(o->p, o->x, best);
        }
    }
    copy(o->p, best, o->x);
}

static bool new_placement(const struct vr_problem *p, struct vr_placement *x)
{
    x->core = malloc(p->n_stations);
    x->units = malloc((size_t)p->n_stations * VR_MAX_UNITS);
    return x->core && x->units;
}

static bool init(struct polish *o)
{
    const struct vr_problem *p = o->p;
    o->host_cost = calloc((size_t)p->n_classes * PIECES, sizeof *o->host_cost);
    o->cost = calloc((size_t)p->n_classes * PIECES * VR_MAX_PLACED, sizeof *o->cost);
    o->back = calloc((size_t)p->n_classes * PIECES * VR_MAX_PLACED, sizeof *o->back);
    o->station_cost = calloc(p->n_stations, sizeof *o->station_cost);
    o->moved = malloc((size_t)p->n_stations * VR_MAX_UNITS * PLACES * sizeof *o->moved);
    o->dirty = calloc(p->n_stations, sizeof *o->dirty);
    if (!o->host_cost || !o->cost || !o->back || !o->station_cost || !o->moved || !o->dirty) return false;
    price_pieces(o);
    return true;
}

static void done(struct polish *o)
{
    free(o->host_cost);
    free(o->cost);
    free(o->back);
    free(o->station_cost);
    free(o->moved);
    free(o->dirty);
}

bool vr_polish(const struct vr_problem *p, struct vr_placement *x, unsigned rounds, uint64_t work, double *cost)
{
    struct polish o = { .p = p, .x = x, .hosts = work > 0 };
    struct vr_placement old = { 0 }, best = { 0 };
    bool ok = new_placement(p, &old) && new_placement(p, &best) && init(&o);
    if (ok) improve(&o, &best, &old, rounds, work, cost);
    free(old.core);
    free(old.units);
    free(best.core);
    free(best.units);
    done(&o);
    return ok;
}

bool vr_polish_spare(const struct vr_problem *p, struct vr_placement *x, double ms)
{
    struct polish o = { .p = p, .x = x, .sparing = true, .spare_ms = ms };
    bool ok = init(&o);
    if (ok && recount(&o)) {
        memset(o.dirty, true, p->n_stations);
        settle_units(&o);
    }
    done(&o);
    return ok;
}

bool vr_polish_fit(const struct vr_problem *p, struct vr_placement *x)
{
    struct polish o = { .p = p, .x = x };
    struct vr_account a;
    struct vr_err err = { 0 };
    bool ok = init(&o);
    if (ok && !vr_problem_account(p, x, 0, &a, &err) && err.code == VR_ENOFIT) {
        count_left(&o, &a);
        make_room(&o);
    }
    done(&o);
    return ok;
}
