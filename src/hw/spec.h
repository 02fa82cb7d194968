/* A machine that a person types: --gpus "2x RTX 3090 Ti, RTX 4080 Laptop, my card:24000:900".
 *
 *     list  = item { "," item } | "none"
 *     item  = [ count ("x" | "*") ] name [ ":" size [ ":" GB/s ] ]
 *     size  = MiB, or with a unit: 24GiB, 24G
 *
 * A name is looked up in the table of known cards (gpus.h says which one is meant). Without a size the card has the
 * table's memory and is idle: vr_device_free_guess() of it is free. A size is what may be used, to the MiB: it is taken
 * as the free memory as it stands, and as the total where the table knows none or a smaller one. A name that the table
 * does not know needs a size; it is then a CUDA device of unknown speed unless GB/s follow. The link is what the card's
 * generation has, gen 4 x16 for an unknown one. */
#ifndef VR_HW_SPEC_H
#define VR_HW_SPEC_H

#include "hw/detect.h"

/* Only the devices; the host stays zero. */
bool vr_spec_parse(const char *text, struct vr_machine *out, struct vr_err *err) VR_MUST_CHECK;
/* The devices, in this computer's host. */
bool vr_machine_spec(const char *text, const struct vr_detect *opts, struct vr_machine *out,
                     struct vr_err *err) VR_MUST_CHECK;

#endif
