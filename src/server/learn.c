#include "server/learn.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/file.h"

#define MAX_FILE 65536

bool vr_learned_add(struct vr_learned *l, const char *device, uint64_t less_bytes)
{
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->rows[i].device, device) == 0) {
            l->rows[i].less_bytes += less_bytes;
            return true;
        }
    if (l->n == VR_MAX_LEARNED || strlen(device) >= sizeof l->rows[0].device) return false;
    l->rows[l->n].most_bytes = 0;
    strcpy(l->rows[l->n].device, device);
    l->rows[l->n++].less_bytes = less_bytes;
    return true;
}

void vr_learned_limit(struct vr_learned *l, const char *device, uint64_t most_bytes)
{
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->rows[i].device, device) == 0) l->rows[i].most_bytes = most_bytes;
}

uint64_t vr_learned_most(const struct vr_learned *l, const char *device)
{
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->rows[i].device, device) == 0) return l->rows[i].most_bytes;
    return 0;
}

uint64_t vr_learned_less(const struct vr_learned *l, const char *device)
{
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->rows[i].device, device) == 0) return l->rows[i].less_bytes;
    return 0;
}

bool vr_learned_path(char *out, size_t n)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    int len;
    if (state && *state == '/') /* the XDG rules: a relative one is ignored */
        len = snprintf(out, n, "%s/vram-llm/learned.json", state);
    else if (home && *home == '/')
        len = snprintf(out, n, "%s/.local/state/vram-llm/learned.json", home);
    else
        return false;
    return len > 0 && (size_t)len < n;
}

bool vr_learned_read(const char *path, struct vr_learned *out, struct vr_err *err)
{
    *out = (struct vr_learned){ 0 };
    if (access(path, F_OK) != 0) return true;
    VR_AUTO_BUF text = { 0 };
    if (!vr_file_read(path, MAX_FILE, &text, err)) return false;
    json_t *tree = json_loadb(vr_buf_str(&text), text.n, 0, NULL);
    json_t *devices = json_object_get(tree, "devices"), *row;
    const char *name;
    bool ok = json_is_object(devices);
    json_object_foreach(devices, name, row)
    {
        json_int_t less = json_integer_value(json_object_get(row, "less_bytes"));
        ok = ok && less > 0 && vr_learned_add(out, name, (uint64_t)less);
    }
    json_decref(tree);
    if (ok) return true;
    *out = (struct vr_learned){ 0 };
    return vr_fail(err, VR_EFORMAT, "%s is not what this program writes there; delete it", path);
}

/* mkdir -p for the directory of a file. */
static bool make_parents(const char *path, struct vr_err *err)
{
    char dir[512];
    if (snprintf(dir, sizeof dir, "%s", path) >= (int)sizeof dir) return vr_fail(err, VR_EIO, "%s: too long", path);
    for (char *slash = strchr(dir + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(dir, 0700) != 0 && errno != EEXIST)
            return vr_fail(err, VR_EIO, "%s: cannot make the directory: %s", dir, strerror(errno));
        *slash = '/';
    }
    return true;
}

bool vr_learned_write(const char *path, const struct vr_learned *l, struct vr_err *err)
{
    if (!make_parents(path, err)) return false;
    json_t *devices = json_object();
    for (size_t i = 0; i < l->n; i++)
        json_object_set_new(devices, l->rows[i].device,
                            json_pack("{s:I}", "less_bytes", (json_int_t)l->rows[i].less_bytes));
    json_t *tree = json_pack("{s:o}", "devices", devices);
    VR_AUTO_FREE char *text = tree ? json_dumps(tree, JSON_INDENT(2) | JSON_SORT_KEYS) : NULL;
    json_decref(tree);
    if (!text) return vr_fail_nomem(err, "writing what was learned");
    return vr_file_write(path, text, strlen(text), err);
}
