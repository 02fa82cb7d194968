/* Weights that clients have sent, kept on disk by llama.cpp's RPC server under their hash, so that loading a model
 * again sends them no more. It never removes any; that is done here, before devices are lent. */
#ifndef VR_NODE_TENSOR_CACHE_H
#define VR_NODE_TENSOR_CACHE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

bool vr_tensor_cache_path(char *out, size_t n, struct vr_err *err) VR_MUST_CHECK;
/* Makes the folder, for whom the engine runs as, and removes what was not used for longest until most_bytes are left.
 */
bool vr_tensor_cache_open(const char *dir, uint64_t most_bytes, struct vr_err *err) VR_MUST_CHECK;

#endif
