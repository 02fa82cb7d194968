/* Kinds of speculative decoding: who guesses the tokens that the model then checks. */
#ifndef VR_ENGINE_SPECULATE_KINDS_H
#define VR_ENGINE_SPECULATE_KINDS_H

#include <stdint.h>

enum vr_spec {
#define SPEC(id, name, tokens, acceptance, what) VR_SPEC_##id,
#include "engine/speculate/kinds.def"
#undef SPEC
    VR_N_SPECS
};

struct vr_spec_row {
    const char *name;
    uint32_t tokens;
    double acceptance;
    const char *what;
};
const struct vr_spec_row *vr_spec_row(enum vr_spec kind);

#endif
