/* How far a model had come when memory ran out: what was in place then says what a device can hold. */
#ifndef VR_HW_LOAD_STAGE_H
#define VR_HW_LOAD_STAGE_H

#include <stdbool.h>

#include "base/own.h"

enum vr_load_stage {
    VR_AT_LOAD,    /* its weights */
    VR_AT_CONTEXT, /* its cache and compute buffers */
    VR_AT_DECODE,  /* the first computation, or a later one */
    VR_N_LOAD_STAGES
};
const char *vr_load_stage_name(enum vr_load_stage s);                              /* "load", "context", "decode" */
bool vr_load_stage_parse(const char *name, enum vr_load_stage *out) VR_MUST_CHECK; /* NULL is none */

#endif
