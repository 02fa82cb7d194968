#include "cli/input/speculation.h"

#include <string.h>

#include "engine/speculate/steer.h"
#include "fit/fit.h"
#include "gguf/head.h"
#include "memory/footprint.h"

static bool is(const struct vr_options *o, const char *kind) { return strcmp(o->spec, kind) == 0; }

enum vr_spec vr_spec_asked(const struct vr_options *o)
{
    return is(o, "mtp") ? VR_SPEC_MTP : is(o, "ngram") ? VR_SPEC_NGRAM : VR_SPEC_OFF;
}

static bool check_head(const struct vr_model *m, struct vr_err *err)
{
    if (m->n_layers_mtp == 0)
        return vr_fail(err, VR_EUSAGE,
                       "--spec mtp: %s has no layers for multi-token prediction (MTP); some GGUF files of a model "
                       "include them, others do not",
                       m->name);
    if (!vr_model_has_mtp(m))
        return vr_fail(err, VR_EUSAGE, "--spec mtp: the engine cannot use the MTP layers of '%s' models", m->arch);
    return true;
}

/* What --draft names, and what --spec says that it is. */
static bool check_file(const struct vr_options *o, const struct vr_model *draft, struct vr_err *err)
{
    enum vr_spec kind = draft ? vr_spec_of_file(draft) : VR_SPEC_OFF;
    if (is(o, "draft") && !draft) return vr_fail(err, VR_EUSAGE, "--spec draft needs a draft model: --draft FILE");
    for (enum vr_spec k = 0; k < VR_N_SPECS; k++)
        if (vr_spec_is_head_file(k) && is(o, vr_spec_row(k)->name) && kind != k)
            return vr_fail(err, VR_EUSAGE, "--spec %s needs %s of the model: --draft FILE%s%s", o->spec,
                           vr_spec_row(k)->what, draft ? "; the one that is given is " : "",
                           !draft                  ? ""
                           : kind == VR_SPEC_DRAFT ? "a complete model"
                                                   : vr_spec_row(kind)->what);
    if (is(o, "draft") && kind != VR_SPEC_DRAFT)
        return vr_fail(err, VR_EUSAGE, "--spec draft: %s is %s, not a draft model; leave --spec out",
                       draft->parts[0].path, vr_spec_row(kind)->what);
    if (!vr_spec_is_head_file(kind)) return true;
    if (vr_head_shares_input(draft) && o->override_tensor && vr_override_moves(o->override_tensor, "token_embd.weight"))
        return vr_fail(
            err, VR_EUSAGE,
            "--draft: %s uses the token embeddings of the model, which must stay on the host: leave them out "
            "of --override-tensor",
            draft->parts[0].path);
    const char *list = vr_head_shares_output(draft) ? o->override_tensor : NULL;
    if (list && (vr_override_finds(list, "output.weight") || vr_override_finds(list, "token_embd.weight")))
        return vr_fail(err, VR_EUSAGE,
                       "--draft: %s uses the output matrix of the model, which must be where its output is: leave it "
                       "out of --override-tensor",
                       draft->parts[0].path);
    if (strcmp(o->split_mode, "tensor") == 0)
        return vr_fail(err, VR_EUSAGE, "--draft: %s does not work with --split-mode tensor: leave one of them out",
                       vr_spec_row(kind)->what);
    return true;
}

bool vr_spec_check(const struct vr_options *o, const struct vr_models *m, struct vr_err *err)
{
    bool draft = m->companions[VR_DRAFT] != NULL, named = vr_spec_asked(o) != VR_SPEC_OFF;
    if (!check_file(o, m->companions[VR_DRAFT], err)) return false;
    if (draft && named)
        return vr_fail(err, VR_EUSAGE, "--draft and --spec %s contradict each other: leave one of them out", o->spec);
    if (!draft && !named) return true;
    if (vr_model_makes_embeddings(m->main))
        return vr_fail(err, VR_EUSAGE, "%s is an embedding model, and speculative decoding is for text generation",
                       m->main->name);
    if (!vr_model_rolls_back(m->main))
        return vr_fail(err, VR_EUSAGE,
                       "%s is recurrent, and the engine keeps no earlier states of '%s' models: rejected tokens cannot "
                       "be rolled back, so it cannot use speculative decoding",
                       m->main->name, m->main->arch);
    return !is(o, "mtp") || check_head(m->main, err);
}

bool vr_spec_may_use_head(const struct vr_options *o, const struct vr_fit_ask *ask)
{
    uint32_t n_seq = ask->context.n_seq ? ask->context.n_seq : 1;
    return is(o, "auto") && !ask->companions[VR_DRAFT] && vr_model_has_mtp(ask->model) &&
           vr_model_rolls_back(ask->model) && n_seq <= VR_STEER_STREAMS && !o->use_fit_params;
}
