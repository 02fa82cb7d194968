/* Models that compute next to nothing: what remains of their time is what starting kernels, steps and changes between
 * device and host cost. */
#ifndef VR_CALIBRATE_SMALL_MODELS_H
#define VR_CALIBRATE_SMALL_MODELS_H

#include "engine/measure/measure.h"
#include "hw/select.h"

enum vr_small { VR_SMALL_FEW, VR_SMALL_MANY, VR_SMALL_FLOATS, VR_SMALL_EXPERTS, VR_N_SMALL };

struct vr_small_models {
    const char *cpu; /* the variant that works here */
    int timeout_ms;  /* of one run */
    char dir[64];
    char paths[VR_N_SMALL][96];
    struct vr_measure_run runs[VR_N_SMALL]; /* of those that ran last, wholly in one place */
};

/* Writes them to a folder of their own; vr_small_models_done() removes it, also after a failure. */
bool vr_small_models_make(struct vr_small_models *s, struct vr_err *err) VR_MUST_CHECK;
void vr_small_models_done(struct vr_small_models *s);

/* Runs them on a device (budget NULL: on the host) of `m` and fills, of `out`, which is its part of `m`: for a device
 * its runtime's memory and the kernels' starts; the step. The price of the runs goes by all else in `m`. */
bool vr_small_models_run(struct vr_small_models *s, const struct vr_machine *m, const struct vr_budget *budget,
                         struct vr_measured *out, struct vr_err *err) VR_MUST_CHECK;
/* After that, for a device: with a part of each on the host, what going there and back costs. */
bool vr_small_models_switch(struct vr_small_models *s, const struct vr_machine *m, const struct vr_budget *budget,
                            struct vr_measured *out, struct vr_err *err) VR_MUST_CHECK;

#endif
