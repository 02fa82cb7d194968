#include "catalog/catalog.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/json.h"
#include "base/text.h"
#include "base/vec.h"
#include "catalog/readers.h"
#include "gguf/part_name.h"

#define MAX_PLACES 8
#define MAX_PATH   1024
#define MAX_TOLD   4 /* of several that a name may mean */

static const struct {
    const char *name;
    void (*read)(struct vr_catalog_walk *r, int fd, const char *root);
    const char *places[MAX_PLACES];
} keepers[] = {
#define KEEPER(id, name, reader, ...) [id] = { name, reader, { __VA_ARGS__ } },
#include "catalog/keepers.def"
#undef KEEPER
};

const char *vr_keeper_name(enum vr_keeper k) { return keepers[k].name; }

/* --- reading --- */

struct vr_listed *vr_catalog_walk_add(struct vr_catalog_walk *r, const struct vr_listed *x)
{
    struct vr_catalog *c = r->out;
    if (c->n_items == VR_MAX_LISTED) {
        c->more = true;
        return NULL;
    }
    char *id = vr_arena_strdup(&c->arena, x->id), *path = vr_arena_strdup(&c->arena, x->path);
    if (!id || !path || !VR_ROOM(c, items)) {
        r->no_memory = true;
        return NULL;
    }
    struct vr_listed *own = &c->items[c->n_items++];
    *own = *x;
    own->id = id;
    own->path = path;
    own->keeper = r->keeper;
    return own;
}

/* Plain UTF-8 that no terminal or page stumbles over, and not hidden. */
static bool is_plain(const char *name)
{
    const unsigned char *s = (const unsigned char *)name;
    if (*s == '.') return false;
    for (size_t left = strlen(name), n; left; s += n, left -= n) {
        n = vr_utf8_len(s, left);
        if (n == 0 || vr_utf8_is_control(s, n)) return false;
    }
    return true;
}

void vr_walk(struct vr_catalog_walk *r, int fd, void (*each)(const struct vr_entry *e, int fd, void *ctx), void *ctx)
{
    DIR *dir = fdopendir(fd);
    if (!dir) {
        close(fd);
        return;
    }
    for (struct dirent *d; !r->no_memory && (d = readdir(dir));) {
        struct stat st;
        if (r->n_entries++ >= VR_MAX_ENTRIES) {
            r->out->more = true;
            break;
        }
        if (!is_plain(d->d_name) || fstatat(fd, d->d_name, &st, 0) != 0) continue;
        struct vr_entry e = { .name = d->d_name,
                              .file = S_ISREG(st.st_mode),
                              .directory = S_ISDIR(st.st_mode),
                              .bytes = (uint64_t)st.st_size,
                              .when = st.st_mtim.tv_sec * 1000000000LL + st.st_mtim.tv_nsec,
                              .dev = st.st_dev,
                              .ino = st.st_ino };
        each(&e, fd, ctx);
    }
    closedir(dir);
}

int vr_walk_below(int fd, const char *name) { return openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC); }

/* "$HF_HOME/hub", "~/.lmstudio/models" -> a path. False: the variable is not set. */
static bool place_path(const char *place, char *out)
{
    char name[64] = "HOME";
    const char *rest = place + strcspn(place, "/"), *base = "";
    if (*place == '$') snprintf(name, sizeof name, "%.*s", (int)(rest - place - 1), place + 1);
    if (*place != '/') base = getenv(name);
    return base && (*place == '/' || *base == '/') && snprintf(out, MAX_PATH, "%s%s", base, rest) < MAX_PATH;
}

static void read_keeper(struct vr_catalog_walk *r, enum vr_keeper k)
{
    r->keeper = k;
    for (const char *const *at = keepers[k].places; *at; at++) {
        char path[MAX_PATH];
        int fd = place_path(*at, path) ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
        if (fd >= 0) keepers[k].read(r, fd, path);
    }
}

bool vr_catalog_hub(char *out, size_t n)
{
    for (const char *const *at = keepers[VR_KEEPER_HUGGING_FACE].places; *at; at++) {
        char path[MAX_PATH];
        if (place_path(*at, path)) return snprintf(out, n, "%s", path) < (int)n;
    }
    return false;
}

/* --- order and names --- */

static int by_file(const void *a, const void *b)
{
    const struct vr_listed *x = a, *y = b;
    if (x->dev != y->dev) return x->dev < y->dev ? -1 : 1;
    if (x->ino != y->ino) return x->ino < y->ino ? -1 : 1;
    return x->keeper != y->keeper ? (int)x->keeper - (int)y->keeper : strcmp(x->id, y->id);
}

static int by_id(const void *a, const void *b)
{
    const struct vr_listed *x = a, *y = b;
    if (x->keeper != y->keeper) return (int)x->keeper - (int)y->keeper;
    int order = strcmp(x->id, y->id);
    return order ? order : x->when == y->when ? 0 : x->when > y->when ? -1 : 1;
}

static bool same_file(const struct vr_listed *x, const struct vr_listed *y)
{
    return x->ino && x->dev == y->dev && x->ino == y->ino;
}
/* Two snapshots of a repository: the newer one counts. */
static bool same_id(const struct vr_listed *x, const struct vr_listed *y)
{
    return x->keeper == y->keeper && strcmp(x->id, y->id) == 0;
}

static void keep_first(struct vr_catalog *c, int (*order)(const void *, const void *),
                       bool (*same)(const struct vr_listed *, const struct vr_listed *))
{
    uint32_t n = 0;
    if (c->n_items) qsort(c->items, c->n_items, sizeof *c->items, order);
    for (uint32_t i = 0; i < c->n_items; i++)
        if (n == 0 || !same(&c->items[n - 1], &c->items[i])) c->items[n++] = c->items[i];
    c->n_items = n;
}

/* Whether `end` is the id, or the end of it from a slash on. */
static bool ends_so(const char *id, const char *end)
{
    size_t n = strlen(id), k = strlen(end);
    return k && k <= n && strcasecmp(id + n - k, end) == 0 && (k == n || id[n - k - 1] == '/');
}

static void name_it(const struct vr_catalog *c, struct vr_listed *x)
{
    const char *at = strrchr(x->id, '/');
    for (;;) {
        const char *end = at ? at + 1 : x->id;
        uint32_t n = 0;
        for (uint32_t i = 0; i < c->n_items; i++) n += ends_so(c->items[i].id, end);
        x->name = end;
        if (n == 1 || !at) return;
        while (at > x->id && *--at != '/') continue;
        if (*at != '/') at = NULL;
    }
}

static bool finish(struct vr_catalog_walk *r, struct vr_err *err)
{
    struct vr_catalog *c = r->out;
    if (r->no_memory) {
        vr_catalog_done(c);
        return vr_fail_nomem(err, "listing models");
    }
    keep_first(c, by_file, same_file);
    keep_first(c, by_id, same_id);
    for (uint32_t i = 0; i < c->n_items; i++) name_it(c, &c->items[i]);
    return true;
}

static bool read_dir(struct vr_catalog_walk *r, const char *dir, struct vr_err *err)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return vr_fail(err, VR_EIO, "%s: %s", dir, strerror(errno));
    vr_read_folder(r, fd, dir);
    return true;
}

bool vr_catalog_folder(const char *dir, struct vr_catalog *out, struct vr_err *err)
{
    *out = (struct vr_catalog){ 0 };
    struct vr_catalog_walk r = { .out = out };
    return read_dir(&r, dir, err) && finish(&r, err);
}

bool vr_catalog_read(const char *dir, struct vr_catalog *out, struct vr_err *err)
{
    *out = (struct vr_catalog){ 0 };
    struct vr_catalog_walk r = { .out = out };
    if (dir && !read_dir(&r, dir, err)) return false;
    for (enum vr_keeper k = 0; k < VR_N_KEEPERS; k++) read_keeper(&r, k);
    return finish(&r, err);
}

void vr_catalog_done(struct vr_catalog *c)
{
    free(c->items);
    vr_arena_done(&c->arena);
    *c = (struct vr_catalog){ 0 };
}

/* --- looking up --- */

const struct vr_listed *vr_catalog_find(const struct vr_catalog *c, const char *word, struct vr_err *err)
{
    char plain[MAX_PATH], latest[MAX_PATH];
    size_t n;
    unsigned no, parts;
    if (!vr_gguf_name(word, &n, &no, &parts)) n = strlen(word);
    if (snprintf(plain, sizeof plain, "%.*s", (int)n, word) >= MAX_PATH) return NULL;
    if (snprintf(latest, sizeof latest, "%s:latest", plain) >= MAX_PATH) return NULL;
    const struct vr_listed *found[MAX_TOLD] = { 0 };
    size_t n_found = 0;
    for (uint32_t i = 0; i < c->n_items; i++) {
        const struct vr_listed *x = &c->items[i];
        if (!ends_so(x->id, plain) && !ends_so(x->id, latest)) continue;
        if (strcasecmp(x->id, plain) == 0) return x; /* the whole name is never ambiguous */
        if (n_found++ < MAX_TOLD) found[n_found - 1] = x;
    }
    if (n_found < 2) return found[0];
    vr_fail(err, VR_EUSAGE, "'%s' may be any of %zu models:", word, n_found);
    for (size_t i = 0; i < n_found && i < MAX_TOLD; i++) vr_fail_more(err, "%s %s", i ? "," : "", found[i]->name);
    vr_fail_more(err, "%s", n_found > MAX_TOLD ? ", …" : "");
    return NULL;
}

static const char *name_at(size_t i, const void *ctx) { return ((const struct vr_catalog *)ctx)->items[i].name; }

const char *vr_catalog_nearest(const struct vr_catalog *c, const char *word)
{
    for (uint32_t i = 0; i < c->n_items; i++)
        if (strcasestr(c->items[i].id, word)) return c->items[i].name;
    int i = vr_nearest(word, c->n_items, name_at, c);
    return i < 0 ? NULL : c->items[i].name;
}
