/* The libraries are found through the dynamic linker: whatever libllama was loaded, the backends lie beside it. */
#include "engine/engine.h"

#include <dirent.h>
#include <dlfcn.h>
#include <string.h>

#include <llama.h>

const char *vr_engine_version(void) { return llama_version(); }

bool vr_engine_dir(char *out, size_t n, struct vr_err *err)
{
    Dl_info info;
    if (!dladdr((void *)llama_backend_init, &info) || !info.dli_fname)
        return vr_fail(err, VR_EENGINE, "cannot tell where the engine's libraries are");
    VR_AUTO_FREE char *real = realpath(info.dli_fname, NULL);
    const char *path = real ? real : info.dli_fname, *slash = strrchr(path, '/');
    if (!slash || (size_t)(slash - path) >= n)
        return vr_fail(err, VR_EENGINE, "%s: not a path to the engine's libraries", path);
    snprintf(out, n, "%.*s", (int)(slash - path), path);
    return true;
}

bool vr_engine_has(const char *backend)
{
    char dir[768], plain[80], variants[80];
    snprintf(plain, sizeof plain, "libggml-%s.so", backend);
    snprintf(variants, sizeof variants, "libggml-%s-", backend); /* one per generation of processors */
    DIR *d = vr_engine_dir(dir, sizeof dir, NULL) ? opendir(dir) : NULL;
    bool found = false;
    for (struct dirent *e; d && !found && (e = readdir(d));)
        found = strcmp(e->d_name, plain) == 0 || strncmp(e->d_name, variants, strlen(variants)) == 0;
    if (d) closedir(d);
    return found;
}
