/* Placements that somebody else made: the user, or llama.cpp's own fit. */
#include <regex.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/text.h"
#include "fit/outcome.h"

#define MAX_OVERRIDES 1024

static const char *spec_name(size_t i, const void *ctx)
{
    const struct vr_outcome *o = ctx;
    return i < o->trial.n_devices ? o->specs[i].name : "CPU";
}

/* "CUDA0" or "CPU" -> the trial's device. */
static bool find_target(const struct vr_outcome *o, const char *name, int *device, struct vr_err *err)
{
    for (size_t i = 0; i <= o->trial.n_devices; i++)
        if (strcasecmp(spec_name(i, o), name) == 0) {
            *device = i < o->trial.n_devices ? (int)i : VR_ON_CPU;
            return true;
        }
    int i = vr_nearest(name, o->trial.n_devices + 1, spec_name, o);
    return vr_fail(err, VR_EUSAGE, "--override-tensor: unknown device '%s'; did you mean %s?", name,
                   spec_name(i < 0 ? o->trial.n_devices : (size_t)i, o));
}

/* The engine would throw at a bad expression, and take one that matches nothing in silence. */
bool vr_override_check(const struct vr_model *m, const char *pattern, struct vr_err *err)
{
    regex_t re;
    int rc = regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB);
    if (rc != 0) {
        char why[96];
        regerror(rc, &re, why, sizeof why);
        return vr_fail(err, VR_EUSAGE, "--override-tensor: '%s' is not a regular expression: %s", pattern, why);
    }
    bool found = strcmp(pattern, VR_NO_PIPELINE) == 0;
    for (uint32_t i = 0; i < m->n_tensors && !found; i++) found = regexec(&re, m->tensors[i].name, 0, NULL, 0) == 0;
    regfree(&re);
    return found || vr_fail(err, VR_EUSAGE, "--override-tensor: no tensor of the model matches '%s'", pattern);
}

bool vr_override_split(char *text, const char **pattern, const char **device, struct vr_err *err)
{
    char *equals = strrchr(text, '=');
    if (!equals || equals == text || !equals[1])
        return vr_fail(err, VR_EUSAGE, "--override-tensor: '%s' is not PATTERN=DEVICE, e.g. exps=CPU", text);
    *equals = '\0';
    *pattern = text;
    *device = equals + 1;
    return true;
}

/* Where the first that finds it sends it, in `text`, which is a copy of the list; NULL: none does. */
static const char *override_target(char *text, const char *tensor)
{
    char *save = NULL;
    for (char *one = text ? strtok_r(text, ",", &save) : NULL; one; one = strtok_r(NULL, ",", &save)) {
        const char *pattern, *device;
        struct vr_err no = { 0 };
        regex_t re;
        if (!vr_override_split(one, &pattern, &device, &no) || regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB) != 0)
            continue;
        bool match = regexec(&re, tensor, 0, NULL, 0) == 0;
        regfree(&re);
        if (match) return device;
    }
    return NULL;
}

bool vr_override_moves(const char *list, const char *tensor)
{
    VR_AUTO_FREE char *text = strdup(list);
    const char *device = override_target(text, tensor);
    return device && strcasecmp(device, "CPU") != 0;
}

bool vr_override_finds(const char *list, const char *tensor)
{
    VR_AUTO_FREE char *text = strdup(list);
    return override_target(text, tensor) != NULL;
}

static bool add_override(const struct vr_fit_ask *a, struct vr_outcome *o, struct vr_override *to, char *text,
                         struct vr_err *err)
{
    const char *device;
    return vr_override_split(text, &to->pattern, &device, err) && vr_override_check(a->model, to->pattern, err) &&
           find_target(o, device, &to->device, err);
}

static bool add_overrides(const struct vr_fit_ask *a, const char *list, struct vr_outcome *o, struct vr_err *err)
{
    char *text = vr_arena_strdup(&o->arena, list);
    struct vr_override *all = vr_arena_alloc(&o->arena, MAX_OVERRIDES, sizeof *all);
    if (!text || !all) return vr_fail_nomem(err, "reading overrides");
    size_t n = 0;
    for (char *save = NULL, *one = strtok_r(text, ",", &save); one; one = strtok_r(NULL, ",", &save)) {
        if (n == MAX_OVERRIDES)
            return vr_fail(err, VR_EUSAGE, "--override-tensor: more than %d patterns", MAX_OVERRIDES);
        if (!add_override(a, o, &all[n++], one, err)) return false;
    }
    o->trial.overrides = all;
    o->trial.n_overrides = n;
    return true;
}

/* In split mode tensor a device without a share would still hold what all have. */
static void leave_out(struct vr_load_params *t)
{
    for (size_t i = 0; i < t->n_devices; i++) {
        if (!(t->split[i] > 0)) continue;
        t->order[t->n_order] = (uint8_t)i;
        t->split[t->n_order++] = t->split[i];
    }
}

static bool add_split(const struct vr_given *g, struct vr_outcome *o, struct vr_err *err)
{
    if (!g->split) return true;
    if (g->n_split != o->trial.n_devices)
        return vr_fail(err, VR_EUSAGE,
                       "--tensor-split has %zu value%s for %zu devices: give one per device, 0 to leave one out",
                       g->n_split, g->n_split == 1 ? "" : "s", o->trial.n_devices);
    double sum = 0;
    for (size_t i = 0; i < g->n_split; i++) sum += g->split[i];
    if (!(sum > 0)) return vr_fail(err, VR_EUSAGE, "--tensor-split: all values are 0");
    o->trial.has_split = true;
    for (size_t i = 0; i < g->n_split; i++) o->trial.split[i] = (float)g->split[i];
    if (g->split_mode == VR_SPLIT_TENSOR) leave_out(&o->trial);
    return true;
}

static bool given_alone(const struct vr_fit_ask *a, const void *given, struct vr_outcome *out, struct vr_err *err)
{
    const struct vr_given *g = given;
    double t0 = vr_now_fine_ms();
    if (!vr_outcome_start(a, out, err)) return false;
    out->how = VR_HOW_GIVEN;
    out->trial.n_gpu_layers = g->n_gpu_layers;
    out->trial.split_mode = g->split_mode;
    if (g->split_mode == VR_SPLIT_TENSOR && out->trial.n_devices == 0)
        return vr_fail(err, VR_EUSAGE, "--split-mode tensor needs GPUs, and there are none to plan for");
    if (!add_split(g, out, err) || (g->overrides && !add_overrides(a, g->overrides, out, err))) return false;
    struct vr_prober prober;
    if (!vr_prober_open(a->model, &prober, err)) return false;
    struct vr_judge_setup setup = vr_outcome_setup(a, &prober);
    bool ok = vr_outcome_judge(&setup, out, err);
    vr_prober_close(&prober);
    out->dry_runs = 1;
    out->ms = vr_now_fine_ms() - t0;
    return ok;
}

bool vr_fit_given(const struct vr_fit_ask *a, const struct vr_given *g, struct vr_outcome *out, struct vr_err *err)
{
    if (vr_companions_any(a)) return vr_companions_place(a, given_alone, g, false, out, err);
    return given_alone(a, g, out, err);
}

/* Copies what the fit chose into the outcome's trial. */
static bool take_fitted(const struct vr_fitted *f, struct vr_outcome *o, struct vr_err *err)
{
    o->trial.n_gpu_layers = f->n_gpu_layers;
    memcpy(o->trial.split, f->split, sizeof o->trial.split);
    for (size_t i = 0; i < o->trial.n_devices; i++) o->trial.has_split |= f->split[i] > 0;
    if (f->n_ctx) o->trial.context.n_ctx = f->n_ctx;
    vr_load_params_settle(&o->trial);
    struct vr_override *all = vr_arena_alloc(&o->arena, f->n_overrides + 1, sizeof *all);
    if (!all) return vr_fail_nomem(err, "reading llama.cpp's fit");
    for (size_t i = 0; i < f->n_overrides; i++) {
        all[i] = f->overrides[i];
        all[i].pattern = vr_arena_strdup(&o->arena, f->overrides[i].pattern);
        if (!all[i].pattern) return vr_fail_nomem(err, "reading llama.cpp's fit");
    }
    o->trial.overrides = all;
    o->trial.n_overrides = f->n_overrides;
    return true;
}

static bool llama_alone(const struct vr_fit_ask *a, const void *none, struct vr_outcome *out, struct vr_err *err)
{
    (void)none;
    if (!vr_outcome_start(a, out, err)) return false;
    out->how = VR_HOW_LLAMA_FIT;
    uint64_t margins[VR_MAX_VGPUS];
    for (size_t i = 0; i < a->budgets->n; i++) { /* the reserve, and what companions take of the budget */
        const struct vr_budget *b = &a->budgets->items[i];
        uint64_t free_bytes = a->machine->devices[b->device].free_bytes;
        margins[i] = free_bytes > b->budget_bytes ? free_bytes - b->budget_bytes : b->reserve_bytes;
    }
    struct vr_prober prober;
    if (!vr_prober_open(a->model, &prober, err)) return false;
    struct vr_fitted fitted = { 0 };
    struct vr_trial trial = { .load = out->trial, .timeout_ms = 300000 }; /* it may need dozens of dry runs */
    struct vr_judge_setup setup = vr_outcome_setup(a, &prober);
    bool ok = (vr_probe_fit(&prober, &trial, margins, &fitted, err) || vr_advise(&prober, &trial.load, err)) &&
              take_fitted(&fitted, out, err) && vr_outcome_judge(&setup, out, err);
    out->dry_runs = fitted.dry_runs;
    out->ms = fitted.ms;
    vr_fitted_done(&fitted);
    vr_prober_close(&prober);
    return ok;
}

bool vr_fit_llama(const struct vr_fit_ask *a, struct vr_outcome *out, struct vr_err *err)
{
    if (vr_companions_any(a)) return vr_companions_place(a, llama_alone, NULL, false, out, err);
    return llama_alone(a, NULL, out, err);
}
