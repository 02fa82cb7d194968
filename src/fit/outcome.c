#include "fit/outcome.h"

#include "base/clock.h"

void vr_outcome_done(struct vr_outcome *o) { vr_arena_done(&o->arena); }

enum vr_spec vr_fit_spec(const struct vr_fit_ask *a)
{
    const struct vr_model *draft = a->companions[VR_DRAFT];
    return draft ? vr_spec_of_file(draft) : a->spec;
}

uint32_t vr_fit_guesses(const struct vr_fit_ask *a)
{
    const struct vr_model *head = a->head ? a->head : a->companions[VR_DRAFT];
    uint32_t n = a->n_draft ? a->n_draft : vr_spec_row(vr_fit_spec(a))->tokens, block = head ? vr_head_block(head) : 0;
    return block && n > block ? block : n;
}

struct vr_load_params vr_fit_params(const struct vr_fit_ask *a)
{
    struct vr_load_params p = vr_load_params_default();
    p.n_devices = a->budgets->n;
    p.context = a->context;
    p.flash_auto = a->flash_auto;
    p.head = vr_spec_of_file(a->model);
    if (p.head == VR_SPEC_DRAFT) p.head = VR_SPEC_OFF;
    p.embedding_model = !p.head && vr_model_makes_embeddings(a->model);
    p.embeddings = a->embeddings;
    p.spec = vr_fit_spec(a);
    if (a->head) p.n_taps = vr_head_taps(a->head, p.taps);
    p.n_draft = p.spec ? vr_fit_guesses(a) : p.head ? a->n_draft : 0;
    p.steer = a->n_draft == 0;
    p.loras = a->loras;
    p.n_loras = a->n_loras;
    p.mmap = !a->speeds->pinned;
    if (a->offload_min) p.offload_min = a->offload_min;
    p.threads = a->threads;
    vr_load_params_settle(&p);
    return p;
}

bool vr_outcome_start(const struct vr_fit_ask *a, struct vr_outcome *out, struct vr_err *err)
{
    *out = (struct vr_outcome){ .trial = vr_fit_params(a) };
    out->trial.devices = out->specs;
    return vr_judge_devices(a->machine, a->budgets, out->specs, err);
}

struct vr_judge_setup vr_outcome_setup(const struct vr_fit_ask *a, const struct vr_prober *prober)
{
    return (struct vr_judge_setup){ .prober = prober,
                                    .model = a->model,
                                    .machine = a->machine,
                                    .budgets = a->budgets,
                                    .speeds = a->speeds,
                                    .fill = a->fill,
                                    .n_prompt = a->n_prompt };
}

bool vr_outcome_judge(const struct vr_judge_setup *setup, struct vr_outcome *o, struct vr_err *err)
{
    if (!vr_judge(setup, &o->trial, &o->verdict, err)) return vr_advise(setup->prober, &o->trial, err);
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
