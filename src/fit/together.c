#include "fit/together.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

/* A plan that was made. */
struct made {
    size_t model;
    uint32_t devices;
    struct vr_room taken, takes;
    double cost;
};

struct solver {
    const struct vr_together_ask *t;
    struct made *made;
    uint32_t n_made, cap_made;
    unsigned most; /* plans */
    bool enough;   /* were made */
    bool whole;    /* only orders are tried, with all devices for everybody */
    /* the branch that is looked at */
    struct vr_together now;
    bool as_alone[VR_MAX_TOGETHER]; /* the model at this place of the order is placed as if nobody else were there */
    struct vr_together best;
};

/* --- plans --- */

static bool plan(struct solver *s, size_t model, uint32_t devices, const struct vr_room *taken, struct made *out,
                 struct vr_err *err)
{
    for (uint32_t i = 0; i < s->n_made; i++) {
        const struct made *m = &s->made[i];
        if (m->model != model || m->devices != devices || memcmp(&m->taken, taken, sizeof *taken) != 0) continue;
        *out = *m;
        return true;
    }
    *out = (struct made){ .model = model, .devices = devices, .taken = *taken, .cost = INFINITY };
    if (s->n_made >= s->most) s->enough = true;
    if (s->enough) return true;
    if (!VR_ROOM(s, made)) return vr_fail_nomem(err, "planning");
    if (!s->t->plan(s->t->ctx, model, devices, taken, &out->cost, &out->takes, err)) return false;
    s->made[s->n_made++] = *out;
    return true;
}

static bool plan_alone(struct solver *s, size_t model, uint32_t devices, struct made *out, struct vr_err *err)
{
    const struct vr_room none = { 0 };
    return plan(s, model, devices, &none, out, err);
}

static bool holds(const struct vr_room *capacity, const struct vr_room *taken, const struct vr_room *takes)
{
    for (size_t i = 0; i < VR_MAX_DEVICES; i++)
        if (takes->devices[i] && takes->devices[i] + taken->devices[i] > capacity->devices[i]) return false;
    return takes->host + taken->host <= capacity->host;
}

/* --- the tree --- */

static struct vr_room taken_now(const struct solver *s)
{
    struct vr_room sum = { 0 };
    for (size_t i = 0; i < s->now.n; i++) vr_room_add(&sum, &s->now.models[s->now.order[i]].takes);
    return sum;
}

/* Of devices that are alike, with as much taken, the first ones are meant. */
static bool is_canonical(const struct solver *s, uint32_t devices, const struct vr_room *taken)
{
    const uint8_t *kinds = s->t->kinds;
    for (uint32_t rest = devices; rest; rest &= rest - 1) {
        size_t d = (size_t)__builtin_ctz(rest);
        for (size_t e = 0; e < d; e++)
            if (s->t->devices >> e & 1 && !(devices >> e & 1) && kinds[e] == kinds[d] &&
                taken->devices[e] == taken->devices[d] && s->t->capacity.devices[e] == s->t->capacity.devices[d])
                return false;
    }
    return true;
}

static bool descend(struct solver *s, uint32_t waiting, struct vr_err *err);

/* A model on some devices, behind those that are placed. */
static bool place(struct solver *s, uint32_t waiting, size_t model, uint32_t devices, struct vr_err *err)
{
    struct vr_together_model *x = &s->now.models[model];
    struct vr_room taken = taken_now(s);
    struct made made;
    double rest = (double)__builtin_popcount(waiting) - 1; /* nobody takes less than it does alone */
    double most = s->best.sum / (1 + VR_SAME_SPEED);
    if (!is_canonical(s, devices, &taken)) return true;
    if (!plan_alone(s, model, devices, &made, err)) return false;
    if (isinf(made.cost) || s->now.sum + made.cost / x->alone + rest >= most) return true;
    bool as_alone = holds(&s->t->capacity, &taken, &made.takes);
    /* the same came up in the other order */
    if (as_alone && s->now.n && s->as_alone[s->now.n - 1] && s->now.order[s->now.n - 1] > model) return true;
    if (!as_alone && !plan(s, model, devices, &taken, &made, err)) return false;
    if (isinf(made.cost) || s->now.sum + made.cost / x->alone + rest >= most) return true;
    const struct vr_together before = s->now;
    x->resident = true;
    x->devices = devices;
    x->cost = made.cost;
    x->takes = made.takes;
    s->as_alone[s->now.n] = as_alone;
    s->now.order[s->now.n++] = model;
    s->now.sum += made.cost / x->alone;
    bool ok = descend(s, waiting & ~(UINT32_C(1) << model), err);
    s->now = before;
    return ok;
}

/* Those that wait, in every order and on every set of devices, the largest sets first. */
static bool descend(struct solver *s, uint32_t waiting, struct vr_err *err)
{
    if (!waiting) {
        s->best = s->now;
        return true;
    }
    for (uint32_t rest = waiting; rest; rest &= rest - 1) {
        uint32_t devices = s->t->devices;
        do {
            if (!place(s, waiting, (size_t)__builtin_ctz(rest), devices, err)) return false;
            devices = s->whole ? 0 : (devices - 1) & s->t->devices;
        } while (devices);
    }
    return true;
}

/* The best way for these models; its sum is INFINITY when there is none. Orders come first, for at most half of the
 * plans: what they find is often good, and cuts off much of the rest. */
static bool search(struct solver *s, uint32_t models, struct vr_err *err)
{
    unsigned left = s->t->most_plans - s->n_made;
    s->now.n = 0;
    s->now.sum = 0;
    s->best = s->now;
    s->best.sum = INFINITY;
    s->most = s->n_made + (left + 1) / 2;
    s->whole = true;
    if (!descend(s, models, err)) return false;
    s->most = s->t->most_plans;
    s->whole = s->enough = false;
    return descend(s, models, err);
}

static bool solve(struct solver *s, struct vr_together *out, struct vr_err *err)
{
    uint32_t fit = 0, resident = 0;
    s->most = s->t->most_plans;
    for (size_t i = 0; i < s->t->n_models; i++) {
        struct made made;
        if (!plan_alone(s, i, s->t->devices, &made, err)) return false;
        s->now.models[i].alone = made.cost;
        s->now.models[i].cost = INFINITY;
        if (!isinf(made.cost)) fit |= UINT32_C(1) << i;
    }
    if (!search(s, fit, err)) return false;
    *out = s->best;
    for (uint32_t rest = isinf(out->sum) ? fit : 0; rest; rest &= rest - 1) { /* not all: the first ones that can */
        if (!search(s, resident | (rest & -rest), err)) return false;
        if (isinf(s->best.sum)) continue;
        resident |= rest & -rest;
        *out = s->best;
    }
    return true;
}

bool vr_together_solve(const struct vr_together_ask *t, struct vr_together *out, struct vr_err *err)
{
    VR_AUTO_FREE struct solver *s = calloc(1, sizeof *s);
    if (!s) return vr_fail_nomem(err, "planning");
    s->t = t;
    bool ok = solve(s, out, err);
    out->plans = s->n_made;
    out->exact = !s->enough;
    free(s->made);
    return ok;
}
