/* Several models for one machine (fit/together.h), by real plans. They have micro-batches of 512 tokens unless they are
 * told otherwise, and the host's weights mapped: that takes the least memory. Each model is a process of its own, and
 * takes what a process takes on every device that it uses, beside its buffers. */
#include "cli/command/plan_together.h"

#include <math.h>
#include <string.h>

#include "base/table.h"
#include "base/text.h"
#include "cli/models/model_name.h"
#include "cli/load/placement.h"
#include "cli/text/plan_json.h"
#include "cli/text/plan_text.h"
#include "cli/input/presets.h"
#include "cli/text/show.h"
#include "fit/together.h"

#define MOST_PLANS 100

struct member {
    const char *name; /* of its preset, or the model's */
    struct vr_options o;
    struct vr_models models;
    struct vr_outcome best, outcome; /* with the machine to itself; with the others */
    struct vr_err why;               /* it does not fit, or not with the others */
};

struct joint {
    const struct vr_input *in;
    const struct vr_learned *learned;
    struct vr_input *now; /* the machine as one of them finds it */
    struct member members[VR_MAX_TOGETHER];
    size_t n;
    struct vr_together result;
    struct vr_presets presets;
};

/* --- plans --- */

/* Of the devices that it may use, only these; 0: all. */
static void keep_devices(struct vr_budgets *b, uint32_t devices)
{
    size_t n = 0;
    for (size_t i = 0; i < b->n; i++)
        if (!devices || devices >> b->items[i].device & 1) b->items[n++] = b->items[i];
    b->n = n;
}

/* Bytes of an outcome, with what its process takes. */
static struct vr_room room_of(const struct joint *p, const struct vr_outcome *o)
{
    struct vr_room r = vr_room_of(o);
    for (size_t d = 0; d < p->in->machine.n_devices; d++)
        if (r.devices[d])
            r.devices[d] += vr_process_bytes(&p->in->machine.devices[d], vr_budgets_reserve(&p->in->budgets, d));
    return r;
}

/* Plans into g->outcome. VR_ENOFIT is told in g->why, and no failure. */
static bool plan_member(struct joint *p, struct member *g, uint32_t devices, const struct vr_room *taken, bool *fits,
                        struct vr_err *err)
{
    *p->now = *p->in;
    vr_room_take(&p->now->machine, taken);
    if (!vr_input_rest(&g->o, p->now, err)) return false;
    vr_input_learned(p->now, p->learned);
    keep_devices(&p->now->budgets, devices);
    VR_AUTO_FREE struct vr_speeds *speeds = vr_input_speeds(&g->o, p->now, err);
    if (!speeds) return false;
    struct vr_fit_ask ask = vr_placement_ask(&g->o, p->now, &g->models, speeds);
    struct vr_split split;
    vr_placement_learned(&ask, p->learned, &split);
    vr_outcome_done(&g->outcome);
    g->outcome = (struct vr_outcome){ 0 };
    g->why = (struct vr_err){ 0 };
    *fits = vr_placement_find(&g->o, &ask, &g->outcome, &g->why) && vr_outcome_check(&ask, &g->outcome, &g->why);
    return *fits || g->why.code == VR_ENOFIT || vr_fail(err, g->why.code, "%s", g->why.msg);
}

static bool plan(void *ctx, size_t model, uint32_t devices, const struct vr_room *taken, double *cost,
                 struct vr_room *takes, struct vr_err *err)
{
    struct joint *p = ctx;
    struct member *g = &p->members[model];
    bool fits;
    if (!plan_member(p, g, devices, taken, &fits, err)) return false;
    *cost = fits ? g->outcome.verdict.cost[g->outcome.optimize] : INFINITY;
    if (fits) *takes = room_of(p, &g->outcome);
    return true;
}

/* --- all of it --- */

/* Opens p->members[p->n - 1], whose options are set. */
static bool open_member(struct joint *p, const char *model, struct vr_err *err)
{
    struct member *g = &p->members[p->n - 1];
    g->o.model = model;
    g->o.n_more = 0;
    if (!g->o.n_ubatch) g->o.n_ubatch = VR_N_UBATCH_DEFAULT;
    if (strcmp(g->o.host_weights, "auto") == 0) g->o.host_weights = "mapped";
    if (!g->o.offload_min_batch) g->o.offload_min_batch = VR_OFFLOAD_MIN;
    g->o.cache_ram = "0"; /* what they leave of host memory is nobody's yet */
    if (!vr_model_name_resolve(&g->o, VR_NEEDS_HEADER, err) || !vr_models_open(&g->o, &g->models, err)) return false;
    if (!g->name) g->name = g->models.main->name;
    return true;
}

static bool open_words(struct joint *p, const struct vr_options *o, struct vr_err *err)
{
    for (size_t i = 0; i <= o->n_more; i++) {
        struct member *g = &p->members[p->n++];
        g->o = *o;
        if (i) g->o.draft = g->o.mmproj = NULL; /* they belong to the first */
        if (!open_member(p, i ? o->more[i - 1] : o->model, err)) return false;
    }
    return true;
}

static bool open_presets(struct joint *p, const struct vr_options *o, struct vr_err *err)
{
    if (!vr_presets_read(o->preset, &p->presets, err)) return false;
    if (p->presets.n > VR_MAX_TOGETHER)
        return vr_fail(err, VR_EUSAGE, "%s has %zu models; --together plans %d at most", o->preset, p->presets.n,
                       VR_MAX_TOGETHER);
    for (size_t i = 0; i < p->presets.n; i++) {
        const struct vr_preset *x = &p->presets.items[i];
        struct member *g = &p->members[p->n++];
        g->o = *o;
        g->name = x->name;
        if (!vr_options_add(vr_command_find("serve"), x->argc, (char **)(uintptr_t)x->argv, &g->o, err) ||
            !open_member(p, x->model, err))
            return false;
    }
    return true;
}

static void describe(const struct joint *p, struct vr_together_ask *t)
{
    const struct vr_machine *m = &p->in->machine;
    for (size_t i = 0; i < p->in->budgets.n; i++) {
        const struct vr_budget *b = &p->in->budgets.items[i];
        const struct vr_device *d = &m->devices[b->device];
        t->devices |= UINT32_C(1) << b->device;
        /* each process has the reserve: its own part of it, and the rest once */
        t->capacity.devices[b->device] = b->budget_bytes + vr_process_bytes(d, b->reserve_bytes);
        for (size_t e = 0; e <= b->device; e++)
            if (strcmp(m->devices[e].name, d->name) == 0 && m->devices[e].free_bytes == d->free_bytes) {
                t->kinds[b->device] = (uint8_t)e;
                break;
            }
    }
    t->capacity.host = m->host.ram_free_bytes;
}

/* What each is like alone, and with the others, in the order in which they are placed. */
static bool show_plans(struct joint *p, struct vr_err *err)
{
    struct vr_room taken = { 0 };
    bool fits;
    for (size_t i = 0; i < p->n; i++) {
        struct member *g = &p->members[i];
        const struct vr_room none = { 0 };
        if (isinf(p->result.models[i].alone)) continue;
        if (!plan_member(p, g, 0, &none, &fits, err)) return false;
        vr_outcome_move(&g->best, &g->outcome);
    }
    for (size_t k = 0; k < p->result.n; k++) {
        const struct vr_together_model *x = &p->result.models[p->result.order[k]];
        struct member *g = &p->members[p->result.order[k]];
        const struct vr_room none = { 0 };
        /* as the search found it: alone on its devices, or into what others left */
        if (!plan_member(p, g, x->devices, &none, &fits, err)) return false;
        struct vr_room takes = room_of(p, &g->outcome);
        if (memcmp(&takes, &x->takes, sizeof takes) != 0 && !plan_member(p, g, x->devices, &taken, &fits, err))
            return false;
        vr_room_add(&taken, &x->takes);
    }
    return true;
}

/* --- telling --- */

static double tok_s(const struct vr_outcome *o) { return o->verdict.price.decode_tok_s; }

static double slower_percent(const struct member *g)
{
    return fmax(100 * (1 - tok_s(&g->outcome) / tok_s(&g->best)), 0);
}

static const char *why_not(const struct joint *p, size_t i)
{
    return isinf(p->result.models[i].alone) ? p->members[i].why.msg : "fits alone, but not beside the models before it";
}

static uint64_t model_bytes(const struct joint *p, size_t i, size_t device)
{
    uint64_t all = p->result.models[i].takes.devices[device];
    return all -
           (all ? vr_process_bytes(&p->in->machine.devices[device], vr_budgets_reserve(&p->in->budgets, device)) : 0);
}

static json_t *json_member(const struct joint *p, size_t i)
{
    const struct member *g = &p->members[i];
    const struct vr_together_model *x = &p->result.models[i];
    json_t *o =
        json_pack("{s:s, s:o, s:b}", "name", g->name, "model", vr_json_model(g->models.main), "resident", x->resident);
    json_object_set_new(o, "alone_tok_s", isinf(x->alone) ? json_null() : json_real(tok_s(&g->best)));
    if (!x->resident) {
        json_object_set_new(o, "reason", json_string(why_not(p, i)));
        return o;
    }
    json_t *devices = json_array();
    for (size_t d = 0; d < p->in->machine.n_devices; d++)
        if (x->takes.devices[d])
            json_array_append_new(devices, json_pack("{s:s, s:I}", "id", p->in->machine.devices[d].id, "bytes",
                                                     (json_int_t)model_bytes(p, i, d)));
    json_object_update_new(o, json_pack("{s:o, s:I, s:f, s:f, s:f, s:s}", "devices", devices, "host_bytes",
                                        (json_int_t)x->takes.host, "decode_tok_s", tok_s(&g->outcome), "prefill_tok_s",
                                        g->outcome.verdict.price.prefill_tok_s, "slower_percent", slower_percent(g),
                                        "split_mode", vr_split_mode_name(g->outcome.trial.split_mode)));
    return o;
}

static json_t *json_devices(const struct joint *p)
{
    json_t *list = json_array();
    for (size_t k = 0; k < p->in->budgets.n; k++) {
        const struct vr_budget *b = &p->in->budgets.items[k];
        const struct vr_device *d = &p->in->machine.devices[b->device];
        uint64_t used = 0, processes = 0;
        for (size_t i = 0; i < p->n; i++) {
            if (!p->result.models[i].resident || !p->result.models[i].takes.devices[b->device]) continue;
            used += model_bytes(p, i, b->device);
            processes += vr_process_bytes(d, b->reserve_bytes);
        }
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:I, s:I, s:I, s:I}", "id", d->id, "name", d->name, "free_bytes",
                                        (json_int_t)d->free_bytes, "reserve_bytes", (json_int_t)b->reserve_bytes,
                                        "used_bytes", (json_int_t)used, "process_bytes", (json_int_t)processes));
    }
    return list;
}

static json_t *json_joint(const struct joint *p)
{
    json_t *models = json_array(), *order = json_array();
    for (size_t i = 0; i < p->n; i++) json_array_append_new(models, json_member(p, i));
    for (size_t i = 0; i < p->result.n; i++) json_array_append_new(order, json_integer((json_int_t)p->result.order[i]));
    return json_pack("{s:o, s:o, s:o, s:b, s:i}", "together", models, "order", order, "devices", json_devices(p),
                     "exact", p->result.exact, "plans", (int)p->result.plans);
}

/* "CUDA0 18,260, CUDA1 4,100, host 563" */
static void place_cell(struct vr_table *t, const struct joint *p, size_t i)
{
    VR_AUTO_BUF text = { 0 };
    struct vr_num x;
    for (size_t d = 0; d < p->in->machine.n_devices; d++)
        if (p->result.models[i].takes.devices[d])
            vr_buf_addf(&text, "%s%s %s", text.n ? ", " : "", p->in->machine.devices[d].id,
                        vr_fmt_mib(&x, model_bytes(p, i, d), 0));
    if (p->result.models[i].takes.host >= VR_MIB)
        vr_buf_addf(&text, "%shost %s", text.n ? ", " : "", vr_fmt_mib(&x, p->result.models[i].takes.host, 0));
    vr_table_cell(t, "%s", vr_buf_str(&text));
}

static void show_models(const struct joint *p, struct vr_buf *out)
{
    VR_AUTO_TABLE t = { .cols = { { "model" },
                                  { "where (MiB)" },
                                  { "tokens/s", .right = true },
                                  { "alone", .right = true },
                                  { "slower", .right = true },
                                  { "prompts", .right = true } },
                        .n_cols = 6,
                        .indent = "  ",
                        .color = vr_show_color() };
    struct vr_num n;
    for (size_t i = 0; i < p->n; i++) {
        const struct member *g = &p->members[i];
        if (!p->result.models[i].resident) continue;
        vr_table_row(&t);
        vr_table_cell(&t, "%s", g->name);
        place_cell(&t, p, i);
        vr_table_cell(&t, "%.1f", tok_s(&g->outcome));
        vr_table_cell(&t, "%.1f", tok_s(&g->best));
        vr_table_cell(&t, "%.0f %%", slower_percent(g));
        vr_table_cell(&t, "%s", vr_fmt_count(&n, (uint64_t)g->outcome.verdict.price.prefill_tok_s));
    }
    if (p->result.n) vr_table_print(&t, out);
    for (size_t i = 0; i < p->n; i++)
        if (!p->result.models[i].resident) vr_buf_addf(out, "  %s: %s.\n", p->members[i].name, why_not(p, i));
}

static void show_cards(const struct joint *p, struct vr_buf *out)
{
    VR_AUTO_TABLE t = { .cols = { { "device" },
                                  { "name" },
                                  { "free", .right = true },
                                  { "models", .right = true },
                                  { "processes", .right = true },
                                  { "left", .right = true } },
                        .n_cols = 6,
                        .indent = "  ",
                        .color = vr_show_color() };
    struct vr_num x;
    json_t *rows = json_devices(p), *row;
    size_t k;
    json_array_foreach(rows, k, row)
    {
        uint64_t is_free = (uint64_t)json_integer_value(json_object_get(row, "free_bytes"));
        uint64_t used = (uint64_t)json_integer_value(json_object_get(row, "used_bytes"));
        uint64_t processes = (uint64_t)json_integer_value(json_object_get(row, "process_bytes"));
        vr_table_row(&t);
        vr_table_cell(&t, "%s", json_string_value(json_object_get(row, "id")));
        vr_table_cell(&t, "%s", json_string_value(json_object_get(row, "name")));
        vr_table_cell(&t, "%s", vr_fmt_mib(&x, is_free, 0));
        vr_table_cell(&t, "%s", vr_fmt_mib(&x, used, 0));
        vr_table_cell(&t, "%s", vr_fmt_mib(&x, processes, 0));
        vr_table_cell(&t, "%s", vr_fmt_mib(&x, is_free > used + processes ? is_free - used - processes : 0, 0));
    }
    json_decref(rows);
    if (p->in->budgets.n) vr_table_print(&t, out);
}

static void show_joint(const struct joint *p, struct vr_buf *out)
{
    char title[96];
    if (p->result.n < p->n)
        snprintf(title, sizeof title, "%zu of %zu models can be loaded at once", p->result.n, p->n);
    else if (p->n > 2)
        snprintf(title, sizeof title, "All %zu models can be loaded at once", p->n);
    else
        snprintf(title, sizeof title, p->n == 2 ? "Both models can be loaded at once" : "The model can be loaded");
    vr_show_title(out, title);
    show_models(p, out);
    vr_buf_adds(out, "\n");
    show_cards(p, out);
    vr_buf_addf(out, "\n  %u plans; %s.\n", p->result.plans,
                p->result.exact ? "no other order or choice of devices makes them faster together"
                                : "not all orders and choices of devices were tried");
}

static void joint_free(struct joint *p)
{
    if (!p) return;
    for (size_t i = 0; i < p->n; i++) {
        vr_models_done(&p->members[i].models);
        vr_outcome_done(&p->members[i].best);
        vr_outcome_done(&p->members[i].outcome);
    }
    vr_input_free(p->now);
    vr_presets_done(&p->presets);
    free(p);
}

static bool plan_joint(struct joint *p, const struct vr_options *o, struct vr_buf *out, struct vr_err *err)
{
    struct vr_together_ask t = { .most_plans = MOST_PLANS, .plan = plan, .ctx = p };
    if (!(o->preset ? open_presets : open_words)(p, o, err)) return false;
    t.n_models = p->n;
    describe(p, &t);
    if (!vr_together_solve(&t, &p->result, err) || !show_plans(p, err)) return false;
    if (o->json) return vr_json_print(json_joint(p), out, err);
    show_joint(p, out);
    return true;
}

bool vr_plan_together(const struct vr_options *o, const struct vr_input *in, const struct vr_learned *learned,
                      struct vr_buf *out, struct vr_err *err)
{
    if (!o->model && !o->preset)
        return vr_fail(err, VR_EUSAGE, "--together needs the models to plan for, or their file (--preset)");
    if (o->model && o->preset)
        return vr_fail(err, VR_EUSAGE, "give models on the command line or in a preset file (--preset), not both");
    if (o->n_more + 1 > VR_MAX_TOGETHER)
        return vr_fail(err, VR_EUSAGE, "--together plans %d models at most", VR_MAX_TOGETHER);
    if (o->svg) return vr_fail(err, VR_EUSAGE, "--svg draws one model: leave out --together");
    struct joint *p = calloc(1, sizeof *p);
    if (p) *p = (struct joint){ .in = in, .learned = learned, .now = vr_input_new(err) };
    bool ok = (p && p->now) || vr_fail_nomem(err, "planning");
    ok = ok && plan_joint(p, o, out, err);
    joint_free(p);
    return ok;
}
