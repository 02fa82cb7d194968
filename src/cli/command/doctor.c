/* `doctor`: what was found, what is missing, what to do about it. */
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "base/file.h"
#include "base/table.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/input/input.h"
#include "cli/option_rows.h"
#include "cli/settings.h"
#include "cli/text/show.h"
#include "cli/text/show_reduce.h"
#include "engine/llama/cpu.h"
#include "engine/llama/gpu_code.h"
#include "engine/llama/isolated.h"
#include "engine/llama/library.h"
#include "hw/bandwidth.h"
#include "hw/profile.h"

static void show_gpus(struct vr_buf *out, const struct vr_machine *m)
{
    VR_AUTO_TABLE t = { .cols = { { "device", false },
                                  { "name", false },
                                  { "total", true },
                                  { "free MiB", true },
                                  { "GB/s", true },
                                  { "CC", true },
                                  { "link", false },
                                  { "PCI", false } },
                        .n_cols = 8,
                        .indent = "  ",
                        .color = vr_show_color() };
    struct vr_num x;
    char link[48];
    for (size_t i = 0; i < m->n_devices; i++) {
        const struct vr_device *d = &m->devices[i];
        vr_table_row(&t);
        vr_table_cell(&t, "%s", d->id);
        vr_table_cell(&t, "%s", d->name);
        vr_table_cell(&t, "%s", vr_fmt_mib(&x, d->total_bytes, 0));
        vr_table_cell(&t, "%s", vr_fmt_mib(&x, d->free_bytes, 0));
        if (d->bandwidth_gbs > 0)
            vr_table_cell(&t, "%.0f", d->bandwidth_gbs);
        else
            vr_table_cell(&t, "?");
        if (d->cc_major)
            vr_table_cell(&t, "%u.%u", d->cc_major, d->cc_minor);
        else
            vr_table_cell(&t, "-");
        vr_table_cell(&t, "%s", vr_show_link(link, sizeof link, d));
        vr_table_cell(&t, "%s", d->pci);
    }
    vr_table_print(&t, out);
}

static void show_links(struct vr_buf *out, const struct vr_machine *m)
{
    if (m->n_links == 0) return;
    vr_buf_adds(out, "\n");
    VR_AUTO_TABLE t = { .cols = { { "devices", false }, { "link", false }, { "GB/s", true }, { "peer access", false } },
                        .n_cols = 4,
                        .indent = "  ",
                        .color = vr_show_color() };
    for (size_t i = 0; i < m->n_links; i++) {
        const struct vr_link *l = &m->links[i];
        vr_table_row(&t);
        vr_table_cell(&t, "%s - %s", m->devices[l->a].id, m->devices[l->b].id);
        if (l->n_nvlinks)
            vr_table_cell(&t, "%s, %u links", vr_link_kind_name(l->kind), l->n_nvlinks);
        else
            vr_table_cell(&t, "%s", vr_link_kind_name(l->kind));
        if (l->gbs > 0)
            vr_table_cell(&t, "%.0f", l->gbs);
        else
            vr_table_cell(&t, "?");
        vr_table_cell(&t, "%s", l->p2p ? "yes" : "no, via the host");
    }
    vr_table_print(&t, out);
}

/* A note as a line of its own; notes hold one sentence per line. */
static void show_notes(struct vr_buf *out, const char *who, const char *note)
{
    for (const char *at = note; *at;) {
        size_t n = strcspn(at, "\n");
        vr_buf_addf(out, "  %s%s%s %s%s%.*s\n", vr_style(vr_show_color(), VR_YELLOW),
                    "note:", vr_style(vr_show_color(), VR_PLAIN), who, *who ? ": " : "", (int)n, at);
        at += n + (at[n] == '\n');
    }
}

static const char what_works[] =
    "  No GPU was found. That is not an error; these work without one:\n"
    "    vram-llm analyze FILE.gguf                             layers, sizes and KV cache\n"
    "    vram-llm plan FILE.gguf --gpus \"2x RTX 3090\"           where its layers would go on GPUs you do not have\n"
    "    vram-llm plan FILE.gguf --machine FILE.json            the same for a saved machine profile\n"
    "  If there is a GPU: NVIDIA needs its driver (libnvidia-ml.so.1), AMD the amdgpu kernel module,\n"
    "  Intel a Vulkan driver and VULKAN=1 make run.\n";

/* What an engine process would be confined by: tried, in a process of its own. */
static bool try_confinement(void *ctx, struct vr_buf *result, struct vr_err *err)
{
    (void)ctx, (void)err;
    struct vr_confined c;
    vr_engine_confine(&(struct vr_engine_needs){ .devices = true }, &c);
    vr_buf_add(result, &c, sizeof c);
    return true;
}

static bool find_confinement(struct vr_confined *out, struct vr_err *err)
{
    const struct vr_isolated job = {
        .fn = try_confinement, .what = "confining a process", .trusted = true, .timeout_ms = 30000
    };
    return vr_isolated_block(&job, out, sizeof *out, err);
}

static void show_confinement(struct vr_buf *out)
{
    static const char label[] = "confinement";
    struct vr_confined c;
    struct vr_err err = { 0 };
    VR_AUTO_BUF line = { 0 };
    if (!find_confinement(&c, &err)) return vr_show_fact(out, label, "unknown: %s", err.msg);
    if (c.off) return vr_show_fact(out, label, "off: VRAM_LLM_CONFINE=off is set; unset it to protect this machine");
    for (size_t i = 0; i < VR_N_CONFINE_PARTS; i++)
        if (c.state[i] == VR_CONFINE_IN_FORCE && i != VR_CONFINE_USER)
            vr_buf_addf(&line, "%s%s", line.n ? ", " : "", vr_confine_part_name((enum vr_confine_part)i));
    vr_show_fact(out, label, "%s", line.n ? vr_buf_str(&line) : "nothing is in force");
    vr_show_fact(out, "", "the engine process runs as user %s", c.user);
    for (size_t i = 0; i < VR_N_CONFINE_PARTS; i++)
        if (c.state[i] >= VR_CONFINE_UNSUPPORTED)
            vr_show_fact(out, "", "%s: %s (%s)", vr_confine_part_name((enum vr_confine_part)i),
                         vr_confine_state_words(c.state[i]), c.why[i]);
}

/* Which llama.cpp this program is linked with, and what it can run on. */
static void show_engine(struct vr_buf *out)
{
    struct vr_err err = { 0 };
    char dir[512];
    bool found = vr_engine_dir(dir, sizeof dir, &err);
    vr_show_fact(out, "engine", "llama.cpp %s, %s%s%s", vr_engine_version(), vr_engine_has("cuda") ? "CUDA, " : "",
                 vr_engine_has("vulkan") ? "Vulkan, " : "", "CPU");
    vr_show_fact(out, "", "%s", found ? dir : err.msg);
    show_confinement(out);
    char variant[512];
    if (vr_cpu_choose(variant, sizeof variant, &err)) {
        vr_show_fact(out, "CPU variant", "%s, tested in a child process",
                     *variant ? vr_file_name(variant) : "built in");
    } else {
        vr_show_fact(out, "CPU variant", "none works: %s", err.msg);
    }
}

/* Whether plans rest on what was measured here, and since when. */
static void show_calibration(struct vr_buf *out, const struct vr_machine *m)
{
    size_t n = 0;
    for (size_t i = 0; i < m->n_devices; i++) n += m->devices[i].measured.when[0] != '\0';
    if (!m->host.measured.when[0] && n == 0)
        vr_show_fact(out, "calibrated",
                     "no: plans use data-sheet figures; 'vram-llm bench' calibrates in about a minute");
    else if (n == m->n_devices)
        vr_show_fact(out, "calibrated", "%s", n ? m->devices[0].measured.when : m->host.measured.when);
    else
        vr_show_fact(out, "calibrated", "%zu of %zu GPUs; 'vram-llm bench' calibrates the others", n, m->n_devices);
}

static const char *day_of(int64_t seconds, char out[32])
{
    struct tm tm;
    time_t when = (time_t)seconds;
    strftime(out, 32, "%Y-%m-%d", localtime_r(&when, &tm));
    return out;
}

static void show_splits(struct vr_buf *out, const struct vr_learned *l)
{
    char day[32];
    for (size_t i = 0; i < l->n_splits; i++) {
        const struct vr_learned_split *x = &l->splits[i];
        vr_show_fact(out, i || l->n ? "" : "learned", "%s: split mode tensor made engine %s crash on %s",
                     x->split.model, x->split.engine, day_of(x->when, day));
        vr_show_fact(out, "", "(%s); it is no longer chosen, but --split-mode tensor tries it again", x->why);
    }
}

/* What memory that ran out taught, and engines that crashed; and how it is forgotten. */
static void show_learned(struct vr_buf *out, const struct vr_machine *m)
{
    char path[512], key[96], day[32];
    struct vr_learned l;
    struct vr_err err = { 0 };
    if (!vr_learned_path(path, sizeof path)) return;
    if (!vr_learned_load(path, (int64_t)time(NULL), &l, &err)) {
        show_notes(out, "", err.msg);
        return;
    }
    for (size_t i = 0; i < l.n; i++) {
        const struct vr_learned_row *r = &l.rows[i];
        const char *who = r->key;
        struct vr_num hidden, free;
        for (size_t k = 0; k < m->n_devices; k++) {
            vr_device_key(&m->devices[k], key, sizeof key);
            if (strcmp(key, r->key) == 0) who = m->devices[k].id;
        }
        vr_show_fact(out, i ? "" : "learned", "%s: %s of the memory it reports as free cannot be allocated", who,
                     vr_fmt_bytes(&hidden, r->hidden_bytes));
        vr_show_fact(out, "", "(it reported %s on %s and ran out during '%s'); plans leave it unused",
                     vr_fmt_bytes(&free, r->free_bytes), day_of(r->when, day), vr_load_stage_name(r->stage));
    }
    show_splits(out, &l);
    if (l.n || l.n_splits)
        vr_show_fact(out, "", "forgotten after %d days, when a load shows otherwise, or with: rm %s", VR_LEARNED_DAYS,
                     path);
}

/* Devices that are there and that serve leaves alone: a line for each reason. */
static void show_unused(struct vr_buf *out, const struct vr_machine *m)
{
    struct vr_err whys[VR_MAX_DEVICES] = { 0 };
    char compiles[PATH_MAX + 200];
    snprintf(compiles, sizeof compiles,
             "the CUDA library has no machine code for it: a recent driver compiles it at the first start, which "
             "takes a while; %s builds a library that has it.",
             vr_gpu_builder());
    for (size_t i = 0; i < m->n_devices; i++)
        if (!m->devices[i].node[0] && vr_gpu_usable(&m->devices[i], &whys[i]) && vr_gpu_compiles(&m->devices[i]))
            show_notes(out, m->devices[i].id, compiles);
    for (size_t i = 0; i < m->n_devices; i++) {
        VR_AUTO_BUF line = { 0 };
        for (size_t k = i; whys[i].code && k < m->n_devices; k++) {
            if (!whys[k].code || strcmp(whys[k].msg, whys[i].msg) != 0) continue;
            vr_buf_addf(&line, "%s%s", line.n ? ", " : "", m->devices[k].id);
            if (k != i) whys[k].code = 0;
        }
        if (!line.n) continue;
        vr_buf_addf(&line, ": not used by serve: %s", whys[i].msg);
        show_notes(out, "", vr_buf_str(&line));
    }
}

/* Why it is not NCCL. */
static void show_nccl(struct vr_buf *out, const struct vr_machine *m)
{
    if (m->n_devices < 2 || !vr_engine_has("cuda") || vr_engine_uses_nccl()) return;
    if (vr_engine_has_nccl())
        vr_show_fact(out, "",
                     "NCCL is not used: it needs network sockets; GGML_CUDA_ALLREDUCE=nccl allows them to the engine");
    else
        vr_show_fact(out, "", "not included; with NCCL installed, %s builds a CUDA library that includes it",
                     vr_gpu_builder());
}

/* Of this computer, where neither its firmware nor a measurement tells. */
static void show_bandwidth_guess(struct vr_buf *out, const struct vr_host *h)
{
    const char *given = getenv(VR_BANDWIDTH_VAR);
    if (h->bandwidth_gbs > 0) return;
    vr_show_fact(out, "", "memory bandwidth is guessed from the cores%s",
                 given && strcmp(given, "off") == 0 ? " (" VR_BANDWIDTH_VAR "=off)"
                                                    : " until the computer is idle enough to measure it");
}

static void show_doctor(struct vr_buf *out, const struct vr_machine *m, bool virtual)
{
    vr_show_fact(out, "vram-llm", "%s", VR_VERSION);
    show_engine(out);
    vr_show_host(out, &m->host);
    if (!virtual) show_bandwidth_guess(out, &m->host);
    vr_show_fact(out, "driver", "%s", *m->driver ? m->driver : "no NVIDIA driver");
    if (!virtual) show_learned(out, m);
    vr_show_fact(out, "GPUs", "%zu", m->n_devices);
    show_calibration(out, m);
    vr_show_reduce_way(out, m);
    if (!virtual) show_nccl(out, m);
    vr_buf_adds(out, "\n");
    if (m->n_devices) {
        show_gpus(out, m);
        show_links(out, m);
        vr_show_reductions(out, m);
    } else {
        vr_buf_adds(out, what_works);
    }
    if (*m->note) vr_buf_adds(out, "\n");
    show_notes(out, "", m->note);
    for (size_t i = 0; i < m->n_devices; i++) show_notes(out, m->devices[i].id, m->devices[i].note);
    if (!virtual) show_unused(out, m);
}

/* What files and the environment set, and where. */
static void show_settings(struct vr_buf *out, const struct vr_settings *s)
{
    VR_AUTO_TABLE t = { .cols = { { "setting", false }, { "value", false }, { "for", false }, { "from", false } },
                        .n_cols = 4,
                        .indent = "  ",
                        .color = vr_show_color() };
    bool any = s->n_items > 0;
    for (uint32_t i = 0; i < s->n_items; i++) {
        const struct vr_setting *x = &s->items[i], *over = vr_setting_over(s, i);
        vr_table_row(&t);
        vr_table_cell(&t, "%s", x->name);
        vr_table_cell(&t, "%s", x->value);
        vr_table_cell(&t, "%s", x->command ? x->command : "all commands");
        vr_table_cell(&t, "%s%s%s", x->source, over ? "; overridden by " : "", over ? over->source : "");
    }
    for (size_t i = 0; i < vr_n_variables; i++) {
        const char *value = getenv(vr_variables[i].name);
        if (!value || !*value) continue;
        any = true;
        vr_table_row(&t);
        vr_table_cell(&t, "%s", vr_variables[i].name);
        vr_table_cell(&t, "%s", vr_variables[i].shown ? value : "(not shown)");
        vr_table_cell(&t, "-");
        vr_table_cell(&t, "environment");
    }
    for (uint32_t i = 0; i < s->n_unknown; i++) { /* its value may be a secret */
        any = true;
        vr_table_row(&t);
        vr_table_cell(&t, "%s", s->unknown[i]);
        vr_table_cell(&t, "(not shown)");
        vr_table_cell(&t, "-");
        vr_table_cell(&t, "environment; no setting has this name");
    }
    if (!any) return;
    vr_buf_adds(out, "\n");
    vr_table_print(&t, out);
}

static json_t *json_settings(const struct vr_settings *s)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < s->n_items; i++) {
        const struct vr_setting *x = &s->items[i], *over = vr_setting_over(s, i);
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:s?, s:s, s:s*}", "name", x->name, "value", x->value, "command",
                                        x->command, "source", x->source, "overridden_by", over ? over->source : NULL));
    }
    return list;
}

/* Values that are secret are null. */
static json_t *json_environment(void)
{
    json_t *all = json_object();
    for (size_t i = 0; i < vr_n_variables; i++) {
        const char *value = getenv(vr_variables[i].name);
        if (value && *value)
            json_object_set_new(all, vr_variables[i].name, vr_variables[i].shown ? json_string(value) : json_null());
    }
    return all;
}

static json_t *json_unknown(const struct vr_settings *s)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < s->n_unknown; i++) json_array_append_new(list, vr_json_text(s->unknown[i]));
    return list;
}

bool vr_cmd_doctor(const struct vr_options *o, struct vr_buf *out, struct vr_err *err)
{
    VR_AUTO(vr_machine) m = vr_machine_new(err);
    if (!m || !vr_input_machine(o, m, err)) return false;
    if (o->save_machine && !vr_profile_save(o->save_machine, m, err)) return false;
    if (o->json)
        return vr_json_print(json_pack("{s:s, s:o, s:o, s:o, s:o}", "version", VR_VERSION, "machine",
                                       vr_json_profile(m), "settings", json_settings(o->settings), "environment",
                                       json_environment(), "unknown_variables", json_unknown(o->settings)),
                             out, err);
    vr_show_title(out, "System report");
    show_doctor(out, m, vr_input_is_virtual(o));
    show_settings(out, o->settings);
    return true;
}
