/* What a tensor is for, told by its name. */
#ifndef VR_GGUF_ROLE_H
#define VR_GGUF_ROLE_H

#include "gguf/model.h"

/* The layer of "blk.12.attn_q.weight" is 12; -1 when the name is not of a layer. */
int32_t vr_role_layer(const char *tensor_name);
enum vr_role vr_role_of(const char *tensor_name);

#endif
