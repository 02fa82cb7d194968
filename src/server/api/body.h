/* A request's body: from bytes to a tree that holds nothing but what the engine may see.
 *
 * Caps come first (bytes, depth, values, UTF-8), then the parser, then request_fields.def: a row per field with its
 * type, its range and what is done with it. A field that OpenAI would act on and we cannot is refused by its name; a
 * field that nobody knows is refused too, with the one that was meant. Pure: no sockets, no engine. */
#ifndef VR_SERVER_API_BODY_H
#define VR_SERVER_API_BODY_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "base/own.h"
#include "server/api/calls.h"

struct vr_body_error {
    int status;
    const char *code;
    char param[96]; /* "messages[3].content"; "" for none */
    char message[400];
};

/* Fills the problem and returns false. */
bool vr_body_error_set(struct vr_body_error *p, const char *param, const char *code, const char *fmt, ...)
    VR_PRINTF(4, 5);

/* NULL and p when it is not a JSON object within the caps. The caller owns the tree. */
json_t *vr_body_parse(const char *data, size_t n, struct vr_body_error *p) VR_MUST_CHECK;

/* What the front itself needs to know of a body. */
struct vr_reply_form {
    const char *model; /* in the tree, before vr_body_check removes it; NULL: none was named */
    bool stream, usage, logprobs, base64, echo;
    size_t n_choices;
    size_t dimensions; /* 0: the model's */
};

/* Checks every field, removes those that are not for the engine, and adds "kind". out->model must be copied by the
 * caller before the tree is freed: it is kept in the tree under "model". */
bool vr_body_check(json_t *body, enum vr_call_kind kind, struct vr_reply_form *out,
                   struct vr_body_error *p) VR_MUST_CHECK;

/* --- checks with a file of their own; `path` is where the value stands --- */

bool vr_check_messages(json_t *v, const char *path, struct vr_body_error *p);
bool vr_check_tools(json_t *v, const char *path, struct vr_body_error *p);
bool vr_check_tool_choice(json_t *v, const char *path, struct vr_body_error *p);
bool vr_check_response_format(json_t *v, const char *path, struct vr_body_error *p);

#endif
