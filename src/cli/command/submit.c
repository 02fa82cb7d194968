#include "cli/command/submit.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/json.h"
#include "base/rank.h"
#include "base/table.h"
#include "base/text.h"
#include "cli/text/show.h"
#include "engine/llama/library.h"
#include "gguf/type.h"
#include "hw/gpus.h"

#define MAX_FILE (16 << 20)
#define MAX_ROWS 10000

static const char *const names[VR_N_PHASES] = { "token generation", "prompt processing" };
static const struct {
    const char *tokens, *tok_s;
    double allowed; /* how far off is still good, where nothing was calibrated */
} fields[VR_N_PHASES] = { { "tg_tokens", "tg_tok_s", 0.25 }, { "pp_tokens", "pp_tok_s", 0.40 } };

const char *vr_compared_name(const struct vr_compared *c) { return names[c->phase]; }

/* --- writing --- */

/* Cards by the instructions that they have; the first row whose compute capability is not above the card's. */
static const struct {
    unsigned cc; /* x 10 */
    const char *name;
} generations[] = { { 100, "Blackwell" }, { 90, "Hopper" }, { 89, "Ada" },    { 80, "Ampere" },
                    { 75, "Turing" },     { 70, "Volta" },  { 60, "Pascal" }, { 0, "older" } };

static const char *generation_of(const struct vr_device *d)
{
    if (strstr(d->name, "AMD") || strstr(d->name, "Radeon")) return "AMD";
    if (strstr(d->name, "Intel")) return "Intel";
    if (!d->cc_major) return "unknown";
    size_t i = 0;
    while (d->cc_major * 10u + d->cc_minor < generations[i].cc) i++;
    return generations[i].name;
}

/* Names of models may be paths of whoever made the file. */
static const char *model_name(const struct vr_model *m)
{
    const char *slash = strrchr(m->name, '/'), *back = strrchr(m->name, '\\');
    return slash > back ? slash + 1 : back ? back + 1 : m->name;
}

static const struct vr_device *device(const struct vr_submission *s, size_t i)
{
    return &s->machine->devices[s->outcome->verdict.devices[i].device];
}

static void set_cards(const struct vr_submission *s, json_t *row)
{
    const struct vr_verdict *v = &s->outcome->verdict;
    json_t *gpus = json_array();
    const char *generation = v->n_devices ? generation_of(device(s, 0)) : "none";
    bool unequal = false;
    for (size_t i = 0; i < v->n_devices; i++) {
        json_array_append_new(gpus, json_string(device(s, i)->name));
        unequal |= strcmp(device(s, i)->name, device(s, 0)->name) != 0;
        if (strcmp(generation_of(device(s, i)), generation) != 0) generation = "mixed";
    }
    json_object_set_new(row, "gpus", gpus);
    json_object_set_new(row, "generation", json_string(generation));
    json_object_set_new(row, "backend", json_string(v->n_devices ? device(s, 0)->backend : "CPU"));
    json_object_set_new(row, "unequal", json_boolean(unequal));
}

/* "AMD Ryzen 9 5900X, 12 cores, 64 GB, PCIe 4 x16 and PCIe 3 x4" */
static void set_host(const struct vr_submission *s, json_t *row)
{
    VR_AUTO_BUF text = { 0 };
    const struct vr_host *h = &s->machine->host;
    vr_buf_addf(&text, "%s, %" PRIu32 " cores, %.0f GB", h->cpu, h->cores, (double)h->ram_total_bytes / 1e9);
    for (size_t i = 0; i < s->outcome->verdict.n_devices; i++) {
        const struct vr_device *d = device(s, i);
        if (d->pcie_lanes) vr_buf_addf(&text, "%sPCIe %u x%u", i ? " and " : ", ", d->pcie_gen_max, d->pcie_lanes);
    }
    json_object_set_new(row, "host", json_string(vr_buf_str(&text)));
    if (s->machine->driver[0]) json_object_set_new(row, "driver", json_string(s->machine->driver));
}

/* How it was placed. */
static void set_placement(const struct vr_submission *s, json_t *row)
{
    const struct vr_outcome *o = s->outcome;
    const struct vr_verdict *v = &o->verdict;
    bool tensor = o->trial.split_mode == VR_SPLIT_TENSOR, all = v->host_layers == 0;
    VR_AUTO_BUF split = { 0 };
    uint32_t on_gpu = s->model->n_layers + 1 - v->host_layers;
    for (size_t i = 0; i < v->n_devices; i++)
        vr_buf_addf(&split, "%s%g", i ? "," : "",
                    tensor ? v->devices[i].share : v->devices[i].n_layers + v->devices[i].output);
    const char *mode = v->n_devices < 2 ? "none" : tensor ? "tensor" : "layer";
    json_object_set_new(row, "split", json_string(mode));
    if (v->n_devices > 1) json_object_set_new(row, "tensor_split", json_string(vr_buf_str(&split)));
    if (v->n_devices == 0) on_gpu = 0;
    json_object_set_new(row, "n_gpu_layers", all && v->n_devices ? json_string("all") : json_integer(on_gpu));
    bool weights = v->host.model_bytes > s->model->input_bytes + s->model->input_bytes / 8;
    if (v->n_devices && (!all || weights)) json_object_set_new(row, "on_cpu", json_string(all ? "tensors" : "layers"));
    VR_AUTO_BUF overrides = { 0 };
    for (size_t i = 0; i < o->trial.n_overrides; i++)
        vr_buf_addf(&overrides, "%s%s=%s", i ? "," : "", o->trial.overrides[i].pattern,
                    o->trial.overrides[i].device == VR_ON_CPU ? "CPU"
                                                              : o->trial.devices[o->trial.overrides[i].device].name);
    if (overrides.n) json_object_set_new(row, "overrides", json_string(vr_buf_str(&overrides)));
    json_object_set_new(row, "host_weights", json_string(o->trial.mmap ? "mapped" : "pinned"));
    json_object_set_new(row, "offload_min", json_integer(o->trial.offload_min));
}

static json_t *row_of(const struct vr_submission *s, const struct vr_compared *c, const char *month)
{
    const struct vr_context *x = &s->outcome->trial.context;
    const struct vr_model *m = s->model;
    char kv[32], id[200];
    snprintf(kv, sizeof kv, "%s%s%s", vr_type(x->type_k)->name, x->type_k == x->type_v ? "" : "/",
             x->type_k == x->type_v ? "" : vr_type(x->type_v)->name);
    snprintf(id, sizeof id, "%.80s %.16s, %zu x %.40s, %s at %" PRIu32, model_name(m), m->quant,
             s->outcome->verdict.n_devices, s->outcome->verdict.n_devices ? vr_gpu_short(device(s, 0)->name) : "CPU",
             c->phase == VR_DECODE ? "tg" : "pp", c->depth);
    json_t *row = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:f, s:s}", "id", id, "source",
                            "vram-llm bench --submit", "date", month, "engine", "llama.cpp", "build",
                            vr_engine_version(), "method", "vram-llm bench " VR_VERSION, "model", model_name(m),
                            "quant", m->quant, "kind", m->n_expert ? "moe" : "dense", "size_gib",
                            (double)m->file_bytes / (double)(UINT64_C(1) << 30), "era", "now");
    if (!row) return NULL;
    set_cards(s, row);
    set_host(s, row);
    set_placement(s, row);
    json_object_update_new(row,
                           json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:f, s:f, s:b}", "flash_attn",
                                     s->outcome->verdict.flash ? "on" : "off", "kv", kv, "n_ctx",
                                     (int)s->outcome->verdict.n_ctx, "ubatch", (int)x->n_ubatch, "depth", (int)c->depth,
                                     fields[c->phase].tokens, (int)c->tokens, fields[c->phase].tok_s, c->measured,
                                     "predicted_tok_s", c->predicted, "calibrated", s->calibrated));
    return row;
}

bool vr_submit(const struct vr_submission *s, const char *path, struct vr_err *err)
{
    char month[16];
    time_t now = time(NULL);
    struct tm tm;
    strftime(month, sizeof month, "%Y-%m", gmtime_r(&now, &tm));
    VR_AUTO_BUF text = { 0 };
    for (size_t i = 0; i < s->n; i++) {
        json_t *row = row_of(s, &s->rows[i], month);
        VR_AUTO_FREE char *line = row ? json_dumps(row, JSON_COMPACT | JSON_REAL_PRECISION(6)) : NULL;
        json_decref(row);
        if (!line) return vr_fail(err, VR_EUSAGE, "%s: a name in it is not UTF-8 text", s->model->name);
        vr_buf_addf(&text, "%s\n", line);
    }
    FILE *f = fopen(path, "ae");
    bool ok = f && !text.failed && fwrite(text.data, 1, text.n, f) == text.n;
    if (f && fclose(f) != 0) ok = false;
    return ok || vr_fail(err, VR_EIO, "%s: cannot be written: %s", path, strerror(errno));
}

/* --- reading --- */

static double ratio(const json_t *row, enum vr_phase phase)
{
    double is = json_number_value(json_object_get(row, fields[phase].tok_s));
    double predicted = json_number_value(json_object_get(row, "predicted_tok_s"));
    return is > 0 && predicted > 0 ? predicted / is : 0;
}

static const char *text_of(const json_t *row, const char *key)
{
    const char *s = json_string_value(json_object_get(row, key));
    return s ? s : "?";
}

/* "2x RTX 3090 + RTX 3060" */
static void cards_cell(struct vr_table *t, const json_t *gpus)
{
    VR_AUTO_BUF text = { 0 };
    for (size_t i = 0, n; i < json_array_size(gpus); i += n) {
        const char *name = json_string_value(json_array_get(gpus, i));
        for (n = 1; i + n < json_array_size(gpus) && json_equal(json_array_get(gpus, i), json_array_get(gpus, i + n));)
            n++;
        if (n > 1) vr_buf_addf(&text, "%s%zux %s", i ? " + " : "", n, vr_gpu_short(name ? name : "?"));
        if (n == 1) vr_buf_addf(&text, "%s%s", i ? " + " : "", vr_gpu_short(name ? name : "?"));
    }
    vr_table_cell(t, "%s", text.n ? vr_buf_str(&text) : "CPU");
}

static void show_row(struct vr_table *t, const json_t *row, enum vr_phase phase)
{
    struct vr_num depth;
    double x = ratio(row, phase), is = json_number_value(json_object_get(row, fields[phase].tok_s));
    if (!(x > 0)) return;
    vr_table_row(t);
    cards_cell(t, json_object_get(row, "gpus"));
    vr_table_cell(t, "%s %s", text_of(row, "model"), text_of(row, "quant"));
    vr_table_cell(t, "%s", json_is_true(json_object_get(row, "calibrated")) ? "yes" : "no");
    vr_table_cell(t, "%s", names[phase]);
    vr_table_cell(t, "%s", vr_fmt_count(&depth, (uint64_t)json_integer_value(json_object_get(row, "depth"))));
    vr_table_cell(t, "%.1f", x * is);
    vr_table_cell(t, "%.1f", is);
    vr_table_cell(t, "%+ld %%", lround(100 * (x - 1)));
}

/* How far off they are together. */
static void show_summary(struct vr_buf *out, const json_t *rows)
{
    size_t i, without = 0;
    json_t *row;
    for (enum vr_phase phase = 0; phase < VR_N_PHASES; phase++) {
        double all[MAX_ROWS];
        size_t n = 0, good = 0;
        json_array_foreach(rows, i, row)
        {
            double x = ratio(row, phase);
            if (x > 0) all[n++] = x;
            good += x > 0 && fabs(x - 1) <= fields[phase].allowed;
        }
        if (n)
            vr_buf_addf(out, "  %s: %zu row%s, %zu within %.0f %%, median %+ld %%\n", names[phase], n,
                        n == 1 ? "" : "s", good, 100 * fields[phase].allowed, lround(100 * (vr_rank(all, n, 0.5) - 1)));
    }
    json_array_foreach(rows, i, row) without += !(ratio(row, VR_DECODE) > 0 || ratio(row, VR_PREFILL) > 0);
    if (without) vr_buf_addf(out, "  %zu row%s without a prediction\n", without, without == 1 ? "" : "s");
}

static bool read_rows(const char *path, json_t *rows, struct vr_err *err)
{
    VR_AUTO_BUF text = { 0 };
    if (!vr_file_read(path, MAX_FILE, &text, err)) return false;
    char *save = NULL;
    size_t line = 0;
    for (char *at = text.n ? strtok_r(text.data, "\n", &save) : NULL; at; at = strtok_r(NULL, "\n", &save)) {
        line++;
        json_t *row = json_loads(at, 0, NULL);
        if (!json_is_object(row)) {
            json_decref(row);
            return vr_fail(err, VR_EFORMAT, "%s: row %zu is not a JSON object: rows are what bench --submit writes",
                           path, line);
        }
        if (json_array_size(rows) == MAX_ROWS) {
            json_decref(row);
            return vr_fail(err, VR_EFORMAT, "%s: more than %d rows", path, MAX_ROWS);
        }
        json_array_append_new(rows, row);
    }
    return json_array_size(rows) > 0 || vr_fail(err, VR_EFORMAT, "%s: no rows", path);
}

static void show_rows(struct vr_buf *out, const char *path, const json_t *rows)
{
    VR_AUTO_TABLE t = { .cols = { { "cards", false },
                                  { "model", false },
                                  { "calibrated", false },
                                  { "", false },
                                  { "context", true },
                                  { "predicted", true },
                                  { "measured tok/s", true },
                                  { "error", true } },
                        .n_cols = 8,
                        .indent = "  ",
                        .color = vr_show_color() };
    size_t i;
    json_t *row;
    vr_show_title(out, vr_file_name(path));
    json_array_foreach(rows, i, row)
    {
        for (enum vr_phase phase = 0; phase < VR_N_PHASES; phase++) show_row(&t, row, phase);
    }
    vr_table_print(&t, out);
    vr_buf_adds(out, "\n");
    show_summary(out, rows);
}

bool vr_submit_compare(const char *path, bool json, struct vr_buf *out, struct vr_err *err)
{
    json_t *rows = json_array();
    bool ok = rows ? read_rows(path, rows, err) : vr_fail_nomem(err, "reading rows");
    if (ok && json) return vr_json_print(json_pack("{s:o}", "rows", rows), out, err);
    if (ok) show_rows(out, path, rows);
    json_decref(rows);
    return ok;
}
