/* GGUF files below a folder, and Hugging Face's cache, which is such a folder with the repository in its names. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "catalog/readers.h"
#include "gguf/part_name.h"

#define MAX_DEPTH  6 /* publisher/model/quant is how hubs lay them out, and snapshots/COMMIT comes before it */
#define MAX_PATH   1024
#define MAX_BESIDE 32 /* draft heads in one directory, and vision projectors */

/* One directory on the way down: where it is, and what its files are called from here on. */
struct folder {
    struct vr_catalog_walk *r;
    char path[MAX_PATH]; /* of it */
    char id[MAX_PATH];   /* before the names in it, with a slash behind; "" at the root */
    int depth;
    bool hub;
    size_t first; /* entry of the catalog that may be of this directory */
    const char *heads[MAX_BESIDE], *projectors[MAX_BESIDE];
    size_t n_heads, n_projectors;
};

/* Files that are no model of their own: what belongs to one beside it. */
static bool is_mmproj(const char *name) { return strcasestr(name, "mmproj") != NULL; }
/* A draft head's name without its kind: "mtp-model.gguf" -> "model.gguf"; NULL: it is none. */
static const char *behind_head(const char *name)
{
    static const char *const begin[] = { "mtp-", "dspark-", "dflash-", "eagle3-" };
    for (size_t i = 0; i < VR_COUNT(begin); i++)
        if (strncasecmp(name, begin[i], strlen(begin[i])) == 0) return name + strlen(begin[i]);
    return NULL;
}

static void add_beside(const struct folder *f, const char *list[MAX_BESIDE], size_t *n, const char *path)
{
    const char *own = *n < MAX_BESIDE ? vr_arena_strdup(&f->r->out->arena, path) : NULL;
    if (own) list[(*n)++] = own;
}

/* A name's length without the type of its weights, and without what stands between words at its end. */
static size_t without_type(const char *s, const char *between)
{
    static const char *const types[] = { "f16", "bf16", "f32", "q8_0" };
    size_t len = strlen(s), n;
    for (size_t i = 0; i < VR_COUNT(types); i++) {
        n = strlen(types[i]);
        bool ends = len >= n && strcasecmp(s + len - n, types[i]) == 0;
        if (!ends || (len > n && !strchr(between, s[len - n - 1]))) continue;
        len -= n;
        break;
    }
    while (len && strchr(between, s[len - 1])) len--;
    return len;
}

/* What a vision projector's name says of its model: "mmproj-seer-7b-F16.gguf" -> "seer-7b", which is "" if it says
 * nothing ("mmproj-model-f16.gguf"). */
static void projector_of(const char *path, char *out, size_t n)
{
    static const char between[] = "-._ ";
    const char *name = vr_file_name(path), *word = strcasestr(name, "mmproj");
    snprintf(out, n, "%.*s%.*s", (int)(word - name), name, (int)strlen(word) - 6 - 5, word + 6); /* without .gguf */
    out[without_type(out, between)] = '\0';
    memmove(out, out + strspn(out, between), strlen(out + strspn(out, between)) + 1);
    if (strcasecmp(out, "model") == 0) *out = '\0';
}

/* Whether it is named for a model of this directory: for the one at `path`, or for any. */
static bool is_named_for(const struct folder *f, const char *projector, const char *path)
{
    char of[MAX_PATH];
    const struct vr_catalog *c = f->r->out;
    projector_of(projector, of, sizeof of);
    if (!*of) return false;
    if (path) return strcasestr(vr_file_name(path), of) != NULL;
    for (size_t i = f->first; i < c->n_items; i++)
        if (strcasestr(vr_file_name(c->items[i].path), of)) return true;
    return false;
}

static bool is_half(const char *path)
{
    return strcasestr(vr_file_name(path), "f16") && !strcasestr(vr_file_name(path), "bf16");
}

/* The model's vision projector: one that is named for it, else one that is named for none of the models beside it; of
 * several the one of 16-bit floats (no loss, half of the size), then the first by name. */
static const char *projector_for(const struct folder *f, const char *path)
{
    const char *best = NULL;
    int most = 0;
    for (size_t i = 0; i < f->n_projectors; i++) {
        const char *p = f->projectors[i];
        int fits = is_named_for(f, p, path) ? 2 : is_named_for(f, p, NULL) ? 0 : 1;
        if (fits == 0 || fits < most) continue;
        bool better = fits > most || (is_half(p) != is_half(best) ? is_half(p) : strcmp(p, best) < 0);
        if (better) best = p;
        most = fits;
    }
    return best;
}

/* Of several draft heads the one whose name is a model's for longest; of those that are alike, the first by name. */
static const char *head_of(const struct folder *f, const char *path)
{
    const char *best = NULL, *name = vr_file_name(path);
    size_t most = 0;
    for (size_t i = 0; i < f->n_heads; i++) {
        const char *head = behind_head(vr_file_name(f->heads[i]));
        size_t n = 0;
        while (name[n] && tolower((unsigned char)name[n]) == tolower((unsigned char)head[n])) n++;
        if (best && (n < most || (n == most && strcmp(f->heads[i], best) > 0))) continue;
        best = f->heads[i];
        most = n;
    }
    return best;
}

/* The entry that this part of a split model belongs to. */
static struct vr_listed *whole_of(const struct folder *f, const char *path, size_t n_stem, unsigned parts)
{
    struct vr_catalog *c = f->r->out;
    for (size_t i = f->first; i < c->n_items; i++) {
        struct vr_listed *x = &c->items[i];
        if (x->n_parts == parts && strlen(x->path) == strlen(path) && strncmp(x->path, path, n_stem) == 0) return x;
    }
    return NULL;
}

static void add_part(struct vr_listed *x, unsigned no, const char *path, const struct vr_entry *e)
{
    x->bytes += e->bytes;
    x->n_found++;
    if (e->when > x->when) x->when = e->when;
    if (no != 1) return;
    memcpy((char *)x->path, path, strlen(path)); /* as long as it was */
    x->dev = e->dev;
    x->ino = e->ino;
}

static void add_model(const struct folder *f, const struct vr_entry *e, const char *path)
{
    size_t stem;
    unsigned no, parts;
    if (!vr_gguf_name(e->name, &stem, &no, &parts)) return;
    struct vr_listed *x = parts > 1 ? whole_of(f, path, strlen(path) - strlen(e->name) + stem, parts) : NULL;
    if (x) {
        add_part(x, no, path, e);
        return;
    }
    char id[2 * MAX_PATH];
    snprintf(id, sizeof id, "%s%.*s", f->id, (int)stem, e->name);
    vr_catalog_walk_add(f->r, &(struct vr_listed){ .id = id,
                                                   .path = path,
                                                   .bytes = e->bytes,
                                                   .n_parts = parts,
                                                   .n_found = 1,
                                                   .when = e->when,
                                                   .dev = e->dev,
                                                   .ino = e->ino });
}

static bool join(char *out, const char *a, const char *between, const char *b)
{
    return snprintf(out, MAX_PATH, "%s%s%s", a, between, b) < MAX_PATH;
}

/* "models--OWNER--NAME" -> "OWNER/NAME/"; what lies between a repository and its files is not named. */
static bool name_below(const struct folder *f, const char *name, char *id)
{
    static const char repository[] = "models--";
    if (!f->hub || f->depth > 3) return join(id, f->id, name, "/");
    if (f->depth > 1) {
        snprintf(id, MAX_PATH, "%s", f->id);
        return f->depth == 3 || strcmp(name, "snapshots") == 0;
    }
    if (strncmp(name, repository, sizeof repository - 1) != 0) return false;
    if (!join(id, name + sizeof repository - 1, "/", "")) return false;
    char *owner_end = strstr(id, "--");
    if (owner_end) {
        *owner_end = '/';
        memmove(owner_end + 1, owner_end + 2, strlen(owner_end + 2) + 1);
    }
    return true;
}

static void see(const struct vr_entry *e, int fd, void *ctx);

static void walk(struct folder *f, int fd)
{
    vr_walk(f->r, fd, see, f);
    struct vr_catalog *c = f->r->out;
    for (size_t i = f->first; i < c->n_items; i++) { /* those of this directory, not of any below */
        const char *path = c->items[i].path;
        size_t n = (size_t)(vr_file_name(path) - path) - 1;
        if (strlen(f->path) != n || strncmp(f->path, path, n) != 0) continue;
        c->items[i].mmproj = projector_for(f, path);
        c->items[i].head = head_of(f, path);
    }
}

static void go_down(const struct folder *f, const struct vr_entry *e, int fd)
{
    struct folder below = { .r = f->r, .depth = f->depth + 1, .hub = f->hub, .first = f->r->out->n_items };
    if (f->depth == MAX_DEPTH || !join(below.path, f->path, "/", e->name) || !name_below(f, e->name, below.id)) return;
    int at = vr_walk_below(fd, e->name);
    if (at >= 0) walk(&below, at);
}

static void see(const struct vr_entry *e, int fd, void *ctx)
{
    struct folder *f = ctx;
    char path[MAX_PATH];
    size_t n_stem;
    unsigned no, parts;
    if (e->directory) go_down(f, e, fd);
    if (!e->file || !join(path, f->path, "/", e->name) || !vr_gguf_name(e->name, &n_stem, &no, &parts)) return;
    if (is_mmproj(e->name))
        add_beside(f, f->projectors, &f->n_projectors, path);
    else if (behind_head(e->name))
        add_beside(f, f->heads, &f->n_heads, path);
    else
        add_model(f, e, path);
}

static void read_root(struct vr_catalog_walk *r, int fd, const char *root, bool hub)
{
    struct folder f = { .r = r, .depth = 1, .hub = hub, .first = r->out->n_items };
    if (!join(f.path, root, "", "")) {
        close(fd);
        return;
    }
    walk(&f, fd);
}

void vr_read_folder(struct vr_catalog_walk *r, int fd, const char *root) { read_root(r, fd, root, false); }
void vr_read_hub(struct vr_catalog_walk *r, int fd, const char *root) { read_root(r, fd, root, true); }
