#include "engine/speculate/kinds.h"

const struct vr_spec_row *vr_spec_row(enum vr_spec kind)
{
    static const struct vr_spec_row rows[] = {
#define SPEC(id, name, tokens, acceptance, what) { name, tokens, acceptance, what },
#include "engine/speculate/kinds.def"
#undef SPEC
    };
    return &rows[kind];
}
