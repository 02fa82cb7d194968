/* Measuring goes in steps, each a child process with a deadline, told on standard error as they go. Cards of the same
 * make are measured once: what one reaches the others do too; their links are measured one by one.
 *
 * Two models that compute next to nothing, of 4 and of 24 layers, tell what starting a kernel and a step costs on a
 * device: two equations for two unknowns. On the host the first alone tells the step, since threads start nothing.
 * Two more, with matrices of floats and with experts, show what other libraries take of the device's memory; with
 * layers or experts on the host they tell what going back and forth costs. */
#include "cli/calibrate.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/rank.h"
#include "base/text.h"
#include "engine/llama/cpu.h"
#include "engine/llama/library.h"
#include "engine/measure/measure.h"
#include "fit/fit.h"
#include "gguf/type.h"
#include "hw/gauge.h"
#include "hw/profile.h"

#define BUSY_PERCENT 20
#define BUSY_NS      300000000
#define STEP_MS      60000                  /* deadline of one step */
#define LEAST_FREE   (4 * VR_MEASURE_PAGES) /* of the host's memory, for keeping pages */
#define AGAIN        ", again"
#define N_CTX        2048 /* of the small models */
#define FEW          4
#define MANY         24

enum { TINY_FEW, TINY_MANY, TINY_FLOATS, TINY_EXPERTS, N_TINY };

struct work {
    const struct vr_calibrate *ask;
    struct vr_input *in;
    char cpu[1024]; /* the variant that works here */
    char dir[64];   /* of the small models */
    char paths[N_TINY][96];
    struct vr_measure_run runs[N_TINY];  /* of the small models, wholly on the device */
    bool host_types[VR_CALIBRATE_TYPES]; /* that were measured on the host */
    char *pages;                         /* for its weights */
    unsigned done, of;
    bool has_gpus;
};

static void tell(struct work *w, const char *fmt, ...) VR_PRINTF(2, 3);
static void tell(struct work *w, const char *fmt, ...)
{
    bool tty = isatty(STDERR_FILENO);
    va_list ap;
    va_start(ap, fmt);
    fprintf(stderr, "%s  [%2u/%u] ", tty ? "\r\033[K" : "", ++w->done, w->of);
    vfprintf(stderr, fmt, ap);
    fputs(tty ? "" : "\n", stderr);
    fflush(stderr);
    va_end(ap);
}

/* --- the small models --- */

static bool make_tiny(struct work *w, struct vr_err *err)
{
    static const struct vr_measure_tiny kinds[N_TINY] = {
        [TINY_FEW] = { FEW, false, false },
        [TINY_MANY] = { MANY, false, false },
        [TINY_FLOATS] = { FEW, false, true },
        [TINY_EXPERTS] = { FEW, true, false },
    };
    const char *tmp = getenv("TMPDIR");
    snprintf(w->dir, sizeof w->dir, "%.40s/vram-llm-XXXXXX", tmp && *tmp == '/' ? tmp : "/tmp");
    if (!mkdtemp(w->dir)) return vr_fail(err, VR_EIO, "%s: %s", w->dir, strerror(errno));
    for (size_t i = 0; i < N_TINY; i++) {
        snprintf(w->paths[i], sizeof w->paths[i], "%s/%zu.gguf", w->dir, i);
        if (!vr_measure_make(w->paths[i], &kinds[i], err)) return false;
    }
    return true;
}

static void work_done(struct work *w)
{
    for (size_t i = 0; i < N_TINY; i++)
        if (w->paths[i][0]) unlink(w->paths[i]);
    if (w->dir[0]) rmdir(w->dir);
    vr_measure_pages_free(w->pages);
    if (isatty(STDERR_FILENO)) fputs("\r\033[K", stderr);
}

/* Where a small model runs: on a device, with its experts or with half of its layers on the host, or (budget NULL)
 * wholly on the host. */
struct where {
    const struct vr_budget *budget;
    bool experts_on_host, half_on_host;
};

static int layers_of(const struct where *x) { return !x->budget ? 0 : x->half_on_host ? 1 + FEW / 2 : 1000; }

static bool run_tiny(const struct work *w, size_t which, const struct where *x, double seconds,
                     struct vr_measure_run *out, struct vr_err *err)
{
    VR_AUTO_BUF env = { 0 }, json = { 0 };
    vr_buf_adds(&json, "{\"model\":");
    vr_json_add_string(&json, w->paths[which]);
    vr_buf_adds(&json, ",\"cpu\":");
    vr_json_add_string(&json, w->cpu);
    vr_buf_addf(&json, ",\"n_ctx\":%d,\"n_gpu_layers\":%d,\"devices\":[%s],\"overrides\":[%s],\"pipeline\":false}",
                N_CTX, layers_of(x), x->budget ? "\"CUDA0\"" : "",
                x->experts_on_host ? "{\"pattern\":\"exps\",\"device\":\"CPU\"}" : "");
    if (x->budget) {
        vr_buf_addf(&env, "CUDA_VISIBLE_DEVICES=%s", w->in->machine.devices[x->budget->device].uuid);
        vr_buf_addc(&env, '\0', 1);
    }
    return vr_measure_run(vr_buf_str(&json), env.data, env.n, 96, seconds, STEP_MS, out, err);
}

/* What the same run costs by the price of its graph, when kernels and steps cost what these speeds say. */
static bool price_tiny(const struct work *w, size_t which, const struct where *x, const struct vr_speeds *speeds,
                       double fill, double ms[VR_N_PHASES], struct vr_err *err)
{
    VR_AUTO(vr_model) model = vr_model_open(w->paths[which], err);
    if (!model) return false;
    struct vr_budgets budgets = { .n = x->budget ? 1 : 0 };
    if (x->budget) budgets.items[0] = *x->budget;
    struct vr_fit_ask ask = { .model = model,
                              .machine = &w->in->machine,
                              .budgets = &budgets,
                              .speeds = speeds,
                              .context = VR_CONTEXT_DEFAULT,
                              .flash_auto = true,
                              .n_outputs = 1,
                              .fill = fill };
    ask.context.n_ctx = N_CTX;
    ask.context.n_batch = ask.context.n_ubatch = 512;
    ask.context.flash_attn = true;
    struct vr_given given = { .n_gpu_layers = layers_of(x), .overrides = x->experts_on_host ? "exps=CPU" : NULL };
    VR_AUTO_OUTCOME outcome = { 0 };
    if (!vr_fit_given(&ask, &given, &outcome, err)) return false;
    for (int phase = 0; phase < VR_N_PHASES; phase++) ms[phase] = outcome.verdict.price.step_ms[phase];
    return true;
}

static double took_ms(const struct vr_measure_run *r, enum vr_phase phase)
{
    return phase == VR_DECODE ? (r->decode_ms[0] + r->decode_ms[1]) / 2 : r->prefill_ms[0];
}

/* A device: what a kernel more costs (started by the host or run, whichever takes longer) is the difference of the two
 * models; what is left of the small one is the step's. */
static bool solve_launches(struct work *w, const struct vr_budget *budget, struct vr_measured *m, struct vr_err *err)
{
    struct vr_speeds s;
    const struct where x = { .budget = budget };
    vr_speeds_of(&w->in->machine, &s);
    struct vr_speed *p = &s.places[budget->device];
    double base[2][VR_N_PHASES], with[2][VR_N_PHASES], took[2][VR_N_PHASES];
    p->step_ms = p->prompt_step_ms = 0;
    for (int i = 0; i < 2; i++) { /* generating within the first 256 cells; the second micro-batch */
        const double fill[VR_N_PHASES] = { 0, 1024.0 / N_CTX };
        double ms[VR_N_PHASES];
        for (int phase = 0; phase < VR_N_PHASES; phase++) {
            p->submit_ms = p->prompt_submit_ms = 0;
            if (!price_tiny(w, (size_t)i, &x, &s, fill[phase], ms, err)) return false;
            base[i][phase] = ms[phase];
            p->submit_ms = p->prompt_submit_ms = 1; /* more than all else: the kernels' number */
            if (!price_tiny(w, (size_t)i, &x, &s, fill[phase], ms, err)) return false;
            with[i][phase] = ms[phase];
        }
        for (int phase = 0; phase < VR_N_PHASES; phase++) took[i][phase] = took_ms(&w->runs[i], phase);
    }
    double each = fmax((took[1][VR_DECODE] - took[0][VR_DECODE]) / (with[1][VR_DECODE] - with[0][VR_DECODE]), 0);
    m->submit_us = fmax(each * 1e3, 0.01);
    p->submit_ms = each;
    double ms[VR_N_PHASES];
    if (!price_tiny(w, 0, &x, &s, 0, ms, err)) return false;
    m->step_us = fmax(took[0][VR_DECODE] - ms[VR_DECODE], 0) * 1e3;

    double n[2], left[2];
    for (int i = 0; i < 2; i++) {
        n[i] = with[i][VR_PREFILL] - base[i][VR_PREFILL];
        left[i] = took[i][VR_PREFILL] - base[i][VR_PREFILL];
    }
    each = n[1] > n[0] ? fmax((left[1] - left[0]) / (n[1] - n[0]), 0) : 0;
    m->prompt_submit_us = fmax(each * 1e3, 0.01); /* what is left of the small one, 2 ms on an H200, larger ones lack */
    return true;
}

/* The host: operations were measured one by one; what a small model takes beyond their sum is the step's. Its batches
 * compute for so long that nothing can be told from what is left. */
static bool solve_step(struct work *w, const struct vr_measure_run *run, struct vr_measured *m, struct vr_err *err)
{
    struct vr_speeds s;
    double ms[VR_N_PHASES];
    m->step_us = 0;
    vr_speeds_of(&w->in->machine, &s);
    if (m == &w->in->machine.host.measured) s.alone = s.places[VR_SPEED_HOST]; /* that is what the price goes by */
    if (!price_tiny(w, TINY_FEW, &(struct where){ 0 }, &s, 0, ms, err)) return false;
    m->step_us = fmax(run->decode_ms[0] - ms[VR_DECODE], 0) * 1e3;
    return true;
}

static uint64_t outside(const struct vr_measure_run *r)
{
    uint64_t planned = r->devices[0].model_bytes + r->devices[0].context_bytes + r->devices[0].compute_bytes;
    uint64_t most =
        r->devices[0].after_bytes > r->devices[0].loaded_bytes ? r->devices[0].after_bytes : r->devices[0].loaded_bytes;
    uint64_t taken = most > r->devices[0].before_bytes ? most - r->devices[0].before_bytes : 0;
    return taken > planned ? taken - planned : 0;
}

static bool measure_runs(struct work *w, const struct vr_budget *budget, struct vr_measured *m, struct vr_err *err)
{
    struct vr_measure_run *runs = w->runs;
    const struct where x = { .budget = budget };
    memset(w->runs, 0, sizeof w->runs);
    for (size_t i = 0; i < (budget ? N_TINY : TINY_FEW + 1); i++)
        if (!run_tiny(w, i, &x, i == TINY_FLOATS ? 0.05 : 1, &runs[i], err))
            return false; /* its memory, not its time */
    if (!budget) return solve_step(w, &runs[TINY_FEW], m, err);
    uint64_t floats = outside(&runs[TINY_FLOATS]), experts = outside(&runs[TINY_EXPERTS]);
    m->runtime_bytes = outside(&runs[TINY_MANY]);
    uint64_t most = floats > experts ? floats : experts;
    m->blas_bytes = most > m->runtime_bytes ? most - m->runtime_bytes : 0;
    return solve_launches(w, budget, m, err);
}

/* What a run with something on the host takes beyond its price, for each change between device and host. Generating, it
 * is that much longer than with all on the device, so that what else is wrong with the price falls out; a prompt with
 * all on the device takes 2 ms longer than its price in the small models alone, and tells nothing of others. */
static bool solve_switches(struct work *w, size_t which, const struct where *x, enum vr_phase phase, double *us,
                           struct vr_err *err)
{
    struct vr_measure_run r = { 0 };
    struct vr_speeds s;
    const struct where device = { .budget = x->budget };
    double whole[VR_N_PHASES], base[VR_N_PHASES], with[VR_N_PHASES], fill = phase == VR_DECODE ? 0 : 1024.0 / N_CTX;
    if (!run_tiny(w, which, x, 1, &r, err)) return false;
    vr_speeds_of(&w->in->machine, &s);
    struct vr_speed *p = &s.places[x->budget->device];
    p->switch_ms = p->prompt_switch_ms = 0;
    if (!price_tiny(w, which, &device, &s, fill, whole, err)) return false;
    if (!price_tiny(w, which, x, &s, fill, base, err)) return false;
    p->switch_ms = p->prompt_switch_ms = 1;
    if (!price_tiny(w, which, x, &s, fill, with, err)) return false;
    double beyond = took_ms(&r, phase) - base[phase], n = with[phase] - base[phase];
    if (phase == VR_DECODE) beyond -= took_ms(&w->runs[which], phase) - whole[phase];
    *us = n > 0 ? fmax(beyond / n * 1e3, 0.01) : 0;
    return true;
}

/* Generating changes where experts are on the host; a prompt at every matrix of a layer that is. */
static bool measure_switches(struct work *w, const struct vr_budget *budget, struct vr_measured *m, struct vr_err *err)
{
    const struct where experts = { .budget = budget, .experts_on_host = true },
                       half = { .budget = budget, .half_on_host = true };
    return solve_switches(w, TINY_EXPERTS, &experts, VR_DECODE, &m->switch_us, err) &&
           solve_switches(w, TINY_FEW, &half, VR_PREFILL, &m->prompt_switch_us, err);
}

/* --- types --- */

static struct vr_measured_type *type_row(struct vr_measured *m, const char *name)
{
    for (size_t i = 0; i < m->n_types; i++)
        if (!strcmp(m->types[i].name, name)) return &m->types[i];
    if (m->n_types == VR_MAX_MEASURED_TYPES) return NULL;
    struct vr_measured_type *t = &m->types[m->n_types++];
    *t = (struct vr_measured_type){ 0 };
    snprintf(t->name, sizeof t->name, "%s", name);
    return t;
}

static bool wanted(const struct work *w, const struct vr_measured *m, uint32_t type)
{
    for (size_t i = 0; w->ask->missing_only && i < m->n_types; i++)
        if (!strcmp(m->types[i].name, vr_type(type)->name)) return false;
    return true;
}

static bool ask_products(struct work *w, const char *id, const struct vr_measure_where *where, uint32_t type,
                         const char *again, struct vr_measure_products *p)
{
    const char *name = vr_type(type)->name;
    struct vr_err err = { 0 };
    tell(w, "%s: matrix multiplication, %s%s", id, name, again);
    if (vr_measure_products(where, type, p, &err)) return true;
    vr_machine_note(&w->in->machine, "%s, %s: %s", id, name, err.msg);
    return false;
}

/* Products with every type; the middle of what each costs at any size counts for all. */
static void measure_types(struct work *w, const char *id, const struct vr_measure_where *where, struct vr_measured *m)
{
    double fixed[VR_CALIBRATE_TYPES], prompt[VR_CALIBRATE_TYPES];
    size_t n = 0;
    for (size_t i = 0; i < w->ask->n_types; i++) {
        struct vr_measure_products p = { 0 };
        if (!wanted(w, m, w->ask->types[i])) continue;
        if (!ask_products(w, id, where, w->ask->types[i], "", &p)) continue;
        struct vr_measured_type *t = type_row(m, vr_type(w->ask->types[i])->name);
        if (!t) continue;
        if (!where->device) w->host_types[i] = true;
        t->gbs = p.gbs, t->tflops = p.tflops, t->expert_gbs = p.expert_gbs, t->expert_tflops = p.expert_tflops;
        t->cached_gbs = p.cached_gbs, t->wide_gbs = p.wide_gbs;
        t->row_ns = p.row_ns, t->expert_row_ns = p.expert_row_ns, t->least_us = p.least_us;
        t->expert_prompt_gbs = p.expert_prompt_gbs;
        double kernels = p.kernels > 0 ? p.kernels : 1;
        t->us = fixed[n] = p.product_us / kernels;
        t->prompt_us = prompt[n++] = p.prompt_product_us / kernels;
    }
    if (n) m->product_us = vr_rank(fixed, n, 0.5), m->prompt_product_us = vr_rank(prompt, n, 0.5);
}

/* --- other operations --- */

static bool has_op(const struct vr_measured *m, const char *type)
{
    for (size_t i = 0; i < m->n_ops; i++)
        if (!strcmp(m->ops[i].type, type)) return true;
    return false;
}

static void keep_op(struct vr_measured *m, const struct vr_measured_op *op)
{
    size_t i = 0;
    while (i < m->n_ops && (strcmp(m->ops[i].name, op->name) != 0 || strcmp(m->ops[i].type, op->type) != 0)) i++;
    if (i == VR_MAX_MEASURED_OPS) return;
    if (i == m->n_ops) m->n_ops++;
    m->ops[i] = *op;
}

/* All kinds of operations; those over a cache for the types asked for. */
static void measure_ops(struct work *w, const char *id, const struct vr_measure_where *where, struct vr_measured *m)
{
    uint32_t types[VR_MEASURE_CACHES];
    size_t n = 0;
    bool known = w->ask->missing_only && has_op(m, "");
    for (size_t i = 0; i < w->ask->n_caches; i++)
        if (!w->ask->missing_only || !has_op(m, vr_type(w->ask->caches[i])->name)) types[n++] = w->ask->caches[i];
    if (!n && known) return;
    struct vr_measure_ops ops = { 0 };
    struct vr_err err = { 0 };
    tell(w, "%s: attention and other operations", id);
    if (!vr_measure_ops(where, types, n, known, &ops, &err)) vr_machine_note(&w->in->machine, "%s: %s", id, err.msg);
    for (size_t i = 0; i < ops.n; i++) {
        keep_op(m, &ops.rows[i]);
        if (strcmp(ops.rows[i].name, vr_op_name(VR_OP_ATTENTION)) != 0 || strcmp(ops.rows[i].type, "f16") != 0)
            continue;
        /* of the host operations are known, four for each byte in this shape */
        m->attention_gbs = ops.rows[i].gbs > 0 ? ops.rows[i].gbs : ops.rows[i].tflops * 1e3 / 4;
        m->attention_tflops = ops.rows[i].prompt_tflops;
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
                                      .beside_gpus = w->has_gpus,
                                      .cpu = w->cpu,
                                      .pages = w->pages,
                                      .timeout_ms = STEP_MS };
}

/* One place but for its links. False and a note when it does not work at all. */
static bool measure_place(struct work *w, const char *id, const struct vr_budget *budget, struct vr_measured *m)
{
    const struct vr_device *d = budget ? &w->in->machine.devices[budget->device] : NULL;
    struct vr_measure_where where = where_is(w, d);
    struct vr_err err = { 0 };
    bool again = w->ask->missing_only && m->when[0];
    stamp(m, &w->in->machine);
    const double product_us = m->product_us, prompt_product_us = m->prompt_product_us;
    measure_types(w, id, &where, m);
    measure_ops(w, id, &where, m);
    if (again) { /* what was settled with all types stays */
        m->product_us = product_us, m->prompt_product_us = prompt_product_us;
        return true;
    }
    /* on a device a kernel that is not measured costs what a product costs at any size; on the host a product is more
     */
    m->launch_us = d ? m->product_us : vr_op_middle_us(m);
    m->product_us = fmax(m->product_us - m->launch_us, 0);
    m->prompt_product_us = d ? fmax(m->prompt_product_us - m->launch_us, 0) : m->product_us;
    tell(w, "%s: %s", id, d ? "small models: kernel launches, overhead, memory" : "CPU cache, small model");
    if (!d && !vr_measure_cache(&where, &m->cache_mib, &err)) vr_machine_note(&w->in->machine, "%s: %s", id, err.msg);
    if (!measure_runs(w, budget, m, &err)) {
        vr_machine_note(&w->in->machine, "%s was not measured: %s", id, err.msg);
        m->when[0] = '\0';
        return false;
    }
    if (d && !measure_switches(w, budget, m, &err)) vr_machine_note(&w->in->machine, "%s: %s", id, err.msg);
    return true;
}

static bool ask_link(struct work *w, const struct vr_device *d, const char *again, struct vr_measure_link *l)
{
    struct vr_measure_where where = where_is(w, d);
    struct vr_err err = { 0 };
    tell(w, "%s: transfers to and from the host%s", d->id, again);
    if (vr_measure_link(&where, l, &err)) return true;
    vr_machine_note(&w->in->machine, "%s: %s", d->id, err.msg);
    return false;
}

static void measure_link(struct work *w, struct vr_device *d)
{
    struct vr_measure_link l;
    if (!ask_link(w, d, "", &l)) return;
    d->measured.up_gbs = l.up_gbs, d->measured.up_us = l.up_us;
    d->measured.down_gbs = l.down_gbs, d->measured.down_us = l.down_us;
    d->measured.mapped_gbs = l.mapped_gbs, d->measured.mapped_expert_gbs = l.mapped_expert_gbs;
}

static struct vr_link *link_between(struct vr_machine *m, uint16_t a, uint16_t b)
{
    for (size_t i = 0; i < m->n_links; i++)
        if (m->links[i].a == a && m->links[i].b == b) return &m->links[i];
    if (m->n_links == VR_COUNT(m->links)) return NULL;
    m->links[m->n_links] = (struct vr_link){ .a = a, .b = b };
    return &m->links[m->n_links++];
}

static void measure_pair(struct work *w, uint16_t a, uint16_t b)
{
    struct vr_machine *m = &w->in->machine;
    char visible[160];
    bool one_card = vr_device_same_card(&m->devices[a], &m->devices[b]);
    snprintf(visible, sizeof visible, one_card ? "%s" : "%s,%s", m->devices[a].uuid, m->devices[b].uuid);
    struct vr_measure_where where = {
        .device = "CUDA0", .peer = "CUDA1", .visible = visible, .cpu = w->cpu, .timeout_ms = STEP_MS
    };
    struct vr_measure_link x;
    struct vr_err err = { 0 };
    tell(w, "%s - %s: transfers between devices", m->devices[a].id, m->devices[b].id);
    struct vr_link *l = link_between(m, a < b ? a : b, a < b ? b : a);
    if (!l || !vr_measure_pair(&where, &x, &err)) {
        vr_machine_note(m, "%s and %s: %s", m->devices[a].id, m->devices[b].id, err.msg);
        return;
    }
    l->measured_gbs = fmin(x.up_gbs, x.down_gbs);
    l->measured_us = fmax(x.up_us, x.down_us);
}

/* The first card of the same make before this one; -1: none. */
static int twin(const struct vr_input *in, size_t i)
{
    const struct vr_device *d = &in->machine.devices[in->budgets.items[i].device];
    for (size_t k = 0; k < i; k++) {
        const struct vr_device *e = &in->machine.devices[in->budgets.items[k].device];
        if (!strcmp(d->name, e->name) && d->total_bytes == e->total_bytes && e->measured.when[0]) return (int)k;
    }
    return -1;
}

static void measure_device(struct work *w, size_t i)
{
    struct vr_machine *m = &w->in->machine;
    const struct vr_budget *budget = &w->in->budgets.items[i];
    struct vr_device *d = &m->devices[budget->device];
    int same = twin(w->in, i);
    bool again = w->ask->missing_only && d->measured.when[0];
    if (!again) measure_link(w, d); /* first: the price of the small models counts copies */
    if (same >= 0) {
        struct vr_measured own = d->measured;
        d->measured = m->devices[w->in->budgets.items[same].device].measured;
        d->measured.up_gbs = own.up_gbs, d->measured.up_us = own.up_us;
        d->measured.down_gbs = own.down_gbs, d->measured.down_us = own.down_us;
        d->measured.mapped_gbs = own.mapped_gbs, d->measured.mapped_expert_gbs = own.mapped_expert_gbs;
        return;
    }
    measure_place(w, d->id, budget, &d->measured);
}

/* What goes through the host's memory is not equally fast from minute to minute where others have a part of it: the
 * middle of now and of the beginning counts. */
static void measure_link_again(struct work *w, struct vr_device *d)
{
    struct vr_measured *m = &d->measured;
    struct vr_measure_link l;
    if (!m->when[0] || !ask_link(w, d, AGAIN, &l)) return;
    m->up_gbs = fmax(m->up_gbs, l.up_gbs), m->down_gbs = fmax(m->down_gbs, l.down_gbs);
    vr_rate_again(&m->mapped_gbs, l.mapped_gbs, NULL, 0);
    vr_rate_again(&m->mapped_expert_gbs, l.mapped_expert_gbs, NULL, 0);
}

static void measure_host_again(struct work *w, struct vr_measured *m)
{
    struct vr_measure_where where = where_is(w, NULL);
    for (size_t i = 0; i < w->ask->n_types; i++) {
        struct vr_measure_products p = { 0 };
        if (!w->host_types[i]) continue;
        struct vr_measured_type *t = type_row(m, vr_type(w->ask->types[i])->name);
        where.product_us = fmax(t->us, 0.01);
        if (!ask_products(w, "host", &where, w->ask->types[i], AGAIN, &p)) continue;
        vr_rate_again(&t->gbs, p.gbs, &t->row_ns, p.row_ns);
        vr_rate_again(&t->wide_gbs, p.wide_gbs, NULL, 0);
        vr_rate_again(&t->expert_gbs, p.expert_gbs, &t->expert_row_ns, p.expert_row_ns);
    }
}

static unsigned count_steps(const struct work *w)
{
    size_t n = w->in->budgets.n, kinds = 0;
    for (size_t i = 0; i < n; i++) {
        bool new = true;
        for (size_t k = 0; k < i; k++)
            new &= strcmp(w->in->machine.devices[w->in->budgets.items[i].device].name,
                          w->in->machine.devices[w->in->budgets.items[k].device].name) != 0;
        kinds += new;
    }
    return (unsigned)(2 * n + (kinds + 1) * (w->ask->n_types + 2) + n * (n - (n > 0)) / 2 + w->ask->n_types);
}

bool vr_device_usable(const struct vr_device *d)
{
    return strcmp(d->backend, "CUDA") == 0 && d->uuid[0] && vr_engine_has("cuda");
}

/* The host beside devices and the host with all of them left unused are measured apart. */
static struct vr_measured *host_part(struct vr_input *in)
{
    return in->machine.n_devices && !in->budgets.n ? &in->machine.host.alone : &in->machine.host.measured;
}

bool vr_calibrated(const struct vr_calibrate *c, struct vr_input *in)
{
    for (size_t i = 0; i <= in->budgets.n; i++) {
        const struct vr_measured *m =
            i == in->budgets.n ? host_part(in) : &in->machine.devices[in->budgets.items[i].device].measured;
        if (!m->when[0] || !has_op(m, "")) return false;
        for (size_t t = 0; t < c->n_caches; t++)
            if (!has_op(m, vr_type(c->caches[t])->name)) return false;
        for (size_t t = 0; t < c->n_types; t++) {
            bool found = false;
            for (size_t k = 0; k < m->n_types; k++) found |= !strcmp(m->types[k].name, vr_type(c->types[t])->name);
            if (!found) return false;
        }
    }
    return true;
}

/* Figures of a version that measured no operations by themselves mean other things: they are measured again. */
static void forget_old(struct vr_input *in)
{
    for (size_t i = 0; i <= in->budgets.n; i++) {
        struct vr_measured *m =
            i == in->budgets.n ? host_part(in) : &in->machine.devices[in->budgets.items[i].device].measured;
        if (!has_op(m, "")) *m = (struct vr_measured){ 0 };
    }
}

/* Threads that compute wait for each other, so one that another program keeps from its core stops all: figures are then
 * wrong by a factor, not by a share. Told before the minute is spent, and with the result. */
static void warn_if_busy(struct vr_machine *m)
{
    VR_AUTO_FREE struct vr_reading *r = calloc(1, sizeof *r);
    struct vr_err none;
    struct vr_gauge *g = r ? vr_gauge_new(NULL, m, &none) : NULL;
    bool read = g && vr_gauge_read(g, r, &none);
    nanosleep(&(struct timespec){ .tv_nsec = BUSY_NS }, NULL);
    read = read && vr_gauge_read(g, r, &none);
    vr_gauge_free(g);
    if (!read || r->cpu_percent < BUSY_PERCENT) return;
    vr_log(VR_WARN, "other programs use %d %% of the CPU: the measurements will be wrong", r->cpu_percent);
    vr_machine_note(
        m,
        "Other programs used %d %% of the CPU when the calibration started: stop them and run 'vram-llm bench' again.",
        r->cpu_percent);
}

bool vr_calibrate(const struct vr_calibrate *c, struct vr_input *in, struct vr_err *err)
{
    warn_if_busy(&in->machine);
    forget_old(in);
    VR_CLEANUP(work_done) struct work w = { .ask = c, .in = in, .has_gpus = in->budgets.n > 0 };
    if (!vr_cpu_choose(w.cpu, sizeof w.cpu, err) || !make_tiny(&w, err)) return false;
    if (in->machine.host.ram_free_bytes > LEAST_FREE) w.pages = vr_measure_pages();
    w.of = count_steps(&w);
    struct vr_host *host = &in->machine.host;
    struct vr_measured *own = host_part(in);
    measure_place(&w, "host", NULL, own);
    for (size_t i = 0; i < in->budgets.n; i++) measure_device(&w, i);
    for (size_t i = 0; i < in->budgets.n; i++)
        for (size_t k = i + 1; k < in->budgets.n; k++) {
            const struct vr_link *l =
                vr_machine_link(&in->machine, in->budgets.items[i].device, in->budgets.items[k].device);
            if (c->missing_only && l && l->measured_gbs > 0) continue;
            measure_pair(&w, in->budgets.items[i].device, in->budgets.items[k].device);
        }
    measure_host_again(&w, own);
    for (size_t i = 0; i < in->budgets.n && !c->missing_only; i++)
        measure_link_again(&w, &in->machine.devices[in->budgets.items[i].device]);
    for (size_t i = 0; i < own->n_types; i++) host->bandwidth_gbs = fmax(host->bandwidth_gbs, own->types[i].gbs);
    if (!own->when[0]) return vr_fail(err, VR_EENGINE, "nothing could be measured: %s", in->machine.note);
    return true;
}

bool vr_calibrate_path(char *path, size_t n, struct vr_err *err)
{
    if (!vr_profile_own_path(path, n))
        return vr_fail(err, VR_EIO, "cannot save the machine profile: neither XDG_DATA_HOME nor HOME is set");
    return vr_file_make_parents(path, err);
}
