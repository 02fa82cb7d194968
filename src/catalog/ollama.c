/* Ollama's models: a manifest for each name lists layers by media type; the file of a layer is named by its hash. */
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "catalog/readers.h"

#define MAX_MANIFEST (1 << 20)
#define MAX_PATH     1024
#define DEPTH        4 /* HOST/NAMESPACE/MODEL/TAG */
#define HASH         "sha256:"
#define MODEL        ".image.model"
#define MMPROJ       ".image.projector"
#define HEAD         ".image.draft"

struct level {
    struct vr_catalog_walk *r;
    const char *root;
    char id[MAX_PATH]; /* "HOST/NAMESPACE/MODEL" so far */
    int depth;
};

/* "sha256:HEX" -> "ROOT/blobs/sha256-HEX". Nothing else is a blob's name. */
static bool blob_path(const char *root, const char *digest, char *path)
{
    if (!digest || strncmp(digest, HASH, strlen(HASH)) != 0) return false;
    const char *hex = digest + strlen(HASH);
    if (strlen(hex) != 64 || strspn(hex, "0123456789abcdef") != 64) return false;
    return snprintf(path, MAX_PATH, "%s/blobs/sha256-%s", root, hex) < MAX_PATH;
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = text ? strlen(text) : 0, k = strlen(end);
    return n >= k && strcmp(text + n - k, end) == 0;
}

/* The file of the first layer of a kind; false: there is no such layer. */
static bool layer_path(const json_t *manifest, const char *kind, const char *root, char *path)
{
    size_t i;
    json_t *layer;
    json_array_foreach(json_object_get(manifest, "layers"), i, layer)
    {
        const char *type = json_string_value(json_object_get(layer, "mediaType"));
        if (ends_with(type, kind)) return blob_path(root, json_string_value(json_object_get(layer, "digest")), path);
    }
    return false;
}

/* The same, kept with the list; NULL: there is no such layer, or its file is not there. */
static const char *companion(const struct level *l, const json_t *manifest, const char *kind)
{
    char path[MAX_PATH];
    if (!layer_path(manifest, kind, l->root, path) || access(path, R_OK) != 0) return NULL;
    const char *own = vr_arena_strdup(&l->r->out->arena, path);
    l->r->no_memory |= !own;
    return own;
}

static void add(const struct level *l, const char *id, const json_t *manifest)
{
    char path[MAX_PATH];
    struct stat st = { 0 };
    if (!layer_path(manifest, MODEL, l->root, path)) return;
    bool there = stat(path, &st) == 0 && S_ISREG(st.st_mode);
    struct vr_listed *x =
        vr_catalog_walk_add(l->r, &(struct vr_listed){ .id = id,
                                                       .path = path,
                                                       .bytes = there ? (uint64_t)st.st_size : 0,
                                                       .n_parts = 1,
                                                       .n_found = there,
                                                       .when = st.st_mtim.tv_sec * 1000000000LL + st.st_mtim.tv_nsec,
                                                       .dev = st.st_dev,
                                                       .ino = st.st_ino });
    if (!x) return;
    x->mmproj = companion(l, manifest, MMPROJ);
    x->head = companion(l, manifest, HEAD);
}

static void see(const struct vr_entry *e, int fd, void *ctx)
{
    const struct level *l = ctx;
    struct level below = { .r = l->r, .root = l->root, .depth = l->depth + 1 };
    char path[2 * MAX_PATH];
    const char *between = l->depth == 1 ? "" : l->depth == DEPTH ? ":" : "/";
    if (snprintf(below.id, sizeof below.id, "%s%s%s", l->id, between, e->name) >= (int)sizeof below.id) return;
    if (l->depth < DEPTH) {
        int at = e->directory ? vr_walk_below(fd, e->name) : -1;
        if (at >= 0) vr_walk(l->r, at, see, &below);
        return;
    }
    if (!e->file) return;
    snprintf(path, sizeof path, "%s/manifests/%s/%s", l->root, l->id, e->name);
    VR_AUTO_BUF text = { 0 };
    json_t *manifest = vr_file_read(path, MAX_MANIFEST, &text, NULL)
                           ? json_loadb(vr_buf_str(&text), text.n, JSON_REJECT_DUPLICATES, NULL)
                           : NULL;
    add(l, below.id, manifest);
    json_decref(manifest);
}

void vr_read_ollama(struct vr_catalog_walk *r, int fd, const char *root)
{
    int at = vr_walk_below(fd, "manifests");
    close(fd);
    struct level top = { .r = r, .root = root, .depth = 1 };
    if (at >= 0) vr_walk(r, at, see, &top);
}
