/* Text tables for people: columns as wide as their widest cell, numbers to the right, two spaces between.
 *
 *     struct vr_table t = { .cols = { { "layer" }, { "MiB", .right = true } }, .n_cols = 2 };
 *     vr_table_row(&t);  vr_table_cell(&t, "%d-%d", 0, 9);  vr_table_cell(&t, "%s", mib);
 *     vr_table_print(&t, &out);  vr_table_done(&t);
 *
 * Cells may hold UTF-8 and colour (vr_style); widths count what is seen. */
#ifndef VR_BASE_TABLE_H
#define VR_BASE_TABLE_H

#include "base/buf.h"

#define VR_TABLE_COLS 16

struct vr_col {
    const char *title;
    bool right; /* numbers */
};

struct vr_table {
    struct vr_col cols[VR_TABLE_COLS];
    size_t n_cols;
    const char *indent; /* before every line; NULL for none */
    bool color;         /* titles dim; cells bring their own */
    struct vr_buf text; /* all cells, NUL-separated */
    size_t n_cells;
    struct vr_buf rules; /* row numbers (size_t) with a rule above */
};

void vr_table_row(struct vr_table *t); /* starts a row; the last one is filled up with empty cells */
void vr_table_cell(struct vr_table *t, const char *fmt, ...) VR_PRINTF(2, 3);
void vr_table_rule(struct vr_table *t); /* a line before the next row */
void vr_table_print(struct vr_table *t, struct vr_buf *out);
void vr_table_done(struct vr_table *t);

#define VR_AUTO_TABLE VR_CLEANUP(vr_table_done) struct vr_table

/* Text styles, used only when `on`: "" otherwise. */
enum vr_style { VR_PLAIN, VR_BOLD, VR_DIM, VR_GREEN, VR_YELLOW, VR_RED, VR_CYAN };
const char *vr_style(bool on, enum vr_style style);

#endif
