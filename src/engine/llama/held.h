/* What each device holds of a model in split mode tensor. There the engine reports one device over all, with the size
 * of the largest slice; so the buffers are counted as they are made. One load per process. */
#ifndef VR_ENGINE_LLAMA_HELD_H
#define VR_ENGINE_LLAMA_HELD_H

#include <stddef.h>
#include <stdint.h>

#include <ggml-backend.h>

/* From here on until the first end, what is made on these devices is the model's; until the second, its context's. */
void vr_held_begin(const ggml_backend_dev_t *devices, size_t n);
void vr_held_end(void);
/* From here on until the next end, a second context's over the same weights. */
void vr_held_again(void);

struct vr_held {
    ggml_backend_dev_t device;
    uint64_t model_bytes, context_bytes, second_bytes; /* compute buffers, as large on each device, are not in it */
};
size_t vr_held_count(void); /* 0: nobody began */
struct vr_held vr_held_on(size_t i);

#endif
