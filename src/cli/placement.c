/* `plan FILE`: a placement, judged. */
#include "cli/placement.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/table.h"
#include "base/text.h"
#include "cli/layout.h"
#include "hw/gpus.h"

#define FILL 0.5 /* of the context, when speeds are told */

struct vr_fit_ask vr_placement_ask(const struct vr_options *o, const struct vr_input *in, const struct vr_models *m,
                                   const struct vr_speeds *speeds)
{
    return (struct vr_fit_ask){ .model = m->main,
                                .companions = { m->companions[VR_DRAFT], m->companions[VR_MMPROJ] },
                                .machine = &in->machine,
                                .budgets = &in->budgets,
                                .speeds = speeds,
                                .context = in->context,
                                .flash_auto = strcmp(o->flash_attn, "auto") == 0,
                                .embeddings = o->embeddings,
                                .fill = FILL };
}

/* --- what the user fixed --- */

struct wishes {
    struct vr_goal wish;
    struct vr_fixed_override overrides[64];
    size_t n;
    char text[4096]; /* patterns point into it */
};

static bool parse_split(const char *list, double out[VR_MAX_DEVICES], size_t *n, struct vr_err *err)
{
    *n = 0;
    for (const char *at = list;; at++) {
        char word[40];
        size_t k = strcspn(at, ",");
        snprintf(word, sizeof word, "%.*s", k < sizeof word ? (int)k : 0, at);
        if (*n == VR_MAX_DEVICES || !vr_parse_double(word, &out[*n]) || out[*n] < 0)
            return vr_fail(err, VR_EUSAGE,
                           "--tensor-split: '%s' is not a list of shares like 0.35,0.45,0.20 or of layer counts", list);
        (*n)++;
        at += k;
        if (!*at) return true;
    }
}

static bool parse_split_mode(const char *name, enum vr_split_mode *out, struct vr_err *err)
{
    if (strcmp(name, "row") == 0)
        return vr_fail(err, VR_EUSAGE,
                       "--split-mode row: this engine no longer splits rows over CUDA devices (loading fails); "
                       "layer is as fast for one stream and works everywhere");
    if (strcmp(name, "tensor") == 0)
        return vr_fail(err, VR_EUSAGE,
                       "--split-mode tensor: its buffers are not part of what can be proven without a GPU; "
                       "use layer");
    *out = strcmp(name, "none") == 0 ? VR_SPLIT_NONE : VR_SPLIT_LAYER;
    return true;
}

static bool parse_gpu_layers(const char *text, int *out, struct vr_err *err)
{
    uint64_t n;
    if (strcmp(text, "-1") == 0 || strcmp(text, "all") == 0) return *out = -1, true;
    if (!vr_parse_u64(text, 0, 100000, &n))
        return vr_fail(err, VR_EUSAGE, "--n-gpu-layers: '%s' is not a whole number, nor -1 for all", text);
    *out = (int)n;
    return true;
}

/* The user's overrides for the planner: devices of the machine. */
static bool parse_overrides(const char *list, const struct vr_fit_ask *ask, struct wishes *w, struct vr_err *err)
{
    snprintf(w->text, sizeof w->text, "%s", list);
    if (strlen(list) >= sizeof w->text)
        return vr_fail(err, VR_EUSAGE, "--override-tensor: longer than %zu bytes", sizeof w->text);
    for (char *save = NULL, *one = strtok_r(w->text, ",", &save); one; one = strtok_r(NULL, ",", &save)) {
        const char *pattern, *id;
        if (!vr_override_split(one, &pattern, &id, err) || !vr_override_check(ask->model, pattern, err)) return false;
        int device = strcasecmp(id, "CPU") == 0 ? -1 : -2;
        for (size_t i = 0; i < ask->budgets->n && device == -2; i++)
            if (strcasecmp(ask->machine->devices[ask->budgets->items[i].device].id, id) == 0)
                device = ask->budgets->items[i].device;
        if (device == -2) return vr_fail(err, VR_EUSAGE, "--override-tensor: there is no device '%s' to use", id);
        if (w->n == VR_COUNT(w->overrides)) return vr_fail(err, VR_EUSAGE, "--override-tensor: more than %zu", w->n);
        w->overrides[w->n++] = (struct vr_fixed_override){ pattern, device };
    }
    w->wish.fixed.overrides = w->overrides;
    w->wish.fixed.n_overrides = w->n;
    return true;
}

static bool plan_it(const struct vr_options *o, const struct vr_fit_ask *ask, int n_gpu_layers, struct vr_outcome *out,
                    struct vr_err *err)
{
    struct wishes w = { 0 };
    w.wish.optimize = strcmp(o->optimize, "prefill") == 0    ? VR_OPTIMIZE_PREFILL
                      : strcmp(o->optimize, "balanced") == 0 ? VR_OPTIMIZE_BALANCED
                                                             : VR_OPTIMIZE_DECODE;
    w.wish.fixed.order = strcmp(o->device_order, "auto") != 0;
    w.wish.fixed.has_gpu_layers = n_gpu_layers >= 0;
    w.wish.fixed.n_gpu_layers = n_gpu_layers >= 0 ? (uint32_t)n_gpu_layers : 0;
    if (o->override_tensor && !parse_overrides(o->override_tensor, ask, &w, err)) return false;
    return ask->context.n_ctx ? vr_fit_plan(ask, &w.wish, out, err) : vr_fit_largest(ask, &w.wish, out, err);
}

/* May `what` be changed to make it fit? */
static bool allowed(const char *list, const char *what)
{
    size_t n = strlen(what);
    for (const char *at = list; at && *at; at += strcspn(at, ","), at += *at == ',')
        if (strncmp(at, what, n) == 0 && (at[n] == ',' || !at[n])) return true;
    return false;
}

static bool check_allow(const char *list, struct vr_err *err)
{
    for (const char *at = list; at && *at; at += strcspn(at, ","), at += *at == ',') {
        size_t n = strcspn(at, ",");
        if (!(n == 3 && strncmp(at, "ctx", 3) == 0) && !(n == 2 && strncmp(at, "kv", 2) == 0) &&
            !(n == 3 && strncmp(at, "cpu", 3) == 0))
            return vr_fail(err, VR_EUSAGE, "--allow: '%.*s' is none of ctx, kv, cpu", (int)n, at);
    }
    return true;
}

/* What would make it fit, smallest change first; `ask` is changed, and `how` says what was done. */
static bool relax(const struct vr_options *o, struct vr_fit_ask *ask, int step, char *how, size_t n)
{
    static const char *const caches[] = { "q8_0", "q4_0" };
    struct vr_num num;
    bool kv = allowed(o->allow, "kv"), ctx = allowed(o->allow, "ctx");
    size_t n_caches = kv ? VR_COUNT(caches) : 0;
    if ((size_t)step < n_caches) {
        ask->context.type_k = ask->context.type_v = vr_type_by_name(caches[step]);
        snprintf(how, n, "planned with a %s cache, because f16 does not fit", caches[step]);
        return true;
    }
    if (!ctx || ask->context.n_ctx <= 512) return false;
    ask->context.n_ctx /= 2;
    snprintf(how, n, "planned for %s tokens of context, because more does not fit",
             vr_fmt_count(&num, ask->context.n_ctx));
    return true;
}

bool vr_placement_find(const struct vr_options *o, struct vr_fit_ask *ask, struct vr_outcome *out, struct vr_err *err)
{
    struct vr_given given = { .overrides = o->override_tensor };
    double split[VR_MAX_DEVICES];
    if (!parse_split_mode(o->split_mode, &given.split_mode, err) ||
        !parse_gpu_layers(o->n_gpu_layers, &given.n_gpu_layers, err) || !check_allow(o->allow, err))
        return false;
    if (o->use_fit_params) {
        if (o->tensor_split || o->override_tensor)
            return vr_fail(err, VR_EUSAGE,
                           "--use-fit-params lets llama.cpp choose: leave out --tensor-split and --override-tensor");
        return vr_fit_llama(ask, out, err);
    }
    if (o->tensor_split || given.split_mode == VR_SPLIT_NONE) {
        if (o->tensor_split && strcmp(o->tensor_split, "free") != 0) {
            if (!parse_split(o->tensor_split, split, &given.n_split, err)) return false;
            given.split = split;
        }
        return vr_fit_given(ask, &given, out, err);
    }
    static char how[96];
    bool ok = plan_it(o, ask, given.n_gpu_layers, out, err);
    for (int step = 0; !ok && err->code == VR_ENOFIT && relax(o, ask, step, how, sizeof how); step++) {
        ok = plan_it(o, ask, given.n_gpu_layers, out, err);
        if (ok) out->how = how;
    }
    return ok;
}

/* --- for people --- */

static void layers_cell(struct vr_table *t, uint32_t first, uint32_t n, bool output)
{
    if (n > 1)
        vr_table_cell(t, "%" PRIu32 "-%" PRIu32 "%s", first, first + n - 1, output ? ", output" : "");
    else if (n)
        vr_table_cell(t, "%" PRIu32 "%s", first, output ? ", output" : "");
    else
        vr_table_cell(t, "%s", output ? "output" : "-");
}

static void mib_cell(struct vr_table *t, uint64_t bytes)
{
    struct vr_num num;
    vr_table_cell(t, "%s", bytes ? vr_fmt_mib(&num, bytes, 0) : "-");
}

static uint64_t sum_of(const struct vr_use *u) { return u->model_bytes + u->context_bytes + u->compute_bytes; }

/* A companion, below the place where it is. */
static void companion_row(struct vr_table *t, const struct vr_companion *c)
{
    const struct vr_use *u = c->device < 0 ? &c->host : &c->use;
    vr_table_row(t);
    vr_table_cell(t, "  + %s", vr_companion_name(c->kind));
    vr_table_cell(t, "%s", c->model->name);
    vr_table_cell(t, "all");
    mib_cell(t, u->model_bytes);
    mib_cell(t, u->context_bytes);
    mib_cell(t, u->compute_bytes);
    mib_cell(t, sum_of(u));
    vr_table_cell(t, "%s", "");
    vr_table_cell(t, "%s", "");
    if (c->kind == VR_DRAFT)
        vr_table_cell(t, "%.2f", c->ms);
    else
        vr_table_cell(t, "-");
}

static void companion_rows(struct vr_table *t, const struct vr_outcome *o, int device)
{
    for (size_t i = 0; i < o->n_companions; i++)
        if (o->companions[i].device == device) companion_row(t, &o->companions[i]);
}

/* A device that companions have to themselves. */
static void guest_rows(struct vr_table *t, const struct vr_fit_ask *a, const struct vr_outcome *o)
{
    for (size_t b = 0; b < a->budgets->n; b++) {
        const struct vr_budget *budget = &a->budgets->items[b];
        uint64_t guests = vr_outcome_companion_bytes(o, budget->device);
        bool has_row = false;
        for (size_t i = 0; i < o->verdict.n_devices; i++) has_row |= o->verdict.devices[i].device == budget->device;
        if (!guests || has_row) continue;
        vr_table_row(t);
        vr_table_cell(t, "%s", a->machine->devices[budget->device].id);
        vr_table_cell(t, "%s", a->machine->devices[budget->device].name);
        for (int i = 0; i < 5; i++) vr_table_cell(t, "-");
        mib_cell(t, budget->budget_bytes);
        vr_table_cell(t, "%.0f %%", 100.0 * (double)guests / (double)budget->budget_bytes);
        vr_table_cell(t, "-");
        companion_rows(t, o, budget->device);
    }
}

static void device_row(struct vr_table *t, const struct vr_machine *m, const struct vr_outcome *o,
                       const struct vr_judged *j)
{
    uint64_t used = sum_of(&j->use), all = used + vr_outcome_companion_bytes(o, j->device),
             budget = j->free_bytes > j->reserve_bytes ? j->free_bytes - j->reserve_bytes : 0;
    vr_table_row(t);
    vr_table_cell(t, "%s", m->devices[j->device].id);
    vr_table_cell(t, "%s", m->devices[j->device].name);
    layers_cell(t, j->first_layer, j->n_layers, j->output);
    mib_cell(t, j->use.model_bytes);
    mib_cell(t, j->use.context_bytes);
    mib_cell(t, j->use.compute_bytes);
    mib_cell(t, used);
    mib_cell(t, budget);
    vr_table_cell(t, "%s%.0f %%%s", vr_style(t->color, j->over_bytes ? VR_RED : VR_GREEN),
                  budget ? 100.0 * (double)all / (double)budget : 0.0, vr_style(t->color, VR_PLAIN));
    vr_table_cell(t, "%.2f", j->ms[VR_DECODE]);
    companion_rows(t, o, j->device);
}

static void host_row(struct vr_table *t, const struct vr_machine *m, const struct vr_outcome *o)
{
    const struct vr_verdict *v = &o->verdict;
    uint64_t all = sum_of(&v->host);
    for (size_t i = 0; i < o->n_companions; i++) all += sum_of(&o->companions[i].host);
    vr_table_row(t);
    vr_table_cell(t, "host");
    vr_table_cell(t, "%s", *m->host.cpu ? m->host.cpu : "");
    layers_cell(t, 0, v->host_layers, false);
    mib_cell(t, v->host.model_bytes);
    mib_cell(t, v->host.context_bytes);
    mib_cell(t, v->host.compute_bytes);
    mib_cell(t, sum_of(&v->host));
    mib_cell(t, m->host.ram_free_bytes);
    vr_table_cell(t, "%.0f %%", m->host.ram_free_bytes ? 100.0 * (double)all / (double)m->host.ram_free_bytes : 0.0);
    vr_table_cell(t, "%.2f", v->host_ms[VR_DECODE]);
    companion_rows(t, o, -1);
}

bool vr_outcome_check(const struct vr_fit_ask *a, const struct vr_outcome *o, struct vr_err *err)
{
    const struct vr_verdict *v = &o->verdict;
    struct vr_num x, y, z;
    if (v->fits) return true;
    vr_fail(err, VR_ENOFIT, "it does not fit:");
    const char *comma = "";
    for (size_t i = 0; i < v->n_devices; i++, comma = err->msg[strlen(err->msg) - 1] == ':' ? "" : ";") {
        const struct vr_judged *j = &v->devices[i];
        const struct vr_device *d = &a->machine->devices[j->device];
        uint64_t guests = vr_outcome_companion_bytes(o, j->device);
        if (guests && j->over_bytes)
            vr_fail_more(err, "%s %s (%s) lacks %s MiB beside the companions that take %s MiB of it", comma, d->id,
                         d->name, vr_fmt_mib(&x, j->over_bytes, 0), vr_fmt_mib(&y, guests, 0));
        else if (j->short_bytes)
            vr_fail_more(err, "%s %s (%s) is %s MiB short: it needs %s of the %s MiB that are free", comma, d->id,
                         d->name, vr_fmt_mib(&x, j->short_bytes, 0), vr_fmt_mib(&y, sum_of(&j->use), 0),
                         vr_fmt_mib(&z, j->free_bytes, 0));
        else if (j->no_cache)
            vr_fail_more(err,
                         "%s %s (%s) gets layers %" PRIu32 "-%" PRIu32
                         ", none of which has attention: the engine cannot "
                         "allocate an empty cache there",
                         comma, d->id, d->name, j->first_layer, j->first_layer + j->n_layers - 1);
        else if (j->over_bytes)
            vr_fail_more(err, "%s %s (%s) needs %s MiB of its reserve of %s MiB", comma, d->id, d->name,
                         vr_fmt_mib(&x, j->over_bytes, 0), vr_fmt_mib(&y, j->reserve_bytes, 0));
    }
    if (v->host_no_cache)
        vr_fail_more(err, "%s none of the layers on the host has attention: the engine cannot allocate an empty cache",
                     comma);
    if (v->host_short_bytes)
        vr_fail_more(err, "%s the host is %s MiB short, %s MiB are free", comma, vr_fmt_mib(&x, v->host_short_bytes, 0),
                     vr_fmt_mib(&y, a->machine->host.ram_free_bytes, 0));
    return false;
}

void vr_show_outcome(struct vr_buf *out, const struct vr_fit_ask *a, const struct vr_outcome *o)
{
    const struct vr_verdict *v = &o->verdict;
    struct vr_num x;
    VR_AUTO_TABLE t = { .cols = { { "device", false },
                                  { "name", false },
                                  { "layers", false },
                                  { "weights", true },
                                  { "KV", true },
                                  { "compute", true },
                                  { "used", true },
                                  { "budget MiB", true },
                                  { "", true },
                                  { "ms/token", true } },
                        .n_cols = 10,
                        .indent = "  ",
                        .color = vr_show_color() };
    vr_show_title(out, a->model->name);
    vr_show_fact(out, "plan", "%s, %s tokens of context, %s/%s cache, flash attention %s, pipeline copies %s", o->how,
                 vr_fmt_count(&x, v->n_ctx), vr_type(o->trial.context.type_k)->name,
                 vr_type(o->trial.context.type_v)->name, v->flash ? "on" : "off", v->pipeline ? "on" : "off");
    vr_buf_adds(out, "\n");
    for (size_t i = 0; i < v->n_devices; i++) device_row(&t, a->machine, o, &v->devices[i]);
    guest_rows(&t, a, o);
    vr_table_rule(&t);
    host_row(&t, a->machine, o);
    vr_table_print(&t, out);
    vr_buf_adds(out, "\n");
    char copies[64] = "";
    double copy_ms = v->price.copy_ms[VR_DECODE];
    if (copy_ms >= 0.005) snprintf(copies, sizeof copies, ", %.2f of them between devices", copy_ms);
    vr_buf_addf(out, "  %s%s%s %.1f tokens/s (%.1f ms per token%s), prompt %s tokens/s.\n",
                vr_style(t.color, v->fits ? VR_GREEN : VR_RED),
                v->fits ? "It fits. Predicted:" : "It does not fit. If it did:", vr_style(t.color, VR_PLAIN),
                v->price.decode_tok_s, v->price.step_ms[VR_DECODE], copies,
                vr_fmt_count(&x, (uint64_t)(v->price.prefill_tok_s + 0.5)));
    for (size_t i = 0; i < a->budgets->n_excluded; i++) {
        const struct vr_device *d = &a->machine->devices[a->budgets->excluded[i].device];
        vr_buf_addf(out, "  - %s (%s) left out: %s.\n", d->id, vr_gpu_short(d->name), a->budgets->excluded[i].reason);
    }
    for (size_t i = 0; i < o->n_reasons; i++) vr_buf_addf(out, "  - %s.\n", o->reasons[i]);
    if (!v->exact) vr_buf_addf(out, "  Not exact: %s.\n", v->inexact);
    vr_buf_addf(out, "  Asked of the engine without a GPU: %" PRIu32 " dry run%s, %.0f ms.\n", o->dry_runs,
                o->dry_runs == 1 ? "" : "s", o->ms);
}

/* --- for programs --- */

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
        json_t *o = json_pack("{s:s, s:s, s:i, s:i, s:b}", "id", d->id, "name", d->name, "first_layer",
                              (int)j->first_layer, "n_layers", (int)j->n_layers, "output", j->output);
        json_object_update_new(o, json_use(&j->use));
        json_object_update_new(o, json_pack("{s:I, s:I, s:I, s:I, s:f, s:f}", "overhead_bytes",
                                            (json_int_t)j->overhead_bytes, "reserve_bytes",
                                            (json_int_t)j->reserve_bytes, "free_bytes", (json_int_t)j->free_bytes,
                                            "short_bytes", (json_int_t)j->short_bytes, "ms_per_token", j->ms[VR_DECODE],
                                            "prefill_ms", j->ms[VR_PREFILL]));
        json_array_append_new(list, o);
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
        json_object_set_new(one, "host_bytes", json_integer((json_int_t)(host ? 0 : sum_of(&c->host))));
        json_object_set_new(one, c->kind == VR_DRAFT ? "ms_per_token" : "ms_per_picture", json_real(c->ms));
        json_array_append_new(list, one);
    }
    return list;
}

static json_t *json_split(const struct vr_verdict *v)
{
    json_t *list = json_array();
    for (size_t i = 0; i < v->n_devices; i++)
        json_array_append_new(list, json_integer(v->devices[i].n_layers + v->devices[i].output));
    return list;
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

/* Devices that may not be used, and those that are of no use. */
static json_t *json_excluded(const struct vr_fit_ask *a, const struct vr_outcome *o)
{
    json_t *list = json_array();
    for (size_t i = 0; i < a->budgets->n_excluded; i++) {
        const struct vr_excluded *e = &a->budgets->excluded[i];
        const struct vr_device *d = &a->machine->devices[e->device];
        json_array_append_new(list, json_pack("{s:s, s:s, s:s}", "id", d->id, "name", d->name, "reason", e->reason));
    }
    for (size_t b = 0; b < a->budgets->n; b++) {
        const struct vr_device *d = &a->machine->devices[a->budgets->items[b].device];
        bool in_use = false;
        for (size_t i = 0; i < o->verdict.n_devices; i++)
            in_use |= o->verdict.devices[i].device == a->budgets->items[b].device;
        size_t n = strlen(d->id);
        for (size_t i = 0; i < o->n_reasons && !in_use; i++)
            if (strncmp(o->reasons[i], d->id, n) == 0 && o->reasons[i][n] == ' ')
                json_array_append_new(
                    list, json_pack("{s:s, s:s, s:s}", "id", d->id, "name", d->name, "reason", o->reasons[i]));
    }
    return list;
}

static json_t *json_reasons(const struct vr_outcome *o)
{
    json_t *list = json_array();
    for (size_t i = 0; i < o->n_reasons; i++) json_array_append_new(list, json_string(o->reasons[i]));
    return list;
}

json_t *vr_json_outcome(const struct vr_fit_ask *a, const struct vr_outcome *o)
{
    const struct vr_verdict *v = &o->verdict;
    int n_gpu = 0;
    for (size_t i = 0; i < v->n_devices; i++) n_gpu += (int)v->devices[i].n_layers + v->devices[i].output;
    json_t *host = json_use(&v->host);
    json_object_set_new(host, "n_layers", json_integer(v->host_layers));
    json_object_set_new(host, "ms_per_token", json_real(v->host_ms[VR_DECODE]));
    json_object_set_new(host, "short_bytes", json_integer((json_int_t)v->host_short_bytes));
    json_t *tree = json_pack("{s:b, s:b, s:b, s:s, s:f, s:i, s:o, s:o, s:o}", "fits", v->fits, "exact", v->exact,
                             "optimal", o->optimal, "how", o->how, "plan_ms", o->ms, "dry_runs", (int)o->dry_runs,
                             "devices", json_devices(a->machine, v), "host", host, "excluded", json_excluded(a, o));
    json_t *predicted =
        json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:b}", "decode_tok_s", v->price.decode_tok_s, "prefill_tok_s",
                  v->price.prefill_tok_s, "decode_empty_tok_s", v->empty.decode_tok_s, "decode_full_tok_s",
                  v->full.decode_tok_s, "prefill_empty_tok_s", v->empty.prefill_tok_s, "prefill_full_tok_s",
                  v->full.prefill_tok_s, "lower_bound_ms", o->lower_bound_ms, "measured_machine", a->speeds->measured);
    json_object_update_new(tree, json_pack("{s:i, s:o, s:o, s:b, s:b, s:o, s:o, s:o}", "n_gpu_layers", n_gpu,
                                           "tensor_split", json_split(v), "overrides", json_overrides(o), "pipeline",
                                           v->pipeline, "flash_attn", v->flash, "predicted", predicted, "commands",
                                           json_commands(o), "reasons", json_reasons(o)));
    vr_json_layout(a, o, tree);
    if (o->n_companions) json_object_set_new(tree, "companions", json_companions(a, o));
    return tree;
}
