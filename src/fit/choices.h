/* The choices beside the placement: which devices are worth using, how large micro-batches are, how the host's weights
 * are kept, and from which batch on they are sent to a device. Each comes with its reason, and each can be fixed. */
#ifndef VR_FIT_CHOICES_H
#define VR_FIT_CHOICES_H

#include "fit/fit.h"

/* What is left to us; everything else stays as asked. */
struct vr_open {
    bool n_ubatch;     /* and n_batch with it; up to `most_ubatch` where that is not 0 */
    bool host_weights; /* mapped, or pinned */
    bool offload_min;
    uint32_t most_ubatch;
};

/* As vr_fit_plan(), or vr_fit_largest() where no context is asked for, with what is open chosen:
 *
 * For token generation: of all plans within 1 % of the fastest those with the fewest devices, and of these the one
 * whose prompts are fastest. For the other goals: the least by the goal. */
bool vr_fit_choose(const struct vr_fit_ask *a, const struct vr_goal *w, const struct vr_open *open,
                   struct vr_outcome *out, struct vr_err *err) VR_MUST_CHECK;

#endif
