#include "server/supervise/recovery.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

#define MARGIN_BYTES (128 * VR_MIB) /* between the first allocation and the end of the first computation, measured */
#define SPARE_BYTES  (64 * VR_MIB)  /* on top of what a model that is up shows to be hidden */

static uint64_t less(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }
static uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* --- after a failure --- */

static bool left_of(const struct vr_failure *f, const char *name, uint64_t *out)
{
    for (size_t i = 0; i < f->n_left; i++)
        if (strcmp(f->left[i].name, name) == 0) return *out = f->left[i].free_bytes, true;
    return false;
}

/* All that a plan can have there: what was left, and what the plan had in place when that was asked. While it loads
 * that is nothing, since a failed load gives everything back; then the weights; then everything, of which the part
 * that was asked for in vain must go. */
static uint64_t capacity(const struct vr_load_device *d, const struct vr_failure *f, bool failed, uint64_t left)
{
    switch (f->stage) {
    case VR_AT_LOAD: return left;
    case VR_AT_CONTEXT: return d->model_bytes + left;
    default: return less(vr_load_bytes(d) + left, failed ? f->asked_bytes : 0);
    }
}

static uint64_t margin(uint64_t bytes, unsigned fails)
{
    uint64_t m = smaller(bytes / 16 + 1, MARGIN_BYTES);
    return fails < 16 ? smaller(m << fails, bytes) : bytes;
}

static void limit(struct vr_learned_row *r, uint64_t most_bytes)
{
    most_bytes = most_bytes ? most_bytes : 1; /* 0 is no limit */
    r->most_bytes = r->most_bytes ? smaller(r->most_bytes, most_bytes) : most_bytes;
}

static void shrink(struct vr_learned *l, const struct vr_load_device *d, const struct vr_failure *f, bool failed)
{
    uint64_t left, most;
    bool known = left_of(f, d->name, &left);
    struct vr_learned_row *r = failed || known ? vr_learned_at(l, d->key) : NULL;
    if (!r) return;
    if (known)
        most = capacity(d, f, failed, left);
    else
        most = less(vr_load_bytes(d), f->missing_bytes);
    unsigned fails = failed ? r->fails++ : 0;
    most = less(most, margin(most, fails));
    if (failed) { /* a limit above what failed would bring the same plan again */
        most = smaller(most, less(vr_load_bytes(d), margin(vr_load_bytes(d), fails)));
        r->stage = f->stage;
    }
    limit(r, most);
}

/* The device that failed: as named; without a name the only one of the plan, or the one with the least left. */
static const struct vr_load_device *culprit(const struct vr_load *load, const struct vr_failure *f)
{
    if (f->device[0]) return vr_load_find(load, f->device);
    const struct vr_load_device *found = NULL;
    uint64_t least = UINT64_MAX, left;
    size_t n = 0;
    for (size_t i = 0; i < load->n_devices; i++) {
        const struct vr_load_device *d = &load->devices[i];
        if (!*d->name) continue;
        if (!left_of(f, d->name, &left)) left = UINT64_MAX - 1;
        if (left < least) found = d, least = left;
        n++;
    }
    return n == 1 || least < UINT64_MAX - 1 ? found : NULL;
}

bool vr_recovery_failed(struct vr_learned *l, const struct vr_load *load, const struct vr_failure *f)
{
    const struct vr_load_device *bad = culprit(load, f);
    if (!f->out_of_memory || (!bad && f->device[0])) return false;
    bool any = false;
    for (size_t i = 0; i < load->n_devices; i++) {
        const struct vr_load_device *d = &load->devices[i];
        if (!*d->name) continue;
        shrink(l, d, f, d == bad || !bad); /* nobody knows which: all of them */
        any = true;
    }
    l->n_fails += any;
    return any;
}

/* --- after that --- */

void vr_recovery_planned(struct vr_learned *l, const struct vr_load *next, int64_t now)
{
    for (size_t i = 0; i < next->n_devices; i++) {
        const struct vr_load_device *d = &next->devices[i];
        struct vr_learned_row *r = vr_learned_find(l, d->key);
        if (!r || !r->fails) continue;
        r->hidden_bytes = less(d->free_bytes, r->most_bytes);
        r->free_bytes = d->free_bytes;
        r->when = now;
    }
}

static void end_limits(struct vr_learned *l)
{
    for (size_t i = 0; i < l->n; i++) {
        l->rows[i].most_bytes = 0;
        l->rows[i].fails = 0;
    }
    l->n_fails = 0;
}

void vr_recovery_unplanned(struct vr_learned *l, const struct vr_load *last, int64_t now)
{
    vr_recovery_planned(l, last, now);
    end_limits(l);
}

/* What the device does not give, seen from a model that is up: what it reported, less the plan, less what is left. */
static bool lower(struct vr_learned_row *r, const struct vr_load_device *d, uint64_t left, int64_t now)
{
    uint64_t shown = less(d->free_bytes, vr_load_bytes(d) + left);
    shown = shown ? shown + SPARE_BYTES : 0;
    if (r->stage == VR_AT_DECODE && shown < r->hidden_bytes / 2) /* what ran out may not have been asked for yet */
        shown = r->hidden_bytes / 2 > SPARE_BYTES ? r->hidden_bytes / 2 : 0;
    if (shown >= r->hidden_bytes) return false;
    r->hidden_bytes = shown;
    r->free_bytes = d->free_bytes;
    r->when = now;
    return true;
}

bool vr_recovery_ready(struct vr_learned *l, const struct vr_load *load, const json_t *ready, int64_t now)
{
    const json_t *devices = json_object_get(ready, "devices");
    bool changed = false;
    for (size_t i = 0; i < json_array_size(devices); i++) {
        const json_t *j = json_array_get(devices, i), *left = json_object_get(j, "free_bytes");
        const char *name = json_string_value(json_object_get(j, "name"));
        const struct vr_load_device *d = name ? vr_load_find(load, name) : NULL;
        struct vr_learned_row *r = d ? vr_learned_find(l, d->key) : NULL;
        bool just_now = r && r->fails && r->stage == VR_AT_DECODE;
        if (r && !just_now && json_is_integer(left) && json_integer_value(left) >= 0)
            changed |= lower(r, d, (uint64_t)json_integer_value(left), now);
    }
    end_limits(l);
    return changed;
}
