#include "engine/cache/kept.h"

#include <stdlib.h>

#include "engine/cache/disk_file.h"

enum { OVERHEAD = 160 }; /* the struct, what malloc() adds, twice, and its extent on disk, with room for more */

uint64_t vr_kept_cost(size_t n) { return (uint64_t)n + OVERHEAD; }

static bool fits(const struct vr_cache_ram *ram, uint64_t bytes) { return ram->used_bytes + bytes <= ram->limit_bytes; }

bool vr_cache_ram_take(struct vr_cache_ram *ram, uint64_t bytes)
{
    if (!fits(ram, bytes)) return false;
    ram->used_bytes += bytes;
    return true;
}

struct vr_kept *vr_kept_away(struct vr_cache_ram *ram, size_t n, uint64_t on_disk)
{
    struct vr_kept *p = malloc(sizeof *p);
    if (!p || !vr_cache_ram_take(ram, OVERHEAD)) return free(p), NULL;
    *p = (struct vr_kept){ .ram = ram, .n = n, .n_refs = 1, .on_disk = on_disk };
    return p;
}

struct vr_kept *vr_kept_new(struct vr_cache_ram *ram, size_t n)
{
    struct vr_kept *p = fits(ram, vr_kept_cost(n)) ? vr_kept_away(ram, n, 0) : NULL;
    if (!p || vr_kept_return(p)) return p;
    vr_kept_drop(p);
    return NULL;
}

struct vr_kept *vr_kept_share(struct vr_kept *p)
{
    p->n_refs++;
    return p;
}

static void free_data(struct vr_kept *p)
{
    if (p->data) p->ram->used_bytes -= p->n;
    free(p->data);
    p->data = NULL;
}

void vr_kept_drop(struct vr_kept *p)
{
    if (!p || --p->n_refs) return;
    if (p->on_disk && p->ram->disk) vr_disk_file_free(p->ram->disk, p->on_disk);
    free_data(p);
    p->ram->used_bytes -= OVERHEAD;
    free(p);
}

bool vr_kept_leave(struct vr_kept *p)
{
    if (!p->on_disk || !p->data) return false;
    free_data(p);
    return true;
}

bool vr_kept_return(struct vr_kept *p)
{
    return fits(p->ram, p->n) && (p->data = malloc(p->n + 1)) && vr_cache_ram_take(p->ram, p->n);
}
