#include "server/dialect/joining.h"

#include <string.h>

#include "server/dialect/fields.h"

void vr_join_done(struct vr_join *j, struct vr_translation *t)
{
    if (j->text.failed) t->nomem = true;
    if (j->into && !j->text.failed) vr_put(t, j->into, j->key, json_stringn(vr_buf_str(&j->text), j->text.n));
    json_decref(j->into);
    vr_buf_done(&j->text);
    *j = (struct vr_join){ 0 };
}

void vr_join_add(struct vr_join *j, struct vr_translation *t, json_t *into, const char *key, const char *text, size_t n)
{
    if (!into) { /* there was no memory for it */
        t->nomem = true;
        return;
    }
    if (j->into != into || strcmp(j->key, key) != 0) {
        const json_t *has = vr_get(into, key);
        vr_join_done(j, t);
        j->into = json_incref(into);
        j->key = key;
        vr_buf_add(&j->text, has ? json_string_value(has) : "", json_string_length(has));
        if (!has) vr_put(t, into, key, json_string(""));
    }
    if (j->text.n) vr_buf_adds(&j->text, "\n\n");
    vr_buf_add(&j->text, text, n);
}

void vr_remind(struct vr_reminders *r, struct vr_translation *t, json_t *messages, const char *text)
{
    json_t *last = json_array_get(messages, json_array_size(messages) - 1), *content = vr_get(last, "content");
    VR_AUTO_BUF said = { 0 };
    vr_buf_addf(&said, "<system-reminder>\n%s\n</system-reminder>", text);
    if (said.failed) {
        t->nomem = true;
        return;
    }
    if (!vr_is(vr_get_text(last, "role"), "user")) {
        vr_append(t, messages,
                  json_pack("{s:s,s:o}", "role", "user", "content", json_stringn(vr_buf_str(&said), said.n)));
        return;
    }
    if (json_is_string(content)) {
        vr_join_add(&r->join, t, last, "content", vr_buf_str(&said), said.n);
        return;
    }
    if (content != r->parts) { /* they may be the client's: a copy */
        json_decref(r->parts);
        r->parts = json_copy(content);
        vr_put(t, last, "content", json_incref(r->parts));
    }
    vr_append(t, r->parts, json_pack("{s:s,s:s}", "type", "text", "text", vr_buf_str(&said)));
}

void vr_reminders_done(struct vr_reminders *r, struct vr_translation *t)
{
    vr_join_done(&r->join, t);
    json_decref(r->parts);
    r->parts = NULL;
}
