/* Reasons for people: each kind has a sentence in sentences.def, with places for its figures. */
#ifndef VR_CLI_REASON_TEXT_H
#define VR_CLI_REASON_TEXT_H

#include <jansson.h>

#include "base/buf.h"
#include "fit/reasons.h"

/* "CUDA1 (RTX 2060) left out: not named in --devices", without a period. */
void vr_reason_text(struct vr_buf *out, const struct vr_machine *m, const struct vr_reason *r);
/* {"kind", "devices", "figures", "text"}; the caller owns it. */
json_t *vr_json_reason(const struct vr_machine *m, const struct vr_reason *r);
/* A device that is left out, {"id", "name", "kind", "figures", "reason"}: the reason does not repeat the device. */
json_t *vr_json_left_out(const struct vr_machine *m, const struct vr_reason *r);
/* An array of them, for the devices that may not be used. */
json_t *vr_json_excluded(const struct vr_machine *m, const struct vr_budgets *b);

#endif
