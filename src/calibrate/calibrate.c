/* Measuring goes in steps, each a child process with a deadline, told to the caller as they go. Cards of the same make
 * are measured once: what one reaches the others do too; their links are measured one by one. */
#include "calibrate/calibrate.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "calibrate/figures.h"
#include "calibrate/missing.h"
#include "calibrate/small_models.h"
#include "engine/llama/cpu.h"
#include "engine/llama/library.h"
#include "gguf/type.h"
#include "hw/profile.h"

#define STEP_MS    60000                  /* deadline of one step */
#define LEAST_FREE (4 * VR_MEASURE_PAGES) /* of the host's memory, for keeping pages */
#define AGAIN      ", again"

struct work {
    const struct vr_calibrate *ask;
    struct vr_machine *machine;
    const struct vr_budgets *budgets;
    char cpu[1024]; /* the variant that works here */
    struct vr_small_models small;
    bool host_types[VR_CALIBRATE_TYPES]; /* that were measured on the host */
    char *pages;                         /* for its weights */
    unsigned done, of;
};

static void tell(struct work *w, const char *fmt, ...) VR_PRINTF(2, 3);
static void tell(struct work *w, const char *fmt, ...)
{
    char text[160];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    w->done++;
    if (w->ask->tell) w->ask->tell(w->ask->ctx, w->done, w->of, text);
}

static void work_done(struct work *w)
{
    vr_small_models_done(&w->small);
    vr_measure_pages_free(w->pages);
}

/* --- types and operations --- */

static bool ask_products(struct work *w, const char *id, const struct vr_measure_where *where, uint32_t type,
                         const char *again, struct vr_measure_products *p)
{
    const char *name = vr_type(type)->name;
    struct vr_err err = { 0 };
    tell(w, "%s: matrix multiplication, %s%s", id, name, again);
    if (vr_measure_products(where, type, p, &err)) return true;
    vr_machine_note(w->machine, "%s, %s: %s", id, name, err.msg);
    return false;
}

static void measure_types(struct work *w, const char *id, const struct vr_measure_where *where, struct vr_measured *m)
{
    double us[VR_CALIBRATE_TYPES], prompt_us[VR_CALIBRATE_TYPES];
    size_t n = 0;
    for (size_t i = 0; i < w->ask->n_types; i++) {
        const char *name = vr_type(w->ask->types[i])->name;
        struct vr_measure_products p = { 0 };
        if (w->ask->missing_only && vr_measured_has_type(m, name)) continue;
        if (!ask_products(w, id, where, w->ask->types[i], "", &p)) continue;
        struct vr_measured_type *t = vr_measured_type_row(m, name);
        if (!t) continue;
        if (!where->device) w->host_types[i] = true;
        vr_figure_product(&p, t);
        us[n] = t->us;
        prompt_us[n++] = t->prompt_us;
    }
    vr_figure_products(us, prompt_us, n, m);
}

/* All kinds of operations; those over a cache for the types asked for. */
static void measure_ops(struct work *w, const char *id, const struct vr_measure_where *where, struct vr_measured *m)
{
    const struct vr_calibrate *c = w->ask;
    uint32_t types[VR_MEASURE_CACHES];
    size_t n = 0;
    bool known = c->missing_only && vr_measured_has_op(m, "");
    for (size_t i = 0; i < c->n_caches; i++)
        if (!c->missing_only || !vr_measured_has_op(m, vr_type(c->caches[i])->name)) types[n++] = c->caches[i];
    if (!n && known) return;
    struct vr_measure_ops ops = { 0 };
    struct vr_err err = { 0 };
    tell(w, "%s: attention and other operations", id);
    if (!vr_measure_ops(where, types, n, known, &ops, &err)) vr_machine_note(w->machine, "%s: %s", id, err.msg);
    for (size_t i = 0; i < ops.n; i++) {
        vr_measured_keep_op(m, &ops.rows[i]);
        vr_figure_attention(&ops.rows[i], m);
    }
}

/* --- places --- */

static void stamp(struct vr_measured *m, const struct vr_machine *machine)
{
    time_t now = time(NULL);
    struct tm tm;
    gmtime_r(&now, &tm);
    strftime(m->when, sizeof m->when, "%Y-%m-%dT%H:%M:%SZ", &tm);
    snprintf(m->engine, sizeof m->engine, "%s", vr_engine_version());
    snprintf(m->driver, sizeof m->driver, "%s", machine->driver);
}

static struct vr_measure_where where_is(const struct work *w, const struct vr_device *d) /* NULL: the host */
{
    return (struct vr_measure_where){ .device = d ? "CUDA0" : NULL,
                                      .visible = d ? d->uuid : NULL,
                                      .cc = d ? d->cc_major * 100 + d->cc_minor * 10 : 0,
                                      .beside_gpus = w->budgets->n > 0,
                                      .cpu = w->cpu,
                                      .pages = w->pages,
                                      .timeout_ms = STEP_MS };
}

/* One place but for its links. Without its small models it counts as not measured. */
static void measure_place(struct work *w, const char *id, const struct vr_budget *budget, struct vr_measured *m)
{
    const struct vr_device *d = budget ? &w->machine->devices[budget->device] : NULL;
    struct vr_measure_where where = where_is(w, d);
    struct vr_err err = { 0 };
    bool again = w->ask->missing_only && m->when[0];
    stamp(m, w->machine);
    const double product_us = m->product_us, prompt_product_us = m->prompt_product_us;
    measure_types(w, id, &where, m);
    measure_ops(w, id, &where, m);
    if (again) { /* what was settled with all types stays */
        m->product_us = product_us, m->prompt_product_us = prompt_product_us;
        return;
    }
    vr_figure_kernels(d != NULL, m);
    tell(w, "%s: %s", id, d ? "small models: kernel launches, overhead, memory" : "CPU cache, small model");
    if (!d && !vr_measure_cache(&where, &m->cache_mib, &err)) vr_machine_note(w->machine, "%s: %s", id, err.msg);
    if (!vr_small_models_run(&w->small, w->machine, budget, m, &err)) {
        vr_machine_note(w->machine, "%s was not measured: %s", id, err.msg);
        m->when[0] = '\0';
        return;
    }
    if (d && !vr_small_models_switch(&w->small, w->machine, budget, m, &err))
        vr_machine_note(w->machine, "%s: %s", id, err.msg);
}

static bool ask_link(struct work *w, const struct vr_device *d, const char *again, struct vr_measure_link *l)
{
    struct vr_measure_where where = where_is(w, d);
    struct vr_err err = { 0 };
    tell(w, "%s: transfers to and from the host%s", d->id, again);
    if (vr_measure_link(&where, l, &err)) return true;
    vr_machine_note(w->machine, "%s: %s", d->id, err.msg);
    return false;
}

static void measure_device(struct work *w, size_t i)
{
    struct vr_machine *m = w->machine;
    const struct vr_budget *budget = &w->budgets->items[i];
    struct vr_device *d = &m->devices[budget->device];
    struct vr_measure_link l;
    int twin = vr_calibrate_twin(m, w->budgets, i);
    bool again = w->ask->missing_only && d->measured.when[0];
    /* its link first: the price of the small models counts copies */
    if (!again && ask_link(w, d, "", &l)) vr_figure_link(&l, &d->measured);
    if (twin >= 0)
        vr_figure_twin(&m->devices[w->budgets->items[twin].device].measured, &d->measured);
    else
        measure_place(w, d->id, budget, &d->measured);
}

static void measure_pair(struct work *w, uint16_t a, uint16_t b)
{
    struct vr_machine *m = w->machine;
    char visible[160];
    bool one_card = vr_device_same_card(&m->devices[a], &m->devices[b]);
    snprintf(visible, sizeof visible, one_card ? "%s" : "%s,%s", m->devices[a].uuid, m->devices[b].uuid);
    struct vr_measure_where where = {
        .device = "CUDA0", .peer = "CUDA1", .visible = visible, .cpu = w->cpu, .timeout_ms = STEP_MS
    };
    struct vr_measure_link x;
    struct vr_err err = { 0 };
    tell(w, "%s - %s: transfers between devices", m->devices[a].id, m->devices[b].id);
    struct vr_link *l = vr_measured_link(m, a < b ? a : b, a < b ? b : a);
    if (l && vr_measure_pair(&where, &x, &err))
        vr_figure_pair(&x, l);
    else
        vr_machine_note(m, "%s and %s: %s", m->devices[a].id, m->devices[b].id, err.msg);
}

static void measure_pairs(struct work *w)
{
    const struct vr_budgets *b = w->budgets;
    for (size_t i = 0; i < b->n; i++)
        for (size_t k = i + 1; k < b->n; k++) {
            const struct vr_link *l = vr_machine_link(w->machine, b->items[i].device, b->items[k].device);
            if (w->ask->missing_only && l && l->measured_gbs > 0) continue;
            measure_pair(w, b->items[i].device, b->items[k].device);
        }
}

/* Items of the budgets, a bit each: adding up over them in split mode tensor. */
static void measure_reduction(struct work *w, uint64_t items)
{
    struct vr_machine *m = w->machine;
    struct vr_measured_reduction r = { .way = m->reduce_way };
    struct vr_err err = { 0 };
    VR_AUTO_BUF visible = { 0 }, names = { 0 };
    for (size_t i = 0; i < w->budgets->n; i++) {
        const struct vr_device *d = &m->devices[w->budgets->items[i].device];
        if (!(items >> i & 1)) continue;
        bool again = visible.n && strstr(vr_buf_str(&visible), d->uuid); /* a card that is shown twice */
        r.devices |= UINT64_C(1) << w->budgets->items[i].device;
        vr_buf_addf(&names, "%s%s", names.n ? ", " : "", d->id);
        if (!again) vr_buf_addf(&visible, "%s%s", visible.n ? "," : "", d->uuid);
    }
    if (visible.failed || names.failed || (w->ask->missing_only && vr_machine_reduction(m, r.devices))) return;
    struct vr_measure_where where = {
        .device = "CUDA0", .visible = vr_buf_str(&visible), .cpu = w->cpu, .timeout_ms = STEP_MS
    };
    tell(w, "%s: reductions (split mode tensor)", vr_buf_str(&names));
    if (vr_measure_reduce(&where, (size_t)__builtin_popcountll(items), &r, &err))
        vr_machine_keep_reduction(m, &r);
    else
        vr_machine_note(m, "%s: %s", vr_buf_str(&names), err.msg);
}

/* Every two devices (of many, each with the first one), and of more the first ones. */
static void measure_reductions(struct work *w)
{
    size_t n = w->budgets->n < VR_MAX_VGPUS ? w->budgets->n : VR_MAX_VGPUS;
    for (size_t i = 0; i < (n > VR_CALIBRATE_PAIRS ? 1 : n); i++)
        for (size_t k = i + 1; k < n; k++) measure_reduction(w, UINT64_C(1) << i | UINT64_C(1) << k);
    for (size_t i = 3; i <= n; i++) measure_reduction(w, (UINT64_C(1) << i) - 1);
}

/* --- again, at the end: vr_rate_again() --- */

static void measure_links_again(struct work *w)
{
    for (size_t i = 0; i < w->budgets->n; i++) {
        struct vr_device *d = &w->machine->devices[w->budgets->items[i].device];
        struct vr_measure_link l;
        if (d->measured.when[0] && ask_link(w, d, AGAIN, &l)) vr_figure_link_again(&l, &d->measured);
    }
}

static void measure_host_again(struct work *w, struct vr_measured *m)
{
    struct vr_measure_where where = where_is(w, NULL);
    for (size_t i = 0; i < w->ask->n_types; i++) {
        struct vr_measure_products p = { 0 };
        if (!w->host_types[i]) continue;
        struct vr_measured_type *t = vr_measured_type_row(m, vr_type(w->ask->types[i])->name);
        where.product_us = fmax(t->us, 0.01);
        if (!ask_products(w, "host", &where, w->ask->types[i], AGAIN, &p)) continue;
        vr_rate_again(&t->gbs, p.gbs, &t->row_ns, p.row_ns);
        vr_rate_again(&t->wide_gbs, p.wide_gbs, NULL, 0);
        vr_rate_again(&t->expert_gbs, p.expert_gbs, &t->expert_row_ns, p.expert_row_ns);
    }
}

bool vr_calibrate(const struct vr_calibrate *c, struct vr_machine *m, const struct vr_budgets *b, struct vr_err *err)
{
    vr_calibrate_forget_old(m, b);
    VR_CLEANUP(work_done) struct work w = { .ask = c, .machine = m, .budgets = b };
    w.small.cpu = w.cpu;
    w.small.timeout_ms = STEP_MS;
    if (!vr_cpu_choose(w.cpu, sizeof w.cpu, err) || !vr_small_models_make(&w.small, err)) return false;
    if (m->host.ram_free_bytes > LEAST_FREE) w.pages = vr_measure_pages();
    w.of = vr_calibrate_steps(c, m, b);
    struct vr_measured *host = vr_calibrate_host(m, b);
    measure_place(&w, "host", NULL, host);
    for (size_t i = 0; i < b->n; i++) measure_device(&w, i);
    measure_pairs(&w);
    measure_reductions(&w);
    measure_host_again(&w, host);
    if (!c->missing_only) measure_links_again(&w);
    double most = 0; /* in place of what its modules promise */
    for (size_t i = 0; i < host->n_types; i++) most = fmax(most, host->types[i].gbs);
    if (most > 0) {
        m->host.bandwidth_gbs = most;
        m->host.bandwidth_from = VR_FROM_BENCH;
    }
    if (!host->when[0]) return vr_fail(err, VR_EENGINE, "nothing could be measured: %s", m->note);
    return true;
}
