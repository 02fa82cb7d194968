/* The plan as a table of places, then what it is worth and why it is so. */
#include "cli/text/plan_text.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/table.h"
#include "base/text.h"
#include "cli/text/reason_text.h"
#include "cli/text/show.h"

struct sheet {
    struct vr_table table;
    const struct vr_fit_ask *a;
    const struct vr_outcome *o;
    bool scratch; /* some device needs memory beside its buffers: there is a column for it */
};

/* --- the table --- */

static void layers_cell(struct vr_table *t, uint32_t first, uint32_t n, bool output, double share)
{
    char part[16] = "";
    if (share < 1 && (n || output)) snprintf(part, sizeof part, "%.0f %% of ", 100 * share);
    if (n > 1)
        vr_table_cell(t, "%s%" PRIu32 "-%" PRIu32 "%s", part, first, first + n - 1, output ? ", output" : "");
    else if (n)
        vr_table_cell(t, "%s%" PRIu32 "%s", part, first, output ? ", output" : "");
    else
        vr_table_cell(t, "%s%s", part, output ? "output" : "-");
}

static void mib_cell(struct vr_table *t, uint64_t bytes)
{
    struct vr_num num;
    vr_table_cell(t, "%s", bytes ? vr_fmt_mib(&num, bytes, 0) : "-");
}

/* Weights, KV, compute, scratch, and all of them. */
static void use_cells(struct sheet *s, const struct vr_use *u, uint64_t beside)
{
    mib_cell(&s->table, u->model_bytes);
    mib_cell(&s->table, u->context_bytes);
    mib_cell(&s->table, u->compute_bytes);
    if (s->scratch) mib_cell(&s->table, beside);
    mib_cell(&s->table, vr_use_bytes(u) + beside);
}

/* A budget, and how much of it is used. */
static void budget_cells(struct vr_table *t, uint64_t budget, uint64_t used, const char *style)
{
    mib_cell(t, budget);
    vr_table_cell(t, "%s%.0f %%%s", style, budget ? 100.0 * (double)used / (double)budget : 0.0,
                  *style ? vr_style(t->color, VR_PLAIN) : "");
}

/* A companion, below the place where it is. */
static void companion_row(struct sheet *s, const struct vr_companion *c)
{
    struct vr_table *t = &s->table;
    vr_table_row(t);
    vr_table_cell(t, "  + %s", vr_companion_name(c->kind));
    vr_table_cell(t, "%s", c->model->name);
    vr_table_cell(t, "all");
    use_cells(s, c->device < 0 ? &c->host : &c->use, 0);
    vr_table_cell(t, "%s", "");
    vr_table_cell(t, "%s", "");
    if (c->kind == VR_DRAFT)
        vr_table_cell(t, "%.2f", c->ms);
    else
        vr_table_cell(t, "-");
}

static void companion_rows(struct sheet *s, int device)
{
    for (size_t i = 0; i < s->o->n_companions; i++)
        if (s->o->companions[i].device == device) companion_row(s, &s->o->companions[i]);
}

/* Devices that companions have to themselves. */
static void companion_devices(struct sheet *s)
{
    const struct vr_budgets *b = s->a->budgets;
    for (size_t k = 0; k < b->n; k++) {
        const struct vr_device *d = &s->a->machine->devices[b->items[k].device];
        uint64_t bytes = vr_outcome_companion_bytes(s->o, b->items[k].device);
        bool has_row = false;
        for (size_t i = 0; i < s->o->verdict.n_devices; i++)
            has_row |= s->o->verdict.devices[i].device == b->items[k].device;
        if (!bytes || has_row) continue;
        vr_table_row(&s->table);
        vr_table_cell(&s->table, "%s", d->id);
        vr_table_cell(&s->table, "%s", d->name);
        vr_table_cell(&s->table, "-");
        use_cells(s, &(struct vr_use){ 0 }, 0);
        budget_cells(&s->table, b->items[k].budget_bytes, bytes, "");
        vr_table_cell(&s->table, "-");
        companion_rows(s, b->items[k].device);
    }
}

static void device_row(struct sheet *s, const struct vr_judged *j)
{
    struct vr_table *t = &s->table;
    const struct vr_device *d = &s->a->machine->devices[j->device];
    uint64_t budget = j->free_bytes > j->reserve_bytes ? j->free_bytes - j->reserve_bytes : 0;
    vr_table_row(t);
    vr_table_cell(t, "%s", d->id);
    vr_table_cell(t, "%s", d->name);
    layers_cell(t, j->first_layer, j->n_layers, j->output, j->share);
    use_cells(s, &j->use, j->beside_bytes);
    budget_cells(t, budget, vr_judged_bytes(j) + vr_outcome_companion_bytes(s->o, j->device),
                 vr_style(t->color, j->over_bytes ? VR_RED : VR_GREEN));
    vr_table_cell(t, "%.2f", j->ms[VR_DECODE]);
    companion_rows(s, j->device);
}

static void host_row(struct sheet *s)
{
    const struct vr_verdict *v = &s->o->verdict;
    const struct vr_host *h = &s->a->machine->host;
    uint64_t all = vr_use_bytes(&v->host);
    for (size_t i = 0; i < s->o->n_companions; i++) all += vr_use_bytes(&s->o->companions[i].host);
    vr_table_row(&s->table);
    vr_table_cell(&s->table, "host");
    vr_table_cell(&s->table, "%s", h->cpu);
    layers_cell(&s->table, 0, v->host_layers, false, 1);
    use_cells(s, &v->host, 0);
    budget_cells(&s->table, h->ram_free_bytes, all, "");
    vr_table_cell(&s->table, "%.2f", v->host_ms[VR_DECODE]);
    companion_rows(s, -1);
}

static void add_column(struct vr_table *t, const char *title, bool right)
{
    t->cols[t->n_cols++] = (struct vr_col){ title, right };
}

static void show_places(struct vr_buf *out, const struct vr_fit_ask *a, const struct vr_outcome *o)
{
    const struct vr_verdict *v = &o->verdict;
    struct sheet s = { .a = a, .o = o, .table = { .indent = "  ", .color = vr_show_color() } };
    for (size_t i = 0; i < v->n_devices; i++) s.scratch |= v->devices[i].beside_bytes > 0;
    add_column(&s.table, "device", false);
    add_column(&s.table, "name", false);
    add_column(&s.table, "layers", false);
    add_column(&s.table, "weights", true);
    add_column(&s.table, "KV", true);
    add_column(&s.table, "compute", true);
    if (s.scratch) add_column(&s.table, "scratch", true);
    add_column(&s.table, "used", true);
    add_column(&s.table, "budget MiB", true);
    add_column(&s.table, "", true);
    add_column(&s.table, v->n_seq > 1 ? "ms/step" : "ms/token", true);
    for (size_t i = 0; i < v->n_devices; i++) device_row(&s, &v->devices[i]);
    companion_devices(&s);
    vr_table_rule(&s.table);
    host_row(&s);
    vr_table_print(&s.table, out);
    vr_table_done(&s.table);
}

/* --- around it --- */

/* What each stream gets and, where there are several, all of them together. */
static void show_speed(struct vr_buf *out, const struct vr_verdict *v)
{
    struct vr_num x, n, all;
    bool color = vr_show_color(), many = v->n_seq > 1;
    char copies[64] = "", each[64] = "";
    double copy_ms = v->price.copy_ms[VR_DECODE];
    if (copy_ms >= 0.005) snprintf(copies, sizeof copies, ", %.2f of them between devices", copy_ms);
    if (many) snprintf(each, sizeof each, "%" PRIu32 " streams of %.1f tok/s, ", v->n_seq, v->price.decode_tok_s);
    VR_AUTO_BUF text = { 0 };
    vr_buf_addf(&text, "%s%s%s %s%s tok/s%s (%.1f ms per %s%s), prompt processing %s tok/s for %s tokens.",
                vr_style(color, v->fits ? VR_GREEN : VR_RED),
                v->fits ? "It fits. Predicted:" : "It does not fit. If it did:", vr_style(color, VR_PLAIN), each,
                vr_fmt_real(&all, v->price.total_tok_s, 1), many ? " together" : "", v->price.step_ms[VR_DECODE],
                many ? "step" : "token", copies, vr_fmt_real(&x, v->price.prefill_tok_s, 0),
                vr_fmt_count(&n, v->n_prompt));
    out->failed |= text.failed;
    vr_buf_adds(out, "  ");
    vr_show_wrapped(out, vr_buf_str(&text), 2, vr_show_width());
}

static void show_reason(struct vr_buf *out, const struct vr_machine *m, const struct vr_reason *r)
{
    VR_AUTO_BUF text = { 0 };
    vr_reason_text(&text, m, r);
    vr_buf_adds(&text, ".");
    out->failed |= text.failed;
    vr_buf_adds(out, "  - ");
    vr_show_wrapped(out, vr_buf_str(&text), 4, vr_show_width());
}

void vr_show_outcome(struct vr_buf *out, const struct vr_fit_ask *a, const struct vr_outcome *o)
{
    static const char *const how[] = {
        [VR_HOW_PLANNED] = "planned", [VR_HOW_GIVEN] = "as given", [VR_HOW_LLAMA_FIT] = "llama.cpp's fit"
    };
    const struct vr_verdict *v = &o->verdict;
    struct vr_num x, y;
    vr_show_title(out, a->model->name);
    bool tensor = o->trial.split_mode == VR_SPLIT_TENSOR;
    vr_show_fact(
        out, "plan",
        "%s, %s%s tokens of context, micro-batches of %s, %s/%s cache, flash attention %s, pipeline parallelism %s",
        how[o->how], tensor ? "split mode tensor, " : "", vr_fmt_count(&x, v->n_ctx),
        vr_fmt_count(&y, o->trial.context.n_ubatch), vr_type(o->trial.context.type_k)->name,
        vr_type(o->trial.context.type_v)->name, v->flash ? "on" : "off", v->pipeline ? "on" : "off");
    vr_buf_adds(out, "\n");
    show_places(out, a, o);
    vr_buf_adds(out, "\n");
    show_speed(out, v);
    for (size_t i = 0; i < a->budgets->n_excluded; i++) {
        struct vr_reason r = vr_reason_excluded(&a->budgets->excluded[i]);
        show_reason(out, a->machine, &r);
    }
    for (size_t i = 0; i < o->n_reasons; i++) show_reason(out, a->machine, &o->reasons[i]);
    if (a->n_loras)
        vr_buf_addf(out, "  The weights include %zu LoRA adapter%s (%s), on the devices of the tensors they change.\n",
                    a->n_loras, a->n_loras == 1 ? "" : "s", vr_fmt_bytes(&x, a->lora_bytes));
    if (o->trial.cache_mib)
        vr_buf_addf(out, "  Cached prompts may use a further %s of host memory (--cache-ram).\n",
                    vr_fmt_bytes(&x, o->trial.cache_mib * VR_MIB));
    vr_buf_addf(out, "  Confirmed by the engine without a GPU: %" PRIu32 " dry run%s, %.0f ms.\n", o->dry_runs,
                o->dry_runs == 1 ? "" : "s", o->ms);
}

bool vr_outcome_check(const struct vr_fit_ask *a, const struct vr_outcome *o, struct vr_err *err)
{
    struct vr_reason shortages[VR_MAX_REASONS];
    if (o->verdict.fits) return true;
    VR_AUTO_BUF text = { 0 };
    size_t n = vr_outcome_shortages(a, o, shortages);
    for (size_t i = 0; i < n; i++) {
        vr_buf_adds(&text, i ? "; " : "");
        vr_reason_text(&text, a->machine, &shortages[i]);
    }
    return vr_fail(err, VR_ENOFIT, "it does not fit: %s", vr_buf_str(&text));
}
