/* Kinds of speculative decoding: who guesses the tokens that the model then checks. */
#ifndef VR_ENGINE_SPECULATE_KINDS_H
#define VR_ENGINE_SPECULATE_KINDS_H

#include <stdbool.h>
#include <stdint.h>

#include "gguf/model.h"

enum vr_spec {
#define SPEC(id, name, file, tensor, tokens, acceptance, what) VR_SPEC_##id,
#include "engine/speculate/kinds.def"
#undef SPEC
    VR_N_SPECS
};

struct vr_spec_row {
    const char *name, *file, *tensor;
    uint32_t tokens;
    double acceptance;
    const char *what;
};
const struct vr_spec_row *vr_spec_row(enum vr_spec kind);
/* What a file that is given as the one that guesses, guesses as. */
enum vr_spec vr_spec_of_file(const struct vr_model *m);
/* Whether it is a head in a file of its own: half a model, that reads hidden states of the model. */
bool vr_spec_is_head_file(enum vr_spec kind);
/* Whether such a head has no KV cache of its own: it reads the model's, and nothing need be fed to it. */
bool vr_spec_shares_cache(enum vr_spec kind);
/* Whether it makes all guesses of a step in one pass; and how many passes so many guesses take. */
bool vr_spec_guesses_blocks(enum vr_spec kind);
uint32_t vr_spec_passes(enum vr_spec kind, uint32_t guesses);

#endif
