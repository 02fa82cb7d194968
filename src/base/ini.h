/* Texts in INI form: NAME = VALUE lines in [sections], lines that begin with # or ; are comments.
 *
 * Read by hand: libinih (Debian's build) cuts lines at 200 characters and names of sections at 49 without a word and
 * tells no line numbers; what is left of it is smaller than the way around that. */
#ifndef VR_BASE_INI_H
#define VR_BASE_INI_H

#include <stdbool.h>

#include "base/err.h"

struct vr_ini_line {
    const char *section; /* NULL before the first */
    const char *name;    /* NULL: the section begins here */
    const char *value;   /* without white space at its ends */
    unsigned number;
};

struct vr_ini_reader {
    const char *from;     /* what the text is called in errors */
    bool inline_comments; /* a # or ; ends a value, as in llama-server's presets */
    bool (*take)(void *ctx, const struct vr_ini_line *line, struct vr_err *err);
    void *ctx;
};

/* Calls take() for every line that says something, until one fails. What it gets is gone when it returns. */
bool vr_ini_parse(const char *text, const struct vr_ini_reader *r, struct vr_err *err) VR_MUST_CHECK;
/* The same of a file of at most max bytes, named by its path. */
bool vr_ini_read(const char *path, size_t max, struct vr_ini_reader r, struct vr_err *err) VR_MUST_CHECK;

#endif
