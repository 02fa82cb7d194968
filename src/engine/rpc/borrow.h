/* Devices that other machines lend (node/door.h), as devices of this process: llama.cpp's RPC backend over tunnels.
 * What goes wrong on the way ends the process, which is what the RPC backend does; the tunnel says why. */
#ifndef VR_ENGINE_RPC_BORROW_H
#define VR_ENGINE_RPC_BORROW_H

#include <jansson.h>

#include "base/err.h"
#include "engine/params/load_params.h"
#include "tunnel/hello.h"

/* What two machines must have in common to understand each other. */
void vr_rpc_versions(struct vr_versions *out);

/* Tunnels to these nodes, at most VR_MAX_NODES, once in a process. Forks: before there are threads, and before rights
 * are given away. One that is silent for silent_s seconds is gone. */
bool vr_borrow_nodes(const struct vr_load_node *nodes, size_t n, uint32_t silent_s, struct vr_err *err) VR_MUST_CHECK;
/* The same for those that a LOAD message names. In `why` is what went wrong, or "". A message that cannot be read names
 * none. */
void vr_borrow_open(const json_t *load, char *why, size_t n);
/* Registers the devices behind them, under our names: "attic/CUDA0". */
bool vr_borrow_register(struct vr_err *err) VR_MUST_CHECK;

/* Our name of the device that a buffer is on, as the engine's log calls it: "RPC0[attic:7]". NULL: none of ours. */
const char *vr_borrow_device(const char *buffer);
/* What was sent to all nodes so far: weights, for the most part. */
uint64_t vr_borrow_sent_bytes(void);
/* Why a tunnel ended, if one did; "" otherwise. */
void vr_borrow_why(char *out, size_t n);

#endif
