/* Which one is missed least: where it was, a prompt that ends there has to go back to the one before. So what its loss
 * costs is the distance between its neighbours; and conversations change near their end, so the same distance counts
 * less the further back it is. What is left has gaps that grow with the distance from the end. */
#include "engine/cache/checkpoints.h"

#include <string.h>

const struct vr_checkpoint *vr_checkpoints_last(const struct vr_checkpoints *c, uint32_t n)
{
    uint32_t i = c->n;
    while (i && c->at[i - 1].n > n) i--;
    return i ? &c->at[i - 1] : NULL;
}

static void remove_at(struct vr_checkpoints *c, uint32_t i)
{
    vr_kept_drop(c->at[i].state);
    memmove(&c->at[i], &c->at[i + 1], (c->n - i - 1) * sizeof c->at[0]);
    c->n--;
}

bool vr_checkpoints_thin(struct vr_checkpoints *c)
{
    if (c->n == 0) return false;
    uint32_t best = 0, end = c->at[c->n - 1].n;
    uint64_t best_gap = 0, best_far = 1;
    for (uint32_t i = 0; i + 1 < c->n; i++) {
        uint64_t gap = c->at[i + 1].n - (i ? c->at[i - 1].n : 0), far = end - c->at[i].n;
        if (i && gap * best_far >= best_gap * far) continue;
        best = i;
        best_gap = gap;
        best_far = far;
    }
    remove_at(c, best);
    return true;
}

void vr_checkpoints_add(struct vr_checkpoints *c, uint32_t n, struct vr_kept *state)
{
    uint32_t i = c->n;
    while (i && c->at[i - 1].n >= n) i--;
    if (i < c->n && c->at[i].n == n) {
        vr_kept_drop(c->at[i].state);
        c->at[i].state = state;
        return;
    }
    if (c->n == VR_MOST_CHECKPOINTS) {
        vr_checkpoints_thin(c);
        for (i = c->n; i && c->at[i - 1].n >= n;) i--;
    }
    memmove(&c->at[i + 1], &c->at[i], (c->n - i) * sizeof c->at[0]);
    c->at[i] = (struct vr_checkpoint){ n, state };
    c->n++;
}

void vr_checkpoints_cut(struct vr_checkpoints *c, uint32_t n)
{
    while (c->n && c->at[c->n - 1].n > n) vr_kept_drop(c->at[--c->n].state);
}

void vr_checkpoints_share(struct vr_checkpoints *to, const struct vr_checkpoints *from, uint32_t n)
{
    for (to->n = 0; to->n < from->n && from->at[to->n].n <= n; to->n++) {
        to->at[to->n].n = from->at[to->n].n;
        to->at[to->n].state = vr_kept_share(from->at[to->n].state);
    }
}

void vr_checkpoints_clear(struct vr_checkpoints *c) { vr_checkpoints_cut(c, 0); }
