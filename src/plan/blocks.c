/* Plans without guests: no unit is on another station's device. The start of every search, since a good plan makes
 * bounds prune.
 *
 * Such a plan is a row of blocks: consecutive stations on one device, their units there or on the host. Blocks share no
 * memory, so each is solved on its own, for every kind and range of stations: the undominated pairs of (bytes, cost),
 * extended station by station. What follows is a shortest path over (station, devices of each kind used, last kind).
 * The best plan of this kind, but for a cap on the number of pairs.
 *
 * bound.c's tables tell which pairs cannot be part of a plan cheaper than the best known. */
#include "plan/case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_POINTS  128
#define MAX_OPTIONS 32 /* ways to place the units of a station */
#define MAX_STATES  (1 << 20)
#define MAX_TABLE   (1 << 22)

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
    double *block;        /* [kind][begin][end][variant]: cost of a block */
    uint32_t *extent;     /* [kind][begin]: ends beyond this are hopeless */
    struct state *states; /* [station][used][last kind or host] */
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

/* Every second point goes, the one with the fewest bytes and the cheapest stay. */
static uint32_t thin(struct point *x, uint32_t n)
{
    uint32_t m = 1;
    for (uint32_t i = 1; i < n; i += 2) x[m++] = x[i + 1 < n ? i + 1 : i];
    return m;
}

/* Only points below this line can be part of a plan cheaper than the best: cost + price x bytes < limit. */
struct line {
    double price, limit;
};

/* points x options, undominated, within cap and below the line. Fewest bytes first, so dearest first. */
static uint32_t extend(const struct point *from, uint32_t n, const struct option *options, uint32_t n_options,
                       uint64_t cap, struct line line, struct point *to)
{
    struct point all[2 * MAX_POINTS - 1]; /* thin() makes MAX_POINTS of them */
    uint64_t ahead[MAX_OPTIONS];
    uint32_t at[MAX_OPTIONS] = { 0 }, kept = 0;
    for (uint32_t i = 0; i < n_options; i++) ahead[i] = from[0].bytes + options[i].bytes;
    for (;;) { /* merge the sorted lists, one per option */
        uint32_t o = 0;
        for (uint32_t i = 1; i < n_options; i++)
            if (ahead[i] < ahead[o]) o = i;
        if (ahead[o] > cap) break;
        struct point p = { ahead[o], from[at[o]].cost + options[o].cost, (uint16_t)at[o], (uint16_t)o };
        ahead[o] = ++at[o] < n ? from[at[o]].bytes + options[o].bytes : UINT64_MAX;
        if ((kept && p.cost >= all[kept - 1].cost) || p.cost + line.price * (double)p.bytes >= line.limit) continue;
        if (kept && all[kept - 1].bytes == p.bytes) kept--;
        if (kept == 2 * MAX_POINTS - 1) kept = thin(all, kept);
        all[kept++] = p;
    }
    if (kept > MAX_POINTS) kept = thin(all, kept);
    memcpy(to, all, kept * sizeof *to);
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

/* What stations begin..end-1 may cost on one device of kind k, in a plan that is cheaper than the best. */
static struct line line_for(const struct blocks *b, uint32_t k, uint32_t begin, uint32_t end)
{
    const struct vr_case *c = b->c;
    double in = INFINITY;
    for (uint32_t a = 0; a < c->n_places; a++) {
        double sum = vr_case_before(c, begin, a) + c->change[a][k];
        if (sum < in) in = sum;
    }
    return (struct line){ c->price[k], b->best - in - vr_case_rest(c, end, false, k) - c->constant };
}

static void solve_from(struct blocks *b, uint32_t k, uint32_t begin)
{
    const struct vr_case *c = b->c;
    const struct vr_problem *p = c->p;
    struct point now[MAX_POINTS], next[MAX_POINTS];
    uint32_t n = 1, s = begin;
    bool some = false, empty = false;
    now[0] = (struct point){ 0 };
    for (; s < p->n_stations; s++) {
        uint32_t of = k * p->n_classes + p->stations[s];
        if ((p->allow[s] && !(p->allow[s] >> k & 1)) || !b->n_options[of]) break;
        n = extend(now, n, &b->options[of * MAX_OPTIONS], b->n_options[of], c->cap_bytes[k],
                   line_for(b, k, begin, s + 1), next);
        if (!n) break;
        memcpy(now, next, n * sizeof *now);
        some |= p->classes[p->stations[s]].cache == VR_CACHE_SOME;
        empty |= p->classes[p->stations[s]].cache == VR_CACHE_EMPTY;
        double *block = &b->block[block_at(b, k, begin, s + 1)];
        for (uint32_t v = 0; v < N_VARIANTS; v++) {
            uint32_t i = choose(c, now, n, k, v);
            block[v] = i < n && (some || !empty) ? now[i].cost : INFINITY;
        }
    }
    b->extent[k * p->n_stations + begin] = s;
}

/* --- the row of blocks --- */

static size_t state_at(const struct blocks *b, uint32_t station, uint32_t used, uint32_t last)
{
    return ((size_t)station * b->n_used + used) * b->c->n_places + last;
}

static void reach(struct blocks *b, size_t to, double cost, size_t from, uint32_t variant)
{
    if (cost < b->states[to].cost) b->states[to] = (struct state){ cost, (uint32_t)from, (uint8_t)variant };
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

/* Solves a block again, keeping every step, and writes where its units are. */
static bool read_block(const struct blocks *b, uint32_t k, uint32_t begin, uint32_t end, uint32_t variant,
                       uint8_t device, struct vr_placement *out)
{
    const struct vr_problem *p = b->c->p;
    uint32_t n = 1, len = end - begin;
    VR_AUTO_FREE struct point *rows = calloc((size_t)len + 1, MAX_POINTS * sizeof *rows);
    if (!rows) return false;
    for (uint32_t i = 0; i < len; i++) {
        uint32_t of = k * p->n_classes + p->stations[begin + i];
        n = extend(&rows[i * MAX_POINTS], n, &b->options[of * MAX_OPTIONS], b->n_options[of], b->c->cap_bytes[k],
                   line_for(b, k, begin, begin + i + 1), &rows[(i + 1) * MAX_POINTS]);
    }
    uint32_t at = choose(b->c, &rows[len * MAX_POINTS], n, k, variant);
    for (uint32_t i = len; i-- > 0;) {
        const struct point *x = &rows[(i + 1) * MAX_POINTS + at];
        uint32_t s = begin + i, q = p->stations[s];
        uint32_t away = b->options[(k * p->n_classes + q) * MAX_OPTIONS + x->option].away;
        out->core[s] = device;
        for (uint32_t u = 0; u < p->classes[q].n_units; u++)
            out->units[s * VR_MAX_UNITS + u] = away >> u & 1 ? VR_ON_HOST : device;
        at = x->before;
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
    return b->options && b->n_options && b->block && b->extent && b->states;
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
        for (uint32_t s = 0; s < p->n_stations; s++) solve_from(b, k, s);
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
    return ok;
}
