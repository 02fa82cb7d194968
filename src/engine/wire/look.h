/* What a request wants to know about itself instead of an answer: look.def. */
#ifndef VR_ENGINE_WIRE_LOOK_H
#define VR_ENGINE_WIRE_LOOK_H

enum vr_look {
    VR_LOOK_NOT,
#define LOOK(name, word) VR_LOOK_##name,
#include "engine/wire/look.def"
#undef LOOK
    VR_N_LOOKS
};

const char *vr_look_name(enum vr_look look);
enum vr_look vr_look_parse(const char *word); /* NULL and what is unknown: VR_LOOK_NOT */

#endif
