/* What the options name, read and checked: the machine with its budgets, and the settings of the context. */
#ifndef VR_CLI_INPUT_H
#define VR_CLI_INPUT_H

#include "cli/options.h"
#include "hw/machine.h"
#include "hw/select.h"
#include "memory/footprint.h"
#include "plan/speed.h"
#include "hw/learned.h"

struct vr_input {
    struct vr_machine machine;
    struct vr_budgets budgets;
    struct vr_context context;
};

void vr_input_free(struct vr_input *in);
VR_DEFINE_AUTO(vr_input);

/* This computer: what detection finds, named as the engine will, with what was measured. */
bool vr_input_detect(struct vr_machine *out, struct vr_err *err) VR_MUST_CHECK;
/* --machine, --gpus or this computer, and what --nodes lend. */
bool vr_input_machine(const struct vr_options *o, struct vr_machine *out, struct vr_err *err) VR_MUST_CHECK;
/* The machine and --devices, --device-order, --reserve-mib, --min-budget-mib; the context. NULL on failure. */
struct vr_input *vr_input_read(const struct vr_options *o, struct vr_err *err) VR_MUST_CHECK;
struct vr_input *vr_input_new(struct vr_err *err) VR_MUST_CHECK; /* an empty one */

/* The same for a machine that is there already. */
bool vr_input_rest(const struct vr_options *o, struct vr_input *out, struct vr_err *err) VR_MUST_CHECK;
/* How fast its machine is, with weights where --host-weights puts them. The caller frees it; NULL on failure. */
struct vr_speeds *vr_input_speeds(const struct vr_options *o, const struct vr_input *in,
                                  struct vr_err *err) VR_MUST_CHECK;
/* --gpus or --machine: devices that are not this computer's. What they teach is no fact about it. */
bool vr_input_is_virtual(const struct vr_options *o);

/* What a device is called for good. */
void vr_device_key(const struct vr_device *d, char *out, size_t n);
/* Makes budgets smaller where devices gave less than they reported. */
void vr_input_learned(struct vr_input *in, const struct vr_learned *learned);

#endif
