/* The user's wishes. A fixed order makes kinds come in that order; a fixed split makes every device its own kind and
 * says which stations it has; fixed overrides make units that have one place to be. What contradicts itself or the
 * machine is refused here with the reason; what merely does not fit is found out by the search.
 *
 * Expressions are POSIX extended ones here and ECMAScript in the engine. The two agree on everything that tensor names
 * need; \d and (?: are translated. */
#include "plan/fixed.h"

#include "plan/split.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

bool vr_fixed_order(const struct vr_fixed *f) { return f->order || f->n_split > 0; }
bool vr_fixed_single(const struct vr_fixed *f) { return f->n_split > 0 || f->n_overrides > 0; }

bool vr_fixed_apart(const struct vr_fixed *f, int device, int other)
{
    return f->anchor.n && (f->anchor.device == device) != (f->anchor.device == other);
}

static char *translate(struct vr_arena *arena, const char *pattern)
{
    size_t n = strlen(pattern);
    char *out = vr_arena_alloc(arena, 5 * n + 1, 1), *o = out;
    for (const char *s = pattern; out && *s; s++) {
        if (s[0] == '\\' && s[1] == 'd') {
            o = stpcpy(o, "[0-9]");
            s++;
        } else if (strncmp(s, "(?:", 3) == 0) {
            *o++ = '(';
            s += 2;
        } else {
            *o++ = *s;
            if (*s == '\\' && s[1]) *o++ = *++s;
        }
    }
    return out;
}

static bool find_target(const struct vr_ask *ask, const struct vr_built *built, const struct vr_fixed_override *o,
                        int *target, struct vr_err *err)
{
    const struct vr_machine *m = ask->machine;
    *target = VR_TARGET_HOST;
    if (o->device < 0) return true;
    for (uint32_t d = 0; d < built->problem.n_devices; d++) {
        if (built->devices[d] != o->device) continue;
        *target = (int)vr_problem_kind_of(&built->problem, d);
        return true;
    }
    if ((size_t)o->device >= m->n_devices)
        return vr_fail(err, VR_EUSAGE, "--override-tensor '%s' names device %d, but there are %zu", o->pattern,
                       o->device, m->n_devices);
    return vr_fail(err, VR_EUSAGE, "--override-tensor '%s' names %s, which is not used; add it to --devices",
                   o->pattern, m->devices[o->device].id);
}

bool vr_targets_init(struct vr_targets *t, const struct vr_ask *ask, const struct vr_built *built,
                     struct vr_arena *arena, struct vr_err *err)
{
    const struct vr_fixed *f = &ask->fixed;
    memset(t, 0, sizeof *t);
    if (!f->n_overrides) return true;
    t->items = vr_arena_alloc(arena, f->n_overrides, sizeof *t->items);
    if (!t->items) return vr_fail_nomem(err, "reading tensor overrides");
    for (size_t i = 0; i < f->n_overrides; i++) {
        int target;
        char *pattern = translate(arena, f->overrides[i].pattern), why[128];
        bool ok = pattern && find_target(ask, built, &f->overrides[i], &target, err);
        if (!pattern) vr_fail_nomem(err, "reading tensor overrides");
        int rc = ok ? regcomp(&t->items[i].regex, pattern, REG_EXTENDED | REG_NOSUB) : 0;
        if (rc) {
            regerror(rc, &t->items[i].regex, why, sizeof why);
            ok = vr_fail(err, VR_EUSAGE, "--override-tensor '%s' is not a regular expression: %s",
                         f->overrides[i].pattern, why);
        }
        if (!ok) {
            vr_targets_done(t);
            return false;
        }
        t->items[i].target = target;
        t->n++;
    }
    return true;
}

void vr_targets_done(struct vr_targets *t)
{
    for (size_t i = 0; i < t->n; i++) regfree(&t->items[i].regex);
    t->n = 0;
}

int vr_targets_find(const struct vr_targets *t, const struct vr_tensor *tensor)
{
    for (size_t i = 0; i < t->n; i++)
        if (regexec(&t->items[i].regex, tensor->name, 0, NULL, 0) == 0) return t->items[i].target;
    return VR_TARGET_FREE;
}

uint32_t vr_targets_mask(int target)
{
    if (target == VR_TARGET_FREE) return 0;
    return UINT32_C(1) << (target == VR_TARGET_HOST ? VR_ON_HOST : target);
}

/* As llama.cpp does it, in float: the device of station i of n is the first whose running share is more than i / n. */
static bool split_fine(const struct vr_fixed *f, size_t n_devices, struct vr_err *err)
{
    double sum = 0;
    if (f->n_split > n_devices)
        return vr_fail(err, VR_EUSAGE, "--tensor-split has %zu values for %zu devices: give one per device", f->n_split,
                       n_devices);
    for (size_t i = 0; i < f->n_split; i++) {
        if (!isfinite(f->split[i]) || f->split[i] < 0)
            return vr_fail(err, VR_EUSAGE, "--tensor-split has a value that is not a fraction: %g", f->split[i]);
        sum += f->split[i];
    }
    if (sum <= 0) return vr_fail(err, VR_EUSAGE, "--tensor-split: all values are 0");
    return true;
}

/* What it leaves of what is allowed already may be nothing. */
static bool apply_anchor(const struct vr_ask *ask, struct vr_built *built, struct vr_err *err)
{
    const struct vr_anchor *a = &ask->fixed.anchor;
    struct vr_problem *p = &built->problem;
    uint32_t bit = a->device < 0 ? UINT32_C(1) << VR_ON_HOST : 0;
    for (uint32_t d = 0; d < p->n_devices && a->device >= 0; d++)
        if (built->devices[d] == a->device) bit = UINT32_C(1) << vr_problem_kind_of(p, d);
    for (size_t i = 0; i < a->n; i++) {
        uint32_t station = a->stations[i] < p->n_stations ? a->stations[i] : p->n_stations - 1;
        uint32_t *allow = &p->allow[station];
        *allow = *allow ? *allow & bit : bit;
        if (!*allow)
            return vr_fail(err, VR_ENOFIT,
                           "%s does not fit: what the user fixed keeps layer %" PRIu32 " from where its draft head is",
                           ask->model->name, a->stations[i]);
    }
    return true;
}

static bool apply_split(const struct vr_ask *ask, struct vr_built *built, struct vr_err *err)
{
    const struct vr_fixed *f = &ask->fixed;
    struct vr_problem *p = &built->problem;
    uint32_t n_gpu = f->has_gpu_layers && f->n_gpu_layers < p->n_stations ? f->n_gpu_layers : p->n_stations;
    uint32_t devices = (UINT32_C(1) << p->n_kinds) - 1;
    if (f->has_gpu_layers && n_gpu > 0 && p->n_devices == 0)
        return vr_fail(err, VR_EUSAGE, "--n-gpu-layers is %u, but no device can be used", f->n_gpu_layers);
    if (f->has_gpu_layers)
        for (uint32_t s = 0; s < p->n_stations; s++)
            p->allow[s] = s + n_gpu < p->n_stations ? UINT32_C(1) << VR_ON_HOST : devices;
    if (!f->n_split) return true;
    if (!split_fine(f, ask->budgets->n, err)) return false;
    uint32_t counts[VR_MAX_DEVICES];
    vr_split_counts(f->split, f->n_split, n_gpu, counts);
    uint32_t s = p->n_stations - n_gpu;
    for (uint32_t i = 0; i < s; i++) p->allow[i] = UINT32_C(1) << VR_ON_HOST;
    for (size_t d = 0; d < f->n_split; d++) {
        if (counts[d] && d >= p->n_devices)
            return vr_fail(err, VR_EUSAGE, "--tensor-split uses more than %d devices, the engine's limit",
                           VR_MAX_PLACED);
        for (uint32_t i = 0; i < counts[d]; i++) p->allow[s++] = UINT32_C(1) << d;
    }
    return true;
}

bool vr_fixed_apply(const struct vr_ask *ask, struct vr_built *built, struct vr_err *err)
{
    return apply_split(ask, built, err) && apply_anchor(ask, built, err);
}
