/* llama.cpp's own samplers, for requests that ask for one that sample.h has not: DRY, XTC, typical, top-n-sigma,
 * dynamic temperature, mirostat, or an order of their own. Then all of them are llama.cpp's, in its order or the
 * request's. */
#ifndef VR_ENGINE_PROCESS_CHAIN_H
#define VR_ENGINE_PROCESS_CHAIN_H

#include <llama.h>

#include "engine/process/sample.h"

/* Once per request, in any thread: DRY goes through the whole vocabulary for each of its breakers. *dry is its sampler,
 * which choices copy, or NULL. What the request's text holds is not needed afterwards. False: no memory. */
bool vr_chain_prepare(struct vr_sampling *how, const struct llama_vocab *vocab, uint32_t n_ctx,
                      struct llama_sampler **dry) VR_MUST_CHECK;

/* One choice's chain. Accepts NULL. */
struct vr_chain;
struct vr_chain *vr_chain_new(const struct vr_sampling *how, const struct llama_sampler *dry,
                              const struct llama_vocab *vocab, uint64_t seed) VR_MUST_CHECK;
void vr_chain_free(struct vr_chain *c);

/* As vr_sample(). */
int32_t vr_chain_sample(struct vr_chain *c, const struct vr_sampling *how, const float *logits,
                        const struct vr_history *said, const struct vr_gate *gate) VR_MUST_CHECK;

/* How likely the token was that was chosen last, among those that the steps had left, and the n most likely of these
 * (best first) with their probabilities in .logit; id < 0: no more were left. */
float vr_chain_probs(const struct vr_chain *c, int32_t token, struct vr_candidate *top, size_t n);

#endif
