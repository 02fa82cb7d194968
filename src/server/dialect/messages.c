#include "server/dialect/messages.h"

#include <stdio.h>
#include <string.h>

#include "server/dialect/fields.h"

static const struct vr_field_row fields[] = {
#include "server/dialect/messages.def"
};

static bool read_tools(const json_t *body, json_t *out, struct vr_translation *t)
{
    static const struct vr_field_row rows[] = { PASS(type) OWN(name) OWN(description) OWN(input_schema) OWN(strict)
                                                    PASS(cache_control) PASS(eager_input_streaming) NOTE(defer_loading)
                                                        NOTE(allowed_callers) NOTE(input_examples) };
    const json_t *tools = vr_get(body, "tools");
    json_t *list = json_array();
    bool ok = !tools || json_is_array(tools) || vr_refuse(t->why, "tools", "invalid_type", "'tools' must be an array");
    for (size_t i = 0; ok && i < json_array_size(tools); i++) {
        const json_t *tool = json_array_get(tools, i);
        const char *type = vr_get_text(tool, "type");
        char at[32];
        snprintf(at, sizeof at, "tools[%zu]", i);
        if (type && strcmp(type, "custom") != 0) {
            ok = vr_refuse(t->why, at, "unsupported_parameter",
                           "'%s' is of type '%.40s': this server runs no tools itself", at, type);
            continue;
        }
        ok = vr_fields_read(tool, rows, VR_COUNT(rows), at, NULL, t);
        vr_append(t, list,
                  json_pack("{s:s,s:{s:O*,s:O*,s:O*,s:O*}}", "type", "function", "function", "name",
                            vr_get(tool, "name"), "description", vr_get(tool, "description"), "parameters",
                            vr_get(tool, "input_schema"), "strict", vr_get(tool, "strict")));
    }
    if (ok && json_array_size(list))
        vr_put(t, out, "tools", list);
    else
        json_decref(list);
    return ok;
}

static bool read_choice(const json_t *body, json_t *out, struct vr_translation *t)
{
    const json_t *v = vr_get(body, "tool_choice");
    const char *type = vr_get_text(v, "type");
    if (!v) return true;
    vr_notes_add_others(&t->notes, v, (const char *const[]){ "type", "name", "disable_parallel_tool_use", NULL },
                        "tool_choice");
    if (json_is_true(vr_get(v, "disable_parallel_tool_use"))) vr_put(t, out, "parallel_tool_calls", json_false());
    if (vr_is(type, "auto") || vr_is(type, "none"))
        vr_put(t, out, "tool_choice", json_string(type));
    else if (vr_is(type, "any"))
        vr_put(t, out, "tool_choice", json_string("required"));
    else if (vr_is(type, "tool"))
        vr_put(t, out, "tool_choice",
               json_pack("{s:s,s:{s:O?}}", "type", "function", "function", "name", vr_get(v, "name")));
    else
        return vr_refuse(t->why, "tool_choice", "invalid_value", "'tool_choice.type' must be auto, any, tool or none");
    return true;
}

/* {"type":"json_schema","schema":{...}} */
static bool read_format(const json_t *format, const char *at, json_t *out, struct vr_translation *t)
{
    if (!format) return true;
    if (!vr_is(vr_get_text(format, "type"), "json_schema") || !vr_get(format, "schema"))
        return vr_refuse(t->why, at, "invalid_value", "'%s' must be {\"type\":\"json_schema\",\"schema\":...}", at);
    vr_put(t, out, "response_format",
           json_pack("{s:s,s:{s:s,s:O}}", "type", "json_schema", "json_schema", "name", "answer", "schema",
                     vr_get(format, "schema")));
    return true;
}

static bool read_output(const json_t *body, json_t *out, struct vr_translation *t)
{
    static const struct vr_field_row rows[] = { OWN(effort) OWN(format) NOTE(task_budget) };
    const json_t *config = vr_get(body, "output_config");
    const char *effort = vr_get_text(config, "effort");
    if (vr_get(config, "format") && vr_get(body, "output_format"))
        return vr_refuse(t->why, "output_format", "invalid_value",
                         "give 'output_config.format' or 'output_format', not both");
    if (!vr_fields_read(config, rows, VR_COUNT(rows), "output_config", out, t)) return false;
    if (effort) vr_put(t, out, "reasoning_effort", json_string(strcmp(effort, "max") == 0 ? "xhigh" : effort));
    return read_format(vr_get(config, "format"), "output_config.format", out, t) &&
           read_format(vr_get(body, "output_format"), "output_format", out, t);
}

/* Without it nothing is thought, as with Anthropic's models; of those that always think it comes as blocks, too. How
 * long a thought may be cannot be told to a model. */
static bool read_thinking(const json_t *body, json_t *out, struct vr_translation *t)
{
    const json_t *v = vr_get(body, "thinking");
    const char *type = vr_get_text(v, "type");
    bool on = vr_is(type, "enabled") || vr_is(type, "adaptive");
    if (v && !on && !vr_is(type, "disabled"))
        return vr_refuse(t->why, "thinking", "invalid_value", "'thinking.type' must be enabled, adaptive or disabled");
    vr_notes_add_others(&t->notes, v, (const char *const[]){ "type", NULL }, "thinking");
    json_t *given = vr_get(out, "chat_template_kwargs");
    if (given && !json_is_object(given)) return true; /* refused by the table of fields */
    json_t *kwargs = given ? json_copy(given) : json_object();
    if (!vr_get(kwargs, "enable_thinking")) vr_put(t, kwargs, "enable_thinking", json_boolean(on));
    vr_put(t, out, "chat_template_kwargs", kwargs);
    return true;
}

static bool read_limit(const json_t *body, json_t *out, struct vr_translation *t)
{
    json_t *v = vr_get(body, "max_tokens");
    if (v) vr_put(t, out, "max_tokens", json_incref(v));
    return v || t->look || vr_refuse(t->why, "max_tokens", "missing_required_parameter", "'max_tokens' is missing");
}

static bool read_messages(const json_t *body, json_t *out, struct vr_translation *t)
{
    json_t *messages = vr_messages_read(vr_get(body, "system"), vr_get(body, "messages"), t);
    vr_continue_last(t, messages, out);
    if (messages) vr_put(t, out, "messages", messages);
    return messages != NULL;
}

static bool remember(const json_t *body, struct vr_translation *t)
{
    json_t *stops = vr_get(body, "stop_sequences");
    t->memo = json_pack("{s:o}", VR_MEMO_STOPS, stops ? json_incref(stops) : json_array());
    return t->memo || vr_refuse_nomem(t->why);
}

json_t *vr_messages_translate(json_t *body, struct vr_translation *t)
{
    json_t *out = json_object();
    if (!out) return vr_refuse_nomem(t->why), NULL;
    if (vr_fields_read(body, fields, VR_COUNT(fields), "", out, t) && read_limit(body, out, t) &&
        read_tools(body, out, t) && read_choice(body, out, t) && read_output(body, out, t) &&
        read_thinking(body, out, t) && read_messages(body, out, t) && remember(body, t))
        return out;
    json_decref(out);
    return NULL;
}

json_t *vr_messages_translate_count(json_t *body, struct vr_translation *t)
{
    t->look = "count";
    return vr_messages_translate(body, t);
}
