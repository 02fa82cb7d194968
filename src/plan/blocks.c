/* Plans without guests: no unit is on another station's device. The start of every search, since a good plan makes
 * bounds prune.
 *
 * Such a plan is a row of blocks: consecutive stations on one device, their units there or on the host. Blocks share no
 * memory, so each is solved on its own, for every kind and range of stations: the undominated pairs of (bytes, cost),
 * extended station by station, once for all ranges of the same classes (ranges.h). What follows is a shortest path over
 * (station, devices of each kind used, last kind). The best plan of this kind, but for a cap on the number of pairs.
 *
 * bound.c's tables tell which pairs cannot be part of a plan cheaper than the best known. */
#include "plan/case.h"
#include "plan/ranges.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define GRAINS      512 /* of a device's memory: of points in the same one the most promising stays */
#define MAX_OPTIONS 32  /* ways to place the units of a station */
#define MAX_STATES  (1 << 20)
#define MAX_TABLE   (1 << 22)
#define ROUNDING    1e-12 /* relative */

/* A device's memory as a block sees it: in the middle, first (bit 0), with the output (bit 1). */
enum { N_VARIANTS = 4 };

struct option {
    uint64_t bytes;
    double cost;
    uint32_t away; /* units on the host, as bits */
};

struct point {
    uint64_t bytes;
    double cost;
    uint16_t before;
    uint16_t option;
};

struct list {
    uint32_t n;
    struct point x[GRAINS + 1];
};

struct state {
    double cost;
    uint32_t before; /* state */
    uint8_t variant;
};

struct blocks {
    const struct vr_case *c;
    double best;            /* plans that cost no less are of no interest */
    struct option *options; /* [kind][class][MAX_OPTIONS] */
    uint8_t *n_options;
    struct vr_ranges ranges;
    struct list *now, *next; /* [begin]: the points of all ranges of a length that are like the one that begins there */
    uint16_t *like;          /* [kind][length][begin]: where that begins */
    double *block;           /* [kind][begin][end][variant]: cost of a block */
    uint32_t *extent;        /* [kind][begin]: ends beyond this are hopeless */
    struct state *states;    /* [station][used][last kind or host] */
    size_t n_states, n_block;
    uint32_t n_used, radix[VR_MAX_PLACED];
};

/* --- one station --- */

static double station_cost(const struct vr_case *c, uint32_t q, uint32_t k, uint32_t away)
{
    const struct vr_station_class *class = &c->p->classes[q];
    double cost = c->core[q * c->n_places + k];
    uint32_t at = k;
    for (uint32_t u = 0; u < class->n_units; u++) {
        uint32_t to = away >> u & 1 ? c->n_kinds : k;
        cost +=
            c->unit[(q * c->max_units + u) * c->n_places + to] + vr_case_reach(c, q, u, k, at, to, to == at, to == k);
        at = to;
    }
    return cost + vr_case_return(c, at, k, at == k);
}

static int by_bytes(const void *a, const void *b)
{
    const struct option *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
    if (x->cost != y->cost) return x->cost < y->cost ? -1 : 1;
    return x->away < y->away ? -1 : x->away > y->away;
}

/* The undominated ways to have a station of class q on kind k, fewest bytes first. */
static uint8_t list_options(const struct vr_case *c, uint32_t q, uint32_t k, struct option *out)
{
    const struct vr_station_class *class = &c->p->classes[q];
    struct option all[1 << VR_MAX_UNITS];
    uint32_t n = 0, kept = 0;
    for (uint32_t away = 0; away < UINT32_C(1) << class->n_units; away++) {
        struct option o = { class->core.gpu_bytes, 0, away };
        bool may = true;
        for (uint32_t u = 0; u < class->n_units; u++) {
            if (!(away >> u & 1))
                o.bytes += class->units[u].piece.gpu_bytes;
            else if (class->units[u].move != VR_MOVE_FREE)
                may = false;
        }
        o.cost = may ? station_cost(c, q, k, away) : INFINITY;
        if (isfinite(o.cost)) all[n++] = o;
    }
    qsort(all, n, sizeof *all, by_bytes);
    for (uint32_t i = 0; i < n && kept < MAX_OPTIONS; i++)
        if (kept == 0 || all[i].cost < out[kept - 1].cost) out[kept++] = all[i];
    return (uint8_t)kept;
}

/* --- one block --- */

/* Only points below this line can be part of a plan cheaper than the best: cost + price x bytes < limit. */
struct line {
    double price, limit;
};

/* points x options, within cap and below the line: of each grain the most promising, and of these those that are not
 * dominated. Fewest bytes first, so dearest first. */
static uint32_t extend(const struct point *from, uint32_t n, const struct option *options, uint32_t n_options,
                       uint64_t cap, struct line line, struct point *to)
{
    struct point all[GRAINS + 1];
    double sums[GRAINS + 1], dearest = INFINITY;
    double grains = vr_grains(cap, GRAINS);
    uint64_t most = from[n - 1].bytes + options[n_options - 1].bytes;
    uint32_t begin = vr_grain(from[0].bytes + options[0].bytes, grains, GRAINS), end = vr_grain(most, grains, GRAINS);
    uint32_t kept = 0;
    for (uint32_t g = begin; g <= end; g++) sums[g] = INFINITY;
    for (uint32_t o = 0; o < n_options; o++)
        for (uint32_t i = 0; i < n && from[i].bytes + options[o].bytes <= cap; i++) {
            struct point p = { from[i].bytes + options[o].bytes, from[i].cost + options[o].cost, (uint16_t)i,
                               (uint16_t)o };
            double sum = p.cost + line.price * (double)p.bytes;
            uint32_t g = vr_grain(p.bytes, grains, GRAINS);
            if (sum >= line.limit || sum >= sums[g]) continue;
            sums[g] = sum;
            all[g] = p;
        }
    for (uint32_t g = begin; g <= end; g++) {
        if (isinf(sums[g]) || all[g].cost >= dearest) continue;
        dearest = all[g].cost;
        to[kept++] = all[g];
    }
    return kept;
}

/* Memory of a device of kind k in a variant; false when it cannot be. */
static bool variant_cap(const struct vr_case *c, uint32_t k, uint32_t variant, uint64_t *cap)
{
    bool first = variant & 1, output = variant & 2;
    uint64_t less = (first ? c->first_bytes[k] : 0) + (output ? c->output_bytes[k][first] : 0);
    *cap = c->cap_bytes[k] - less;
    return c->cap_bytes[k] >= less;
}

/* The cheapest point within the memory of a variant; n when there is none. */
static uint32_t choose(const struct vr_case *c, const struct point *x, uint32_t n, uint32_t k, uint32_t variant)
{
    uint64_t cap;
    if (!variant_cap(c, k, variant, &cap)) return n;
    for (uint32_t i = n; i-- > 0;)
        if (x[i].bytes <= cap) return i;
    return n;
}

static size_t block_at(const struct blocks *b, uint32_t k, uint32_t begin, uint32_t end)
{
    size_t n = b->c->p->n_stations + 1;
    return ((k * n + begin) * n + end) * N_VARIANTS;
}

static uint16_t *like_at(const struct blocks *b, uint32_t k, uint32_t len)
{
    size_t n = b->c->p->n_stations;
    return &b->like[(k * (n + 1) + len) * n];
}

/* What stations begin..end-1 may cost on one device of kind k, in a plan that is cheaper than the best. */
static double limit_of(const struct blocks *b, uint32_t k, uint32_t begin, uint32_t end)
{
    const struct vr_case *c = b->c;
    double in = INFINITY;
    for (uint32_t a = 0; a < c->n_places; a++) {
        double sum = vr_case_before(c, begin, a) + c->change[a][k];
        if (sum < in) in = sum;
    }
    return b->best - in - vr_case_rest(c, end, false, k) - c->constant;
}

/* The same for all ranges of that length that are like the one at `first`. */
static struct line line_for(const struct blocks *b, uint32_t k, uint32_t first, uint32_t len)
{
    const uint16_t *like = like_at(b, k, len);
    struct line line = { b->c->price[k], -INFINITY };
    for (uint32_t begin = first; begin + len <= b->c->p->n_stations; begin++)
        if (like[begin] == first) line.limit = fmax(line.limit, limit_of(b, k, begin, begin + len));
    return line;
}

/* The points of stations first..first+len-1 from those without the last one. */
static void add_station(const struct blocks *b, uint32_t k, uint32_t first, uint32_t len, const struct list *from,
                        struct list *to)
{
    const struct vr_problem *p = b->c->p;
    size_t of = k * p->n_classes + p->stations[first + len - 1];
    to->n = extend(from->x, from->n, &b->options[of * MAX_OPTIONS], b->n_options[of], b->c->cap_bytes[k],
                   line_for(b, k, first, len), to->x);
}

/* Whether a device would have layers without a cache only. */
static bool lacks_cache(const struct vr_problem *p, uint32_t begin, uint32_t end)
{
    bool empty = false;
    for (uint32_t s = begin; s < end; s++) {
        enum vr_cache cache = p->classes[p->stations[s]].cache;
        if (cache == VR_CACHE_SOME) return false;
        empty |= cache == VR_CACHE_EMPTY;
    }
    return empty;
}

static void close_block(struct blocks *b, uint32_t k, uint32_t begin, uint32_t end, const struct list *x)
{
    double *block = &b->block[block_at(b, k, begin, end)];
    bool may = !lacks_cache(b->c->p, begin, end);
    for (uint32_t v = 0; v < N_VARIANTS; v++) {
        uint32_t i = choose(b->c, x->x, x->n, k, v);
        block[v] = i < x->n && may ? x->x[i].cost : INFINITY;
    }
}

/* Whether a block on kind k may go on with station s. */
static bool may_hold(const struct blocks *b, uint32_t k, uint32_t s)
{
    const struct vr_problem *p = b->c->p;
    return s < p->n_stations && (!p->allow[s] || (p->allow[s] >> k & 1)) &&
           b->n_options[k * p->n_classes + p->stations[s]];
}

/* All blocks on a kind, the shorter ones first. */
static void solve_kind(struct blocks *b, uint32_t k)
{
    uint32_t n = b->c->p->n_stations, *extent = &b->extent[k * n];
    bool alive[VR_MAX_STATIONS];
    uint16_t was[VR_MAX_STATIONS] = { 0 }; /* the list of a range without its last station */
    bool any = true;
    b->now[0] = (struct list){ .n = 1 };
    for (uint32_t s = 0; s < n; s++) alive[s] = true, extent[s] = s;
    for (uint32_t len = 1; len <= n && any; len++) {
        uint16_t *like = like_at(b, k, len);
        for (uint32_t s = 0; s < n; s++) alive[s] = alive[s] && may_hold(b, k, s + len - 1);
        vr_ranges_like(&b->ranges, len, alive, like);
        any = false;
        for (uint32_t s = 0; s < n; s++) {
            if (like[s] == s) add_station(b, k, s, len, &b->now[was[s]], &b->next[s]);
            alive[s] = alive[s] && b->next[like[s]].n;
            if (!alive[s]) continue;
            close_block(b, k, s, s + len, &b->next[like[s]]);
            was[s] = like[s];
            extent[s] = s + len;
            any = true;
        }
        struct list *t = b->now;
        b->now = b->next;
        b->next = t;
    }
}

/* --- the row of blocks --- */

static size_t state_at(const struct blocks *b, uint32_t station, uint32_t used, uint32_t last)
{
    return ((size_t)station * b->n_used + used) * b->c->n_places + last;
}

/* Of rows that cost the same, the one whose last block is shortest: what the first device has of the host's weights in
 * a prompt need not cross to others. */
static void reach(struct blocks *b, size_t to, double cost, size_t from, uint32_t variant)
{
    if (cost <= b->states[to].cost * (1 + ROUNDING))
        b->states[to] = (struct state){ cost, (uint32_t)from, (uint8_t)variant };
}

static void go_on(struct blocks *b, uint32_t station, uint32_t used, uint32_t last)
{
    const struct vr_case *c = b->c;
    const struct vr_problem *p = c->p;
    size_t from = state_at(b, station, used, last);
    double cost = b->states[from].cost;
    if (isinf(cost)) return;
    for (uint32_t k = 0; k < c->n_kinds; k++) {
        if (!vr_case_next(c, b->radix[k], used, last, k)) continue;
        for (uint32_t end = station + 1; end <= b->extent[k * p->n_stations + station]; end++) {
            uint32_t v = (used == 0 ? 1 : 0) | (end == p->n_stations ? 2 : 0);
            double block = b->block[block_at(b, k, station, end) + v];
            double sum = cost + c->enter[last][k] + block + (end == p->n_stations ? c->hop[k][c->n_kinds] : 0);
            reach(b, state_at(b, end, used + b->radix[k], k), sum, from, v);
        }
    }
}

/* A station with all its units on the host. */
static double host_station(const struct vr_case *c, uint32_t s)
{
    uint32_t q = c->p->stations[s];
    if (!vr_case_may(c, c->p->allow[s], c->n_kinds)) return INFINITY;
    return station_cost(c, q, c->n_kinds, 0);
}

static size_t walk(struct blocks *b)
{
    const struct vr_case *c = b->c;
    const struct vr_problem *p = c->p;
    double on_host = 0;
    bool some = false;
    for (size_t i = 0; i < b->n_states; i++) b->states[i].cost = INFINITY;
    reach(b, state_at(b, 0, 0, c->n_kinds), 0, 0, 0);
    for (uint32_t s = 0; s < p->n_stations; s++) {
        for (uint32_t used = 0; used < b->n_used; used++)
            for (uint32_t last = 0; last < c->n_places; last++) go_on(b, s, used, last);
        on_host += host_station(c, s);
        some |= p->classes[p->stations[s]].cache == VR_CACHE_SOME;
        if (some) reach(b, state_at(b, s + 1, 0, c->n_kinds), on_host, 0, 0);
    }
    size_t at = state_at(b, p->n_stations, 0, c->n_kinds); /* all on the host: not of this case */
    b->states[at].cost = INFINITY;
    for (size_t i = state_at(b, p->n_stations, 0, 0); i < b->n_states; i++)
        if (b->states[i].cost < b->states[at].cost) at = i;
    return at;
}

/* --- reading the plan back --- */

/* The choice for one station of a range that is like the one that is wanted. */
struct taken {
    uint16_t class;
    uint32_t away;
};

/* Solves a block again, keeping every step, backwards: *taken are its stations in the order of the ranges that its
 * points were found for. */
static bool solve_again(const struct blocks *b, uint32_t k, uint32_t begin, uint32_t len, uint32_t variant,
                        struct taken *taken)
{
    const struct vr_problem *p = b->c->p;
    VR_AUTO_FREE struct list *rows = calloc((size_t)len + 1, sizeof *rows);
    VR_AUTO_FREE uint16_t *first = calloc((size_t)len + 1, sizeof *first);
    if (!rows || !first) return false;
    for (uint32_t i = len, at = begin; i > 0; i--) first[i] = like_at(b, k, i)[at], at = first[i];
    rows[0].n = 1;
    for (uint32_t i = 1; i <= len; i++) add_station(b, k, first[i], i, &rows[i - 1], &rows[i]);
    uint32_t at = choose(b->c, rows[len].x, rows[len].n, k, variant);
    for (uint32_t i = len; i > 0; i--) {
        const struct point *x = &rows[i].x[at];
        uint16_t q = p->stations[first[i] + i - 1];
        taken[i - 1] = (struct taken){ q, b->options[(k * p->n_classes + q) * MAX_OPTIONS + x->option].away };
        at = x->before;
    }
    return true;
}

/* Writes where a block's units are: its stations take the choices for their class, in any order. */
static bool read_block(const struct blocks *b, uint32_t k, uint32_t begin, uint32_t end, uint32_t variant,
                       uint8_t device, struct vr_placement *out)
{
    const struct vr_problem *p = b->c->p;
    uint32_t n = end - begin;
    VR_AUTO_FREE struct taken *taken = calloc(n, sizeof *taken);
    if (!taken || !solve_again(b, k, begin, n, variant, taken)) return false;
    for (uint32_t s = begin; s < end; s++) {
        uint32_t i = s - begin, q = p->stations[s];
        while (taken[i].class != q) i++;
        uint32_t away = taken[i].away;
        taken[i] = taken[s - begin];
        out->core[s] = device;
        for (uint32_t u = 0; u < p->classes[q].n_units; u++)
            out->units[s * VR_MAX_UNITS + u] = away >> u & 1 ? VR_ON_HOST : device;
    }
    return true;
}

static bool read_plan(const struct blocks *b, size_t at, struct vr_placement *out)
{
    const struct vr_case *c = b->c;
    const struct vr_problem *p = c->p;
    uint32_t next[VR_MAX_PLACED] = { 0 }; /* device of each kind */
    for (uint32_t k = 1; k < c->n_kinds; k++) next[k] = next[k - 1] + p->kinds[k - 1].n;
    memset(out->core, VR_ON_HOST, p->n_stations);
    memset(out->units, VR_ON_HOST, (size_t)p->n_stations * VR_MAX_UNITS);
    for (;;) {
        uint32_t last = (uint32_t)(at % c->n_places), end = (uint32_t)(at / c->n_places / b->n_used);
        if (last == c->n_kinds) return true; /* the rest is on the host */
        const struct state *x = &b->states[at];
        uint32_t begin = (uint32_t)(x->before / c->n_places / b->n_used);
        if (!read_block(b, last, begin, end, x->variant, (uint8_t)next[last]++, out)) return false;
        at = x->before;
    }
}

static bool init(struct blocks *b, bool *too_large)
{
    const struct vr_problem *p = b->c->p;
    b->n_used = 1;
    for (uint32_t k = 0; k < p->n_kinds && b->n_used < MAX_STATES; k++) {
        b->radix[k] = b->n_used;
        b->n_used *= p->kinds[k].n + 1;
    }
    b->n_states = ((size_t)p->n_stations + 1) * b->n_used * b->c->n_places;
    b->n_block = block_at(b, p->n_kinds, 0, 0);
    *too_large = b->n_states > MAX_STATES || b->n_block > MAX_TABLE;
    if (*too_large) return true;
    b->options = calloc((size_t)p->n_kinds * p->n_classes, MAX_OPTIONS * sizeof *b->options);
    b->n_options = calloc((size_t)p->n_kinds * p->n_classes, 1);
    b->block = malloc(b->n_block * sizeof *b->block);
    b->extent = malloc((size_t)p->n_kinds * p->n_stations * sizeof *b->extent);
    b->states = malloc(b->n_states * sizeof *b->states);
    b->now = malloc(p->n_stations * sizeof *b->now);
    b->next = malloc(p->n_stations * sizeof *b->next);
    b->like = malloc((size_t)p->n_kinds * (p->n_stations + 1) * p->n_stations * sizeof *b->like);
    return vr_ranges_init(&b->ranges, p, false) && b->options && b->n_options && b->block && b->extent && b->states &&
           b->now && b->next && b->like;
}

static bool solve(struct blocks *b, struct vr_placement *out, struct vr_search_result *result)
{
    const struct vr_case *c = b->c;
    const struct vr_problem *p = c->p;
    for (uint32_t k = 0; k < p->n_kinds; k++) {
        for (uint32_t q = 0; q < p->n_classes && (c->usable >> k & 1); q++) {
            uint32_t of = k * p->n_classes + q;
            b->n_options[of] = list_options(c, q, k, &b->options[of * MAX_OPTIONS]);
        }
        solve_kind(b, k);
    }
    size_t at = walk(b);
    result->cost = b->states[at].cost;
    result->found = result->cost < b->best;
    return !result->found || read_plan(b, at, out);
}

bool vr_case_blocks(struct vr_case *c, double best, struct vr_placement *out, struct vr_search_result *result)
{
    struct blocks b = { .c = c, .best = best };
    bool too_large = false;
    *result = (struct vr_search_result){ .cost = INFINITY };
    vr_case_look_back(c);
    bool ok = init(&b, &too_large) && (too_large || solve(&b, out, result));
    free(b.options);
    free(b.n_options);
    free(b.block);
    free(b.extent);
    free(b.states);
    free(b.now);
    free(b.next);
    free(b.like);
    vr_ranges_done(&b.ranges);
    return ok;
}
