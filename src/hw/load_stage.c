#include "hw/load_stage.h"

#include <stddef.h>
#include <string.h>

static const char *const names[VR_N_LOAD_STAGES] = {
    [VR_AT_LOAD] = "load", [VR_AT_CONTEXT] = "context", [VR_AT_DECODE] = "decode"
};

const char *vr_load_stage_name(enum vr_load_stage s) { return names[s]; }

bool vr_load_stage_parse(const char *name, enum vr_load_stage *out)
{
    for (size_t i = 0; name && i < VR_N_LOAD_STAGES; i++)
        if (strcmp(name, names[i]) == 0) return *out = (enum vr_load_stage)i, true;
    return false;
}
