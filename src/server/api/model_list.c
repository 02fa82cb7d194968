#include "server/api/model_list.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/json.h"
#include "gguf/part_name.h"

#define MAX_DEPTH   4 /* publisher/model/quant is how hubs lay them out */
#define MAX_ENTRIES 20000
#define MAX_ID      512

struct walk {
    struct vr_model_list *list;
    unsigned entries;
    bool no_memory;
};

/* Plain UTF-8 that no terminal or page stumbles over. */
static bool plain(const char *name)
{
    const unsigned char *s = (const unsigned char *)name;
    if (*s == '.') return false;
    for (size_t left = strlen(name), n; left; s += n, left -= n) {
        n = vr_utf8_len(s, left);
        if (n == 0 || *s < ' ' || *s == 127) return false;
    }
    return true;
}

static void add_file(struct walk *w, const char *id, uint64_t bytes)
{
    struct vr_model_list *s = w->list;
    size_t stem;
    unsigned part, parts;
    const char *name = vr_file_name(id);
    if (!vr_gguf_name(name, &stem, &part, &parts) || strncmp(name, "mmproj", 6) == 0) return;
    stem += (size_t)(name - id);
    struct vr_listed_model *found = NULL;
    for (size_t i = 0; parts > 1 && i < s->n && !found; i++)
        if (s->items[i].n_parts == parts && strlen(s->items[i].id) == strlen(id) &&
            strncmp(s->items[i].id, id, stem) == 0)
            found = &s->items[i];
    if (!found) {
        if (s->n == VR_MAX_LISTED) {
            s->more = true;
            return;
        }
        char *copy = strdup(id);
        if (!copy) {
            w->no_memory = true;
            return;
        }
        found = &s->items[s->n++];
        *found = (struct vr_listed_model){ .id = copy, .n_parts = parts };
    }
    if (part == 1) memcpy(found->id, id, strlen(id)); /* as long as it was */
    found->bytes += bytes;
    found->n_found++;
}

static void walk(struct walk *w, int fd, const char *prefix, int depth)
{
    DIR *dir = fdopendir(fd);
    if (!dir) {
        close(fd);
        return;
    }
    for (struct dirent *e; w->entries < MAX_ENTRIES && (e = readdir(dir)); w->entries++) {
        char id[MAX_ID];
        struct stat st;
        if (!plain(e->d_name) || fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0) continue;
        if (snprintf(id, sizeof id, "%s%s%s", prefix, *prefix ? "/" : "", e->d_name) >= (int)sizeof id) continue;
        if (S_ISREG(st.st_mode)) add_file(w, id, (uint64_t)st.st_size);
        if (!S_ISDIR(st.st_mode) || depth == MAX_DEPTH) continue;
        int below = openat(dirfd(dir), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (below >= 0) walk(w, below, id, depth + 1);
    }
    closedir(dir);
}

static int by_id(const void *a, const void *b)
{
    const struct vr_listed_model *x = a, *y = b;
    return strcmp(x->id, y->id);
}

bool vr_model_list_read(const char *dir, struct vr_model_list *out, struct vr_err *err)
{
    *out = (struct vr_model_list){ 0 };
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return vr_fail(err, VR_EIO, "%s: %s", dir, strerror(errno));
    struct walk w = { .list = out };
    walk(&w, fd, "", 1);
    if (w.no_memory) {
        vr_model_list_done(out);
        return vr_fail_nomem(err, "listing models");
    }
    if (w.entries == MAX_ENTRIES) out->more = true;
    if (out->n) qsort(out->items, out->n, sizeof *out->items, by_id);
    return true;
}

const struct vr_listed_model *vr_model_list_find(const struct vr_model_list *s, const char *id)
{
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->items[i].id, id) == 0) return s->items[i].n_found == s->items[i].n_parts ? &s->items[i] : NULL;
    return NULL;
}

void vr_model_list_done(struct vr_model_list *s)
{
    for (size_t i = 0; i < s->n; i++) free(s->items[i].id);
    s->n = 0;
}
