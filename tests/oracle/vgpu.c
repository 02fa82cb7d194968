/* The oracle's door to our own virtual GPUs. */
#include "oracle.h"

#include <stdio.h>

#include "engine/vgpu/vgpu.h"

bool oracle_vgpu_register(const struct oracle_device *devices, size_t n)
{
    struct vr_vgpu_spec specs[ORACLE_DEVICES];
    struct vr_err err;
    for (size_t i = 0; i < n && i < ORACLE_DEVICES; i++) {
        const struct oracle_device *d = &devices[i];
        specs[i] = (struct vr_vgpu_spec){ .total_bytes = d->total_mib << 20,
                                          .free_bytes = d->free_mib << 20,
                                          .cc = d->cc_major * 100 + d->cc_minor * 10 };
        snprintf(specs[i].name, sizeof(specs[i].name), "CUDA%zu", i);
        snprintf(specs[i].about, sizeof(specs[i].about), "%s", d->name);
    }
    if (vr_vgpu_register(specs, n, VR_VGPU_SIZING, &err)) return true;
    fprintf(stderr, "%s\n", err.msg);
    return false;
}
