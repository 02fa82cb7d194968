/* With bridge_lora.cpp, bridge_media.cpp, bridge_sound.cpp and bridge_tools.cpp the only C++ of the project: each
 * function calls one of llama.cpp's and turns exceptions into an error. */
#include <algorithm>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <regex>
#include <string>
#include <vector>

#include <unistd.h>

#include <chat.h>
#include <clip.h>
#include <common.h>
#include <fit.h>
#include <json-schema-to-grammar.h>
#include <llama-ext.h>
#include <log.h>
#include <mtmd.h>

#include "engine/llama/bridge.h"
#include "engine/llama/bridge_guard.h"
#include "engine/llama/bridge_tools.h"

extern "C" {
#include "base/buf.h"
#include "base/json.h"
}

/* Public, but in no header that can be included alone. */
struct llama_context {
    ggml_backend_sched_t get_sched() const;
    bool memory_update(bool optimize);
};

int vr_bridge_breakdown(const struct llama_context *ctx, struct vr_bridge_use *out, int max, struct vr_err *err)
{
    return guard("memory breakdown", -1, err, [&] {
        int n = 0;
        for (const auto &[buft, use] : llama_get_memory_breakdown(ctx)) {
            if (n < max) out[n] = { buft, use.model, use.context, use.compute };
            n++;
        }
        return n;
    });
}

struct ggml_cgraph *vr_bridge_reserve(struct llama_context *ctx, uint32_t n_tokens, uint32_t n_seqs, uint32_t n_outputs,
                                      struct vr_err *err)
{
    return guard("graph reserve", (ggml_cgraph *)nullptr, err, [&] {
        ggml_cgraph *g = llama_graph_reserve(ctx, n_tokens, n_seqs, n_outputs);
        if (!g) vr_fail(err, VR_EENGINE, "the engine could not reserve its compute buffers");
        return g;
    });
}

static void say_errors(enum ggml_log_level level, const char *text, void *)
{
    if (level == GGML_LOG_LEVEL_ERROR && write(2, text, strlen(text)) < 0) return; /* the parent is gone */
}

bool vr_bridge_clip_reserve(const char *path, ggml_backend_dev_t dev, enum llama_flash_attn_type flash,
                            struct vr_bridge_clip *out, struct vr_err *err)
{
    return guard("mmproj", false, err, [&] {
        clip_context_params p = {};
        p.use_gpu = dev != nullptr;
        p.device = dev;
        p.flash_attn_type = flash == LLAMA_FLASH_ATTN_TYPE_AUTO      ? CLIP_FLASH_ATTN_TYPE_AUTO
                            : flash == LLAMA_FLASH_ATTN_TYPE_ENABLED ? CLIP_FLASH_ATTN_TYPE_ENABLED
                                                                     : CLIP_FLASH_ATTN_TYPE_DISABLED;
        p.image_min_tokens = p.image_max_tokens = -1;
        p.warmup = true;
        p.no_alloc = true;
        mtmd_log_set(say_errors, nullptr);
        clip_init_result r = clip_init(path, p);
        *out = {};
        for (clip_ctx *c : { r.ctx_v, r.ctx_a }) {
            if (!c) continue;
            out->n_embd = (uint32_t)clip_n_mmproj_embd(c);
            for (const auto &[where, bytes] : clip_get_mem_usage(c))
                if (ggml_backend_dev_type(where) == GGML_BACKEND_DEVICE_TYPE_CPU) out->cpu_bytes += bytes;
        }
        return out->n_embd > 0 ||
               vr_fail(err, VR_EENGINE, "the engine does not support this vision projector (mmproj)");
    });
}

ggml_backend_sched_t vr_bridge_sched(const struct llama_context *ctx) { return ctx->get_sched(); }

int vr_bridge_fit(const char *path, struct llama_model_params *model, struct llama_context_params *context,
                  float *split, struct llama_model_tensor_buft_override *overrides, size_t *margins, uint32_t n_ctx_min,
                  struct vr_err *err)
{
    return guard("llama.cpp's fit", -1, err, [&] {
        common_log_set_verbosity_thold(LOG_LEVEL_ERROR);
        switch (common_fit_params(path, model, context, split, overrides, margins, n_ctx_min, nullptr,
                                  GGML_LOG_LEVEL_ERROR)) {
        case COMMON_PARAMS_FIT_STATUS_SUCCESS: return 0;
        case COMMON_PARAMS_FIT_STATUS_FAILURE: return 1;
        default: vr_fail(err, VR_EENGINE, "llama.cpp's fit failed"); return -1;
        }
    });
}

void vr_bridge_quiet(void)
{
    common_log_set_verbosity_thold(-1);
    common_log_pause(common_log_main());
}

/* --- running a model --- */

int vr_bridge_decode(struct llama_context *ctx, struct llama_batch batch, struct vr_err *err)
{
    return guard("decoding", -3, err, [&] { return (int)llama_decode(ctx, batch); });
}

bool vr_bridge_memory_update(struct llama_context *ctx, struct vr_err *err)
{
    return guard("copying between sequences", false, err, [&] { return ctx->memory_update(false), true; });
}

/* malloc'd, for C. */
template <typename T> static T *copy_out(const T *data, size_t n)
{
    T *out = (T *)malloc((n + 1) * sizeof(T));
    if (!out) throw std::bad_alloc();
    if (n) memcpy(out, data, n * sizeof(T));
    return out;
}

int vr_bridge_tokenize_as(const struct llama_vocab *vocab, const char *text, size_t n, bool special, bool parse,
                          llama_token **out, struct vr_err *err)
{
    return guard("tokenizing", -1, err, [&] {
        const auto tokens = common_tokenize(vocab, std::string(text, n), special, parse);
        *out = copy_out(tokens.data(), tokens.size());
        return (int)tokens.size();
    });
}

int vr_bridge_tokenize(const struct llama_vocab *vocab, const char *text, size_t n, bool special, llama_token **out,
                       struct vr_err *err)
{
    return vr_bridge_tokenize_as(vocab, text, n, special, true, out, err);
}

int vr_bridge_detokenize(const struct llama_vocab *vocab, const llama_token *tokens, size_t n, char **out,
                         struct vr_err *err)
{
    return guard("detokenizing", -1, err, [&] {
        std::string text; /* not common_detokenize(), which makes "France ?" into "France?" for some models */
        for (size_t i = 0; i < n; i++) text += common_token_to_piece(vocab, tokens[i], true);
        *out = copy_out(text.data(), text.size());
        return (int)text.size();
    });
}

/* --- grammars --- */

struct vr_patterns {
    std::vector<std::pair<std::string, std::regex>> all;
};

struct vr_patterns *vr_bridge_patterns_new(const struct vr_trigger *triggers, size_t n, struct vr_err *err)
{
    return guard("a trigger of the grammar", (vr_patterns *)nullptr, err, [&] {
        auto p = std::make_unique<vr_patterns>();
        for (size_t i = 0; i < n; i++) {
            const std::string text = triggers[i].pattern ? std::string(triggers[i].text.data, triggers[i].text.n) : "";
            p->all.emplace_back(text, std::regex(text));
        }
        return p.release();
    });
}

void vr_bridge_patterns_free(struct vr_patterns *p) { delete p; }

size_t vr_bridge_pattern_find(const void *patterns, size_t i, const char *text, size_t n, bool begins)
{
    const auto &[pattern, regex] = ((const vr_patterns *)patterns)->all[i];
    const auto flags = begins ? std::regex_constants::match_default : std::regex_constants::match_not_bol;
    try {
        std::cmatch m;
        if (!std::regex_search(text, text + n, m, regex, flags)) return SIZE_MAX;
        for (size_t k = 1; k < m.size(); k++)
            if (m.length(k) > 0) return (size_t)m.position(k);
        return (size_t)m.position(0);
    } catch (const std::exception &) {
        return SIZE_MAX; /* it gives up on long texts */
    }
}

bool vr_bridge_schema_grammar(const char *schema_json, char **out, struct vr_err *err)
{
    return guard("the schema", false, err, [&] {
        const std::string gbnf = json_schema_to_grammar(common_json::parse(schema_json));
        *out = copy_out(gbnf.c_str(), gbnf.size() + 1);
        return true;
    });
}

/* The conversion only warns of a pattern that it cannot convert, and takes any string instead; then the rule for
 * strings is there, which a converted pattern does not need. */
bool vr_bridge_pattern_ok(const char *pattern, struct vr_err *err)
{
    return guard("the pattern", false, err, [&] {
        common_json schema = common_json::object();
        schema["type"] = "string";
        schema["pattern"] = std::string(pattern);
        const std::string gbnf = "\n" + json_schema_to_grammar(schema);
        if (gbnf.find("\nstring ::=") == std::string::npos) return true;
        return vr_fail(err, VR_EUSAGE,
                       "the pattern cannot be enforced: it must do without lookarounds, backreferences, word "
                       "boundaries and anchors in its middle");
    });
}

/* --- chats --- */

struct vr_chats {
    common_chat_templates_ptr templates;
    vr_chat_caps caps = {};
};

struct vr_chats *vr_bridge_chats_open(const struct llama_model *model, const char *template_or_null,
                                      struct vr_chat_caps *caps, struct vr_err *err)
{
    return guard("the chat template", (vr_chats *)nullptr, err, [&] {
        auto c = std::make_unique<vr_chats>();
        c->templates = common_chat_templates_init(model, template_or_null ? template_or_null : "");
        auto has = common_chat_templates_get_caps(c->templates.get());
        c->caps.given = common_chat_templates_was_explicit(c->templates.get());
        c->caps.tools = has["supports_tools"] || has["supports_tool_calls"];
        c->caps.parallel_tools = has["supports_parallel_tool_calls"];
        c->caps.system = has["supports_system_role"];
        try {
            c->caps.reasoning = common_chat_templates_support_enable_thinking(c->templates.get());
        } catch (const std::exception &) {
            c->caps.reasoning = false; /* the template does not take that conversation; it says why when it is used */
        }
        *caps = c->caps;
        return c.release();
    });
}

void vr_bridge_chats_close(struct vr_chats *c) { delete c; }

bool vr_bridge_asr_words(const struct vr_chats *c, struct vr_buf *system, struct vr_buf *user, struct vr_err *err)
{
    return guard("asking for a transcription", false, err, [&] {
        const common_chat_prompt_preset words = common_chat_get_asr_prompt(c->templates.get());
        vr_buf_add(system, words.system.data(), words.system.size());
        vr_buf_add(user, words.user.data(), words.user.size());
        return true;
    });
}

/* Of one that came as a form, `params` is empty; only one that was written out here can become a form. */
struct vr_chat {
    common_chat_params params;
    common_chat_parser_params syntax;
    std::vector<llama_token> kept; /* sorted */
    bool plain = false, tools = false, one_call = false, schema = false, thinks = false, continues = false;

    bool keeps(llama_token t) const { return std::binary_search(kept.begin(), kept.end(), t); }
    /* the grammar, and what its spec points to */
    std::vector<vr_trigger> triggers;
    std::vector<llama_token> trigger_tokens, begun, think;
    std::vector<llama_tokens> ends;
    std::vector<vr_ids> think_ends;
    vr_grammar_spec grammar = {};
};

static void read_inputs(const vr_chat_ask *ask, common_chat_templates_inputs &in)
{
    in.messages = common_chat_msgs_parse_oaicompat(common_json::parse(ask->messages));
    if (ask->tools) in.tools = common_chat_tools_parse_oaicompat(common_json::parse(ask->tools));
    in.tool_choice = common_chat_tool_choice_parse_oaicompat(ask->tool_choice);
    in.parallel_tool_calls = ask->parallel;
    in.reasoning_format = ask->keep_reasoning ? COMMON_REASONING_FORMAT_NONE : COMMON_REASONING_FORMAT_DEEPSEEK;
    if (ask->schema) in.json_schema = ask->schema;
    if (ask->continues) in.continue_final_message = COMMON_CHAT_CONTINUATION_AUTO;
    in.add_generation_prompt = !ask->continues && !ask->unopened;
    const common_json kwargs = ask->kwargs ? common_json::parse(ask->kwargs) : common_json::object();
    for (const auto &[key, value] : kwargs.items()) {
        if (key == "enable_thinking") in.enable_thinking = value.get<bool>();
        in.chat_template_kwargs[key] = value.dump();
    }
    if (!ask->effort) return;
    if (strcmp(ask->effort, "none") == 0)
        in.enable_thinking = false;
    else
        in.chat_template_kwargs["reasoning_effort"] = "\"" + std::string(ask->effort) + "\"";
}

/* Text comes out of the parser as it went in. */
static bool parses_as_text(const common_chat_parser_params &syntax)
{
    static const char probe[] = "One,  two.\n{\"three\": 3} <four>\n\nfive";
    try {
        const auto whole = common_chat_parse(probe, false, syntax);
        const auto part = common_chat_parse(probe, true, syntax);
        return whole.content == probe && part.content == probe && whole.reasoning_content.empty() &&
               whole.tool_calls.empty();
    } catch (const std::exception &) {
        return false;
    }
}

/* A template that refuses says so at the end of a report about itself. */
static std::string reason_of(const std::string &report)
{
    for (const char *mark : { "Jinja Exception: ", "\nError: " }) {
        const size_t at = report.rfind(mark);
        if (at != std::string::npos) return report.substr(at + strlen(mark));
    }
    return report;
}

/* A call that is required comes first: the template's grammar would let any speech come before it, without end. */
static void call_at_once(std::string &grammar)
{
    static const std::string end = "? tool-calls\n";
    size_t line = grammar.rfind("root ::= ", 0) == 0 ? 0 : grammar.find("\nroot ::= "), to = grammar.find(end, line);
    if (line == std::string::npos || to == std::string::npos || grammar.find('\n', line + 1) < to) return;
    size_t from = grammar.rfind(" until-", to);
    if (from == std::string::npos || from < line || grammar.find_first_not_of("0123456789", from + 7) != to) return;
    grammar.erase(from, to + 1 - from);
}

/* JSON that is asked for is all there is: the template's grammar would let blanks, and a fence of Markdown, stand
 * around it, which cost tokens and are taken away again. Blanks behind a thought stay. */
static void answer_at_once(std::string &grammar)
{
    static const std::string group = "(\"```json\" space response-format space \"```\" | space response-format space)";
    static const std::string blanks = " space space ";
    const size_t line = grammar.rfind("root ::= ", 0) == 0 ? 0 : grammar.find("\nroot ::= ");
    const size_t at = line == std::string::npos ? line : grammar.find(group, line);
    if (at == std::string::npos) return;
    grammar.replace(at, group.size(), "response-format");
    if (at < blanks.size() || grammar.compare(at - blanks.size(), blanks.size(), blanks) != 0) return;
    const size_t from = at - blanks.size(), quote = grammar.find('"', line);
    /* nothing but what the prompt ends with stands before them */
    if (grammar[from - 1] == '"' && grammar.find('"', quote + 1) == from - 1) grammar.replace(from, blanks.size(), " ");
}

/* What wakes a lazy grammar: a word that is one token is that token. */
static void read_triggers(vr_chat *c, const llama_vocab *vocab)
{
    for (auto &g : c->params.grammar_triggers) {
        switch (g.type) {
        case COMMON_GRAMMAR_TRIGGER_TYPE_WORD: {
            const auto ids = common_tokenize(vocab, g.value, false, true);
            if (ids.size() == 1 && c->keeps(ids[0]))
                c->trigger_tokens.push_back(ids[0]);
            else
                c->triggers.push_back({ false, { g.value.data(), g.value.size() } });
            break;
        }
        case COMMON_GRAMMAR_TRIGGER_TYPE_PATTERN_FULL:
            if (g.value.rfind('^', 0) != 0) g.value.insert(0, "^");
            if (g.value.back() != '$') g.value += "$"; /* it has a ^ at least */
            c->triggers.push_back({ true, { g.value.data(), g.value.size() } });
            break;
        case COMMON_GRAMMAR_TRIGGER_TYPE_PATTERN:
            c->triggers.push_back({ true, { g.value.data(), g.value.size() } });
            break;
        case COMMON_GRAMMAR_TRIGGER_TYPE_TOKEN: c->trigger_tokens.push_back(g.token); break;
        }
    }
}

/* The tokens of the prompt's end that belong to the answer: a template may open the thought, or the call, itself. */
static std::vector<llama_token> begun_tokens(const vr_chat *c, const llama_vocab *vocab)
{
    const std::string &begun = c->params.generation_prompt;
    if (begun.empty()) return {};
    auto tokens = common_tokenize(vocab, begun, false, true);
    if (!tokens.empty()) {
        const std::string piece = common_token_to_piece(vocab, tokens[0], true);
        if (!piece.empty() && std::isspace((unsigned char)piece[0]) && !std::isspace((unsigned char)begun[0]))
            tokens.erase(tokens.begin());
    }
    return tokens;
}

/* What looks like a tool call inside a thought is none. */
static void read_thought(vr_chat *c, const llama_vocab *vocab)
{
    if (c->params.thinking_start_tag.empty()) return;
    for (const auto &tag : c->params.thinking_end_tags)
        if (!tag.empty()) c->ends.push_back(common_tokenize(vocab, tag, false, true));
    for (const auto &end : c->ends) c->think_ends.push_back({ end.data(), end.size() });
    if (!c->ends.empty()) c->think = common_tokenize(vocab, c->params.thinking_start_tag, false, true);
}

static void set_grammar(vr_chat *c, const llama_vocab *vocab)
{
    vr_grammar_spec &s = c->grammar;
    s.gbnf = { c->params.grammar.data(), c->params.grammar.size() };
    s.lazy = c->params.grammar_lazy;
    if (s.gbnf.n == 0) return;
    c->begun = begun_tokens(c, vocab);
    s.begun = { c->begun.data(), c->begun.size() };
    if (!s.lazy) return;
    read_triggers(c, vocab);
    read_thought(c, vocab);
    s.triggers = c->triggers.data();
    s.n_triggers = c->triggers.size();
    s.trigger_tokens = { c->trigger_tokens.data(), c->trigger_tokens.size() };
    s.think = { c->think.data(), c->think.size() };
    s.think_ends = c->think_ends.data();
    s.n_think_ends = c->think_ends.size();
}

static vr_chat *new_chat(const vr_chats *chats, const llama_vocab *vocab, const vr_chat_ask *ask)
{
    auto c = std::make_unique<vr_chat>();
    common_chat_templates_inputs in;
    read_inputs(ask, in);
    const bool tools = !in.tools.empty() && in.tool_choice != COMMON_CHAT_TOOL_CHOICE_NONE;
    if (!chats->caps.tools) in.messages = vr_tools_messages(in.messages);
    c->params = tools && !chats->caps.tools ? vr_tools_apply(chats->templates.get(), in, common_json::parse(ask->tools))
                                            : common_chat_templates_apply(chats->templates.get(), in);
    if (in.tool_choice == COMMON_CHAT_TOOL_CHOICE_REQUIRED) call_at_once(c->params.grammar);
    if (ask->schema) answer_at_once(c->params.grammar);
    c->schema = ask->schema;
    c->continues = ask->continues;
    const bool tags = c->params.supports_thinking && !ask->keep_reasoning;
    c->thinks = tags && in.enable_thinking;
    c->tools = tools;
    c->one_call = c->tools && !ask->parallel;
    c->syntax = common_chat_parser_params(c->params);
    c->syntax.reasoning_format = in.reasoning_format;
    c->syntax.parse_tool_calls = c->tools;
    if (!c->params.parser.empty()) c->syntax.parser.load(c->params.parser);
    for (const auto &text : c->params.preserved_tokens) {
        const auto ids = common_tokenize(vocab, text, false, true);
        if (ids.size() == 1) c->kept.push_back(ids[0]);
    }
    std::sort(c->kept.begin(), c->kept.end());
    c->plain = !c->tools && !tags && !c->schema && !c->continues && parses_as_text(c->syntax);
    set_grammar(c.get(), vocab);
    return c.release();
}

struct vr_chat *vr_bridge_chat_new(const struct vr_chats *chats, const struct llama_vocab *vocab,
                                   const struct vr_chat_ask *ask, struct vr_err *err)
{
    try {
        return new_chat(chats, vocab, ask);
    } catch (const std::bad_alloc &) {
        vr_fail_nomem(err, "writing the chat out");
    } catch (const std::exception &e) {
        if (strstr(e.what(), "std::bad_alloc")) /* the template's interpreter wraps it */
            vr_fail_nomem(err, "writing the chat out");
        else
            vr_fail(err, VR_EUSAGE, "the model's chat template rejects this: %s", reason_of(e.what()).c_str());
    } catch (...) {
        vr_fail(err, VR_EENGINE, "the chat template failed for an unknown reason");
    }
    return nullptr;
}

void vr_bridge_chat_free(struct vr_chat *c) { delete c; }

const char *vr_bridge_chat_prompt(const struct vr_chat *c, size_t *n)
{
    *n = c->params.prompt.size();
    return c->params.prompt.c_str();
}

const char *vr_bridge_chat_stop(const struct vr_chat *c, size_t i)
{
    return i < c->params.additional_stops.size() ? c->params.additional_stops[i].c_str() : nullptr;
}

bool vr_bridge_chat_keeps(const struct vr_chat *c, llama_token token) { return c->keeps(token); }
bool vr_bridge_chat_plain(const struct vr_chat *c) { return c->plain; }
bool vr_bridge_chat_thinks(const struct vr_chat *c) { return c->thinks; }

const struct vr_grammar_spec *vr_bridge_chat_grammar(const struct vr_chat *c)
{
    return c->grammar.gbnf.n ? &c->grammar : nullptr;
}

void vr_bridge_chat_form(const struct vr_chat *c, struct vr_chat_form *out)
{
    *out = {};
    out->format = (uint32_t)c->syntax.format;
    out->reasoning_format = (uint32_t)c->syntax.reasoning_format;
    out->parse_tool_calls = c->syntax.parse_tool_calls;
    out->generation_prompt = { c->syntax.generation_prompt.data(), c->syntax.generation_prompt.size() };
    out->parser = { c->params.parser.data(), c->params.parser.size() };
    out->kept = { c->kept.data(), c->kept.size() };
    out->plain = c->plain;
    out->tools = c->tools;
    out->one_call = c->one_call;
    out->schema = c->schema;
    out->thinks = c->thinks;
    out->continues = c->continues;
}

struct vr_chat *vr_bridge_chat_from(const struct vr_chat_form *f, struct vr_err *err)
{
    return guard("an answer's parser", (vr_chat *)nullptr, err, [&]() -> vr_chat * {
        auto c = std::make_unique<vr_chat>();
        if (f->format >= COMMON_CHAT_FORMAT_COUNT || f->reasoning_format > COMMON_REASONING_FORMAT_DEEPSEEK)
            return vr_fail(err, VR_EENGINE, "an answer's parser is of no known kind"), nullptr;
        c->syntax.format = (common_chat_format)f->format;
        c->syntax.reasoning_format = (common_reasoning_format)f->reasoning_format;
        c->syntax.parse_tool_calls = f->parse_tool_calls;
        c->syntax.generation_prompt.assign(f->generation_prompt.data, f->generation_prompt.n);
        if (!f->plain && f->parser.n) c->syntax.parser.load(std::string(f->parser.data, f->parser.n));
        c->kept.assign(f->kept.ids, f->kept.ids + f->kept.n);
        std::sort(c->kept.begin(), c->kept.end());
        c->plain = f->plain;
        c->tools = f->tools;
        c->one_call = f->one_call;
        c->schema = f->schema;
        c->thinks = f->thinks;
        c->continues = f->continues;
        return c.release();
    });
}

/* --- answers --- */

struct vr_answer {
    const vr_chat *chat;
    std::string text;
    std::string content, reasoning; /* as said */
    struct call {
        std::string id, arguments;
        bool named = false;
    };
    std::vector<call> calls;
    bool only_text = false, full = false;
};

struct vr_answer *vr_bridge_answer_new(const struct vr_chat *c, struct vr_err *err)
{
    return guard("an answer", (vr_answer *)nullptr, err, [&] {
        auto a = std::make_unique<vr_answer>();
        a->chat = c;
        if (c->continues) {
            const auto begun = common_chat_parse("", true, c->syntax);
            a->content = begun.content;
            a->reasoning = begun.reasoning_content;
        }
        return a.release();
    });
}

void vr_bridge_answer_free(struct vr_answer *a) { delete a; }

bool vr_bridge_answer_add(struct vr_answer *a, const char *text, size_t n, struct vr_err *err)
{
    return guard("an answer", false, err, [&] {
        a->text.append(text, n);
        return true;
    });
}

static std::string new_call_id()
{
    static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    static thread_local std::mt19937_64 random{ std::random_device{}() };
    std::string id = "call_";
    for (int i = 0; i < 24; i++) id += digits[random() % (sizeof digits - 1)];
    return id;
}

/* Says what `now` has more than `said`; nothing when it is not the same text grown. */
template <typename F> static void grow(std::string &said, const std::string &now, F f)
{
    if (now.size() <= said.size() || now.compare(0, said.size(), said) != 0) return;
    f(now.data() + said.size(), now.size() - said.size());
    said = now;
}

static void say_call(size_t index, const std::string &id, const std::string *name, const char *arguments, size_t n,
                     vr_say_fn *say, void *ctx)
{
    VR_AUTO_BUF b = {};
    vr_buf_addf(&b, "{\"index\":%zu,", index);
    if (name) {
        vr_buf_adds(&b, "\"id\":");
        vr_json_add_string(&b, id.c_str());
        vr_buf_adds(&b, ",\"type\":\"function\",");
    }
    vr_buf_adds(&b, "\"function\":{");
    if (name) {
        vr_buf_adds(&b, "\"name\":");
        vr_json_add_string(&b, name->c_str());
        vr_buf_adds(&b, ",");
    }
    vr_buf_adds(&b, "\"arguments\":");
    vr_json_add_string(&b, std::string(arguments, n).c_str());
    vr_buf_adds(&b, "}}");
    if (!b.failed) say(ctx, VR_PART_TOOL, b.data, b.n);
}

static void say_new(vr_answer *a, const common_chat_msg &msg, bool last, vr_say_fn *say, void *ctx)
{
    grow(a->reasoning, msg.reasoning_content, [&](const char *s, size_t n) { say(ctx, VR_PART_REASONING, s, n); });
    grow(a->content, msg.content, [&](const char *s, size_t n) { say(ctx, VR_PART_TEXT, s, n); });
    for (size_t i = 0; i < msg.tool_calls.size(); i++) {
        const auto &now = msg.tool_calls[i];
        if (i > 0 && a->chat->one_call) {
            a->full = true;
            return;
        }
        if (i >= a->calls.size()) a->calls.emplace_back();
        auto &said = a->calls[i];
        /* a name may still grow until something follows it */
        const bool sure = last || !now.arguments.empty() || i + 1 < msg.tool_calls.size();
        if (!said.named && (now.name.empty() || !sure)) continue;
        if (!said.named) {
            said.named = true;
            said.id = now.id.empty() ? new_call_id() : now.id;
            said.arguments = now.arguments;
            say_call(i, said.id, &now.name, now.arguments.data(), now.arguments.size(), say, ctx);
        } else {
            grow(said.arguments, now.arguments,
                 [&](const char *s, size_t n) { say_call(i, said.id, nullptr, s, n, say, ctx); });
        }
    }
}

/* The one call that was wanted is complete and something follows: then the whole does not parse, though its beginning
 * does. A grammar may leave room for more calls where the parser does not. */
static bool goes_on(const vr_answer *a)
{
    if (!a->chat->one_call || a->calls.empty() || !a->calls[0].named) return false;
    try {
        common_chat_parse(a->text, false, a->chat->syntax);
        return false;
    } catch (const std::exception &) {
        return true;
    }
}

/* In the end, too, the one call that was wanted counts, and not what follows it. */
static common_chat_msg parse(const vr_answer *a, bool last)
{
    try {
        return common_chat_parse(a->text, !last, a->chat->syntax);
    } catch (const std::exception &) {
        if (!last || !a->chat->one_call) throw;
        auto msg = common_chat_parse(a->text, true, a->chat->syntax);
        if (msg.tool_calls.empty()) throw;
        return msg;
    }
}

void vr_bridge_answer_say(struct vr_answer *a, bool last, vr_say_fn *say, void *ctx)
{
    try {
        say_new(a, parse(a, last), last, say, ctx);
        if (goes_on(a)) a->full = true;
        /* a thought is over when the text has begun; nothing but text follows, unless tools or a fence around JSON may
         */
        a->only_text = !a->chat->tools && !a->chat->schema && !a->content.empty() &&
                       a->text.size() >= a->content.size() &&
                       a->text.compare(a->text.size() - a->content.size(), std::string::npos, a->content) == 0;
    } catch (...) {
        /* not the template's form: while it grows, wait; in the end, it is text */
        if (last && a->content.empty() && a->reasoning.empty() && a->calls.empty() && !a->text.empty())
            say(ctx, VR_PART_TEXT, a->text.data(), a->text.size());
    }
}

bool vr_bridge_answer_only_text(const struct vr_answer *a) { return a->only_text; }
bool vr_bridge_answer_has_tools(const struct vr_answer *a)
{
    return std::any_of(a->calls.begin(), a->calls.end(), [](const vr_answer::call &c) { return c.named; });
}
bool vr_bridge_answer_is_full(const struct vr_answer *a) { return a->full; }
bool vr_bridge_answer_reasons(const struct vr_answer *a)
{
    return !a->reasoning.empty() && a->content.empty() && a->calls.empty();
}
