#include "fit/residents.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "fit/fit.h"

#define HALF_LIFE_S  600.0
#define LEAST_COST_S 1e-3 /* nobody leaves for nothing */
#define MOST_TRIED   (1 + VR_MOST_PLANS + VR_MAX_RESIDENTS + MOST_CHECKS)
#define MOST_CHECKS  3 /* plans for what quick looks ruled out */

/* --- rooms --- */

void vr_room_add(struct vr_room *to, const struct vr_room *r)
{
    for (size_t i = 0; i < VR_MAX_DEVICES; i++) to->devices[i] += r->devices[i];
    to->host += r->host;
}

struct vr_room vr_room_of(const struct vr_outcome *o)
{
    struct vr_room r = { .host = vr_use_bytes(&o->verdict.host) };
    for (size_t i = 0; i < o->verdict.n_devices; i++)
        r.devices[o->verdict.devices[i].device] += vr_judged_bytes(&o->verdict.devices[i]);
    for (size_t i = 0; i < o->n_companions; i++) {
        const struct vr_companion *c = &o->companions[i];
        if (c->device >= 0) r.devices[c->device] += vr_use_bytes(&c->use);
        r.host += vr_use_bytes(&c->host);
    }
    return r;
}

static uint64_t less(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

void vr_room_take(struct vr_machine *m, const struct vr_room *r)
{
    for (size_t i = 0; i < m->n_devices; i++) m->devices[i].free_bytes = less(m->devices[i].free_bytes, r->devices[i]);
    m->host.ram_free_bytes = less(m->host.ram_free_bytes, r->host);
}

void vr_room_give(struct vr_machine *m, const struct vr_room *r)
{
    for (size_t i = 0; i < m->n_devices; i++) m->devices[i].free_bytes += r->devices[i];
    m->host.ram_free_bytes += r->host;
}

uint64_t vr_process_bytes(const struct vr_device *d, uint64_t reserve_bytes)
{
    uint64_t usual = less(vr_device_reserve(d), VR_RESERVE_MARGIN_MIB * VR_MIB);
    return usual < reserve_bytes ? usual : reserve_bytes;
}

double vr_resident_cost(const struct vr_resident *r)
{
    return fmax(r->reload_s * exp2(-fmax(r->last_used_s, 0) / HALF_LIFE_S), LEAST_COST_S);
}

/* --- sets --- */

struct set {
    uint64_t who;
    double cost;
    uint64_t bytes; /* given back, all together */
};

struct rooms {
    struct vr_room items[MOST_TRIED];
    size_t n;
};

struct search {
    const struct vr_resident *all;
    size_t n;
    const struct vr_newcomer *newcomer;
    uint64_t movable;
    double limit;     /* what the newcomer may cost */
    uint64_t misses;  /* bytes */
    struct set *sets; /* all of movable ones, cheapest first */
    size_t n_sets;
    struct rooms enough, few;
    struct rooms slow; /* too few by a quick look */
    unsigned plans, looks;
};

static struct vr_room room_of(const struct search *s, uint64_t who)
{
    struct vr_room room = { 0 };
    for (; who; who &= who - 1) vr_room_add(&room, &s->all[__builtin_ctzll(who)].room);
    return room;
}

static uint64_t device_bytes(const struct vr_room *r)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < VR_MAX_DEVICES; i++) sum += r->devices[i];
    return sum;
}

static struct set set_of(const struct search *s, uint64_t who)
{
    struct vr_room room = room_of(s, who);
    struct set out = { .who = who, .bytes = device_bytes(&room) + room.host };
    for (; who; who &= who - 1) out.cost += vr_resident_cost(&s->all[__builtin_ctzll(who)]);
    return out;
}

static int compare_sets(const void *x, const void *y)
{
    const struct set *a = x, *b = y;
    if (a->cost != b->cost) return a->cost < b->cost ? -1 : 1;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? -1 : 1;
    return a->who < b->who ? -1 : a->who > b->who;
}

static bool make_sets(struct search *s, struct vr_err *err)
{
    s->n_sets = (size_t)1 << __builtin_popcountll(s->movable);
    s->sets = calloc(s->n_sets, sizeof *s->sets);
    if (!s->sets) return vr_fail_nomem(err, "looking for models that could leave");
    uint64_t who = 0;
    for (size_t i = 0; i < s->n_sets; i++, who = (who - s->movable) & s->movable) s->sets[i] = set_of(s, who);
    qsort(s->sets, s->n_sets, sizeof *s->sets, compare_sets);
    return true;
}

/* --- what is known of them --- */

static bool covers(const struct vr_room *a, const struct vr_room *b)
{
    for (size_t i = 0; i < VR_MAX_DEVICES; i++)
        if (a->devices[i] < b->devices[i]) return false;
    return a->host >= b->host;
}

enum known { UNKNOWN, ENOUGH, TOO_FEW };

static bool is_covered(const struct rooms *by, const struct vr_room *room)
{
    for (size_t i = 0; i < by->n; i++)
        if (covers(&by->items[i], room)) return true;
    return false;
}

/* By plans alone. */
static enum known known_for_sure(const struct search *s, uint64_t who)
{
    struct vr_room room = room_of(s, who);
    if (is_covered(&s->few, &room)) return TOO_FEW;
    for (size_t i = 0; i < s->enough.n; i++)
        if (covers(&room, &s->enough.items[i])) return ENOUGH;
    const struct vr_newcomer *x = s->newcomer;
    return x->as_well && x->as_well(x->ctx, who) ? ENOUGH : UNKNOWN;
}

static enum known known(const struct search *s, uint64_t who)
{
    enum known k = known_for_sure(s, who);
    struct vr_room room = room_of(s, who);
    return k == UNKNOWN && is_covered(&s->slow, &room) ? TOO_FEW : k;
}

static bool plan_set(struct search *s, uint64_t who, struct vr_err *err)
{
    double cost;
    s->plans++;
    if (!s->newcomer->plan(s->newcomer->ctx, who, &cost, err)) return false;
    struct rooms *to = cost <= s->limit ? &s->enough : &s->few;
    to->items[to->n++] = room_of(s, who);
    return true;
}

static bool try_set(struct search *s, uint64_t who, struct vr_err *err)
{
    const struct vr_newcomer *x = s->newcomer;
    s->looks++;
    if (!x->too_slow || !x->too_slow(x->ctx, who)) return plan_set(s, who, err);
    s->slow.items[s->slow.n++] = room_of(s, who);
    return true;
}

/* A set to be tried for what is to be known of `who`: itself, or the largest that is probably too few and would say the
 * same of it. */
static uint64_t spokesman(const struct search *s, uint64_t who)
{
    struct vr_room room = room_of(s, who);
    uint64_t best = who, most = 0;
    if (device_bytes(&room) >= s->misses) return who;
    for (size_t i = 0; i < s->n_sets; i++) {
        struct vr_room now = room_of(s, s->sets[i].who);
        uint64_t bytes = device_bytes(&now);
        if (bytes >= s->misses || bytes <= most || !covers(&now, &room) || known(s, s->sets[i].who) != UNKNOWN)
            continue;
        best = s->sets[i].who;
        most = bytes;
    }
    return best;
}

/* --- the search --- */

/* The dearest ones stay, one after the other, as long as the rest is enough. */
static bool shrink(struct search *s, struct vr_departure *out, struct vr_err *err)
{
    uint64_t left = s->movable, asked = 0;
    struct set one, dearest;
    while (left & ~asked) {
        dearest = (struct set){ .cost = -1 };
        for (uint64_t who = left & ~asked; who; who &= who - 1) {
            one = set_of(s, who & -who);
            if (compare_sets(&one, &dearest) > 0) dearest = one;
        }
        asked |= dearest.who;
        if (known(s, left & ~dearest.who) == UNKNOWN && !try_set(s, left & ~dearest.who, err)) return false;
        if (known(s, left & ~dearest.who) == ENOUGH) left &= ~dearest.who;
    }
    out->leaving = left;
    return true;
}

/* Of the sets that are cheaper than the one at *at, the one with the most room that only quick looks ruled out; n_sets:
 * none. */
static size_t find_doubtful(const struct search *s, size_t at)
{
    size_t best = s->n_sets;
    for (size_t i = 0; i < at; i++)
        if (known_for_sure(s, s->sets[i].who) == UNKNOWN &&
            (best == s->n_sets || s->sets[i].bytes > s->sets[best].bytes))
            best = i;
    return best;
}

/* A quick look may be wrong: what is cheaper than the set at *at is planned for, the most room first, which speaks for
 * the others. */
static bool check_looks(struct search *s, size_t *at, bool *sure, struct vr_err *err)
{
    size_t doubtful = find_doubtful(s, *at);
    for (unsigned n = 0; doubtful < s->n_sets && n < MOST_CHECKS; n++, doubtful = find_doubtful(s, *at)) {
        if (!plan_set(s, s->sets[doubtful].who, err)) return false;
        for (size_t i = 0; i < *at; i++)
            if (known_for_sure(s, s->sets[i].who) == ENOUGH) *at = i;
    }
    *sure = doubtful == s->n_sets;
    return true;
}

/* All that may leave are enough: which of them? */
static bool choose(struct search *s, struct vr_departure *out, struct vr_err *err)
{
    if (__builtin_popcountll(s->movable) > VR_MOST_MOVABLE) return shrink(s, out, err);
    if (!make_sets(s, err)) return false;
    unsigned most = s->looks + VR_MOST_PLANS;
    for (size_t i = 0; i < s->n_sets; i++) {
        enum known k;
        while ((k = known(s, s->sets[i].who)) == UNKNOWN && s->looks < most)
            if (!try_set(s, spokesman(s, s->sets[i].who), err)) return false;
        if (k == UNKNOWN) return shrink(s, out, err);
        if (k == TOO_FEW) continue;
        out->exact = true;
        if (s->newcomer->unsure && !check_looks(s, &i, &out->exact, err)) return false;
        out->leaving = s->sets[i].who;
        return true;
    }
    return vr_fail(err, VR_EINTERNAL,
                   "all models that may leave are not enough, and were"); /* one of the sets is they */
}

/* Nobody who may leave helps. Whose leaving would? Busy ones are waited for, so they are asked about first. */
static bool find_blocking(struct search *s, uint64_t everybody, struct vr_departure *out, struct vr_err *err)
{
    uint64_t pinned = 0;
    for (size_t i = 0; i < s->n; i++)
        if (s->all[i].pinned) pinned |= UINT64_C(1) << i;
    const uint64_t sets[] = { everybody & ~s->movable & ~pinned, pinned, everybody & ~s->movable };
    out->end = VR_TOO_LARGE;
    for (size_t i = 0; i < VR_COUNT(sets) && out->end == VR_TOO_LARGE; i++) {
        double cost;
        if (!sets[i] || (i == 2 && (sets[2] == sets[0] || sets[2] == sets[1]))) continue;
        s->plans++;
        if (!s->newcomer->plan(s->newcomer->ctx, s->movable | sets[i], &cost, err)) return false;
        if (isinf(cost)) continue;
        out->end = VR_BLOCKED;
        out->blocking = sets[i];
    }
    return true;
}

static bool settle(struct search *s, struct vr_departure *out, struct vr_err *err)
{
    const struct vr_newcomer *x = s->newcomer;
    uint64_t everybody = s->n == 64 ? UINT64_MAX : (UINT64_C(1) << s->n) - 1;
    double best;
    for (size_t i = 0; i < s->n; i++)
        if (!s->all[i].pinned && !s->all[i].busy) s->movable |= UINT64_C(1) << i;
    s->plans++;
    if (!x->plan(x->ctx, s->movable, &best, err)) return false;
    if (isinf(best)) return find_blocking(s, everybody, out, err);
    s->limit = best * (1 + VR_SLOWER);
    s->enough.items[s->enough.n++] = room_of(s, s->movable);
    s->misses = x->misses ? x->misses(x->ctx) : 0;
    return choose(s, out, err);
}

bool vr_residents_settle(const struct vr_resident *all, size_t n, const struct vr_newcomer *who,
                         struct vr_departure *out, struct vr_err *err)
{
    VR_AUTO_FREE struct search *s = calloc(1, sizeof *s);
    if (!s) return vr_fail_nomem(err, "looking for models that could leave");
    *out = (struct vr_departure){ 0 };
    *s = (struct search){ .all = all, .n = n, .newcomer = who };
    bool ok = settle(s, out, err);
    free(s->sets);
    out->plans = s->plans;
    return ok;
}

/* --- what stands in the way --- */

static const char *const obstacles[] = {
#define OBSTACLE(kind, json) [VR_OBSTACLE_##kind] = json,
#include "fit/obstacles.def"
#undef OBSTACLE
};

const char *vr_obstacle_name(enum vr_obstacle kind) { return obstacles[kind]; }

bool vr_obstacle_parse(const char *name, enum vr_obstacle *out)
{
    for (size_t i = 0; name && i < VR_N_OBSTACLES; i++) {
        if (strcmp(obstacles[i], name) != 0) continue;
        *out = (enum vr_obstacle)i;
        return true;
    }
    return false;
}
