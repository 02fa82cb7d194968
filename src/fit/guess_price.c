/* What speculative decoding will bring, by the steering's own arithmetic (engine/speculate/steer.h) over a plan's
 * figures: the step as priced, what one more row costs in it, and what a guess costs.
 *
 * A row more in a step reads the weights that it shares with the others for nothing; it adds operations, as a token of
 * prompt does, and of experts it reads those that nobody else uses. A pass of an MTP head reads its layer and the
 * output: so much of the step as that is of all weights that a token reads. */
#include "fit/outcome.h"

#include "engine/speculate/steer.h"

struct active { /* bytes of weights that a token reads */
    double all, experts, head;
};

static struct active count_active(const struct vr_model *m)
{
    struct active a = { 0 };
    double used = m->n_expert ? (double)m->n_expert_used / m->n_expert : 1;
    for (uint32_t i = 0; i < m->n_layers; i++) {
        const struct vr_layer *l = &m->layers[i];
        double experts = (double)l->role_bytes[VR_ROLE_EXPERT] * used;
        double bytes = (double)(l->bytes - l->role_bytes[VR_ROLE_EXPERT]) + experts;
        if (l->mtp) {
            a.head += bytes;
            continue;
        }
        a.all += bytes;
        a.experts += experts;
    }
    const struct vr_tensor *out = vr_model_tensor(m, "output.weight");
    if (!out) out = vr_model_tensor(m, "token_embd.weight"); /* tied */
    a.all += out ? (double)out->bytes : 0;
    a.head += out ? (double)out->bytes : 0;
    return a;
}

/* What a guess costs: of a draft model as it was priced, of a head its part of a step. */
static void price_guess(const struct vr_outcome *o, const struct active *a, struct vr_steer *s)
{
    double step = o->verdict.price.step_ms[VR_DECODE];
    for (size_t i = 0; i < o->n_companions; i++)
        if (o->companions[i].kind == VR_DRAFT) s->pass_ms = o->companions[i].ms;
    if (vr_spec_is_head_file(o->trial.spec) && !vr_spec_shares_cache(o->trial.spec))
        s->step_ms = s->pass_ms; /* it reads what was accepted */
    if (vr_spec_guesses_blocks(o->trial.spec)) s->step_ms += s->pass_ms, s->pass_ms = 0; /* all guesses at once */
    if (o->trial.spec == VR_SPEC_MTP && a->all > 0) s->pass_ms = s->step_ms = step * a->head / a->all;
}

void vr_outcome_price_guesses(const struct vr_fit_ask *a, struct vr_outcome *o)
{
    const struct vr_load_params *t = &o->trial;
    const struct vr_price *price = &o->verdict.price;
    const struct active active = count_active(a->model);
    double unused = a->model->n_expert ? 1 - (double)a->model->n_expert_used / a->model->n_expert : 0;
    double step = price->step_ms[VR_DECODE], row = price->prefill_tok_s > 0 ? 1e3 / price->prefill_tok_s : 0;
    struct vr_step_times times = { 0 };
    struct vr_steer s = { .n = o->verdict.n_seq < VR_STEER_STREAMS ? o->verdict.n_seq : VR_STEER_STREAMS };
    uint32_t k[VR_STEER_STREAMS];
    o->guesses = (struct vr_guess_price){ .acceptance = vr_spec_row(t->spec)->acceptance, .gain = 1 };
    if (!t->spec || s.n == 0 || !(step > 0) || active.all <= 0) return;
    row += step * active.experts / active.all * unused;
    for (uint32_t r = s.n; r < VR_STEER_ROWS; r++)
        for (int enough = 0; enough < 3; enough++) vr_step_times_add(&times, r, step + (r - s.n) * row);
    price_guess(o, &active, &s);
    for (uint32_t i = 0; i < s.n; i++) {
        s.acceptance[i] = o->guesses.acceptance;
        s.most[i] = t->n_draft;
    }
    o->guesses.gain = vr_steer_choose(&s, &times, k);
    o->guesses.n = k[0];
    o->guesses.ms = s.pass_ms;
}

void vr_outcome_explain_guesses(struct vr_outcome *o)
{
    const struct vr_guess_price *g = &o->guesses;
    if (!o->trial.spec) return;
    struct vr_reason r = { .kind = o->trial.spec == VR_SPEC_NGRAM ? VR_REASON_SPEC_NGRAM
                                   : g->gain > 1                  ? VR_REASON_SPEC_GAIN
                                                                  : VR_REASON_SPEC_NO_GAIN };
    r.figures[VR_FIGURE_ACCEPTANCE_PERCENT] = 100 * g->acceptance;
    r.figures[VR_FIGURE_N_DRAFT] = r.kind == VR_REASON_SPEC_NGRAM ? o->trial.n_draft : g->n;
    r.figures[VR_FIGURE_SPEEDUP] = g->gain;
    r.figures[VR_FIGURE_TOK_S] = o->verdict.price.decode_tok_s * g->gain;
    vr_outcome_reason(o, &r);
}
