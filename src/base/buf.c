#include "base/buf.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Room for n more bytes and the final NUL. */
static bool reserve(struct vr_buf *b, size_t n)
{
    if (b->failed) return false;
    if (n >= SIZE_MAX - b->n || (b->max && b->n + n > b->max)) return b->failed = true, false;
    size_t need = b->n + n + 1;
    if (need <= b->cap) return true;
    size_t cap = b->cap > SIZE_MAX / 2 ? need : b->cap * 2;
    if (cap < need) cap = need;
    if (cap < 128) cap = 128;
    char *data = realloc(b->data, cap);
    if (!data) return b->failed = true, false;
    b->data = data;
    b->cap = cap;
    return true;
}

void vr_buf_add(struct vr_buf *b, const void *data, size_t n)
{
    if (!reserve(b, n)) return;
    if (n) memcpy(b->data + b->n, data, n);
    b->n += n;
    b->data[b->n] = '\0';
}

void vr_buf_adds(struct vr_buf *b, const char *s) { vr_buf_add(b, s, strlen(s)); }

void vr_buf_addc(struct vr_buf *b, char c, size_t times)
{
    if (!reserve(b, times)) return;
    memset(b->data + b->n, c, times);
    b->n += times;
    b->data[b->n] = '\0';
}

void vr_buf_addv(struct vr_buf *b, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    if (n < 0) {
        b->failed = true;
        return;
    }
    if (!reserve(b, (size_t)n)) return;
    vsnprintf(b->data + b->n, (size_t)n + 1, fmt, ap);
    b->n += (size_t)n;
}

void vr_buf_addf(struct vr_buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vr_buf_addv(b, fmt, ap);
    va_end(ap);
}

const char *vr_buf_str(const struct vr_buf *b) { return b->data ? b->data : ""; }

void vr_buf_clear(struct vr_buf *b)
{
    b->n = 0;
    b->failed = false;
    if (b->data) b->data[0] = '\0';
}

void vr_buf_done(struct vr_buf *b)
{
    free(b->data);
    *b = (struct vr_buf){ .max = b->max };
}
