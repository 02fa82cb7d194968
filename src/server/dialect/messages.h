/* POST /v1/messages: Anthropic's API. Blocks of content become messages and their parts (messages_content.c), fields
 * ours (messages.c); the answer is written as content blocks and their events (messages_render.c). */
#ifndef VR_SERVER_DIALECT_MESSAGES_H
#define VR_SERVER_DIALECT_MESSAGES_H

#include "server/api/dialect.h"

extern const struct vr_dialect vr_messages_create, vr_messages_count;

json_t *vr_messages_translate(json_t *body, struct vr_translation *t);
json_t *vr_messages_translate_count(json_t *body, struct vr_translation *t); /* tokens alone are wanted */

/* The conversation as ours, a new array. NULL: t->why. */
json_t *vr_messages_read(const json_t *system, const json_t *messages, struct vr_translation *t) VR_MUST_CHECK;

#define VR_MEMO_STOPS "stops" /* the stop sequences, to tell which one it was */

#endif
