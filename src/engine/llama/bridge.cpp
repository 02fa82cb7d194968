/* The only C++ of the project: each function calls one of llama.cpp's and turns exceptions into an error. */
#include <algorithm>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <random>
#include <set>
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
#include <mtmd-helper.h>
#include <reasoning-budget.h>

#include "engine/llama/bridge.h"

extern "C" {
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
}

/* The scheduler has a getter, but in no header that can be included alone. */
struct llama_context {
    ggml_backend_sched_t get_sched() const;
};

template <typename T, typename F> static T guard(const char *what, T failed, struct vr_err *err, F f)
{
    try {
        return f();
    } catch (const std::exception &e) {
        vr_fail(err, VR_EENGINE, "%s: %s", what, e.what());
    } catch (...) {
        vr_fail(err, VR_EENGINE, "%s failed for an unknown reason", what);
    }
    return failed;
}

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

/* malloc'd, for C. */
template <typename T> static T *copy_out(const T *data, size_t n)
{
    T *out = (T *)malloc((n + 1) * sizeof(T));
    if (!out) throw std::bad_alloc();
    if (n) memcpy(out, data, n * sizeof(T));
    return out;
}

int vr_bridge_tokenize(const struct llama_vocab *vocab, const char *text, size_t n, bool special, llama_token **out,
                       struct vr_err *err)
{
    return guard("tokenizing", -1, err, [&] {
        const auto tokens = common_tokenize(vocab, std::string(text, n), special, true);
        *out = copy_out(tokens.data(), tokens.size());
        return (int)tokens.size();
    });
}

/* --- grammars --- */

/* `budget` is only there for lazy grammars of models that think: what looks like a tool call inside a thought is none.
 */
struct vr_grammar {
    llama_sampler *rules = nullptr, *budget = nullptr;
    ~vr_grammar()
    {
        if (rules) llama_sampler_free(rules);
        if (budget) llama_sampler_free(budget);
    }
    bool applies() const
    {
        if (!budget) return true;
        const auto state = common_reasoning_budget_get_state(budget);
        return state == REASONING_BUDGET_IDLE || state == REASONING_BUDGET_DONE;
    }
};

/* An ambiguous grammar has more and more readings of a text, until one step takes longer than all before together. What
 * a step costs is known only afterwards, but it grows step by step, so it is stopped while that is harmless. Processor
 * time: a busy machine is no fault of the grammar. */
class step
{
    timespec start;

  public:
    step() { clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start); }
    bool took(double limit_ms, struct vr_err *err) const
    {
        timespec now;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        const double ms = (double)(now.tv_sec - start.tv_sec) * 1e3 + (double)(now.tv_nsec - start.tv_nsec) / 1e6;
        if (ms > limit_ms)
            vr_fail(err, VR_EUSAGE, "the grammar is too ambiguous: there are too many ways to parse the output");
        return ms > limit_ms;
    }
};

/* Milliseconds: a token that was chosen; one token or a few that are asked about; each further one. */
static const double accept_ms = 20, ask_ms = 200, ask_more_ms = 0.02;

struct vr_grammar *vr_bridge_grammar_new(const struct llama_vocab *vocab, const char *gbnf, struct vr_err *err)
{
    return guard("the grammar", (vr_grammar *)nullptr, err, [&] {
        auto g = std::make_unique<vr_grammar>();
        g->rules = llama_sampler_init_grammar(vocab, gbnf, "root");
        if (!g->rules) vr_fail(err, VR_EUSAGE, "the grammar is not valid: it must be GBNF with a rule named root");
        return g->rules ? g.release() : nullptr;
    });
}

struct vr_grammar *vr_bridge_grammar_clone(const struct vr_grammar *from, struct vr_err *err)
{
    return guard("copying a grammar", (vr_grammar *)nullptr, err, [&] {
        auto g = std::make_unique<vr_grammar>();
        g->rules = llama_sampler_clone(from->rules);
        if (from->budget) g->budget = llama_sampler_clone(from->budget);
        return g.release();
    });
}

void vr_bridge_grammar_free(struct vr_grammar *g) { delete g; }

bool vr_bridge_grammar_filter(struct vr_grammar *g, llama_token_data *c, size_t n, struct vr_err *err)
{
    return guard("the grammar", false, err, [&] {
        llama_token_data_array all = { c, n, -1, false };
        const step s;
        if (g->applies()) llama_sampler_apply(g->rules, &all);
        return !s.took(ask_ms + ask_more_ms * (double)n, err);
    });
}

bool vr_bridge_grammar_accept(struct vr_grammar *g, llama_token token, struct vr_err *err)
{
    return guard("the grammar", false, err, [&] {
        const step s;
        const bool applied = g->applies();
        if (g->budget) {
            llama_sampler_accept(g->budget, token);
            const llama_tokens *end = nullptr;
            if (!applied && common_reasoning_budget_get_state(g->budget) == REASONING_BUDGET_DONE)
                end = common_reasoning_budget_get_end_match(g->budget);
            if (end)
                for (llama_token t : *end) llama_sampler_accept(g->rules, t); /* it may be what the grammar waits for */
        }
        if (applied) llama_sampler_accept(g->rules, token);
        return !s.took(accept_ms, err);
    });
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
                       "the pattern cannot be enforced: it must begin with ^, end with $ and do without "
                       "lookarounds, backreferences and classes such as \\d");
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

struct vr_chat {
    common_chat_params params;
    common_chat_parser_params syntax;
    std::set<llama_token> kept;
    bool plain = false, tools = false, one_call = false, schema = false, thinks = false;
};

static void read_inputs(const vr_chat_ask *ask, common_chat_templates_inputs &in)
{
    in.messages = common_chat_msgs_parse_oaicompat(common_json::parse(ask->messages));
    if (ask->tools) in.tools = common_chat_tools_parse_oaicompat(common_json::parse(ask->tools));
    in.tool_choice = common_chat_tool_choice_parse_oaicompat(ask->tool_choice);
    in.parallel_tool_calls = ask->parallel;
    in.reasoning_format = ask->keep_reasoning ? COMMON_REASONING_FORMAT_NONE : COMMON_REASONING_FORMAT_DEEPSEEK;
    if (ask->schema) in.json_schema = ask->schema;
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

static vr_chat *new_chat(const vr_chats *chats, const llama_vocab *vocab, const vr_chat_ask *ask)
{
    auto c = std::make_unique<vr_chat>();
    common_chat_templates_inputs in;
    read_inputs(ask, in);
    c->params = common_chat_templates_apply(chats->templates.get(), in);
    if (in.tool_choice == COMMON_CHAT_TOOL_CHOICE_REQUIRED) call_at_once(c->params.grammar);
    c->schema = ask->schema;
    const bool tags = c->params.supports_thinking && !ask->keep_reasoning;
    c->thinks = tags && in.enable_thinking;
    c->tools = !in.tools.empty() && in.tool_choice != COMMON_CHAT_TOOL_CHOICE_NONE;
    c->one_call = c->tools && !ask->parallel;
    c->syntax = common_chat_parser_params(c->params);
    c->syntax.reasoning_format = in.reasoning_format;
    c->syntax.parse_tool_calls = c->tools;
    if (!c->params.parser.empty()) c->syntax.parser.load(c->params.parser);
    for (const auto &text : c->params.preserved_tokens) {
        const auto ids = common_tokenize(vocab, text, false, true);
        if (ids.size() == 1) c->kept.insert(ids[0]);
    }
    c->plain = !c->tools && !tags && !c->schema && parses_as_text(c->syntax);
    return c.release();
}

struct vr_chat *vr_bridge_chat_new(const struct vr_chats *chats, const struct llama_vocab *vocab,
                                   const struct vr_chat_ask *ask, struct vr_err *err)
{
    try {
        return new_chat(chats, vocab, ask);
    } catch (const std::exception &e) {
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

bool vr_bridge_chat_keeps(const struct vr_chat *c, llama_token token) { return c->kept.count(token) > 0; }
bool vr_bridge_chat_plain(const struct vr_chat *c) { return c->plain; }
bool vr_bridge_chat_thinks(const struct vr_chat *c) { return c->thinks; }

const char *vr_bridge_chat_gbnf(const struct vr_chat *c, size_t *n)
{
    *n = c->params.grammar.size();
    return c->params.grammar.c_str();
}

struct triggers {
    std::vector<std::string> patterns;
    std::vector<llama_token> tokens;
};

/* What wakes a lazy grammar: a word that is one token is that token, the others are patterns. */
static triggers read_triggers(const vr_chat *c, const llama_vocab *vocab)
{
    triggers t;
    for (const auto &g : c->params.grammar_triggers) {
        switch (g.type) {
        case COMMON_GRAMMAR_TRIGGER_TYPE_WORD: {
            const auto ids = common_tokenize(vocab, g.value, false, true);
            if (ids.size() == 1 && c->kept.count(ids[0]))
                t.tokens.push_back(ids[0]);
            else
                t.patterns.push_back(regex_escape(g.value));
            break;
        }
        case COMMON_GRAMMAR_TRIGGER_TYPE_PATTERN: t.patterns.push_back(g.value); break;
        case COMMON_GRAMMAR_TRIGGER_TYPE_PATTERN_FULL:
            t.patterns.push_back((g.value.rfind('^', 0) == 0 ? "" : "^") + g.value +
                                 (!g.value.empty() && g.value.back() == '$' ? "" : "$"));
            break;
        case COMMON_GRAMMAR_TRIGGER_TYPE_TOKEN: t.tokens.push_back(g.token); break;
        }
    }
    return t;
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

static llama_sampler *new_budget(const vr_chat *c, const llama_vocab *vocab, const std::vector<llama_token> &begun)
{
    if (!c->params.grammar_lazy || c->params.thinking_start_tag.empty() || c->params.thinking_end_tags.empty())
        return nullptr;
    const auto start = common_tokenize(vocab, c->params.thinking_start_tag, false, true);
    std::vector<llama_tokens> ends;
    for (const auto &tag : c->params.thinking_end_tags)
        if (!tag.empty()) ends.push_back(common_tokenize(vocab, tag, false, true));
    if (start.empty() || ends.empty()) return nullptr;
    llama_sampler *budget = common_reasoning_budget_init(vocab, { start }, ends, ends[0], INT_MAX);
    if (budget)
        for (llama_token t : begun) llama_sampler_accept(budget, t);
    return budget;
}

struct vr_grammar *vr_bridge_chat_grammar(const struct vr_chat *c, const struct llama_vocab *vocab, struct vr_err *err)
{
    return guard("the chat's grammar", (vr_grammar *)nullptr, err, [&] {
        auto g = std::make_unique<vr_grammar>();
        const char *gbnf = c->params.grammar.c_str();
        const auto begun = begun_tokens(c, vocab);
        if (c->params.grammar_lazy) {
            const auto t = read_triggers(c, vocab);
            std::vector<const char *> patterns;
            for (const auto &p : t.patterns) patterns.push_back(p.c_str());
            g->rules = llama_sampler_init_grammar_lazy_patterns(vocab, gbnf, "root", patterns.data(), patterns.size(),
                                                                t.tokens.data(), t.tokens.size());
            g->budget = new_budget(c, vocab, begun);
        } else {
            g->rules = llama_sampler_init_grammar(vocab, gbnf, "root");
            if (g->rules)
                for (llama_token t : begun) llama_sampler_accept(g->rules, t);
        }
        if (!g->rules) vr_fail(err, VR_EUSAGE, "the engine does not support the grammar made from the schema");
        return g->rules ? g.release() : nullptr;
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

void vr_bridge_answer_say(struct vr_answer *a, bool last, vr_say_fn *say, void *ctx)
{
    try {
        const auto msg = common_chat_parse(a->text, !last, a->chat->syntax);
        say_new(a, msg, last, say, ctx);
        if (!last && goes_on(a)) a->full = true;
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

/* --- pictures --- */

struct vr_pauses {
    vr_pause_fn *fn;
    void *ctx;
    unsigned n_nodes; /* since the last one */
    bool left;        /* nobody wants the rest */
};

struct vr_vision {
    mtmd_context *ctx;
    std::string marker;
    mutable vr_pauses pause; /* of the picture that is being computed */
};

/* Asked before and after nodes of the graph: after every PIECE of them there is a pause. */
static bool between_nodes(struct ggml_tensor *, bool ask, void *user)
{
    enum { PIECE = 16 };
    vr_pauses *p = &((vr_vision *)user)->pause;
    if (!p->fn) return !ask;
    if (ask) return p->left || ++p->n_nodes % PIECE == 0;
    if (!p->left) p->left = !p->fn(p->ctx);
    return !p->left;
}

struct vr_media_prompt {
    const vr_vision *vision;
    mtmd::input_chunks chunks;
    std::vector<uint64_t> ids;
};

struct vr_vision *vr_bridge_vision_open(const char *path, const struct llama_model *model, ggml_backend_dev_t dev,
                                        enum llama_flash_attn_type flash, int n_threads, ggml_log_callback log,
                                        struct vr_err *err)
{
    return guard("mmproj", (vr_vision *)nullptr, err, [&]() -> vr_vision * {
        std::random_device random;
        char marker[64];
        snprintf(marker, sizeof marker, "<__media_%08x%08x__>", random(), random());
        mtmd_context_params p = mtmd_context_params_default();
        p.use_gpu = dev != nullptr;
        p.device = dev;
        p.print_timings = false;
        p.n_threads = n_threads;
        p.media_marker = marker;
        p.flash_attn_type = flash;
        std::unique_ptr<vr_vision> vision(new vr_vision{ nullptr, marker, {} });
        p.cb_eval = between_nodes;
        p.cb_eval_user_data = vision.get();
        mtmd_log_set(log, nullptr);
        mtmd_helper_log_set(log, nullptr);
        mtmd_context *ctx = vision->ctx = mtmd_init_from_file(path, model, p);
        if (!ctx) return vr_fail(err, VR_EENGINE, "the vision projector (mmproj) could not be loaded"), nullptr;
        if (mtmd_support_vision(ctx)) return vision.release();
        mtmd_free(ctx);
        return vr_fail(err, VR_EUSAGE, "this mmproj is not a vision projector"), nullptr;
    });
}

void vr_bridge_vision_close(struct vr_vision *e)
{
    if (e) mtmd_free(e->ctx);
    delete e;
}

const char *vr_bridge_vision_marker(const struct vr_vision *e) { return e->marker.c_str(); }

/* A file may become several parts: each has its own number behind the file's. */
static std::vector<uint64_t> number_chunks(const mtmd_input_chunks *chunks)
{
    std::vector<uint64_t> ids;
    uint64_t n = 0;
    for (size_t i = 0; i < mtmd_input_chunks_size(chunks); i++) {
        const char *name = mtmd_input_chunk_get_id(mtmd_input_chunks_get(chunks, i));
        ids.push_back(name ? std::hash<std::string>{}(std::string(name) + ":" + std::to_string(n++)) : 0);
    }
    return ids;
}

struct vr_media_prompt *vr_bridge_media_new(const struct vr_vision *e, const char *text, size_t n,
                                            const uint8_t *const *files, const size_t *bytes, size_t n_files,
                                            struct vr_err *err)
{
    return guard("image", (vr_media_prompt *)nullptr, err, [&]() -> vr_media_prompt * {
        mtmd::bitmaps all;
        for (size_t i = 0; i < n_files; i++) {
            auto b =
                mtmd_helper_bitmap_init_from_buf(e->ctx, files[i], bytes[i], false, mtmd_helper_init_opt_default());
            if (!b.bitmap)
                return vr_fail(err, VR_EUSAGE, "image %zu cannot be decoded: the file is corrupt", i + 1), nullptr;
            all.entries.emplace_back(b.bitmap);
        }
        std::unique_ptr<vr_media_prompt> s(new vr_media_prompt{ e, mtmd::input_chunks(mtmd_input_chunks_init()), {} });
        mtmd_input_text in = { text, n, true, true };
        auto bitmaps = all.c_ptr();
        int rc = mtmd_tokenize(e->ctx, s->chunks.ptr.get(), &in, bitmaps.data(), bitmaps.size());
        if (rc == 1) return vr_fail(err, VR_EUSAGE, "the model's chat template does not support images"), nullptr;
        if (rc != 0) return vr_fail(err, VR_EUSAGE, "an image cannot be preprocessed for this model"), nullptr;
        s->ids = number_chunks(s->chunks.ptr.get());
        return s.release();
    });
}

void vr_bridge_media_free(struct vr_media_prompt *s) { delete s; }
size_t vr_bridge_media_parts(const struct vr_media_prompt *s) { return mtmd_input_chunks_size(s->chunks.ptr.get()); }

struct vr_media_part vr_bridge_media_part(const struct vr_media_prompt *s, size_t i)
{
    const mtmd_input_chunk *c = mtmd_input_chunks_get(s->chunks.ptr.get(), i);
    vr_media_part p = {};
    size_t n = mtmd_input_chunk_get_n_tokens(c);
    if (mtmd_input_chunk_get_type(c) == MTMD_INPUT_CHUNK_TYPE_TEXT)
        p.tokens = mtmd_input_chunk_get_tokens_text(c, &n);
    else
        p.whole = mtmd_decode_use_non_causal(s->vision->ctx, c);
    p.n_tokens = (uint32_t)n;
    p.n_pos = (uint32_t)mtmd_input_chunk_get_n_pos(c);
    p.id = s->ids[i];
    return p;
}

int vr_bridge_media_encode(const struct vr_media_prompt *s, size_t i, vr_pause_fn *pause, void *ctx, struct vr_err *err)
{
    return guard("image", -3, err, [&] {
        s->vision->pause = { pause, ctx, 0, false };
        int rc = mtmd_encode_chunk(s->vision->ctx, mtmd_input_chunks_get(s->chunks.ptr.get(), i));
        bool left = s->vision->pause.left;
        s->vision->pause = {};
        if (left) return 2;
        return rc == 0 ? 0 : (vr_fail(err, VR_EENGINE, "an image could not be encoded"), -3);
    });
}

int vr_bridge_media_decode(const struct vr_media_prompt *s, size_t i, struct llama_context *llama, llama_pos pos,
                           llama_seq_id seq, uint32_t n_batch, vr_pause_fn *pause, void *ctx, struct vr_err *err)
{
    return guard("image", -3, err, [&] {
        const mtmd_input_chunk *c = mtmd_input_chunks_get(s->chunks.ptr.get(), i);
        llama_pos end = 0;
        bool whole = mtmd_decode_use_non_causal(s->vision->ctx, c); /* others would be computed so, too */
        vr_pauses p = { pause, ctx, 0, false };
        auto next = [](llama_batch, void *user) -> int32_t {
            auto *q = (vr_pauses *)user;
            q->left = !q->fn(q->ctx);
            return q->left ? 2 : 0;
        };
        return (int)mtmd_helper_decode_image_chunk(s->vision->ctx, llama, c, mtmd_get_output_embd(s->vision->ctx), pos,
                                                   seq, (int32_t)(whole ? llama_n_batch(llama) : n_batch), &end,
                                                   whole ? nullptr : +next, &p);
    });
}
