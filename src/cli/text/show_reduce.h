/* Adding up over devices, split mode tensor: which way the engine takes here, and what was measured. */
#ifndef VR_CLI_SHOW_REDUCE_H
#define VR_CLI_SHOW_REDUCE_H

#include "base/buf.h"
#include "hw/machine.h"

/* A fact for `doctor`. Nothing where there are not two devices. */
void vr_show_reduce_way(struct vr_buf *out, const struct vr_machine *m);
/* What was measured, as a table; nothing when nothing was. */
void vr_show_reductions(struct vr_buf *out, const struct vr_machine *m);

#endif
