/* Kernel launches: how many nodes of a graph the CUDA backend runs as one. Tied to the pinned engine, like rules.h. */
#ifndef VR_ENGINE_VGPU_FUSION_H
#define VR_ENGINE_VGPU_FUSION_H

#include <stdbool.h>

#include <ggml-impl.h>

/* Views and the like: nothing runs. */
bool vr_node_is_free(const struct ggml_tensor *t);
/* How many nodes from node i on are one kernel: 1 when it runs alone. `g` is one split. */
int vr_fused_nodes(const struct ggml_cgraph *g, int i, int cc);
/* How many kernels such a group takes, told by its first node: a product of quantized weights first rounds its input,
 * attention that is cut into parts ends with a sum. */
int vr_node_kernels(const struct ggml_tensor *t, int cc);

#endif
