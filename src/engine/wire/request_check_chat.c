/* What is in a conversation: messages, their parts and calls, the tools, the form of the answer. Keys of a message that
 * change nothing (what OpenAI adds to its own answers and clients send back) are dropped; those that it would act on
 * are refused. A refusal, which clients send back as they got it, is text that the assistant said: templates know no
 * other kind. */
#include "engine/wire/request_check.h"

#include <stdio.h>
#include <string.h>

#include "engine/wire/limits.h"
#include "engine/wire/picture.h"
#include "engine/wire/schema.h"
#include "engine/wire/schema_forms.h"

#define MAX_PARTS 1024
#define MAX_CALLS 128
#define MAX_NAME  64

#define PATH(name, ...)                                                                                                \
    char name[96];                                                                                                     \
    snprintf(name, sizeof name, __VA_ARGS__)

static bool is_absent(const json_t *v) { return !v || json_is_null(v); }

static bool is_one_of(const char *word, const char *const *all, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(word, all[i]) == 0) return true;
    return false;
}

static void note_key(const char *path, const char *key, struct vr_refusal *p)
{
    PATH(at, "%.50s.%.40s", path, key);
    vr_notes_add(p->notes, at);
}

static bool is_name(const char *s)
{
    size_t n = strlen(s);
    return n > 0 && n <= MAX_NAME &&
           strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") == n;
}

static bool check_text(const json_t *object, const char *key, const char *path, struct vr_refusal *p)
{
    if (json_is_string(json_object_get(object, key))) return true;
    PATH(at, "%.80s.%s", path, key);
    return vr_refuse(p, at, "invalid_type", "'%s' must be a string", at);
}

/* {"type":"refusal","refusal":"..."} becomes {"type":"text","text":"..."}. */
static bool check_refusal(json_t *part, bool assistant, const char *path, struct vr_refusal *p)
{
    if (!assistant)
        return vr_refuse(p, path, "invalid_value", "'%s' is a refusal, which belongs to an assistant's message", path);
    if (!check_text(part, "refusal", path, p)) return false;
    json_t *text = json_incref(json_object_get(part, "refusal"));
    json_object_clear(part);
    return (json_object_set_new(part, "text", text) == 0 &&
            json_object_set_new(part, "type", json_string("text")) == 0) ||
           vr_refuse_nomem(p);
}

/* Its form and no more: the bytes are decoded once, by the engine, and not while other clients wait for the front. */
static bool check_picture(const json_t *part, const char *path, size_t *n_pictures, struct vr_refusal *p)
{
    struct vr_err why;
    const json_t *url = json_object_get(json_object_get(part, "image_url"), "url");
    if (!json_is_string(url)) return vr_refuse(p, path, "invalid_type", "'%s.image_url.url' must be a string", path);
    if (++*n_pictures > VR_MOST_PICTURES)
        return vr_refuse(p, path, "too_many", "'%s': there are more than %d images", path, VR_MOST_PICTURES);
    if (vr_picture_url(json_string_value(url), json_string_length(url), NULL, &why)) return true;
    return vr_refuse(p, path, "invalid_value", "'%s': %s", path, why.msg);
}

/* {"data": base64, "format": "wav"}; what the file is, its bytes say. */
static bool check_sound(const json_t *part, const char *path, size_t *n_pictures, struct vr_refusal *p)
{
    const json_t *audio = json_object_get(part, "input_audio"), *data = json_object_get(audio, "data");
    const char *format = json_string_value(json_object_get(audio, "format"));
    if (json_string_length(data) == 0)
        return vr_refuse(p, path, "invalid_type", "'%s.input_audio.data' must be a file as base64", path);
    if (format && strcmp(format, "wav") != 0 && strcmp(format, "mp3") != 0 && strcmp(format, "flac") != 0)
        return vr_refuse(p, path, "invalid_value", "'%s.input_audio.format' must be wav, mp3 or flac", path);
    return ++*n_pictures <= VR_MOST_PICTURES ||
           vr_refuse(p, path, "too_many", "'%s': there are more than %d images and sounds", path, VR_MOST_PICTURES);
}

/* Parts of text, one kind of which every template knows, pictures and sounds. */
static bool check_parts(const json_t *parts, bool assistant, const char *path, size_t *n_pictures, struct vr_refusal *p)
{
    size_t n = json_array_size(parts);
    if (n > MAX_PARTS) return vr_refuse(p, path, "too_many", "'%s' has more than %d parts", path, MAX_PARTS);
    for (size_t i = 0; i < n; i++) {
        json_t *part = json_array_get(parts, i);
        const char *type = json_string_value(json_object_get(part, "type"));
        PATH(at, "%.60s[%zu]", path, i);
        bool ok;
        if (!type)
            ok = vr_refuse(p, at, "invalid_type", "'%s' must be an object with a 'type'", at);
        else if (strcmp(type, "text") == 0)
            ok = check_text(part, "text", at, p);
        else if (strcmp(type, "refusal") == 0)
            ok = check_refusal(part, assistant, at, p);
        else if (strcmp(type, "image_url") == 0)
            ok = check_picture(part, at, n_pictures, p);
        else if (strcmp(type, "input_audio") == 0)
            ok = check_sound(part, at, n_pictures, p);
        else if (strcmp(type, "file") == 0)
            ok = vr_refuse(p, at, "unsupported_content",
                           "'%s' is of type %s: this server supports text, images and sound only", at, type);
        else
            ok = vr_refuse(p, at, "invalid_value", "'%s' is of type '%.40s', which is not known", at, type);
        if (!ok) return false;
        vr_notes_add_others(p->notes, part,
                            (const char *const[]){ "type", "text", "image_url", "input_audio", "refusal", NULL }, at);
    }
    return true;
}

static bool check_calls(json_t *calls, const char *path, struct vr_refusal *p)
{
    if (!json_is_array(calls) || json_array_size(calls) > MAX_CALLS)
        return vr_refuse(p, path, "invalid_type", "'%s' must be an array of at most %d calls", path, MAX_CALLS);
    for (size_t i = 0; i < json_array_size(calls); i++) {
        json_t *call = json_array_get(calls, i), *function = json_object_get(call, "function");
        const char *type = json_string_value(json_object_get(call, "type"));
        PATH(at, "%.60s[%zu]", path, i);
        PATH(inner, "%.80s.function", at);
        if (type && strcmp(type, "function") != 0)
            return vr_refuse(p, at, "unsupported_content", "'%s' is of type '%.40s': only functions are called here",
                             at, type);
        if (!check_text(call, "id", at, p) || !check_text(function, "name", inner, p) ||
            !check_text(function, "arguments", inner, p))
            return false;
        /* a call without arguments: templates want an object */
        if (json_string_length(json_object_get(function, "arguments")) == 0 &&
            json_object_set_new(function, "arguments", json_string("{}")) != 0)
            return vr_refuse_nomem(p);
    }
    return true;
}

/* Fields of a message that the engine gets; the others are taken away, and those that OpenAI does not put there itself
 * are noted. */
static void keep_known(json_t *message, const char *path, struct vr_refusal *p)
{
    static const char *const known[] = { "role", "content", "name", "tool_calls", "tool_call_id", "reasoning_content" };
    static const char *const usual[] = { "refusal", "annotations", "audio", "function_call" };
    const char *key;
    json_t *v;
    void *next;
    json_object_foreach_safe(message, next, key, v)
    {
        bool keep = is_one_of(key, known, VR_COUNT(known)), null = json_is_null(v);
        if (keep && !(null && strcmp(key, "content") != 0)) continue;
        if (!keep && !null && !is_one_of(key, usual, VR_COUNT(usual))) note_key(path, key, p);
        json_object_del(message, key);
    }
}

/* A message without content that was a refusal has the refusal for its content. */
static bool check_content(json_t *m, bool assistant, const char *path, size_t *n_pictures, struct vr_refusal *p)
{
    json_t *content = json_object_get(m, "content"), *refusal = json_object_get(m, "refusal");
    PATH(at, "%.60s.content", path);
    if (json_is_array(content)) return check_parts(content, assistant, at, n_pictures, p);
    if (json_is_string(content)) return true;
    if (!is_absent(content) || !assistant)
        return vr_refuse(p, at, "invalid_type", "'%s' must be a string or an array of parts", at);
    if (is_absent(refusal)) return true;
    if (!check_text(m, "refusal", path, p)) return false;
    return json_object_set(m, "content", refusal) == 0 || vr_refuse_nomem(p);
}

static bool check_message(json_t *m, const char *path, size_t *n_pictures, struct vr_refusal *p)
{
    static const char *const roles[] = { "system", "developer", "user", "assistant", "tool" };
    const char *role = json_string_value(json_object_get(m, "role"));
    json_t *calls = json_object_get(m, "tool_calls");
    bool known = false;
    if (!json_is_object(m)) return vr_refuse(p, path, "invalid_type", "'%s' must be an object", path);
    for (size_t i = 0; role && i < VR_COUNT(roles); i++) known = known || strcmp(role, roles[i]) == 0;
    if (!known)
        return vr_refuse(p, path, "invalid_value", "'%s.role' must be system, developer, user, assistant or tool",
                         path);
    bool assistant = strcmp(role, "assistant") == 0;
    if (!is_absent(json_object_get(m, "function_call")) || !is_absent(json_object_get(m, "audio")))
        return vr_refuse(p, path, "unsupported_content", "'%s' has a function_call or audio, which are not supported",
                         path);
    if (!is_absent(calls)) {
        PATH(inner, "%.60s.tool_calls", path);
        if (!assistant) return vr_refuse(p, inner, "invalid_value", "'%s' belongs to an assistant's message", inner);
        if (!check_calls(calls, inner, p)) return false;
    }
    if (strcmp(role, "tool") == 0 && !check_text(m, "tool_call_id", path, p)) return false;
    if (!is_absent(json_object_get(m, "name")) && !check_text(m, "name", path, p)) return false;
    if (!is_absent(json_object_get(m, "reasoning_content")) && !check_text(m, "reasoning_content", path, p))
        return false;
    if (!check_content(m, assistant, path, n_pictures, p)) return false;
    keep_known(m, path, p);
    return true;
}

bool vr_check_messages(json_t *v, const char *path, struct vr_refusal *p)
{
    size_t n = json_array_size(v), n_pictures = 0;
    if (n == 0) return vr_refuse(p, path, "invalid_type", "'%s' must be an array of one message or more", path);
    if (n > VR_MOST_MESSAGES)
        return vr_refuse(p, path, "too_many", "'%s' has %zu messages, at most %d are allowed", path, n,
                         VR_MOST_MESSAGES);
    for (size_t i = 0; i < n; i++) {
        PATH(at, "%s[%zu]", path, i);
        if (!check_message(json_array_get(v, i), at, &n_pictures, p)) return false;
    }
    return true;
}

/* strict: the answer must obey, so a keyword that cannot be enforced is refused. Otherwise depth and size alone. */
static bool check_schema(json_t *v, enum vr_schema_of of, bool strict, const char *path, struct vr_refusal *p)
{
    struct vr_err why;
    if (!json_is_object(v)) return vr_refuse(p, path, "invalid_type", "'%s' must be a JSON schema", path);
    if (json_dumpb(v, NULL, 0, JSON_COMPACT) > VR_MOST_SCHEMA_BYTES)
        return vr_refuse(p, path, "schema_too_large", "'%s' has more than %d bytes", path, VR_MOST_SCHEMA_BYTES);
    if (strict && !vr_schema_rewrite(v)) return vr_refuse_nomem(p);
    if (strict && !vr_schema_check(v, of, NULL, NULL, &why))
        return vr_refuse(p, path, "invalid_schema", "'%s': %.300s", path, why.msg);
    return true;
}

bool vr_check_tools(json_t *v, const char *path, struct vr_refusal *p)
{
    size_t n = json_array_size(v);
    if (!json_is_array(v) || n > VR_MOST_TOOLS)
        return vr_refuse(p, path, "invalid_type", "'%s' must be an array of at most %d tools", path, VR_MOST_TOOLS);
    for (size_t i = 0; i < n; i++) {
        json_t *tool = json_array_get(v, i), *function = json_object_get(tool, "function");
        json_t *parameters = json_object_get(function, "parameters"), *strict = json_object_get(function, "strict");
        const char *type = json_string_value(json_object_get(tool, "type"));
        PATH(at, "%s[%zu]", path, i);
        PATH(inner, "%.60s.function.parameters", at);
        if (!type || strcmp(type, "function") != 0)
            return vr_refuse(p, at, "unsupported_content", "'%s.type' must be \"function\"", at);
        const char *name = json_string_value(json_object_get(function, "name"));
        if (!name || !is_name(name))
            return vr_refuse(p, at, "invalid_value",
                             "'%s.function.name' must be 1 to %d letters, digits, '_', '-' or '.'", at, MAX_NAME);
        if (!is_absent(strict) && !json_is_boolean(strict))
            return vr_refuse(p, at, "invalid_type", "'%s.function.strict' must be true or false", at);
        if (!is_absent(json_object_get(function, "description")) &&
            !json_is_string(json_object_get(function, "description")))
            return vr_refuse(p, at, "invalid_type", "'%s.function.description' must be a string", at);
        vr_notes_add_others(p->notes, tool, (const char *const[]){ "type", "function", NULL }, at);
        vr_notes_add_others(p->notes, function,
                            (const char *const[]){ "name", "description", "parameters", "strict", NULL }, at);
        if (is_absent(parameters)) continue;
        if (!check_schema(parameters, VR_SCHEMA_TOOL, json_is_true(strict), inner, p)) return false;
    }
    if (json_dumpb(v, NULL, 0, JSON_COMPACT) <= VR_MOST_TOOLS_BYTES) return true;
    return vr_refuse(p, path, "too_large", "'%s' has more than %d bytes", path, VR_MOST_TOOLS_BYTES);
}

bool vr_check_tool_choice(json_t *v, const char *path, struct vr_refusal *p)
{
    const char *word = json_string_value(v);
    if (word && (strcmp(word, "auto") == 0 || strcmp(word, "none") == 0 || strcmp(word, "required") == 0)) return true;
    const char *type = json_string_value(json_object_get(v, "type"));
    const char *name = json_string_value(json_object_get(json_object_get(v, "function"), "name"));
    if (type && strcmp(type, "function") == 0 && name && is_name(name)) return true;
    return vr_refuse(p, path, "invalid_value",
                     "'%s' must be auto, none, required, or {\"type\":\"function\",\"function\":{\"name\":...}}", path);
}

bool vr_check_response_format(json_t *v, const char *path, struct vr_refusal *p)
{
    const char *type = json_string_value(json_object_get(v, "type"));
    json_t *beside = json_object_get(v, "schema");
    vr_notes_add_others(p->notes, v, (const char *const[]){ "type", "json_schema", "schema", NULL }, path);
    vr_notes_add_others(p->notes, json_object_get(v, "json_schema"),
                        (const char *const[]){ "name", "description", "schema", "strict", NULL }, path);
    if (type && strcmp(type, "json_object") == 0 && !is_absent(beside)) { /* llama.cpp's way to give one: it counts */
        json_t *wrapped = json_pack("{s:s,s:O}", "name", "answer", "schema", beside);
        if (json_object_set_new(v, "json_schema", wrapped) != 0 ||
            json_object_set_new(v, "type", json_string("json_schema")) != 0)
            return vr_refuse_nomem(p);
        type = "json_schema";
    }
    if (type && (strcmp(type, "text") == 0 || strcmp(type, "json_object") == 0)) return true;
    if (!type || strcmp(type, "json_schema") != 0)
        return vr_refuse(p, path, "invalid_value", "'%s.type' must be text, json_object or json_schema", path);
    json_t *format = json_object_get(v, "json_schema"), *schema = json_object_get(format, "schema");
    if (!schema) return vr_refuse(p, path, "missing_required_parameter", "'%s.json_schema.schema' is missing", path);
    PATH(at, "%.60s.json_schema.schema", path);
    return check_schema(schema, VR_SCHEMA_ANSWER, true, at, p);
}

static const char *tool_name(const json_t *tool)
{
    return json_string_value(json_object_get(json_object_get(tool, "function"), "name"));
}

static bool check_choice_of(const json_t *tools, const json_t *choice, struct vr_refusal *p)
{
    const char *word = json_string_value(choice);
    size_t n = json_array_size(tools);
    if (!choice || (word && strcmp(word, "required") != 0)) return true;
    if (n == 0) return vr_refuse(p, "tool_choice", "invalid_value", "'tool_choice' needs 'tools'");
    if (word) return true;
    for (size_t i = 0; i < n; i++)
        if (strcmp(tool_name(json_array_get(tools, i)), tool_name(choice)) == 0) return true;
    return vr_refuse(p, "tool_choice", "invalid_value", "'tool_choice' names a function that is not in 'tools'");
}

/* What the assistant began to say can be continued; calls that it made cannot. */
static bool check_continued(const json_t *body, struct vr_refusal *p)
{
    const json_t *messages = vr_request_get(body, VR_FIELD_messages);
    const json_t *last = json_array_get(messages, json_array_size(messages) - 1);
    const char *role = json_string_value(json_object_get(last, "role")), *field = "continue_final_message";
    if (!json_is_true(vr_request_get(body, VR_FIELD_continue_final_message))) return true;
    if (json_is_true(vr_request_get(body, VR_FIELD_add_generation_prompt)))
        return vr_refuse(p, field, "invalid_value", "give '%s' or 'add_generation_prompt', not both", field);
    if (strcmp(role, "assistant") == 0 && json_array_size(json_object_get(last, "tool_calls")) == 0) return true;
    return vr_refuse(p, field, "invalid_value", "'%s' needs a last message of the assistant, without tool calls",
                     field);
}

bool vr_check_chat_together(const json_t *body, struct vr_refusal *p)
{
#define GET(field) vr_request_get(body, VR_FIELD_##field)
    const json_t *tools = GET(tools), *choice = GET(tool_choice);
    const char *format = json_string_value(json_object_get(GET(response_format), "type"));
    const char *word = json_string_value(choice);
    if (GET(top_logprobs) && !json_is_true(GET(logprobs)))
        return vr_refuse(p, "top_logprobs", "invalid_value", "'top_logprobs' needs 'logprobs': true");
    if (GET(max_tokens) && GET(max_completion_tokens) && !json_equal(GET(max_tokens), GET(max_completion_tokens)))
        return vr_refuse(p, "max_tokens", "invalid_value",
                         "'max_tokens' and 'max_completion_tokens' are not the same: give one of them");
    if (!check_choice_of(tools, choice, p) || !check_continued(body, p)) return false;
    if (json_array_size(tools) == 0) return true;
    if (GET(grammar)) return vr_refuse(p, "grammar", "invalid_value", "give 'grammar' or 'tools', not both");
    if (format && strcmp(format, "text") != 0 && !(word && strcmp(word, "none") == 0))
        return vr_refuse(p, "response_format", "invalid_value",
                         "'response_format' and 'tools' exclude each other, unless 'tool_choice' is none");
#undef GET
    return true;
}
