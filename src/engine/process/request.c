/* Reading in the order of cost: numbers and strings first, then schemas and grammars, then the template, then tokens.
 * The front has validated the same things; what is checked again here is what would hurt the engine. */
#include "engine/process/request.h"

#include <stdarg.h>
#include <string.h>
#include <sys/random.h>

#include "engine/wire/picture.h"
#include "engine/wire/schema.h"

#define INVALID "invalid_request_error"

struct reading {
    struct vr_request *r;
    const struct vr_engine *e;
    struct vr_refusal *why;
    json_t *body;
    const char *grammar; /* GBNF that the request brings */
    char *gbnf;          /* GBNF that was made of a schema */
    const uint8_t *files[VR_MOST_PICTURES];
    size_t bytes[VR_MOST_PICTURES], n_files;
};

struct vr_request *vr_request_new(uint32_t id, char *json, size_t n, double now_ms)
{
    struct vr_request *r = calloc(1, sizeof *r);
    if (!r) return free(json), NULL;
    r->id = id;
    r->json = json;
    r->n_json = n;
    r->arrived_ms = now_ms;
    return r;
}

void vr_request_free(struct vr_request *r)
{
    if (!r) return;
    for (uint32_t i = 0; r->prompts && i < r->n_prompts; i++) {
        free(r->prompts[i].tokens);
        vr_bridge_media_free(r->prompts[i].scene);
    }
    vr_bridge_grammar_free(r->grammar);
    vr_bridge_chat_free(r->chat);
    vr_arena_done(&r->arena);
    free(r->json);
    free(r);
}

/* --- refusing --- */

static bool VR_PRINTF(4, 5) refuse(struct reading *g, uint16_t status, const char *param, const char *fmt, ...)
{
    *g->why = (struct vr_refusal){ .status = status, .type = status >= 500 ? "server_error" : INVALID };
    snprintf(g->why->param, sizeof g->why->param, "%s", param ? param : "");
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(g->why->message, sizeof g->why->message, fmt, ap);
    va_end(ap);
    return false;
}

static bool refuse_nomem(struct reading *g) { return refuse(g, 503, NULL, "out of memory while reading the request"); }

/* An error of ours or of the engine about `param`. */
static bool refuse_err(struct reading *g, const char *param, const struct vr_err *err)
{
    return refuse(g, err->code == VR_ENOMEM ? 503 : 400, param, "%s", err->msg);
}

/* --- numbers --- */

static json_t *get(const struct reading *g, const char *key)
{
    json_t *v = json_object_get(g->body, key);
    return json_is_null(v) ? NULL : v;
}

static bool read_number(struct reading *g, const char *key, double least, double most, double *out)
{
    const json_t *v = get(g, key);
    if (!v) return true;
    double d = json_number_value(v);
    if (!json_is_number(v) || !(d >= least && d <= most))
        return refuse(g, 400, key, "'%s' must be a number from %g to %g", key, least, most);
    *out = d;
    return true;
}

static bool read_whole(struct reading *g, const char *key, double least, double most, double *out)
{
    const json_t *v = get(g, key);
    if (v && !json_is_integer(v)) return refuse(g, 400, key, "'%s' must be a whole number", key);
    return read_number(g, key, least, most, out);
}

static bool read_flag(struct reading *g, const char *key, bool *out)
{
    const json_t *v = get(g, key);
    if (v && !json_is_boolean(v)) return refuse(g, 400, key, "'%s' must be true or false", key);
    if (v) *out = json_is_true(v);
    return true;
}

static bool read_numbers(struct reading *g)
{
    struct vr_request *r = g->r;
    r->sampling = g->e->defaults;
    r->n = 1;
    r->cache = true;
    r->max_tokens = g->r->kind == VR_COMPLETION ? 16 : INT32_MAX; /* OpenAI's defaults */
#define NUMBER(key, member, least, most)                                                                               \
    {                                                                                                                  \
        double v = (double)r->member;                                                                                  \
        if (!read_number(g, key, least, most, &v)) return false;                                                       \
        r->member = (float)v;                                                                                          \
    }
#define WHOLE(key, member, least, most)                                                                                \
    {                                                                                                                  \
        double v = (double)r->member;                                                                                  \
        if (!read_whole(g, key, least, most, &v)) return false;                                                        \
        r->member = (__typeof__(r->member))v;                                                                          \
    }
#define FLAG(key, member)                                                                                              \
    if (!read_flag(g, key, &r->member)) return false;
#include "engine/process/request.def"
#undef NUMBER
#undef WHOLE
#undef FLAG
    const json_t *seed = get(g, "seed");
    if (seed && !json_is_integer(seed)) return refuse(g, 400, "seed", "'seed' must be a whole number");
    if (seed)
        r->seed = (uint64_t)json_integer_value(seed);
    else if (getrandom(&r->seed, sizeof r->seed, 0) != sizeof r->seed)
        r->seed = (uint64_t)(r->arrived_ms * 1e6);
    return true;
}

/* chat: logprobs true, top_logprobs 0..20; completion: logprobs 0..20. */
static bool read_logprobs(struct reading *g)
{
    const json_t *v = get(g, "logprobs");
    double n = 0;
    if (json_is_boolean(v) || !v) {
        g->r->logprobs = json_is_true(v);
        if (!read_whole(g, "top_logprobs", 0, VR_MOST_TOP_LOGPROBS, &n)) return false;
        if (n > 0 && !g->r->logprobs)
            return refuse(g, 400, "top_logprobs", "'top_logprobs' needs 'logprobs' to be true");
    } else {
        if (!read_whole(g, "logprobs", 0, VR_MOST_TOP_LOGPROBS, &n)) return false;
        g->r->logprobs = true;
    }
    g->r->top_logprobs = (uint32_t)n;
    if (g->r->logprobs && g->r->echo) return refuse(g, 400, "echo", "'echo' and 'logprobs' cannot be used together");
    return true;
}

/* The request's biases, and what the model must never say. */
static bool read_biases(struct reading *g)
{
    const json_t *map = get(g, "logit_bias"), *v;
    const char *key;
    int32_t n_never = 0;
    const llama_token *never = llama_vocab_get_suppress_tokens(g->e->vocab, &n_never);
    if (map && !json_is_object(map)) return refuse(g, 400, "logit_bias", "'logit_bias' must be an object");
    size_t n = json_object_size(map), have = 0;
    if (n > VR_MOST_BIASES)
        return refuse(g, 400, "logit_bias", "'logit_bias' has %zu entries, at most %d", n, VR_MOST_BIASES);
    struct vr_bias *b = vr_arena_alloc(&g->r->arena, n + (size_t)(n_never > 0 ? n_never : 0) + 1, sizeof *b);
    if (!b) return refuse_nomem(g);
    json_object_foreach((json_t *)(uintptr_t)map, key, v)
    {
        char *end;
        long token = strtol(key, &end, 10);
        if (*end || end == key || token < 0 || token >= (long)g->e->n_vocab)
            return refuse(g, 400, "logit_bias", "'%.40s' in 'logit_bias' is no token of this model (0 to %u)", key,
                          g->e->n_vocab - 1);
        double bias = json_number_value(v);
        if (!json_is_number(v) || bias < -100 || bias > 100)
            return refuse(g, 400, "logit_bias", "values of 'logit_bias' must be numbers from -100 to 100");
        b[have++] = (struct vr_bias){ (int32_t)token, bias <= -100 ? -1e9f : (float)bias };
    }
    for (int32_t i = 0; i < n_never; i++) b[have++] = (struct vr_bias){ never[i], -1e9f };
    g->r->sampling.bias = b;
    g->r->sampling.n_bias = have;
    return true;
}

static bool read_stops(struct reading *g)
{
    const json_t *v = get(g, "stop");
    size_t n = json_is_array(v) ? json_array_size(v) : v ? 1 : 0;
    if (n > VR_MOST_STOPS) return refuse(g, 400, "stop", "'stop' has %zu strings, at most %d", n, VR_MOST_STOPS);
    g->r->stops = vr_arena_alloc(&g->r->arena, n + VR_MOST_STOPS, sizeof *g->r->stops);
    if (!g->r->stops) return refuse_nomem(g);
    for (size_t i = 0; i < n; i++) {
        const json_t *s = json_is_array(v) ? json_array_get(v, i) : v;
        if (!json_is_string(s)) return refuse(g, 400, "stop", "'stop' must be a string or an array of strings");
        size_t len = json_string_length(s);
        if (len == 0) return refuse(g, 400, "stop", "a string in 'stop' is empty");
        if (len > VR_MOST_STOP_BYTES)
            return refuse(g, 400, "stop", "a string in 'stop' has %zu bytes, at most %d", len, VR_MOST_STOP_BYTES);
        g->r->stops[i] = vr_arena_strndup(&g->r->arena, json_string_value(s), len);
        if (!g->r->stops[i]) return refuse_nomem(g);
    }
    g->r->n_stops = g->r->n_own_stops = n;
    return true;
}

/* --- what the answer must look like --- */

static bool pattern_ok(void *ctx, const char *pattern, struct vr_err *err)
{
    (void)ctx;
    return vr_bridge_pattern_ok(pattern, err);
}

/* The schema of response_format as JSON text that the caller frees; NULL and true when any text will do. */
static bool read_schema(struct reading *g, char **out)
{
    const json_t *format = get(g, "response_format"), *schema = NULL;
    const char *param = "response_format", *type = json_string_value(json_object_get(format, "type"));
    *out = NULL;
    if (!format || (type && strcmp(type, "text") == 0)) return true;
    if (type && strcmp(type, "json_object") == 0) {
        *out = strdup("{\"type\":\"object\"}");
        return *out || refuse_nomem(g);
    }
    if (type && strcmp(type, "json_schema") == 0)
        schema = json_object_get(json_object_get(format, "json_schema"), "schema");
    if (!schema)
        return refuse(g, 400, param,
                      "'response_format' must have a type of text, json_object or json_schema, the last with "
                      "a schema in json_schema.schema");
    struct vr_err err = { 0 };
    if (!vr_schema_check(schema, pattern_ok, NULL, &err))
        return refuse(g, 400, "response_format.json_schema.schema", "the schema cannot be used: %s", err.msg);
    *out = json_dumps(schema, JSON_COMPACT);
    if (!*out) return refuse_nomem(g);
    if (strlen(*out) <= VR_MOST_SCHEMA_BYTES) return true;
    return refuse(g, 400, param, "the schema has %zu bytes, at most %d", strlen(*out), VR_MOST_SCHEMA_BYTES);
}

static bool read_grammar(struct reading *g)
{
    const json_t *v = get(g, "grammar");
    if (!v) return true;
    if (!json_is_string(v)) return refuse(g, 400, "grammar", "'grammar' must be a string of GBNF");
    if (get(g, "response_format"))
        return refuse(g, 400, "grammar", "'grammar' and 'response_format' exclude each other");
    if (json_array_size(get(g, "tools"))) return refuse(g, 400, "grammar", "'grammar' and 'tools' exclude each other");
    if (json_string_length(v) > VR_MOST_GRAMMAR_USER)
        return refuse(g, 400, "grammar", "'grammar' has %zu bytes, at most %d", json_string_length(v),
                      VR_MOST_GRAMMAR_USER);
    g->grammar = json_string_value(v);
    return true;
}

/* Lets the engine parse GBNF that was looked at before. */
static bool make_grammar(struct reading *g, const char *gbnf, const char *param)
{
    struct vr_err err = { 0 };
    if (!vr_limit_grammar(gbnf, strlen(gbnf), &err)) return refuse_err(g, param, &err);
    g->r->grammar = vr_bridge_grammar_new(g->e->vocab, gbnf, &err);
    return g->r->grammar || refuse_err(g, param, &err);
}

/* --- prompts --- */

static bool too_long(struct reading *g, const char *param, uint64_t n, uint64_t most)
{
    refuse(g, 400, param,
           "this model's context holds %llu tokens for one request, but '%s' has %llu: %llu too many. Shorten it, or "
           "start "
           "the server with a larger --n-ctx",
           (unsigned long long)most, param, (unsigned long long)n, (unsigned long long)(n - most));
    g->why->code = "context_length_exceeded";
    return false;
}

static bool is_tokens(const json_t *v)
{
    return json_is_array(v) && json_array_size(v) > 0 && json_is_integer(json_array_get(v, 0));
}

static bool set_prompt(struct reading *g, uint32_t i, const char *param, llama_token *tokens, int n)
{
    /* a text needs room for one token of answer; an embedding does not */
    uint64_t most = g->e->n_ctx_seq - (g->r->kind == VR_EMBEDDING ? 0 : 1);
    if (g->r->kind == VR_EMBEDDING && !g->e->text && g->e->n_ubatch < most) most = g->e->n_ubatch;
    g->r->prompts[i].tokens = tokens;
    g->r->prompts[i].n = (uint32_t)n;
    if (n == 0) return refuse(g, 400, param, "'%s' is empty", param);
    return (uint64_t)n <= most || too_long(g, param, (uint64_t)n, most);
}

static bool read_prompt_text(struct reading *g, uint32_t i, const char *param, const char *text, size_t n)
{
    struct vr_err err = { 0 };
    llama_token *tokens = NULL;
    /* a token is at most a few hundred bytes: what is this long cannot fit, and would only keep the tokenizer busy */
    if (n / 512 > g->e->n_ctx_seq) return too_long(g, param, n / 512, g->e->n_ctx_seq);
    int count = vr_bridge_tokenize(g->e->vocab, text, n, true, &tokens, &err);
    return count < 0 ? refuse_err(g, param, &err) : set_prompt(g, i, param, tokens, count);
}

static bool read_prompt_tokens(struct reading *g, uint32_t i, const char *param, const json_t *list)
{
    size_t n = json_array_size(list);
    if (n > g->e->n_ctx_seq) return too_long(g, param, n, g->e->n_ctx_seq);
    llama_token *tokens = calloc(n + 1, sizeof *tokens);
    if (!tokens) return refuse_nomem(g);
    g->r->prompts[i].tokens = tokens;
    for (size_t k = 0; k < n; k++) {
        const json_t *v = json_array_get(list, k);
        if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) >= (json_int_t)g->e->n_vocab)
            return refuse(g, 400, param, "'%s' must hold tokens of this model (0 to %u)", param, g->e->n_vocab - 1);
        tokens[k] = (llama_token)json_integer_value(v);
    }
    return set_prompt(g, i, param, tokens, (int)n);
}

/* A string, token ids, or an array of either. */
static bool read_prompts(struct reading *g, const char *param, size_t most)
{
    const json_t *v = get(g, param);
    bool one = json_is_string(v) || is_tokens(v);
    size_t n = one ? 1 : json_array_size(v);
    if (!v || n == 0) return refuse(g, 400, param, "'%s' must be a string, an array of strings, or tokens", param);
    if (n > most) return refuse(g, 400, param, "'%s' has %zu entries, at most %zu", param, n, most);
    g->r->prompts = vr_arena_alloc(&g->r->arena, n, sizeof *g->r->prompts);
    if (!g->r->prompts) return refuse_nomem(g);
    g->r->n_prompts = (uint32_t)n;
    for (uint32_t i = 0; i < n; i++) {
        const json_t *p = one ? v : json_array_get(v, i);
        bool ok = json_is_string(p) ? read_prompt_text(g, i, param, json_string_value(p), json_string_length(p))
                  : is_tokens(p)
                      ? read_prompt_tokens(g, i, param, p)
                      : refuse(g, 400, param, "'%s' must be a string, an array of strings, or tokens", param);
        if (!ok) return false;
    }
    return true;
}

/* --- chats --- */

struct chat_texts { /* freed together */
    char *messages, *tools, *kwargs, *schema;
};

static void chat_texts_done(struct chat_texts *t)
{
    free(t->messages);
    free(t->tools);
    free(t->kwargs);
    free(t->schema);
}

static bool dump(struct reading *g, const char *key, const json_t *v, size_t most, char **out)
{
    if (!vr_limit_depth(v, VR_MOST_JSON_DEPTH))
        return refuse(g, 400, key, "'%s' is more than %d deep", key, VR_MOST_JSON_DEPTH);
    *out = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
    if (!*out) return refuse_nomem(g);
    if (most && strlen(*out) > most)
        return refuse(g, 400, key, "'%s' has %zu bytes, at most %zu", key, strlen(*out), most);
    return true;
}

/* A picture: its file is kept, and a marker takes its place. */
static bool read_picture(struct reading *g, json_t *part, const char *where)
{
    struct vr_err err = { 0 };
    struct vr_picture_file file;
    const json_t *v = json_object_get(part, "image_url"), *url = json_is_string(v) ? v : json_object_get(v, "url");
    if (!g->e->vision) return refuse(g, 400, "messages", "%s is a picture: this model takes text only", where);
    if (!json_is_string(url)) return refuse(g, 400, "messages", "%s.image_url.url must be a string", where);
    if (g->n_files == VR_MOST_PICTURES)
        return refuse(g, 400, "messages", "there are more than %d pictures", VR_MOST_PICTURES);
    if (!vr_picture_read(json_string_value(url), json_string_length(url), &g->r->arena, &file, &err))
        return refuse(g, err.code == VR_ENOMEM ? 503 : 400, "messages", "%s: %s", where, err.msg);
    g->files[g->n_files] = file.data;
    g->bytes[g->n_files++] = file.n;
    json_object_clear(part);
    json_object_set_new(part, "type", json_string("media_marker"));
    json_object_set_new(part, "text", json_string(vr_bridge_vision_marker(g->e->vision)));
    return json_object_size(part) == 2 || refuse_nomem(g);
}

static bool check_messages(struct reading *g, const json_t *messages)
{
    size_t n = json_array_size(messages);
    if (!json_is_array(messages) || n == 0)
        return refuse(g, 400, "messages", "'messages' must be an array that is not empty");
    if (n > VR_MOST_MESSAGES)
        return refuse(g, 400, "messages", "'messages' has %zu entries, at most %d", n, VR_MOST_MESSAGES);
    for (size_t i = 0; i < n; i++) {
        const json_t *m = json_array_get(messages, i), *content = json_object_get(m, "content");
        if (!json_is_string(json_object_get(m, "role")))
            return refuse(g, 400, "messages", "messages[%zu] has no role", i);
        if (content && !json_is_null(content) && !json_is_string(content) && !json_is_array(content))
            return refuse(g, 400, "messages", "messages[%zu].content must be a string or an array of parts", i);
        for (size_t k = 0; k < json_array_size(content); k++) {
            json_t *part = json_array_get(content, k);
            const char *type = json_string_value(json_object_get(part, "type"));
            if (type && strcmp(type, "image_url") == 0) {
                char where[64];
                snprintf(where, sizeof where, "messages[%zu].content[%zu]", i, k);
                if (!read_picture(g, part, where)) return false;
                continue;
            }
            if (!type || strcmp(type, "text") != 0 || !json_is_string(json_object_get(part, "text")))
                return refuse(g, 400, "messages", "messages[%zu].content[%zu] is '%.40s': this model takes text only",
                              i, k, type ? type : "?");
        }
    }
    return true;
}

/* The function that tool_choice names, alone. */
static bool choose_tool(struct reading *g, const json_t *tools, const json_t *choice, json_t **out)
{
    const char *name = json_string_value(json_object_get(json_object_get(choice, "function"), "name"));
    for (size_t i = 0; name && i < json_array_size(tools); i++) {
        json_t *tool = json_array_get(tools, i);
        const char *has = json_string_value(json_object_get(json_object_get(tool, "function"), "name"));
        if (has && strcmp(has, name) == 0) return (*out = json_pack("[O]", tool)) || refuse_nomem(g);
    }
    return refuse(g, 400, "tool_choice", "'tool_choice' names a function that is not in 'tools'");
}

static bool check_tools(struct reading *g, const json_t *tools)
{
    size_t n = json_array_size(tools);
    if (!json_is_array(tools)) return refuse(g, 400, "tools", "'tools' must be an array");
    if (n > VR_MOST_TOOLS) return refuse(g, 400, "tools", "'tools' has %zu entries, at most %d", n, VR_MOST_TOOLS);
    if (!g->e->caps.tools) return refuse(g, 400, "tools", "this model's chat template has no place for tools");
    for (size_t i = 0; i < n; i++) {
        const json_t *f = json_object_get(json_array_get(tools, i), "function");
        const json_t *parameters = json_object_get(f, "parameters");
        struct vr_err err = { 0 };
        if (!json_is_string(json_object_get(f, "name")))
            return refuse(g, 400, "tools", "tools[%zu] has no function with a name", i);
        if (parameters && !json_is_null(parameters) && !json_is_object(parameters))
            return refuse(g, 400, "tools", "tools[%zu].function.parameters must be a schema", i);
        if (json_is_true(json_object_get(f, "strict")) && parameters &&
            !vr_schema_check(parameters, pattern_ok, NULL, &err))
            return refuse(g, 400, "tools", "tools[%zu].function.parameters cannot be used strictly: %s", i, err.msg);
    }
    return true;
}

static bool read_tools(struct reading *g, struct vr_chat_ask *ask, struct chat_texts *t)
{
    const json_t *tools = get(g, "tools"), *choice = get(g, "tool_choice");
    json_t *one = NULL;
    ask->tool_choice = "auto";
    if (json_is_string(choice)) ask->tool_choice = json_string_value(choice);
    bool named = json_is_object(choice);
    if (choice && !named && strcmp(ask->tool_choice, "auto") != 0 && strcmp(ask->tool_choice, "none") != 0 &&
        strcmp(ask->tool_choice, "required") != 0)
        return refuse(g, 400, "tool_choice", "'tool_choice' must be none, auto, required or a function");
    if (!tools || json_array_size(tools) == 0) {
        if (tools && !json_is_array(tools)) return refuse(g, 400, "tools", "'tools' must be an array");
        if (named || strcmp(ask->tool_choice, "required") == 0)
            return refuse(g, 400, "tool_choice", "'tool_choice' needs 'tools'");
        return true;
    }
    if (!check_tools(g, tools) || (named && !choose_tool(g, tools, choice, &one))) return false;
    if (named) ask->tool_choice = "required";
    bool ok = dump(g, "tools", one ? one : tools, VR_MOST_TOOLS_BYTES, &t->tools);
    json_decref(one);
    ask->tools = t->tools;
    ask->parallel = g->e->caps.parallel_tools;
    return ok && read_flag(g, "parallel_tool_calls", &ask->parallel);
}

static bool read_reasoning(struct reading *g, struct vr_chat_ask *ask, struct chat_texts *t)
{
    const json_t *effort = get(g, "reasoning_effort"), *format = get(g, "reasoning_format");
    const json_t *kwargs = get(g, "chat_template_kwargs"), *thinking = json_object_get(kwargs, "enable_thinking");
    if (effort && (!json_is_string(effort) || json_string_length(effort) > 16 ||
                   strspn(json_string_value(effort), "abcdefghijklmnopqrstuvwxyz_") != json_string_length(effort)))
        return refuse(g, 400, "reasoning_effort",
                      "'reasoning_effort' must be a word such as none, low, medium or high");
    ask->effort = json_string_value(effort);
    if (format && !json_is_string(format))
        return refuse(g, 400, "reasoning_format", "'reasoning_format' must be a string");
    ask->keep_reasoning = format && strcmp(json_string_value(format), "none") == 0;
    if (!kwargs) return true;
    if (!json_is_object(kwargs) || (thinking && !json_is_boolean(thinking)))
        return refuse(g, 400, "chat_template_kwargs",
                      "'chat_template_kwargs' must be an object, its enable_thinking a boolean");
    if (!dump(g, "chat_template_kwargs", kwargs, VR_MOST_KWARGS_BYTES, &t->kwargs)) return false;
    ask->kwargs = t->kwargs;
    return true;
}

/* The template's stop strings behind the request's own. */
static void add_chat_stops(struct reading *g)
{
    const char *s;
    for (size_t i = 0; i < VR_MOST_STOPS && (s = vr_bridge_chat_stop(g->r->chat, i)); i++)
        if (*s) g->r->stops[g->r->n_stops++] = s;
}

/* The template's grammar; where it has none for a schema, the schema's own, which leaves no room for a thought. */
static bool make_chat_grammar(struct reading *g, const struct vr_chat_ask *ask)
{
    struct vr_err err = { 0 };
    size_t n;
    const char *gbnf = vr_bridge_chat_gbnf(g->r->chat, &n), *param = ask->schema ? "response_format" : "tools";
    if (g->grammar) return make_grammar(g, g->grammar, "grammar");
    if (n == 0 && ask->schema) {
        if (vr_bridge_chat_thinks(g->r->chat))
            return refuse(g, 400, param,
                          "'response_format' cannot be enforced while this model thinks: set "
                          "'reasoning_effort' to none");
        if (!vr_bridge_schema_grammar(ask->schema, &g->gbnf, &err)) return refuse_err(g, param, &err);
        return make_grammar(g, g->gbnf, param);
    }
    if (n == 0 && strcmp(ask->tool_choice, "required") == 0)
        return refuse(g, 400, "tool_choice", "this model's chat template cannot enforce a tool call: use auto");
    if (n == 0) return true;
    if (!vr_limit_grammar(gbnf, n, &err)) return refuse_err(g, param, &err);
    g->r->grammar = vr_bridge_chat_grammar(g->r->chat, g->e->vocab, &err);
    return g->r->grammar || refuse_err(g, param, &err);
}

/* Numbers that stand for the tokens of a picture where prompts are compared: negative, and others for another one. */
static llama_token picture_token(uint64_t id, uint32_t i)
{
    uint64_t z = id + (i + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return -2 - (llama_token)((z ^ (z >> 31)) & 0x3FFFFFFF);
}

/* A prompt with pictures, as tokens. */
static bool read_scene(struct reading *g, const char *text, size_t n_text)
{
    struct vr_err err = { 0 };
    struct vr_prompt *p = &g->r->prompts[0];
    if (n_text / 512 > g->e->n_ctx_seq) return too_long(g, "messages", n_text / 512, g->e->n_ctx_seq);
    p->scene = vr_bridge_media_new(g->e->vision, text, n_text, g->files, g->bytes, g->n_files, &err);
    if (!p->scene) return refuse_err(g, "messages", &err);
    uint64_t n = 0;
    size_t n_parts = vr_bridge_media_parts(p->scene);
    for (size_t i = 0; i < n_parts; i++) n += vr_bridge_media_part(p->scene, i).n_tokens;
    if (n >= g->e->n_ctx_seq) return too_long(g, "messages", n, g->e->n_ctx_seq - 1);
    llama_token *tokens = calloc((size_t)n + 1, sizeof *tokens);
    p->tokens = tokens;
    p->pictures = vr_arena_alloc(&g->r->arena, n_parts, sizeof *p->pictures);
    if (!tokens || !p->pictures) return refuse_nomem(g);
    uint32_t at = 0;
    for (size_t i = 0; i < n_parts; i++) {
        struct vr_media_part part = vr_bridge_media_part(p->scene, i);
        if (part.whole && part.n_tokens > g->e->n_ubatch)
            return refuse(g, 400, "messages",
                          "a picture takes %u tokens, which must be computed together: start the "
                          "server with --n-ubatch and --n-batch of as many",
                          part.n_tokens);
        if (!part.tokens)
            p->pictures[p->n_pictures++] = (struct vr_picture){ at, part.n_tokens, part.n_pos, (uint32_t)i };
        for (uint32_t k = 0; k < part.n_tokens; k++)
            tokens[at++] = part.tokens ? part.tokens[k] : picture_token(part.id, k);
    }
    if (at && tokens[at - 1] < 0)
        return refuse(g, 400, "messages",
                      "this model's chat template ends with a picture, so there is nothing to answer");
    return set_prompt(g, 0, "messages", tokens, (int)at);
}

static bool make_chat(struct reading *g, const struct vr_chat_ask *ask)
{
    struct vr_request *r = g->r;
    struct vr_err err = { 0 };
    size_t n;
    r->chat = vr_bridge_chat_new(g->e->chats, g->e->vocab, ask, &err);
    if (!r->chat) return refuse_err(g, ask->schema ? "response_format" : "messages", &err);
    add_chat_stops(g);
    if (!make_chat_grammar(g, ask)) return false;
    const char *prompt = vr_bridge_chat_prompt(r->chat, &n);
    r->prompts = vr_arena_alloc(&r->arena, 1, sizeof *r->prompts);
    if (!r->prompts) return refuse_nomem(g);
    r->n_prompts = 1;
    return g->n_files ? read_scene(g, prompt, n) : read_prompt_text(g, 0, "messages", prompt, n);
}

static bool read_chat(struct reading *g)
{
    VR_CLEANUP(chat_texts_done) struct chat_texts t = { 0 };
    struct vr_chat_ask ask = { 0 };
    const json_t *messages = get(g, "messages");
    if (!g->e->text) return refuse(g, 400, "model", "this model makes embeddings, not text");
    if (!g->e->chats)
        return refuse(g, 400, "model", "this model's chat template cannot be used: send 'prompt' instead");
    if (!check_messages(g, messages) || !dump(g, "messages", messages, 0, &t.messages)) return false;
    ask.messages = t.messages;
    if (!read_tools(g, &ask, &t) || !read_reasoning(g, &ask, &t) || !read_schema(g, &t.schema) || !read_grammar(g))
        return false;
    if (t.schema && t.tools && strcmp(ask.tool_choice, "none") != 0)
        return refuse(g, 400, "response_format", "'response_format' and 'tools' exclude each other");
    ask.schema = t.schema;
    return make_chat(g, &ask);
}

/* --- the others --- */

static bool read_completion(struct reading *g)
{
    VR_AUTO_FREE char *schema = NULL;
    struct vr_err err = { 0 };
    if (!g->e->text) return refuse(g, 400, "model", "this model makes embeddings, not text");
    if (!read_schema(g, &schema) || !read_grammar(g)) return false;
    if (schema && !vr_bridge_schema_grammar(schema, &g->gbnf, &err)) return refuse_err(g, "response_format", &err);
    if (g->gbnf && !make_grammar(g, g->gbnf, "response_format")) return false;
    if (g->grammar && !make_grammar(g, g->grammar, "grammar")) return false;
    if (!read_prompts(g, "prompt", VR_MOST_PROMPTS)) return false;
    if ((uint64_t)g->r->n_prompts * g->r->n > 128)
        return refuse(g, 400, "n", "%u prompts with %u answers each, at most 128 in all", g->r->n_prompts, g->r->n);
    return true;
}

static bool read_embedding(struct reading *g)
{
    if (!g->e->embeddings) return refuse(g, 400, "model", "this model makes text, and was not started for embeddings");
    return read_prompts(g, "input", VR_MOST_INPUTS);
}

static bool read_kind(struct reading *g)
{
    const char *kind = json_string_value(get(g, "kind"));
    if (kind && strcmp(kind, "chat") == 0)
        g->r->kind = VR_CHAT;
    else if (kind && strcmp(kind, "completion") == 0)
        g->r->kind = VR_COMPLETION;
    else if (kind && strcmp(kind, "embedding") == 0)
        g->r->kind = VR_EMBEDDING;
    else
        return refuse(g, 400, "kind", "'kind' must be chat, completion or embedding");
    return true;
}

static bool read_all(struct reading *g)
{
    if (!json_is_object(g->body)) return refuse(g, 400, NULL, "the request is not a JSON object");
    if (!read_kind(g)) return false;
    if (g->r->kind == VR_EMBEDDING) return read_embedding(g);
    if (!read_numbers(g) || !read_logprobs(g) || !read_biases(g) || !read_stops(g)) return false;
    return g->r->kind == VR_CHAT ? read_chat(g) : read_completion(g);
}

bool vr_request_read(struct vr_request *r, const struct vr_engine *e, struct vr_refusal *why)
{
    json_error_t at;
    struct reading g = { .r = r, .e = e, .why = why };
    g.body = json_loadb(r->json, r->n_json, JSON_REJECT_DUPLICATES, &at);
    free(r->json);
    r->json = NULL;
    bool ok =
        g.body ? read_all(&g) : refuse(&g, 400, NULL, "the request is not JSON: %s (at byte %d)", at.text, at.position);
    json_decref(g.body);
    free(g.gbnf);
    return ok;
}
