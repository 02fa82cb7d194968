#include "base/ini.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"

/* Cuts off white space at both ends, in place. */
static char *trim(char *text)
{
    while (isspace((unsigned char)*text)) text++;
    size_t n = strlen(text);
    while (n && isspace((unsigned char)text[n - 1])) text[--n] = '\0';
    return text;
}

/* `line` has white space at no end; `section` is what the lines before said. */
static bool read_line(const struct vr_ini_reader *r, char *line, const char **section, unsigned number,
                      struct vr_err *err)
{
    if (!*line || *line == '#' || *line == ';') return true;
    if (*line == '[') {
        char *end = strchr(line, ']');
        const char *after = end ? end + 1 + strspn(end + 1, " \t") : "";
        if (!end || (*after && !(r->inline_comments && strchr("#;", *after))))
            return vr_fail(err, VR_EUSAGE, "%s, line %u: a section is written [NAME]", r->from, number);
        *end = '\0';
        *section = trim(line + 1);
        return r->take(r->ctx, &(struct vr_ini_line){ .section = *section, .number = number }, err);
    }
    char *equals = strchr(line, '=');
    if (!equals || equals == line)
        return vr_fail(err, VR_EUSAGE, "%s, line %u: a setting is written NAME = VALUE", r->from, number);
    *equals = '\0';
    if (r->inline_comments) equals[1 + strcspn(equals + 1, "#;")] = '\0';
    return r->take(
        r->ctx,
        &(struct vr_ini_line){ .section = *section, .name = trim(line), .value = trim(equals + 1), .number = number },
        err);
}

bool vr_ini_parse(const char *text, const struct vr_ini_reader *r, struct vr_err *err)
{
    const char *section = NULL;
    unsigned number = 0;
    VR_AUTO_FREE char *copy = strdup(text);
    if (!copy) return vr_fail_nomem(err, "reading settings");
    for (char *at = copy, *line; (line = strsep(&at, "\n"));)
        if (!read_line(r, trim(line), &section, ++number, err)) return false;
    return true;
}

bool vr_ini_read(const char *path, size_t max, struct vr_ini_reader r, struct vr_err *err)
{
    VR_AUTO_BUF text = { 0 };
    if (!vr_file_read(path, max, &text, err)) return false;
    if (memchr(vr_buf_str(&text), '\0', text.n)) return vr_fail(err, VR_EUSAGE, "%s is not a text file", path);
    r.from = path;
    return vr_ini_parse(vr_buf_str(&text), &r, err);
}
