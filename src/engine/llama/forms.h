/* What is left of a request when it has been prepared: how its answer is taken apart, and its pictures (how it is
 * constrained: engine/grammar/grammar_spec.h). Plain data, so that it can be made in one process and used in another
 * (engine/prepare). Whoever fills a form says where its pointers lead. */
#ifndef VR_ENGINE_LLAMA_FORMS_H
#define VR_ENGINE_LLAMA_FORMS_H

#include "engine/grammar/grammar_spec.h"

struct vr_chat_form {
    uint32_t format, reasoning_format; /* llama.cpp's enums */
    bool parse_tool_calls;
    struct vr_span generation_prompt, parser; /* llama.cpp's, as text */
    struct vr_ids kept;                       /* special tokens that are part of the answer */
    bool plain;                               /* the answer is text and nothing else: it needs no parser */
    bool tools, one_call, schema, thinks;
    bool continues; /* the parser tells what the prompt holds of the answer already; that is not said again */
};

#define VR_RGB_ID 64 /* hexadecimal digits */

struct vr_rgb { /* a picture, decoded; or a sound */
    uint32_t width, height;
    bool sound;             /* samples instead of pixels: f32, one channel, at the projector's rate */
    struct vr_span pixels;  /* width * height * 3 */
    char id[VR_RGB_ID + 1]; /* the same for the same file */
};

#endif
