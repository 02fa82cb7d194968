/* Writes records to a disk_file.h in a thread of its own, so that a slow disk keeps nobody from computing. One list at
 * a time, in order; whoever gave it keeps its data where it is until it is done. */
#ifndef VR_ENGINE_CACHE_DISK_WRITER_H
#define VR_ENGINE_CACHE_DISK_WRITER_H

#include "engine/cache/disk_file.h"

struct vr_disk_writer;

/* NULL: no thread, or no memory. */
struct vr_disk_writer *vr_disk_writer_new(int fd);
/* Waits for the list that is being written. NULL is fine. */
void vr_disk_writer_free(struct vr_disk_writer *w);

/* Begins to write; none may be under way. */
void vr_disk_writer_begin(struct vr_disk_writer *w, const struct vr_disk_write *list, uint32_t n);
/* Waits so long for its end. True: it is over, with *error 0 or what errno said; from a record that failed on all are
 * free room. */
bool vr_disk_writer_wait(struct vr_disk_writer *w, uint32_t ms, int *error);

#endif
