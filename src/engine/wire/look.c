#include "engine/wire/look.h"

#include <string.h>

static const char *const names[VR_N_LOOKS] = {
    "",
#define LOOK(name, word) word,
#include "engine/wire/look.def"
#undef LOOK
};

const char *vr_look_name(enum vr_look look) { return names[look]; }

enum vr_look vr_look_parse(const char *word)
{
    for (int i = VR_LOOK_NOT + 1; word && i < VR_N_LOOKS; i++)
        if (strcmp(word, names[i]) == 0) return (enum vr_look)i;
    return VR_LOOK_NOT;
}
