/* Cards that the engine reaches through Vulkan: AMD's and Intel's, and NVIDIA's where it has no CUDA. */
#ifndef VR_ENGINE_LLAMA_VULKAN_H
#define VR_ENGINE_LLAMA_VULKAN_H

#include "base/err.h"
#include "hw/machine.h"

struct vr_vulkan_device {
    char about[96], pci[32]; /* pci: "" where the driver does not tell */
    uint64_t total_bytes, free_bytes;
};
struct vr_vulkan {
    struct vr_vulkan_device items[VR_MAX_DEVICES]; /* Vulkan0, Vulkan1, ... as the engine names them */
    size_t n;
};

/* Asks the engine in a child process: drivers of other makers are loaded there. None is a success. */
bool vr_vulkan_list(struct vr_vulkan *out, struct vr_err *err) VR_MUST_CHECK;
/* A machine's devices as the engine will call them: those of the list become Vulkan devices, in its order, with what
 * the machine knew of them by their PCI address; those that were unknown are added. The rest stays what it is. */
void vr_vulkan_join(const struct vr_vulkan *list, struct vr_machine *m);

#endif
