/* The plan as JSON: where everything is, how fast it is, and why, each reason with its kind and its sentence. */
#include "cli/text/plan_json.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/file.h"
#include "base/text.h"
#include "cli/text/layout.h"
#include "cli/text/reason_text.h"

static json_t *json_use(const struct vr_use *u)
{
    return json_pack("{s:I, s:I, s:I}", "model_bytes", (json_int_t)u->model_bytes, "context_bytes",
                     (json_int_t)u->context_bytes, "compute_bytes", (json_int_t)u->compute_bytes);
}

static json_t *json_devices(const struct vr_machine *m, const struct vr_verdict *v)
{
    json_t *list = json_array();
    for (size_t i = 0; i < v->n_devices; i++) {
        const struct vr_judged *j = &v->devices[i];
        const struct vr_device *d = &m->devices[j->device];
        json_t *o =
            json_pack("{s:s, s:s, s:i, s:i, s:b, s:f}", "id", d->id, "name", d->name, "first_layer",
                      (int)j->first_layer, "n_layers", (int)j->n_layers, "output", j->output, "share", j->share);
        json_object_update_new(o, json_use(&j->use));
        json_object_update_new(o, json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f}", "beside_bytes",
                                            (json_int_t)j->beside_bytes, "reduce_bytes", (json_int_t)j->reduce_bytes,
                                            "overhead_bytes", (json_int_t)j->overhead_bytes, "reserve_bytes",
                                            (json_int_t)j->reserve_bytes, "free_bytes", (json_int_t)j->free_bytes,
                                            "short_bytes", (json_int_t)j->short_bytes, "ms_per_token", j->ms[VR_DECODE],
                                            "prefill_ms", j->ms[VR_PREFILL]));
        json_array_append_new(list, o);
    }
    return list;
}

/* What they take is part of the model's bytes where its tensors are. */
static json_t *json_loras(const struct vr_fit_ask *a)
{
    json_t *list = json_array();
    for (size_t i = 0; i < a->n_loras; i++) {
        char name[256];
        vr_text_fit(name, sizeof name, vr_file_name(a->loras[i].path));
        json_array_append_new(list, json_pack("{s:s, s:f}", "file", name, "scale", (double)a->loras[i].scale));
    }
    return list;
}

static json_t *json_companions(const struct vr_fit_ask *a, const struct vr_outcome *o)
{
    json_t *list = json_array();
    for (size_t i = 0; i < o->n_companions; i++) {
        const struct vr_companion *c = &o->companions[i];
        bool host = c->device < 0;
        json_t *one = json_pack("{s:s, s:s, s:s}", "id", vr_companion_name(c->kind), "name", c->model->name, "device",
                                host ? "host" : a->machine->devices[c->device].id);
        json_object_update_new(one, json_use(host ? &c->host : &c->use));
        json_object_set_new(one, "host_bytes", json_integer((json_int_t)(host ? 0 : vr_use_bytes(&c->host))));
        json_object_set_new(one, c->kind == VR_DRAFT ? "ms_per_token" : "ms_per_picture", json_real(c->ms));
        json_array_append_new(list, one);
    }
    return list;
}

/* Layers of each device; shares in split mode tensor. */
static json_t *json_split(const struct vr_outcome *o)
{
    const struct vr_verdict *v = &o->verdict;
    bool shares = o->trial.split_mode == VR_SPLIT_TENSOR;
    json_t *list = json_array();
    for (size_t i = 0; i < v->n_devices; i++)
        json_array_append_new(list, !shares              ? json_integer(v->devices[i].n_layers + v->devices[i].output)
                                    : o->trial.has_split ? json_real((double)o->trial.split[i])
                                                         : json_integer(1));
    return list;
}

static int n_gpu_layers(const struct vr_outcome *o)
{
    int n = 0;
    for (size_t i = 0; i < o->verdict.n_devices; i++) {
        const struct vr_judged *j = &o->verdict.devices[i];
        if (i == 0 || o->trial.split_mode != VR_SPLIT_TENSOR) n += (int)j->n_layers + j->output;
    }
    return n;
}

static json_t *json_overrides(const struct vr_outcome *o)
{
    json_t *list = json_array();
    for (size_t i = 0; i < o->trial.n_overrides; i++) {
        const struct vr_override *v = &o->trial.overrides[i];
        json_array_append_new(list, json_pack("{s:s, s:s}", "pattern", v->pattern, "device",
                                              v->device == VR_ON_CPU ? "CPU" : o->specs[v->device].name));
    }
    return list;
}

static json_t *json_commands(const struct vr_outcome *o)
{
    VR_AUTO_BUF server = { 0 }, ik = { 0 };
    vr_outcome_flags(o, VR_LLAMA_SERVER, &server);
    vr_outcome_flags(o, VR_IK_LLAMA, &ik);
    return json_pack("{s:s, s:s}", "llama-server", vr_buf_str(&server), "ik_llama.cpp", vr_buf_str(&ik));
}

/* What these need that is no flag. */
static json_t *json_environment(const struct vr_outcome *o)
{
    char least[16];
    snprintf(least, sizeof least, "%" PRIu32, o->trial.offload_min);
    return o->trial.offload_min == VR_OFFLOAD_MIN ? json_object() : json_pack("{s:s}", VR_OFFLOAD_VARIABLE, least);
}

static json_t *json_reasons(const struct vr_machine *m, const struct vr_reason *reasons, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) json_array_append_new(list, vr_json_reason(m, &reasons[i]));
    return list;
}

static json_t *json_shortages(const struct vr_fit_ask *a, const struct vr_outcome *o)
{
    struct vr_reason all[VR_MAX_REASONS];
    return json_reasons(a->machine, all, vr_outcome_shortages(a, o, all));
}

/* Devices that may not be used, and those that are of no use. */
static json_t *json_excluded(const struct vr_fit_ask *a, const struct vr_outcome *o)
{
    json_t *list = vr_json_excluded(a->machine, a->budgets);
    for (size_t i = 0; i < o->n_reasons; i++) {
        const struct vr_reason *r = &o->reasons[i];
        bool left_out = vr_reason_row(r->kind)->about == VR_ABOUT_LEFT_OUT && r->figures[VR_FIGURE_COMPANION] == 0;
        if (left_out) json_array_append_new(list, vr_json_left_out(a->machine, r));
    }
    return list;
}

/* Nobody can tell how often n-grams are right. */
static json_t *json_speculation(const struct vr_outcome *o)
{
    const struct vr_guess_price *g = &o->guesses;
    json_t *tree = json_pack("{s:s, s:i, s:b}", "kind", vr_spec_row(o->trial.spec)->name, "n_draft",
                             (int)o->trial.n_draft, "steered", o->trial.steer);
    if (o->trial.spec == VR_SPEC_NGRAM) return tree;
    json_object_update_new(tree, json_pack("{s:f, s:i, s:f, s:f, s:f}", "acceptance", g->acceptance, "guesses",
                                           (int)g->n, "ms_per_guess", g->ms, "gain", g->gain, "decode_tok_s",
                                           o->verdict.price.decode_tok_s * g->gain));
    return tree;
}

json_t *vr_json_outcome(const struct vr_fit_ask *a, const struct vr_outcome *o)
{
    static const char *const how[] = {
        [VR_HOW_PLANNED] = "planned", [VR_HOW_GIVEN] = "given", [VR_HOW_LLAMA_FIT] = "llama_fit"
    };
    const struct vr_verdict *v = &o->verdict;
    json_t *host = json_use(&v->host);
    json_object_set_new(host, "n_layers", json_integer(v->host_layers));
    json_object_set_new(host, "ms_per_token", json_real(v->host_ms[VR_DECODE]));
    json_object_set_new(host, "cache_bytes", json_integer((json_int_t)(o->trial.cache_mib * VR_MIB)));
    json_object_set_new(host, "short_bytes", json_integer((json_int_t)v->host_short_bytes));
    json_t *tree = json_pack("{s:b, s:b, s:b, s:s, s:f, s:i, s:o, s:o, s:o}", "fits", v->fits, "exact", v->exact,
                             "optimal", o->optimal, "how", how[o->how], "plan_ms", o->ms, "dry_runs", (int)o->dry_runs,
                             "devices", json_devices(a->machine, v), "host", host, "excluded", json_excluded(a, o));
    json_t *predicted = json_pack(
        "{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:b}", "decode_tok_s", v->price.decode_tok_s, "decode_total_tok_s",
        v->price.total_tok_s, "prefill_tok_s", v->price.prefill_tok_s, "decode_empty_tok_s", v->empty.decode_tok_s,
        "decode_full_tok_s", v->full.decode_tok_s, "prefill_empty_tok_s", v->empty.prefill_tok_s, "prefill_full_tok_s",
        v->full.prefill_tok_s, "lower_bound_ms", o->lower_bound, "measured_machine", a->speeds->measured);
    json_object_update_new(
        tree, json_pack("{s:i, s:s, s:o, s:o, s:b, s:b, s:o, s:o, s:o, s:o}", "n_gpu_layers", n_gpu_layers(o),
                        "split_mode", vr_split_mode_name(o->trial.split_mode), "tensor_split", json_split(o),
                        "overrides", json_overrides(o), "pipeline", v->pipeline, "flash_attn", v->flash, "predicted",
                        predicted, "commands", json_commands(o), "reasons",
                        json_reasons(a->machine, o->reasons, o->n_reasons), "shortages", json_shortages(a, o)));
    json_object_set_new(tree, "environment", json_environment(o));
    if (o->trial.spec) json_object_set_new(tree, "speculation", json_speculation(o));
    vr_json_layout(a, o, tree);
    if (o->n_companions) json_object_set_new(tree, "companions", json_companions(a, o));
    if (a->n_loras) json_object_set_new(tree, "loras", json_loras(a));
    return tree;
}
