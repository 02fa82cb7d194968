#include "server/http/multipart.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static bool is_boundary_byte(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c && strchr("'()+_,-./:=? ", c));
}

static bool starts(struct vr_slice s, const char *text)
{
    size_t n = strlen(text);
    return s.n >= n && strncasecmp(s.p, text, n) == 0;
}

static void skip(struct vr_slice *s, size_t n)
{
    s->p += n;
    s->n -= n;
}

static void skip_space(struct vr_slice *s)
{
    while (s->n && (*s->p == ' ' || *s->p == '\t')) skip(s, 1);
}

/* The next `; key=value` of a header. A value in quotes ends at the next quote that has no backslash before it; of such
 * backslashes it keeps all. False: there is none, or what is there has not that form (then s->n is not 0). */
static bool next_parameter(struct vr_slice *s, struct vr_slice *key, struct vr_slice *value)
{
    skip_space(s);
    if (s->n == 0 || *s->p != ';') return false;
    skip(s, 1);
    skip_space(s);
    const char *equals = memchr(s->p, '=', s->n);
    if (!equals || equals == s->p) return false;
    *key = (struct vr_slice){ s->p, (size_t)(equals - s->p) };
    skip(s, key->n + 1);
    bool quoted = s->n && *s->p == '"';
    if (quoted) skip(s, 1);
    size_t n = 0;
    while (n < s->n && (quoted ? s->p[n] != '"' : s->p[n] != ';' && s->p[n] != ' '))
        n += quoted && s->p[n] == '\\' ? 2 : 1;
    if (n + quoted > s->n) return false; /* the quote is not closed */
    *value = (struct vr_slice){ s->p, n };
    skip(s, n + quoted);
    return true;
}

bool vr_multipart_boundary(struct vr_slice type, char out[VR_MOST_BOUNDARY + 1])
{
    static const char form[] = "multipart/form-data";
    struct vr_slice key, value, found = { 0 };
    if (!type.p || !starts(type, form)) return false;
    skip(&type, sizeof form - 1);
    while (next_parameter(&type, &key, &value)) {
        if (!vr_slice_is_nocase(key, "boundary")) continue;
        if (found.p) return false;
        found = value;
    }
    if (type.n || found.n == 0 || found.n > VR_MOST_BOUNDARY || found.p[found.n - 1] == ' ') return false;
    for (size_t i = 0; i < found.n; i++)
        if (!is_boundary_byte(found.p[i])) return false;
    memcpy(out, found.p, found.n);
    out[found.n] = '\0';
    return true;
}

void vr_multipart_open(struct vr_multipart *m, const char *data, size_t n, const char *boundary)
{
    *m = (struct vr_multipart){ .left = { data, n } };
    snprintf(m->mark, sizeof m->mark, "\r\n--%s", boundary);
}

/* What follows a boundary: a line's end, or the end of all. */
static enum vr_part_next behind_boundary(struct vr_multipart *m, const char **why)
{
    if (starts(m->left, "\r\n")) return skip(&m->left, 2), VR_PART;
    if (starts(m->left, "--")) {
        skip(&m->left, 2);
        if (m->left.n == 0 || (m->left.n == 2 && starts(m->left, "\r\n"))) return VR_PARTS_OVER;
        return *why = "the form goes on behind its last boundary", VR_PART_BAD;
    }
    return *why = m->left.n < 2 ? "the form is cut short" : "a boundary of the form does not end its line", VR_PART_BAD;
}

/* form-data; name="file"; filename="a.wav": which file it was is nobody's business here. */
static bool read_disposition(struct vr_slice value, struct vr_slice *name, const char **why)
{
    static const char form[] = "form-data";
    struct vr_slice key, v;
    if (!starts(value, form)) return *why = "a part of the form is not form-data", false;
    skip(&value, sizeof form - 1);
    while (next_parameter(&value, &key, &v)) {
        if (!vr_slice_is_nocase(key, "name")) continue;
        if (name->p) return *why = "a part of the form has two names", false;
        *name = v;
    }
    return value.n == 0 || (*why = "a Content-Disposition of the form is malformed", false);
}

static bool read_line(struct vr_slice line, struct vr_slice *name, const char **why)
{
    const char *colon = memchr(line.p, ':', line.n);
    if (!colon) return *why = "a header of the form has no colon", false;
    struct vr_slice key = { line.p, (size_t)(colon - line.p) };
    skip(&line, key.n + 1);
    skip_space(&line);
    if (vr_slice_is_nocase(key, "content-disposition")) return read_disposition(line, name, why);
    if (!vr_slice_is_nocase(key, "content-transfer-encoding")) return true;
    return vr_slice_is_nocase(line, "binary") || vr_slice_is_nocase(line, "8bit") || vr_slice_is_nocase(line, "7bit") ||
           (*why = "a part of the form is encoded: send its bytes as they are", false);
}

/* The lines before the blank one. */
static bool read_part_head(struct vr_multipart *m, struct vr_form_part *out, const char **why)
{
    struct vr_slice *s = &m->left;
    const char *from = s->p;
    for (;;) {
        size_t room = VR_MOST_PART_HEAD - (size_t)(s->p - from);
        const char *end = memmem(s->p, s->n < room ? s->n : room, "\r\n", 2);
        if (!end) return *why = s->n < room ? "the form is cut short" : "a part of the form has too long a head", false;
        struct vr_slice line = { s->p, (size_t)(end - s->p) };
        skip(s, line.n + 2);
        if (line.n == 0) break;
        if (!read_line(line, &out->name, why)) return false;
    }
    return out->name.n > 0 || (*why = "a part of the form has no name", false);
}

enum vr_part_next vr_multipart_next(struct vr_multipart *m, struct vr_form_part *out, const char **why)
{
    size_t n_mark = strlen(m->mark);
    *out = (struct vr_form_part){ 0 };
    if (m->n_parts == 0) {
        if (m->left.n < n_mark - 2 || memcmp(m->left.p, m->mark + 2, n_mark - 2) != 0)
            return *why = "the form does not begin with its boundary", VR_PART_BAD;
        skip(&m->left, n_mark - 2);
    }
    enum vr_part_next next = behind_boundary(m, why);
    if (next != VR_PART) return next;
    if (++m->n_parts > VR_MOST_PARTS) return *why = "the form has too many parts", VR_PART_BAD;
    if (!read_part_head(m, out, why)) return VR_PART_BAD;
    const char *end = memmem(m->left.p, m->left.n, m->mark, n_mark);
    if (!end) return *why = "the form is cut short", VR_PART_BAD;
    out->data = (struct vr_slice){ m->left.p, (size_t)(end - m->left.p) };
    skip(&m->left, out->data.n + n_mark);
    return VR_PART;
}
