/* Cards that the kernel describes in sysfs: amdgpu, and Intel's where their driver tells how much memory they have. */
#ifndef VR_HW_SYSFS_H
#define VR_HW_SYSFS_H

#include "hw/machine.h"

/* Appends AMD ("ROCm") and Intel ("SYCL") devices below `root` (normally /sys) to m, by PCI address, with a note in m
 * for each card that is left out. */
void vr_sysfs_read(const char *root, struct vr_machine *m);

/* How many NVIDIA display or compute controllers sit on the bus, driver or not; `slot` gets the first one's address. */
unsigned vr_sysfs_count_nvidia(const char *root, char *slot, size_t n);

/* The NUMA node of a PCI device, -1 when it has none or is unknown. */
int vr_sysfs_numa(const char *root, const char *pci);

/* The start of a small text file, without trailing blanks; the path is printed. False: it is not there. */
bool vr_sysfs_text(char *out, size_t n, const char *fmt, ...) VR_PRINTF(3, 4);
/* A whole number (decimal or 0x...) in such a file. */
bool vr_sysfs_u64(uint64_t *out, const char *fmt, ...) VR_PRINTF(2, 3);

#endif
