#include "fit/stand.h"

#include <time.h>

double vr_stand_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

void vr_outcome_done(struct vr_outcome *o) { vr_arena_done(&o->arena); }

bool vr_stand_start(const struct vr_fit_ask *a, struct vr_outcome *out, struct vr_err *err)
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

bool vr_stand_judge(const struct vr_fit_ask *a, const struct vr_prober *prober, struct vr_outcome *o,
                    struct vr_err *err)
{
    struct vr_bench_stand stand = { .prober = prober,
                                    .model = a->model,
                                    .machine = a->machine,
                                    .budgets = a->budgets,
                                    .speeds = a->speeds,
                                    .fill = a->fill };
    return vr_judge(&stand, &o->trial, &o->verdict, err);
}

void vr_stand_move(struct vr_outcome *o, struct vr_outcome *from)
{
    vr_outcome_done(o);
    *o = *from;
    o->trial.devices = o->specs;
    *from = (struct vr_outcome){ 0 };
}
