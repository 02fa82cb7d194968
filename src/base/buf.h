/* A growing buffer of bytes that is always also a C string.
 *
 * Appending never fails at the call: the first allocation that fails (or the cap) sets `failed`, later appends do
 * nothing, and the owner asks once at the end. */
#ifndef VR_BASE_BUF_H
#define VR_BASE_BUF_H

#include <stdbool.h>
#include <stdarg.h>
#include <stddef.h>

#include "base/own.h"

struct vr_buf {
    char *data; /* NULL until the first append; n bytes and a NUL */
    size_t n, cap;
    size_t max; /* 0: no limit but memory */
    bool failed;
};

void vr_buf_add(struct vr_buf *b, const void *data, size_t n);
void vr_buf_adds(struct vr_buf *b, const char *s);
void vr_buf_addc(struct vr_buf *b, char c, size_t times);
void vr_buf_addf(struct vr_buf *b, const char *fmt, ...) VR_PRINTF(2, 3);
void vr_buf_addv(struct vr_buf *b, const char *fmt, va_list ap) VR_PRINTF(2, 0);

/* "" before the first append, never NULL. */
const char *vr_buf_str(const struct vr_buf *b);

/* Empties the buffer and keeps its memory. */
void vr_buf_clear(struct vr_buf *b);
void vr_buf_done(struct vr_buf *b);

#define VR_AUTO_BUF VR_CLEANUP(vr_buf_done) struct vr_buf

#endif
