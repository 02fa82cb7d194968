/* Texts of a message that grow piece by piece. A client may send thousands of pieces, so each costs its own bytes and
 * not those of all before it: what was joined is written into its message once, at the end. */
#ifndef VR_SERVER_DIALECT_JOINING_H
#define VR_SERVER_DIALECT_JOINING_H

#include "base/buf.h"
#include "server/api/dialect.h"

/* The text that grows now; all zero: none. */
struct vr_join {
    json_t *into; /* the message, */
    const char *key;
    struct vr_buf text;
};
/* Behind what the message has under `key`, if any, with an empty line between. Until the end the message has that, or
 * an empty text. */
void vr_join_add(struct vr_join *j, struct vr_translation *t, json_t *into, const char *key, const char *text,
                 size_t n);
/* Writes what was joined. */
void vr_join_done(struct vr_join *j, struct vr_translation *t);

/* What the system says in the middle of a conversation; all zero in the beginning. */
struct vr_reminders {
    struct vr_join join;
    json_t *parts; /* a list that is ours to grow */
};
/* Most templates know no such message: it becomes the end of what the user said last, or a message of the user, between
 * tags that say what it is. */
void vr_remind(struct vr_reminders *r, struct vr_translation *t, json_t *messages, const char *text);
void vr_reminders_done(struct vr_reminders *r, struct vr_translation *t);

#endif
