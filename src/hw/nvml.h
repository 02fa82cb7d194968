/* NVIDIA cards, through the driver's management library, which is loaded at run time.
 *
 * The library is optional, and so is every question: a machine without a driver has no NVIDIA devices, and a card that
 * answers only half of the questions is listed with what it told and a note. */
#ifndef VR_HW_NVML_H
#define VR_HW_NVML_H

#include "hw/machine.h"

/* Appends the NVIDIA devices and the links between them to m, and fills m->driver. `library` NULL: the one named by the
 * environment variable VRAM_LLM_NVML, or libnvidia-ml.so.1; "" asks nobody. What is wrong becomes a note in m. */
void vr_nvml_read(const char *library, struct vr_machine *m);

#endif
