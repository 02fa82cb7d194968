/* Where each tensor goes and what it takes there; private to memory/. */
#ifndef VR_MEMORY_WEIGHTS_H
#define VR_MEMORY_WEIGHTS_H

#include "memory/footprint.h"
#include "memory/shape.h"

#define GPU_ALIGN  128
#define HOST_ALIGN 32

static inline uint64_t pad_to(uint64_t n, uint64_t align) { return (n + align - 1) / align * align; }

/* What the GPU backend adds to a quantized tensor whose rows of n weights are not a multiple of 512. */
uint64_t vr_row_padding(uint32_t type, uint64_t n);

/* Adds all tensors to the layers, the input, the output and the tables of f. */
void vr_weights_add(const struct vr_model *m, const struct shape *s, const struct vr_context *c,
                    struct vr_footprint *f);

#endif
