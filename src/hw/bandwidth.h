/* How fast the host's memory is read, where its firmware does not tell (virtual machines, containers, a user who may
 * not read SMBIOS): measured once, by all cores reading more than the processor's caches hold, for a fifth of a second,
 * and kept in $XDG_CACHE_HOME/vram-llm for a host with this processor and memory. */
#ifndef VR_HW_BANDWIDTH_H
#define VR_HW_BANDWIDTH_H

#include "hw/machine.h"

/* A number of GB/s counts instead of all that could be found; "off": nothing is measured. */
#define VR_BANDWIDTH_VAR "VRAM_LLM_HOST_GBS"

/* NULL (for all of it or a field) means the real thing, for tests. */
struct vr_bandwidth {
    const char *sysfs;                                     /* /sys */
    const char *proc;                                      /* /proc */
    double (*measure)(unsigned n_threads, uint64_t bytes); /* vr_bandwidth_measure */
};

/* Fills in h->bandwidth_gbs and where it came from, unless it is known already. It stays unknown where memory is short,
 * where nothing can be kept (it would be measured at each start), or while others keep the processor busy; that is no
 * error, a variable that makes no sense is. */
bool vr_bandwidth_find(const struct vr_bandwidth *how, struct vr_host *h, struct vr_err *err) VR_MUST_CHECK;

/* Bytes of the last-level caches of all processors; 0: nobody tells. */
uint64_t vr_bandwidth_cache_bytes(const char *sysfs);
/* 10^9 bytes per second that so many threads read together from so much memory, the best of a few passes; 0: there was
 * none in which all of them ran all the time, or no memory. */
double vr_bandwidth_measure(unsigned n_threads, uint64_t bytes);

#endif
