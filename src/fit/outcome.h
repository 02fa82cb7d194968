/* What all ways to an outcome share; private to fit/. */
#ifndef VR_FIT_OUTCOME_H
#define VR_FIT_OUTCOME_H

#include "base/clock.h"
#include "fit/fit.h"

/* An empty outcome whose trial has all devices that may be used, in their order. */
bool vr_outcome_start(const struct vr_fit_ask *a, struct vr_outcome *out, struct vr_err *err) VR_MUST_CHECK;
/* What stays the same from dry run to dry run. */
struct vr_judge_setup vr_outcome_setup(const struct vr_fit_ask *a, const struct vr_prober *prober);
/* The dry run of o->trial, with the reasons that do not depend on who made the placement. */
bool vr_outcome_judge(const struct vr_judge_setup *setup, struct vr_outcome *o, struct vr_err *err) VR_MUST_CHECK;
void vr_outcome_explain_verdict(struct vr_outcome *o);
/* After a dry run of `failed` that ended with `err`: when the engine is at fault and a setting nearby works, the error
 * names both instead of the engine's last words. Returns false, to be returned. */
bool vr_advise(const struct vr_prober *prober, const struct vr_load_params *failed, struct vr_err *err);

/* What an outcome says of the other split mode, for the same placement or one like it with these speeds: how many of
 * its reasons, of VR_MAX_REASONS at most. */
size_t vr_outcome_split_reasons(const struct vr_outcome *o, const struct vr_price *now, struct vr_reason *out);
/* … and with other settings: what prompts would take in the other mode. */
void vr_outcome_other_prompts(struct vr_outcome *o, double tok_s);

/* Finds an outcome for a model alone; ctx is what the way to it needs to know. */
typedef bool vr_find_fn(const struct vr_fit_ask *a, const void *ctx, struct vr_outcome *out, struct vr_err *err);
/* Whether there are companions to be placed first. */
bool vr_companions_any(const struct vr_fit_ask *a);
/* Places the companions of `a` so that all together is fastest, and the model with `find` into what they leave.
 * `twins`: of equal devices, one is tried for all. */
bool vr_companions_place(const struct vr_fit_ask *a, vr_find_fn *find, const void *ctx, bool twins,
                         struct vr_outcome *out, struct vr_err *err) VR_MUST_CHECK;

#endif
