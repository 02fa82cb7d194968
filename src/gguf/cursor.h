/* A bounded reader over a file: the only way bytes leave it.
 *
 * It reads through a window with pread(2) and not through a mapping, so that a file which shrinks while it is read
 * gives an error and not a SIGBUS, and what is skipped (a vocabulary's strings) costs no memory. */
#ifndef VR_GGUF_CURSOR_H
#define VR_GGUF_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define VR_CURSOR_WINDOW ((size_t)64 * 1024)
/* The longest header that is read. The largest real ones, with a vocabulary and its merges, are about 16 MiB; a file
 * that claims a billion strings must not keep us busy. */
#define VR_CURSOR_LIMIT ((uint64_t)128 << 20)

struct vr_cursor {
    int fd;
    const char *path;
    uint64_t size;     /* of the file when it was opened */
    uint64_t have;     /* its first bytes that are there; 0: all (part.h, vr_part_wants) */
    uint64_t wants;    /* of them, when that is too few */
    uint64_t base;     /* where the window lies in the file */
    size_t at, n;      /* next byte and end within the window */
    uint8_t *window;   /* VR_CURSOR_WINDOW bytes, the caller's */
    const char *what;  /* what is being read, for messages: "the value of" */
    const char *which; /* and of what: a key or a tensor; "" for none */
};

uint64_t vr_cursor_pos(const struct vr_cursor *c);
uint64_t vr_cursor_left(const struct vr_cursor *c);
/* Copies the next n bytes. False with a message that says how many bytes the file lacks. */
bool vr_cursor_read(struct vr_cursor *c, void *out, size_t n, struct vr_err *err) VR_MUST_CHECK;
bool vr_cursor_skip(struct vr_cursor *c, uint64_t n, struct vr_err *err) VR_MUST_CHECK;
bool vr_cursor_u32(struct vr_cursor *c, uint32_t *out, struct vr_err *err) VR_MUST_CHECK;
bool vr_cursor_u64(struct vr_cursor *c, uint64_t *out, struct vr_err *err) VR_MUST_CHECK;

#endif
