#include "server/api/body.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "engine/wire/limits.h"
#include "server/api/dialect.h"

#define MAX_DEPTH  VR_MOST_JSON_DEPTH
#define MAX_VALUES 1000000 /* each costs the parser some 40 bytes */

/* What the parser must not see: too deep (it recurses), too many values (memory), bytes that are no text. */
static bool scan(const char *data, size_t n, struct vr_refusal *p)
{
    size_t depth = 0, values = 0;
    bool in_string = false;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)data[i];
        if (c >= 0x80) {
            size_t len = vr_utf8_len((const unsigned char *)data + i, n - i);
            if (len == 0) return vr_refuse(p, NULL, "invalid_utf8", "the body is not UTF-8 at byte %zu", i);
            i += len - 1;
        } else if (in_string) {
            if (c == '\\') i++;
            if (c == '"') in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            values++;
            if (++depth > MAX_DEPTH)
                return vr_refuse(p, NULL, "too_deep", "the body is nested deeper than %d", MAX_DEPTH);
        } else if (c == '}' || c == ']') {
            if (depth) depth--;
        } else if (c == ',') {
            values++;
        }
        if (values > MAX_VALUES)
            return vr_refuse(p, NULL, "too_many_values", "the body has more than %d values", MAX_VALUES);
    }
    return true;
}

json_t *vr_body_parse(const char *data, size_t n, struct vr_refusal *p)
{
    json_error_t why;
    if (n == 0) return vr_refuse(p, NULL, "empty_body", "the body is empty; it must be a JSON object"), NULL;
    if (!scan(data, n, p)) return NULL;
    json_t *tree = json_loadb(data, n, JSON_REJECT_DUPLICATES, &why);
    if (!tree && json_error_code(&why) == json_error_null_character)
        return vr_refuse(p, NULL, "invalid_json",
                         "the text at line %d, column %d has the character U+0000; leave it out", why.line, why.column),
               NULL;
    if (!tree)
        return vr_refuse(p, NULL, "invalid_json", "the body is not valid JSON at line %d, column %d: %s", why.line,
                         why.column, why.text),
               NULL;
    if (json_is_object(tree)) return tree;
    json_decref(tree);
    return vr_refuse(p, NULL, "invalid_json", "the body must be a JSON object"), NULL;
}

static void read_form(const json_t *body, enum vr_request_kind kind, struct vr_reply_form *out)
{
#define GET(field) vr_request_get(body, VR_FIELD_##field)
    const char *model = json_string_value(GET(model)), *encoding = json_string_value(GET(encoding_format));
    *out = (struct vr_reply_form){
        .stream = json_is_true(GET(stream)),
        .usage = json_is_true(json_object_get(GET(stream_options), "include_usage")),
        .logprobs = kind == VR_CHAT ? json_is_true(GET(logprobs)) : GET(top_logprobs_of_completion) != NULL,
        .base64 = encoding && strcmp(encoding, "base64") == 0,
        .slot = json_is_integer(GET(id_slot)) && json_integer_value(GET(id_slot)) >= 0,
        .n_choices = vr_request_choices(body, kind),
    };
    snprintf(out->model, sizeof out->model, "%s", model ? model : "");
#undef GET
}

bool vr_body_check(json_t *body, enum vr_request_kind kind, struct vr_reply_form *out, struct vr_refusal *p)
{
    if (!vr_request_check(body, kind, p)) return false;
    read_form(body, kind, out);
    return vr_request_strip(body, kind, p);
}

void vr_note(struct vr_translation *t, const char *fmt, ...)
{
    char name[96];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(name, sizeof name, fmt, ap);
    va_end(ap);
    vr_notes_add(&t->notes, name);
}

void vr_body_done(struct vr_body *b)
{
    free(b->json);
    json_decref(b->memo);
    free(b->ignored);
    b->json = b->ignored = NULL;
    b->memo = NULL;
}

/* The engine's copy. Whose it is comes last (wire.h). */
static bool write_request(json_t *tree, const struct vr_translation *t, struct vr_body *out)
{
    if ((!t->look || json_object_set_new(tree, "look", json_string(t->look)) == 0) &&
        (!t->special || json_object_set_new(tree, "special", json_true()) == 0) &&
        (!t->unparsed || json_object_set_new(tree, "parse", json_false()) == 0) &&
        (!t->ids || json_object_set_new(tree, "ids", json_true()) == 0) &&
        (!t->asr || json_object_set_new(tree, "asr", json_string(t->asr)) == 0) &&
        (!t->text_bias || json_object_set(tree, "text_bias", t->text_bias) == 0) &&
        json_object_set_new(tree, "client", json_integer((json_int_t)t->whose.client)) == 0 &&
        json_object_set_new(tree, "tenant", json_integer((json_int_t)t->whose.tenant)) == 0)
        out->json = json_dumps(tree, JSON_COMPACT);
    out->ignored = *t->notes.text ? strdup(t->notes.text) : NULL;
    if (!out->json || (*t->notes.text && !out->ignored)) return vr_refuse_nomem(&out->why);
    out->n = strlen(out->json);
    out->form.logprobs |= t->ids;
    out->form.keep = t->keep;
    out->form.keep_ms = t->keep_ms;
    out->form.unload = t->unload;
    return true;
}

void vr_body_read(const char *data, size_t n, const struct vr_asker *asker, struct vr_body *out)
{
    *out = (struct vr_body){ 0 };
    struct vr_translation t = { .kind = asker->dialect->kind,
                                .whose = asker->whose,
                                .key = asker->key,
                                .responses = asker->responses,
                                .may_keep = asker->may_keep,
                                .why = &out->why };
    const struct vr_dialect *d = asker->dialect;
    out->why.notes = &t.notes;
    json_t *tree = d->parse ? d->parse(data, n, asker->boundary, &out->why) : vr_body_parse(data, n, &out->why);
    if (tree && d->translate) {
        json_t *request = d->translate(tree, &t);
        if (t.nomem || (!request && !out->why.status)) {
            vr_refuse_nomem(&out->why);
            json_decref(request);
            request = NULL;
        }
        json_decref(tree);
        tree = request;
    }
    out->memo = t.memo;
    out->n_memo = t.n_memo;
    out->n_stored = t.n_stored;
    out->ok = tree && vr_body_check(tree, t.kind, &out->form, &out->why) && write_request(tree, &t, out);
    json_decref(tree);
    json_decref(t.text_bias);
    out->why.notes = NULL;
    if (!out->ok) vr_body_done(out);
}
