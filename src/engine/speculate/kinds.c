#include "engine/speculate/kinds.h"

#include <string.h>

const struct vr_spec_row *vr_spec_row(enum vr_spec kind)
{
    static const struct vr_spec_row rows[] = {
#define SPEC(id, name, file, tensor, tokens, acceptance, what) { name, file, tensor, tokens, acceptance, what },
#include "engine/speculate/kinds.def"
#undef SPEC
    };
    return &rows[kind];
}

bool vr_spec_is_head_file(enum vr_spec kind)
{
    const char *file = vr_spec_row(kind)->file;
    return file && *file;
}

bool vr_spec_shares_cache(enum vr_spec kind) { return kind == VR_SPEC_ASSISTANT; }

bool vr_spec_guesses_blocks(enum vr_spec kind) { return kind == VR_SPEC_DFLASH || kind == VR_SPEC_DSPARK; }

uint32_t vr_spec_passes(enum vr_spec kind, uint32_t guesses)
{
    return vr_spec_guesses_blocks(kind) && guesses ? 1 : guesses;
}

enum vr_spec vr_spec_of_file(const struct vr_model *m)
{
    for (enum vr_spec k = 0; k < VR_N_SPECS; k++) {
        const struct vr_spec_row *r = vr_spec_row(k);
        if (vr_spec_is_head_file(k) && strcmp(r->file, m->arch) == 0 && (!r->tensor || vr_model_tensor(m, r->tensor)))
            return k;
    }
    return VR_SPEC_DRAFT;
}
