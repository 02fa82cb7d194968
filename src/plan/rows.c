/* A second lower bound, for problems whose pieces are large beside the devices. bound.c sells memory by the byte, as if
 * tensors could be cut; here every device holds whole pieces.
 *
 * As in blocks.c a plan is a row of blocks, consecutive stations on one device each, and the bound is the shortest path
 * over such rows; what a block costs is found once for all that are made of the same classes and begin and end alike.
 * But a unit may also be a guest: then it takes no memory at home, takes the least way that leads to another device,
 * and pays a rent. Where it is, is forgotten; instead every device collects rents for the memory that its block leaves,
 * for as many whole units as that holds. What the guests of a plan pay is no more than what its devices could collect,
 * so no plan costs less than the cheapest row, whatever the rents are.
 *
 * Good rents begin with the prices of bound.c and go down to where being a guest just does not pay: then few are, and
 * devices collect little for gaps. Points that lie close together are made one, with the better of both numbers: that
 * lowers the bound, it never raises it. */
#include "plan/case.h"
#include "plan/ranges.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_STATES  (1 << 18)
#define MAX_TABLE   (1 << 22)
#define MAX_ROAMING 4       /* units of a station; problems with more are left alone */
#define MAX_OPTIONS 81      /* 3 to the power of that */
#define MAX_SIZES   32      /* of units */
#define MAX_WORK    2000000 /* sums looked at, some 20 ns each; then it is given up */

enum { N_VARIANTS = 4 }; /* as in blocks.c: a device is first (1), has the output (2) */

enum where { AT_HOME, ON_HOST, GUEST };

/* Fewest bytes first in every list, so dearest first. */
struct point {
    uint64_t bytes;
    double cost;
};

struct list {
    uint32_t n;
    struct point x[VR_ROWS_GRAINS + 1];
};

/* The ways to have a station at a place: at the end of a block, and within, where border units are at home. */
struct options {
    uint32_t n[2];
    struct point x[2][MAX_OPTIONS];
};

enum { INSIDE, AT_BORDER };

struct rows {
    const struct vr_case *c;
    double best;                     /* plans that cost no less are of no interest */
    uint32_t grains;                 /* of a device's memory: points not further apart than one become one */
    double *rent;                    /* [class][unit] */
    struct options *options;         /* [place][class] */
    double *through, *before, *rest; /* as those of bound.c, with these rents */
    struct list gain;                /* of memory that is left on the kind at hand; its cost is negative */
    struct vr_ranges ranges;
    struct list *now, *next; /* [begin]: sums of all ranges of a length that are like the one that begins there */
    double *block;           /* [kind][begin][end][variant] */
    uint32_t *extent;        /* [kind][begin]: ends beyond this are hopeless */
    double *states;          /* [station][used][last kind or host] */
    size_t n_states, n_block;
    uint64_t work; /* sums looked at */
    uint32_t n_used, radix[VR_MAX_PLACED];
};

static const double *ms_of(const struct vr_case *c, uint32_t q, uint32_t u)
{
    return &c->unit[(q * c->max_units + u) * c->n_places];
}

static struct options *options_of(const struct rows *r, uint32_t place, uint32_t q)
{
    return &r->options[place * r->c->p->n_classes + q];
}

/* --- one station --- */

/* The least of one copy between a place and a device other than it. */
static double least_hop(const struct vr_case *c, uint32_t place, bool back)
{
    double least = INFINITY;
    for (uint32_t k = 0; k < c->n_kinds; k++) {
        double ms = back ? c->hop[k][place] : c->hop[place][k];
        if ((k != place || c->p->kinds[k].n > 1) && ms < least) least = ms;
    }
    return least;
}

/* One copy from where a unit is to where the next one is. Two guests may be on the same device. */
static double way(const struct vr_case *c, uint32_t core, enum where from, enum where to)
{
    uint32_t a = from == ON_HOST ? c->n_kinds : core, b = to == ON_HOST ? c->n_kinds : core;
    if (to == GUEST) return least_hop(c, a, false);
    if (from == GUEST) return least_hop(c, b, true);
    return a == b ? 0 : c->hop[a][b];
}

/* A station of class q with its core at `core` and its units where the digits of `where`, to base 3, tell. */
static double station_cost(const struct rows *r, uint32_t q, uint32_t core, uint32_t where, uint64_t *bytes)
{
    const struct vr_case *c = r->c;
    const struct vr_station_class *class = &c->p->classes[q];
    uint32_t host = c->n_kinds;
    double cost = c->core[q * c->n_places + core];
    enum where at = AT_HOME;
    *bytes = core == host ? 0 : class->core.gpu_bytes;
    for (uint32_t u = 0; u < class->n_units; u++, where /= 3) {
        const struct vr_unit *unit = &class->units[u];
        enum where to = where % 3;
        if (to == ON_HOST && core == host) return INFINITY; /* that is at home */
        if (to != at) cost += c->interrupt + way(c, core, at, to) * (to == AT_HOME ? 1 : unit->n_in);
        if (to == GUEST)
            cost += r->rent[q * c->max_units + u] + (unit->n_along ? least_hop(c, core, false) * unit->n_along : 0);
        if (to == ON_HOST) cost += ms_of(c, q, u)[host] + c->back[(q * c->max_units + u) * c->n_places + core];
        if (to == AT_HOME) {
            cost += ms_of(c, q, u)[core];
            if (core != host) *bytes += unit->piece.gpu_bytes;
        }
        at = to;
    }
    return at == AT_HOME ? cost : cost + c->interrupt + way(c, core, at, AT_HOME);
}

static uint32_t n_ways(const struct vr_station_class *class)
{
    uint32_t n = 1;
    for (uint32_t u = 0; u < class->n_units; u++) n *= 3;
    return n;
}

/* How many units are guests, and whether border units are away. */
static uint32_t count_guests(const struct vr_station_class *class, uint32_t where, bool *border)
{
    uint32_t n = 0;
    *border = false;
    for (uint32_t u = 0; u < class->n_units; u++, where /= 3) {
        n += where % 3 == GUEST;
        *border |= where % 3 != AT_HOME && class->units[u].move == VR_MOVE_BORDER;
    }
    return n;
}

static int by_bytes(const void *a, const void *b)
{
    const struct point *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
    return x->cost < y->cost ? -1 : x->cost > y->cost;
}

/* The undominated ways to have a station of class q at a place. */
static void list_options(const struct rows *r, uint32_t place, uint32_t q)
{
    const struct vr_station_class *class = &r->c->p->classes[q];
    struct options *o = options_of(r, place, q);
    for (int at = INSIDE; at <= AT_BORDER; at++) {
        struct point all[MAX_OPTIONS];
        uint32_t n = 0;
        for (uint32_t where = 0; where < n_ways(class); where++) {
            bool border;
            count_guests(class, where, &border);
            all[n].cost = station_cost(r, q, place, where, &all[n].bytes);
            if (isfinite(all[n].cost) && (at == AT_BORDER || !border)) n++;
        }
        qsort(all, n, sizeof *all, by_bytes);
        o->n[at] = 0;
        for (uint32_t i = 0; i < n; i++)
            if (o->n[at] == 0 || all[i].cost < o->x[at][o->n[at] - 1].cost) o->x[at][o->n[at]++] = all[i];
    }
}

/* --- rents --- */

/* By how much the rent of each unit of class q can fall, until a station on kind k would rather have guests. */
static void cut_rents(const struct rows *r, uint32_t q, uint32_t k, double *cut)
{
    const struct vr_case *c = r->c;
    const struct vr_station_class *class = &c->p->classes[q];
    double sum[MAX_OPTIONS], least = INFINITY;
    bool border;
    for (uint32_t where = 0; where < n_ways(class); where++) {
        uint64_t bytes;
        sum[where] = station_cost(r, q, k, where, &bytes) + c->price[k] * (double)bytes;
        if (!count_guests(class, where, &border) && sum[where] < least) least = sum[where];
    }
    for (uint32_t where = 0; where < n_ways(class); where++) {
        uint32_t n = count_guests(class, where, &border), digits = where;
        double each = n ? fmax(sum[where] - least, 0) / n : INFINITY;
        for (uint32_t u = 0; u < class->n_units; u++, digits /= 3)
            if (digits % 3 == GUEST && each < cut[u]) cut[u] = each;
    }
}

static void set_rents(struct rows *r)
{
    const struct vr_case *c = r->c;
    for (uint32_t q = 0; q < c->p->n_classes; q++) {
        const struct vr_station_class *class = &c->p->classes[q];
        double *rent = &r->rent[q * c->max_units], cut[MAX_ROAMING], fastest[MAX_ROAMING];
        for (uint32_t u = 0; u < class->n_units; u++) {
            double bytes = (double)class->units[u].piece.gpu_bytes;
            rent[u] = cut[u] = fastest[u] = INFINITY;
            for (uint32_t k = 0; k < c->n_kinds; k++) {
                rent[u] = fmin(rent[u], ms_of(c, q, u)[k] + c->price[k] * bytes);
                fastest[u] = fmin(fastest[u], ms_of(c, q, u)[k]);
            }
        }
        for (uint32_t k = 0; k < c->n_kinds; k++)
            if (c->usable >> k & 1) cut_rents(r, q, k, cut);
        for (uint32_t u = 0; u < class->n_units; u++)
            if (isfinite(rent[u])) rent[u] = fmax(rent[u] - cut[u], fastest[u]);
    }
}

/* --- lists of points --- */

/* All sums of a point and an option within cap that are of interest: cost + price x bytes < limit. Those of one grain
 * become one, and of these the undominated ones stay. */
static void extend(struct rows *r, const struct list *from, const struct point *options, uint32_t n_options,
                   uint64_t cap, double price, double limit, struct list *to)
{
    struct point all[VR_ROWS_GRAINS + 1];
    double grains = vr_grains(cap, r->grains), least = INFINITY;
    uint64_t most = from->x[from->n - 1].bytes + options[n_options - 1].bytes;
    uint32_t begin = vr_grain(from->x[0].bytes + options[0].bytes, grains, r->grains);
    uint32_t end = vr_grain(most, grains, r->grains), n = 0;
    for (uint32_t g = begin; g <= end; g++) all[g] = (struct point){ UINT64_MAX, INFINITY };
    for (uint32_t o = 0; o < n_options; o++)
        for (uint32_t i = 0; i < from->n && from->x[i].bytes + options[o].bytes <= cap; i++) {
            struct point x = { from->x[i].bytes + options[o].bytes, from->x[i].cost + options[o].cost };
            struct point *at = &all[vr_grain(x.bytes, grains, r->grains)];
            r->work++;
            if (x.cost + price * (double)x.bytes >= limit) continue;
            if (x.bytes < at->bytes) at->bytes = x.bytes;
            if (x.cost < at->cost) at->cost = x.cost;
        }
    for (uint32_t g = begin; g <= end; g++) {
        if (all[g].cost >= least) continue;
        least = all[g].cost;
        to->x[n++] = all[g];
    }
    to->n = n;
}

static void copy(struct list *to, const struct list *from)
{
    to->n = from->n;
    memcpy(to->x, from->x, from->n * sizeof *to->x);
}

/* Units that are alike to a device with room for guests. */
struct size {
    uint64_t bytes;
    double gain; /* the rent, less what it costs to execute */
    uint64_t n;  /* how many there are at most */
};

static void add_size(struct size *sizes, uint32_t *n, struct size x)
{
    uint32_t i = 0;
    while (i < *n && sizes[i].bytes != x.bytes) i++;
    if (i == MAX_SIZES) { /* too many: one that is better than both */
        struct size *last = &sizes[MAX_SIZES - 1];
        x.bytes = last->bytes < x.bytes ? last->bytes : x.bytes;
        i--;
    }
    if (i == *n) sizes[(*n)++] = (struct size){ 0 };
    sizes[i] = (struct size){ x.bytes, fmax(sizes[i].gain, x.gain), sizes[i].n + x.n };
}

/* What memory that is left on a device of kind k collects at most. Border units come from two neighbours only. */
static void list_gains(struct rows *r, uint32_t k)
{
    const struct vr_case *c = r->c;
    const struct vr_problem *p = c->p;
    struct size sizes[MAX_SIZES];
    uint32_t n_sizes = 0;
    for (uint32_t q = 0; q < p->n_classes; q++) {
        uint64_t n_stations = 0;
        for (uint32_t s = 0; s < p->n_stations; s++) n_stations += p->stations[s] == q;
        for (uint32_t u = 0; u < p->classes[q].n_units; u++) {
            const struct vr_unit *unit = &p->classes[q].units[u];
            double gain = r->rent[q * c->max_units + u] - ms_of(c, q, u)[k];
            uint64_t n = unit->move == VR_MOVE_BORDER && n_stations > 2 ? 2 : n_stations;
            if (gain > 0) add_size(sizes, &n_sizes, (struct size){ unit->piece.gpu_bytes, gain, n });
        }
    }
    struct list *gain = &r->gain, more;
    gain->n = 1;
    gain->x[0] = (struct point){ 0 };
    for (uint32_t i = 0; i < n_sizes; i++) {
        struct point one[2] = { { 0 }, { sizes[i].bytes, -sizes[i].gain } };
        for (uint64_t n = 0; n < sizes[i].n && n * sizes[i].bytes <= c->cap_bytes[k]; n++) {
            extend(r, gain, one, 2, c->cap_bytes[k], 0, INFINITY, &more);
            copy(gain, &more);
        }
    }
}

/* --- bound.c's tables for these rents: what cannot be part of a plan cheaper than the best --- */

static double enter_from(const struct rows *r, const double *before, uint32_t k)
{
    double least = INFINITY;
    for (uint32_t a = 0; a < r->c->n_places; a++) least = fmin(least, before[a] + r->c->change[a][k]);
    return least;
}

static void price_stations(struct rows *r)
{
    const struct vr_case *c = r->c;
    for (uint32_t q = 0; q < c->p->n_classes; q++) {
        for (uint32_t k = 0; k < c->n_places; k++) {
            const struct options *o = options_of(r, k, q);
            double least = INFINITY, price = k == c->n_kinds ? 0 : c->price[k];
            for (uint32_t i = 0; i < o->n[AT_BORDER]; i++)
                least = fmin(least, o->x[AT_BORDER][i].cost + price * (double)o->x[AT_BORDER][i].bytes);
            r->through[q * c->n_places + k] = k == c->n_kinds ? least : least - c->reward[k];
        }
    }
}

static void price_paths(struct rows *r)
{
    const struct vr_case *c = r->c;
    const struct vr_problem *p = c->p;
    uint32_t n = c->n_places;
    price_stations(r);
    for (uint32_t k = 0; k < n; k++) {
        r->before[k] = k == c->n_kinds ? 0 : INFINITY;
        r->rest[p->n_stations * n + k] = vr_case_rest(c, p->n_stations, false, k);
    }
    for (uint32_t s = 0; s < p->n_stations; s++)
        for (uint32_t k = 0; k < n; k++)
            r->before[(s + 1) * n + k] = vr_case_may(c, p->allow[s], k)
                                             ? enter_from(r, &r->before[s * n], k) + r->through[p->stations[s] * n + k]
                                             : INFINITY;
    for (uint32_t s = p->n_stations; s-- > 0;) {
        for (uint32_t a = 0; a < n; a++) {
            double least = INFINITY;
            for (uint32_t k = 0; k < n; k++)
                if (vr_case_may(c, p->allow[s], k))
                    least =
                        fmin(least, c->change[a][k] + r->through[p->stations[s] * n + k] + r->rest[(s + 1) * n + k]);
            r->rest[s * n + a] = least;
        }
    }
}

/* --- one block --- */

static size_t block_at(const struct rows *r, uint32_t k, uint32_t begin, uint32_t end)
{
    size_t n = r->c->p->n_stations + 1;
    return ((k * n + begin) * n + end) * N_VARIANTS;
}

/* The least that a block costs, what it collects taken off, in so much memory. */
static double least_of(const struct rows *r, const struct list *x, uint64_t cap)
{
    const struct list *gain = &r->gain;
    double least = INFINITY;
    uint32_t g = 0; /* the first takes no memory */
    for (uint32_t i = x->n; i-- > 0;) {
        if (x->x[i].bytes > cap) continue;
        while (g + 1 < gain->n && gain->x[g + 1].bytes <= cap - x->x[i].bytes) g++;
        double sum = x->x[i].cost + gain->x[g].cost;
        if (sum < least) least = sum;
    }
    return least;
}

static void close_block(struct rows *r, const struct list *x, uint32_t k, uint32_t begin, uint32_t end)
{
    const struct vr_case *c = r->c;
    double *block = &r->block[block_at(r, k, begin, end)];
    for (uint32_t v = 0; v < N_VARIANTS; v++) {
        bool first = v & 1, output = v & 2;
        uint64_t less = (first ? c->first_bytes[k] : 0) + (output ? c->output_bytes[k][first] : 0);
        bool possible =
            output == (end == c->p->n_stations) && (!first || c->host || begin == 0) && less <= c->cap_bytes[k];
        block[v] = possible ? least_of(r, x, c->cap_bytes[k] - less) : INFINITY;
    }
}

/* Below which sum a block can be part of a plan that is cheaper than the best. */
static double limit_of(const struct rows *r, uint32_t k, uint32_t begin, uint32_t end)
{
    const struct vr_case *c = r->c;
    double in = enter_from(r, &r->before[begin * c->n_places], k);
    return r->best - in - r->rest[end * c->n_places + k] - c->constant + c->reward[k] * (end - begin);
}

/* The same for all ranges of that length that are like the one at `first`. */
static double limit_for(const struct rows *r, uint32_t k, uint32_t first, uint32_t len, const uint16_t *like)
{
    double limit = -INFINITY;
    for (uint32_t begin = first; begin + len <= r->c->p->n_stations; begin++)
        if (like[begin] == first) limit = fmax(limit, limit_of(r, k, begin, begin + len));
    return limit;
}

static bool alike_at_border(const struct options *o)
{
    return o->n[INSIDE] == o->n[AT_BORDER] &&
           memcmp(o->x[INSIDE], o->x[AT_BORDER], o->n[INSIDE] * sizeof *o->x[0]) == 0;
}

/* All blocks that are like the one of `len` stations at `first`, from the sums without the last one. */
static void solve_ranges(struct rows *r, uint32_t k, uint32_t first, uint32_t len, const uint16_t *like,
                         const struct list *from, struct list *inside)
{
    const struct vr_case *c = r->c;
    const struct options *o = options_of(r, k, c->p->stations[first + len - 1]);
    double limit = limit_for(r, k, first, len, like);
    struct list border = { .n = 0 };
    int at = len == 1 ? AT_BORDER : INSIDE;
    bool alike = at == AT_BORDER || alike_at_border(o);
    inside->n = 0;
    if (o->n[at]) extend(r, from, o->x[at], o->n[at], c->cap_bytes[k], c->price[k], limit, inside);
    if (!alike) extend(r, from, o->x[AT_BORDER], o->n[AT_BORDER], c->cap_bytes[k], c->price[k], limit, &border);
    const struct list *x = alike ? inside : &border;
    for (uint32_t begin = first; begin + len <= c->p->n_stations; begin++) {
        if (like[begin] != first) continue;
        close_block(r, x, k, begin, begin + len);
        if (x->n) r->extent[k * c->p->n_stations + begin] = begin + len;
    }
}

/* Whether a block on kind k may go on with station s. */
static bool may_hold(const struct rows *r, uint32_t k, uint32_t s)
{
    const struct vr_problem *p = r->c->p;
    return s < p->n_stations && vr_case_may(r->c, p->allow[s], k) && options_of(r, k, p->stations[s])->n[AT_BORDER];
}

/* All blocks on a kind, the shorter ones first. */
static void solve_kind(struct rows *r, uint32_t k)
{
    uint32_t n = r->c->p->n_stations;
    bool alive[VR_MAX_STATIONS], any = true;
    uint16_t like[VR_MAX_STATIONS], was[VR_MAX_STATIONS] = { 0 }; /* the list of a range without its last station */
    r->now[0] = (struct list){ .n = 1 };
    for (uint32_t s = 0; s < n; s++) alive[s] = true, r->extent[k * n + s] = s;
    for (uint32_t len = 1; len <= n && any; len++) {
        for (uint32_t s = 0; s < n; s++) alive[s] = alive[s] && may_hold(r, k, s + len - 1);
        vr_ranges_like(&r->ranges, len, alive, like);
        any = false;
        for (uint32_t s = 0; s < n && r->work < MAX_WORK; s++) {
            if (like[s] == s) solve_ranges(r, k, s, len, like, &r->now[was[s]], &r->next[s]);
            alive[s] = alive[s] && r->next[like[s]].n;
            if (alive[s]) was[s] = like[s];
            any |= alive[s];
        }
        struct list *t = r->now;
        r->now = r->next;
        r->next = t;
    }
}

/* --- the row of blocks --- */

static size_t state_at(const struct rows *r, uint32_t station, uint32_t used, uint32_t last)
{
    return ((size_t)station * r->n_used + used) * r->c->n_places + last;
}

static void go_on(struct rows *r, uint32_t station, uint32_t used, uint32_t last)
{
    const struct vr_case *c = r->c;
    const struct vr_problem *p = c->p;
    double cost = r->states[state_at(r, station, used, last)];
    if (isinf(cost)) return;
    for (uint32_t k = 0; k < c->n_kinds; k++) {
        if (!vr_case_next(c, r->radix[k], used, last, k)) continue;
        for (uint32_t end = station + 1; end <= r->extent[k * p->n_stations + station]; end++) {
            uint32_t v = (used == 0 ? 1 : 0) | (end == p->n_stations ? 2 : 0);
            double sum = cost + c->enter[last][k] + r->block[block_at(r, k, station, end) + v];
            if (end == p->n_stations) sum += c->hop[k][c->n_kinds];
            double *to = &r->states[state_at(r, end, used + r->radix[k], k)];
            if (sum < *to) *to = sum;
        }
    }
}

/* The cheapest way to have a station on the host. */
static double host_station(const struct rows *r, uint32_t s, int at)
{
    const struct vr_case *c = r->c;
    const struct options *o = options_of(r, c->n_kinds, c->p->stations[s]);
    return o->n[at] && vr_case_may(c, c->p->allow[s], c->n_kinds) ? o->x[at][0].cost : INFINITY;
}

static double walk(struct rows *r)
{
    const struct vr_problem *p = r->c->p;
    double on_host = 0, least = INFINITY;
    uint32_t host = r->c->n_kinds;
    for (size_t i = 0; i < r->n_states; i++) r->states[i] = INFINITY;
    r->states[state_at(r, 0, 0, host)] = 0;
    for (uint32_t s = 0; s < p->n_stations; s++) {
        for (uint32_t used = 0; used < r->n_used; used++)
            for (uint32_t last = 0; last <= host; last++) go_on(r, s, used, last);
        if (s + 1 < p->n_stations) r->states[state_at(r, s + 1, 0, host)] = on_host + host_station(r, s, AT_BORDER);
        on_host += host_station(r, s, INSIDE);
    }
    for (size_t i = state_at(r, p->n_stations, 0, 0); i < r->n_states; i++) least = fmin(least, r->states[i]);
    return least;
}

static bool any_border_units(const struct vr_problem *p)
{
    for (uint32_t q = 0; q < p->n_classes; q++)
        for (uint32_t u = 0; u < p->classes[q].n_units; u++)
            if (p->classes[q].units[u].move == VR_MOVE_BORDER) return true;
    return false;
}

static bool init(struct rows *r)
{
    const struct vr_problem *p = r->c->p;
    size_t n = r->c->n_places, n_stations = p->n_stations;
    r->n_used = 1;
    for (uint32_t k = 0; k < p->n_kinds && r->n_used < MAX_STATES; k++) {
        r->radix[k] = r->n_used;
        r->n_used *= p->kinds[k].n + 1;
    }
    r->n_states = (n_stations + 1) * r->n_used * n;
    r->n_block = block_at(r, p->n_kinds, 0, 0);
    if (r->n_states > MAX_STATES || r->n_block > MAX_TABLE || r->c->max_units > MAX_ROAMING) return false;
    r->rent = calloc((size_t)p->n_classes * (r->c->max_units + 1), sizeof *r->rent);
    r->options = calloc(n * p->n_classes, sizeof *r->options);
    r->through = calloc((size_t)p->n_classes * n, sizeof *r->through);
    r->before = calloc((n_stations + 1) * n, sizeof *r->before);
    r->rest = calloc((n_stations + 1) * n, sizeof *r->rest);
    r->block = malloc(r->n_block * sizeof *r->block);
    r->extent = calloc(p->n_kinds * n_stations, sizeof *r->extent);
    r->states = malloc(r->n_states * sizeof *r->states);
    r->now = malloc(n_stations * sizeof *r->now);
    r->next = malloc(n_stations * sizeof *r->next);
    return vr_ranges_init(&r->ranges, p, any_border_units(p)) && r->now && r->next && r->rent && r->options &&
           r->through && r->before && r->rest && r->block && r->extent && r->states;
}

static double solve(struct rows *r)
{
    const struct vr_case *c = r->c;
    set_rents(r);
    for (uint32_t k = 0; k < c->n_places; k++)
        for (uint32_t q = 0; q < c->p->n_classes; q++) list_options(r, k, q);
    price_paths(r);
    for (uint32_t k = 0; k < c->n_kinds; k++) {
        if (!(c->usable >> k & 1)) continue;
        list_gains(r, k);
        solve_kind(r, k);
    }
    return r->work < MAX_WORK ? fmin(walk(r), r->best) : c->root;
}

double vr_case_rows(const struct vr_case *c, double best, uint32_t grains)
{
    struct rows r = { .c = c, .best = best, .grains = grains };
    double low = isfinite(best) && init(&r) ? solve(&r) : c->root;
    free(r.rent);
    free(r.options);
    free(r.through);
    free(r.before);
    free(r.rest);
    free(r.block);
    free(r.extent);
    free(r.states);
    free(r.now);
    free(r.next);
    vr_ranges_done(&r.ranges);
    return low;
}
