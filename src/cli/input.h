/* What the options name, read and checked: the machine with its budgets, and the settings of the context. */
#ifndef VR_CLI_INPUT_H
#define VR_CLI_INPUT_H

#include "cli/options.h"
#include "hw/machine.h"
#include "hw/select.h"
#include "memory/footprint.h"

struct vr_input {
    struct vr_machine machine;
    struct vr_budgets budgets;
    struct vr_context context;
};

/* --machine, --gpus or this computer. */
bool vr_input_machine(const struct vr_options *o, struct vr_machine *out, struct vr_err *err) VR_MUST_CHECK;
/* The machine and --devices, --device-order, --reserve-mib, --min-budget-mib; the context. */
bool vr_input_read(const struct vr_options *o, struct vr_input *out, struct vr_err *err) VR_MUST_CHECK;

#endif
