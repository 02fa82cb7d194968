/* How fast a model would be on a machine with less memory, without a dry run for each: by quick plans, with buffers as
 * the dry runs of one plan showed them. */
#ifndef VR_FIT_SCREEN_H
#define VR_FIT_SCREEN_H

#include "fit/fit.h"

struct vr_screen;
/* Plans for what is asked, whole layers and no companions; NULL on failure. */
struct vr_screen *vr_screen_open(const struct vr_fit_ask *a, const struct vr_goal *w, struct vr_err *err) VR_MUST_CHECK;
void vr_screen_free(struct vr_screen *s);
VR_DEFINE_AUTO(vr_screen);

/* What it costs on this machine with these budgets, in units of what it costs on the machine that the screen was opened
 * with; within some percent, and rather too much. 0: nobody knows. */
double vr_screen_cost(struct vr_screen *s, const struct vr_machine *m, const struct vr_budgets *b);

#endif
