/* The hub's cache on the disk, laid out as its own programs and llama.cpp do, so that they find what we fetched:
 *
 *     ~/.cache/huggingface/hub/models--OWNER--NAME/blobs/CHECKSUM
 *                                                 /snapshots/COMMIT/FILE -> ../../blobs/CHECKSUM
 *                                                 /refs/main               the commit */
#ifndef VR_REMOTE_HUB_CACHE_H
#define VR_REMOTE_HUB_CACHE_H

#include "remote/hub.h"

/* Its folder of a repository. */
bool vr_hub_cache_folder(const struct vr_remote *r, char *out, size_t n, struct vr_err *err) VR_MUST_CHECK;
/* Where a file's content lies in it, or will; the arena's. NULL: memory is out. */
const char *vr_hub_cache_blob(const char *folder, const struct vr_repo_file *f, struct vr_arena *arena);
/* Makes the file's link in the snapshot of the commit. */
bool vr_hub_cache_link(const char *folder, const char *commit, const struct vr_repo_file *f,
                       struct vr_err *err) VR_MUST_CHECK;
/* From now on the commit is what "main" means. */
bool vr_hub_cache_set_main(const char *folder, const char *commit, struct vr_err *err) VR_MUST_CHECK;

#endif
