/* Where an answer ends because of its lines, as editors that ask for a piece of code want it: before a line that is not
 * indented as far as they say, or with the first line after their time is over. Pure. */
#ifndef VR_ENGINE_PROCESS_LINE_ENDS_H
#define VR_ENGINE_PROCESS_LINE_ENDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vr_line_ends {
    bool in_indent; /* a new line was begun, and nothing but blanks came since: */
    uint32_t indent;
};

/* A piece of text: how much of it may be said. *over: the answer ends behind that. Lines need n_indent blanks; the text
 * before the first new line goes on what stands before it. */
size_t vr_line_ends_add(struct vr_line_ends *l, const char *piece, size_t n, uint32_t n_indent, bool late, bool *over);

#endif
