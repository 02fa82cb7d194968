/* The search: one step after the other along the stations, each step places one piece.
 *
 * A label is a partial plan: what is left of every device, where the token is, what it has cost. Its bound is that
 * cost, plus the cheapest way to finish under the case's prices, less the worth of the memory that is left. Labels
 * whose bound is not below the best known plan are dropped, and so are those that another one dominates: same
 * situation, no dearer, no device with less left. If more than `width` are left after a step, the ones with the highest
 * bounds are dropped too; when that never happens, the search was exhaustive and the best plan is proven.
 *
 * Symmetry: devices of a kind are kept sorted by their state, so plans that differ only in which of two equal cards or
 * equal layers does what have equal labels, and one of them goes. A label's device numbers are therefore positions; a
 * plan is read back by making its steps again while tracking which device each position is.
 *
 * Everything is ordered by (bound, order of making): same problem, same plan. */
#include "plan/case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

#define MAX_COMPARED 192 /* labels of the same situation that a new one is compared with */

enum status { FRESH, PAID, OPENED }; /* not in use; has units, must get a station; has or had stations */

enum caches { NO_LAYER, BARE, CACHED }; /* only layers without a cache so far; one with */

/* What must be equal for one label to stand for another. Places are positions or VR_ON_HOST. */
struct situation {
    uint8_t core, place; /* of the current station; where the token is */
    uint8_t prev, next;  /* place of the station before, while that matters; device that the next station must be on */
    uint8_t host_used;
    uint8_t caches; /* of the layers of the current place: see below */
    uint8_t status[VR_MAX_PLACED];
};

struct label {
    double cost, bound;
    uint32_t parent;
    uint8_t choice;
    struct situation at;
    uint64_t host_bytes; /* used */
    uint64_t left[VR_MAX_PLACED];
};

struct step {
    uint32_t station, class;
    int32_t unit; /* -1: the core */
    bool last_of_station, border_follows;
    uint64_t min_free_bytes; /* the smallest free unit of later steps */
    uint64_t later_bytes;    /* of all pieces that are still to be placed, on devices */
    uint64_t border_bytes;   /* of border units in the rest of this station */
    uint64_t closing_bytes;  /* of all units in the rest of this station, and border units of the next */
};

struct trace {
    uint32_t parent;
    uint8_t choice;
};

struct search {
    const struct vr_case *c;
    struct step *steps;
    uint32_t n_steps, n_devices;
    struct {
        double price;
        uint32_t of;            /* 2 x kind, + 1 for devices that must be opened first */
    } rates[2 * VR_MAX_PLACED]; /* what a byte is worth, highest first */
    uint32_t n_rates;
    double extra_bytes;               /* that a first and a last device may pay more for buffers */
    uint8_t kind[VR_MAX_PLACED];      /* of each position */
    uint8_t begin[VR_MAX_PLACED + 1]; /* first position of each kind */
    uint8_t ids[VR_MAX_PLACED];       /* while reading a plan back: the device at each position */
    struct label *labels, *kept;      /* before and after a step */
    uint32_t n_labels, n_kept, width;
    struct label *made; /* by this step, before they are compared */
    uint32_t n_made, cap_made;
    uint32_t *order, *chain, *heads; /* of made; of kept, by situation */
    uint32_t mask;
    struct trace *traces; /* width per step */
    double best;          /* a plan must cost less */
    uint64_t work, work_limit;
    bool home;      /* units stay at home or go to the host */
    double dropped; /* the least bound among labels dropped for want of room */
    bool nomem;
};

static uint32_t kind_at(const struct search *s, uint32_t place)
{
    return place == VR_ON_HOST ? s->c->n_kinds : s->kind[place];
}

/* --- steps --- */

static const struct vr_piece *piece_of(const struct vr_problem *p, const struct step *t)
{
    const struct vr_station_class *class = &p->classes[t->class];
    return t->unit < 0 ? &class->core : &class->units[t->unit].piece;
}

/* What later steps could still put on a device. */
static void sum_steps(struct search *s)
{
    const struct vr_problem *p = s->c->p;
    uint64_t min = UINT64_MAX, later = 0, border = 0, units = 0, next_border = 0;
    for (uint32_t i = s->n_steps; i-- > 0;) {
        struct step *t = &s->steps[i];
        if (t->last_of_station) {
            next_border = border;
            border = units = 0;
        }
        t->min_free_bytes = min;
        t->later_bytes = later;
        t->border_bytes = border;
        t->closing_bytes = units + next_border;
        uint64_t n = piece_of(p, t)->gpu_bytes;
        later += n;
        if (t->unit < 0) continue;
        units += n;
        if (p->classes[t->class].units[t->unit].move == VR_MOVE_BORDER)
            border += n;
        else if (n < min)
            min = n;
    }
}

static bool plan_steps(struct search *s)
{
    const struct vr_problem *p = s->c->p;
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->n_stations; i++) n += 1 + p->classes[p->stations[i]].n_units;
    s->steps = calloc(n, sizeof *s->steps);
    if (!s->steps) return false;
    for (uint32_t i = 0; i < p->n_stations; i++) {
        const struct vr_station_class *class = &p->classes[p->stations[i]];
        for (int u = -1; u < (int)class->n_units; u++) {
            struct step *t = &s->steps[s->n_steps++];
            *t = (struct step){
                .station = i, .class = p->stations[i], .unit = u, .last_of_station = u + 1 == (int)class->n_units
            };
            for (int v = u + 1; v < (int)class->n_units; v++)
                t->border_follows |= class->units[v].move == VR_MOVE_BORDER;
        }
    }
    sum_steps(s);
    return true;
}

/* --- one label --- */

static void swap_u8(uint8_t *a, uint8_t *b)
{
    uint8_t t = *a;
    *a = *b;
    *b = t;
}

static void follow_swap(uint8_t *at, uint32_t i, uint32_t j) { *at = (uint8_t)(*at == i ? j : *at == j ? i : *at); }

static void swap_positions(struct search *s, struct label *l, uint32_t i, uint32_t j)
{
    uint64_t left = l->left[i];
    l->left[i] = l->left[j];
    l->left[j] = left;
    swap_u8(&l->at.status[i], &l->at.status[j]);
    swap_u8(&s->ids[i], &s->ids[j]);
    follow_swap(&l->at.core, i, j);
    follow_swap(&l->at.place, i, j);
    follow_swap(&l->at.prev, i, j);
    follow_swap(&l->at.next, i, j);
}

/* Positions of a kind: the current device, then by role, then by what is left. */
static bool comes_before(const struct label *l, uint32_t i, uint32_t j)
{
    const struct situation *a = &l->at;
    if ((i == a->core) != (j == a->core)) return i == a->core;
    if ((i == a->prev) != (j == a->prev)) return i == a->prev;
    if ((i == a->next) != (j == a->next)) return i == a->next;
    if (a->status[i] != a->status[j]) return a->status[i] > a->status[j];
    if (l->left[i] != l->left[j]) return l->left[i] > l->left[j];
    return i == a->place;
}

static void sort_kind(struct search *s, struct label *l, uint32_t k)
{
    uint32_t begin = s->begin[k], end = s->begin[k + 1];
    for (uint32_t i = begin + 1; i < end; i++)
        for (uint32_t j = i; j > begin && comes_before(l, j, j - 1); j--) swap_positions(s, l, j, j - 1);
}

/* Memory that nothing can use any more is no difference between labels. */
static void forget(const struct search *s, const struct step *t, struct label *l)
{
    for (uint32_t i = 0; i < s->n_devices; i++)
        if (l->at.status[i] == OPENED && i != l->at.core && i != l->at.prev &&
            (s->home || l->left[i] < t->min_free_bytes))
            l->left[i] = 0;
}

/* The cheapest way to finish after this step, memory at its price. */
static double finish(const struct search *s, const struct step *t, const struct label *l)
{
    const struct vr_case *c = s->c;
    uint32_t core = kind_at(s, l->at.core), next = t->station + 1;
    bool need = c->host && !l->at.host_used;
    if (t->last_of_station) return vr_case_rest(c, next, need, core);
    uint32_t place = kind_at(s, l->at.place), u = (uint32_t)(t->unit + 1);
    double later = vr_case_tail(c, t->class, u, false, core, place) + vr_case_rest(c, next, need, core);
    if (!need) return later;
    double now = vr_case_tail(c, t->class, u, true, core, place) + vr_case_rest(c, next, false, core);
    return now < later ? now : later;
}

/* How much of what is left on a device later steps can use. */
static uint64_t usable(const struct step *t, const struct label *l, uint32_t i)
{
    uint64_t most = UINT64_MAX;
    if (l->left[i] < t->min_free_bytes) { /* no free unit fits: only its own pieces, or units across a border */
        if (i == l->at.prev) most = t->border_bytes;
        if (i == l->at.core && l->at.next != NONE) most = t->closing_bytes;
    }
    return l->left[i] < most ? l->left[i] : most;
}

/* The cost so far and the cheapest way to finish, less the worth of the memory that this way can use: no more than is
 * left of each kind, and no more than all pieces that are still to come. */
static double bound_of(const struct search *s, const struct step *t, const struct label *l)
{
    const struct vr_case *c = s->c;
    double sum = l->cost + finish(s, t, l), bytes[2 * VR_MAX_PLACED] = { 0 };
    double room = (double)t->later_bytes + s->extra_bytes;
    for (uint32_t i = 0; i < s->n_devices; i++) {
        uint32_t k = s->kind[i];
        bytes[2 * k + (l->at.status[i] == FRESH)] += (double)usable(t, l, i);
        double due = c->opening[k] + c->reward[k];
        if (l->at.status[i] == PAID || (l->at.status[i] == FRESH && due < 0 && (c->usable >> k & 1))) sum += due;
    }
    for (uint32_t i = 0; i < s->n_rates && room > 0; i++) {
        double n = bytes[s->rates[i].of];
        sum -= s->rates[i].price * (n < room ? n : room);
        room -= n;
    }
    return c->host_limited ? sum - c->price[c->n_kinds] * (double)(c->host_bytes - l->host_bytes) : sum;
}

static bool allowed(uint32_t mask, uint32_t kind, uint32_t n_kinds)
{
    return mask == 0 || (mask >> (kind == n_kinds ? VR_ON_HOST : kind) & 1);
}

static bool has_room(const struct search *s, const struct label *l, const struct vr_piece *x, uint32_t place)
{
    uint64_t on_host = place == VR_ON_HOST ? x->host_bytes : x->left_bytes;
    if (s->c->host_limited && l->host_bytes + on_host > s->c->host_bytes) return false;
    return place == VR_ON_HOST || l->left[place] >= x->gpu_bytes;
}

static void take(struct label *l, const struct vr_piece *x, uint32_t place)
{
    uint64_t on_host = place == VR_ON_HOST ? x->host_bytes : x->left_bytes;
    if (place == VR_ON_HOST || on_host) l->at.host_used = 1;
    l->host_bytes += on_host;
    if (place != VR_ON_HOST) l->left[place] -= x->gpu_bytes;
}

/* Whether station `station` may be the first one on d, after a core at `from`. */
static bool may_open(const struct search *s, const struct label *l, uint32_t station, uint32_t from, uint32_t d)
{
    const struct vr_case *c = s->c;
    if (station >= c->p->n_stations || d == VR_ON_HOST || l->at.status[d] == OPENED) return false;
    if (l->at.next != NONE && l->at.next != d) return false;
    uint32_t k = s->kind[d];
    if (!allowed(c->p->allow[station], k, c->n_kinds)) return false;
    if (from == VR_ON_HOST) return c->first == NONE || k == c->first;
    return !c->p->ordered || k >= s->kind[from];
}

static bool may_core(const struct search *s, const struct step *t, const struct label *l, uint32_t d)
{
    const struct vr_case *c = s->c;
    uint32_t k = kind_at(s, d);
    if (isinf(c->core[t->class * c->n_places + k]) || !allowed(c->p->allow[t->station], k, c->n_kinds)) return false;
    if (d != l->at.core && l->at.caches == BARE) return false;
    if (d == l->at.core) return l->at.next == NONE && has_room(s, l, &c->p->classes[t->class].core, d);
    if (!may_open(s, l, t->station, l->at.core, d)) return false;
    uint64_t first = l->at.core == VR_ON_HOST ? c->first_bytes[k] : 0;
    return l->left[d] >= first + c->p->classes[t->class].core.gpu_bytes &&
           has_room(s, l, &c->p->classes[t->class].core, d);
}

static void place_core(const struct search *s, const struct step *t, struct label *l, uint32_t d)
{
    const struct vr_case *c = s->c;
    uint32_t k = kind_at(s, d), from = l->at.core;
    l->at.prev = NONE;
    if (d != from) {
        if (from == VR_ON_HOST) l->left[d] -= c->first_bytes[k];
        l->cost += c->enter[kind_at(s, from)][k];
        l->at.status[d] = OPENED;
        l->at.prev = (uint8_t)from; /* the embeddings are before station 0, on the host */
        l->at.next = NONE;
    }
    enum vr_cache cache = c->p->classes[t->class].cache;
    if (d != from) l->at.caches = NO_LAYER;
    if (cache == VR_CACHE_SOME)
        l->at.caches = CACHED;
    else if (cache == VR_CACHE_EMPTY && l->at.caches == NO_LAYER)
        l->at.caches = BARE;
    l->cost += c->core[t->class * c->n_places + k];
    l->at.core = l->at.place = (uint8_t)d;
    take(l, &c->p->classes[t->class].core, d);
}

/* A border unit is at its core, or with the station before or after when that is elsewhere. */
static bool may_unit(const struct search *s, const struct step *t, const struct label *l, uint32_t e)
{
    const struct vr_case *c = s->c;
    const struct vr_unit *unit = &c->p->classes[t->class].units[t->unit];
    bool stays = e == l->at.core, border = unit->move == VR_MOVE_BORDER;
    if (isinf(c->unit[(t->class * c->max_units + (uint32_t)t->unit) * c->n_places + kind_at(s, e)])) return false;
    if (s->home && !stays && (border || e != VR_ON_HOST) && !unit->allow) return false;
    if (border && !stays && e != l->at.prev && !may_open(s, l, t->station + 1, l->at.core, e)) return false;
    return has_room(s, l, &unit->piece, e);
}

static void place_unit(const struct search *s, const struct step *t, struct label *l, uint32_t e)
{
    const struct vr_case *c = s->c;
    const struct vr_unit *unit = &c->p->classes[t->class].units[t->unit];
    uint32_t k = kind_at(s, e);
    if (unit->move == VR_MOVE_BORDER && e != l->at.core && e != l->at.prev) l->at.next = (uint8_t)e;
    if (e != VR_ON_HOST && l->at.status[e] == FRESH) l->at.status[e] = PAID;
    l->cost += vr_case_reach(c, t->class, (uint32_t)t->unit, kind_at(s, l->at.core), kind_at(s, l->at.place), k,
                             e == l->at.place, e == l->at.core);
    l->cost += c->unit[(t->class * c->max_units + (uint32_t)t->unit) * c->n_places + k];
    l->at.place = (uint8_t)e;
    take(l, &unit->piece, e);
}

/* After the last step: the output's buffer, the way to the host, and no promise left open. */
static bool end_plan(const struct search *s, struct label *l)
{
    const struct vr_case *c = s->c;
    if (l->at.core == VR_ON_HOST || l->at.caches == BARE || (c->host && !l->at.host_used)) return false;
    uint32_t opened = 0, k = s->kind[l->at.core];
    for (uint32_t i = 0; i < s->n_devices; i++) {
        if (l->at.status[i] == PAID) return false;
        opened += l->at.status[i] == OPENED;
    }
    if (l->left[l->at.core] < c->output_bytes[k][opened == 1]) return false;
    l->cost += c->hop[k][c->n_kinds];
    l->bound = l->cost;
    return true;
}

static bool may(const struct search *s, const struct step *t, const struct label *l, uint32_t d)
{
    return t->unit < 0 ? may_core(s, t, l, d) : may_unit(s, t, l, d);
}

/* Makes one step: the piece of t goes to position d, which may be. False when that leads nowhere. */
static bool apply(const struct search *s, const struct step *t, struct label *l, uint32_t d)
{
    l->choice = (uint8_t)d;
    if (t->unit < 0)
        place_core(s, t, l, d);
    else
        place_unit(s, t, l, d);
    if (!t->border_follows) l->at.prev = NONE;
    if (t->last_of_station && l->at.place != l->at.core) {
        l->cost += vr_case_return(s->c, kind_at(s, l->at.place), kind_at(s, l->at.core), false);
        l->at.place = l->at.core;
    }
    if (t + 1 == s->steps + s->n_steps) return end_plan(s, l);
    uint32_t promised = 0; /* devices that must still get a station */
    for (uint32_t i = 0; i < s->n_devices; i++) promised += l->at.status[i] == PAID;
    return promised <= s->c->p->n_stations - t->station - 1;
}

static void settle(struct search *s, const struct step *t, struct label *l)
{
    forget(s, t, l);
    for (uint32_t k = 0; k < s->c->n_kinds; k++) sort_kind(s, l, k);
}

/* --- a step of the search --- */

static void make(struct search *s, const struct step *t, uint32_t parent, uint32_t d)
{
    if (!may(s, t, &s->labels[parent], d)) return;
    if (s->n_made == s->cap_made) {
        uint32_t cap = s->cap_made ? s->cap_made * 2 : 1024;
        struct label *bigger = realloc(s->made, cap * sizeof *bigger);
        if (!bigger) {
            s->nomem = true;
            return;
        }
        s->made = bigger;
        s->cap_made = cap;
    }
    struct label *l = &s->made[s->n_made];
    *l = s->labels[parent];
    l->parent = parent;
    s->work++;
    if (!apply(s, t, l, d)) return;
    bool end = t + 1 == s->steps + s->n_steps;
    if (!end) {
        settle(s, t, l);
        l->bound = bound_of(s, t, l);
    }
    if (l->bound < s->best * (1 - CLOSE_ENOUGH)) s->n_made++;
}

static bool same_as_before(const struct search *s, const struct label *l, uint32_t i)
{
    const struct situation *a = &l->at;
    if (i == 0 || s->kind[i] != s->kind[i - 1]) return false;
    uint32_t roles[] = { a->core, a->prev, a->next, a->place };
    for (size_t r = 0; r < VR_COUNT(roles); r++)
        if (roles[r] == i || roles[r] == i - 1) return false;
    return a->status[i] == a->status[i - 1] && l->left[i] == l->left[i - 1];
}

static void expand(struct search *s, const struct step *t)
{
    s->n_made = 0;
    for (uint32_t i = 0; i < s->n_labels && !s->nomem; i++) {
        make(s, t, i, VR_ON_HOST);
        for (uint32_t d = 0; d < s->n_devices && !s->nomem; d++)
            if (!same_as_before(s, &s->labels[i], d)) make(s, t, i, d);
    }
}

static int by_bound(const void *a, const void *b, void *made)
{
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    const struct label *x = (const struct label *)made + i, *y = (const struct label *)made + j;
    if (x->bound != y->bound) return x->bound < y->bound ? -1 : 1;
    return i < j ? -1 : i > j;
}

static bool dominates(const struct search *s, const struct label *a, const struct label *b)
{
    if (a->cost > b->cost || memcmp(&a->at, &b->at, sizeof a->at) != 0) return false;
    if (s->c->host_limited && a->host_bytes > b->host_bytes) return false;
    for (uint32_t i = 0; i < s->n_devices; i++)
        if (a->left[i] < b->left[i]) return false;
    return true;
}

/* Keeps the most promising labels of this step that no other one dominates. */
static bool keep(struct search *s, uint32_t step, uint32_t width)
{
    uint32_t *order = realloc(s->order, (s->n_made + 1) * sizeof *order);
    if (!order) return false;
    s->order = order;
    for (uint32_t i = 0; i < s->n_made; i++) order[i] = i;
    qsort_r(order, s->n_made, sizeof *order, by_bound, s->made);
    memset(s->heads, 0xff, ((size_t)s->mask + 1) * sizeof *s->heads);
    s->n_kept = 0;
    for (uint32_t i = 0; i < s->n_made; i++) {
        const struct label *l = &s->made[order[i]];
        uint32_t *head = &s->heads[vr_hash(&l->at, sizeof l->at, 0) & s->mask];
        bool dominated = false;
        for (uint32_t j = *head, n = 0; j != UINT32_MAX && n < MAX_COMPARED && !dominated; j = s->chain[j], n++)
            dominated = dominates(s, &s->kept[j], l);
        if (dominated) continue;
        if (s->n_kept == width) {
            if (l->bound < s->dropped) s->dropped = l->bound;
            break;
        }
        s->traces[(size_t)step * s->width + s->n_kept] = (struct trace){ l->parent, l->choice };
        s->kept[s->n_kept] = *l;
        s->chain[s->n_kept] = *head;
        *head = s->n_kept++;
    }
    return true;
}

static void start(struct search *s, struct label *l)
{
    const struct vr_case *c = s->c;
    memset(l, 0, sizeof *l);
    l->at = (struct situation){ .core = VR_ON_HOST, .place = VR_ON_HOST, .prev = NONE, .next = NONE };
    for (uint32_t i = 0; i < s->n_devices; i++) {
        l->left[i] = c->usable >> s->kind[i] & 1 ? c->cap_bytes[s->kind[i]] : 0;
        s->ids[i] = (uint8_t)i;
    }
}

/* Makes the steps of the best plan again, telling devices from positions. */
static void read_back(struct search *s, struct vr_placement *out)
{
    uint32_t at = 0;
    uint8_t *choices = (uint8_t *)s->order; /* at least one byte per step: see init() */
    for (uint32_t i = s->n_steps; i-- > 0;) {
        const struct trace *t = &s->traces[(size_t)i * s->width + at];
        choices[i] = t->choice;
        at = t->parent;
    }
    struct label l;
    start(s, &l);
    for (uint32_t i = 0; i < s->n_steps; i++) {
        const struct step *t = &s->steps[i];
        uint8_t d = choices[i] == VR_ON_HOST ? VR_ON_HOST : s->ids[choices[i]];
        *(t->unit < 0 ? &out->core[t->station] : &out->units[t->station * VR_MAX_UNITS + (uint32_t)t->unit]) = d;
        if (!apply(s, t, &l, choices[i])) return; /* cannot be: it was applied before */
        settle(s, t, &l);
    }
}

static void rank_rates(struct search *s)
{
    const struct vr_case *c = s->c;
    uint64_t first = 0, output = 0;
    for (uint32_t of = 0; of < 2 * c->n_kinds; of++) {
        uint32_t k = of / 2, at = s->n_rates;
        double price = c->price[k], cap = (double)c->cap_bytes[k];
        double due = c->opening[k] + c->reward[k];
        if (of % 2 && due > 0) price = cap > 0 ? price - due / cap : 0; /* its entry, spread over its memory */
        if (!(c->usable >> k & 1) || price <= 0) continue;
        for (; at > 0 && s->rates[at - 1].price < price; at--) s->rates[at] = s->rates[at - 1];
        s->rates[at].price = price;
        s->rates[at].of = of;
        s->n_rates++;
        if (c->first_bytes[k] > first) first = c->first_bytes[k];
        if (c->output_bytes[k][0] > output) output = c->output_bytes[k][0];
    }
    s->extra_bytes = (double)(first + output);
}

static bool init(struct search *s, uint32_t width)
{
    const struct vr_problem *p = s->c->p;
    for (uint32_t k = 0; k < p->n_kinds; k++) {
        s->begin[k] = (uint8_t)s->n_devices;
        for (uint32_t i = 0; i < p->kinds[k].n; i++) s->kind[s->n_devices++] = (uint8_t)k;
    }
    s->begin[p->n_kinds] = (uint8_t)s->n_devices;
    if (!plan_steps(s)) return false;
    rank_rates(s);
    s->width = width;
    for (s->mask = 255; s->mask < width * 2; s->mask = s->mask * 2 + 1) {}
    s->labels = malloc(width * sizeof *s->labels);
    s->kept = malloc(width * sizeof *s->kept);
    s->chain = malloc(width * sizeof *s->chain);
    s->heads = malloc(((size_t)s->mask + 1) * sizeof *s->heads);
    s->traces = malloc((size_t)s->n_steps * width * sizeof *s->traces);
    return s->labels && s->kept && s->chain && s->heads && s->traces;
}

static void done(struct search *s)
{
    free(s->steps);
    free(s->labels);
    free(s->kept);
    free(s->made);
    free(s->order);
    free(s->chain);
    free(s->heads);
    free(s->traces);
}

static bool run(struct search *s)
{
    start(s, &s->labels[0]);
    s->n_labels = 1;
    for (uint32_t i = 0; i < s->n_steps && s->n_labels; i++) {
        uint32_t width = s->work < s->work_limit ? s->width : s->width < 8 ? s->width : 8;
        expand(s, &s->steps[i]);
        if (s->nomem || !keep(s, i, width)) return false;
        struct label *t = s->labels;
        s->labels = s->kept;
        s->kept = t;
        s->n_labels = s->n_kept;
    }
    return true;
}

bool vr_case_search(const struct vr_case *c, double best, bool home, uint32_t width, uint64_t work_limit,
                    struct vr_placement *out, struct vr_search_result *result)
{
    struct search s = { .c = c, .best = best, .home = home, .dropped = INFINITY, .work_limit = work_limit };
    bool ok = init(&s, width) && run(&s);
    *result =
        (struct vr_search_result){ .lower = s.dropped, .work = s.work, .complete = isinf(s.dropped), .cost = INFINITY };
    if (ok && s.n_labels) {
        result->found = true;
        result->cost = s.labels[0].cost;
        uint8_t *choices = realloc(s.order, (s.n_steps + 1) * sizeof *s.order);
        if (choices) s.order = (uint32_t *)(void *)choices;
        ok = choices != NULL;
        if (ok) read_back(&s, out);
    }
    done(&s);
    return ok;
}
