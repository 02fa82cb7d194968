/* Every buffer of a device is made by its buffer type, which is a struct of functions: ours is put in front of the one
 * that allocates. Of what a context makes there, caches and states are cleared at once and compute buffers never. */
#include "engine/llama/held.h"

#include <stdbool.h>

#include <ggml-backend-impl.h>

enum { MAX_HELD = 16 };

static struct {
    size_t n;
    enum { NOTHING, MODEL, CONTEXT, SECOND } now;
    struct {
        struct vr_held held;
        ggml_backend_buffer_type_t buft;
        ggml_backend_buffer_t (*alloc)(ggml_backend_buffer_type_t, size_t);
        void (*clear)(ggml_backend_buffer_t, uint8_t);
    } on[MAX_HELD];
} all;

static size_t index_of(ggml_backend_buffer_type_t buft)
{
    size_t i = 0;
    while (all.on[i].buft != buft) i++; /* only theirs lead here */
    return i;
}

static void clear(ggml_backend_buffer_t b, uint8_t value)
{
    size_t i = index_of(b->buft);
    if (all.now == CONTEXT) all.on[i].held.context_bytes += b->size;
    if (all.now == SECOND) all.on[i].held.second_bytes += b->size;
    all.on[i].clear(b, value);
}

static ggml_backend_buffer_t alloc(ggml_backend_buffer_type_t buft, size_t size)
{
    size_t i = index_of(buft);
    ggml_backend_buffer_t b = all.on[i].alloc(buft, size);
    if (!b || all.now == NOTHING) return b;
    if (all.now == MODEL) all.on[i].held.model_bytes += b->size;
    all.on[i].clear = b->iface.clear;
    b->iface.clear = clear;
    return b;
}

void vr_held_begin(const ggml_backend_dev_t *devices, size_t n)
{
    all.n = n < MAX_HELD ? n : MAX_HELD;
    all.now = MODEL;
    for (size_t i = 0; i < all.n; i++) {
        ggml_backend_buffer_type_t buft = ggml_backend_dev_buffer_type(devices[i]);
        all.on[i].held = (struct vr_held){ .device = devices[i] };
        if (buft->iface.alloc_buffer == alloc) continue; /* begun before */
        all.on[i].buft = buft;
        all.on[i].alloc = buft->iface.alloc_buffer;
        buft->iface.alloc_buffer = alloc;
    }
}

void vr_held_again(void) { all.now = SECOND; }

void vr_held_end(void) { all.now = all.now == MODEL ? CONTEXT : NOTHING; }

size_t vr_held_count(void) { return all.n; }

struct vr_held vr_held_on(size_t i) { return all.on[i].held; }
