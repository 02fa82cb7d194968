/* A file is named after the model's, so that people know it, and by a hash of its path, since two may be called alike.
 * What is in it says itself whether it is still that model's (engine/process/cache_file.h). */
#include "cli/input/cache_dir.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"

const char *vr_cache_dir_file(const char *dir, const char *model, struct vr_arena *arena, struct vr_err *err)
{
    const char *name = vr_file_name(model), *below = vr_arena_printf(arena, "%s/x", dir);
    size_t n = strlen(name);
    if (n > 5 && strcmp(name + n - 5, ".gguf") == 0) n -= 5;
    if (n > 100) n = 100;
    if (!below || !vr_file_make_parents(below, err)) {
        if (!below) vr_fail_nomem(err, "--cache-dir");
        return NULL;
    }
    if (access(dir, W_OK | X_OK) != 0) return VR_FAIL_NULL(err, VR_EIO, "--cache-dir: %s: %s", dir, strerror(errno));
    VR_AUTO_FREE char *whole = realpath(dir, NULL);
    const char *file = whole ? vr_arena_printf(arena, "%s/%.*s-%08x.prompts", strcmp(whole, "/") ? whole : "", (int)n,
                                               name, (unsigned)vr_hash(model, strlen(model), 0))
                             : NULL;
    if (!file) vr_fail_nomem(err, "--cache-dir");
    return file;
}
