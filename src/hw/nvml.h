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

/* --- the same library kept open, for asking again and again how busy the cards are --- */

struct vr_card_use {
    char uuid[64]; /* "" when the card does not tell */
    uint64_t total_bytes, free_bytes;
    int load_percent, temperature_c, power_w; /* -1 unknown */
};

struct vr_nvml;
struct vr_nvml *vr_nvml_open(const char *library); /* NULL: no driver, or no memory */
void vr_nvml_close(struct vr_nvml *n);
/* Cards in the driver's order; one that does not answer is left out. Returns how many. A lost card may take long. */
size_t vr_nvml_use(const struct vr_nvml *n, struct vr_card_use *out, size_t max);

#endif
