/* The lower bound: Lagrangian relaxation of the memory limits.
 *
 * Take any price per byte for each kind of device. Charging every plan for the memory it uses, and crediting it with
 * all memory there is, can only lower the cost of a plan that fits; so the cheapest plan under prices, limits
 * forgotten, is a lower bound for all that fit. Without limits it is a shortest path: station by station, and within a
 * station unit by unit, since only the place of the previous piece matters for the hop.
 *
 * Two details make it tight. A device costs its entry (at least the cheapest hop into it) and brings its memory: it is
 * counted as opened when the memory is worth more than the entry, else the path pays the entry when it comes there. And
 * a case with weights on the host must put something there: the tables exist twice, for "something must still go to
 * the host" and for "need not".
 *
 * What is forgotten: that a kind's memory is in separate pieces, that tensors cannot be cut, hops between devices of
 * the same kind. The search restores all of it.
 *
 * Prices come from a subgradient method: raise the price of what is over-used, lower that of what is idle, with steps
 * that shrink when the bound stops rising. That is enough to guide a search. Where a gap is left, a bundle method
 * (bundle.h) finds the highest bound: concave as it is, or nearly, that takes a model of it made of all slopes met. */
#include "plan/bundle.h"
#include "plan/case.h"

#include <math.h>
#include <string.h>

#define IDLE_ROUNDS 2    /* without a rise, before steps shrink */
#define MIN_RISE    1e-6 /* of the bound: when no more is hoped for, it is left */
#define MIN_SHARE   0.05 /* of a new slope in the direction */
#define MAX_SHARE   0.5
#define REFINED     0.03 /* of the bound: what its better kind may bring */
#define NEARBY      1.1  /* times its entry: what a device's memory is worth where that may be less as well */
#define HOPELESS    1e6  /* times what it begins with: nothing fits in this case */

static uint64_t bytes_at(const struct vr_case *c, const struct vr_piece *x, uint32_t place)
{
    return place == c->n_kinds ? x->host_bytes : x->gpu_bytes;
}

/* What a piece costs at a place, memory included. */
static double priced(const struct vr_case *c, const struct vr_piece *x, double cost, uint32_t place)
{
    double sum = cost + c->price[place] * (double)bytes_at(c, x, place);
    if (place != c->n_kinds) sum += c->price[c->n_kinds] * (double)x->left_bytes;
    return sum;
}

static double core_price(const struct vr_case *c, uint32_t q, uint32_t k)
{
    double sum = priced(c, &c->p->classes[q].core, c->core[q * c->n_places + k], k);
    return k == c->n_kinds ? sum : sum - c->reward[k];
}

/* The tails of a class. With `settled`, border units stay with their core. */
static void price_tails(struct vr_case *c, uint32_t q, bool settled, double *tail)
{
    const struct vr_station_class *class = &c->p->classes[q];
    uint32_t n = c->n_places, host = c->n_kinds;
    double *end = &tail[((size_t)q * (c->max_units + 1) + class->n_units) * 2 * n * n];
    for (uint32_t k = 0; k < n; k++) {
        for (uint32_t at = 0; at < n; at++) {
            end[k * n + at] = vr_case_return(c, at, k, at == k);
            end[(n + k) * n + at] = INFINITY;
        }
    }
    for (uint32_t u = class->n_units; u-- > 0;) {
        const double *next = &tail[((size_t)q * (c->max_units + 1) + u + 1) * 2 * n * n];
        double *now = &tail[((size_t)q * (c->max_units + 1) + u) * 2 * n * n];
        bool stays = settled && class->units[u].move == VR_MOVE_BORDER;
        double value[MAX_PLACES];
        for (uint32_t to = 0; to < n; to++)
            value[to] = priced(c, &class->units[u].piece, c->unit[(q * c->max_units + u) * n + to], to);
        for (uint32_t k = 0; k < n; k++) {
            for (uint32_t at = 0; at < n; at++) {
                double any = INFINITY, must = INFINITY;
                for (uint32_t to = stays ? k : 0; to < (stays ? k + 1 : n); to++) {
                    double step = value[to] + vr_case_reach(c, q, u, k, at, to, to == at, to == k);
                    double free = step + next[k * n + to];
                    double held = to == host ? free : step + next[(n + k) * n + to];
                    if (free < any) any = free;
                    if (held < must) must = held;
                }
                now[k * n + at] = any;
                now[(n + k) * n + at] = must;
            }
        }
    }
}

static double settled_tail(const struct vr_case *c, uint32_t q, uint32_t u, bool need, uint32_t k, uint32_t place)
{
    return c->settled[(((q * (c->max_units + 1) + u) * 2 + need) * c->n_places + k) * c->n_places + place];
}

static bool has_border_units(const struct vr_station_class *class)
{
    for (uint32_t u = 0; u < class->n_units; u++)
        if (class->units[u].move == VR_MOVE_BORDER) return true;
    return false;
}

/* Fills the tables of a class. Border units only leave their core at a border: elsewhere that costs the toll, which
 * each border gives back to the two stations beside it. */
static void price_class(struct vr_case *c, uint32_t q)
{
    uint32_t n = c->n_places;
    double *through = &c->through[q * 2 * n];
    bool border = has_border_units(&c->p->classes[q]);
    price_tails(c, q, false, c->tail);
    if (border) price_tails(c, q, true, c->settled);
    for (uint32_t k = 0; k < n; k++) {
        double core = core_price(c, q, k), any = vr_case_tail(c, q, 0, false, k, k);
        through[k] = core + (border ? fmin(any + c->toll, settled_tail(c, q, 0, false, k, k)) : any);
        through[n + k] = core + vr_case_tail(c, q, 0, true, k, k);
    }
}

/* What a device costs for being entered, less the tolls of the border there. */
static double entry_of(const struct vr_case *c, uint32_t k) { return c->entry[k] - 2 * c->toll; }

/* What a device's memory is worth, less the reward that is due for having a station. */
static double worth_of(const struct vr_case *c, uint32_t k)
{
    return c->price[k] * (double)c->cap_bytes[k] - c->reward[k];
}

/* What the path pays for changing from the core of kind a to one of kind b: the hop less the tolls, beyond what opening
 * b already counts. That is less than nothing from the host. Infinite when it must not. */
static double change(const struct vr_case *c, uint32_t a, uint32_t b)
{
    if (a == b) return 0;
    if (b == c->n_kinds) return INFINITY;
    bool from_host = a == c->n_kinds;
    if (from_host && c->first != NONE && b != c->first) return INFINITY;
    if (!from_host && c->p->ordered && b < a) return INFINITY;
    double cost = c->enter[a][b] - 2 * c->toll - c->opening[b];
    return from_host ? cost + c->price[b] * (double)c->first_bytes[b] : cost;
}

/* The best next kind from before station s; *held: the need of the host is met by its units. */
static double step_from(const struct vr_case *c, uint32_t s, bool need, uint32_t a, uint32_t *to, bool *held)
{
    const struct vr_problem *p = c->p;
    uint32_t q = p->stations[s], n = c->n_places;
    const double *through = &c->through[q * 2 * n], *rest = &c->rest[(s + 1) * 2 * n];
    bool left = p->classes[q].core.left_bytes > 0;
    double best = INFINITY;
    for (uint32_t k = 0; k < n; k++) {
        double in = c->change[a][k];
        if (isinf(in) || !vr_case_may(c, p->allow[s], k)) continue;
        bool open = need && k != c->n_kinds && !left; /* the core does not meet it */
        double later = in + through[k] + rest[open * n + k];
        double now = open ? in + through[n + k] + rest[k] : INFINITY;
        if (later < best) best = later, *to = k, *held = false;
        if (now < best) best = now, *to = k, *held = true;
    }
    return best;
}

static void price_kinds(struct vr_case *c)
{
    const struct vr_problem *p = c->p;
    c->constant = -c->price[c->n_kinds] * (double)c->host_bytes;
    for (uint32_t k = 0; k < c->n_kinds; k++) {
        double worth = worth_of(c, k), entry = entry_of(c, k);
        double least = entry < worth ? entry : worth;
        c->opening[k] = c->concave ? entry : least;
        if (c->usable >> k & 1) c->constant += p->kinds[k].n * (least - worth);
    }
    for (uint32_t a = 0; a < c->n_places; a++)
        for (uint32_t b = 0; b < c->n_places; b++) c->change[a][b] = change(c, a, b);
    double *end = &c->rest[(size_t)p->n_stations * 2 * c->n_places];
    for (uint32_t k = 0; k < c->n_places; k++) {
        end[k] = end[c->n_places + k] = INFINITY;
        if (k == c->n_kinds) continue;
        const uint64_t *out = c->output_bytes[k];
        end[k] = c->hop[k][c->n_kinds] + c->price[k] * (double)(out[1] < out[0] ? out[1] : out[0]);
    }
}

void vr_case_price(struct vr_case *c)
{
    const struct vr_problem *p = c->p;
    uint32_t n = c->n_places, to = 0;
    bool held;
    for (uint32_t q = 0; q < p->n_classes; q++) price_class(c, q);
    price_kinds(c);
    for (uint32_t s = p->n_stations; s-- > 0;)
        for (uint32_t need = 0; need < 2; need++)
            for (uint32_t k = 0; k < n; k++)
                c->rest[(s * 2 + need) * n + k] = need && !c->host ? INFINITY : step_from(c, s, need, k, &to, &held);
    c->root = vr_case_rest(c, 0, c->host, c->n_kinds) + c->constant;
}

void vr_case_look_back(struct vr_case *c)
{
    const struct vr_problem *p = c->p;
    uint32_t n = c->n_places;
    for (uint32_t k = 0; k < n; k++) c->before[k] = k == c->n_kinds ? 0 : INFINITY;
    for (uint32_t s = 0; s < p->n_stations; s++) {
        for (uint32_t k = 0; k < n; k++) {
            double best = INFINITY;
            for (uint32_t a = 0; a < n && vr_case_may(c, p->allow[s], k); a++) {
                double sum = vr_case_before(c, s, a) + c->change[a][k];
                if (sum < best) best = sum;
            }
            c->before[(s + 1) * n + k] = best + c->through[p->stations[s] * 2 * n + k];
        }
    }
}

struct use {
    double bytes[MAX_PLACES];
    uint32_t opened[VR_MAX_PLACED], stations[MAX_PLACES], tolls;
};

static void use_piece(const struct vr_case *c, const struct vr_piece *x, uint32_t place, struct use *use)
{
    use->bytes[place] += (double)bytes_at(c, x, place);
    if (place != c->n_kinds) use->bytes[c->n_kinds] += (double)x->left_bytes;
}

/* Follows the cheapest units of a station. */
static void use_units(const struct vr_case *c, uint32_t q, uint32_t k, bool need, struct use *use)
{
    const struct vr_station_class *class = &c->p->classes[q];
    uint32_t at = k, n = c->n_places;
    bool border = !need && has_border_units(class);
    bool settled = border && settled_tail(c, q, 0, false, k, k) <= vr_case_tail(c, q, 0, false, k, k) + c->toll;
    use->tolls += border && !settled;
    for (uint32_t u = 0; u < class->n_units; u++) {
        bool stays = settled && class->units[u].move == VR_MOVE_BORDER;
        double best = INFINITY;
        uint32_t go = at;
        for (uint32_t to = 0; to < n; to++) {
            bool still = need && to != c->n_kinds;
            if (stays && to != k) continue;
            double sum = priced(c, &class->units[u].piece, c->unit[(q * c->max_units + u) * n + to], to) +
                         vr_case_reach(c, q, u, k, at, to, to == at, to == k);
            sum += settled ? settled_tail(c, q, u + 1, still, k, to) : vr_case_tail(c, q, u + 1, still, k, to);
            if (sum < best) best = sum, go = to;
        }
        use_piece(c, &class->units[u].piece, go, use);
        need = need && go != c->n_kinds;
        at = go;
    }
}

/* What the cheapest path under the present prices uses. */
static void follow(const struct vr_case *c, struct use *use)
{
    const struct vr_problem *p = c->p;
    memset(use, 0, sizeof *use);
    uint32_t at = c->n_kinds;
    bool need = c->host;
    for (uint32_t s = 0; s < p->n_stations; s++) {
        uint32_t to = at, q = p->stations[s];
        bool held = false;
        step_from(c, s, need, at, &to, &held);
        use->stations[to]++;
        if (to != at) use->opened[to]++;
        if (to != at && at == c->n_kinds) use->bytes[to] += (double)c->first_bytes[to];
        use_piece(c, &p->classes[q].core, to, use);
        use_units(c, q, to, held, use);
        need = need && !held && to != c->n_kinds && p->classes[q].core.left_bytes == 0;
        at = to;
    }
    if (at == c->n_kinds) return;
    uint64_t out = c->output_bytes[at][0];
    if (c->output_bytes[at][1] < out) out = c->output_bytes[at][1];
    use->bytes[at] += (double)out;
}

/* Rewards can always rise by the least that any station loses by being on a kind: no station changes its mind, and
 * every device of that kind in use pays it. */
static void raise_rewards(struct vr_case *c)
{
    const struct vr_problem *p = c->p;
    double least[VR_MAX_PLACED];
    for (uint32_t k = 0; k < c->n_kinds; k++) least[k] = INFINITY;
    for (uint32_t s = 0; s < p->n_stations; s++) {
        const double *through = &c->through[p->stations[s] * 2 * c->n_places];
        double cost[MAX_PLACES], best = INFINITY;
        for (uint32_t k = 0; k < c->n_places; k++) {
            cost[k] = vr_case_may(c, p->allow[s], k) ? through[k] : INFINITY;
            if (cost[k] < best) best = cost[k];
        }
        for (uint32_t k = 0; k < c->n_kinds; k++)
            if (cost[k] - best < least[k]) least[k] = cost[k] - best;
    }
    for (uint32_t k = 0; k < c->n_kinds; k++)
        if (isfinite(least[k])) c->reward[k] += least[k];
}

/* All variables of the bound in the same unit, ms: the prices of all memory of a kind (or of the host), and the rewards
 * and tolls of all stations. */
#define MAX_VARIABLES (MAX_PLACES + VR_MAX_PLACED + 1)

struct vector {
    double x[MAX_VARIABLES];
};

static uint32_t n_variables(const struct vr_case *c) { return c->n_places + c->n_kinds + 1; }

static double *variable(struct vr_case *c, uint32_t i, double *scale)
{
    if (i >= c->n_places) {
        *scale = c->p->n_stations;
        return i + 1 == n_variables(c) ? &c->toll : &c->reward[i - c->n_places];
    }
    *scale = i == c->n_kinds ? (double)c->host_bytes * c->host_limited : (double)c->cap_bytes[i] * c->p->kinds[i].n;
    return &c->price[i];
}

/* The slope of the bound along each variable. */
static void slope(struct vr_case *c, struct vector *g)
{
    struct use use;
    double slack[MAX_VARIABLES] = { 0 }, opened = 0, scale;
    follow(c, &use);
    for (uint32_t k = 0; k < c->n_kinds; k++) {
        double open = entry_of(c, k) < worth_of(c, k) ? c->p->kinds[k].n : c->concave ? 0 : use.opened[k];
        if (!(c->usable >> k & 1)) open = 0;
        slack[k] = use.bytes[k] - open * (double)c->cap_bytes[k];
        slack[c->n_places + k] = open - use.stations[k];
        opened += open;
    }
    slack[c->n_kinds] = use.bytes[c->n_kinds] - (double)c->host_bytes;
    slack[n_variables(c) - 1] = use.tolls - 2 * opened;
    for (uint32_t i = 0; i < n_variables(c); i++) {
        variable(c, i, &scale);
        g->x[i] = scale > 0 ? slack[i] / scale : 0;
    }
}

/* Blends the slope g into the direction d so that what is left is as short as possible: on a ridge the slopes of its
 * two sides cancel, and what is left leads along it. */
static void blend(const struct vr_case *c, const struct vector *g, struct vector *d)
{
    double dd = 0, dg = 0, gg = 0;
    uint32_t n = n_variables(c);
    for (uint32_t i = 0; i < n; i++) {
        dd += d->x[i] * d->x[i];
        dg += d->x[i] * g->x[i];
        gg += g->x[i] * g->x[i];
    }
    double apart = dd - 2 * dg + gg, share = apart > 0 ? (dd - dg) / apart : MIN_SHARE;
    if (share < MIN_SHARE) share = MIN_SHARE;
    if (share > MAX_SHARE) share = MAX_SHARE;
    for (uint32_t i = 0; i < n; i++) d->x[i] += share * (g->x[i] - d->x[i]);
}

static void remember(struct vr_case *c, struct vector *v)
{
    double scale;
    for (uint32_t i = 0; i < n_variables(c); i++) v->x[i] = *variable(c, i, &scale);
}

/* Goes from v so far along d that the bound could rise by `rise`. */
static void go(struct vr_case *c, const struct vector *v, const struct vector *d, double rise)
{
    double square = 0, scale;
    uint32_t n = n_variables(c);
    for (uint32_t i = 0; i < n; i++)
        if (d->x[i] > 0 || v->x[i] > 0) square += d->x[i] * d->x[i];
    for (uint32_t i = 0; i < n; i++) {
        double *at = variable(c, i, &scale);
        *at = v->x[i] + (scale > 0 && square > 0 ? rise / square * d->x[i] / scale : 0);
        if (*at < 0) *at = 0;
    }
    vr_case_price(c);
}

void vr_case_raise(struct vr_case *c, double best, unsigned rounds)
{
    struct vector center, g, d;
    vr_case_price(c);
    if (isinf(c->root)) return;
    remember(c, &center);
    slope(c, &d);
    double top = c->root, rise = isfinite(best) && best > top ? best - top : 0.1 * fabs(top) + 1e-6;
    for (unsigned round = 0, idle = 0; round < rounds && top < best * (1 - CLOSE_ENOUGH); round++) {
        go(c, &center, &d, rise);
        slope(c, &g);
        blend(c, &g, &d);
        double gain = c->root - top;
        if (gain > 0) {
            top = c->root;
            remember(c, &center);
        }
        if (gain > 0.3 * rise) rise *= 2;
        idle = gain > 0.02 * rise ? 0 : idle + 1;
        if (idle < IDLE_ROUNDS) continue;
        idle = 0;
        rise *= 0.7;
        if (rise < MIN_RISE * fabs(top)) break;
    }
    go(c, &center, &d, 0);
    raise_rewards(c);
    vr_case_price(c);
    if (c->root < top) go(c, &center, &d, 0);
}

/* --- the highest bound --- */

/* The variables in ms, and back. */
static void to_ms(struct vr_case *c, struct vector *v)
{
    for (uint32_t i = 0; i < n_variables(c); i++) {
        double scale, *at = variable(c, i, &scale);
        v->x[i] = *at * scale;
    }
}

static void from_ms(struct vr_case *c, const double *x)
{
    for (uint32_t i = 0; i < n_variables(c); i++) {
        double scale, *at = variable(c, i, &scale);
        if (scale > 0) *at = x[i] / scale;
    }
    vr_case_price(c);
}

/* Climbs from the prices there. */
static void climb(struct vr_case *c, double enough, double rise, unsigned rounds)
{
    struct vr_bundle b;
    struct vector x, g;
    vr_case_price(c);
    if (isinf(c->root)) return;
    to_ms(c, &x);
    slope(c, &g);
    vr_bundle_start(&b, n_variables(c), x.x, c->root, g.x, rise);
    for (unsigned i = 0; i < rounds && b.top < enough && vr_bundle_next(&b, MIN_RISE * fabs(b.top), x.x); i++) {
        from_ms(c, x.x);
        slope(c, &g);
        vr_bundle_take(&b, x.x, c->root, g.x);
    }
    from_ms(c, b.best);
}

/* Where memory is worth just its entry, or little more: half of it, unless that lowers the bound. */
static void step_down(struct vr_case *c)
{
    for (uint32_t k = 0; k < c->n_kinds; k++) {
        double entry = entry_of(c, k) + c->reward[k], was = c->price[k], root = c->root;
        if (entry <= 0 || !c->cap_bytes[k] || was * (double)c->cap_bytes[k] > NEARBY * entry) continue;
        c->price[k] = entry / 2 / (double)c->cap_bytes[k];
        vr_case_price(c);
        if (c->root >= root) continue;
        c->price[k] = was;
        vr_case_price(c);
    }
}

/* While the memory of a device is worth less than its entry, the bound is not concave, because a path may enter more
 * devices than there are. So first the concave one, which is a little lower, and then from there the other. */
void vr_case_top(struct vr_case *c, double best, unsigned rounds)
{
    struct vector x;
    vr_case_price(c);
    double low = fabs(c->root), rise = isfinite(best) && best > c->root ? best - c->root : 0.1 * low + 1e-6;
    double enough = fmin(best * (1 - CLOSE_ENOUGH), HOPELESS * (1 + low));
    c->concave = true;
    climb(c, enough, rise, rounds);
    c->concave = false;
    vr_case_price(c);
    step_down(c);
    climb(c, enough, REFINED * fabs(c->root), rounds);
    if (isinf(c->root)) return;
    low = c->root;
    to_ms(c, &x);
    raise_rewards(c);
    vr_case_price(c);
    if (c->root < low) from_ms(c, x.x);
}
