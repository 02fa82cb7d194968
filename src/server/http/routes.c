#include "server/http/routes.h"

#include <stdio.h>
#include <string.h>

static const struct vr_route routes[] = {
#define ROUTE(method, path, name, family, errors, open, quiet)                                                         \
    { VR_##method, path, VR_FAMILY_##family, VR_ERRORS_##errors, open, quiet, vr_answer_##name },
#include "server/http/routes.def"
#undef ROUTE
};

static bool matches(const struct vr_route *r, struct vr_slice path)
{
    size_t n = strlen(r->path);
    if (n > 1 && r->path[n - 1] == '/') return path.n > n && memcmp(path.p, r->path, n) == 0;
    return path.n == n && memcmp(path.p, r->path, n) == 0;
}

const struct vr_route *vr_route_find(enum vr_method method, struct vr_slice path, char *allow, size_t n)
{
    bool get = false, post = false, delete = false;
    for (size_t i = 0; i < VR_COUNT(routes); i++) {
        const struct vr_route *r = &routes[i];
        if (!matches(r, path)) continue;
        if (r->method == method || (r->method == VR_GET && method == VR_HEAD)) return r;
        get |= r->method == VR_GET;
        post |= r->method == VR_POST;
        delete |= r->method == VR_DELETE;
    }
    snprintf(allow, n, "%s%s%s%s", get ? "GET, HEAD, " : "", post ? "POST, " : "", delete ? "DELETE, " : "",
             get || post || delete ? "OPTIONS" : "");
    return NULL;
}

const char *vr_family_name(enum vr_family f)
{
    static const char *const names[VR_N_FAMILIES] = { "none",      "chat",     "completions", "embeddings", "rerank",
                                                      "responses", "messages", "audio",       "models",     "other" };
    return names[f];
}
