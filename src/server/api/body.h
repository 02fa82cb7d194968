/* A request's body: from bytes to a tree that holds nothing but what the engine may see.
 *
 * Caps come first (bytes, depth, values, UTF-8), then the parser, then the table of fields (engine/wire): a field that
 * OpenAI would act on and we cannot is refused by its name; a field that nobody knows is refused too, with the one that
 * was meant. Pure: no sockets, no engine. */
#ifndef VR_SERVER_API_BODY_H
#define VR_SERVER_API_BODY_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "engine/wire/request_check.h"

/* NULL and p when it is not a JSON object within the caps. The caller owns the tree. */
json_t *vr_body_parse(const char *data, size_t n, struct vr_refusal *p) VR_MUST_CHECK;

/* What the front itself needs to know of a body. */
struct vr_reply_form {
    char model[257]; /* "": none was named */
    bool stream, usage, logprobs, base64;
    size_t n_choices;
};

/* Checks every field and removes those that are not for the engine: what is left is the payload of REQUEST. */
bool vr_body_check(json_t *body, enum vr_request_kind kind, struct vr_reply_form *out,
                   struct vr_refusal *p) VR_MUST_CHECK;

#endif
