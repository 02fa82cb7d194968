#include "base/arena.h"

#include <stdalign.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define BLOCK_BYTES ((size_t)16 * 1024)

struct vr_arena_block {
    struct vr_arena_block *next;
    size_t used, cap;
    alignas(max_align_t) unsigned char data[];
};

static void *take(struct vr_arena *a, size_t bytes, size_t align)
{
    if (bytes == 0) bytes = 1;
    struct vr_arena_block *b = a->head;
    size_t at = b ? (b->used + align - 1) & ~(align - 1) : 0;
    if (!b || at > b->cap || bytes > b->cap - at) {
        size_t cap = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
        if (cap > SIZE_MAX - sizeof *b) return NULL;
        b = malloc(sizeof *b + cap);
        if (!b) return NULL;
        *b = (struct vr_arena_block){ .next = a->head, .cap = cap };
        a->head = b;
        a->total += sizeof *b + cap;
        at = 0;
    }
    b->used = at + bytes;
    return b->data + at;
}

void *vr_arena_alloc(struct vr_arena *a, size_t n, size_t size)
{
    if (size && n > SIZE_MAX / size) return NULL;
    void *p = take(a, n * size, alignof(max_align_t));
    if (p) memset(p, 0, n * size);
    return p;
}

char *vr_arena_strndup(struct vr_arena *a, const char *s, size_t n)
{
    if (n == SIZE_MAX) return NULL;
    char *p = take(a, n + 1, 1);
    if (!p) return NULL;
    if (n) memcpy(p, s, n);
    p[n] = '\0';
    return p;
}

char *vr_arena_strdup(struct vr_arena *a, const char *s) { return vr_arena_strndup(a, s, strlen(s)); }

char *vr_arena_printf(struct vr_arena *a, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *p = n < 0 ? NULL : take(a, (size_t)n + 1, 1);
    if (!p) return NULL;
    va_start(ap, fmt);
    vsnprintf(p, (size_t)n + 1, fmt, ap);
    va_end(ap);
    return p;
}

void vr_arena_done(struct vr_arena *a)
{
    struct vr_arena_block *b = a->head;
    while (b) {
        struct vr_arena_block *next = b->next;
        free(b);
        b = next;
    }
    *a = (struct vr_arena){ 0 };
}
