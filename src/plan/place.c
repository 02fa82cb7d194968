#include "plan/place.h"

#include <math.h>
#include <string.h>

#include "base/buf.h"
#include "plan/last.h"
#include "plan/layer_pattern.h"
#include "plan/pipeline.h"
#include "plan/prefer.h"

/* Pipeline copies are taken when they cost no more than this share of the time per token. */
#define PIPELINE_WORTH 1e-3
/* … and devices of a pipeline even when that costs no more than this: half of what all choices together may. */
#define EVEN_WORTH (VR_TIE / 2)
#define SAME       1e-9 /* relative: a bound this near a plan proves it */
#define FINE       0.01 /* a gap that is not worth a longer search */

#define PLACES_EACH (1 + VR_MAX_UNITS) /* of a station: its core and its units */

/* Where unit u of a station is, as a device of the machine. */
static int machine_device(const struct vr_built *b, uint8_t place)
{
    return place == VR_ON_HOST ? VR_PLACE_HOST : b->devices[place];
}

/* --- tensors that are away from the rest of their layer --- */

/* The stems of a station's units that are on `device` and not where its core is. */
static size_t moved_stems(const struct vr_built *b, const struct vr_placement *x, uint32_t s, int device,
                          const char *stems[VR_MAX_UNITS])
{
    const struct vr_station_class *c = &b->problem.classes[b->problem.stations[s]];
    size_t n = 0;
    for (uint32_t u = 0; u < c->n_units; u++) {
        const char *stem = b->units[s * VR_MAX_UNITS + u].stem;
        uint8_t place = x->units[s * VR_MAX_UNITS + u];
        if (stem && place != x->core[s] && machine_device(b, place) == device) stems[n++] = stem;
    }
    return n;
}

static bool same_stems(const char *const *a, size_t n_a, const char *const *b, size_t n_b)
{
    for (size_t i = 0; i < n_a && n_a == n_b; i++)
        if (strcmp(a[i], b[i]) != 0) return false;
    return n_a == n_b;
}

/* "ffn_(up|gate)_exps": stems as an expression, which is the cheaper the shorter (layer_pattern.h). */
static void add_stems(struct vr_buf *to, const char *const *stems, size_t n)
{
    size_t head = strlen(stems[0]) - 1, tail = head, least = SIZE_MAX;
    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(stems[i]), h = 0, t = 0;
        while (h < head && stems[i][h] == stems[0][h]) h++;
        while (t < tail && t < len && stems[i][len - 1 - t] == stems[0][strlen(stems[0]) - 1 - t]) t++;
        head = h;
        tail = t;
        if (len < least) least = len;
    }
    if (n == 1) {
        vr_buf_adds(to, stems[0]);
        return;
    }
    if (head >= least) head = least - 1;
    if (head + tail >= least) tail = least - 1 - head; /* of each something is left */
    vr_buf_addf(to, "%.*s", (int)head, stems[0]);
    for (size_t i = 0; i < n; i++)
        vr_buf_addf(to, "%s%.*s", i ? "|" : "(", (int)(strlen(stems[i]) - head - tail), stems[i] + head);
    vr_buf_addf(to, ")%s", stems[0] + strlen(stems[0]) - tail);
}

/* The stations from s on whose moves to `device` are those of s, as one override; none if an earlier one has them. */
static bool add_override(const struct vr_built *b, const struct vr_placement *x, uint32_t s, int device,
                         struct vr_arena *arena, struct vr_plan *out, struct vr_err *err)
{
    const char *stems[VR_MAX_UNITS], *others[VR_MAX_UNITS];
    uint32_t n_stations = b->problem.n_stations;
    size_t n = moved_stems(b, x, s, device, stems);
    if (n == 0) return true;
    VR_AUTO_BUF text = { 0 };
    bool *in = vr_arena_alloc(arena, n_stations, sizeof *in);
    if (!in) return vr_fail_nomem(err, "writing down a plan");
    for (uint32_t t = 0; t < n_stations; t++) {
        in[t] = same_stems(stems, n, others, moved_stems(b, x, t, device, others));
        if (in[t] && t < s) return true;
    }
    vr_buf_adds(&text, "^blk\\.");
    vr_layer_pattern(&text, in, n_stations);
    vr_buf_adds(&text, "\\.");
    add_stems(&text, stems, n);
    vr_buf_adds(&text, "\\.");
    const char *pattern = text.failed ? NULL : vr_arena_strdup(arena, text.data);
    if (!pattern) return vr_fail_nomem(err, "writing down a plan");
    out->overrides[out->n_overrides++] = (struct vr_place_override){ pattern, device };
    return true;
}

/* One override per device and set of tensors that are moved to it. */
static bool add_overrides(const struct vr_built *b, const struct vr_placement *x, struct vr_arena *arena,
                          struct vr_plan *out, struct vr_err *err)
{
    uint32_t n = b->problem.n_stations;
    out->overrides = vr_arena_alloc(arena, (size_t)n * VR_MAX_UNITS, sizeof *out->overrides);
    if (!out->overrides) return vr_fail_nomem(err, "writing down a plan");
    for (uint32_t d = 0; d <= b->problem.n_devices; d++) {
        int device = d < b->problem.n_devices ? b->devices[d] : VR_PLACE_HOST;
        for (uint32_t s = 0; s < n; s++)
            if (!add_override(b, x, s, device, arena, out, err)) return false;
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
                             .n_stations = p->n_stations,
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
 * generation counts, they are taken if they cost next to nothing of it: *pipe says so, and `out` is that plan, as even
 * as it can be with token generation as good as the fastest. */
static bool pipe_for_nothing(const struct vr_built *b, const struct vr_solution *plain, uint64_t limit,
                             struct vr_arena *arena, bool *pipe, struct vr_solution *out, struct vr_err *err)
{
    struct vr_err why = { 0 };
    *pipe = false;
    if (plain->account.n_order < 2 || plain->account.on_host || plain->account.moved) return true;
    if (!vr_solve(&b->problem, VR_SIT_PIPELINE, NULL, limit, arena, out, &why))
        return why.code == VR_ENOFIT || vr_fail(err, why.code, "%s", why.msg);
    *pipe =
        !out->account.on_host && !out->account.moved && out->account.cost <= plain->account.cost * (1 + PIPELINE_WORTH);
    if (*pipe && !vr_pipeline_even(&b->problem, plain->account.cost * (1 + EVEN_WORTH), arena, out, err)) return false;
    out->lower_bound = plain->lower_bound; /* of all plans, with or without copies */
    return true;
}

/* A plan as a placement of a problem that has the same stations. */
static bool read_back(const struct vr_built *b, const struct vr_plan *plan, struct vr_arena *arena,
                      struct vr_placement *x, struct vr_err *err)
{
    uint8_t place[VR_MAX_DEVICES] = { 0 };
    for (uint32_t d = 0; d < b->problem.n_devices; d++) place[b->devices[d]] = (uint8_t)d;
    uint32_t n = b->problem.n_stations;
    *x = (struct vr_placement){ vr_arena_alloc(arena, n, 1), vr_arena_alloc(arena, n, VR_MAX_UNITS) };
    if (!x->core || !x->units) return vr_fail_nomem(err, "reading a plan");
    for (uint32_t s = 0; s < n; s++)
        for (uint32_t i = 0; i < PLACES_EACH; i++) {
            int device = plan->where[s * PLACES_EACH + i];
            uint8_t at = device == VR_PLACE_HOST ? VR_ON_HOST : place[device];
            *(i == 0 ? &x->core[s] : &x->units[s * VR_MAX_UNITS + i - 1]) = at;
        }
    return true;
}

bool vr_plan_improvable(const struct vr_ask *ask, const struct vr_plan *plan, double gap)
{
    if (plan->n == 0 || plan->host_unit_bytes == 0) return false;
    return gap > FINE || (!ask->fixed.has_gpu_layers && ask->model->n_expert == 0);
}

/* A better one than ask->known. */
static bool make_better(const struct vr_ask *ask, uint64_t limit, const struct vr_built *b, struct vr_arena *arena,
                        struct vr_plan *out, struct vr_err *err)
{
    const struct vr_problem *p = &b->problem;
    struct vr_placement known, near;
    struct vr_solution x;
    if (!read_back(b, ask->known, arena, &known, err)) return false;
    if (ask->near && !read_back(b, ask->near, arena, &near, err)) return false;
    if (!vr_solve(p, 0, ask->near ? &near : &known, limit, arena, &x, err)) return false;
    if (!ask->near && !vr_prefer(p, &known, arena, &x.placement)) return vr_fail_nomem(err, "planning");
    if (!vr_problem_account(p, &x.placement, 0, &x.account, err)) return false;
    x.optimal = x.lower_bound >= x.account.cost * (1 - SAME);
    return write_down(b, &x, 0, arena, out, err);
}

bool vr_plan_make(const struct vr_ask *ask, struct vr_arena *arena, struct vr_plan *out, struct vr_err *err)
{
    uint64_t limit = ask->work_limit ? ask->work_limit : VR_WORK_DEFAULT;
    struct vr_built built;
    struct vr_solution plain, piped;
    if (!vr_build(ask, arena, &built, err)) return false;
    if (ask->known) return make_better(ask, limit, &built, arena, out, err);
    struct vr_placement seed;
    if (ask->seed && !read_back(&built, ask->seed, arena, &seed, err)) return false;
    if (!vr_solve_from(&built.problem, 0, ask->seed ? &seed : NULL, limit, arena, &plain, err)) return false;
    bool pipe = false, can = ask->fixed.n_overrides == 0 && !ask->no_pipeline &&
                             vr_devices_overlap(ask->speeds, ask->budgets); /* else nothing is gained by it */
    if (built.problem.weight[VR_PREFILL] == 0) {
        if (can && !pipe_for_nothing(&built, &plain, limit, arena, &pipe, &piped, err)) return false;
    } else if (can) { /* a placement runs as a pipeline or not, and costs no less than the bound of its side */
        if (!vr_pipeline_solve(&built.problem, arena, &piped, err)) return false;
        pipe = piped.account.cost <= plain.account.cost * (1 + SAME); /* longer prompts gain by it in any case */
        plain.lower_bound = piped.lower_bound = fmin(plain.lower_bound, piped.lower_bound);
        plain.optimal = plain.lower_bound >= plain.account.cost * (1 - SAME);
        piped.optimal = piped.lower_bound >= piped.account.cost * (1 - SAME);
    }
    if (!pipe) vr_host_last(&built.problem, 0, &plain.placement);
    if (!write_down(&built, pipe ? &piped : &plain, pipe ? VR_SIT_PIPELINE : 0, arena, out, err)) return false;
    out->fastest = fmin(plain.account.cost, out->cost);
    return true;
}

bool vr_plan_copy(const struct vr_plan *plan, struct vr_arena *arena, struct vr_plan *out, struct vr_err *err)
{
    size_t n = (size_t)plan->n_stations * PLACES_EACH;
    *out = (struct vr_plan){ .n = plan->n, .n_stations = plan->n_stations };
    out->where = vr_arena_alloc(arena, n, sizeof *out->where);
    if (!out->where) return vr_fail_nomem(err, "planning");
    memcpy(out->where, plan->where, n * sizeof *out->where);
    return true;
}

bool vr_plan_cost(const struct vr_ask *ask, const struct vr_plan *plan, double *cost, struct vr_err *err)
{
    VR_AUTO_ARENA arena = { 0 };
    struct vr_built b;
    struct vr_account a;
    struct vr_err over = { 0 };
    struct vr_placement x;
    if (!vr_build(ask, &arena, &b, err) || !read_back(&b, plan, &arena, &x, err)) return false;
    /* it may not fit any more by what is known now */
    if (!vr_problem_account(&b.problem, &x, plan->pipeline ? VR_SIT_PIPELINE : 0, &a, &over) && over.code != VR_ENOFIT)
        return vr_fail(err, over.code, "%s", over.msg);
    *cost = a.cost;
    return true;
}
