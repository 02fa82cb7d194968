/* This computer, as a struct vr_machine. */
#ifndef VR_HW_DETECT_H
#define VR_HW_DETECT_H

#include "hw/machine.h"

/* Where to look; NULL (for all of it or a field) means the real thing. Tests give a stub library and fake trees. */
struct vr_detect {
    const char *nvml;  /* a library; "" for none; NULL: $VRAM_LLM_NVML or libnvidia-ml.so.1 */
    const char *sysfs; /* /sys */
    const char *proc;  /* /proc */
    const char *run;   /* /run, unless sysfs is given: then it is not asked */
    const char *shown; /* how many CUDA devices the engine is to show; NULL: $GGML_CUDA_DEVICES */
};

/* Where GGML_CUDA_DEVICES makes the engine show one card as several, they are several here: with the same UUID, each
 * with its share of what is free.
 *
 * A machine without a GPU or without a driver is a success with fewer devices; what was odd is in out->note and in the
 * devices' notes. Ids are backend and index among that backend's devices, in NVML's or PCI order; whoever starts the
 * engine passes CUDA_VISIBLE_DEVICES by UUID in this order, since CUDA's own order differs. */
bool vr_machine_detect(const struct vr_detect *opts, struct vr_machine *out, struct vr_err *err) VR_MUST_CHECK;
/* Only its host: for machines whose devices were typed. */
bool vr_host_detect(const struct vr_detect *opts, struct vr_host *out, struct vr_err *err) VR_MUST_CHECK;

#endif
