/* Where every tensor of an outcome is: overrides first, then its layer's place, as the engine decides it. */
#include <regex.h>
#include <stdlib.h>

#include "fit/fit.h"

#define HOST (-1)

/* Index in verdict.devices of a device of the trial. */
static int placed_at(const struct vr_outcome *o, int trial_device)
{
    size_t n = o->trial.n_order ? o->trial.n_order : o->trial.n_devices;
    for (size_t i = 0; i < n; i++)
        if ((o->trial.n_order ? o->trial.order[i] : (int)i) == trial_device) return (int)i;
    return HOST;
}

static int by_layer(const struct vr_outcome *o, const struct vr_tensor *t)
{
    for (size_t i = 0; i < o->verdict.n_devices; i++) {
        const struct vr_judged *j = &o->verdict.devices[i];
        if (t->layer >= 0 && (uint32_t)t->layer - j->first_layer < j->n_layers && (uint32_t)t->layer >= j->first_layer)
            return (int)i;
        if (t->layer < 0 && t->role == VR_ROLE_OUTPUT && j->output) return (int)i;
    }
    return HOST;
}

bool vr_outcome_has(const struct vr_outcome *o, int where, size_t device)
{
    return where == (int)device || (where >= 0 && o->trial.split_mode == VR_SPLIT_TENSOR);
}

double vr_outcome_slice(const struct vr_fit_ask *a, const struct vr_outcome *o, const int *where, size_t device)
{
    if (o->trial.split_mode != VR_SPLIT_TENSOR || device >= o->verdict.n_devices) return 1;
    uint64_t all = a->model->tied ? a->model->input_bytes : 0; /* which is the output, too */
    for (uint32_t i = 0; i < a->model->n_tensors; i++)
        if (where[i] >= 0) all += a->model->tensors[i].bytes;
    return all ? (double)o->verdict.devices[device].use.model_bytes / (double)all : 0;
}

bool vr_outcome_where(const struct vr_fit_ask *a, const struct vr_outcome *o, int *where, struct vr_err *err)
{
    size_t n = o->trial.n_overrides, compiled = 0;
    regex_t *all = calloc(n ? n : 1, sizeof *all);
    bool ok = all != NULL || vr_fail_nomem(err, "locating tensors");
    for (; ok && compiled < n; compiled++)
        ok = regcomp(&all[compiled], o->trial.overrides[compiled].pattern, REG_EXTENDED | REG_NOSUB) == 0 ||
             vr_fail(err, VR_EINTERNAL, "'%s' is not a regular expression", o->trial.overrides[compiled].pattern);
    for (uint32_t i = 0; ok && i < a->model->n_tensors; i++) {
        const struct vr_tensor *t = &a->model->tensors[i];
        where[i] = by_layer(o, t);
        for (size_t k = 0; k < n; k++)
            if (regexec(&all[k], t->name, 0, NULL, 0) == 0) {
                int device = o->trial.overrides[k].device;
                where[i] = device == VR_ON_CPU ? HOST : placed_at(o, device);
                break;
            }
    }
    for (size_t k = 0; k < compiled; k++) regfree(&all[k]);
    free(all);
    return ok;
}
