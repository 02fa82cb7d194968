/* Memory counts as free when the driver says so, not when the process that had it is reaped: a child process
 * (cli/load/memory_process.c) asks it, for a model whose plan needs what others had. */
#ifndef VR_SERVER_SUPERVISE_FREE_MEMORY_H
#define VR_SERVER_SUPERVISE_FREE_MEMORY_H

#include <stdbool.h>

struct vr_worker;

/* It has a plan, and who had to leave for it is gone. True: it is being looked whether their memory is free, which ends
 * with vr_worker_has_room() or vr_worker_not_freed(). False: there is nothing to wait for. */
bool vr_free_memory_await(struct vr_worker *e);

#endif
