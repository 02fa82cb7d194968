/* A message of Anthropic's may hold results of tools beside text; with us each result is a message of its own, before
 * the text. Pictures in a result follow as a message of the user, since templates know none in results. */
#include "server/dialect/messages.h"

#include <stdio.h>
#include <string.h>

#include "server/dialect/fields.h"
#include "server/dialect/joining.h"

#define MAX_MESSAGES 8192

struct reading {
    struct vr_translation *t;
    json_t *out;
    struct vr_reminders reminders;
    char at[64];
    /* of the message that is read: */
    json_t *parts;    /* of text and pictures */
    json_t *pictures; /* of results */
    json_t *calls;
    struct vr_buf thoughts;
};

static bool refuse(struct reading *r, const char *code, const char *what)
{
    return vr_refuse(r->t->why, r->at, code, "'%s' %s", r->at, what);
}

/* A block's other keys: those that change nothing, and those that are read here. */
static bool known_keys(struct reading *r, const json_t *block)
{
    static const char *const known[] = { "type",      "text",  "source",      "cache_control", "citations", "id",
                                         "name",      "input", "tool_use_id", "content",       "is_error",  "thinking",
                                         "signature", "title", "context",     "caller",        "data" };
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)block, key, v)
    {
        bool found = json_is_null(v);
        for (size_t i = 0; i < VR_COUNT(known) && !found; i++) found = strcmp(key, known[i]) == 0;
        if (!found)
            return vr_refuse(r->t->why, r->at, "unknown_parameter", "unknown field '%.40s' in '%s'", key, r->at);
    }
    return true;
}

static json_t *text_part(json_t *text) { return json_pack("{s:s,s:O}", "type", "text", "text", text); }

static json_t *picture_part(struct reading *r, const json_t *block)
{
    const json_t *source = vr_get(block, "source");
    const char *type = vr_get_text(source, "type"), *media = vr_get_text(source, "media_type");
    const char *data = vr_get_text(source, "data"), *url = vr_get_text(source, "url");
    if (vr_is(type, "base64") && media && data)
        return json_pack("{s:s,s:{s:o}}", "type", "image_url", "image_url", "url",
                         json_sprintf("data:%s;base64,%s", media, data));
    if (vr_is(type, "url") && url) return json_pack("{s:s,s:{s:s}}", "type", "image_url", "image_url", "url", url);
    refuse(r, "unsupported_content", "has an image whose 'source' is neither base64 nor a url");
    return NULL;
}

/* A document that is plain text is text. */
static json_t *document_part(struct reading *r, const json_t *block)
{
    const json_t *source = vr_get(block, "source");
    json_t *data = vr_get(source, "data");
    if (vr_is(vr_get_text(source, "type"), "text") && json_is_string(data)) return text_part(data);
    refuse(r, "unsupported_content", "is a document: this server reads plain text and images only");
    return NULL;
}

/* Text, a picture or a document; NULL: refused. */
static json_t *part_of(struct reading *r, const json_t *block, const char *type)
{
    json_t *text = vr_get(block, "text");
    if (vr_is(type, "text")) {
        if (json_is_string(text)) return text_part(text);
        refuse(r, "invalid_type", "has no 'text'");
    } else if (vr_is(type, "image")) {
        return picture_part(r, block);
    } else if (vr_is(type, "document")) {
        return document_part(r, block);
    } else {
        vr_refuse(r->t->why, r->at, "unsupported_content",
                  "'%s' is of type '%.40s', which this server does not support", r->at, type ? type : "?");
    }
    return NULL;
}

/* --- what the assistant did --- */

static bool add_call(struct reading *r, const json_t *block)
{
    json_t *id = vr_get(block, "id"), *name = vr_get(block, "name"), *input = vr_get(block, "input");
    if (!json_is_string(id) || !json_is_string(name))
        return refuse(r, "invalid_type", "must have an 'id' and a 'name'");
    char *text = input ? json_dumps(input, JSON_COMPACT | JSON_ENCODE_ANY) : strdup("{}");
    vr_append(r->t, r->calls,
              json_pack("{s:O,s:s,s:{s:O,s:s}}", "id", id, "type", "function", "function", "name", name, "arguments",
                        text ? text : ""));
    if (!text) r->t->nomem = true;
    free(text);
    return true;
}

static bool add_thought(struct reading *r, const json_t *block)
{
    const json_t *text = vr_get(block, "thinking");
    if (!json_is_string(text)) return refuse(r, "invalid_type", "has no 'thinking'");
    vr_buf_add(&r->thoughts, json_string_value(text), json_string_length(text));
    return true;
}

/* --- results of tools --- */

static bool add_result_block(struct reading *r, const json_t *block, struct vr_buf *text)
{
    json_t *part = known_keys(r, block) ? part_of(r, block, vr_get_text(block, "type")) : NULL;
    const json_t *its = vr_get(part, "text");
    if (!part) return false;
    if (!its) return vr_append(r->t, r->pictures, part), true;
    if (text->n) vr_buf_adds(text, "\n");
    vr_buf_add(text, json_string_value(its), json_string_length(its));
    return json_decref(part), true;
}

static bool add_result(struct reading *r, const json_t *block)
{
    json_t *id = vr_get(block, "tool_use_id"), *content = vr_get(block, "content");
    VR_AUTO_BUF text = { 0 };
    if (!json_is_string(id)) return refuse(r, "invalid_type", "must have a 'tool_use_id'");
    if (content && !json_is_string(content) && !json_is_array(content))
        return refuse(r, "invalid_type", "must have a 'content' that is a string or an array of blocks");
    if (json_is_true(vr_get(block, "is_error"))) vr_buf_adds(&text, "Error:");
    if (json_is_string(content)) {
        if (text.n) vr_buf_adds(&text, " ");
        vr_buf_add(&text, json_string_value(content), json_string_length(content));
    }
    for (size_t i = 0; i < json_array_size(content); i++)
        if (!add_result_block(r, json_array_get(content, i), &text)) return false;
    if (text.failed) r->t->nomem = true;
    vr_append(r->t, r->out,
              json_pack("{s:s,s:O,s:o}", "role", "tool", "tool_call_id", id, "content",
                        json_stringn(vr_buf_str(&text), text.n)));
    return true;
}

/* --- messages --- */

static bool add_block(struct reading *r, const json_t *block, bool assistant)
{
    const char *type = vr_get_text(block, "type");
    if (!json_is_object(block)) return refuse(r, "invalid_type", "must be an object");
    if (!known_keys(r, block)) return false;
    if (assistant && vr_is(type, "tool_use")) return add_call(r, block);
    if (assistant && vr_is(type, "thinking")) return add_thought(r, block);
    if (assistant && vr_is(type, "redacted_thinking")) return vr_note(r->t, "%s (redacted_thinking)", r->at), true;
    if (!assistant && vr_is(type, "tool_result")) return add_result(r, block);
    json_t *part = part_of(r, block, type);
    if (part) vr_append(r->t, r->parts, part);
    return part != NULL;
}

/* What is left when the results are out; one part of text is a string. */
static void add_rest(struct reading *r, json_t *role, bool assistant)
{
    size_t n = json_array_size(r->parts);
    json_t *only = n == 1 ? vr_get(json_array_get(r->parts, 0), "text") : NULL;
    if (json_array_extend(r->parts, r->pictures) != 0) r->t->nomem = true;
    if (json_array_size(r->pictures)) only = NULL;
    if (json_array_size(r->parts) == 0 && json_array_size(r->calls) == 0 && r->thoughts.n == 0) return;
    json_t *content = only ? json_incref(only) : json_array_size(r->parts) == 0 ? json_null() : json_incref(r->parts);
    json_t *message = json_pack("{s:O,s:o}", "role", role, "content", content);
    if (assistant && json_array_size(r->calls)) vr_put(r->t, message, "tool_calls", json_incref(r->calls));
    if (r->thoughts.n) vr_put(r->t, message, "reasoning_content", json_stringn(r->thoughts.data, r->thoughts.n));
    vr_append(r->t, r->out, message);
}

/* What the system says, a string or blocks of text, in one text. r->at is where it stands. */
static bool join_blocks(struct reading *r, const json_t *content, struct vr_buf *text)
{
    char where[40];
    snprintf(where, sizeof where, "%.39s", r->at);
    if (!json_is_string(content) && !json_is_array(content))
        return refuse(r, "invalid_type", "must be a string or an array of text blocks");
    if (json_is_string(content)) vr_buf_add(text, json_string_value(content), json_string_length(content));
    for (size_t i = 0; i < json_array_size(content); i++) {
        const json_t *block = json_array_get(content, i), *its = vr_get(block, "text");
        snprintf(r->at, sizeof r->at, "%s[%zu]", where, i);
        if (!vr_is(vr_get_text(block, "type"), "text") || !json_is_string(its))
            return refuse(r, "invalid_type", "must be a block of text");
        if (!known_keys(r, block)) return false;
        if (text->n) vr_buf_adds(text, "\n\n");
        vr_buf_add(text, json_string_value(its), json_string_length(its));
    }
    if (text->failed) r->t->nomem = true;
    return true;
}

/* The system speaks: first of all, or in the middle. */
static bool add_notice(struct reading *r, const json_t *content, size_t i)
{
    VR_AUTO_BUF text = { 0 };
    snprintf(r->at, sizeof r->at, "messages[%zu].content", i);
    if (!join_blocks(r, content, &text)) return false;
    if (json_array_size(r->out) == 0)
        vr_append(r->t, r->out, json_pack("{s:s,s:s}", "role", "system", "content", vr_buf_str(&text)));
    else
        vr_remind(&r->reminders, r->t, r->out, vr_buf_str(&text));
    return true;
}

static bool add_message(struct reading *r, const json_t *message, size_t i)
{
    json_t *role = vr_get(message, "role"), *content = vr_get(message, "content");
    const char *name = json_string_value(role);
    bool assistant = vr_is(name, "assistant"), ok = true;
    snprintf(r->at, sizeof r->at, "messages[%zu]", i);
    if (!assistant && !vr_is(name, "user") && !vr_is(name, "system"))
        return refuse(r, "invalid_value", "must have the role user or assistant");
    if (vr_is(name, "system")) return add_notice(r, content, i);
    if (json_is_string(content)) {
        vr_append(r->t, r->out, json_pack("{s:O,s:O}", "role", role, "content", content));
        return true;
    }
    if (!json_is_array(content))
        return refuse(r, "invalid_type", "must have a 'content' that is a string or an array of blocks");
    r->parts = json_array();
    r->pictures = json_array();
    r->calls = json_array();
    for (size_t k = 0; ok && k < json_array_size(content); k++) {
        snprintf(r->at, sizeof r->at, "messages[%zu].content[%zu]", i, k);
        ok = add_block(r, json_array_get(content, k), assistant);
    }
    if (ok) add_rest(r, role, assistant);
    if (r->thoughts.failed) r->t->nomem = true;
    json_decref(r->parts);
    json_decref(r->pictures);
    json_decref(r->calls);
    vr_buf_done(&r->thoughts);
    return ok;
}

static bool add_system(struct reading *r, const json_t *system)
{
    VR_AUTO_BUF text = { 0 };
    if (!system) return true;
    snprintf(r->at, sizeof r->at, "system");
    if (!join_blocks(r, system, &text)) return false;
    if (text.n == 0 || text.failed) return true;
    vr_append(r->t, r->out, json_pack("{s:s,s:o}", "role", "system", "content", json_stringn(text.data, text.n)));
    return true;
}

json_t *vr_messages_read(const json_t *system, const json_t *messages, struct vr_translation *t)
{
    struct reading r = { .t = t, .out = json_array() };
    size_t n = json_array_size(messages);
    bool ok = r.out || vr_refuse_nomem(t->why);
    if (ok && n == 0)
        ok = vr_refuse(t->why, "messages", messages ? "invalid_type" : "missing_required_parameter",
                       "'messages' must be an array of one message or more");
    if (ok && n > MAX_MESSAGES)
        ok = vr_refuse(t->why, "messages", "too_many", "'messages' has more than %d messages", MAX_MESSAGES);
    ok = ok && add_system(&r, system);
    for (size_t i = 0; ok && i < n; i++) ok = add_message(&r, json_array_get(messages, i), i);
    vr_reminders_done(&r.reminders, t);
    if (ok) return r.out;
    json_decref(r.out);
    return NULL;
}
