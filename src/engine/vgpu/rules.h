/* What the CUDA backend does with a tensor before it runs anything: which operations it takes, how many bytes they
 * need, what it asks of the allocator. Our own writing of facts about the pinned engine (tools/engine.lock): with the
 * next version, make oracle says where they changed. */
#ifndef VR_ENGINE_VGPU_RULES_H
#define VR_ENGINE_VGPU_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ggml-backend-impl.h>
#include <ggml-impl.h>

#define VR_CUDA_ALIGN ((size_t)128) /* of every tensor in device memory */

/* `cc` is the compute capability times 100 (8.6 -> 860); 0 is unknown and treated as the oldest. */
bool vr_rule_supports(const struct ggml_tensor *op, int cc);
/* Batches of at least so many tokens are computed here with weights that are in host memory. */
bool vr_rule_offloads(const struct ggml_tensor *op, int least);
/* Bytes of the tensor in device memory, scratch behind it included. */
size_t vr_rule_alloc_bytes(const struct ggml_tensor *t, int cc);
/* Bytes that the kernels of this node take from the device's pool while they run: activations as they read them, and
 * results before they are made f32. The pool is outside every buffer, and keeps what it once had. */
size_t vr_rule_pool_bytes(const struct ggml_tensor *t, int cc);
/* Bytes that the backend takes on each of n devices to add up over them: its own kernel for two cards has a copy there.
 * A build with NCCL takes NCCL's instead. */
uint64_t vr_rule_reduce_bytes(const int *cc, size_t n);
/* Tells the allocator which tensors the fused kernels of this split read late. */
void vr_rule_optimize(const struct ggml_cgraph *g, const struct ggml_backend_graph_optimize_params *params);

/* Fused groups of a mixture of experts: how many nodes from node i on are one kernel, 0 for none. */
int vr_rule_expert_sum(const struct ggml_cgraph *g, int i, const struct ggml_tensor **experts,
                       const struct ggml_tensor **scale, const struct ggml_tensor **weights);
int vr_rule_expert_choice(const struct ggml_cgraph *g, int i);
int vr_rule_expert_choice_late(const struct ggml_cgraph *g, int i); /* softmax over the chosen ones only */

/* The flash attention kernel for this node on that device. */
enum vr_attn_kernel { VR_ATTN_NONE, VR_ATTN_VEC, VR_ATTN_TILE, VR_ATTN_MMA };
enum vr_attn_kernel vr_rule_attn_kernel(const struct ggml_tensor *op, int cc);
/* How many of the heads that look at one head of the cache that kernel takes at once. */
int vr_rule_attn_together(const struct ggml_tensor *op, int cc);

#endif
