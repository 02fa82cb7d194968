#include "server/dialect/fields.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

json_t *vr_get(const json_t *object, const char *key)
{
    json_t *v = json_object_get(object, key);
    return json_is_null(v) ? NULL : v;
}

const char *vr_get_text(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

bool vr_is(const char *a, const char *b) { return a && b && strcmp(a, b) == 0; }

void vr_put(struct vr_translation *t, json_t *object, const char *key, json_t *made)
{
    if (json_object_set_new(object, key, made) != 0) t->nomem = true;
}

void vr_append(struct vr_translation *t, json_t *array, json_t *made)
{
    if (json_array_append_new(array, made) != 0) t->nomem = true;
}

struct rows {
    const struct vr_field_row *all;
};

static const char *row_name(size_t i, const void *ctx)
{
    const struct vr_field_row *r = &((const struct rows *)ctx)->all[i];
    return r->use <= VR_OWN ? r->name : "";
}

static bool unknown(const struct vr_field_row *rows, size_t n, const char *name, const char *at,
                    struct vr_translation *t)
{
    char word[64];
    snprintf(word, sizeof word, "%.60s", name);
    int i = vr_nearest(word, n, row_name, &(struct rows){ rows });
    if (i >= 0)
        return vr_refuse(t->why, at, "unknown_parameter", "unknown field '%s'; did you mean '%s'?", at, rows[i].name);
    return vr_refuse(t->why, at, "unknown_parameter", "unknown field '%s'", at);
}

static bool is_only(const json_t *v, const char *text)
{
    json_t *only = json_loads(text, JSON_DECODE_ANY, NULL);
    bool same = only && json_equal(v, only);
    json_decref(only);
    return same;
}

static bool read_field(const struct vr_field_row *r, json_t *v, const char *at, json_t *out, struct vr_translation *t)
{
    switch (r->use) {
    case VR_SAME:
    case VR_AS: vr_put(t, out, r->text, json_incref(v)); return true;
    case VR_OWN:
    case VR_PASS: return true;
    case VR_NOTE: vr_note(t, "%s", at); return true;
    case VR_ONLY:
        return is_only(v, r->text) ||
               vr_refuse(t->why, at, "unsupported_parameter",
                         "'%s' is not supported here: the only supported value is %s", at, r->text);
    case VR_NEVER: break;
    }
    return vr_refuse(t->why, at, "unsupported_parameter", "'%s' is not supported here: %s", at, r->text);
}

bool vr_fields_read(const json_t *from, const struct vr_field_row *rows, size_t n, const char *path, json_t *out,
                    struct vr_translation *t)
{
    const char *name;
    json_t *v;
    if (from && !json_is_object(from)) return vr_refuse(t->why, path, "invalid_type", "'%s' must be an object", path);
    json_object_foreach((json_t *)(uintptr_t)from, name, v)
    {
        char at[96];
        const struct vr_field_row *r = NULL;
        snprintf(at, sizeof at, "%s%s%.60s", path, *path ? "." : "", name);
        for (size_t i = 0; i < n && !r; i++)
            if (strcmp(rows[i].name, name) == 0) r = &rows[i];
        if (json_is_null(v) && r) continue;
        if (!r) return unknown(rows, n, name, at, t);
        if (!read_field(r, v, at, out, t)) return false;
    }
    return true;
}

void vr_continue_last(struct vr_translation *t, const json_t *messages, json_t *out)
{
    const json_t *last = json_array_get(messages, json_array_size(messages) - 1);
    if (vr_is(vr_get_text(last, "role"), "assistant") && !vr_get(last, "tool_calls"))
        vr_put(t, out, "continue_final_message", json_true());
}
