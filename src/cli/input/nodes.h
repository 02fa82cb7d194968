/* --nodes: machines that lend their devices, as devices of this one. */
#ifndef VR_CLI_NODES_H
#define VR_CLI_NODES_H

#include "cli/options.h"
#include "engine/params/load_params.h"
#include "hw/machine.h"

/* Asks each for its devices, measures the way there, and adds them to the machine. One that does not answer, refuses or
 * is lent to another is left out, with a line in the log and in m->note; one that was never paired is an error. */
bool vr_nodes_add(const struct vr_options *o, struct vr_machine *m, struct vr_err *err) VR_MUST_CHECK;

/* A node's address, as the ways to nodes are known by (hw/node_links.h). */
#define VR_NODE_WHERE (VR_HOST_NAME + 8)
void vr_node_where(const struct vr_pair *node, char *out, size_t n);

/* The nodes that a plan borrows from: of the devices that `used` says. At most VR_MAX_NODES. */
bool vr_nodes_used(const struct vr_machine *m, bool (*used)(const void *ctx, const char *id), const void *ctx,
                   struct vr_load_node *out, size_t *n, struct vr_err *err) VR_MUST_CHECK;

/* `node --join TOKEN --nodes HOST`: pairs this machine with a node. */
bool vr_nodes_join(const struct vr_options *o, struct vr_buf *out, struct vr_err *err) VR_MUST_CHECK;

#endif
