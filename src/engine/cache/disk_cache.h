/* Cached prompts on disk, so that they outlive the process, and host memory.
 *
 * Every cached prompt is written once, in the background, as a record that names the records of its pieces; pieces that
 * several share are there once. From then on its pieces may leave host memory. When the process starts, the records are
 * read, without the pieces: the prompts are found as ever, and a piece is read when it is asked for. When the file is
 * full, those prompts in it that have left host memory go, the least worth first; while there is none, what is new is
 * not written. Prompts with pictures are not written: their tokens tell pictures apart in
 * this process alone. One thread uses it. */
#ifndef VR_ENGINE_CACHE_DISK_CACHE_H
#define VR_ENGINE_CACHE_DISK_CACHE_H

#include "engine/cache/disk_file.h"
#include "engine/cache/kv_rows.h"
#include "engine/cache/prompt_cache.h"

struct vr_disk_cache {
    struct vr_disk_file file;
    struct vr_prompt_cache *prompts;
    struct vr_disk_writer *writer;
    struct vr_disk_job *job; /* what is being written; NULL: nothing */
    uint64_t n_seen;         /* of prompts->n_added, when nothing was left to write */
    bool full;               /* the disk took no more */
    double us_per_mib;       /* of reading */
    char note[240];          /* for the user; "": none */
};

/* Reads an open file, which it takes over, into the prompt cache. `owner` says whose the prompts are, and what else
 * they depend on: model, engine, types, layout; a file that says anything else begins anew. Blocks have token_bytes for
 * each token; 0: there are none. False: there will be no disk cache; the note says why. */
bool vr_disk_cache_open(struct vr_disk_cache *c, int fd, const char *owner, uint64_t limit_bytes,
                        struct vr_prompt_cache *prompts, uint64_t token_bytes);
/* Before the prompt cache is done. Waits for what is being written. One that was never opened is fine. */
void vr_disk_cache_close(struct vr_disk_cache *c);

/* Ends what was written and begins to write the next prompt, waiting at most `ms` for the former. False: there is
 * nothing left to write. */
bool vr_disk_cache_turn(struct vr_disk_cache *c, uint32_t ms);
/* Reads a piece, if it is on disk alone. False: there is no room for it, or it is `damaged`, and says so. */
bool vr_disk_cache_fetch(struct vr_disk_cache *c, struct vr_kept *p);
/* How many prompts are on disk. */
size_t vr_disk_cache_count(const struct vr_disk_cache *c);

#endif
