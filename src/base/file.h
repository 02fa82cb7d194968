/* Whole small files: read with a cap, written so that a reader sees the old or the new one, never half of it. */
#ifndef VR_BASE_FILE_H
#define VR_BASE_FILE_H

#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

/* Appends the file to `out`; refuses more than max bytes. */
bool vr_file_read(const char *path, size_t max, struct vr_buf *out, struct vr_err *err) VR_MUST_CHECK;
/* Writes a new file beside it and renames; an old one gives it its permissions. A device or a pipe is written to. */
bool vr_file_write(const char *path, const void *data, size_t n, struct vr_err *err) VR_MUST_CHECK;

#endif
