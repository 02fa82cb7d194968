/* POST /v1/responses: OpenAI's newer API. Its items become messages (responses_items.c), its fields ours (responses.c);
 * the answer is written as items and their events (responses_render.c), and kept for the next turn
 * (response_store.h). */
#ifndef VR_SERVER_DIALECT_RESPONSES_H
#define VR_SERVER_DIALECT_RESPONSES_H

#include "server/api/dialect.h"

extern const struct vr_dialect vr_responses_create, vr_responses_count;

json_t *vr_responses_translate(json_t *body, struct vr_translation *t);
json_t *vr_responses_translate_count(json_t *body, struct vr_translation *t); /* tokens alone are wanted */

/* All items that count: those of previous_response_id, then those of `input`, with references resolved; a new array.
 * NULL: t->why. */
json_t *vr_items_gather(const json_t *body, struct vr_translation *t) VR_MUST_CHECK;
/* As messages. Consecutive items of the assistant become one message, instructions and what else comes first from the
 * system or the developer another one, because most templates know only that. NULL: t->why. */
json_t *vr_items_messages(const json_t *items, const json_t *instructions, struct vr_translation *t) VR_MUST_CHECK;

/* What is kept of a request in its memo. */
#define VR_MEMO_ID      "id"      /* of the response: 24 hexadecimal digits */
#define VR_MEMO_ECHO    "echo"    /* text: fields of the response that are the request's, without the braces */
#define VR_MEMO_ITEMS   "items"   /* text: all input items; absent: the response is not stored */
#define VR_MEMO_CUSTOM  "custom"  /* names of tools that take text */
#define VR_MEMO_SUMMARY "summary" /* thoughts are told as their own summary */
#define VR_MEMO_KEY     "key"
#define VR_MEMO_CLIENT  "client"

#endif
