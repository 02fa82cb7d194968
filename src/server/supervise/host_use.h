/* What an engine process has taken of host memory. */
#ifndef VR_SERVER_SUPERVISE_HOST_USE_H
#define VR_SERVER_SUPERVISE_HOST_USE_H

#include <stdint.h>
#include <sys/types.h>

/* Memory that the host's free memory lacks while it runs: anonymous and shared pages, and files that are locked
 * (--mlock). Weights that are only mapped from a file are none of it, since the kernel gives their pages away when
 * others need them. 0: there is no such process. */
uint64_t vr_host_use_bytes(pid_t pid);

#endif
