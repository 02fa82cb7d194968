/* Pieces of what the engine computed: counted against one budget of host memory, whoever holds them, and shared by
 * reference, so that what several remember is there once. A piece that is on disk, too, may leave host memory and come
 * back (disk_cache.h). One thread uses them. */
#ifndef VR_ENGINE_CACHE_KEPT_H
#define VR_ENGINE_CACHE_KEPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vr_disk_file;

struct vr_cache_ram {
    uint64_t limit_bytes, used_bytes;
    struct vr_disk_file *disk; /* where pieces may be besides; NULL: nowhere */
};

struct vr_kept {
    struct vr_cache_ram *ram;
    size_t n;
    uint32_t n_refs;
    bool damaged;     /* what is on disk cannot be read */
    uint64_t on_disk; /* its place there; 0: it is not */
    uint64_t used;    /* when a cached prompt that has it was last used */
    uint8_t *data;    /* NULL: on disk alone */
};

/* Counts memory that is no piece against the budget. False: there is no room. */
bool vr_cache_ram_take(struct vr_cache_ram *ram, uint64_t bytes);

/* Bytes that a piece of n takes of the budget. */
uint64_t vr_kept_cost(size_t n);
/* A piece of n bytes, with one reference. NULL: the budget, or the memory, has no room for it. */
struct vr_kept *vr_kept_new(struct vr_cache_ram *ram, size_t n);
/* The same for one that is on disk alone. */
struct vr_kept *vr_kept_away(struct vr_cache_ram *ram, size_t n, uint64_t on_disk);
/* One more reference; returns it. */
struct vr_kept *vr_kept_share(struct vr_kept *p);
/* One less; the last one frees it, and its place on disk. NULL is fine. */
void vr_kept_drop(struct vr_kept *p);

/* Gives its memory up; false: it is nowhere else, or has none. */
bool vr_kept_leave(struct vr_kept *p);
/* Memory for it again, to be filled; false: no room. */
bool vr_kept_return(struct vr_kept *p);

#endif
