/* Items of a conversation. What the assistant did in one turn (thoughts, text, calls) is one message in a chat; an
 * item's id is a response's with a number behind it, so that a reference finds the response that it is in. */
#include "server/dialect/responses.h"

#include <stdio.h>
#include <string.h>

#include "server/dialect/fields.h"
#include "server/dialect/joining.h"
#include "server/dialect/response_store.h"

#define MAX_ITEMS 8192
#define ID_DIGITS 24

/* --- gathering --- */

static json_t *stored_items(const char *hex, struct vr_translation *t)
{
    char id[64];
    size_t n = 0;
    snprintf(id, sizeof id, "resp_%.40s", hex);
    VR_AUTO_FREE char *text = t->responses ? vr_responses_items(t->responses, t->key, id, &n) : NULL;
    if (!text) return NULL;
    t->n_stored += n;
    VR_AUTO_BUF list = { 0 };
    vr_buf_addc(&list, '[', 1);
    vr_buf_add(&list, text, n);
    vr_buf_addc(&list, ']', 1);
    return list.failed ? NULL : json_loadb(list.data, list.n, 0, NULL);
}

static bool add_previous(const json_t *body, json_t *items, struct vr_translation *t)
{
    json_t *v = vr_get(body, "previous_response_id");
    const char *id = json_string_value(v);
    if (!v) return true;
    json_t *before = id && strncmp(id, "resp_", 5) == 0 ? stored_items(id + 5, t) : NULL;
    if (before && json_array_extend(items, before) != 0) t->nomem = true;
    if (before) return json_decref(before), true;
    vr_refuse(t->why, "previous_response_id", "previous_response_not_found",
              "the response '%.60s' is not stored here (any more): send the conversation as 'input'", id ? id : "?");
    t->why->status = 404;
    return false;
}

/* {id: item} */
static json_t *by_id(json_t *items, struct vr_translation *t)
{
    json_t *all = json_object(), *item;
    size_t i;
    json_array_foreach(items, i, item)
    {
        const char *id = vr_get_text(item, "id");
        if (id && !json_object_get(all, id)) vr_put(t, all, id, json_incref(item));
    }
    json_decref(items);
    return all;
}

/* "msg_" digits "_0" -> the item, or true if it was asked for before: few bytes would stand for very many. Responses
 * that were read are in `known`, since many items may refer to one. */
static json_t *take_item(const char *id, json_t *known, struct vr_translation *t)
{
    const char *hex = id ? strchr(id, '_') : NULL, *end = hex ? strchr(hex + 1, '_') : NULL;
    char digits[ID_DIGITS + 1];
    if (!end || end - hex - 1 != ID_DIGITS) return NULL;
    snprintf(digits, sizeof digits, "%s", hex + 1);
    json_t *items = json_object_get(known, digits);
    if (!items && (items = stored_items(digits, t))) {
        vr_put(t, known, digits, by_id(items, t));
        items = json_object_get(known, digits);
    }
    json_t *item = json_incref(json_object_get(items, id));
    if (item) vr_put(t, items, id, json_true());
    return item;
}

static bool add_input(const json_t *input, json_t *items, json_t *known, struct vr_translation *t)
{
    if (json_is_string(input)) {
        vr_append(t, items, json_pack("{s:s,s:s,s:O}", "type", "message", "role", "user", "content", input));
        return true;
    }
    if (!json_is_array(input))
        return vr_refuse(t->why, "input", input ? "invalid_type" : "missing_required_parameter",
                         "'input' must be a string or an array of items");
    for (size_t i = 0; i < json_array_size(input); i++) {
        json_t *item = json_array_get(input, i);
        const char *type = vr_get_text(item, "type"), *id = vr_get_text(item, "id");
        if (!(type && strcmp(type, "item_reference") == 0)) {
            vr_append(t, items, json_incref(item));
            continue;
        }
        json_t *found = take_item(id, known, t);
        if (json_is_true(found))
            return vr_refuse(t->why, "input", "duplicate_item",
                             "'input[%zu]' refers to '%.60s' a second time: refer to each item once", i, id);
        if (!found) {
            vr_refuse(t->why, "input", "item_not_found",
                      "'input[%zu]' refers to '%.60s', which is not stored here (any more): send the item itself", i,
                      id ? id : "?");
            t->why->status = 404;
            return false;
        }
        vr_append(t, items, found);
    }
    return true;
}

json_t *vr_items_gather(const json_t *body, struct vr_translation *t)
{
    json_t *items = json_array(), *known = json_object();
    bool ok = items && known ? add_previous(body, items, t) && add_input(vr_get(body, "input"), items, known, t)
                             : vr_refuse_nomem(t->why);
    json_decref(known);
    if (ok && json_array_size(items) > MAX_ITEMS)
        ok = vr_refuse(t->why, "input", "too_many", "'input' has more than %d items", MAX_ITEMS);
    if (ok) return items;
    json_decref(items);
    return NULL;
}

/* --- messages --- */

struct writing {
    struct vr_translation *t;
    json_t *messages;
    json_t *turn;                 /* the assistant's message that is not over yet; in messages */
    struct vr_join said, thought; /* texts of it; `said` also of the system, before anybody else speaks */
    struct vr_reminders reminders;
    char at[32]; /* "input[3]" */
};

static bool refuse(struct writing *w, const char *code, const char *what)
{
    return vr_refuse(w->t->why, w->at, code, "'%s' %s", w->at, what);
}

static json_t *turn_of(struct writing *w)
{
    if (w->turn) return w->turn;
    json_t *turn = json_pack("{s:s,s:n}", "role", "assistant", "content");
    if (json_array_append_new(w->messages, turn) == 0) return w->turn = turn;
    w->t->nomem = true; /* and the turn is freed */
    return NULL;
}

/* A part of content as ours; NULL: refused. */
static json_t *part_of(struct writing *w, const json_t *part)
{
    const char *type = vr_get_text(part, "type");
    json_t *text = vr_get(part, "text"), *url = vr_get(part, "image_url");
    if (!type) return refuse(w, "invalid_type", "has a part without a 'type'"), NULL;
    if (strcmp(type, "input_text") == 0 || strcmp(type, "output_text") == 0 || strcmp(type, "text") == 0 ||
        strcmp(type, "summary_text") == 0 || strcmp(type, "reasoning_text") == 0) {
        if (!json_is_string(text)) return refuse(w, "invalid_type", "has a part without a 'text'"), NULL;
        return json_pack("{s:s,s:O}", "type", "text", "text", text);
    }
    if (strcmp(type, "refusal") == 0) return json_incref((json_t *)(uintptr_t)part);
    if (strcmp(type, "input_image") == 0) {
        if (!json_is_string(url))
            return refuse(w, "unsupported_content",
                          "has an image without an 'image_url': files are not stored here, send a data: URL"),
                   NULL;
        return json_pack("{s:s,s:{s:O}}", "type", "image_url", "image_url", "url", url);
    }
    vr_refuse(w->t->why, w->at, "unsupported_content",
              "'%s' has a part of type '%.40s': this server supports text and images only", w->at, type);
    return NULL;
}

/* A string, or an array of parts as ours; one part of text is a string. NULL: refused. */
static json_t *content_of(struct writing *w, const json_t *content)
{
    if (json_is_string(content)) return json_incref((json_t *)(uintptr_t)content);
    if (!json_is_array(content)) return refuse(w, "invalid_type", "must have a 'content'"), NULL;
    json_t *parts = json_array();
    for (size_t i = 0; i < json_array_size(content); i++) {
        json_t *part = part_of(w, json_array_get(content, i));
        if (!part) return json_decref(parts), NULL;
        vr_append(w->t, parts, part);
    }
    json_t *only = json_array_size(parts) == 1 ? vr_get(json_array_get(parts, 0), "text") : NULL;
    if (!only) return parts;
    json_incref(only);
    json_decref(parts);
    return only;
}

/* Text parts in a row, as one string. */
static json_t *text_of(struct writing *w, const json_t *content)
{
    VR_AUTO_BUF all = { 0 };
    if (json_is_string(content)) vr_buf_add(&all, json_string_value(content), json_string_length(content));
    for (size_t i = 0; i < json_array_size(content); i++) {
        const json_t *text = json_object_get(json_array_get(content, i), "text");
        if (json_string_length(text) == 0) continue;
        if (all.n) vr_buf_adds(&all, "\n\n");
        vr_buf_add(&all, json_string_value(text), json_string_length(text));
    }
    if (all.failed) w->t->nomem = true;
    return json_stringn(vr_buf_str(&all), all.n);
}

static void join_text(struct writing *w, struct vr_join *j, json_t *into, const char *key, json_t *made)
{
    if (made) vr_join_add(j, w->t, into, key, json_string_value(made), json_string_length(made));
    json_decref(made);
}

static bool add_message(struct writing *w, const json_t *item)
{
    json_t *role = vr_get(item, "role"), *content = content_of(w, vr_get(item, "content"));
    if (!content) return false;
    const char *name = json_string_value(role);
    if (name && strcmp(name, "assistant") == 0) {
        json_t *turn = turn_of(w);
        json_t *has = vr_get(turn, "content");
        if (!has) return vr_put(w->t, turn, "content", content), true;
        if (json_is_array(has)) vr_put(w->t, turn, "content", text_of(w, has));
        join_text(w, &w->said, turn, "content", text_of(w, content));
        return json_decref(content), true;
    }
    json_t *last = json_array_get(w->messages, json_array_size(w->messages) - 1);
    const char *before = vr_get_text(last, "role");
    bool system = name && (strcmp(name, "system") == 0 || strcmp(name, "developer") == 0);
    w->turn = NULL;
    if (system && json_array_size(w->messages) == 1 && before && strcmp(before, "system") == 0) {
        join_text(w, &w->said, last, "content", text_of(w, content));
        return json_decref(content), true;
    }
    if (system && json_array_size(w->messages) == 0) {
        json_t *text = text_of(w, content);
        json_decref(content);
        vr_append(w->t, w->messages, json_pack("{s:s,s:o}", "role", "system", "content", text));
        return true;
    }
    if (system) {
        json_t *text = text_of(w, content);
        json_decref(content);
        vr_remind(&w->reminders, w->t, w->messages, text ? json_string_value(text) : "");
        return json_decref(text), true;
    }
    vr_append(w->t, w->messages, json_pack("{s:O?,s:o}", "role", role, "content", content));
    return true;
}

static bool add_reasoning(struct writing *w, const json_t *item)
{
    const json_t *content = vr_get(item, "content"), *summary = vr_get(item, "summary");
    json_t *text = text_of(w, json_array_size(content) ? content : summary);
    if (json_string_length(text))
        join_text(w, &w->thought, turn_of(w), "reasoning_content", text);
    else
        json_decref(text);
    return true;
}

/* A tool that takes text is a function with one argument (responses.c). */
static bool add_call(struct writing *w, const json_t *item, bool custom)
{
    json_t *id = vr_get(item, "call_id"), *name = vr_get(item, "name");
    json_t *text = vr_get(item, custom ? "input" : "arguments"), *arguments = NULL;
    if (!json_is_string(id) || !json_is_string(name) || !json_is_string(text))
        return refuse(w, "invalid_type", "must have a 'call_id', a 'name' and its arguments or input, as strings");
    if (custom) {
        json_t *made = json_pack("{s:O}", "input", text);
        char *dumped = json_dumps(made, JSON_COMPACT);
        arguments = json_string(dumped ? dumped : "");
        if (!dumped) w->t->nomem = true;
        free(dumped);
        json_decref(made);
    } else {
        arguments = json_incref(text);
    }
    json_t *turn = turn_of(w), *calls = vr_get(turn, "tool_calls");
    if (!calls) {
        vr_put(w->t, turn, "tool_calls", json_array());
        calls = vr_get(turn, "tool_calls");
    }
    vr_append(w->t, calls,
              json_pack("{s:O,s:s,s:{s:O,s:o}}", "id", id, "type", "function", "function", "name", name, "arguments",
                        arguments));
    return true;
}

static bool add_output(struct writing *w, const json_t *item)
{
    json_t *id = vr_get(item, "call_id"), *output = vr_get(item, "output");
    if (!json_is_string(id)) return refuse(w, "invalid_type", "must have a 'call_id'");
    if (!output) return refuse(w, "missing_required_parameter", "has no 'output'");
    json_t *content = content_of(w, output);
    if (!content) return false;
    w->turn = NULL;
    vr_append(w->t, w->messages, json_pack("{s:s,s:O,s:o}", "role", "tool", "tool_call_id", id, "content", content));
    return true;
}

static bool add_item(struct writing *w, const json_t *item)
{
    const char *type = vr_get_text(item, "type");
    if (!json_is_object(item)) return refuse(w, "invalid_type", "must be an object");
    if (!type && vr_get(item, "role")) type = "message";
    if (!type) return refuse(w, "invalid_type", "has neither a 'type' nor a 'role'");
    if (strcmp(type, "message") == 0) return add_message(w, item);
    if (strcmp(type, "reasoning") == 0) return add_reasoning(w, item);
    if (strcmp(type, "function_call") == 0) return add_call(w, item, false);
    if (strcmp(type, "custom_tool_call") == 0) return add_call(w, item, true);
    if (strcmp(type, "function_call_output") == 0 || strcmp(type, "custom_tool_call_output") == 0)
        return add_output(w, item);
    vr_refuse(w->t->why, w->at, "unsupported_content", "'%s' is of type '%.60s', which this server does not support",
              w->at, type);
    return false;
}

json_t *vr_items_messages(const json_t *items, const json_t *instructions, struct vr_translation *t)
{
    struct writing w = { .t = t, .messages = json_array() };
    if (!w.messages) return vr_refuse_nomem(t->why), NULL;
    if (json_string_length(instructions))
        vr_append(t, w.messages, json_pack("{s:s,s:O}", "role", "system", "content", instructions));
    bool ok = true;
    for (size_t i = 0; ok && i < json_array_size(items); i++) {
        snprintf(w.at, sizeof w.at, "input[%zu]", i);
        ok = add_item(&w, json_array_get(items, i));
    }
    vr_join_done(&w.said, t);
    vr_join_done(&w.thought, t);
    vr_reminders_done(&w.reminders, t);
    if (ok) return w.messages;
    json_decref(w.messages);
    return NULL;
}
