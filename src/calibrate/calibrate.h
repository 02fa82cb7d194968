/* Measures a machine: its devices, the host, the links between them. */
#ifndef VR_CALIBRATE_CALIBRATE_H
#define VR_CALIBRATE_CALIBRATE_H

#include "engine/measure/measure.h"
#include "hw/select.h"

#define VR_CALIBRATE_TYPES 24
#define VR_CALIBRATE_PAIRS 4 /* devices of which every two are measured for adding up */

struct vr_calibrate {
    uint32_t types[VR_CALIBRATE_TYPES]; /* weights' types to measure */
    size_t n_types;
    uint32_t caches[VR_MEASURE_CACHES]; /* caches' types */
    size_t n_caches;
    bool missing_only; /* leave out what was measured before */
    /* Told before each step, of about n_steps. */
    void (*tell)(void *ctx, unsigned step, unsigned n_steps, const char *what);
    void *ctx;
};

/* Measures the devices of the budgets, which the engine must be able to use, and the host; fills the `measured` parts
 * of `m`. What could not be measured is a line in the machine's note. */
bool vr_calibrate(const struct vr_calibrate *c, struct vr_machine *m, const struct vr_budgets *b,
                  struct vr_err *err) VR_MUST_CHECK;

#endif
