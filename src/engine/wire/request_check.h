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
#include <stdint.h>

#include <jansson.h>

#include "base/own.h"

enum vr_request_kind { VR_CHAT, VR_COMPLETION, VR_EMBEDDING, VR_RERANK, VR_N_REQUEST_KINDS };
/* "kind" in a REQUEST: "chat", "completion", "embedding", "rerank". */
const char *vr_request_kind_name(enum vr_request_kind kind);
/* The others want text; these want a vector or a score for each of their texts. */
static inline bool vr_request_is_pooled(enum vr_request_kind kind) { return kind == VR_EMBEDDING || kind == VR_RERANK; }
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

/* Names of what a request has that changes nothing, for a header: printable, with ", " between them. */
struct vr_notes {
    char text[512];
};
void vr_notes_add(struct vr_notes *notes, const char *name); /* NULL: nobody wants to know */
/* What an object has beside these keys, up to NULL; `path` is where it stands. */
void vr_notes_add_others(struct vr_notes *notes, const json_t *object, const char *const *known, const char *path);

/* Why a request is refused, as the client is told. */
struct vr_refusal {
    int status;
    const char *code; /* NULL: none */
    char param[96];   /* "messages[3].content"; "" for none */
    char message[1100];
    uint32_t n_prompt, n_ctx; /* tokens of a prompt that exceeds the context, and those that fit; 0: another reason */
    struct vr_notes *notes;   /* what is not refused and has no effect; NULL: nobody wants to know */
};

/* Fills the refusal with status 400 and returns false. What is cut, or was no text, is made valid UTF-8. */
bool vr_refuse(struct vr_refusal *why, const char *param, const char *code, const char *fmt, ...) VR_PRINTF(4, 5);
bool vr_refuse_nomem(struct vr_refusal *why); /* status 503 */

/* Checks every field, and what they mean together. Messages are left with what the engine reads: keys that change
 * nothing are removed, and what an assistant once refused to say becomes the text that it is. */
bool vr_request_check(json_t *body, enum vr_request_kind kind, struct vr_refusal *why) VR_MUST_CHECK;
/* Whether a prompt or an input is one text: a string, or an array with token ids in it, among which may be strings. An
 * array without ids is several. */
bool vr_is_one_text(const json_t *v);
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
