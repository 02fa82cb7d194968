/* The samplers that a request may name: samplers.def. */
#ifndef VR_ENGINE_WIRE_SAMPLERS_H
#define VR_ENGINE_WIRE_SAMPLERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

enum vr_sampler_step {
#define SAMPLER(name, ...) VR_SAMPLER_##name,
#include "engine/wire/samplers.def"
#undef SAMPLER
    VR_N_SAMPLERS
};

#define VR_MOST_STEPS 16

/* How many of them `v` names, in `out`; -1: it names something else, or more than VR_MOST_STEPS. */
int vr_samplers_read(const json_t *v, uint32_t out[VR_MOST_STEPS]);

#endif
