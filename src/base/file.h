/* Whole small files: read with a cap, written so that a reader sees the old or the new one, never half of it; and where
 * the user keeps those that are ours. */
#ifndef VR_BASE_FILE_H
#define VR_BASE_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

/* Appends the file to `out`; refuses more than max bytes. */
bool vr_file_read(const char *path, size_t max, struct vr_buf *out, struct vr_err *err) VR_MUST_CHECK;
/* Writes a new file beside it and renames; an old one gives it its permissions. A device or a pipe is written to. */
bool vr_file_write(const char *path, const void *data, size_t n, struct vr_err *err) VR_MUST_CHECK;
/* All of it to an open file, or to a place in it; false with errno set. */
bool vr_fd_write(int fd, const void *data, size_t n) VR_MUST_CHECK;
bool vr_fd_pwrite(int fd, const void *data, size_t n, uint64_t at) VR_MUST_CHECK;

/* Can this process open it for reading? With errno set if not. access(2) would ask about its real user instead. */
bool vr_file_readable(const char *path);
/* What follows the last slash; points into `path`. */
const char *vr_file_name(const char *path);

/* The path of our file by the XDG rules: "$XDG_DATA_HOME/vram-llm/machine.json", or
 * "~/.local/share/vram-llm/machine.json" by ("XDG_DATA_HOME", ".local/share", "machine.json"). False: there is no such
 * place, or no room for its name. */
bool vr_file_own_path(const char *variable, const char *below_home, const char *name, char *out, size_t n);
/* Makes the directories above a path that are missing, for this user alone. */
bool vr_file_make_parents(const char *path, struct vr_err *err) VR_MUST_CHECK;

#endif
