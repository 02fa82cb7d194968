/* A reserve of descriptors, for what must always be possible: starting an engine, planning again, opening the log.
 *
 * Connections take all descriptors they can get. So a few are held open and unused; whoever must not fail lets go of
 * them first, opens what it needs, and takes back what is left. The loop is one thread, and accepts nothing between. */
#ifndef VR_SERVER_SUPERVISE_RESERVE_H
#define VR_SERVER_SUPERVISE_RESERVE_H

#include <stdbool.h>

#define VR_RESERVE_FDS 16 /* a socket pair, the pipes of a child process and of another, a file */

struct vr_reserve {
    int fds[VR_RESERVE_FDS];
    int n; /* of them that are held */
};

/* Takes what is missing. False: not all could be had; they are tried for again when connections end. */
bool vr_reserve_fill(struct vr_reserve *r);
void vr_reserve_release(struct vr_reserve *r);

#endif
