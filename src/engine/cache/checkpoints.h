/* Checkpoints of one sequence: what the engine's memory could not give back otherwise, as it was behind the first n
 * tokens. A recurrent state knows only where it is now, and a sliding window forgets what it left; with a checkpoint a
 * prompt that begins alike goes on from there. Pure. */
#ifndef VR_ENGINE_CACHE_CHECKPOINTS_H
#define VR_ENGINE_CACHE_CHECKPOINTS_H

#include <stdbool.h>

#include "engine/cache/kept.h"

#define VR_MOST_CHECKPOINTS 32

struct vr_checkpoint {
    uint32_t n; /* tokens before it */
    struct vr_kept *state;
};

struct vr_checkpoints {
    struct vr_checkpoint at[VR_MOST_CHECKPOINTS]; /* ascending */
    uint32_t n;
};

/* The latest one that is not beyond n tokens; NULL: none. */
const struct vr_checkpoint *vr_checkpoints_last(const struct vr_checkpoints *c, uint32_t n);
/* Takes over `state`. One at the same place is replaced; where there are too many, the one is dropped that is missed
 * least. */
void vr_checkpoints_add(struct vr_checkpoints *c, uint32_t n, struct vr_kept *state);
/* Drops the one that is missed least; false: there is none. */
bool vr_checkpoints_thin(struct vr_checkpoints *c);
/* Drops those beyond n tokens. */
void vr_checkpoints_cut(struct vr_checkpoints *c, uint32_t n);
/* `to`, which is empty, shares those of `from` up to n tokens. */
void vr_checkpoints_share(struct vr_checkpoints *to, const struct vr_checkpoints *from, uint32_t n);
void vr_checkpoints_clear(struct vr_checkpoints *c);

#endif
