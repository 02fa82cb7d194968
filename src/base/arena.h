/* An arena: many small allocations with one lifetime, freed together. Zero-initialise it, or use VR_AUTO_ARENA. */
#ifndef VR_BASE_ARENA_H
#define VR_BASE_ARENA_H

#include <stddef.h>

#include "base/own.h"

struct vr_arena {
    struct vr_arena_block *head;
    size_t total; /* bytes asked of malloc so far */
};

/* Zeroed memory for n objects of `size` bytes, aligned for any type. NULL when memory is out or n * size overflows. */
void *vr_arena_alloc(struct vr_arena *a, size_t n, size_t size) VR_MUST_CHECK;
/* A copy of n bytes with a NUL behind it. */
char *vr_arena_strndup(struct vr_arena *a, const char *s, size_t n) VR_MUST_CHECK;
char *vr_arena_strdup(struct vr_arena *a, const char *s) VR_MUST_CHECK;
char *vr_arena_printf(struct vr_arena *a, const char *fmt, ...) VR_PRINTF(2, 3) VR_MUST_CHECK;
void vr_arena_done(struct vr_arena *a);

#define VR_AUTO_ARENA VR_CLEANUP(vr_arena_done) struct vr_arena

#endif
