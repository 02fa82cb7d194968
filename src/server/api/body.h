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
#include "engine/wire/wire.h"
#include "server/http/multipart.h"

/* NULL and p when it is not a JSON object within the caps. The caller owns the tree. */
json_t *vr_body_parse(const char *data, size_t n, struct vr_refusal *p) VR_MUST_CHECK;

/* What the front itself needs to know of a body. */
struct vr_reply_form {
    char model[257]; /* "": none was named */
    bool stream, usage, logprobs, base64, slot;
    size_t n_choices;
    bool keep; /* keep_ms says how long the model stays without use; negative: for good */
    int64_t keep_ms;
    bool unload; /* it is to leave, and nothing else is wanted */
};

struct vr_dialect;
struct vr_responses;

/* Who asks, and how. */
struct vr_asker {
    const struct vr_dialect *dialect;
    struct vr_whose whose;
    unsigned key;                        /* 0: none */
    struct vr_responses *responses;      /* NULL: none are stored */
    char boundary[VR_MOST_BOUNDARY + 1]; /* of a form (http/multipart.h); "": it is none */
    bool may_keep;                       /* may say how long the model stays */
};

/* Checks every field and removes those that are not for the engine: what is left is the payload of REQUEST. */
bool vr_body_check(json_t *body, enum vr_request_kind kind, struct vr_reply_form *out,
                   struct vr_refusal *p) VR_MUST_CHECK;

/* What became of a body. */
struct vr_body {
    bool ok;
    struct vr_refusal why; /* not ok */
    struct vr_reply_form form;
    char *json; /* ok: the payload of REQUEST, n bytes */
    size_t n;
    json_t *memo;    /* the dialect's (dialect.h); NULL: none */
    size_t n_memo;   /* bytes that it takes, about */
    size_t n_stored; /* bytes of stored responses that were read for it */
    char *ignored;   /* what has no effect; NULL: nothing */
};
void vr_body_done(struct vr_body *b);

/* All of it: parsed, translated, checked, stripped, and written again for the engine, with whose it is. Any thread may
 * call it. */
void vr_body_read(const char *data, size_t n, const struct vr_asker *asker, struct vr_body *out);

#endif
