#include "plan/place.h"

#include <inttypes.h>
#include <string.h>

#include "base/buf.h"

/* Pipeline copies are taken when they cost no more than this share of the time per token. */
#define PIPELINE_WORTH 1e-3

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
    *out = (struct vr_plan){ .cost_ms = x->account.cost,
                             .lower_bound_ms = x->lower_bound,
                             .optimal = x->optimal,
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
    for (uint32_t s = 0; s < b->problem.n_stations; s++) {
        const struct vr_station_class *c = &b->problem.classes[b->problem.stations[s]];
        for (uint32_t u = 0; u < c->n_units; u++)
            if (x->placement.units[s * VR_MAX_UNITS + u] == VR_ON_HOST)
                out->host_unit_bytes += c->units[u].piece.host_bytes;
    }
    return add_overrides(b, &x->placement, arena, out, err);
}

bool vr_plan_make(const struct vr_ask *ask, struct vr_arena *arena, struct vr_plan *out, struct vr_err *err)
{
    uint64_t limit = ask->work_limit ? ask->work_limit : VR_WORK_DEFAULT;
    struct vr_built built;
    struct vr_solution plain, piped;
    if (!vr_build(ask, arena, &built, err) || !vr_solve(&built.problem, 0, limit, arena, &plain, err)) return false;
    /* Copies for overlapping batches help prompts, need full offload and no overrides, and take memory. */
    bool can =
        plain.account.n_order > 1 && !plain.account.on_host && !plain.account.moved && ask->fixed.n_overrides == 0;
    if (can && vr_solve(&built.problem, VR_SIT_PIPELINE, limit, arena, &piped, NULL) && !piped.account.on_host &&
        !piped.account.moved && piped.account.cost <= plain.account.cost * (1 + PIPELINE_WORTH)) {
        if (!write_down(&built, &piped, VR_SIT_PIPELINE, arena, out, err)) return false;
        out->lower_bound_ms = plain.lower_bound; /* of all plans, with or without copies */
        return true;
    }
    return write_down(&built, &plain, 0, arena, out, err);
}
