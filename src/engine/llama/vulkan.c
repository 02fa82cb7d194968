#include "engine/llama/vulkan.h"

#include <stdio.h>
#include <string.h>

#include <ggml-backend.h>

#include "engine/llama/library.h"
#include "engine/llama/isolated.h"
#include "hw/gpus.h"

#define TIMEOUT_MS 20000 /* a driver that compiles its own shaders at the first start takes seconds */

static bool list_devices(void *ctx, struct vr_buf *result, struct vr_err *err)
{
    (void)ctx;
    struct vr_vulkan found = { 0 };
    if (!vr_engine_load_backends(err)) return false;
    for (size_t i = 0; i < ggml_backend_dev_count() && found.n < VR_COUNT(found.items); i++) {
        ggml_backend_dev_t dev = ggml_backend_dev_get(i);
        struct ggml_backend_dev_props props = { 0 };
        ggml_backend_dev_get_props(dev, &props);
        if (strncmp(props.name, "Vulkan", 6) != 0) continue;
        struct vr_vulkan_device *d = &found.items[found.n++];
        snprintf(d->about, sizeof d->about, "%s", props.description);
        snprintf(d->pci, sizeof d->pci, "%s", props.device_id ? props.device_id : "");
        d->total_bytes = props.memory_total;
        d->free_bytes = props.memory_free < props.memory_total ? props.memory_free : props.memory_total;
    }
    vr_buf_add(result, &found, sizeof found);
    return true;
}

bool vr_vulkan_list(struct vr_vulkan *out, struct vr_err *err)
{
    const struct vr_isolated job = {
        .fn = list_devices, .what = "looking for devices", .needs.devices = true, .timeout_ms = TIMEOUT_MS
    };
    return vr_isolated_block(&job, out, sizeof *out, err);
}

static const struct vr_device *by_pci(const struct vr_machine *m, const char *pci)
{
    for (size_t i = 0; *pci && i < m->n_devices; i++)
        if (strcmp(m->devices[i].pci, pci) == 0) return &m->devices[i];
    return NULL;
}

static bool is_listed(const struct vr_vulkan *list, const struct vr_device *d)
{
    for (size_t i = 0; *d->pci && i < list->n; i++)
        if (strcmp(list->items[i].pci, d->pci) == 0) return true;
    return false;
}

void vr_vulkan_join(const struct vr_vulkan *list, struct vr_machine *m)
{
    VR_AUTO(vr_machine) old = vr_machine_new(NULL);
    if (!old || !list->n) return;
    *old = *m;
    m->n_devices = m->n_links = 0; /* Vulkan copies from card to card through the host */
    for (size_t i = 0; i < old->n_devices; i++)
        if (!is_listed(list, &old->devices[i])) *vr_machine_add(m) = old->devices[i];
    for (size_t i = 0; i < list->n; i++) {
        const struct vr_vulkan_device *v = &list->items[i];
        const struct vr_device *known = by_pci(old, v->pci);
        struct vr_device *d = vr_machine_add(m);
        if (!d) break;
        if (known) *d = *known;
        snprintf(d->backend, sizeof d->backend, "Vulkan");
        if (!*d->name) snprintf(d->name, sizeof d->name, "%s", v->about);
        snprintf(d->pci, sizeof d->pci, "%s", v->pci);
        if (!d->total_bytes) {
            d->total_bytes = v->total_bytes;
            d->free_bytes = v->free_bytes;
        }
        vr_gpu_fill(d);
    }
    vr_machine_number(m);
}
