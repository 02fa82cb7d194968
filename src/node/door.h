/* The door of a node: it listens, and a process for each connection does the rest (visit.h). Nothing that a stranger
 * sends is read here. */
#ifndef VR_NODE_DOOR_H
#define VR_NODE_DOOR_H

#include "node/visit.h"

/* Listens; *port is the one that it got. -1 on failure. */
int vr_door_open(const char *host, uint16_t *port, struct vr_err *err) VR_MUST_CHECK;
/* Until SIGINT or SIGTERM. All visits end with it. */
bool vr_door_run(const struct vr_node *n, int fd, struct vr_err *err) VR_MUST_CHECK;

#endif
