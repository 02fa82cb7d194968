#include "remote/hub_cache.h"

#include <errno.h>
#include <string.h>

#include "base/file.h"
#include "catalog/catalog.h"

bool vr_hub_cache_folder(const struct vr_remote *r, char *out, size_t n, struct vr_err *err)
{
    char hub[768];
    if (!vr_catalog_hub(hub, sizeof hub))
        return vr_fail(err, VR_EUSAGE, "there is no folder for downloads: set HF_HUB_CACHE or HOME");
    return snprintf(out, n, "%s/models--%s--%s", hub, r->owner, r->name) < (int)n ||
           vr_fail(err, VR_EUSAGE, "%s: the name is too long", hub);
}

const char *vr_hub_cache_blob(const char *folder, const struct vr_repo_file *f, struct vr_arena *arena)
{
    return vr_arena_printf(arena, "%s/blobs/%s", folder, f->sum);
}

bool vr_hub_cache_link(const char *folder, const char *commit, const struct vr_repo_file *f, struct vr_err *err)
{
    VR_AUTO_BUF link = { 0 };
    VR_AUTO_BUF target = { 0 };
    vr_buf_addf(&link, "%s/snapshots/%s/%s", folder, commit, f->path);
    vr_buf_adds(&target, "../../");
    for (const char *s = f->path; *s; s++)
        if (*s == '/') vr_buf_adds(&target, "../");
    vr_buf_addf(&target, "blobs/%s", f->sum);
    if (link.failed || target.failed) return vr_fail_nomem(err, "linking a file");
    if (!vr_file_make_parents(link.data, err)) return false;
    char is[256];
    ssize_t n = readlink(link.data, is, sizeof is);
    if (n == (ssize_t)target.n && memcmp(is, target.data, target.n) == 0) return true;
    if (n >= 0) unlink(link.data); /* to another content */
    return symlink(target.data, link.data) == 0 || vr_fail(err, VR_EIO, "%s: %s", link.data, strerror(errno));
}

bool vr_hub_cache_set_main(const char *folder, const char *commit, struct vr_err *err)
{
    VR_AUTO_BUF path = { 0 };
    vr_buf_addf(&path, "%s/refs/main", folder);
    if (path.failed) return vr_fail_nomem(err, "linking a file");
    return vr_file_make_parents(path.data, err) && vr_file_write(path.data, commit, strlen(commit), err);
}
