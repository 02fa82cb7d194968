/* The fields of another API's requests, as ours: a table for each API (responses.def, messages.def, ...).
 *   SAME(name)          ours, under the same name        AS(name, "ours")   under another
 *   OWN(name)           the translator reads it          PASS(name)         a hint or a label that changes no answer
 *   NOTE(name)          left out, and the reply says so  ONLY(name, "json") accepted with that value alone
 *   NEVER(name, why)    refused by its name
 * What is in no row is refused, with the row that was probably meant. null is the same as absent. */
#ifndef VR_SERVER_DIALECT_FIELDS_H
#define VR_SERVER_DIALECT_FIELDS_H

#include "server/api/dialect.h"

enum vr_field_use { VR_SAME, VR_AS, VR_OWN, VR_PASS, VR_NOTE, VR_ONLY, VR_NEVER };

struct vr_field_row {
    const char *name;
    enum vr_field_use use;
    const char *text;
};

#define SAME(name)       { #name, VR_SAME, #name },
#define AS(name, ours)   { #name, VR_AS, ours },
#define OWN(name)        { #name, VR_OWN, NULL },
#define PASS(name)       { #name, VR_PASS, NULL },
#define NOTE(name)       { #name, VR_NOTE, NULL },
#define ONLY(name, json) { #name, VR_ONLY, json },
#define NEVER(name, why) { #name, VR_NEVER, why },

/* Goes through an object; what has a place in `out` gets it. `path` is where it stands, "" for the body. */
bool vr_fields_read(const json_t *from, const struct vr_field_row *rows, size_t n, const char *path, json_t *out,
                    struct vr_translation *t) VR_MUST_CHECK;

/* The value; NULL when it is absent, or null. */
json_t *vr_get(const json_t *object, const char *key);
/* The same of a string; NULL: it is none. */
const char *vr_get_text(const json_t *object, const char *key);
bool vr_is(const char *a, const char *b); /* the same word; NULL is none */
/* Takes over what was made; where memory is out, t->nomem says so in the end. */
void vr_put(struct vr_translation *t, json_t *object, const char *key, json_t *made);
void vr_append(struct vr_translation *t, json_t *array, json_t *made);
/* What the assistant has begun to say in a last message goes on. */
void vr_continue_last(struct vr_translation *t, const json_t *messages, json_t *out);

#endif
