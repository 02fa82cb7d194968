/* What is in a conversation: messages, their parts and calls, the tools, the form of the answer. Keys of a message that
 * change nothing (what OpenAI adds to its own answers and clients send back) are dropped; those that it would act on
 * are refused. */
#include "server/api/body.h"

#include <stdio.h>
#include <string.h>

#include "engine/wire/limits.h"
#include "engine/wire/schema.h"

#define MAX_PARTS 1024
#define MAX_CALLS 128
#define MAX_NAME  64

#define PATH(name, ...)                                                                                                \
    char name[96];                                                                                                     \
    snprintf(name, sizeof name, __VA_ARGS__)

static bool is_absent(const json_t *v) { return !v || json_is_null(v); }

static bool is_name(const char *s)
{
    size_t n = strlen(s);
    return n > 0 && n <= MAX_NAME &&
           strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") == n;
}

static bool check_text(const json_t *object, const char *key, const char *path, struct vr_body_error *p)
{
    if (json_is_string(json_object_get(object, key))) return true;
    PATH(at, "%.80s.%s", path, key);
    return vr_body_error_set(p, at, "invalid_type", "'%s' must be a string", at);
}

/* Parts of text, one kind of which every template knows. */
static bool check_parts(const json_t *parts, const char *path, struct vr_body_error *p)
{
    size_t n = json_array_size(parts);
    if (n > MAX_PARTS) return vr_body_error_set(p, path, "too_many", "'%s' has more than %d parts", path, MAX_PARTS);
    for (size_t i = 0; i < n; i++) {
        json_t *part = json_array_get(parts, i);
        const char *type = json_string_value(json_object_get(part, "type"));
        PATH(at, "%.60s[%zu]", path, i);
        if (!type) return vr_body_error_set(p, at, "invalid_type", "'%s' must be an object with a 'type'", at);
        if (strcmp(type, "text") == 0 || strcmp(type, "refusal") == 0) {
            if (!check_text(part, type, at, p)) return false;
            continue;
        }
        if (strcmp(type, "image_url") == 0) { /* whether the model can see is the engine's to say */
            const json_t *v = json_object_get(part, "image_url");
            if (json_is_string(v ? json_object_get(v, "url") : NULL)) continue;
            return vr_body_error_set(p, at, "invalid_type", "'%s.image_url.url' must be a string", at);
        }
        if (strcmp(type, "input_audio") == 0 || strcmp(type, "file") == 0)
            return vr_body_error_set(p, at, "unsupported_content",
                                     "'%s' is of type %s: this server takes text and pictures only", at, type);
        return vr_body_error_set(p, at, "invalid_value", "'%s' is of type '%.40s', which is not known", at, type);
    }
    return true;
}

static bool check_calls(json_t *calls, const char *path, struct vr_body_error *p)
{
    if (!json_is_array(calls) || json_array_size(calls) > MAX_CALLS)
        return vr_body_error_set(p, path, "invalid_type", "'%s' must be an array of at most %d calls", path, MAX_CALLS);
    for (size_t i = 0; i < json_array_size(calls); i++) {
        json_t *call = json_array_get(calls, i), *function = json_object_get(call, "function");
        const char *type = json_string_value(json_object_get(call, "type"));
        PATH(at, "%.60s[%zu]", path, i);
        PATH(inner, "%.80s.function", at);
        if (type && strcmp(type, "function") != 0)
            return vr_body_error_set(p, at, "unsupported_content",
                                     "'%s' is of type '%.40s': only functions are called here", at, type);
        if (!check_text(call, "id", at, p) || !check_text(function, "name", inner, p) ||
            !check_text(function, "arguments", inner, p))
            return false;
    }
    return true;
}

/* Fields of a message that the engine gets; the others are taken away. */
static void keep_known(json_t *message)
{
    static const char *const known[] = { "role", "content", "name", "tool_calls", "tool_call_id", "reasoning_content" };
    const char *key;
    json_t *v;
    void *next;
    json_object_foreach_safe(message, next, key, v)
    {
        bool keep = false;
        for (size_t i = 0; i < VR_COUNT(known); i++) keep = keep || strcmp(key, known[i]) == 0;
        if (!keep || (json_is_null(v) && strcmp(key, "content") != 0)) json_object_del(message, key);
    }
}

static bool check_message(json_t *m, const char *path, struct vr_body_error *p)
{
    static const char *const roles[] = { "system", "developer", "user", "assistant", "tool" };
    const char *role = json_string_value(json_object_get(m, "role"));
    json_t *content = json_object_get(m, "content"), *calls = json_object_get(m, "tool_calls");
    PATH(at, "%.60s.content", path);
    bool known = false;
    if (!json_is_object(m)) return vr_body_error_set(p, path, "invalid_type", "'%s' must be an object", path);
    for (size_t i = 0; role && i < VR_COUNT(roles); i++) known = known || strcmp(role, roles[i]) == 0;
    if (!known)
        return vr_body_error_set(p, path, "invalid_value",
                                 "'%s.role' must be system, developer, user, assistant or tool", path);
    bool assistant = strcmp(role, "assistant") == 0;
    if (!is_absent(json_object_get(m, "function_call")) || !is_absent(json_object_get(m, "audio")))
        return vr_body_error_set(p, path, "unsupported_content",
                                 "'%s' has a function_call or audio, which are not supported", path);
    if (!is_absent(calls)) {
        PATH(inner, "%.60s.tool_calls", path);
        if (!assistant)
            return vr_body_error_set(p, inner, "invalid_value", "'%s' belongs to an assistant's message", inner);
        if (!check_calls(calls, inner, p)) return false;
    }
    if (strcmp(role, "tool") == 0 && !check_text(m, "tool_call_id", path, p)) return false;
    if (!is_absent(json_object_get(m, "name")) && !check_text(m, "name", path, p)) return false;
    if (!is_absent(json_object_get(m, "reasoning_content")) && !check_text(m, "reasoning_content", path, p))
        return false;
    if (json_is_array(content)) {
        if (!check_parts(content, at, p)) return false;
    } else if (!json_is_string(content) && !(is_absent(content) && assistant)) {
        return vr_body_error_set(p, at, "invalid_type", "'%s' must be a string or an array of parts", at);
    }
    keep_known(m);
    return true;
}

bool vr_check_messages(json_t *v, const char *path, struct vr_body_error *p)
{
    size_t n = json_array_size(v);
    if (n == 0) return vr_body_error_set(p, path, "invalid_type", "'%s' must be an array of one message or more", path);
    if (n > VR_MOST_MESSAGES)
        return vr_body_error_set(p, path, "too_many", "'%s' has %zu messages, at most %d are taken", path, n,
                                 VR_MOST_MESSAGES);
    for (size_t i = 0; i < n; i++) {
        PATH(at, "%s[%zu]", path, i);
        if (!check_message(json_array_get(v, i), at, p)) return false;
    }
    return true;
}

/* strict: the answer must obey, so a keyword that cannot be enforced is refused. Otherwise depth and size alone. */
static bool check_schema(json_t *v, bool strict, const char *path, struct vr_body_error *p)
{
    struct vr_err why;
    if (!json_is_object(v)) return vr_body_error_set(p, path, "invalid_type", "'%s' must be a JSON schema", path);
    if (json_dumpb(v, NULL, 0, JSON_COMPACT) > VR_MOST_SCHEMA_BYTES)
        return vr_body_error_set(p, path, "schema_too_large", "'%s' has more than %d bytes", path,
                                 VR_MOST_SCHEMA_BYTES);
    if (strict && !vr_schema_check(v, NULL, NULL, &why))
        return vr_body_error_set(p, path, "invalid_schema", "'%s': %.300s", path, why.msg);
    return true;
}

bool vr_check_tools(json_t *v, const char *path, struct vr_body_error *p)
{
    size_t n = json_array_size(v);
    if (!json_is_array(v) || n > VR_MOST_TOOLS)
        return vr_body_error_set(p, path, "invalid_type", "'%s' must be an array of at most %d tools", path,
                                 VR_MOST_TOOLS);
    for (size_t i = 0; i < n; i++) {
        json_t *tool = json_array_get(v, i), *function = json_object_get(tool, "function");
        json_t *parameters = json_object_get(function, "parameters"), *strict = json_object_get(function, "strict");
        const char *type = json_string_value(json_object_get(tool, "type"));
        PATH(at, "%s[%zu]", path, i);
        PATH(inner, "%.60s.function.parameters", at);
        if (!type || strcmp(type, "function") != 0)
            return vr_body_error_set(p, at, "unsupported_content", "'%s.type' must be \"function\"", at);
        const char *name = json_string_value(json_object_get(function, "name"));
        if (!name || !is_name(name))
            return vr_body_error_set(p, at, "invalid_value",
                                     "'%s.function.name' must be 1 to %d letters, digits, '_', '-' or '.'", at,
                                     MAX_NAME);
        if (!is_absent(strict) && !json_is_boolean(strict))
            return vr_body_error_set(p, at, "invalid_type", "'%s.function.strict' must be true or false", at);
        if (!is_absent(json_object_get(function, "description")) &&
            !json_is_string(json_object_get(function, "description")))
            return vr_body_error_set(p, at, "invalid_type", "'%s.function.description' must be a string", at);
        if (is_absent(parameters)) continue;
        if (!check_schema(parameters, json_is_true(strict), inner, p)) return false;
    }
    if (json_dumpb(v, NULL, 0, JSON_COMPACT) <= VR_MOST_TOOLS_BYTES) return true;
    return vr_body_error_set(p, path, "too_large", "'%s' has more than %d bytes", path, VR_MOST_TOOLS_BYTES);
}

bool vr_check_tool_choice(json_t *v, const char *path, struct vr_body_error *p)
{
    const char *word = json_string_value(v);
    if (word && (strcmp(word, "auto") == 0 || strcmp(word, "none") == 0 || strcmp(word, "required") == 0)) return true;
    const char *type = json_string_value(json_object_get(v, "type"));
    const char *name = json_string_value(json_object_get(json_object_get(v, "function"), "name"));
    if (type && strcmp(type, "function") == 0 && name && is_name(name)) return true;
    return vr_body_error_set(
        p, path, "invalid_value",
        "'%s' must be auto, none, required, or {\"type\":\"function\",\"function\":{\"name\":...}}", path);
}

bool vr_check_response_format(json_t *v, const char *path, struct vr_body_error *p)
{
    const char *type = json_string_value(json_object_get(v, "type"));
    if (type && (strcmp(type, "text") == 0 || strcmp(type, "json_object") == 0)) return true;
    if (!type || strcmp(type, "json_schema") != 0)
        return vr_body_error_set(p, path, "invalid_value", "'%s.type' must be text, json_object or json_schema", path);
    json_t *format = json_object_get(v, "json_schema"), *schema = json_object_get(format, "schema");
    if (!schema)
        return vr_body_error_set(p, path, "missing_required_parameter", "'%s.json_schema.schema' is missing", path);
    PATH(at, "%.60s.json_schema.schema", path);
    return check_schema(schema, true, at, p);
}
