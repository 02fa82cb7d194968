#include "cli/text/show.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/table.h"
#include "base/text.h"
#include "cli/text/reason_text.h"
#include "hw/profile.h"

bool vr_show_color(void)
{
    const char *no = getenv("NO_COLOR");
    return isatty(STDOUT_FILENO) && !(no && *no);
}

size_t vr_show_width(void)
{
    struct winsize size = { 0 };
    return isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

/* A word that is longer than a line has one to itself. */
void vr_show_wrapped(struct vr_buf *out, const char *text, size_t indent, size_t width)
{
    for (size_t at = indent; width && *text;) {
        size_t n = strcspn(text, " ");
        if (at > indent && at + 1 + n > width) {
            vr_buf_addf(out, "\n%*s", (int)indent, "");
            at = indent;
        }
        if (at > indent) vr_buf_addc(out, ' ', 1);
        at += (at > indent) + n;
        vr_buf_add(out, text, n);
        text += n + (text[n] == ' ');
    }
    vr_buf_addf(out, "%s\n", text);
}

void vr_show_title(struct vr_buf *out, const char *text)
{
    bool color = vr_show_color();
    vr_buf_addf(out, "%s%s%s\n", vr_style(color, VR_BOLD), text, color ? vr_style(true, VR_PLAIN) : "");
}

void vr_show_fact(struct vr_buf *out, const char *label, const char *fmt, ...)
{
    bool color = vr_show_color();
    vr_buf_addf(out, "  %s%-14s%s", vr_style(color, VR_DIM), label, vr_style(color, VR_PLAIN));
    VR_AUTO_BUF text = { 0 };
    va_list ap;
    va_start(ap, fmt);
    vr_buf_addv(&text, fmt, ap);
    va_end(ap);
    out->failed |= text.failed;
    vr_show_wrapped(out, vr_buf_str(&text), 16, vr_show_width());
}

const char *vr_show_link(char *text, size_t n, const struct vr_device *d)
{
    if (d->node[0]) {
        snprintf(text, n, "%.2f GB/s, %.2f ms", d->net_gbs, d->net_us / 1e3);
        return text;
    }
    unsigned gen = d->pcie_gen_max > d->pcie_gen ? d->pcie_gen_max : d->pcie_gen;
    if (!gen || !d->pcie_lanes)
        snprintf(text, n, "?");
    else if (d->pcie_gen && d->pcie_gen < gen)
        snprintf(text, n, "PCIe %u x%u, idle at %u", gen, d->pcie_lanes, d->pcie_gen);
    else
        snprintf(text, n, "PCIe %u x%u", gen, d->pcie_lanes);
    return text;
}

void vr_show_host(struct vr_buf *out, const struct vr_host *h)
{
    static const char *const from[] = {
        [VR_FROM_NOBODY] = "",        [VR_FROM_MODULES] = "by its memory modules",  [VR_FROM_READING] = "measured",
        [VR_FROM_BENCH] = "by bench", [VR_FROM_USER] = "as VRAM_LLM_HOST_GBS says",
    };
    struct vr_num total, free;
    VR_AUTO_BUF line = { 0 };
    if (*h->cpu) vr_buf_addf(&line, "%s, ", h->cpu);
    if (h->cores) vr_buf_addf(&line, "%" PRIu32 " core%s, ", h->cores, h->cores == 1 ? "" : "s");
    vr_buf_addf(&line, "%s RAM, %s free", vr_fmt_bytes(&total, h->ram_total_bytes),
                vr_fmt_bytes(&free, h->ram_free_bytes));
    if (h->bandwidth_gbs > 0) {
        vr_buf_addf(&line, ", %.0f GB/s", h->bandwidth_gbs);
        if (*from[h->bandwidth_from]) vr_buf_addf(&line, " (%s)", from[h->bandwidth_from]);
    }
    if (h->numa_nodes > 1) vr_buf_addf(&line, ", %" PRIu32 " NUMA nodes", h->numa_nodes);
    vr_show_fact(out, "host", "%s", vr_buf_str(&line));
}

static void number_cell(struct vr_table *t, double v, int decimals)
{
    if (v > 0)
        vr_table_cell(t, "%.*f", decimals, v);
    else
        vr_table_cell(t, "?");
}

static void show_devices(struct vr_buf *out, const struct vr_input *in)
{
    VR_AUTO_TABLE t = { .cols = { { "device", false },
                                  { "name", false },
                                  { "total", true },
                                  { "free", true },
                                  { "reserve", true },
                                  { "budget MiB", true },
                                  { "GB/s", true },
                                  { "TFLOPS", true },
                                  { "link", false } },
                        .n_cols = 9,
                        .indent = "  ",
                        .color = vr_show_color() };
    uint64_t total = 0, free = 0, reserve = 0, budget = 0;
    struct vr_num x;
    char link[48];
    for (size_t i = 0; i < in->budgets.n; i++) {
        const struct vr_budget *b = &in->budgets.items[i];
        const struct vr_device *d = &in->machine.devices[b->device];
        vr_table_row(&t);
        vr_table_cell(&t, "%s", d->id);
        vr_table_cell(&t, "%s", d->name);
        vr_table_cell(&t, "%s", vr_fmt_mib(&x, d->total_bytes, 0));
        vr_table_cell(&t, "%s", vr_fmt_mib(&x, d->free_bytes, 0));
        vr_table_cell(&t, "%s", vr_fmt_mib(&x, b->reserve_bytes, 0));
        vr_table_cell(&t, "%s", vr_fmt_mib(&x, b->budget_bytes, 0));
        number_cell(&t, d->bandwidth_gbs, 0);
        number_cell(&t, d->fp16_tflops, 0);
        vr_table_cell(&t, "%s", vr_show_link(link, sizeof link, d));
        total += d->total_bytes;
        free += d->free_bytes;
        reserve += b->reserve_bytes;
        budget += b->budget_bytes;
    }
    if (in->budgets.n > 1) {
        vr_table_rule(&t);
        vr_table_cell(&t, "all");
        vr_table_cell(&t, "%zu devices", in->budgets.n);
        vr_table_cell(&t, "%s", vr_fmt_mib(&x, total, 0));
        vr_table_cell(&t, "%s", vr_fmt_mib(&x, free, 0));
        vr_table_cell(&t, "%s", vr_fmt_mib(&x, reserve, 0));
        vr_table_cell(&t, "%s", vr_fmt_mib(&x, budget, 0));
    }
    if (in->budgets.n) vr_table_print(&t, out);
}

void vr_show_machine(struct vr_buf *out, const struct vr_input *in)
{
    vr_show_title(out, *in->machine.about ? in->machine.about : "This machine");
    vr_show_host(out, &in->machine.host);
    if (*in->machine.driver) vr_show_fact(out, "driver", "%s", in->machine.driver);
    if (in->machine.n_devices == 0) {
        vr_show_fact(out, "GPUs", "none found; plan for others with --gpus \"2x RTX 3090\" or --machine FILE");
        return;
    }
    vr_buf_adds(out, "\n");
    show_devices(out, in);
    for (size_t i = 0; i < in->budgets.n_excluded; i++) {
        struct vr_reason r = vr_reason_excluded(&in->budgets.excluded[i]);
        vr_buf_adds(out, "  ");
        vr_reason_text(out, &in->machine, &r);
        vr_buf_adds(out, "\n");
    }
}

json_t *vr_json_profile(const struct vr_machine *m)
{
    VR_AUTO_BUF text = { 0 };
    vr_profile_print(m, &text); /* the same as --save-machine writes */
    json_t *tree = text.failed ? NULL : json_loadb(text.data, text.n, 0, NULL);
    for (size_t i = 0; tree && i < m->n_devices; i++)
        json_object_set_new(json_array_get(json_object_get(tree, "devices"), i), "id", json_string(m->devices[i].id));
    return tree;
}

static json_t *json_budgets(const struct vr_input *in)
{
    json_t *list = json_array();
    for (size_t i = 0; i < in->budgets.n; i++) {
        const struct vr_budget *b = &in->budgets.items[i];
        const struct vr_device *d = &in->machine.devices[b->device];
        json_array_append_new(list, json_pack("{s:s, s:s, s:I, s:I, s:I}", "id", d->id, "name", d->name, "free_bytes",
                                              (json_int_t)d->free_bytes, "reserve_bytes", (json_int_t)b->reserve_bytes,
                                              "budget_bytes", (json_int_t)b->budget_bytes));
    }
    return list;
}

json_t *vr_json_machine(const struct vr_input *in)
{
    json_t *tree = vr_json_profile(&in->machine);
    if (!tree) return NULL;
    json_object_set_new(tree, "budgets", json_budgets(in));
    json_object_set_new(tree, "excluded", vr_json_excluded(&in->machine, &in->budgets));
    return tree;
}

json_t *vr_json_model(const struct vr_model *m)
{
    return json_pack("{s:s, s:s, s:i, s:I, s:I, s:s, s:I}", "name", m->name, "arch", m->arch, "n_layers",
                     (int)m->n_layers, "params", (json_int_t)m->params, "bytes", (json_int_t)m->file_bytes, "quant",
                     m->quant, "n_ctx_train", (json_int_t)m->n_ctx_train);
}

json_t *vr_json_goal(const struct vr_load_params *load, const struct vr_fit_ask *ask, const char *optimize)
{
    const struct vr_context *c = &load->context;
    json_t *goal = json_pack("{s:I, s:i, s:s, s:s, s:i, s:i, s:s}", "n_ctx", (json_int_t)c->n_ctx, "n_seq",
                             (int)c->n_seq, "type_k", vr_type(c->type_k)->name, "type_v", vr_type(c->type_v)->name,
                             "n_batch", (int)c->n_batch, "n_ubatch", (int)c->n_ubatch, "flash_attn",
                             load->flash_auto ? "auto"
                             : c->flash_attn  ? "on"
                                              : "off");
    json_t *rest = json_pack("{s:i, s:b, s:b, s:b, s:b, s:i, s:i, s:b, s:b, s:s, s:f, s:I, s:s}", "n_outputs",
                             (int)load->n_outputs, "kv_unified", c->kv_unified, "swa_full", c->swa_full, "kv_offload",
                             c->offload_kqv, "op_offload", load->op_offload, "offload_min", (int)load->offload_min,
                             "threads", (int)load->threads, "embeddings", load->embedding_model || load->embeddings,
                             "mmap", load->mmap, "split_mode", vr_split_mode_name(load->split_mode), "fill", ask->fill,
                             "n_prompt", (json_int_t)ask->n_prompt, "optimize", optimize);
    json_object_update_new(goal, rest);
    if (load->spec)
        json_object_update_new(goal, json_pack("{s:s, s:i, s:i}", "spec", vr_spec_row(load->spec)->name, "n_draft",
                                               (int)load->n_draft, "n_rollback", (int)c->n_rollback));
    return goal;
}

bool vr_json_print(json_t *tree, struct vr_buf *out, struct vr_err *err)
{
    VR_AUTO_FREE char *text = tree ? json_dumps(tree, JSON_INDENT(1)) : NULL;
    json_decref(tree);
    if (!text) return vr_fail_nomem(err, "writing JSON");
    vr_buf_addf(out, "%s\n", text);
    return true;
}
