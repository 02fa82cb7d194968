#include "cli/models/model_table.h"

#include <string.h>

#include "base/table.h"
#include "base/text.h"
#include "cli/text/show.h"

static const char *text_of(const json_t *row, const char *key)
{
    const char *s = json_string_value(json_object_get(row, key));
    return s ? s : "";
}

static uint64_t number_of(const json_t *row, const char *key)
{
    return (uint64_t)json_integer_value(json_object_get(row, key));
}

/* "CUDA0, CUDA1 + host 12.3 GiB" */
static void place_cell(struct vr_table *t, const json_t *row)
{
    VR_AUTO_BUF where = { 0 };
    struct vr_num x;
    size_t i;
    json_t *id, *devices = json_object_get(row, "devices");
    json_array_foreach(devices, i, id) vr_buf_addf(&where, "%s%s", i ? ", " : "", json_string_value(id));
    uint64_t host = number_of(row, "host_bytes");
    if (json_array_size(devices) == 0)
        vr_buf_adds(&where, "host");
    else if (host)
        vr_buf_addf(&where, " + host %s", vr_fmt_bytes(&x, host));
    vr_table_cell(t, "%s", vr_buf_str(&where));
}

static const char *why_not(const json_t *row, char *out, size_t n)
{
    uint64_t missing = number_of(row, "missing_parts");
    if (missing)
        snprintf(out, n, "incomplete: %u of %u files are missing", (unsigned)missing,
                 (unsigned)number_of(row, "parts"));
    else if (json_object_get(row, "error"))
        snprintf(out, n, "%s", text_of(row, "error"));
    else if (!json_is_true(json_object_get(row, "fits")))
        snprintf(out, n, "%s", text_of(row, "reason"));
    else
        return NULL;
    return out;
}

static void model_row(struct vr_table *t, const json_t *row, bool source)
{
    struct vr_num x;
    char why[1100];
    vr_table_row(t);
    vr_table_cell(t, "%s%s", text_of(row, "name"), json_is_string(json_object_get(row, "mmproj")) ? " + vision" : "");
    if (source) vr_table_cell(t, "%s", text_of(row, "source"));
    vr_table_cell(t, "%s", vr_fmt_bytes(&x, number_of(row, "bytes")));
    vr_table_cell(t, "%s", text_of(row, "quant"));
    if (why_not(row, why, sizeof why)) {
        vr_table_cell(t, "%sno%s", vr_style(t->color, VR_RED), vr_style(t->color, VR_PLAIN));
        return;
    }
    place_cell(t, row);
    vr_table_cell(t, "%.1f", json_number_value(json_object_get(row, "decode_tok_s")));
    vr_table_cell(t, "%s", vr_fmt_count(&x, (uint64_t)json_number_value(json_object_get(row, "prefill_tok_s"))));
    vr_table_cell(t, "%s", vr_fmt_count(&x, number_of(row, "largest_n_ctx")));
}

static void show_reasons(struct vr_buf *out, const json_t *rows)
{
    size_t i;
    json_t *row;
    char why[1100];
    bool any = false;
    json_array_foreach(rows, i, row)
    {
        if (!why_not(row, why, sizeof why)) continue;
        if (!any) vr_buf_adds(out, "\n");
        any = true;
        vr_buf_addf(out, "  %s: %s\n", text_of(row, "name"), why);
    }
}

void vr_model_table(struct vr_buf *out, const json_t *rows, bool source)
{
    static const struct vr_col cols[] = { { "model", false }, { "from", false },          { "size", true },
                                          { "quant", false }, { "fits", false },          { "tokens/s", true },
                                          { "prompt", true }, { "largest context", true } };
    VR_AUTO_TABLE t = { .color = vr_show_color() };
    size_t i;
    json_t *row;
    for (i = 0; i < VR_COUNT(cols); i++)
        if (source || i != 1) t.cols[t.n_cols++] = cols[i];
    json_array_foreach(rows, i, row) model_row(&t, row, source);
    vr_table_print(&t, out);
    show_reasons(out, rows);
}

void vr_model_table_machine(struct vr_buf *out, const struct vr_options *o)
{
    vr_buf_adds(out, "Predicted for ");
    if (o->machine)
        vr_buf_addf(out, "the machine in %s", o->machine);
    else if (o->gpus && strcmp(o->gpus, "none") == 0)
        vr_buf_adds(out, "this machine without its GPUs");
    else if (o->gpus)
        vr_buf_addf(out, "this machine with %s", o->gpus);
    else
        vr_buf_adds(out, "this machine as it is now");
}
