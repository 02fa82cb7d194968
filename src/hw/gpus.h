/* The table of known cards and how a name finds its row.
 *
 * Names are compared as words: case, punctuation, vendor words ("NVIDIA GeForce", "(TM)") and the split between letters
 * and digits do not matter, so "3090ti" is "NVIDIA GeForce RTX 3090 Ti". A size ("80GB") chooses among rows that differ
 * in memory only. */
#ifndef VR_HW_GPUS_H
#define VR_HW_GPUS_H

#include "hw/machine.h"

struct vr_gpu {
    const char *name, *backend;
    uint32_t mib;
    double gbs, tflops;
    uint16_t cc_major, cc_minor, pcie_gen, pcie_lanes;
};

size_t vr_gpu_count(void);
const struct vr_gpu *vr_gpu_at(size_t i);

/* How well `typed` names `name`: all words equal, the same but for the memory size, its first words, words inside. */
enum vr_gpu_match { VR_GPU_DIFFERENT, VR_GPU_INSIDE, VR_GPU_PREFIX, VR_GPU_BASE, VR_GPU_SAME };
enum vr_gpu_match vr_gpu_match(const char *typed, const char *name);

/* The row of a name that a driver reported; total_mib (0: unknown) chooses among memory sizes. NULL: unknown card. */
const struct vr_gpu *vr_gpu_known(const char *name, uint64_t total_mib);

/* The row that a person means, by the best match of the four above; a part of a name never stands for another model of
 * the card ("RX 7700" is no "RX 7700 XT"). Among equally good rows:
 *   - a size, given as mib or in the name ("A100 80GB"), takes the row that comes closest to it;
 *   - then the row with the least memory ("A100": 40 GB), which a caller who can ask does not take: vr_gpu_sizes();
 *   - then the first in the table, which is the slower one ("H100": PCIe).
 * NULL: nothing by that name. */
const struct vr_gpu *vr_gpu_meant(const char *typed, uint64_t mib);
/* The size in MiB that a typed name carries ("3060 8GB": 8192), 0 for none. */
uint64_t vr_gpu_typed_mib(const char *typed);

/* The sizes in GB, rising, of the rows that a typed name without a size may mean equally well: two and more are a
 * question to whoever typed it. 0: it carries its size, or means nothing. */
#define VR_GPU_SIZES 4
size_t vr_gpu_sizes(const char *typed, unsigned gib[VR_GPU_SIZES]);
unsigned vr_gpu_gib(const struct vr_gpu *g); /* as the box says it: 81,559 MiB are 80 */
/* A name for --gpus that means this row and no other: its short one, with the size where that is not enough. */
const char *vr_gpu_label(const struct vr_gpu *g, char *out, size_t n);

/* The known card that reads most like a name that is not in the table, without its vendor ("RTX 3090"); NULL: none. */
const char *vr_gpu_nearest(const char *typed);
/* A name without its vendor: "NVIDIA GeForce RTX 3090" -> "RTX 3090". Points into `name`. */
const char *vr_gpu_short(const char *name);

/* Dense matrix products per second, 10^12: as the table lists it; fp16 at the units' full rate; int8. */
struct vr_rates {
    double listed_tflops, fp16_tflops, int8_tops;
};
/* GeForce cards are listed at half of their tensor cores' fp16 rate (fp32 accumulate), which int8 does not suffer from.
 * Pascal has no fp16 units worth the name, but dp4a: four times fp32. `otherwise`: where nobody knows the device's
 * rate. */
struct vr_rates vr_device_rates(const struct vr_device *d, double otherwise);

/* Fills what the device does not know yet (bandwidth, TFLOPS, compute capability) from the table. False: unknown. */
bool vr_gpu_fill(struct vr_device *d);

#endif
