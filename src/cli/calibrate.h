/* Measures this machine and keeps the result as its profile. */
#ifndef VR_CLI_CALIBRATE_H
#define VR_CLI_CALIBRATE_H

#include "cli/input.h"
#include "engine/measure/measure.h"

#define VR_CALIBRATE_TYPES 24

struct vr_calibrate {
    uint32_t types[VR_CALIBRATE_TYPES]; /* weights' types to measure */
    size_t n_types;
    uint32_t caches[VR_MEASURE_CACHES]; /* caches' types */
    size_t n_caches;
    bool missing_only; /* leave out what was measured before */
};

/* Measures `in->machine` (its devices in in->budgets that the engine can use, and the host) and fills its `measured`
 * parts. What could not be measured is a line in the machine's note. */
bool vr_calibrate(const struct vr_calibrate *c, struct vr_input *in, struct vr_err *err) VR_MUST_CHECK;
/* True when nothing is left to measure for these types. */
bool vr_calibrated(const struct vr_calibrate *c, struct vr_input *in);
/* Where every later plan looks for the profile, with its folders made. */
bool vr_calibrate_path(char *path, size_t n, struct vr_err *err) VR_MUST_CHECK;

/* Devices that this engine can run on; the others leave the budgets. */
bool vr_device_usable(const struct vr_device *d);

#endif
