/* `doctor`: what was found, what is missing, what to do about it. */
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/table.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/show.h"
#include "engine/llama/cpu.h"
#include "engine/llama/library.h"
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

/* Which llama.cpp this program is linked with, and what it can run on. */
static void show_engine(struct vr_buf *out)
{
    struct vr_err err = { 0 };
    char dir[512];
    bool found = vr_engine_dir(dir, sizeof dir, &err);
    vr_show_fact(out, "engine", "llama.cpp %s, %s%s%s", vr_engine_version(), vr_engine_has("cuda") ? "CUDA, " : "",
                 vr_engine_has("vulkan") ? "Vulkan, " : "", "CPU");
    vr_show_fact(out, "", "%s", found ? dir : err.msg);
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
                     "never: plans use data-sheet figures; 'vram-llm bench' calibrates in about a minute");
    else if (n == m->n_devices)
        vr_show_fact(out, "calibrated", "%s", n ? m->devices[0].measured.when : m->host.measured.when);
    else
        vr_show_fact(out, "calibrated", "%zu of %zu GPUs; 'vram-llm bench' calibrates the others", n, m->n_devices);
}

/* What memory that ran out taught, and how it is forgotten. */
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
        struct tm tm;
        time_t when = (time_t)r->when;
        strftime(day, sizeof day, "%Y-%m-%d", localtime_r(&when, &tm));
        vr_show_fact(out, i ? "" : "learned", "%s: %s of the memory it reports as free cannot be allocated", who,
                     vr_fmt_bytes(&hidden, r->hidden_bytes));
        vr_show_fact(out, "", "(it reported %s on %s and ran out during '%s'); plans leave it unused",
                     vr_fmt_bytes(&free, r->free_bytes), day, vr_load_stage_name(r->stage));
    }
    if (l.n)
        vr_show_fact(out, "", "forgotten after %d days, when a load shows otherwise, or with: rm %s", VR_LEARNED_DAYS,
                     path);
}

/* Cards that are there, and that serve leaves alone: a line for NVIDIA's, one for the others. */
static void show_unused(struct vr_buf *out, const struct vr_machine *m)
{
    for (int cuda = 1; cuda >= 0; cuda--) {
        VR_AUTO_BUF line = { 0 };
        for (size_t i = 0; i < m->n_devices; i++) {
            const struct vr_device *d = &m->devices[i];
            if ((strcmp(d->backend, "CUDA") == 0) != cuda || vr_engine_runs(d->backend)) continue;
            vr_buf_addf(&line, "%s%s", line.n ? ", " : "", d->id);
        }
        if (!line.n) continue;
        vr_buf_adds(
            &line, cuda
                       ? ": not used by serve: this engine was built without CUDA. Build it with tools/gpu/build-cuda, "
                         "or use Vulkan: VULKAN=1 make run."
                       : ": not used by serve: this engine was built without Vulkan. Get one with it: "
                         "VULKAN=1 make run.");
        show_notes(out, "", vr_buf_str(&line));
    }
}

static void show_doctor(struct vr_buf *out, const struct vr_machine *m, bool virtual)
{
    vr_show_fact(out, "vram-llm", "%s", VR_VERSION);
    show_engine(out);
    vr_show_host(out, &m->host);
    vr_show_fact(out, "driver", "%s", *m->driver ? m->driver : "no NVIDIA driver");
    if (!virtual) show_learned(out, m);
    vr_show_fact(out, "GPUs", "%zu", m->n_devices);
    show_calibration(out, m);
    vr_buf_adds(out, "\n");
    if (m->n_devices) {
        show_gpus(out, m);
        show_links(out, m);
    } else {
        vr_buf_adds(out, what_works);
    }
    if (*m->note) vr_buf_adds(out, "\n");
    show_notes(out, "", m->note);
    for (size_t i = 0; i < m->n_devices; i++) show_notes(out, m->devices[i].id, m->devices[i].note);
    if (!virtual) show_unused(out, m);
}

bool vr_cmd_doctor(const struct vr_options *o, struct vr_buf *out, struct vr_err *err)
{
    VR_AUTO(vr_machine) m = vr_machine_new(err);
    if (!m || !vr_input_machine(o, m, err)) return false;
    if (o->save_machine && !vr_profile_save(o->save_machine, m, err)) return false;
    if (o->json)
        return vr_json_print(json_pack("{s:s, s:o}", "version", VR_VERSION, "machine", vr_json_profile(m)), out, err);
    vr_show_title(out, "System report");
    show_doctor(out, m, vr_input_is_virtual(o));
    return true;
}
