#include "base/table.h"

#include <string.h>

#include "base/text.h"

const char *vr_style(bool on, enum vr_style style)
{
    static const char *const codes[] = {
        "\033[0m", "\033[1m", "\033[2m", "\033[32m", "\033[33m", "\033[31m", "\033[36m"
    };
    return on ? codes[style] : "";
}

void vr_table_cell(struct vr_table *t, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vr_buf_addv(&t->text, fmt, ap);
    va_end(ap);
    vr_buf_addc(&t->text, '\0', 1);
    t->n_cells++;
}

void vr_table_row(struct vr_table *t)
{
    while (t->n_cells % t->n_cols) vr_table_cell(t, "%s", "");
}

void vr_table_rule(struct vr_table *t)
{
    vr_table_row(t);
    size_t row = t->n_cells / t->n_cols;
    vr_buf_add(&t->rules, &row, sizeof row);
}

static bool rule_above(const struct vr_table *t, size_t row)
{
    for (size_t at = 0; at + sizeof row <= t->rules.n; at += sizeof row)
        if (memcmp(t->rules.data + at, &row, sizeof row) == 0) return true;
    return false;
}

/* One cell with its padding, and the space to the cell before it. */
static void put(struct vr_buf *out, const char *cell, const struct vr_col *col, size_t width, bool first)
{
    size_t pad = width - vr_text_width(cell);
    vr_buf_addc(out, ' ', (first ? 0 : 2) + (col->right ? pad : 0));
    vr_buf_adds(out, cell);
    if (!col->right) vr_buf_addc(out, ' ', pad);
}

/* Ends a line. Spaces that nobody sees are not printed. */
static void end_line(struct vr_buf *out, const char *style)
{
    if (out->failed) return;
    while (out->n && out->data[out->n - 1] == ' ') out->n--;
    vr_buf_addf(out, "%s\n", style);
}

void vr_table_print(struct vr_table *t, struct vr_buf *out)
{
    vr_table_row(t);
    out->failed |= t->text.failed | t->rules.failed;
    if (out->failed) return;

    size_t width[VR_TABLE_COLS], total = 0;
    for (size_t c = 0; c < t->n_cols; c++) width[c] = vr_text_width(t->cols[c].title);
    const char *cell = t->text.data;
    for (size_t i = 0; i < t->n_cells; i++, cell += strlen(cell) + 1) {
        size_t w = vr_text_width(cell);
        if (w > width[i % t->n_cols]) width[i % t->n_cols] = w;
    }
    for (size_t c = 0; c < t->n_cols; c++) total += width[c] + (c ? 2 : 0);

    const char *indent = t->indent ? t->indent : "";
    vr_buf_addf(out, "%s%s", indent, vr_style(t->color, VR_DIM));
    for (size_t c = 0; c < t->n_cols; c++) put(out, t->cols[c].title, &t->cols[c], width[c], c == 0);
    end_line(out, vr_style(t->color, VR_PLAIN));

    cell = t->text.data;
    for (size_t i = 0; i < t->n_cells; i++, cell += strlen(cell) + 1) {
        size_t c = i % t->n_cols;
        if (c == 0) {
            if (rule_above(t, i / t->n_cols)) {
                vr_buf_addf(out, "%s%s", indent, vr_style(t->color, VR_DIM));
                for (size_t d = 0; d < total; d++) vr_buf_adds(out, "─");
                end_line(out, vr_style(t->color, VR_PLAIN));
            }
            vr_buf_adds(out, indent);
        }
        put(out, cell, &t->cols[c], width[c], c == 0);
        if (c + 1 == t->n_cols) end_line(out, "");
    }
}

void vr_table_done(struct vr_table *t)
{
    vr_buf_done(&t->text);
    vr_buf_done(&t->rules);
    t->n_cells = 0;
}
