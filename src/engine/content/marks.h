/* Content that cannot be mistaken: a conversation in which every special text is broken by a mark behind its first
 * character. Rendered by a template, what the template wrote itself is whole and what it was given is not; where the
 * marks are, the text is cut before it is tokenized.
 *
 * The mark is a Unicode noncharacter that occurs nowhere in the request. It goes through filters (trim, split, tojson)
 * as a letter does, and any piece of a string that still has the whole special text has the mark in it. */
#ifndef VR_ENGINE_CONTENT_MARKS_H
#define VR_ENGINE_CONTENT_MARKS_H

#include <jansson.h>

#include "base/buf.h"
#include "engine/content/specials.h"

struct vr_marks {
    const struct vr_specials *specials;
    char mark[4]; /* UTF-8, a C string */
    size_t n;     /* set so far */
    bool failed;  /* memory is out */
};

/* Whether anything in this JSON, as json_dumps() writes it, could need a mark; false for nearly every request. NULL is
 * none. */
bool vr_marks_needed(const struct vr_specials *s, const char *json);
/* A mark that occurs in none of these texts (some may be NULL). False: all are in use. */
bool vr_marks_init(struct vr_marks *m, const struct vr_specials *s, const char *const *texts, size_t n);

/* Copies with marks, of messages as the API has them and of any other value: its strings and the names of its fields.
 * What the assistant said keeps the tokens that are not control tokens: the model wrote them as such, and templates
 * look for them (</think>). NULL: memory is out. */
json_t *vr_marks_messages(struct vr_marks *m, const json_t *messages);
json_t *vr_marks_value(struct vr_marks *m, const json_t *v);

/* What a template made of marked values: marks that tojson has written as an escape are marks again. */
void vr_marks_rendered(const struct vr_marks *m, const char *text, size_t n, struct vr_buf *out);
/* The same without marks. */
void vr_marks_remove(const struct vr_marks *m, const char *text, size_t n, struct vr_buf *out);

#endif
