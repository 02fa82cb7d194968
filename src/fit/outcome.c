#include "fit/outcome.h"

#include "base/clock.h"

void vr_outcome_done(struct vr_outcome *o) { vr_arena_done(&o->arena); }

bool vr_outcome_start(const struct vr_fit_ask *a, struct vr_outcome *out, struct vr_err *err)
{
    *out = (struct vr_outcome){ .trial = vr_trial_default() };
    if (!vr_judge_devices(a->machine, a->budgets, out->specs, err)) return false;
    out->trial.devices = out->specs;
    out->trial.n_devices = a->budgets->n;
    out->trial.context = a->context;
    out->trial.flash_auto = a->flash_auto;
    out->trial.n_outputs = a->n_outputs;
    return true;
}

struct vr_judge_setup vr_outcome_setup(const struct vr_fit_ask *a, const struct vr_prober *prober)
{
    return (struct vr_judge_setup){ .prober = prober,
                                    .model = a->model,
                                    .machine = a->machine,
                                    .budgets = a->budgets,
                                    .speeds = a->speeds,
                                    .fill = a->fill };
}

bool vr_outcome_judge(const struct vr_fit_ask *a, const struct vr_prober *prober, struct vr_outcome *o,
                      struct vr_err *err)
{
    struct vr_judge_setup setup = vr_outcome_setup(a, prober);
    if (!vr_judge(&setup, &o->trial, &o->verdict, err)) return false;
    vr_outcome_explain_verdict(o);
    return true;
}

void vr_outcome_move(struct vr_outcome *o, struct vr_outcome *from)
{
    vr_outcome_done(o);
    *o = *from;
    o->trial.devices = o->specs;
    *from = (struct vr_outcome){ 0 };
}
