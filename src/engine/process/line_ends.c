#include "engine/process/line_ends.h"

size_t vr_line_ends_add(struct vr_line_ends *l, const char *piece, size_t n, uint32_t n_indent, bool late, bool *over)
{
    *over = false;
    for (size_t i = 0; i < n; i++) {
        bool blank = piece[i] == ' ' || piece[i] == '\t';
        *over = l->in_indent && !blank && l->indent < n_indent;
        if (*over) return i;
        l->indent += blank;
        l->in_indent &= blank;
        if (piece[i] != '\n') continue;
        *over = late;
        if (late) return i + 1;
        *l = (struct vr_line_ends){ .in_indent = true };
    }
    return n;
}
