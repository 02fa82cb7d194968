#include "fit/outcome.h"

#include "base/clock.h"

void vr_outcome_done(struct vr_outcome *o) { vr_arena_done(&o->arena); }

struct vr_load_params vr_fit_params(const struct vr_fit_ask *a)
{
    struct vr_load_params p = vr_load_params_default();
    p.n_devices = a->budgets->n;
    p.context = a->context;
    p.flash_auto = a->flash_auto;
    p.embedding_model = vr_model_makes_embeddings(a->model);
    p.embeddings = a->embeddings;
    p.has_draft = a->has_draft || a->companions[VR_DRAFT];
    p.mmap = !a->speeds->pinned;
    vr_load_params_settle(&p);
    return p;
}

bool vr_outcome_start(const struct vr_fit_ask *a, struct vr_outcome *out, struct vr_err *err)
{
    *out = (struct vr_outcome){ .trial = vr_fit_params(a) };
    out->trial.devices = out->specs;
    return vr_judge_devices(a->machine, a->budgets, out->specs, err);
}

bool vr_outcome_judge(const struct vr_fit_ask *a, const struct vr_prober *prober, struct vr_outcome *o,
                      struct vr_err *err)
{
    struct vr_judge_setup stand = { .prober = prober,
                                    .model = a->model,
                                    .machine = a->machine,
                                    .budgets = a->budgets,
                                    .speeds = a->speeds,
                                    .fill = a->fill };
    return vr_judge(&stand, &o->trial, &o->verdict, err) || vr_advise(prober, &o->trial, err);
}

void vr_outcome_move(struct vr_outcome *o, struct vr_outcome *from)
{
    vr_outcome_done(o);
    *o = *from;
    o->trial.devices = o->specs;
    *from = (struct vr_outcome){ 0 };
}
