#include "engine/wire/samplers.h"

#include <string.h>

static const struct {
    const char *name, *other;
    char letter;
} samplers[VR_N_SAMPLERS] = {
#define SAMPLER(id, name, other, letter) { name, other, letter },
#include "engine/wire/samplers.def"
#undef SAMPLER
};

static int find(const char *word, char letter)
{
    for (int i = 0; i < VR_N_SAMPLERS; i++)
        if (word ? strcmp(word, samplers[i].name) == 0 || strcmp(word, samplers[i].other) == 0
                 : letter == samplers[i].letter)
            return i;
    return -1;
}

int vr_samplers_read(const json_t *v, uint32_t out[VR_MOST_STEPS])
{
    const char *letters = json_string_value(v);
    size_t n = letters ? strlen(letters) : json_array_size(v);
    if ((!letters && !json_is_array(v)) || n > VR_MOST_STEPS) return -1;
    for (size_t i = 0; i < n; i++) {
        const char *word = letters ? NULL : json_string_value(json_array_get(v, i));
        int step = letters || word ? find(word, letters ? letters[i] : 0) : -1;
        if (step < 0) return -1;
        out[i] = (uint32_t)step;
    }
    return (int)n;
}
