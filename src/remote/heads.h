/* Headers of GGUF files that are elsewhere: their first bytes, in a file of the same length and otherwise empty, which
 * reads as the whole model does and takes little room (tests/fixtures are such files, too). */
#ifndef VR_REMOTE_HEADS_H
#define VR_REMOTE_HEADS_H

#include "remote/net.h"

struct vr_remote_head {
    const char *path;        /* where it shall lie; its folder is made */
    struct vr_source source; /* url, name and, where they are known, length and pinned; the caller's to end */
};

/* Whether the header at `path` is there already: of a file of that length. */
bool vr_remote_head_is_there(const char *path, uint64_t length);
/* Fetches them side by side; each appears at its path when it is complete. */
bool vr_heads_fetch(struct vr_net *net, struct vr_remote_head *heads, size_t n, struct vr_err *err) VR_MUST_CHECK;
/* An empty file of that length in its place, for the sake of its name: what is there stays if it is as long. */
bool vr_remote_head_hold(const char *path, uint64_t length, struct vr_err *err) VR_MUST_CHECK;

#endif
