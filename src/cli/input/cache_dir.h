/* --cache-dir: where cached prompts are kept over a restart, a file for each model. */
#ifndef VR_CLI_CACHE_DIR_H
#define VR_CLI_CACHE_DIR_H

#include "base/arena.h"
#include "base/err.h"

/* The file for a model, given by its whole path; its directory is made, for this user alone. NULL: it cannot be. */
const char *vr_cache_dir_file(const char *dir, const char *model, struct vr_arena *arena,
                              struct vr_err *err) VR_MUST_CHECK;

#endif
