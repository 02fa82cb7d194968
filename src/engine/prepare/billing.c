#include "engine/prepare/billing.h"

#include <string.h>

static const char HEADER[] = "x-anthropic-billing-header:";

static bool begins(const json_t *text)
{
    const char *s = json_string_value(text);
    return s && strncmp(s, HEADER, sizeof HEADER - 1) == 0;
}

static bool is_system(const json_t *message)
{
    const char *role = json_string_value(json_object_get(message, "role"));
    return role && (strcmp(role, "system") == 0 || strcmp(role, "developer") == 0);
}

/* What follows the line. */
static json_t *rest(const json_t *text)
{
    const char *s = json_string_value(text), *end = strchr(s, '\n');
    while (end && *end == '\n') end++;
    return json_string(end ? end : "");
}

/* One text of a part: the part goes if nothing is left of it. */
static bool drop_part(json_t *parts, size_t *i)
{
    json_t *part = json_array_get(parts, *i), *text = json_object_get(part, "text");
    if (!begins(text)) return ++*i, true;
    json_t *left = rest(text);
    if (!left) return false;
    if (json_string_length(left) > 0) return ++*i, json_object_set_new(part, "text", left) == 0;
    json_decref(left);
    return json_array_remove(parts, *i) == 0;
}

static bool drop_parts(json_t *message, json_t *parts)
{
    for (size_t i = 0; i < json_array_size(parts);)
        if (!drop_part(parts, &i)) return false;
    return json_array_size(parts) > 0 || json_object_set_new(message, "content", json_string("")) == 0;
}

bool vr_billing_drop(json_t *messages)
{
    for (size_t i = 0; i < json_array_size(messages); i++) {
        json_t *message = json_array_get(messages, i), *content = json_object_get(message, "content");
        if (!is_system(message)) continue;
        bool ok = begins(content)                ? json_object_set_new(message, "content", rest(content)) == 0
                  : json_array_size(content) > 0 ? drop_parts(message, content)
                                                 : true;
        if (!ok) return false;
    }
    return true;
}
