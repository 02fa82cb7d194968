#include "server/dialect/ollama.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/dialect/fields.h"

static const struct vr_field_row chat_fields[] = {
#define OLLAMA_CHAT
#include "server/dialect/ollama.def"
#undef OLLAMA_CHAT
};
static const struct vr_field_row generate_fields[] = {
#define OLLAMA_GENERATE
#include "server/dialect/ollama.def"
#undef OLLAMA_GENERATE
};
static const struct vr_field_row embed_fields[] = {
#define OLLAMA_EMBED
#include "server/dialect/ollama.def"
#undef OLLAMA_EMBED
};
static const struct vr_field_row option_fields[] = {
#define OLLAMA_OPTIONS
#include "server/dialect/ollama.def"
#undef OLLAMA_OPTIONS
};

#define NO_LIMIT (1 << 30) /* tokens: as many as there is room for */

/* "name:latest" is "name". */
static void read_model(json_t *out, struct vr_translation *t)
{
    static const char latest[] = ":latest";
    const json_t *v = vr_get(out, "model");
    const char *name = json_string_value(v);
    size_t n = json_string_length(v), end = sizeof latest - 1;
    if (name && n > end && strcmp(name + n - end, latest) == 0) vr_put(t, out, "model", json_stringn(name, n - end));
}

static bool read_options(const json_t *body, json_t *out, struct vr_translation *t)
{
    const json_t *options = vr_get(body, "options"), *limit = vr_get(options, "num_predict");
    if (options && !json_is_object(options))
        return vr_refuse(t->why, "options", "invalid_type", "'options' must be an object");
    if (!vr_fields_read(options, option_fields, VR_COUNT(option_fields), "options", out, t)) return false;
    if (limit && !json_is_integer(limit))
        return vr_refuse(t->why, "options.num_predict", "invalid_type", "'options.num_predict' must be an integer");
    json_int_t most = limit ? json_integer_value(limit) : 0; /* up to 0: no limit */
    vr_put(t, out, "max_tokens", json_integer(most <= 0 ? NO_LIMIT : most));
    return true;
}

/* "json", or a schema. */
static bool read_format(const json_t *body, json_t *out, struct vr_translation *t)
{
    json_t *format = vr_get(body, "format");
    const char *word = json_string_value(format);
    if (!format || (word && !*word)) return true;
    if (vr_is(word, "json"))
        vr_put(t, out, "response_format", json_pack("{s:s}", "type", "json_object"));
    else if (json_is_object(format))
        vr_put(
            t, out, "response_format",
            json_pack("{s:s,s:{s:s,s:O}}", "type", "json_schema", "json_schema", "name", "answer", "schema", format));
    else
        return vr_refuse(t->why, "format", "invalid_value", "'format' must be \"json\" or a JSON schema");
    return true;
}

static bool read_think(const json_t *body, json_t *out, struct vr_translation *t)
{
    json_t *think = vr_get(body, "think");
    if (json_is_boolean(think))
        vr_put(t, out, "chat_template_kwargs", json_pack("{s:O}", "enable_thinking", think));
    else if (json_is_string(think))
        vr_put(t, out, "reasoning_effort", json_incref(think));
    else if (think)
        return vr_refuse(t->why, "think", "invalid_type", "'think' must be true, false, low, medium or high");
    return true;
}

/* Streams are the rule. */
static bool read_stream(const json_t *body, json_t *out, struct vr_translation *t)
{
    json_t *stream = vr_get(body, "stream");
    vr_put(t, out, "stream", stream ? json_incref(stream) : json_true());
    return true;
}

/* --- messages --- */

/* Bytes in base64 without a word about their kind: their beginning tells it. */
static json_t *picture_part(const char *data)
{
    const char *kind = strncmp(data, "/9j/", 4) == 0 ? "jpeg" : "png";
    return json_pack("{s:s,s:{s:o}}", "type", "image_url", "image_url", "url",
                     json_sprintf("data:image/%s;base64,%s", kind, data));
}

/* Text and pictures as content. NULL: refused. */
static json_t *content_of(json_t *text, const json_t *images, const char *at, struct vr_translation *t)
{
    if (json_array_size(images) == 0) return json_incref(text);
    json_t *parts = json_pack("[{s:s,s:O}]", "type", "text", "text", text);
    for (size_t i = 0; i < json_array_size(images); i++) {
        const char *data = json_string_value(json_array_get(images, i));
        if (!data) {
            json_decref(parts);
            vr_refuse(t->why, at, "invalid_type", "'%s.images' must hold images in base64", at);
            return NULL;
        }
        vr_append(t, parts, picture_part(data));
    }
    return parts;
}

/* Calls have no ids here: they are numbered, and their results follow in the same order. */
struct ids {
    unsigned called, answered;
};

static bool add_calls(const json_t *calls, json_t *message, struct ids *ids, const char *at, struct vr_translation *t)
{
    json_t *list = json_array();
    for (size_t i = 0; i < json_array_size(calls); i++) {
        json_t *function = vr_get(json_array_get(calls, i), "function"), *name = vr_get(function, "name");
        json_t *arguments = vr_get(function, "arguments");
        if (!json_is_string(name)) {
            json_decref(list);
            return vr_refuse(t->why, at, "invalid_type", "'%s.tool_calls[%zu].function.name' must be a string", at, i);
        }
        char *text = json_is_string(arguments) ? strdup(json_string_value(arguments))
                     : arguments               ? json_dumps(arguments, JSON_COMPACT | JSON_ENCODE_ANY)
                                               : strdup("{}");
        vr_append(t, list,
                  json_pack("{s:o,s:s,s:{s:O,s:s}}", "id", json_sprintf("call_%u", ids->called++), "type", "function",
                            "function", "name", name, "arguments", text ? text : ""));
        if (!text) t->nomem = true;
        free(text);
    }
    vr_put(t, message, "tool_calls", list);
    return true;
}

static bool add_message(const json_t *m, size_t i, json_t *out, struct ids *ids, struct vr_translation *t)
{
    static const struct vr_field_row rows[] = { OWN(role) OWN(content) OWN(images) OWN(tool_calls) AS(
        thinking, "reasoning_content") OWN(tool_call_id) PASS(tool_name) PASS(name) };
    char at[32];
    json_t *text = vr_get(m, "content"), *calls = vr_get(m, "tool_calls"), *role = vr_get(m, "role");
    snprintf(at, sizeof at, "messages[%zu]", i);
    if (!json_is_object(m) || !json_is_string(role) || (text && !json_is_string(text)))
        return vr_refuse(t->why, at, "invalid_type", "'%s' must have a 'role' and a 'content' that are strings", at);
    json_t *message = json_pack("{s:O}", "role", role), *empty = text ? NULL : json_string("");
    json_t *content = content_of(text ? text : empty, vr_get(m, "images"), at, t);
    bool ok = content && vr_fields_read(m, rows, VR_COUNT(rows), at, message, t);
    if (content) vr_put(t, message, "content", content);
    if (ok && json_array_size(calls)) ok = add_calls(calls, message, ids, at, t);
    if (strcmp(json_string_value(role), "tool") == 0)
        vr_put(t, message, "tool_call_id",
               vr_get(m, "tool_call_id") ? json_incref(vr_get(m, "tool_call_id"))
                                         : json_sprintf("call_%u", ids->answered++));
    json_decref(empty);
    vr_append(t, out, message);
    return ok;
}

/* Nothing to say: the model is to be there, which it is, or to leave (keep_alive 0). A text is counted, since something
 * must be asked. */
static bool only_load(json_t *out, struct vr_translation *t)
{
    t->kind = VR_COMPLETION;
    t->look = "count";
    json_t *model = json_incref(vr_get(out, "model"));
    json_object_clear(out);
    if (model) vr_put(t, out, "model", model);
    vr_put(t, out, "prompt", json_string("."));
    t->unload = t->keep && t->keep_ms == 0;
    vr_put(t, t->memo, VR_MEMO_LOAD, json_string(t->unload ? "unload" : "load"));
    return true;
}

static bool read_messages(const json_t *body, json_t *out, struct vr_translation *t)
{
    const json_t *messages = vr_get(body, "messages");
    struct ids ids = { 0 };
    if (messages && !json_is_array(messages))
        return vr_refuse(t->why, "messages", "invalid_type", "'messages' must be an array");
    if (json_array_size(messages) == 0) return only_load(out, t);
    json_t *list = json_array();
    bool ok = true;
    for (size_t i = 0; ok && i < json_array_size(messages); i++)
        ok = add_message(json_array_get(messages, i), i, list, &ids, t);
    vr_continue_last(t, list, out);
    vr_put(t, out, "messages", list);
    if (ok && vr_get(body, "tools")) vr_put(t, out, "tools", json_incref(vr_get(body, "tools")));
    return ok;
}

/* --- how long the model stays --- */

#define MOST_KEEP_S 3e8 /* ten years */

/* A duration as Go writes it: "5m", "1h30m", "-1s"; without a unit in seconds. */
static bool parse_duration(const char *text, double *seconds)
{
    static const struct {
        const char *unit;
        double s;
    } units[] = { { "h", 3600 }, { "ms", 1e-3 }, { "m", 60 }, { "s", 1 }, { "", 1 } };
    bool negative = *text == '-';
    double sum = 0;
    text += negative || *text == '+';
    do {
        char *end;
        if (*text != '.' && (*text < '0' || *text > '9')) return false;
        double n = strtod(text, &end);
        size_t i = 0;
        if (end == text) return false; /* a point alone is no number, and would be read again for ever */
        while (strncmp(end, units[i].unit, strlen(units[i].unit)) != 0) i++;
        sum += n * units[i].s;
        text = end + strlen(units[i].unit);
    } while (*text);
    *seconds = negative ? -sum : sum;
    return true;
}

static bool read_keep(const json_t *body, struct vr_translation *t)
{
    const json_t *keep = vr_get(body, "keep_alive");
    const char *text = json_string_value(keep);
    double s = json_number_value(keep);
    if (!keep) return true;
    if (!json_is_number(keep) && (!text || !parse_duration(text, &s)))
        return vr_refuse(t->why, "keep_alive", "invalid_value",
                         "'keep_alive' must be a number of seconds or a duration such as \"5m\"");
    if (!t->may_keep) return vr_note(t, "keep_alive"), true;
    t->keep = true;
    t->keep_ms = s < 0 ? -1 : (int64_t)((s < MOST_KEEP_S ? s : MOST_KEEP_S) * 1e3);
    return true;
}

/* --- the bodies --- */

static json_t *begin(json_t *body, const struct vr_field_row *rows, size_t n, struct vr_translation *t)
{
    json_t *out = json_object();
    t->memo = json_object();
    if (!out || !t->memo || !vr_fields_read(body, rows, n, "", out, t) || !read_keep(body, t))
        return json_decref(out), NULL;
    read_model(out, t);
    return out;
}

json_t *vr_ollama_translate_chat(json_t *body, struct vr_translation *t)
{
    json_t *out = begin(body, chat_fields, VR_COUNT(chat_fields), t);
    if (out && read_options(body, out, t) && read_format(body, out, t) && read_think(body, out, t) &&
        read_stream(body, out, t) && read_messages(body, out, t))
        return out;
    json_decref(out);
    return NULL;
}

/* The model goes on with a text as it is, or fills what is between that and a suffix. */
static bool read_raw(const json_t *body, json_t *prompt, json_t *suffix, json_t *out, struct vr_translation *t)
{
    json_t *top = json_is_true(vr_get(out, "logprobs")) ? vr_get(out, "top_logprobs") : NULL;
    t->kind = VR_COMPLETION;
    if (vr_get(body, "system")) vr_note(t, "system");
    if (vr_get(body, "think")) vr_note(t, "think");
    if (json_is_true(vr_get(out, "logprobs"))) vr_put(t, out, "logprobs", top ? json_incref(top) : json_integer(0));
    json_object_del(out, "top_logprobs");
    vr_put(t, out, "prompt", prompt ? json_incref(prompt) : json_string(""));
    if (suffix) vr_put(t, out, "suffix", json_incref(suffix));
    return !json_array_size(vr_get(body, "images")) ||
           vr_refuse(t->why, "images", "unsupported_content", "'images' cannot be used with '%s'",
                     suffix ? "suffix" : "raw");
}

/* Without "raw" a prompt is what a user says. */
static bool read_prompt(const json_t *body, json_t *out, struct vr_translation *t)
{
    json_t *prompt = vr_get(body, "prompt"), *system = vr_get(body, "system"), *images = vr_get(body, "images");
    json_t *suffix = vr_get(body, "suffix");
    if (prompt && !json_is_string(prompt))
        return vr_refuse(t->why, "prompt", "invalid_type", "'prompt' must be a string");
    if (suffix && !json_is_string(suffix))
        return vr_refuse(t->why, "suffix", "invalid_type", "'suffix' must be a string");
    if (json_string_length(suffix)) return read_raw(body, prompt, suffix, out, t);
    if (json_string_length(prompt) == 0 && json_array_size(images) == 0) return only_load(out, t);
    if (json_is_true(vr_get(body, "raw"))) return read_raw(body, prompt, NULL, out, t);
    json_t *empty = prompt ? NULL : json_string(""), *list = json_array();
    json_t *content = content_of(prompt ? prompt : empty, images, "prompt", t);
    json_decref(empty);
    if (json_string_length(system)) vr_append(t, list, json_pack("{s:s,s:O}", "role", "system", "content", system));
    if (content) vr_append(t, list, json_pack("{s:s,s:o}", "role", "user", "content", content));
    vr_put(t, out, "messages", list);
    return content && read_think(body, out, t);
}

json_t *vr_ollama_translate_generate(json_t *body, struct vr_translation *t)
{
    json_t *out = begin(body, generate_fields, VR_COUNT(generate_fields), t);
    if (out && read_options(body, out, t) && read_format(body, out, t) && read_stream(body, out, t) &&
        read_prompt(body, out, t))
        return out;
    json_decref(out);
    return NULL;
}

json_t *vr_ollama_translate_embed(json_t *body, struct vr_translation *t)
{
    return begin(body, embed_fields, VR_COUNT(embed_fields), t);
}
