#include "remote/curl.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

/* The second is the same library over another TLS. */
static const char *const names[] = { "libcurl.so.4", "libcurl-gnutls.so.4" };

static const struct {
    const char *name;
    size_t at;
} functions[] = {
#define FUNCTION(name) { #name, offsetof(struct vr_curl, name) },
#include "remote/curl.def"
#undef FUNCTION
};

static bool look_up(void *lib, struct vr_curl *out)
{
    for (size_t i = 0; i < VR_COUNT(functions); i++) {
        void *f = dlsym(lib, functions[i].name);
        if (!f) return false;
        memcpy((char *)out + functions[i].at, &f, sizeof f);
    }
    return true;
}

const struct vr_curl *vr_curl_load(struct vr_err *err)
{
    static struct vr_curl found;
    static bool loaded;
    for (size_t i = 0; i < VR_COUNT(names) && !loaded; i++) {
        void *lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        loaded = lib && look_up(lib, &found) && found.curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
        if (lib && !loaded) dlclose(lib);
    }
    if (loaded) return &found;
    return VR_FAIL_NULL(err, VR_EIO,
                        "fetching models needs libcurl 7.66 or newer, which is not installed (Debian: apt install "
                        "libcurl4)");
}
