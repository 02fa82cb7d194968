/* Where the program lies tells where its model is: in a build tree, in an unpacked tarball, or installed under a
 * prefix. No path is compiled in, so that all of them may be moved. */
#include "cli/input/shipped.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const places[] = {
    "../models/demo.gguf",         /* build/vram-llm; the tarball's bin/vram-llm */
    "../../models/demo.gguf",      /* build/asan/vram-llm */
    "../share/vram-llm/demo.gguf", /* PREFIX/bin/vram-llm */
};

bool vr_shipped_find(const char *dir, char *out, size_t size)
{
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        int n = snprintf(out, size, "%s/%s", dir, places[i]);
        if (n > 0 && (size_t)n < size && access(out, R_OK) == 0) return true;
    }
    return false;
}

const char *vr_shipped_model(void)
{
    static char found[PATH_MAX + sizeof "/../share/vram-llm/demo.gguf"];
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0) return NULL;
    self[n] = '\0';
    char *slash = strrchr(self, '/');
    if (!slash) return NULL;
    *slash = '\0';
    return vr_shipped_find(self, found, sizeof found) ? found : NULL;
}
