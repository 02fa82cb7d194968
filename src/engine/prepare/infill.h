/* Infilling (fill in the middle): what stands before and behind the place where text is wanted, as one prompt.
 *
 *     [REPO]myproject\n ([FILE]name\n text)* [FILE]filename\n [PREFIX]prefix prompt[SUFFIX]suffix[MIDDLE]
 *
 * as llama.cpp's server writes it; tokens that a vocabulary does not have are left out, and texts of other files then
 * stand behind a line of their own. The texts are content: special tokens that they spell are text.
 *
 * Editors send more than fits and leave it to the server to cut: what is next to the place stays. The suffix has a
 * quarter of the room, or what the prefix leaves; other files have what both leave. */
#ifndef VR_ENGINE_PREPARE_INFILL_H
#define VR_ENGINE_PREPARE_INFILL_H

#include <jansson.h>
#include <llama.h>

#include "base/err.h"

struct vr_infill {
    const json_t *prefix, *suffix; /* strings */
    const json_t *prompt;          /* a string; behind the prefix, and never cut */
    const json_t *extra;           /* [{"filename","text"}]; NULL: none */
    uint32_t room;                 /* tokens */
};

/* The vocabulary has what it takes. */
bool vr_infill_can(const struct llama_vocab *vocab);
/* Its tokens in *out (the caller frees it): how many, which is more than there is room for where the prompt alone is;
 * or -1. */
int vr_infill_prompt(const struct llama_vocab *vocab, const struct vr_infill *ask, llama_token **out,
                     struct vr_err *err);

#endif
