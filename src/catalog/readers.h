/* How the folders of each keeper are read; private to catalog/. */
#ifndef VR_CATALOG_READERS_H
#define VR_CATALOG_READERS_H

#include "catalog/catalog.h"

struct vr_catalog_walk {
    struct vr_catalog *out;
    enum vr_keeper keeper;
    unsigned n_entries; /* of directories, looked at so far; over all keepers */
    bool no_memory;
};
#define VR_MAX_ENTRIES 50000

/* Each reads the open directory `fd`, which it closes, at `root`. */
void vr_read_folder(struct vr_catalog_walk *r, int fd, const char *root); /* GGUF files at any depth up to a limit */
void vr_read_hub(struct vr_catalog_walk *r, int fd, const char *root); /* models--OWNER--NAME/snapshots/COMMIT/FILE */
void vr_read_ollama(struct vr_catalog_walk *r, int fd,
                    const char *root); /* manifests/HOST/NAMESPACE/MODEL/TAG, blobs/ */

/* Adds a copy; NULL when it has no room, which `r` then tells. */
struct vr_listed *vr_catalog_walk_add(struct vr_catalog_walk *r, const struct vr_listed *x);

/* A directory's entries, one by one, as long as they are plain names and there are not too many: their type and size,
 * links followed. */
struct vr_entry {
    const char *name;
    bool file, directory;
    uint64_t bytes;
    int64_t when;
    dev_t dev;
    ino_t ino;
};
/* `each` is called for every entry; `below` opens a subdirectory (-1: it cannot be read). Closes fd. */
void vr_walk(struct vr_catalog_walk *r, int fd, void (*each)(const struct vr_entry *e, int fd, void *ctx), void *ctx);
int vr_walk_below(int fd, const char *name);

#endif
