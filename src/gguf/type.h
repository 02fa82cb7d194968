/* The tensor types of GGML: how many weights make a block and how many bytes a block takes. One row each in
 * types.def; a test compares the table with the engine's own. */
#ifndef VR_GGUF_TYPE_H
#define VR_GGUF_TYPE_H

#include <stdbool.h>
#include <stdint.h>

struct vr_type {
    const char *name; /* as llama.cpp writes it: "q4_K", "f16"; NULL for an id that is unknown or withdrawn */
    uint32_t block;   /* weights per block */
    uint32_t bytes;   /* bytes per block */
};

#define VR_TYPE_F32  0
#define VR_TYPE_F16  1
#define VR_TYPE_NONE UINT32_MAX /* no such type */

/* NULL for an id that the engine does not know. */
const struct vr_type *vr_type(uint32_t id);
/* Case is ignored. VR_TYPE_NONE when unknown. */
uint32_t vr_type_by_name(const char *name);
bool vr_type_is_quantized(uint32_t id);
/* Bytes of n weights in a row; n must be a multiple of the block. */
uint64_t vr_type_row_bytes(uint32_t id, uint64_t n);

#endif
