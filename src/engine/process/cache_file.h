/* The file of cached prompts (engine/cache/disk_cache.h): opening it before the process is confined, so that it needs
 * no right to any folder; and saying what the prompts depend on. */
#ifndef VR_ENGINE_PROCESS_CACHE_FILE_H
#define VR_ENGINE_PROCESS_CACHE_FILE_H

#include "engine/process/loader.h"

/* Opens or makes it, for this process alone; 0: it cannot be, and `why` says so in a sentence. */
int vr_cache_file_open(const char *path, char *why, size_t n);

/* Fills in e->cache_owner: the model's files, the engine, and what decides how it computes and remembers. */
void vr_cache_owner(const struct vr_load_params *p, struct vr_engine *e);

#endif
