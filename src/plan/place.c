#include "plan/place.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/buf.h"
#include "plan/pipeline.h"

/* Pipeline copies are taken when they cost no more than this share of the time per token. */
#define PIPELINE_WORTH 1e-3
#define SAME           1e-9 /* relative: a bound this near a plan proves it */

#define PLACES_EACH (1 + VR_MAX_UNITS) /* of a station: its core and its units */

/* Where unit u of a station is, as a device of the machine. */
static int machine_device(const struct vr_built *b, uint8_t place)
{
    return place == VR_ON_HOST ? VR_PLACE_HOST : b->devices[place];
}

/* All stations whose unit of this stem is on `device` and away from its core, as one expression. */
static const char *pattern_of(const struct vr_built *b, const struct vr_placement *x, const char *stem, int device,
                              struct vr_arena *arena)
{
    VR_AUTO_BUF text = { 0 };
    for (uint32_t s = 0; s < b->problem.n_stations; s++) {
        const struct vr_station_class *c = &b->problem.classes[b->problem.stations[s]];
        for (uint32_t u = 0; u < c->n_units; u++) {
            const struct vr_unit_name *name = &b->units[s * VR_MAX_UNITS + u];
            uint8_t place = x->units[s * VR_MAX_UNITS + u];
            if (!name->stem || strcmp(name->stem, stem) != 0 || place == x->core[s] ||
                machine_device(b, place) != device)
                continue;
            vr_buf_addf(&text, "%s%" PRIu32, text.n ? "|" : "^blk\\.(", s);
        }
    }
    vr_buf_addf(&text, ")\\.%s\\.", stem);
    return text.failed ? NULL : vr_arena_strdup(arena, text.data);
}

/* One override per stem and device. */
static bool add_overrides(const struct vr_built *b, const struct vr_placement *x, struct vr_arena *arena,
                          struct vr_plan *out, struct vr_err *err)
{
    struct seen {
        const char *stem;
        int device;
    } seen[VR_MAX_UNITS * (VR_MAX_PLACED + 1)];
    size_t n = 0;
    for (uint32_t s = 0; s < b->problem.n_stations; s++) {
        const struct vr_station_class *c = &b->problem.classes[b->problem.stations[s]];
        for (uint32_t u = 0; u < c->n_units; u++) {
            const char *stem = b->units[s * VR_MAX_UNITS + u].stem;
            uint8_t place = x->units[s * VR_MAX_UNITS + u];
            if (!stem || place == x->core[s]) continue;
            int device = machine_device(b, place);
            size_t k = 0;
            while (k < n && (strcmp(seen[k].stem, stem) != 0 || seen[k].device != device)) k++;
            if (k == n && n < VR_COUNT(seen)) seen[n++] = (struct seen){ stem, device };
        }
    }
    out->overrides = vr_arena_alloc(arena, n, sizeof *out->overrides);
    if (!out->overrides) return vr_fail_nomem(err, "writing down a plan");
    for (size_t k = 0; k < n; k++) {
        const char *pattern = pattern_of(b, x, seen[k].stem, seen[k].device, arena);
        if (!pattern) return vr_fail_nomem(err, "writing down a plan");
        out->overrides[out->n_overrides++] = (struct vr_place_override){ pattern, seen[k].device };
    }
    return true;
}

static bool write_down(const struct vr_built *b, const struct vr_solution *x, unsigned situation,
                       struct vr_arena *arena, struct vr_plan *out, struct vr_err *err)
{
    const struct vr_problem *p = &b->problem;
    *out = (struct vr_plan){ .cost = x->account.cost,
                             .lower_bound = x->lower_bound,
                             .optimal = x->optimal,
                             .work = x->work,
                             .pipeline = (situation & VR_SIT_PIPELINE) != 0,
                             .n = x->account.n_order };
    for (size_t i = 0; i < out->n; i++) {
        uint8_t d = x->account.order[i];
        out->order[i] = b->devices[d];
        out->stations[i] = x->account.n_stations[d];
        out->n_gpu_layers += out->stations[i];
        out->situation[i] =
            situation | (i == 0 && x->account.on_host ? VR_SIT_FIRST : 0) | (i + 1 == out->n ? VR_SIT_OUTPUT : 0);
    }
    out->where = vr_arena_alloc(arena, p->n_stations, PLACES_EACH * sizeof *out->where);
    if (!out->where) return vr_fail_nomem(err, "writing down a plan");
    for (uint32_t s = 0; s < p->n_stations; s++) {
        const struct vr_station_class *c = &p->classes[p->stations[s]];
        int16_t *where = out->where + s * PLACES_EACH;
        where[0] = (int16_t)machine_device(b, x->placement.core[s]);
        for (uint32_t u = 0; u < c->n_units; u++) {
            uint8_t place = x->placement.units[s * VR_MAX_UNITS + u];
            where[1 + u] = (int16_t)machine_device(b, place);
            if (place == VR_ON_HOST) out->host_unit_bytes += c->units[u].piece.host_bytes;
        }
    }
    return add_overrides(b, &x->placement, arena, out, err);
}

/* Copies for overlapping batches help prompts, need full offload and no overrides, and take memory. When only token
 * generation counts, they are taken if they cost next to nothing of it: *pipe says so, and `out` is that plan. */
static bool pipe_for_nothing(const struct vr_built *b, const struct vr_solution *plain, uint64_t limit,
                             struct vr_arena *arena, bool *pipe, struct vr_solution *out, struct vr_err *err)
{
    struct vr_err why = { 0 };
    *pipe = false;
    if (plain->account.n_order < 2 || plain->account.on_host || plain->account.moved) return true;
    if (!vr_solve(&b->problem, VR_SIT_PIPELINE, limit, arena, out, &why))
        return why.code == VR_ENOFIT || vr_fail(err, why.code, "%s", why.msg);
    *pipe =
        !out->account.on_host && !out->account.moved && out->account.cost <= plain->account.cost * (1 + PIPELINE_WORTH);
    out->lower_bound = plain->lower_bound; /* of all plans, with or without copies */
    return true;
}

bool vr_plan_make(const struct vr_ask *ask, struct vr_arena *arena, struct vr_plan *out, struct vr_err *err)
{
    uint64_t limit = ask->work_limit ? ask->work_limit : VR_WORK_DEFAULT;
    struct vr_built built;
    struct vr_solution plain, piped;
    if (!vr_build(ask, arena, &built, err) || !vr_solve(&built.problem, 0, limit, arena, &plain, err)) return false;
    bool can = ask->fixed.n_overrides == 0 && !ask->no_pipeline, pipe = false;
    if (built.problem.weight[VR_PREFILL] == 0) {
        if (can && !pipe_for_nothing(&built, &plain, limit, arena, &pipe, &piped, err)) return false;
    } else if (can) { /* a placement runs as a pipeline or not, and costs no less than the bound of its side */
        if (!vr_pipeline_solve(&built.problem, arena, &piped, err)) return false;
        pipe = piped.account.cost < plain.account.cost;
        plain.lower_bound = piped.lower_bound = fmin(plain.lower_bound, piped.lower_bound);
        plain.optimal = plain.lower_bound >= plain.account.cost * (1 - SAME);
        piped.optimal = piped.lower_bound >= piped.account.cost * (1 - SAME);
    }
    return write_down(&built, pipe ? &piped : &plain, pipe ? VR_SIT_PIPELINE : 0, arena, out, err);
}

bool vr_plan_cost(const struct vr_ask *ask, const struct vr_plan *plan, double *cost, struct vr_err *err)
{
    VR_AUTO_ARENA arena = { 0 };
    struct vr_built b;
    struct vr_account a;
    struct vr_err over = { 0 };
    if (!vr_build(ask, &arena, &b, err)) return false;
    uint8_t place[VR_MAX_DEVICES] = { 0 };
    for (uint32_t d = 0; d < b.problem.n_devices; d++) place[b.devices[d]] = (uint8_t)d;
    uint32_t n = b.problem.n_stations;
    struct vr_placement x = { vr_arena_alloc(&arena, n, 1), vr_arena_alloc(&arena, n, VR_MAX_UNITS) };
    if (!x.core || !x.units) return vr_fail_nomem(err, "pricing a plan");
    for (uint32_t s = 0; s < n; s++)
        for (uint32_t i = 0; i < PLACES_EACH; i++) {
            int device = plan->where[s * PLACES_EACH + i];
            uint8_t at = device == VR_PLACE_HOST ? VR_ON_HOST : place[device];
            if (i == 0)
                x.core[s] = at;
            else
                x.units[s * VR_MAX_UNITS + i - 1] = at;
        }
    /* it may not fit any more by what is known now */
    if (!vr_problem_account(&b.problem, &x, plan->pipeline ? VR_SIT_PIPELINE : 0, &a, &over) && over.code != VR_ENOFIT)
        return vr_fail(err, over.code, "%s", over.msg);
    *cost = a.cost;
    return true;
}
