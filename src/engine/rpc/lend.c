#include "engine/rpc/lend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ggml-backend-impl.h>
#include <ggml-rpc.h>

#include "base/file.h"
#include "engine/llama/confinement.h"
#include "engine/llama/cpu.h"
#include "engine/llama/library.h"
#include "engine/vgpu/vgpu.h"

/* --- how much: ours is put in front of the function that allocates on a device --- */

static struct {
    size_t n;
    struct {
        ggml_backend_buffer_type_t buft;
        ggml_backend_buffer_t (*alloc)(ggml_backend_buffer_type_t, size_t);
        void (*release)(ggml_backend_buffer_t);
        uint64_t most_bytes, used_bytes;
    } on[VR_MAX_VGPUS];
} caps;

static size_t cap_of(ggml_backend_buffer_type_t buft)
{
    size_t i = 0;
    while (caps.on[i].buft != buft) i++; /* only theirs lead here */
    return i;
}

static void release(ggml_backend_buffer_t b)
{
    size_t i = cap_of(b->buft);
    caps.on[i].used_bytes -= b->size;
    caps.on[i].release(b);
}

static ggml_backend_buffer_t alloc(ggml_backend_buffer_type_t buft, size_t size)
{
    size_t i = cap_of(buft);
    if (size > caps.on[i].most_bytes - caps.on[i].used_bytes) return NULL;
    ggml_backend_buffer_t b = caps.on[i].alloc(buft, size);
    if (!b) return NULL;
    if (b->size > caps.on[i].most_bytes - caps.on[i].used_bytes) return ggml_backend_buffer_free(b), NULL;
    caps.on[i].used_bytes += b->size;
    caps.on[i].release = b->iface.free_buffer;
    b->iface.free_buffer = release;
    return b;
}

static void cap(ggml_backend_dev_t dev, uint64_t most_bytes)
{
    ggml_backend_buffer_type_t buft = ggml_backend_dev_buffer_type(dev);
    size_t i = caps.n++;
    caps.on[i].buft = buft;
    caps.on[i].alloc = buft->iface.alloc_buffer;
    caps.on[i].most_bytes = most_bytes;
    buft->iface.alloc_buffer = alloc;
}

/* --- which --- */

/* What goes wrong belongs into the node's log; the rest of what the engine says does not. */
static void hear(enum ggml_log_level level, const char *text, void *ctx)
{
    (void)ctx;
    if (level == GGML_LOG_LEVEL_ERROR && !vr_fd_write(2, text, strlen(text))) return;
}

static bool load_backends(const struct vr_lend *l, struct vr_err *err)
{
    if (!vr_cpu_load(l->cpu, err)) return false;
    if (l->n_vgpus) return vr_vgpu_register(l->vgpus, l->n_vgpus, VR_VGPU_EXECUTING, err);
    return !l->gpus || vr_engine_load_backends(err);
}

static bool find_devices(const struct vr_lend *l, ggml_backend_dev_t *out, struct vr_err *err)
{
    for (size_t i = 0; i < l->n_devices; i++) {
        out[i] = ggml_backend_dev_by_name(l->devices[i].name);
        for (size_t k = 0; k < i; k++)
            if (out[k] == out[i]) out[i] = NULL;
        if (!out[i])
            return vr_fail(err, VR_EDEVICE, "the engine does not see the device %s; 'vram-llm doctor' there says more",
                           l->devices[i].name);
        cap(out[i], l->devices[i].most_bytes);
    }
    return true;
}

bool vr_lend_run(const struct vr_lend *l, int fd, bool (*ready)(void *ctx), void *ctx, struct vr_err *err)
{
    ggml_backend_dev_t devices[VR_MAX_VGPUS];
    char endpoint[24];
    const char *cache = l->cache[0] ? l->cache : NULL;
    const struct vr_engine_needs needs = { .files = { l->cpu }, .cache = cache, .devices = l->gpus };
    setenv("GGML_NO_BACKTRACE", "1", 1); /* it would start a debugger */
    setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
    setenv("CUDA_VISIBLE_DEVICES", l->visible, 1);
    ggml_log_set(hear, NULL);
    vr_engine_confine(&needs, NULL);
    if (!load_backends(l, err) || !find_devices(l, devices, err)) return false;
    vr_confine_settle();
    if (!ready(ctx)) return vr_fail(err, VR_EIO, "nobody waits for the devices any more");
    snprintf(endpoint, sizeof endpoint, "node:%d", fd);
    ggml_backend_rpc_start_server(endpoint, cache, l->n_threads ? l->n_threads : vr_engine_threads(), l->n_devices,
                                  devices);
    return true;
}
