#include "hw/learned.h"

#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"

#define MAX_FILE 65536

struct vr_learned_row *vr_learned_find(struct vr_learned *l, const char *key)
{
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->rows[i].key, key) == 0) return &l->rows[i];
    return NULL;
}

struct vr_learned_row *vr_learned_at(struct vr_learned *l, const char *key)
{
    struct vr_learned_row *r = vr_learned_find(l, key);
    if (r || l->n == VR_MAX_LEARNED || !*key || strlen(key) >= sizeof r->key) return r;
    r = &l->rows[l->n++];
    *r = (struct vr_learned_row){ 0 };
    strcpy(r->key, key);
    return r;
}

/* --- split mode tensor --- */

const struct vr_learned_split *vr_learned_split(const struct vr_learned *l, const struct vr_split *s)
{
    for (size_t i = 0; i < l->n_splits; i++)
        if (strcmp(l->splits[i].split.id, s->id) == 0) return &l->splits[i];
    return NULL;
}

void vr_learned_split_died(struct vr_learned *l, const struct vr_split *s, const char *why, int64_t now)
{
    size_t at = 0;
    for (size_t i = 0; i < l->n_splits; i++)
        if (l->splits[i].when < l->splits[at].when) at = i;
    if (l->n_splits < VR_MAX_LEARNED) at = l->n_splits;
    for (size_t i = 0; i < l->n_splits; i++)
        if (strcmp(l->splits[i].split.id, s->id) == 0) at = i;
    if (at == l->n_splits) l->n_splits++;
    l->splits[at] = (struct vr_learned_split){ .split = *s, .when = now };
    vr_text_fit(l->splits[at].why, sizeof l->splits[at].why, why);
}

/* --- as text --- */

static json_t *json_row(const struct vr_learned_row *r, bool run)
{
    json_t *row =
        json_pack("{s:I, s:I, s:s, s:I}", "hidden_bytes", (json_int_t)r->hidden_bytes, "free_bytes",
                  (json_int_t)r->free_bytes, "stage", vr_load_stage_name(r->stage), "when", (json_int_t)r->when);
    if (!run || json_object_update_new(row, json_pack("{s:I, s:I}", "most_bytes", (json_int_t)r->most_bytes, "fails",
                                                      (json_int_t)r->fails)) == 0)
        return row;
    json_decref(row);
    return NULL;
}

static json_t *json_splits(const struct vr_learned *l)
{
    json_t *list = json_array();
    for (size_t i = 0; i < l->n_splits; i++) {
        const struct vr_learned_split *x = &l->splits[i];
        json_t *row = json_pack("{s:s, s:s, s:s, s:s, s:I}", "id", x->split.id, "model", x->split.model, "engine",
                                x->split.engine, "why", x->why, "when", (json_int_t)x->when);
        if (json_array_append_new(list, row) != 0) return json_decref(list), NULL; /* what is not UTF-8, too */
    }
    return list;
}

bool vr_learned_print(const struct vr_learned *l, bool run, struct vr_buf *out, struct vr_err *err)
{
    json_t *tree = json_object(), *devices = json_object();
    bool ok = json_object_set_new(tree, "devices", devices) == 0;
    for (size_t i = 0; ok && i < l->n; i++)
        if (run || l->rows[i].hidden_bytes)
            ok = json_object_set_new(devices, l->rows[i].key, json_row(&l->rows[i], run)) == 0;
    if (ok && l->n_splits) ok = json_object_set_new(tree, "splits", json_splits(l)) == 0;
    if (ok && run) ok = json_object_set_new(tree, "fails", json_integer(l->n_fails)) == 0;
    if (ok && run) ok = json_object_set_new(tree, "split_off", json_boolean(l->split_off)) == 0;
    VR_AUTO_FREE char *text = ok ? json_dumps(tree, JSON_INDENT(2) | JSON_SORT_KEYS) : NULL;
    json_decref(tree);
    if (text) vr_buf_adds(out, text);
    return (text && !out->failed) || vr_fail_nomem(err, "writing what was learned");
}

/* A number that may be absent. */
static bool read_number(const json_t *row, const char *name, uint64_t *out)
{
    const json_t *v = json_object_get(row, name);
    *out = (uint64_t)json_integer_value(v);
    return !v || (json_is_integer(v) && json_integer_value(v) >= 0);
}

static bool read_splits(const json_t *list, struct vr_learned *out)
{
    if (!list) return true;
    if (!json_is_array(list) || json_array_size(list) > VR_MAX_LEARNED) return false;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *row = json_array_get(list, i);
        struct vr_learned_split *x = &out->splits[out->n_splits++];
        uint64_t when;
        if (!vr_json_read_text(json_object_get(row, "id"), x->split.id, sizeof x->split.id) ||
            !vr_json_read_text(json_object_get(row, "model"), x->split.model, sizeof x->split.model) ||
            !vr_json_read_text(json_object_get(row, "engine"), x->split.engine, sizeof x->split.engine) ||
            !vr_json_read_text(json_object_get(row, "why"), x->why, sizeof x->why) || !read_number(row, "when", &when))
            return false;
        x->when = (int64_t)when;
    }
    return true;
}

bool vr_learned_parse(const char *text, size_t n, struct vr_learned *out)
{
    *out = (struct vr_learned){ 0 };
    json_t *tree = json_loadb(text, n, 0, NULL);
    json_t *devices = json_object_get(tree, "devices"), *row;
    const char *key;
    uint64_t when, fails;
    bool ok = json_is_object(devices) && read_number(tree, "fails", &fails);
    if (ok) out->n_fails = (unsigned)fails;
    ok = ok && read_splits(json_object_get(tree, "splits"), out);
    out->split_off = json_is_true(json_object_get(tree, "split_off"));
    json_object_foreach(devices, key, row)
    {
        struct vr_learned_row *r = ok ? vr_learned_at(out, key) : NULL;
        ok = r && json_is_object(row) && read_number(row, "hidden_bytes", &r->hidden_bytes) &&
             read_number(row, "free_bytes", &r->free_bytes) && read_number(row, "when", &when) &&
             vr_load_stage_parse(json_string_value(json_object_get(row, "stage")), &r->stage) &&
             read_number(row, "most_bytes", &r->most_bytes) && read_number(row, "fails", &fails);
        if (!ok) break;
        r->when = (int64_t)when;
        r->fails = (unsigned)fails;
    }
    json_decref(tree);
    if (!ok) *out = (struct vr_learned){ 0 };
    return ok;
}

/* --- the file --- */

bool vr_learned_path(char *out, size_t n)
{
    return vr_file_own_path("XDG_STATE_HOME", ".local/state", "learned.json", out, n);
}

/* A time in the future is a clock's that was wrong. */
static bool is_recent(int64_t when, int64_t now)
{
    const int64_t most = VR_LEARNED_DAYS * (int64_t)86400;
    return when > now - most && when < now + most;
}

bool vr_learned_load(const char *path, int64_t now, struct vr_learned *out, struct vr_err *err)
{
    *out = (struct vr_learned){ 0 };
    if (access(path, F_OK) != 0) return true;
    VR_AUTO_BUF text = { 0 };
    if (!vr_file_read(path, MAX_FILE, &text, err)) return false;
    if (!vr_learned_parse(vr_buf_str(&text), text.n, out))
        return vr_fail(err, VR_EFORMAT, "%s is corrupt; delete it", path);
    size_t n = 0;
    for (size_t i = 0; i < out->n; i++)
        if (is_recent(out->rows[i].when, now)) out->rows[n++] = out->rows[i];
    out->n = n;
    n = 0;
    for (size_t i = 0; i < out->n_splits; i++)
        if (is_recent(out->splits[i].when, now)) out->splits[n++] = out->splits[i];
    out->n_splits = n;
    return true;
}

bool vr_learned_save(const char *path, const struct vr_learned *l, struct vr_err *err)
{
    VR_AUTO_BUF text = { 0 };
    return vr_file_make_parents(path, err) && vr_learned_print(l, false, &text, err) &&
           vr_file_write(path, text.data, text.n, err);
}
