/* From the model's logits to a token.
 *
 * The order is llama.cpp's: bias and penalties, then the k most likely, then the top-p part of them, then min-p, then
 * the temperature, then a draw. Temperature 0 takes the most likely token. Vocabularies are large and most requests
 * need little of this, so nothing is sorted but what is left to choose from. Pure: no engine, no clock, no global
 * state. */
#ifndef VR_ENGINE_PROCESS_SAMPLE_H
#define VR_ENGINE_PROCESS_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/own.h"
#include "engine/prepare/sampling.h"

struct vr_candidate {
    int32_t id;
    float logit;
};

/* A grammar. `allows` asks about one token, `filter` sets the logits of all that are not allowed to -INFINITY. False:
 * the grammar failed. */
struct vr_gate {
    bool (*allows)(void *ctx, int32_t token, bool *yes);
    bool (*filter)(void *ctx, struct vr_candidate *c, size_t n);
    void *ctx;
};

/* What was said so far, for the penalties: the prompt's tokens, then the answer's. */
struct vr_history {
    const int32_t *tokens;
    size_t n_prompt, n;
};

/* Working memory for one vocabulary; one per thread. */
struct vr_sampler;
struct vr_sampler *vr_sampler_new(size_t n_vocab) VR_MUST_CHECK;
void vr_sampler_free(struct vr_sampler *s);

/* A generator of numbers in [0, 1); the same seed gives the same numbers. */
double vr_random(uint64_t *state);

/* The next token, or -1: the gate lets nothing through. gate may be NULL. `logits` is left as it is. */
int32_t vr_sample(struct vr_sampler *s, const struct vr_sampling *how, uint64_t *rng, const float *logits,
                  const struct vr_history *said, const struct vr_gate *gate) VR_MUST_CHECK;

/* The log-probability of `token`, and the n most likely ones (best first) with theirs in .logit. */
float vr_logprobs(struct vr_sampler *s, const float *logits, int32_t token, struct vr_candidate *top, size_t n);

#endif
