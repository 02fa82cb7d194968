/* The files that the options name: the model, and those that belong to it. */
#ifndef VR_CLI_MODEL_FILES_H
#define VR_CLI_MODEL_FILES_H

#include "cli/options.h"
#include "fit/fit.h"
#include "engine/wire/limits.h"
#include "gguf/model.h"

struct vr_models {
    struct vr_model *main;
    struct vr_model *companions[VR_N_COMPANIONS]; /* --draft, --mmproj; NULL: not given */
    struct vr_lora loras[VR_MOST_LORAS];          /* --lora; paths are in the arena */
    size_t n_loras;
    uint64_t lora_bytes;
    struct vr_arena arena;
};

/* Opens and checks them, also against each other. `out` needs vr_models_done(), also after a failure. */
bool vr_models_open(const struct vr_options *o, struct vr_models *out, struct vr_err *err) VR_MUST_CHECK;
void vr_models_done(struct vr_models *m);
#define VR_AUTO_MODELS VR_CLEANUP(vr_models_done) struct vr_models

#endif
