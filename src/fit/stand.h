/* What all ways to an outcome share; private to fit/. */
#ifndef VR_FIT_STAND_H
#define VR_FIT_STAND_H

#include "fit/fit.h"

double vr_stand_now_ms(void);
/* An empty outcome whose trial has all devices that may be used, in their order. */
bool vr_stand_start(const struct vr_fit_ask *a, struct vr_outcome *out, struct vr_err *err) VR_MUST_CHECK;
/* The dry run of o->trial. */
bool vr_stand_judge(const struct vr_fit_ask *a, const struct vr_prober *prober, struct vr_outcome *o,
                    struct vr_err *err) VR_MUST_CHECK;
/* o = from, with the pointers into itself set right; `from` is empty afterwards. */
void vr_stand_move(struct vr_outcome *o, struct vr_outcome *from);

#endif
