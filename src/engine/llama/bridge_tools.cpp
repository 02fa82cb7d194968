/* Tools for models whose chat template has no place for them: they are described in the system message, calls and their
 * results are written as text between tags, and the same tags begin a call in an answer. Grammar and parser are made
 * with llama.cpp's own builder, so that from there on it is a format like any other. */
#include <string>
#include <vector>

#include <chat-peg-parser.h>
#include <json-schema-to-grammar.h>

#include "engine/llama/bridge_tools.h"

static const std::string CALL = "<tool_call>", CALL_END = "</tool_call>", RESULT = "<tool_response>",
                         RESULT_END = "</tool_response>";

static std::string describe(const common_json &tools, bool required)
{
    std::string text = "You can call functions:\n";
    for (const auto &tool : tools) text += tool.at("function").dump() + "\n";
    text += "To call one, write " + CALL + "{\"name\": \"...\", \"arguments\": {...}}" + CALL_END +
            " and nothing after it. The result comes between " + RESULT + " and " + RESULT_END + ".";
    return text + (required ? " Call one now." : " Call one only if you need it.");
}

/* Behind what the system says already, or before everything. */
static void add_system(std::vector<common_chat_msg> &messages, const std::string &text)
{
    if (messages.empty() || (messages[0].role != "system" && messages[0].role != "developer")) {
        common_chat_msg system;
        system.role = "system";
        messages.insert(messages.begin(), system);
    }
    common_chat_msg &first = messages[0];
    const std::string said = first.render_content();
    first.content_parts.clear();
    first.content = said.empty() ? text : said + "\n\n" + text;
}

static void write_calls(common_chat_msg &m)
{
    std::string text = m.render_content();
    for (const auto &call : m.tool_calls)
        text += CALL + "{\"name\": " + common_json(call.name).dump() +
                ", \"arguments\": " + (call.arguments.empty() ? "{}" : call.arguments) + "}" + CALL_END;
    m.content_parts.clear();
    m.tool_calls.clear();
    m.content = text;
}

/* Results are what the user says; several in a row are one message, since many templates want turns to alternate. */
std::vector<common_chat_msg> vr_tools_messages(const std::vector<common_chat_msg> &messages)
{
    std::vector<common_chat_msg> out;
    bool result = false;
    for (const auto &m : messages) {
        const bool tool = m.role == "tool";
        if (tool && result) {
            out.back().content += "\n" + RESULT + m.render_content() + RESULT_END;
            continue;
        }
        out.push_back(m);
        if (!m.tool_calls.empty()) write_calls(out.back());
        if (tool) {
            out.back() = {};
            out.back().role = "user";
            out.back().content = RESULT + m.render_content() + RESULT_END;
        }
        result = tool;
    }
    return out;
}

static common_peg_arena build(const common_chat_params &params, const common_json &tools, bool parallel, bool required,
                              bool thinks)
{
    return build_chat_peg_parser([&](common_chat_peg_builder &p) {
        const auto call = p.standard_json_tools(CALL, CALL_END, tools, false, true);
        const auto calls = p.trigger_rule("tool-calls", parallel ? p.one_or_more(call + p.space()) : call + p.space());
        auto thought = p.eps();
        if (thinks && !params.thinking_start_tag.empty() && !params.thinking_end_tags.empty())
            thought =
                p.optional(p.optspace(params.thinking_start_tag) + p.reasoning(p.until(params.thinking_end_tags[0])) +
                           p.optspace(params.thinking_end_tags[0]));
        const auto said = required ? calls : p.optional(p.content(p.until(CALL))) + p.optional(calls);
        return p.prefix(params.generation_prompt, params.thinking_start_tag) << thought + said + p.end();
    });
}

common_chat_params vr_tools_apply(const common_chat_templates *templates, const common_chat_templates_inputs &inputs,
                                  const common_json &tools)
{
    const bool required = inputs.tool_choice == COMMON_CHAT_TOOL_CHOICE_REQUIRED;
    common_chat_templates_inputs in = inputs;
    add_system(in.messages, describe(tools, required));
    in.tools.clear();
    in.tool_choice = COMMON_CHAT_TOOL_CHOICE_NONE;
    common_chat_params params = common_chat_templates_apply(templates, in);
    const bool thinks = params.supports_thinking && in.reasoning_format != COMMON_REASONING_FORMAT_NONE;
    const auto parser = build(params, tools, inputs.parallel_tool_calls, required, thinks);
    params.format = COMMON_CHAT_FORMAT_PEG_NATIVE;
    params.parser = parser.save();
    params.grammar_lazy = !required;
    params.grammar = build_grammar(
        [&](const common_grammar_builder &builder) { parser.build_grammar(builder, params.grammar_lazy); });
    params.grammar_triggers.clear();
    if (!required) params.grammar_triggers.push_back({ COMMON_GRAMMAR_TRIGGER_TYPE_WORD, CALL });
    params.preserved_tokens.push_back(CALL);
    params.preserved_tokens.push_back(CALL_END);
    return params;
}
