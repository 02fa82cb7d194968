/* `bench`: measures this machine, or a model on it against what the plan says. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/table.h"
#include "base/text.h"
#include "cli/calibrate.h"
#include "cli/commands.h"
#include "cli/load_plan.h"
#include "cli/placement.h"
#include "engine/measure/measure.h"
#include "hw/profile.h"

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

static void keep_usable(struct vr_input *in)
{
    size_t n = 0;
    for (size_t i = 0; i < in->budgets.n; i++)
        if (vr_device_usable(&in->machine.devices[in->budgets.items[i].device]))
            in->budgets.items[n++] = in->budgets.items[i];
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
                    "    launches      %.2f us of host time per kernel, %.2f for prompts; a switch to the host and "
                    "back takes %.0f and %.0f "
                    "us\n",
                    m->submit_us, m->prompt_submit_us, m->switch_us, m->prompt_switch_us);
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
    VR_AUTO_FREE struct vr_machine *saved = calloc(1, sizeof *saved);
    struct vr_err none = { 0 };
    if (!saved) return vr_fail_nomem(err, "keeping a profile");
    if (m->n_devices || !vr_profile_load(path, saved, &none) || !saved->n_devices ||
        strcmp(saved->host.cpu, m->host.cpu) != 0)
        return vr_profile_save(path, m, err);
    saved->host.alone = m->host.measured;
    return vr_profile_save(path, saved, err);
}

static bool bench_machine(const struct vr_options *o, struct vr_input *in, const struct vr_calibrate *c,
                          const char *path, struct vr_buf *out, struct vr_err *err)
{
    in->machine.note[0] = '\0';
    if (!vr_calibrate(c, in, err) || !save_own(path, &in->machine, err)) return false;
    if (o->save_machine && !vr_profile_save(o->save_machine, &in->machine, err)) return false;
    if (o->json) return vr_json_print(vr_json_profile(&in->machine), out, err);
    show_machine(out, &in->machine, path);
    return true;
}

/* --- a model --- */

static double number_at(const json_t *tree, const char *key) { return json_number_value(json_object_get(tree, key)); }

/* From what is predicted for an empty, a half full and a full context: between them times change evenly. */
static double at_fill(const double tok_s[3], double fill)
{
    if (!(tok_s[0] > 0) || !(tok_s[1] > 0) || !(tok_s[2] > 0)) return 0;
    double halves = 2 * fmin(fill, 1), part = halves < 1 ? halves : halves - 1;
    const double *from = halves < 1 ? tok_s : tok_s + 1;
    return 1 / ((1 - part) / from[0] + part / from[1]);
}

static json_t *compared(const char *what, uint32_t tokens, double predicted, double measured)
{
    return json_pack("{s:s, s:i, s:f, s:f, s:f}", "what", what, "tokens", (int)tokens, "predicted_tok_s", predicted,
                     "measured_tok_s", measured, "predicted_over_measured", measured > 0 ? predicted / measured : 0.0);
}

static json_t *json_speeds(const json_t *plan, const struct vr_measure_run *r)
{
    const json_t *p = json_object_get(plan, "predicted");
    double n_ctx = number_at(json_object_get(plan, "goal"), "n_ctx"), batch = r->n_ubatch;
    double decode[] = { number_at(p, "decode_empty_tok_s"), number_at(p, "decode_tok_s"),
                        number_at(p, "decode_full_tok_s") };
    double prefill[] = { number_at(p, "prefill_empty_tok_s"), number_at(p, "prefill_tok_s"),
                         number_at(p, "prefill_full_tok_s") };
    json_t *list = json_array();
    for (int i = 0; i < 2; i++)
        if (r->decode_ms[i] > 0)
            json_array_append_new(list, compared("token generation", r->decode_fill[i],
                                                 at_fill(decode, r->decode_fill[i] / n_ctx), 1e3 / r->decode_ms[i]));
    for (int i = 0; i < 2; i++)
        if (r->prefill_ms[i] > 0 && (i == 0 || r->prefill_fill[1] >= r->prefill_fill[0] + 2 * r->n_ubatch))
            json_array_append_new(list, compared("prompt processing", r->prefill_fill[i],
                                                 at_fill(prefill, r->prefill_fill[i] / n_ctx),
                                                 batch * 1e3 / r->prefill_ms[i]));
    return list;
}

/* The engine names devices in the order in which they are visible: the plan's. The driver counts by card, so nothing
 * can be said of a device that is a share of one (GGML_CUDA_DEVICES). */
static json_t *json_memory(const json_t *plan, const struct vr_measure_run *r)
{
    json_t *list = json_array();
    const json_t *devices = json_object_get(plan, "devices");
    for (size_t i = 0; i < r->n_devices && i < json_array_size(devices) && !getenv("GGML_CUDA_DEVICES"); i++) {
        const json_t *d = json_array_get(devices, i);
        if (!r->devices[i].after_bytes) continue;
        double planned = number_at(d, "model_bytes") + number_at(d, "context_bytes") + number_at(d, "compute_bytes");
        double own = (double)(r->devices[i].model_bytes + r->devices[i].context_bytes + r->devices[i].compute_bytes);
        double loaded = (double)r->devices[i].loaded_bytes - (double)r->devices[i].before_bytes;
        double after = (double)r->devices[i].after_bytes - (double)r->devices[i].before_bytes;
        json_array_append_new(list,
                              json_pack("{s:O, s:f, s:f, s:f, s:f, s:f}", "id", json_object_get(d, "id"),
                                        "planned_bytes", planned, "overhead_bytes", number_at(d, "overhead_bytes"),
                                        "engine_bytes", own, "loaded_bytes", loaded, "after_bytes", after));
    }
    return list;
}

static void speed_cell(struct vr_table *t, double tok_s)
{
    struct vr_num n;
    if (tok_s < 1000)
        vr_table_cell(t, "%.1f", tok_s);
    else
        vr_table_cell(t, "%s", vr_fmt_count(&n, (uint64_t)(tok_s + 0.5)));
}

static void show_speeds(struct vr_buf *out, const json_t *list)
{
    VR_AUTO_TABLE t = { .cols = { { "", false },
                                  { "context", true },
                                  { "predicted", true },
                                  { "measured tok/s", true },
                                  { "error", true } },
                        .n_cols = 5,
                        .indent = "  ",
                        .color = vr_show_color() };
    size_t i;
    const json_t *x;
    json_array_foreach(list, i, x)
    {
        double ratio = number_at(x, "predicted_over_measured");
        struct vr_num n;
        vr_table_row(&t);
        vr_table_cell(&t, "%s", json_string_value(json_object_get(x, "what")));
        vr_table_cell(&t, "%s", vr_fmt_count(&n, (uint64_t)number_at(x, "tokens")));
        speed_cell(&t, number_at(x, "predicted_tok_s"));
        speed_cell(&t, number_at(x, "measured_tok_s"));
        vr_table_cell(&t, "%+ld %%", lround(100 * (ratio - 1)));
    }
    vr_table_print(&t, out);
}

static void show_memory(struct vr_buf *out, const json_t *list)
{
    if (json_array_size(list) == 0) return;
    vr_buf_adds(out, "\n");
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
    size_t i;
    const json_t *x;
    json_array_foreach(list, i, x)
    {
        double mib = 1.0 / (double)VR_MIB, planned = number_at(x, "planned_bytes") * mib;
        double overhead = number_at(x, "overhead_bytes") * mib, after = number_at(x, "after_bytes") * mib;
        vr_table_row(&t);
        vr_table_cell(&t, "%s", json_string_value(json_object_get(x, "id")));
        vr_table_cell(&t, "%.0f", planned);
        vr_table_cell(&t, "%.0f", overhead);
        vr_table_cell(&t, "%.0f", planned + overhead);
        vr_table_cell(&t, "%.0f", number_at(x, "loaded_bytes") * mib);
        vr_table_cell(&t, "%.0f", after);
        vr_table_cell(&t, "%+.0f", planned + overhead - after);
    }
    vr_table_print(&t, out);
}

/* The plan as `serve` makes it; without a device, the one that says what the host does. */
static json_t *find_plan(const struct vr_options *o, struct vr_input *in, const struct vr_models *models,
                         const struct vr_load *load, struct vr_err *err)
{
    if (load->plan_json.n) return json_loads(load->plan_json.data, 0, NULL);
    struct vr_speeds speeds;
    vr_speeds_of(&in->machine, &speeds);
    if (o->no_mmap) vr_speeds_pin(&speeds);
    struct vr_fit_ask ask = vr_placement_ask(o, in, models, &speeds);
    ask.n_outputs = (uint32_t)o->n_seq;
    VR_AUTO_OUTCOME outcome = { 0 };
    if (!vr_placement_find(o, &ask, &outcome, err)) return NULL;
    json_t *plan = json_pack("{s:o}", "goal", vr_json_goal(&outcome.trial.context, o->optimize));
    json_object_update_new(plan, vr_json_outcome(&ask, &outcome));
    return plan;
}

static bool bench_model(const struct vr_options *o, struct vr_input *in, struct vr_model *m, struct vr_buf *out,
                        struct vr_err *err)
{
    const struct vr_models models = { .main = m };
    struct vr_learned none = { 0 };
    VR_CLEANUP(vr_load_done) struct vr_load load = { 0 };
    if (!vr_load_plan(o, &models, &none, &load, err)) return false;
    json_t *plan = find_plan(o, in, &models, &load, err);
    if (!plan) return err->code ? false : vr_fail_nomem(err, "reading a plan");
    struct vr_measure_run r;
    int timeout_ms = 600000 + (int)o->seconds * 3000;
    bool ok = vr_measure_run(vr_buf_str(&load.load_json), load.env.data, load.env.n, (uint32_t)o->n_tokens,
                             (double)o->seconds, timeout_ms, &r, err);
    if (!ok) return json_decref(plan), false;
    json_t *speeds = json_speeds(plan, &r), *memory = json_memory(plan, &r);
    if (o->json) {
        json_t *tree = json_pack("{s:o, s:f, s:o, s:o, s:O}", "model", vr_json_model(m), "load_ms", r.load_ms, "speeds",
                                 speeds, "memory", memory, "plan", plan);
        json_decref(plan);
        return vr_json_print(tree, out, err);
    }
    vr_show_title(out, m->name);
    bool known = json_is_true(json_object_get(json_object_get(plan, "predicted"), "measured_machine"));
    vr_show_fact(out, "predicted", "%s", known ? "from this machine's calibration" : "from data sheets");
    vr_show_fact(out, "loaded in", "%.1f s", r.load_ms / 1e3);
    vr_buf_adds(out, "\n");
    show_speeds(out, speeds);
    show_memory(out, memory);
    json_decref(speeds);
    json_decref(memory);
    json_decref(plan);
    return true;
}

bool vr_cmd_bench(const struct vr_options *o, struct vr_buf *out, struct vr_err *err)
{
    struct vr_input in;
    if (!vr_input_read(o, &in, err)) return false;
    keep_usable(&in);
    VR_AUTO(vr_model) m = o->model ? vr_model_open(o->model, err) : NULL;
    if (o->model && !m) return false;
    struct vr_calibrate c = { .missing_only = m != NULL };
    char path[512];
    if (!choose_types(o, m, &c, err) || !choose_caches(o, m != NULL, &c, err)) return false;
    bool measures = !m || (!o->as_is && !vr_calibrated(&c, &in));
    if (measures && !vr_calibrate_path(path, sizeof path, err)) return false; /* before the minute is spent */
    if (!m) return bench_machine(o, &in, &c, path, out, err);
    if (measures && (!vr_calibrate(&c, &in, err) || !save_own(path, &in.machine, err))) return false;
    return bench_model(o, &in, m, out, err);
}
