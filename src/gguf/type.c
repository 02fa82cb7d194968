#include "gguf/type.h"

#include <stddef.h>
#include <strings.h>

static const struct vr_type types[] = {
#define TYPE(id, name, block, bytes) [id] = { name, block, bytes },
#include "gguf/types.def"
#undef TYPE
};
#define N_TYPES (sizeof types / sizeof types[0])

const struct vr_type *vr_type(uint32_t id) { return id < N_TYPES && types[id].name ? &types[id] : NULL; }

uint32_t vr_type_by_name(const char *name)
{
    for (uint32_t id = 0; id < N_TYPES; id++)
        if (types[id].name && strcasecmp(types[id].name, name) == 0) return id;
    return VR_TYPE_NONE;
}

/* Every type that packs several weights into a block is a quantized one, and no other is. */
bool vr_type_is_quantized(uint32_t id) { return vr_type(id) && types[id].block > 1; }

uint64_t vr_type_row_bytes(uint32_t id, uint64_t n) { return n / types[id].block * types[id].bytes; }
