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

struct vr_bias {
    int32_t token;
    float bias; /* added to the logit; -INFINITY: never */
};

struct vr_sampling {            /* what a request asks for */
    float temperature;          /* <= 0: the most likely token */
    int32_t top_k;              /* <= 0: all */
    float top_p;                /* >= 1: all */
    float min_p;                /* <= 0: all */
    float presence, frequency;  /* taken off the logits of tokens that were said: once, and once per time */
    float repeat;               /* divides the logits of tokens that are in the last repeat_last_n; 1: not */
    int32_t repeat_last_n;      /* of the prompt and the answer; < 0: of all */
    const struct vr_bias *bias; /* the request's; the caller owns it */
    size_t n_bias;
};

struct vr_candidate { /* laid out as llama_token_data */
    int32_t id;
    float logit, p;
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
