/* A case of the problem, priced; private to plan/.
 *
 * Whether weights are on the host, and which kind of device comes first, changes a compute buffer and, for prompts, the
 * time of everything on the host. So these are decided up front: a case is "nothing on the host", or "something on the
 * host", the latter once per kind that may be first where that changes times. The cases together are the whole problem
 * (less "all on the host", which is one placement).
 *
 * Within a case memory is given a price: byte by byte for each kind of device (and the host, where its limit matters).
 * With prices in place of limits the stations hardly depend on each other, and the cheapest way to finish from any
 * point is a small table: that is the lower bound (bound.c) which guides the search (search.c). A second one counts
 * whole pieces (rows.c). */
#ifndef VR_PLAN_CASE_H
#define VR_PLAN_CASE_H

#include "base/arena.h"
#include "plan/problem.h"

#define NONE         0xff
#define MAX_PLACES   (VR_MAX_PLACED + 1)
#define CLOSE_ENOUGH 1e-9 /* relative: a bound this near the best plan proves it */

struct vr_case {
    const struct vr_problem *p;
    bool host;          /* something is on the host */
    bool host_limited;  /* its memory counts */
    uint32_t first;     /* kind of the first device; NONE: any, it makes no difference in time */
    unsigned situation; /* of every device, before its own bits */

    /* Places are kinds, and the host as number n_kinds: tables stay small. */
    uint32_t n_kinds, n_places, max_units;
    uint32_t usable;                         /* kinds that can pay for their compute buffer */
    double *core;                            /* [class][place]: cost; infinite where not allowed */
    double *unit;                            /* [class][unit][place] */
    double *back;                            /* [class][unit][place of the core]: of a unit on the host */
    double hop[MAX_PLACES][MAX_PLACES];      /* one copy */
    double interrupt;                        /* leaving a core for a unit, or going on from it */
    double enter[MAX_PLACES][VR_MAX_PLACED]; /* the way to the first core of a device, and opening it */
    double entry[VR_MAX_PLACED];             /* the least of these from another device */
    uint64_t cap_bytes[VR_MAX_PLACED];       /* budget less the compute buffer of a device in the middle */
    uint64_t first_bytes[VR_MAX_PLACED];     /* what being first adds to it */
    uint64_t output_bytes[VR_MAX_PLACED][2]; /* what carrying the output adds; [1]: to the first device */
    uint64_t host_bytes;                     /* for cores and units */

    /* The priced case: see bound.c. */
    double price[MAX_PLACES]; /* per byte */
    bool concave;             /* while prices are looked for: the bound that is a concave function of them */
    double *tail, *rest, *before;
    double *settled;                       /* as tail, border units staying with their core */
    double *through;                       /* [class][need of the host][kind of the core]: a whole station */
    double change[MAX_PLACES][MAX_PLACES]; /* what a path pays for going from a core of one kind to one of another */
    double toll;                   /* for a station with border units elsewhere; a device in use gets it back twice */
    double constant;               /* of the root, beside the path */
    double reward[VR_MAX_PLACED];  /* for each station on this kind, and due once for a device in use */
    double opening[VR_MAX_PLACED]; /* what the bound counts for opening a device: its entry, or its memory's worth */
    double root;                   /* no plan of this case costs less */
};

/* False: memory is out, or the case has no device (root is then infinite). Everything is in the arena. */
bool vr_case_init(struct vr_case *c, const struct vr_problem *p, bool host, uint32_t first, bool host_limited,
                  unsigned situation, struct vr_arena *arena) VR_MUST_CHECK;

/* Whether something with this `allow` may be at a place. */
bool vr_case_may(const struct vr_case *c, uint32_t mask, uint32_t place);
/* Whether a device of kind k may come next, behind one of kind `last`. `used` tells how many of each kind are used up,
 * as a number with a digit for each; `radix` is what the digit of k counts. */
static inline bool vr_case_next(const struct vr_case *c, uint32_t radix, uint32_t used, uint32_t last, uint32_t k)
{
    uint32_t n = c->p->kinds[k].n;
    if (!(c->usable >> k & 1) || used / radix % (n + 1) == n) return false;
    return used == 0 ? c->first == NONE || k == c->first : !c->p->ordered || k >= last;
}
/* The way from `at` to unit u of class q at `to`, while the core is at `core`; places are kinds. */
static inline double vr_case_reach(const struct vr_case *c, uint32_t q, uint32_t u, uint32_t core, uint32_t at,
                                   uint32_t to, bool same_at, bool same_core)
{
    const struct vr_unit *unit = &c->p->classes[q].units[u];
    double cost = same_at ? 0 : c->interrupt + c->hop[at][to] * (same_core ? 1 : unit->n_in);
    if (same_core) return cost;
    if (to == c->n_kinds) return cost + c->back[(q * c->max_units + u) * c->n_places + core];
    return cost + c->hop[core][to] * unit->n_along;
}
/* The way from a station's last unit back to its core. */
static inline double vr_case_return(const struct vr_case *c, uint32_t at, uint32_t core, bool same)
{
    return same ? 0 : c->interrupt + c->hop[at][core];
}
/* Fills the tables for c->price and sets the root. */
void vr_case_price(struct vr_case *c);
/* Fills before[], which only blocks.c needs. */
void vr_case_look_back(struct vr_case *c);
/* Looks for the prices with the highest root, starting from those there. `best` is the cost of a known plan, or
 * infinite. */
void vr_case_raise(struct vr_case *c, double best, unsigned rounds);
/* As that, to the highest root. */
void vr_case_top(struct vr_case *c, double best, unsigned rounds);

/* The least cost of finishing, with prices for all memory that it takes:
 *   from before station s, being at the core of kind k of the station before; */
static inline double vr_case_rest(const struct vr_case *c, uint32_t s, bool need_host, uint32_t k)
{
    return c->rest[(s * 2 + need_host) * c->n_places + k];
}
/*   the units from u on and the way back to the core of kind k, being at place. */
static inline double vr_case_tail(const struct vr_case *c, uint32_t class, uint32_t u, bool need_host, uint32_t k,
                                  uint32_t place)
{
    return c->tail[(((class * (c->max_units + 1) + u) * 2 + need_host) * c->n_places + k) * c->n_places + place];
}

/*   and the least cost of getting before station s with the core of the station before on kind k (no need of the host).
 */
static inline double vr_case_before(const struct vr_case *c, uint32_t s, uint32_t k)
{
    return c->before[s * c->n_places + k];
}
/* The least that a plan of the case costs, counting whole pieces (rows.c); or `best`, a known plan's cost, if none
 * costs less; or the root, where that is all that can be told. */
double vr_case_rows(const struct vr_case *c, double best, uint32_t grains);
#define VR_ROWS_GRAINS 1024 /* into which memory is divided at most: more tell more, and take longer */

struct vr_search_result {
    double lower;  /* no plan of the case costs less than this or the best that was known */
    uint64_t work; /* labels made */
    bool found;    /* a plan better than the best that was known */
    bool complete; /* nothing was dropped */
    double cost;
};

/* The best plan of the case without guests, if it costs less than `best` (blocks.c). False when memory is out. */
bool vr_case_blocks(struct vr_case *c, double best, struct vr_placement *out,
                    struct vr_search_result *result) VR_MUST_CHECK;

/* Makes an allowed placement better by small changes, with so many rounds of shaking (polish.c). With `work`, cores
 * go to the host and back as well, and there are some more rounds while no more than so many stations are looked at;
 * *cost is its cost before and after. False when memory is out. Not for pipelines: units do not move there. */
bool vr_polish(const struct vr_problem *p, struct vr_placement *x, unsigned rounds, uint64_t work,
               double *cost) VR_MUST_CHECK;

/* Takes units off devices that have too much, for the host or wherever there is room. */
bool vr_polish_fit(const struct vr_problem *p, struct vr_placement *x) VR_MUST_CHECK;

/* Takes units off the host, as long as that makes the plan slower by no more than this in all. */
bool vr_polish_spare(const struct vr_problem *p, struct vr_placement *x, double ms) VR_MUST_CHECK;

/* Searches with at most `width` labels per step for a plan that costs less than `best` (search.c); with `home`, only
 * for one without guests. Fills `out` when found. False when memory is out. */
bool vr_case_search(const struct vr_case *c, double best, bool home, uint32_t width, uint64_t work_limit,
                    struct vr_placement *out, struct vr_search_result *result) VR_MUST_CHECK;

#endif
