/* What a request may be: one table of fields (request_fields.def) for both sides of the wire.
 *
 * The front calls vr_request_check() and refuses all that can be refused without the model: names, types, ranges,
 * fields that exclude each other. The engine gets only what passed, reads it by the same table (vr_request_get), and
 * refuses only what the model decides: tokens that it has, room for a prompt, what its template can do, grammars that
 * the engine cannot read. Pure. */
#ifndef VR_ENGINE_WIRE_REQUEST_CHECK_H
#define VR_ENGINE_WIRE_REQUEST_CHECK_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "base/own.h"

enum vr_request_kind { VR_CHAT, VR_COMPLETION, VR_EMBEDDING, VR_N_REQUEST_KINDS };
/* "kind" in a REQUEST: "chat", "completion", "embedding". */
const char *vr_request_kind_name(enum vr_request_kind kind);
bool vr_request_kind_parse(const char *name, enum vr_request_kind *out) VR_MUST_CHECK; /* NULL is none */

enum vr_request_field {
#define NAMED(id, ...) VR_FIELD_##id,
#define FIELD(id, ...) VR_FIELD_##id,
#include "engine/wire/request_fields.def"
#undef NAMED
#undef FIELD
};

/* The field's value; NULL when it is absent, or null, which is the same. */
json_t *vr_request_get(const json_t *body, enum vr_request_field field);
const char *vr_request_field_name(enum vr_request_field field);

/* Why a request is refused, as the client is told. */
struct vr_refusal {
    int status;
    const char *code; /* NULL: none */
    char param[96];   /* "messages[3].content"; "" for none */
    char message[1100];
};

/* Fills the refusal with status 400 and returns false. What is cut, or was no text, is made valid UTF-8. */
bool vr_refuse(struct vr_refusal *why, const char *param, const char *code, const char *fmt, ...) VR_PRINTF(4, 5);
bool vr_refuse_nomem(struct vr_refusal *why); /* status 503 */

/* Checks every field, and what they mean together. Messages are left with what the engine reads: keys that change
 * nothing are removed, and what an assistant once refused to say becomes the text that it is. */
bool vr_request_check(json_t *body, enum vr_request_kind kind, struct vr_refusal *why) VR_MUST_CHECK;
/* Of a request that was checked: the texts, or embeddings, that it asks for. */
size_t vr_request_choices(const json_t *body, enum vr_request_kind kind);
/* Leaves the fields that the engine gets, and adds "kind": the payload of REQUEST. */
bool vr_request_strip(json_t *body, enum vr_request_kind kind, struct vr_refusal *why) VR_MUST_CHECK;

/* --- checks with a file of their own (request_check_chat.c); `path` is where the value stands --- */

bool vr_check_messages(json_t *v, const char *path, struct vr_refusal *why);
bool vr_check_tools(json_t *v, const char *path, struct vr_refusal *why);
bool vr_check_tool_choice(json_t *v, const char *path, struct vr_refusal *why);
bool vr_check_response_format(json_t *v, const char *path, struct vr_refusal *why);
/* Fields of a conversation that exclude or need each other. */
bool vr_check_chat_together(const json_t *body, struct vr_refusal *why);

#endif
