/* Models that lie on this computer, whoever put them there: a folder that the user names, the caches of Hugging Face
 * and llama.cpp, LM Studio's folders, Ollama's manifests and blobs.
 *
 * Only names, sizes and Ollama's manifests are read here; no model is opened. Links are followed, because the caches
 * consist of them; hidden names, names that are not plain text, and what is no regular file are passed over. Files that
 * belong together are one entry: the parts of a split model, the vision projector (mmproj) and the draft head beside
 * it. A file that several keepers link to is listed once. */
#ifndef VR_CATALOG_CATALOG_H
#define VR_CATALOG_CATALOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/err.h"

/* Who keeps it. */
enum vr_keeper {
#define KEEPER(id, ...) id,
#include "catalog/keepers.def"
#undef KEEPER
    VR_N_KEEPERS
};
const char *vr_keeper_name(enum vr_keeper k); /* "Hugging Face" */

struct vr_listed {
    const char *name; /* the shortest end of `id` that no other entry has; what people type */
    const char *id;   /* "OWNER/NAME/FILE", "HOST/NAMESPACE/MODEL:TAG", or the path below the folder, without ".gguf" */
    const char *path; /* of the file, or of its first part if that is there */
    const char *mmproj; /* its vision projector; NULL: none was found */
    const char *head;   /* its draft head in a file of its own (MTP, EAGLE-3, DFlash, DSpark); NULL: the same */
    enum vr_keeper keeper;
    uint64_t bytes; /* of all parts */
    unsigned n_parts, n_found;
    int64_t when; /* nanoseconds since 1970: the newest part's time of change */
    dev_t dev;    /* of the file at `path` */
    ino_t ino;
};

struct vr_catalog {
    struct vr_listed *items; /* by keeper, then by id */
    uint32_t n_items, cap_items;
    bool more; /* there are more than VR_MAX_LISTED, or too many files to look at */
    struct vr_arena arena;
};
#define VR_MAX_LISTED 512

/* The GGUF files below a folder. */
bool vr_catalog_folder(const char *dir, struct vr_catalog *out, struct vr_err *err) VR_MUST_CHECK;
/* Those of `dir` (NULL: none), and all that is where other programs keep models. A place that is not there or may not
 * be read is passed over, but for `dir`. */
bool vr_catalog_read(const char *dir, struct vr_catalog *out, struct vr_err *err) VR_MUST_CHECK;
void vr_catalog_done(struct vr_catalog *c);
#define VR_AUTO_CATALOG VR_CLEANUP(vr_catalog_done) struct vr_catalog

/* Where the hub's programs would put what they download: the first of its places by the environment. False: there is
 * none, as without a home. `out` takes `n` bytes. */
bool vr_catalog_hub(char *out, size_t n) VR_MUST_CHECK;

/* The entry that `word` names: an id, or any end of one from a slash on; case, ".gguf" and ":latest" do not matter.
 * NULL and no error: there is none. NULL and an error: several. */
const struct vr_listed *vr_catalog_find(const struct vr_catalog *c, const char *word, struct vr_err *err);
/* A name that has it within, or else the one that reads most like it; NULL: none does. */
const char *vr_catalog_nearest(const struct vr_catalog *c, const char *word);

#endif
