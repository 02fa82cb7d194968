/* The host: its memory, its processor, its NUMA nodes. */
#ifndef VR_HW_HOST_H
#define VR_HW_HOST_H

#include "hw/machine.h"

/* Fills `out` from `sysfs` (normally /sys) and `proc` (normally /proc). Memory is what this process may use: a cgroup's
 * limit counts when it is lower than the machine. Fails only when the machine's memory cannot be read. */
bool vr_host_read(const char *sysfs, const char *proc, struct vr_host *out, struct vr_err *err) VR_MUST_CHECK;

#endif
