/* `bench`: measures this machine, or a model on it against what the plan says. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/table.h"
#include "base/text.h"
#include "calibrate/calibrate.h"
#include "calibrate/missing.h"
#include "cli/commands.h"
#include "cli/command/bench_nodes.h"
#include "cli/load/load_plan.h"
#include "cli/load/placement.h"
#include "cli/text/plan_json.h"
#include "cli/text/show.h"
#include "cli/text/show_reduce.h"
#include "cli/command/submit.h"
#include "engine/llama/library.h"
#include "engine/measure/measure.h"
#include "hw/gauge.h"
#include "hw/profile.h"

#define BUSY_PERCENT 20

/* --- which types --- */

static bool add_type(struct vr_calibrate *c, uint32_t type)
{
    for (size_t i = 0; i < c->n_types; i++)
        if (c->types[i] == type) return true;
    if (c->n_types == VR_CALIBRATE_TYPES) return false;
    c->types[c->n_types++] = type;
    return true;
}

static bool choose_types(const struct vr_options *o, const struct vr_model *m, struct vr_calibrate *c,
                         struct vr_err *err)
{
    static const char common[] = "f16,q8_0,q6_K,q5_K,q4_K,q4_0,iq4_xs,mxfp4";
    if (m && !o->types) {
        for (uint64_t least = UINT64_C(1) << 20; c->n_types == 0; least = 0) { /* small ones only if all are */
            for (size_t i = 0; i < m->n_tensors; i++)
                if (m->tensors[i].n_dims >= 2 && m->tensors[i].bytes > least) add_type(c, m->tensors[i].type);
            if (least == 0) break;
        }
        return true;
    }
    const char *list = o->types ? o->types : common;
    for (const char *at = list; *at;) {
        char name[32];
        size_t n = strcspn(at, ",");
        snprintf(name, sizeof name, "%.*s", n < sizeof name ? (int)n : 0, at);
        uint32_t type = vr_type_by_name(name);
        if (type == VR_TYPE_NONE)
            return vr_fail(err, VR_EUSAGE, "--types: unknown type '%s'; e.g. --types q4_K,q6_K", name);
        if (!add_type(c, type)) return vr_fail(err, VR_EUSAGE, "--types: more than %d types", VR_CALIBRATE_TYPES);
        at += n + (at[n] == ',');
    }
    return true;
}

/* The caches' types: of this run, or the common ones. */
static bool choose_caches(const struct vr_options *o, bool model, struct vr_calibrate *c, struct vr_err *err)
{
    const char *names[] = { model ? o->cache_type_k : "f16", model ? o->cache_type_v : "q8_0" };
    for (size_t i = 0; i < VR_COUNT(names); i++) {
        uint32_t type = vr_type_by_name(names[i]);
        if (type == VR_TYPE_NONE) return vr_fail(err, VR_EUSAGE, "unknown cache type '%s'", names[i]);
        if (i == 0 || type != c->caches[0]) c->caches[c->n_caches++] = type;
    }
    return true;
}

/* Devices that this engine can be measured on; the others leave the budgets. */
static void keep_usable(struct vr_input *in)
{
    size_t n = 0;
    for (size_t i = 0; i < in->budgets.n; i++) {
        const struct vr_device *d = &in->machine.devices[in->budgets.items[i].device];
        if (strcmp(d->backend, "CUDA") == 0 && d->uuid[0] && vr_engine_has("cuda"))
            in->budgets.items[n++] = in->budgets.items[i];
    }
    in->budgets.n = n;
}

/* --- the machine --- */

static void figure(struct vr_table *t, double v, int digits)
{
    if (v > 0)
        vr_table_cell(t, "%.*f", digits, v);
    else
        vr_table_cell(t, "-");
}

static int digits_of(double v) { return v < 10 ? 2 : v < 100 ? 1 : 0; }

static void show_types(struct vr_buf *out, const struct vr_measured *m)
{
    VR_AUTO_TABLE t = { .cols = { { "weights", false },
                                  { "GB/s", true },
                                  { "experts", true },
                                  { "prompt TFLOPS", true },
                                  { "experts", true } },
                        .n_cols = 5,
                        .indent = "    ",
                        .color = vr_show_color() };
    for (size_t i = 0; i < m->n_types; i++) {
        const struct vr_measured_type *x = &m->types[i];
        vr_table_row(&t);
        vr_table_cell(&t, "%s", x->name);
        figure(&t, x->gbs, digits_of(x->gbs));
        figure(&t, x->expert_gbs, digits_of(x->expert_gbs));
        figure(&t, x->tflops, x->tflops < 1 ? 3 : digits_of(x->tflops));
        figure(&t, x->expert_tflops, x->expert_tflops < 1 ? 3 : digits_of(x->expert_tflops));
    }
    vr_table_print(&t, out);
}

static void show_ops(struct vr_buf *out, const struct vr_measured *m)
{
    VR_AUTO_TABLE t = { .cols = { { "operations", false },
                                  { "cache", false },
                                  { "us", true },
                                  { "GB/s", true },
                                  { "prompt GB/s", true },
                                  { "prompt TFLOPS", true } },
                        .n_cols = 6,
                        .indent = "    ",
                        .color = vr_show_color() };
    for (size_t i = 0; i < m->n_ops; i++) {
        const struct vr_measured_op *x = &m->ops[i];
        vr_table_row(&t);
        vr_table_cell(&t, "%s", x->name);
        vr_table_cell(&t, "%s", x->type);
        figure(&t, x->us, 2);
        figure(&t, x->gbs, digits_of(x->gbs));
        figure(&t, x->prompt_gbs, digits_of(x->prompt_gbs));
        figure(&t, x->prompt_tflops, x->prompt_tflops < 1 ? 3 : digits_of(x->prompt_tflops));
    }
    if (m->n_ops) vr_buf_adds(out, "\n");
    if (m->n_ops) vr_table_print(&t, out);
}

static void show_measured(struct vr_buf *out, const char *id, const char *name, const struct vr_measured *m,
                          bool device)
{
    if (!m->when[0]) return;
    vr_buf_addf(out, "\n  %s%s%s  %s\n", vr_style(vr_show_color(), VR_BOLD), id, vr_style(vr_show_color(), VR_PLAIN),
                name);
    show_types(out, m);
    show_ops(out, m);
    vr_buf_addf(out, "    kernels       %.2f us each at least, %.2f more for a matmul, %.2f more for one of a prompt\n",
                m->launch_us, m->product_us, m->prompt_product_us);
    if (device)
        vr_buf_addf(out,
                    "    launches      %.2f us of host time per kernel, %.2f for prompts, and %.1f ms for the mask of "
                    "2,048 tokens; a switch to the host and back takes %.0f and %.0f us\n",
                    m->submit_us, m->prompt_submit_us, m->prompt_pair_ns * 2048 * 2048 / 1e6, m->switch_us,
                    m->prompt_switch_us);
    if (m->step_us >= 0.5) vr_buf_addf(out, "    overhead      %.0f us per token\n", m->step_us);
    if (m->cache_mib > 0) vr_buf_addf(out, "    CPU cache     holds about %.0f MiB of weights\n", m->cache_mib);
    if (!device) return;
    vr_buf_addf(out,
                "    transfers     %.1f GB/s to the device (%.1f from a mapped file, experts %.1f), %.1f GB/s back, "
                "latency %.1f and %.1f us\n",
                m->up_gbs, m->mapped_gbs, m->mapped_expert_gbs, m->down_gbs, m->up_us, m->down_us);
    struct vr_num a, b;
    if (m->runtime_bytes)
        vr_buf_addf(out, "    runtime       %s MiB of VRAM for the CUDA context, %s more if cuBLAS is used\n",
                    vr_fmt_mib(&a, m->runtime_bytes, 0), vr_fmt_mib(&b, m->blas_bytes, 0));
}

static void show_machine(struct vr_buf *out, const struct vr_machine *m, const char *path)
{
    vr_show_title(out, "Calibration");
    show_measured(out, m->n_devices ? "host, with GPUs in use" : "host", m->host.cpu, &m->host.measured, false);
    show_measured(out, "host, without GPUs", m->host.cpu, &m->host.alone, false);
    for (size_t i = 0; i < m->n_devices; i++)
        show_measured(out, m->devices[i].id, m->devices[i].name, &m->devices[i].measured, true);
    for (size_t i = 0, n = 0; i < m->n_links; i++)
        if (m->links[i].measured_gbs > 0)
            vr_buf_addf(out, "%s  %s - %s: %.0f GB/s, %.1f us\n", n++ ? "" : "\n", m->devices[m->links[i].a].id,
                        m->devices[m->links[i].b].id, m->links[i].measured_gbs, m->links[i].measured_us);
    vr_show_reductions(out, m);
    for (const char *at = m->note; *at;) {
        size_t n = strcspn(at, "\n");
        vr_buf_addf(out, "\n  note: %.*s\n", (int)n, at);
        at += n + (at[n] == '\n');
    }
    vr_buf_addf(out, "\n  Saved to %s; every plan on this machine now uses it.\n", path);
}

/* With its cards hidden a computer is the same one, and its host alone: what was measured on the cards stays. */
static bool save_own(const char *path, const struct vr_machine *m, struct vr_err *err)
{
    VR_AUTO(vr_machine) saved = vr_machine_new(err);
    struct vr_err none = { 0 };
    if (!saved) return false;
    if (m->n_devices || !vr_profile_load(path, saved, &none) || !saved->n_devices ||
        strcmp(saved->host.cpu, m->host.cpu) != 0)
        return vr_profile_save(path, m, err);
    saved->host.alone = m->host.measured;
    return vr_profile_save(path, saved, err);
}

/* Where every later plan looks for the profile, with its folders made. */
static bool own_path(char *path, size_t n, struct vr_err *err)
{
    if (!vr_profile_own_path(path, n))
        return vr_fail(err, VR_EIO, "cannot save the machine profile: neither XDG_DATA_HOME nor HOME is set");
    return vr_file_make_parents(path, err);
}

/* Threads that compute wait for each other, so one that another program keeps from its core stops all: figures are then
 * wrong by a factor, not by a share. Told before the minute is spent, and with the result. */
static void warn_if_busy(struct vr_machine *m)
{
    int percent = vr_cpu_busy_percent(m);
    if (percent < BUSY_PERCENT) return;
    vr_log(VR_WARN, "other programs use %d %% of the CPU: the measurements will be wrong", percent);
    vr_machine_note(
        m,
        "Other programs used %d %% of the CPU when the calibration started: stop them and run 'vram-llm bench' again.",
        percent);
}

/* One line that is written over on a terminal, lines in a file. */
static void tell_step(void *ctx, unsigned step, unsigned n_steps, const char *what)
{
    const bool *terminal = ctx;
    fprintf(stderr, "%s  [%2u/%u] %s%s", *terminal ? "\r\033[K" : "", step, n_steps, what, *terminal ? "" : "\n");
    fflush(stderr);
}

static bool calibrate(struct vr_calibrate *c, struct vr_input *in, const char *path, struct vr_err *err)
{
    bool terminal = isatty(STDERR_FILENO);
    c->tell = tell_step;
    c->ctx = &terminal;
    warn_if_busy(&in->machine);
    bool ok = vr_calibrate(c, &in->machine, &in->budgets, err);
    if (terminal) fputs("\r\033[K", stderr);
    return ok && save_own(path, &in->machine, err);
}

static bool bench_machine(const struct vr_options *o, struct vr_input *in, struct vr_calibrate *c, const char *path,
                          struct vr_buf *out, struct vr_err *err)
{
    in->machine.note[0] = '\0';
    if (!calibrate(c, in, path, err)) return false;
    if (o->save_machine && !vr_profile_save(o->save_machine, &in->machine, err)) return false;
    if (o->json) return vr_json_print(vr_json_profile(&in->machine), out, err);
    show_machine(out, &in->machine, path);
    return true;
}

/* --- a model --- */

/* What the plan says of it, in tokens/s with an empty, a half full and a full context. */
struct predicted {
    double n_ctx, decode[3], prefill[3];
    struct {
        char id[24];
        uint64_t planned_bytes, overhead_bytes;
    } devices[VR_MEASURE_DEVICES];
    size_t n_devices;
};

static void read_outcome(const struct vr_machine *m, const struct vr_outcome *o, struct predicted *out)
{
    const struct vr_verdict *v = &o->verdict;
    *out = (struct predicted){
        .n_ctx = v->n_ctx,
        .decode = { v->empty.decode_tok_s, v->price.decode_tok_s, v->full.decode_tok_s },
        .prefill = { v->empty.prefill_tok_s, v->price.prefill_tok_s, v->full.prefill_tok_s },
    };
    for (size_t i = 0; i < v->n_devices && out->n_devices < VR_COUNT(out->devices); i++) {
        const struct vr_judged *j = &v->devices[i];
        size_t n = out->n_devices++;
        snprintf(out->devices[n].id, sizeof out->devices[n].id, "%s", m->devices[j->device].id);
        out->devices[n].planned_bytes = j->use.model_bytes + j->use.context_bytes + j->use.compute_bytes;
        out->devices[n].overhead_bytes = j->overhead_bytes + j->reduce_bytes;
    }
}

/* Between an empty, a half full and a full context times change evenly. */
static double at_fill(const double tok_s[3], double fill)
{
    if (!(tok_s[0] > 0) || !(tok_s[1] > 0) || !(tok_s[2] > 0)) return 0;
    double halves = 2 * fmin(fill, 1), part = halves < 1 ? halves : halves - 1;
    const double *from = halves < 1 ? tok_s : tok_s + 1;
    return 1 / ((1 - part) / from[0] + part / from[1]);
}

static size_t compare_speeds(const struct predicted *p, const struct vr_measure_run *r, uint32_t n_tokens,
                             struct vr_compared rows[4])
{
    size_t n = 0;
    for (int i = 0; i < 2; i++)
        if (r->decode_ms[i] > 0)
            rows[n++] = (struct vr_compared){ VR_DECODE, r->decode_fill[i], n_tokens,
                                              at_fill(p->decode, r->decode_fill[i] / p->n_ctx), 1e3 / r->decode_ms[i] };
    for (int i = 0; i < 2; i++)
        if (r->prefill_ms[i] > 0 && (i == 0 || r->prefill_fill[1] >= r->prefill_fill[0] + 2 * r->n_ubatch))
            rows[n++] = (struct vr_compared){ VR_PREFILL, r->prefill_fill[i], r->n_ubatch,
                                              at_fill(p->prefill, r->prefill_fill[i] / p->n_ctx),
                                              r->n_ubatch * 1e3 / r->prefill_ms[i] };
    return n;
}

/* The engine names devices in the order in which they are visible: the plan's. The driver counts by card, so nothing
 * can be said of a device that is a share of one (GGML_CUDA_DEVICES). */
static bool has_memory(const struct predicted *p, const struct vr_measure_run *r, size_t i)
{
    return i < r->n_devices && i < p->n_devices && r->devices[i].after_bytes && !getenv("GGML_CUDA_DEVICES");
}

static double more_bytes(uint64_t now, uint64_t before) { return (double)now - (double)before; }

static json_t *json_speeds(const struct vr_compared *rows, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_pack("{s:s, s:i, s:f, s:f, s:f}", "what", vr_compared_name(&rows[i]), "tokens",
                                              (int)rows[i].depth, "predicted_tok_s", rows[i].predicted,
                                              "measured_tok_s", rows[i].measured, "predicted_over_measured",
                                              rows[i].measured > 0 ? rows[i].predicted / rows[i].measured : 0.0));
    return list;
}

static json_t *json_memory(const struct predicted *p, const struct vr_measure_run *r)
{
    json_t *list = json_array();
    for (size_t i = 0; i < r->n_devices; i++) {
        if (!has_memory(p, r, i)) continue;
        double own = (double)(r->devices[i].model_bytes + r->devices[i].context_bytes + r->devices[i].compute_bytes);
        json_array_append_new(list, json_pack("{s:s, s:f, s:f, s:f, s:f, s:f}", "id", p->devices[i].id, "planned_bytes",
                                              (double)p->devices[i].planned_bytes, "overhead_bytes",
                                              (double)p->devices[i].overhead_bytes, "engine_bytes", own, "loaded_bytes",
                                              more_bytes(r->devices[i].loaded_bytes, r->devices[i].before_bytes),
                                              "after_bytes",
                                              more_bytes(r->devices[i].after_bytes, r->devices[i].before_bytes)));
    }
    return list;
}

static void speed_cell(struct vr_table *t, double tok_s)
{
    struct vr_num n;
    vr_table_cell(t, "%s", vr_fmt_real(&n, tok_s, tok_s < 1000 ? 1 : 0));
}

static void show_speeds(struct vr_buf *out, const struct vr_compared *rows, size_t n)
{
    VR_AUTO_TABLE t = { .cols = { { "", false },
                                  { "context", true },
                                  { "predicted", true },
                                  { "measured tok/s", true },
                                  { "error", true } },
                        .n_cols = 5,
                        .indent = "  ",
                        .color = vr_show_color() };
    for (size_t i = 0; i < n; i++) {
        struct vr_num tokens;
        vr_table_row(&t);
        vr_table_cell(&t, "%s", vr_compared_name(&rows[i]));
        vr_table_cell(&t, "%s", vr_fmt_count(&tokens, rows[i].depth));
        speed_cell(&t, rows[i].predicted);
        speed_cell(&t, rows[i].measured);
        vr_table_cell(&t, "%+ld %%",
                      rows[i].measured > 0 ? lround(100 * (rows[i].predicted / rows[i].measured - 1)) : 0);
    }
    vr_table_print(&t, out);
}

static void show_memory(struct vr_buf *out, const struct predicted *p, const struct vr_measure_run *r)
{
    VR_AUTO_TABLE t = { .cols = { { "device", false },
                                  { "planned", true },
                                  { "runtime", true },
                                  { "total", true },
                                  { "loaded", true },
                                  { "measured MiB", true },
                                  { "error", true } },
                        .n_cols = 7,
                        .indent = "  ",
                        .color = vr_show_color() };
    size_t n = 0;
    for (size_t i = 0; i < r->n_devices; i++) {
        if (!has_memory(p, r, i)) continue;
        double mib = 1.0 / (double)VR_MIB, planned = (double)p->devices[i].planned_bytes * mib;
        double overhead = (double)p->devices[i].overhead_bytes * mib;
        double after = more_bytes(r->devices[i].after_bytes, r->devices[i].before_bytes) * mib;
        n++;
        vr_table_row(&t);
        vr_table_cell(&t, "%s", p->devices[i].id);
        vr_table_cell(&t, "%.0f", planned);
        vr_table_cell(&t, "%.0f", overhead);
        vr_table_cell(&t, "%.0f", planned + overhead);
        vr_table_cell(&t, "%.0f", more_bytes(r->devices[i].loaded_bytes, r->devices[i].before_bytes) * mib);
        vr_table_cell(&t, "%.0f", after);
        vr_table_cell(&t, "%+.0f", planned + overhead - after);
    }
    if (n) vr_buf_adds(out, "\n");
    if (n) vr_table_print(&t, out);
}

/* Whether predictions rest on measurements: all that the plan may use was. */
static bool is_measured(const struct vr_options *o, const struct vr_input *in, bool *out, struct vr_err *err)
{
    VR_AUTO_FREE struct vr_speeds *speeds = vr_input_speeds(o, in, err);
    if (speeds) *out = speeds->measured;
    return speeds != NULL;
}

static bool bench_model(const struct vr_options *o, struct vr_input *in, struct vr_model *m, struct vr_buf *out,
                        struct vr_err *err)
{
    const struct vr_models models = { .main = m };
    struct vr_learned none = { 0 };
    VR_CLEANUP(vr_load_done) struct vr_load load = { 0 };
    VR_AUTO_OUTCOME outcome = { 0 };
    struct vr_options endless = *o;
    endless.spec = "off"; /* what is measured is the model's own speed */
    endless.n_prompt =
        VR_PROMPT_ENDLESS; /* what is measured is a micro-batch among others: a pipeline is filled by then */
    if (!vr_load_plan_on(in, &endless, &models, &none, &outcome, &load, err)) return false;
    if (!load.plan_json.n) return vr_fail(err, VR_EENGINE, "%s: there is no plan to compare a run with", o->model);
    struct vr_measure_run r;
    struct predicted p;
    struct vr_compared rows[4];
    bool measured = false;
    int timeout_ms = 600000 + (int)o->seconds * 3000;
    read_outcome(&in->machine, &outcome, &p);
    if (!is_measured(o, in, &measured, err) ||
        !vr_measure_run(&outcome.trial, load.env.data, load.env.n, (uint32_t)o->n_tokens, (double)o->seconds,
                        timeout_ms, &r, err))
        return false;
    size_t n = compare_speeds(&p, &r, (uint32_t)o->n_tokens, rows);
    const struct vr_submission shared = {
        .model = m, .machine = &in->machine, .outcome = &outcome, .rows = rows, .n = n, .calibrated = measured
    };
    if (o->submit && !vr_submit(&shared, o->submit, err)) return false;
    if (o->json)
        return vr_json_print(json_pack("{s:o, s:f, s:o, s:o, s:o}", "model", vr_json_model(m), "load_ms", r.load_ms,
                                       "speeds", json_speeds(rows, n), "memory", json_memory(&p, &r), "plan",
                                       json_loads(load.plan_json.data, 0, NULL)), /* as /api/plan tells it */
                             out, err);
    vr_show_title(out, m->name);
    vr_show_fact(out, "predicted", "%s", measured ? "from this machine's calibration" : "from data sheets");
    vr_show_fact(out, "loaded in", "%.1f s", r.load_ms / 1e3);
    vr_buf_adds(out, "\n");
    show_speeds(out, rows, n);
    show_memory(out, &p, &r);
    if (o->submit)
        vr_buf_addf(out, "\n  %zu row%s appended to %s; --compare shows them.\n", n, n == 1 ? "" : "s", o->submit);
    return true;
}

bool vr_cmd_bench(const struct vr_options *o, struct vr_buf *out, struct vr_err *err)
{
    if (o->compare) return vr_submit_compare(o->compare, o->json, out, err);
    if (o->submit && !o->model) return vr_fail(err, VR_EUSAGE, "--submit needs a model: vram-llm bench FILE.gguf");
    if (o->nodes) return vr_bench_nodes(o, out, err);
    VR_AUTO(vr_input) in = vr_input_read(o, err);
    if (!in) return false;
    keep_usable(in);
    VR_AUTO(vr_model) m = o->model ? vr_model_open(o->model, err) : NULL;
    if (o->model && !m) return false;
    struct vr_calibrate c = { .missing_only = m != NULL };
    char path[512];
    if (!choose_types(o, m, &c, err) || !choose_caches(o, m != NULL, &c, err)) return false;
    bool measures = !m || (!o->as_is && !vr_calibrated(&c, &in->machine, &in->budgets));
    if (measures && !own_path(path, sizeof path, err)) return false; /* before the minute is spent */
    if (!m) return bench_machine(o, in, &c, path, out, err);
    if (measures && !calibrate(&c, in, path, err)) return false;
    return bench_model(o, in, m, out, err);
}
