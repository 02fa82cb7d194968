/* How a request wants its tokens chosen (engine/process/sample.h does it). */
#ifndef VR_ENGINE_PREPARE_SAMPLING_H
#define VR_ENGINE_PREPARE_SAMPLING_H

#include <stddef.h>
#include <stdint.h>

#include "engine/grammar/grammar_spec.h"
#include "engine/wire/samplers.h"

struct vr_bias {
    int32_t token;
    float bias; /* added to the logit; -INFINITY: never */
};

/* Samplers that llama.cpp has and we have not: with any of them it is its chain that chooses (process/chain.h). */
struct vr_chain_spec {
    bool on;
    bool tells; /* what the others were, and how likely, of those that it chose from */
    float typical_p, top_n_sigma, xtc_probability, xtc_threshold, dry_multiplier, dry_base;
    float dynatemp_range, dynatemp_exponent, mirostat_tau, mirostat_eta;
    int32_t dry_allowed_length, dry_last_n; /* < 0: all of the context */
    int32_t mirostat, min_keep;
    uint32_t steps[VR_MOST_STEPS]; /* enum vr_sampler_step */
    uint32_t n_steps;
    struct vr_span *breakers; /* of DRY; as the reader of a request says where they lie */
    size_t n_breakers;
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
    struct vr_chain_spec chain;
};

#endif
