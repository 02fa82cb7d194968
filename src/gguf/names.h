/* A set of names with a number for each: finds duplicates and looks up keys and tensors without a scan, so that a file
 * with a hundred thousand names costs no more than its length. Fixed capacity, memory from an arena. */
#ifndef VR_GGUF_NAMES_H
#define VR_GGUF_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

struct vr_names {
    const char **keys;
    uint32_t *values;
    uint32_t mask;
};

/* Room for n names. False when memory is out. */
bool vr_names_init(struct vr_names *s, struct vr_arena *arena, uint32_t n) VR_MUST_CHECK;
/* False if the name is there already. The set keeps the pointer. */
bool vr_names_add(struct vr_names *s, const char *name, uint32_t value);
/* NULL if it is not there. */
const uint32_t *vr_names_find(const struct vr_names *s, const char *name);

#endif
