#include "server/dialect/responses.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "server/dialect/fields.h"
#include "server/dialect/response_store.h"

#define MAX_ECHO (64 << 10) /* bytes of the request that a response repeats */

static const struct vr_field_row fields[] = {
#include "server/dialect/responses.def"
};

/* --- tools --- */

/* A tool that takes text, as a function with one argument. */
static json_t *custom_tool(const json_t *tool, struct vr_translation *t, size_t i)
{
    const char *format = vr_get_text(vr_get(tool, "format"), "type");
    if (!vr_get_text(tool, "name")) {
        vr_refuse(t->why, "tools", "invalid_type", "'tools[%zu]' has no 'name'", i);
        return NULL;
    }
    if (format && strcmp(format, "text") != 0) {
        vr_refuse(t->why, "tools", "unsupported_parameter",
                  "'tools[%zu].format' must be of type text: its grammar cannot be enforced here", i);
        return NULL;
    }
    vr_append(t, json_object_get(t->memo, VR_MEMO_CUSTOM), json_incref(json_object_get(tool, "name")));
    return json_pack("{s:s,s:{s:O?,s:O*,s:{s:s,s:{s:{s:s}},s:[s]}}}", "type", "function", "function", "name",
                     vr_get(tool, "name"), "description", vr_get(tool, "description"), "parameters", "type", "object",
                     "properties", "input", "type", "string", "required", "input");
}

static json_t *function_tool(const json_t *tool)
{
    return json_pack("{s:s,s:{s:O*,s:O*,s:O*,s:O*}}", "type", "function", "function", "name", vr_get(tool, "name"),
                     "description", vr_get(tool, "description"), "parameters", vr_get(tool, "parameters"), "strict",
                     vr_get(tool, "strict"));
}

/* {"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"f"}]}: those alone. */
static bool is_allowed(const json_t *choice, const json_t *tool)
{
    const json_t *list = vr_is(vr_get_text(choice, "type"), "allowed_tools") ? vr_get(choice, "tools") : NULL;
    if (!list) return true;
    for (size_t i = 0; i < json_array_size(list); i++)
        if (vr_is(vr_get_text(json_array_get(list, i), "name"), vr_get_text(tool, "name"))) return true;
    return false;
}

/* Tools that OpenAI runs itself are left out, since the model need not use them; a choice of one is refused below. */
static bool read_tools(const json_t *body, json_t *out, struct vr_translation *t)
{
    const json_t *tools = vr_get(body, "tools");
    json_t *list = json_array();
    if (tools && !json_is_array(tools))
        return json_decref(list), vr_refuse(t->why, "tools", "invalid_type", "'tools' must be an array");
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *tool = json_array_get(tools, i);
        const char *type = vr_get_text(tool, "type");
        json_t *made = NULL;
        char at[32];
        snprintf(at, sizeof at, "tools[%zu]", i);
        if (!is_allowed(vr_get(body, "tool_choice"), tool)) continue;
        if (vr_is(type, "function") || vr_is(type, "custom"))
            vr_notes_add_others(
                &t->notes, tool,
                (const char *const[]){ "type", "name", "description", "parameters", "strict", "format", NULL }, at);
        if (vr_is(type, "function")) {
            made = function_tool(tool);
        } else if (vr_is(type, "custom")) {
            if (!(made = custom_tool(tool, t, i)) && t->why->status) return json_decref(list), false;
        } else {
            if (!type)
                return json_decref(list), vr_refuse(t->why, "tools", "invalid_type", "'tools[%zu]' has no 'type'", i);
            vr_note(t, "tools[%zu] (%.40s)", i, type);
            continue;
        }
        vr_append(t, list, made);
    }
    if (json_array_size(list))
        vr_put(t, out, "tools", list);
    else
        json_decref(list);
    return true;
}

static bool read_choice(const json_t *body, json_t *out, struct vr_translation *t)
{
    json_t *v = vr_get(body, "tool_choice");
    const char *type = vr_get_text(v, "type"), *mode = vr_get_text(v, "mode");
    if (!v) return true;
    if (json_is_string(v)) {
        vr_put(t, out, "tool_choice", json_incref(v));
    } else if (vr_is(type, "function") || vr_is(type, "custom")) {
        vr_put(t, out, "tool_choice",
               json_pack("{s:s,s:{s:O?}}", "type", "function", "function", "name", vr_get(v, "name")));
    } else if (vr_is(type, "allowed_tools")) {
        vr_put(t, out, "tool_choice", json_string(vr_is(mode, "required") ? "required" : "auto"));
    } else {
        return vr_refuse(t->why, "tool_choice", "unsupported_parameter",
                         "'tool_choice' of type '%.40s' is not supported here: this server runs no tools itself",
                         type ? type : "?");
    }
    return true;
}

/* --- the form of the answer --- */

static bool read_text(const json_t *body, json_t *out, struct vr_translation *t)
{
    static const struct vr_field_row rows[] = { OWN(format) PASS(verbosity) };
    const json_t *text = vr_get(body, "text"), *format = vr_get(text, "format");
    const char *type = vr_get_text(format, "type");
    if (!vr_fields_read(text, rows, VR_COUNT(rows), "text", out, t)) return false;
    if (!format || vr_is(type, "text")) return true;
    if (vr_is(type, "json_object")) {
        vr_put(t, out, "response_format", json_pack("{s:s}", "type", "json_object"));
        return true;
    }
    if (!vr_is(type, "json_schema"))
        return vr_refuse(t->why, "text.format", "invalid_value",
                         "'text.format.type' must be text, json_object or json_schema");
    if (!json_is_object(vr_get(format, "schema")))
        return vr_refuse(t->why, "text.format.schema", "missing_required_parameter", "'text.format.schema' is missing");
    vr_put(t, out, "response_format",
           json_pack("{s:s,s:{s:O*,s:O}}", "type", "json_schema", "json_schema", "name", vr_get(format, "name"),
                     "schema", vr_get(format, "schema")));
    return true;
}

static bool read_reasoning(const json_t *body, json_t *out, struct vr_translation *t)
{
    static const struct vr_field_row rows[] = { AS(effort, "reasoning_effort") OWN(summary) OWN(generate_summary) };
    const json_t *reasoning = vr_get(body, "reasoning");
    if (reasoning && !json_is_object(reasoning))
        return vr_refuse(t->why, "reasoning", "invalid_type", "'reasoning' must be an object");
    if (!vr_fields_read(reasoning, rows, VR_COUNT(rows), "reasoning", out, t)) return false;
    const char *summary = vr_get_text(reasoning, "summary");
    if (!summary) summary = vr_get_text(reasoning, "generate_summary");
    if (summary && strcmp(summary, "none") != 0) vr_put(t, t->memo, VR_MEMO_SUMMARY, json_true());
    return true;
}

static bool read_include(const json_t *body, json_t *out, struct vr_translation *t)
{
    /* what concerns items that there never are; thoughts are in their items as they are, so nothing is encrypted */
    static const char *const known[] = { "reasoning.encrypted_content",   "file_search_call.results",
                                         "web_search_call.results",       "web_search_call.action.sources",
                                         "message.input_image.image_url", "computer_call_output.output.image_url",
                                         "code_interpreter_call.outputs" };
    const json_t *list = vr_get(body, "include");
    bool logprobs = vr_get(body, "top_logprobs") != NULL;
    if (list && !json_is_array(list)) return vr_refuse(t->why, "include", "invalid_type", "'include' must be an array");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *word = json_string_value(json_array_get(list, i));
        bool fine = vr_is(word, "message.output_text.logprobs");
        logprobs |= fine;
        for (size_t k = 0; k < VR_COUNT(known); k++) fine = fine || vr_is(word, known[k]);
        if (!fine)
            return vr_refuse(t->why, "include", "invalid_value", "'include[%zu]' is '%.60s', which is not known", i,
                             word ? word : "?");
    }
    if (logprobs) vr_put(t, out, "logprobs", json_true());
    return true;
}

static bool read_stream_options(const json_t *body, struct vr_translation *t)
{
    static const struct vr_field_row rows[] = { PASS(include_obfuscation) };
    json_t *none = json_object();
    bool ok = vr_fields_read(vr_get(body, "stream_options"), rows, VR_COUNT(rows), "stream_options", none, t);
    json_decref(none);
    return ok;
}

/* --- what the answer needs to know --- */

static json_t *or_null(json_t *v) { return v ? json_incref(v) : json_null(); }

/* Fields of the response that are the request's. */
static json_t *echo_of(const json_t *body, bool short_form)
{
    json_t *choice = vr_get(body, "tool_choice"), *parallel = vr_get(body, "parallel_tool_calls");
    json_t *text = vr_get(body, "text"), *tools = vr_get(body, "tools");
    return json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:s,s:b,s:o}", "instructions",
                     short_form ? json_null() : or_null(vr_get(body, "instructions")), "metadata",
                     vr_get(body, "metadata") ? json_incref(vr_get(body, "metadata")) : json_object(),
                     "parallel_tool_calls", parallel ? json_incref(parallel) : json_true(), "temperature",
                     or_null(vr_get(body, "temperature")), "top_p", or_null(vr_get(body, "top_p")), "tool_choice",
                     choice ? json_incref(choice) : json_string("auto"), "tools",
                     tools && !short_form ? json_incref(tools) : json_array(), "text",
                     text ? json_incref(text) : json_pack("{s:{s:s}}", "format", "type", "text"), "reasoning",
                     vr_get(body, "reasoning") ? json_incref(vr_get(body, "reasoning"))
                                               : json_pack("{s:n,s:n}", "effort", "summary"),
                     "max_output_tokens", or_null(vr_get(body, "max_output_tokens")), "previous_response_id",
                     or_null(vr_get(body, "previous_response_id")), "user", or_null(vr_get(body, "user")),
                     "service_tier", or_null(vr_get(body, "service_tier")), "truncation", "disabled", "background", 0,
                     "top_logprobs", or_null(vr_get(body, "top_logprobs")));
}

/* The text between the brackets of an object or array. */
static json_t *inside(json_t *v, struct vr_translation *t)
{
    char *text = v ? json_dumps(v, JSON_COMPACT) : NULL;
    size_t n = text ? strlen(text) : 0;
    json_t *out = n >= 2 ? json_stringn(text + 1, n - 2) : NULL;
    free(text);
    if (!out) t->nomem = true;
    return out;
}

static bool remember(const json_t *body, json_t *items, struct vr_translation *t)
{
    json_t *store = vr_get(body, "store"), *full = echo_of(body, false), *echo = inside(full, t);
    json_decref(full);
    if (store && !json_is_boolean(store))
        return json_decref(echo), vr_refuse(t->why, "store", "invalid_type", "'store' must be true or false");
    if (json_string_length(echo) > MAX_ECHO) {
        json_decref(echo);
        full = echo_of(body, true);
        echo = inside(full, t);
        json_decref(full);
    }
    json_t *text = json_is_false(store) ? NULL : inside(items, t);
    if (text && !(t->responses && vr_responses_has_room(t->responses, json_string_length(text) * 2))) {
        json_decref(text);
        text = NULL;
    }
    t->n_memo = json_string_length(echo) + json_string_length(text);
    vr_put(t, t->memo, VR_MEMO_ECHO, echo);
    if (text) vr_put(t, t->memo, VR_MEMO_ITEMS, text);
    return true;
}

static bool start_memo(struct vr_translation *t)
{
    unsigned char random[12];
    char hex[25];
    if (getrandom(random, sizeof random, 0) != sizeof random) return vr_refuse_nomem(t->why);
    for (size_t i = 0; i < sizeof random; i++) snprintf(hex + 2 * i, 3, "%02x", random[i]);
    t->memo = json_pack("{s:s,s:[],s:I,s:I}", VR_MEMO_ID, hex, VR_MEMO_CUSTOM, VR_MEMO_KEY, (json_int_t)t->key,
                        VR_MEMO_CLIENT, (json_int_t)t->whose.client);
    return t->memo || vr_refuse_nomem(t->why);
}

static bool read_items(const json_t *body, json_t *out, struct vr_translation *t)
{
    const json_t *instructions = vr_get(body, "instructions");
    if (instructions && !json_is_string(instructions))
        return vr_refuse(t->why, "instructions", "invalid_type", "'instructions' must be a string");
    json_t *items = vr_items_gather(body, t);
    json_t *messages = items ? vr_items_messages(items, instructions, t) : NULL;
    bool ok = messages && (t->look || remember(body, items, t));
    if (messages) vr_put(t, out, "messages", messages);
    json_decref(items);
    return ok;
}

json_t *vr_responses_translate(json_t *body, struct vr_translation *t)
{
    json_t *out = json_object();
    if (!out) return vr_refuse_nomem(t->why), NULL;
    if (start_memo(t) && vr_fields_read(body, fields, VR_COUNT(fields), "", out, t) && read_tools(body, out, t) &&
        read_choice(body, out, t) && read_text(body, out, t) && read_reasoning(body, out, t) &&
        read_include(body, out, t) && read_stream_options(body, t) && read_items(body, out, t))
        return out;
    json_decref(out);
    return NULL;
}

json_t *vr_responses_translate_count(json_t *body, struct vr_translation *t)
{
    t->look = "count";
    return vr_responses_translate(body, t);
}
