#include "gguf/names.h"

#include <string.h>

#include "base/hash.h"

bool vr_names_init(struct vr_names *s, struct vr_arena *arena, uint32_t n)
{
    uint32_t cap = 16;
    while (cap / 2 < n) cap *= 2; /* at most half full; n is bounded far below 2^31 by the callers */
    s->keys = vr_arena_alloc(arena, cap, sizeof *s->keys);
    s->values = vr_arena_alloc(arena, cap, sizeof *s->values);
    s->mask = cap - 1;
    return s->keys && s->values;
}

/* The slot of `name`: its own or the free one where it would go. */
static uint32_t slot_of(const struct vr_names *s, const char *name)
{
    /* differs per process, so that no file can be made of names that collide */
    static uint64_t seed;
    if (!seed) seed = vr_hash_secret();
    uint32_t i = (uint32_t)vr_hash(name, strlen(name), seed) & s->mask;
    while (s->keys[i] && strcmp(s->keys[i], name) != 0) i = (i + 1) & s->mask;
    return i;
}

bool vr_names_add(struct vr_names *s, const char *name, uint32_t value)
{
    uint32_t i = slot_of(s, name);
    if (s->keys[i]) return false;
    s->keys[i] = name;
    s->values[i] = value;
    return true;
}

const uint32_t *vr_names_find(const struct vr_names *s, const char *name)
{
    if (!s->keys) return NULL;
    uint32_t i = slot_of(s, name);
    return s->keys[i] ? &s->values[i] : NULL;
}
