/* A pipeline's prompts take as long as its slowest device, but for their first micro-batch, which goes through all of
 * them; its token generation is a sum, as ever. So the cost is
 *
 *     decode x (sum over devices) + prefill x (first x (sum over devices) + (1 - first) x (the most that any takes))
 *
 * For a limit on the last of these the sums are a shortest path: over the stations, by which devices are used up. The
 * limit is found by branch and bound: between two limits no plan is cheaper than the path for the larger one and a
 * device that takes as long as the smaller one says. Kinds of devices keep the table small; where it would still be too
 * large, the bound stands without a plan of its own, and the one with the shortest sum is taken. */
#include "plan/pipeline.h"

#include <math.h>
#include <string.h>

#define MAX_CELLS      (UINT64_C(1) << 21) /* of the table */
#define MAX_STEPS      (UINT64_C(1) << 26) /* of all paths together */
#define MAX_PATHS      24
#define HALVINGS       40
#define MAX_EVEN_STEPS (UINT64_C(1) << 22)
#define FINE           0.01 /* of the pace: evener is not sought */
#define WORTH_EVENING  0.05 /* of the pace: less is not worth slower token generation */
#define GOOD           1e-4 /* a gap that nobody could measure */
#define EQUAL          1e-9 /* relative: no gap */
#define UNREACHED      UINT8_MAX
#define ROUND          1e-12 /* relative: sums in another order */

struct pipeline {
    const struct vr_problem *p;
    uint32_t n;                     /* stations */
    uint64_t *bytes[VR_MAX_PLACED]; /* sums before each station, by kind */
    double *prefill[VR_MAX_PLACED]; /* of a filled pipeline */
    double *sum[VR_MAX_PLACED];     /* of what is added up, as it counts */
    uint32_t *some, *empty;         /* caches before each station */
    uint16_t *until[VR_MAX_PLACED]; /* the first station from here on that must not be on this kind */
    uint64_t cap[VR_MAX_PLACED][2]; /* for stations; [1]: with the output */
    double enter[VR_MAX_PLACED], first[VR_MAX_PLACED], leave[VR_MAX_PLACED];
    double submit;                     /* what the host needs at least to start a token's kernels */
    uint32_t radix[VR_MAX_PLACED + 1]; /* which devices are used up, as a number: so many of each kind */
    uint32_t most_devices;             /* that may be used */
    uint64_t steps;
    struct cell {
        double cost;
        uint16_t from;
        uint8_t kind;
    } * cells; /* [used up][station] */
};

/* What is added up over devices: a decoding step, and the first micro-batch. */
static double add_up(const struct vr_problem *p, double decode, double prefill)
{
    return p->weight[VR_DECODE] * decode + p->weight[VR_PREFILL] * p->first_share * prefill;
}

/* A sum of those, and the rest of a prompt at that pace. */
static double weigh(const struct vr_problem *p, double sum, double pace)
{
    return sum + p->weight[VR_PREFILL] * (1 - p->first_share) * pace;
}

/* --- tables --- */

static bool alloc_tables(struct pipeline *t, struct vr_arena *arena)
{
    bool ok = true;
    size_t n = t->n + 1u;
    for (uint32_t k = 0; k < t->p->n_kinds; k++) {
        t->bytes[k] = vr_arena_alloc(arena, n, sizeof *t->bytes[k]);
        t->prefill[k] = vr_arena_alloc(arena, n, sizeof *t->prefill[k]);
        t->sum[k] = vr_arena_alloc(arena, n, sizeof *t->sum[k]);
        t->until[k] = vr_arena_alloc(arena, n, sizeof *t->until[k]);
        ok = ok && t->bytes[k] && t->prefill[k] && t->sum[k] && t->until[k];
    }
    t->some = vr_arena_alloc(arena, n, sizeof *t->some);
    t->empty = vr_arena_alloc(arena, n, sizeof *t->empty);
    return ok && t->some && t->empty;
}

/* Whether a whole station may be on a kind. */
static bool may(const struct vr_problem *p, uint32_t s, uint32_t kind)
{
    const struct vr_station_class *c = &p->classes[p->stations[s]];
    bool ok = (p->allow[s] == 0 || (p->allow[s] >> kind & 1)) && c->core.left_bytes == 0;
    for (uint32_t u = 0; ok && u < c->n_units; u++)
        ok = (c->units[u].allow == 0 || (c->units[u].allow >> kind & 1)) && c->units[u].piece.left_bytes == 0;
    return ok;
}

static void add_piece(struct pipeline *t, uint32_t s, uint32_t k, const struct vr_piece *x, double *submit)
{
    t->bytes[k][s + 1] += x->gpu_bytes;
    t->prefill[k][s + 1] += x->piped_ms[k];
    t->sum[k][s + 1] += add_up(t->p, x->ms[VR_DECODE][k], x->ms[VR_PREFILL][k]);
    *submit += x->ms[VR_PREFILL][k] - x->piped_ms[k];
}

static double hop(const struct vr_problem *p, uint32_t from, uint32_t to)
{
    return add_up(p, p->hop_ms[VR_DECODE][from][to], p->hop_ms[VR_PREFILL][from][to]);
}

static void fill_kind(struct pipeline *t, uint32_t k)
{
    const struct vr_problem *p = t->p;
    double submit = 0;
    for (uint32_t s = 0; s < t->n; s++) {
        const struct vr_station_class *c = &p->classes[p->stations[s]];
        t->bytes[k][s + 1] = t->bytes[k][s];
        t->prefill[k][s + 1] = t->prefill[k][s];
        t->sum[k][s + 1] = t->sum[k][s];
        add_piece(t, s, k, &c->core, &submit);
        for (uint32_t u = 0; u < c->n_units; u++) add_piece(t, s, k, &c->units[u].piece, &submit);
    }
    t->submit = k ? fmin(t->submit, submit) : submit;
    t->until[k][t->n] = (uint16_t)t->n;
    for (uint32_t s = t->n; s-- > 0;) t->until[k][s] = may(p, s, k) ? t->until[k][s + 1] : (uint16_t)s;
    for (unsigned last = 0; last < 2; last++) {
        uint64_t compute = p->kinds[k].compute_bytes[VR_SIT_PIPELINE | (last ? VR_SIT_OUTPUT : 0)];
        t->cap[k][last] = p->kinds[k].budget_bytes > compute ? p->kinds[k].budget_bytes - compute : 0;
    }
    double open = add_up(p, p->open_ms[VR_DECODE][k], p->open_ms[VR_PREFILL][k]);
    t->first[k] = open + hop(p, VR_ON_HOST, k);
    t->leave[k] = hop(p, k, VR_ON_HOST);
    t->enter[k] = INFINITY; /* the shortest way from another device: which one that is makes hardly a difference */
    for (uint32_t a = 0; a < p->n_kinds; a++)
        if (a != k || p->kinds[k].n > 1) t->enter[k] = fmin(t->enter[k], hop(p, a, k) + open);
}

static bool fill(struct pipeline *t, struct vr_arena *arena)
{
    const struct vr_problem *p = t->p;
    if (!alloc_tables(t, arena)) return false;
    for (uint32_t s = 0; s < t->n; s++) {
        enum vr_cache cache = p->classes[p->stations[s]].cache;
        t->some[s + 1] = t->some[s] + (cache == VR_CACHE_SOME);
        t->empty[s + 1] = t->empty[s] + (cache == VR_CACHE_EMPTY);
    }
    t->radix[0] = 1;
    for (uint32_t k = 0; k < p->n_kinds; k++) {
        fill_kind(t, k);
        uint64_t radix = (uint64_t)t->radix[k] * (p->kinds[k].n + 1);
        t->radix[k + 1] = radix < UINT32_MAX ? (uint32_t)radix : UINT32_MAX;
    }
    return true;
}

static uint32_t used(const struct pipeline *t, uint32_t state, uint32_t k)
{
    return state / t->radix[k] % (t->p->kinds[k].n + 1);
}

/* Whether one more device of kind k may follow those that are used up. */
static bool is_next(const struct pipeline *t, uint32_t state, uint32_t k)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->p->n_kinds; i++) n += used(t, state, i);
    return n < t->most_devices && used(t, state, k) < t->p->kinds[k].n && (!t->p->ordered || state < t->radix[k + 1]);
}

/* --- the least that the slowest device takes, whatever the rest --- */

/* How far a device of kind k gets from station s within the limit, as the last one if that is the end. */
static uint32_t reach(const struct pipeline *t, uint32_t k, uint32_t s, double limit)
{
    const uint64_t *bytes = t->bytes[k];
    const double *ms = t->prefill[k];
    uint32_t until = t->until[k][s], low = s, high = until;
    if (until == t->n && bytes[t->n] - bytes[s] <= t->cap[k][1] && ms[t->n] - ms[s] <= limit) return t->n;
    if (until == t->n) high = t->n - 1;
    while (low < high) {
        uint32_t e = (low + high + 1) / 2;
        if (bytes[e] - bytes[s] <= t->cap[k][0] && ms[e] - ms[s] <= limit)
            low = e;
        else
            high = e - 1;
    }
    return low;
}

static bool feasible(const struct pipeline *t, double limit, uint16_t *furthest)
{
    uint32_t n_states = t->radix[t->p->n_kinds];
    memset(furthest, 0, n_states * sizeof *furthest);
    for (uint32_t state = 0; state < n_states; state++)
        for (uint32_t k = 0; k < t->p->n_kinds; k++) {
            if (!is_next(t, state, k)) continue;
            uint32_t e = reach(t, k, furthest[state], limit);
            if (e == t->n) return true;
            uint16_t *to = &furthest[state + t->radix[k]];
            if (e > *to) *to = (uint16_t)e;
        }
    return false;
}

/* No pipeline has a device that takes less than this in a token of prompt; infinite: nothing fits. `furthest` has room
 * for each way to use devices up. */
static double least_limit(const struct pipeline *t, uint16_t *furthest)
{
    double low = 0, high = 0;
    for (uint32_t k = 0; k < t->p->n_kinds; k++) high = fmax(high, t->prefill[k][t->n]);
    if (!feasible(t, high, furthest)) return INFINITY;
    for (int i = 0; i < HALVINGS; i++) {
        double middle = (low + high) / 2;
        if (feasible(t, middle, furthest))
            high = middle;
        else
            low = middle;
    }
    return high;
}

/* --- the shortest sum within a limit --- */

static void extend(struct pipeline *t, uint32_t state, uint32_t s, uint32_t k, double limit)
{
    const struct cell *at = &t->cells[(size_t)state * (t->n + 1) + s];
    struct cell *to = &t->cells[(size_t)(state + t->radix[k]) * (t->n + 1)];
    double start = at->cost + (state ? t->enter[k] : t->first[k]);
    for (uint32_t e = s + 1; e <= t->until[k][s]; e++) {
        bool last = e == t->n;
        t->steps++;
        if (t->prefill[k][e] - t->prefill[k][s] > limit * (1 + ROUND)) break;
        if (t->bytes[k][e] - t->bytes[k][s] > t->cap[k][last]) {
            if (t->bytes[k][e] - t->bytes[k][s] > t->cap[k][0]) break;
            continue;
        }
        if (t->empty[e] > t->empty[s] && t->some[e] == t->some[s]) continue; /* the engine cannot load that */
        double cost = start + t->sum[k][e] - t->sum[k][s] + (last ? t->leave[k] : 0);
        if (cost < to[e].cost) to[e] = (struct cell){ cost, (uint16_t)s, (uint8_t)k };
    }
}

/* The cheapest way to the end, as the number of its last cell's row; UINT32_MAX: there is none. */
static uint32_t shortest(struct pipeline *t, double limit)
{
    uint32_t n_states = t->radix[t->p->n_kinds], best = UINT32_MAX;
    size_t row = t->n + 1u;
    for (size_t i = 0; i < n_states * row; i++) t->cells[i] = (struct cell){ INFINITY, 0, UNREACHED };
    t->cells[0].cost = 0;
    for (uint32_t state = 0; state < n_states; state++) {
        if (t->cells[state * row + t->n].cost < (best == UINT32_MAX ? INFINITY : t->cells[best * row + t->n].cost))
            best = state;
        bool next[VR_MAX_PLACED];
        for (uint32_t k = 0; k < t->p->n_kinds; k++) next[k] = is_next(t, state, k);
        for (uint32_t s = 0; s < t->n; s++)
            for (uint32_t k = 0; k < t->p->n_kinds && isfinite(t->cells[state * row + s].cost); k++)
                if (next[k]) extend(t, state, s, k, limit);
    }
    return best;
}

static void write_placement(const struct pipeline *t, uint32_t state, struct vr_placement *out)
{
    const struct vr_problem *p = t->p;
    uint32_t begin[VR_MAX_PLACED] = { 0 };
    for (uint32_t k = 1; k < p->n_kinds; k++) begin[k] = begin[k - 1] + p->kinds[k - 1].n;
    for (uint32_t e = t->n; e > 0;) {
        const struct cell *c = &t->cells[(size_t)state * (t->n + 1) + e];
        uint32_t device = begin[c->kind] + used(t, state, c->kind) - 1;
        memset(out->core + c->from, (int)device, e - c->from);
        memset(out->units + (size_t)c->from * VR_MAX_UNITS, (int)device, (size_t)(e - c->from) * VR_MAX_UNITS);
        state -= t->radix[c->kind];
        e = c->from;
    }
}

/* --- all together --- */

struct found {
    struct vr_solution *out;
    struct vr_placement x; /* room for the next one */
    double slowest;        /* device of the last one */
    double sum;            /* its path */
};

static double slowest(const struct vr_problem *p, const struct vr_account *a)
{
    double ms = 0;
    for (uint32_t d = 0; d < p->n_devices; d++) ms = fmax(ms, a->piped_ms[d]);
    return ms;
}

/* The best plan within a limit, as f->x. False: there is none. */
static bool find(struct pipeline *t, double limit, struct found *f, struct vr_account *a)
{
    uint32_t state = shortest(t, limit);
    if (state == UINT32_MAX) return false;
    f->sum = t->cells[(size_t)state * (t->n + 1) + t->n].cost;
    write_placement(t, state, &f->x);
    if (!vr_problem_account(t->p, &f->x, VR_SIT_PIPELINE, a, NULL)) return false;
    f->slowest = slowest(t->p, a);
    return true;
}

static void keep(struct found *f, const struct vr_account *a)
{
    struct vr_placement old = f->out->placement;
    f->out->placement = f->x;
    f->x = old;
    f->out->account = *a;
}

/* The same, kept if it is the cheapest so far. */
static bool try_limit(struct pipeline *t, double limit, struct found *f)
{
    struct vr_account a;
    if (!find(t, limit, f, &a)) return false;
    if (a.cost < f->out->account.cost) keep(f, &a);
    return true;
}

/* Between two limits: the smaller one, the larger one, and the least sum within the larger one. */
struct span {
    double low, high, sum;
};

static double bound_of(const struct pipeline *t, const struct span *s)
{
    return weigh(t->p, s->sum, fmax(s->low, t->submit));
}

/* Limits from `least` up to what the plan with the shortest sum needs. */
static double branch(struct pipeline *t, double least, struct found *f)
{
    struct span open[MAX_PATHS + 1] = { { least, f->slowest, f->sum } };
    size_t n = 1;
    for (unsigned paths = 1;; paths++) {
        size_t worst = 0;
        for (size_t i = 1; i < n; i++)
            if (bound_of(t, &open[i]) < bound_of(t, &open[worst])) worst = i;
        double low = fmin(bound_of(t, &open[worst]), f->out->account.cost);
        bool done = low >= f->out->account.cost * (1 - GOOD);
        if (done || paths == MAX_PATHS || t->steps > MAX_STEPS) return low;
        struct span *s = &open[worst];
        double middle = (s->low + s->high) / 2;
        if (!try_limit(t, middle, f)) {
            s->low = middle; /* nothing is that even */
            continue;
        }
        open[n++] = (struct span){ s->low, fmin(middle, f->slowest), f->sum };
        s->low = middle;
    }
}

static bool alloc_placement(const struct vr_problem *p, struct vr_arena *arena, struct vr_placement *x)
{
    x->core = vr_arena_alloc(arena, p->n_stations, 1);
    x->units = vr_arena_alloc(arena, p->n_stations, VR_MAX_UNITS);
    return x->core && x->units;
}

/* Tables, room for a placement, and the least limit; infinite: there is no pipeline. t->cells is NULL where the table
 * would be too large. */
static bool begin(struct pipeline *t, struct found *f, struct vr_arena *arena, double *least, struct vr_err *err)
{
    const struct vr_problem *p = t->p;
    bool ok = fill(t, arena) && alloc_placement(p, arena, &f->x);
    uint16_t *furthest = ok ? vr_arena_alloc(arena, t->radix[p->n_kinds], sizeof *furthest) : NULL;
    if (!furthest) return vr_fail_nomem(err, "planning a pipeline");
    *least = least_limit(t, furthest);
    uint64_t n_cells = (uint64_t)t->radix[p->n_kinds] * (t->n + 1);
    if (isinf(*least) || n_cells > MAX_CELLS) return true;
    t->cells = vr_arena_alloc(arena, n_cells, sizeof *t->cells);
    return t->cells || vr_fail_nomem(err, "planning a pipeline");
}

bool vr_pipeline_solve(const struct vr_problem *p, struct vr_arena *arena, struct vr_solution *out, struct vr_err *err)
{
    struct pipeline t = { .p = p, .n = p->n_stations, .most_devices = p->n_devices };
    struct found f = { .out = out };
    double least;
    memset(out, 0, sizeof *out);
    out->account.cost = out->lower_bound = INFINITY;
    if (p->n_devices < 2) return true;
    if (!alloc_placement(p, arena, &out->placement)) return vr_fail_nomem(err, "planning a pipeline");
    if (!begin(&t, &f, arena, &least, err)) return false;
    if (isinf(least)) return true;
    out->lower_bound = weigh(p, 0, fmax(least, t.submit));
    if (!t.cells) return true;
    (void)try_limit(&t, least, &f); /* the best for prompts; the last one tried is where branching begins */
    if (try_limit(&t, INFINITY, &f)) out->lower_bound = branch(&t, least, &f);
    out->optimal = out->lower_bound >= out->account.cost * (1 - EQUAL);
    out->work = t.steps;
    return true;
}

bool vr_pipeline_even(const struct vr_problem *p, double most, struct vr_arena *arena, struct vr_solution *x,
                      struct vr_err *err)
{
    struct vr_solution even = *x;
    struct pipeline t = { .p = p, .n = p->n_stations, .most_devices = (uint32_t)x->account.n_order };
    struct found f = { .out = &even };
    struct vr_account a;
    double low, high = slowest(p, &x->account), was = high;
    if (!alloc_placement(p, arena, &even.placement)) return vr_fail_nomem(err, "planning a pipeline");
    if (!begin(&t, &f, arena, &low, err)) return false;
    while (t.cells && high - low > FINE * high && t.steps <= MAX_EVEN_STEPS) {
        double middle = (low + high) / 2;
        if (find(&t, middle, &f, &a) && a.cost <= most * (1 + EQUAL)) {
            keep(&f, &a);
            high = f.slowest;
        } else {
            low = middle;
        }
    }
    if (high > was * (1 - WORTH_EVENING)) return true;
    even.optimal = x->optimal && even.account.cost <= x->account.cost * (1 + EQUAL);
    *x = even;
    return true;
}
