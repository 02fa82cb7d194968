#include "gguf/cursor.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"

uint64_t vr_cursor_pos(const struct vr_cursor *c) { return c->base + c->at; }
uint64_t vr_cursor_left(const struct vr_cursor *c) { return c->size - vr_cursor_pos(c); }

/* May the next n bytes be used? */
static bool there(struct vr_cursor *c, uint64_t n, struct vr_err *err)
{
    struct vr_num num;
    if (n <= vr_cursor_left(c)) {
        bool within = n <= VR_CURSOR_LIMIT && vr_cursor_pos(c) + n <= VR_CURSOR_LIMIT;
        if (within && c->have && vr_cursor_pos(c) + n > c->have) {
            c->wants = vr_cursor_pos(c) + n;
            return vr_fail(err, VR_EFORMAT, "%s: the header is incomplete", c->path);
        }
        if (within) return true;
        return vr_fail(err, VR_EFORMAT,
                       "%s: %s%s%s%s extends past the first %s of the file, the limit for a header: the file "
                       "is corrupt",
                       c->path, c->what, *c->which ? " '" : "", c->which, *c->which ? "'" : "",
                       vr_fmt_bytes(&num, VR_CURSOR_LIMIT));
    }
    return vr_fail(err, VR_EFORMAT,
                   "%s: the file ends at byte %" PRIu64
                   ", inside %s%s%s%s: at least %s bytes are missing; the download "
                   "is incomplete or the file is corrupt",
                   c->path, c->size, c->what, *c->which ? " '" : "", c->which, *c->which ? "'" : "",
                   vr_fmt_count(&num, n - vr_cursor_left(c)));
}

/* Loads the window at the current position. */
static bool refill(struct vr_cursor *c, struct vr_err *err)
{
    c->base += c->at;
    c->at = c->n = 0;
    ssize_t n;
    do n = pread(c->fd, c->window, VR_CURSOR_WINDOW, (off_t)c->base);
    while (n < 0 && errno == EINTR);
    if (n < 0) return vr_fail(err, VR_EIO, "%s: %s", c->path, strerror(errno));
    if (n == 0) return vr_fail(err, VR_EIO, "%s: the file was truncated while it was read", c->path);
    c->n = (size_t)n;
    return true;
}

bool vr_cursor_read(struct vr_cursor *c, void *out, size_t n, struct vr_err *err)
{
    if (!there(c, n, err)) return false;
    uint8_t *to = out;
    while (n) {
        if (c->at == c->n && !refill(c, err)) return false;
        size_t part = n < c->n - c->at ? n : c->n - c->at;
        memcpy(to, c->window + c->at, part);
        c->at += part;
        to += part;
        n -= part;
    }
    return true;
}

bool vr_cursor_skip(struct vr_cursor *c, uint64_t n, struct vr_err *err)
{
    if (!there(c, n, err)) return false;
    if (n <= c->n - c->at) {
        c->at += (size_t)n;
    } else {
        c->base += c->at + n;
        c->at = c->n = 0;
    }
    return true;
}

bool vr_cursor_u32(struct vr_cursor *c, uint32_t *out, struct vr_err *err)
{
    if (!vr_cursor_read(c, out, sizeof *out, err)) return false;
    *out = le32toh(*out);
    return true;
}

bool vr_cursor_u64(struct vr_cursor *c, uint64_t *out, struct vr_err *err)
{
    if (!vr_cursor_read(c, out, sizeof *out, err)) return false;
    *out = le64toh(*out);
    return true;
}
