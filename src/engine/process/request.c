/* Reading in the order of cost: numbers and strings first, then schemas and grammars, then the template, then tokens.
 * Types and ranges were checked by the front with the table that is read by here; what is refused is what the model
 * decides. */
#include "engine/process/request.h"

#include <stdarg.h>
#include <string.h>
#include <sys/random.h>

#include "base/text.h"
#include "engine/wire/picture.h"
#include "engine/wire/schema.h"

struct reading {
    struct vr_request *r;
    const struct vr_engine *e;
    struct vr_refusal *why;
    json_t *body;
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

/* An error of ours or of the engine about `param`. */
static bool refuse_err(struct reading *g, const char *param, const struct vr_err *err)
{
    return err->code == VR_ENOMEM ? vr_refuse_nomem(g->why) : vr_refuse(g->why, param, NULL, "%s", err->msg);
}

/* --- numbers --- */

#define GET(g, field) vr_request_get((g)->body, VR_FIELD_##field)

static void read_numbers(struct reading *g)
{
    struct vr_request *r = g->r;
    const json_t *v;
    r->sampling = g->e->defaults;
    r->n = 1;
    r->cache = true;
    r->max_tokens = r->kind == VR_COMPLETION ? 16 : INT32_MAX; /* OpenAI's defaults */
    if (getrandom(&r->seed, sizeof r->seed, 0) != sizeof r->seed) r->seed = (uint64_t)(r->arrived_ms * 1e6);
#define NUMBER(field, member)                                                                                          \
    if ((v = GET(g, field))) r->member = (float)json_number_value(v);
#define WHOLE(field, member)                                                                                           \
    if ((v = GET(g, field))) r->member = (__typeof__(r->member))json_integer_value(v);
#define FLAG(field, member)                                                                                            \
    if ((v = GET(g, field))) r->member = json_is_true(v);
#include "engine/process/request.def"
#undef NUMBER
#undef WHOLE
#undef FLAG
}

/* A chat asks for them with a flag and a number beside it, a completion with the number. */
static void read_logprobs(struct reading *g)
{
    const json_t *top = g->r->kind == VR_CHAT ? GET(g, top_logprobs) : GET(g, top_logprobs_of_completion);
    g->r->logprobs = g->r->kind == VR_CHAT ? json_is_true(GET(g, logprobs)) : top != NULL;
    g->r->top_logprobs = (uint32_t)json_integer_value(top);
}

/* The request's biases, and what the model must never say. */
static bool read_biases(struct reading *g)
{
    json_t *map = GET(g, logit_bias), *v;
    const char *key;
    int32_t n_never = 0;
    const llama_token *never = llama_vocab_get_suppress_tokens(g->e->vocab, &n_never);
    size_t n = json_object_size(map), have = 0;
    struct vr_bias *b = vr_arena_alloc(&g->r->arena, n + (size_t)(n_never > 0 ? n_never : 0) + 1, sizeof *b);
    if (!b) return vr_refuse_nomem(g->why);
    json_object_foreach(map, key, v)
    {
        uint64_t token;
        double bias = json_number_value(v);
        if (!vr_parse_u64(key, 0, g->e->n_vocab - 1, &token))
            return vr_refuse(g->why, "logit_bias", NULL, "'%.40s' in 'logit_bias' is no token of this model (0 to %u)",
                             key, g->e->n_vocab - 1);
        b[have++] = (struct vr_bias){ (int32_t)token, bias <= -100 ? -1e9f : (float)bias };
    }
    for (int32_t i = 0; i < n_never; i++) b[have++] = (struct vr_bias){ never[i], -1e9f };
    g->r->sampling.bias = b;
    g->r->sampling.n_bias = have;
    return true;
}

static bool read_stops(struct reading *g)
{
    const json_t *v = GET(g, stop);
    size_t n = json_is_array(v) ? json_array_size(v) : v ? 1 : 0;
    g->r->stops = vr_arena_alloc(&g->r->arena, n + VR_MOST_STOPS, sizeof *g->r->stops);
    if (!g->r->stops) return vr_refuse_nomem(g->why);
    for (size_t i = 0; i < n; i++) {
        const json_t *s = json_is_array(v) ? json_array_get(v, i) : v;
        g->r->stops[i] = vr_arena_strndup(&g->r->arena, json_string_value(s), json_string_length(s));
        if (!g->r->stops[i]) return vr_refuse_nomem(g->why);
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

/* The schema of response_format as JSON text that the caller frees; NULL and true when any text will do. Its patterns
 * are all that is left to ask: whether a regular expression can be a grammar only the engine knows. */
static bool read_schema(struct reading *g, char **out)
{
    const json_t *format = GET(g, response_format);
    const char *type = json_string_value(json_object_get(format, "type"));
    *out = NULL;
    if (!type || strcmp(type, "text") == 0) return true;
    if (strcmp(type, "json_object") == 0) {
        *out = strdup("{\"type\":\"object\"}");
        return *out || vr_refuse_nomem(g->why);
    }
    const json_t *schema = json_object_get(json_object_get(format, "json_schema"), "schema");
    struct vr_err err = { 0 };
    if (!vr_schema_check(schema, pattern_ok, NULL, &err))
        return vr_refuse(g->why, "response_format.json_schema.schema", "invalid_schema",
                         "the schema cannot be used: %s", err.msg);
    *out = json_dumps(schema, JSON_COMPACT);
    return *out || vr_refuse_nomem(g->why);
}

/* The grammar that the request brings, whose size and nesting the front has looked at. */
static bool read_grammar(struct reading *g)
{
    struct vr_err err = { 0 };
    const char *gbnf = json_string_value(GET(g, grammar));
    if (!gbnf) return true;
    g->r->grammar = vr_bridge_grammar_new(g->e->vocab, gbnf, &err);
    return g->r->grammar || refuse_err(g, "grammar", &err);
}

/* One that is made of a schema here, and may have become large. */
static bool make_schema_grammar(struct reading *g, const char *schema)
{
    struct vr_err err = { 0 };
    VR_AUTO_FREE char *gbnf = NULL;
    if (vr_bridge_schema_grammar(schema, &gbnf, &err) && vr_limit_grammar(gbnf, strlen(gbnf), &err))
        g->r->grammar = vr_bridge_grammar_new(g->e->vocab, gbnf, &err);
    return g->r->grammar || refuse_err(g, "response_format", &err);
}

/* --- prompts --- */

static bool too_long(struct reading *g, const char *param, uint64_t n, uint64_t most)
{
    return vr_refuse(g->why, param, "context_length_exceeded",
                     "this model's context holds %llu tokens for one request, but '%s' has %llu: %llu too many. "
                     "Shorten it, or start the server with a larger --n-ctx",
                     (unsigned long long)most, param, (unsigned long long)n, (unsigned long long)(n - most));
}

static bool is_tokens(const json_t *v) { return json_is_integer(json_array_get(v, 0)); }

static bool set_prompt(struct reading *g, uint32_t i, const char *param, llama_token *tokens, int n)
{
    /* a text needs room for one token of answer; an embedding does not */
    uint64_t most = g->e->n_ctx_seq - (g->r->kind == VR_EMBEDDING ? 0 : 1);
    if (g->r->kind == VR_EMBEDDING && !g->e->text && g->e->n_ubatch < most) most = g->e->n_ubatch;
    g->r->prompts[i].tokens = tokens;
    g->r->prompts[i].n = (uint32_t)n;
    if (n == 0) return vr_refuse(g->why, param, NULL, "'%s' is empty", param);
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
    if (!tokens) return vr_refuse_nomem(g->why);
    g->r->prompts[i].tokens = tokens;
    for (size_t k = 0; k < n; k++) {
        json_int_t token = json_integer_value(json_array_get(list, k));
        if (token >= (json_int_t)g->e->n_vocab)
            return vr_refuse(g->why, param, NULL, "'%s' must hold tokens of this model (0 to %u)", param,
                             g->e->n_vocab - 1);
        tokens[k] = (llama_token)token;
    }
    return set_prompt(g, i, param, tokens, (int)n);
}

/* A string, token ids, or an array of either. */
static bool read_prompts(struct reading *g, enum vr_request_field field)
{
    const json_t *v = vr_request_get(g->body, field);
    const char *param = vr_request_field_name(field);
    bool one = json_is_string(v) || is_tokens(v);
    size_t n = one ? 1 : json_array_size(v);
    g->r->prompts = vr_arena_alloc(&g->r->arena, n, sizeof *g->r->prompts);
    if (!g->r->prompts) return vr_refuse_nomem(g->why);
    g->r->n_prompts = (uint32_t)n;
    for (uint32_t i = 0; i < n; i++) {
        const json_t *p = one ? v : json_array_get(v, i);
        if (!(json_is_string(p) ? read_prompt_text(g, i, param, json_string_value(p), json_string_length(p))
                                : read_prompt_tokens(g, i, param, p)))
            return false;
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

static bool dump(struct reading *g, const json_t *v, char **out)
{
    *out = json_dumps(v, JSON_COMPACT);
    return *out || vr_refuse_nomem(g->why);
}

/* A picture: its file is kept, and a marker takes its place. */
static bool read_picture(struct reading *g, json_t *part, const char *where)
{
    struct vr_err err = { 0 };
    struct vr_picture_file file;
    const json_t *url = json_object_get(json_object_get(part, "image_url"), "url");
    if (!g->e->vision)
        return vr_refuse(g->why, "messages", "unsupported_content", "%s is an image: this model supports text only",
                         where);
    if (!vr_picture_read(json_string_value(url), json_string_length(url), &g->r->arena, &file, &err))
        return err.code == VR_ENOMEM ? vr_refuse_nomem(g->why)
                                     : vr_refuse(g->why, "messages", NULL, "%s: %s", where, err.msg);
    g->files[g->n_files] = file.data;
    g->bytes[g->n_files++] = file.n;
    json_object_clear(part);
    json_object_set_new(part, "type", json_string("media_marker"));
    json_object_set_new(part, "text", json_string(vr_bridge_vision_marker(g->e->vision)));
    return json_object_size(part) == 2 || vr_refuse_nomem(g->why);
}

static bool read_pictures(struct reading *g, const json_t *messages)
{
    for (size_t i = 0; i < json_array_size(messages); i++) {
        const json_t *content = json_object_get(json_array_get(messages, i), "content");
        for (size_t k = 0; k < json_array_size(content); k++) {
            json_t *part = json_array_get(content, k);
            char where[64];
            snprintf(where, sizeof where, "messages[%zu].content[%zu]", i, k);
            if (json_object_get(part, "image_url") && !read_picture(g, part, where)) return false;
        }
    }
    return true;
}

/* The function that tool_choice names, alone. */
static json_t *choose_tool(const json_t *tools, const json_t *choice)
{
    const json_t *name = json_object_get(json_object_get(choice, "function"), "name");
    for (size_t i = 0; i < json_array_size(tools); i++) {
        json_t *tool = json_array_get(tools, i);
        if (json_equal(json_object_get(json_object_get(tool, "function"), "name"), name)) return json_pack("[O]", tool);
    }
    return NULL;
}

/* That the template has a place for them, and patterns of strict ones. */
static bool check_tools(struct reading *g, const json_t *tools)
{
    if (!g->e->caps.tools) return vr_refuse(g->why, "tools", NULL, "this model's chat template has no place for tools");
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *f = json_object_get(json_array_get(tools, i), "function");
        const json_t *parameters = json_object_get(f, "parameters");
        struct vr_err err = { 0 };
        if (json_is_true(json_object_get(f, "strict")) && json_is_object(parameters) &&
            !vr_schema_check(parameters, pattern_ok, NULL, &err))
            return vr_refuse(g->why, "tools", "invalid_schema",
                             "tools[%zu].function.parameters cannot be used strictly: %s", i, err.msg);
    }
    return true;
}

static bool read_tools(struct reading *g, struct vr_chat_ask *ask, struct chat_texts *t)
{
    const json_t *tools = GET(g, tools), *choice = GET(g, tool_choice), *parallel = GET(g, parallel_tool_calls);
    ask->tool_choice = json_is_object(choice)   ? "required"
                       : json_is_string(choice) ? json_string_value(choice)
                                                : "auto";
    if (json_array_size(tools) == 0) return true;
    if (!check_tools(g, tools)) return false;
    json_t *one = json_is_object(choice) ? choose_tool(tools, choice) : NULL;
    bool ok = dump(g, one ? one : tools, &t->tools);
    json_decref(one);
    ask->tools = t->tools;
    ask->parallel = parallel ? json_is_true(parallel) : g->e->caps.parallel_tools;
    return ok;
}

static bool read_reasoning(struct reading *g, struct vr_chat_ask *ask, struct chat_texts *t)
{
    const json_t *kwargs = GET(g, chat_template_kwargs);
    const char *format = json_string_value(GET(g, reasoning_format));
    ask->effort = json_string_value(GET(g, reasoning_effort));
    ask->keep_reasoning = format && strcmp(format, "none") == 0;
    if (!kwargs) return true;
    if (!dump(g, kwargs, &t->kwargs)) return false;
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
    if (GET(g, grammar)) return read_grammar(g);
    if (n == 0 && ask->schema) {
        if (vr_bridge_chat_thinks(g->r->chat))
            return vr_refuse(g->why, param, NULL,
                             "'response_format' cannot be enforced while this model thinks: set "
                             "'reasoning_effort' to none");
        return make_schema_grammar(g, ask->schema);
    }
    if (n == 0 && strcmp(ask->tool_choice, "required") == 0)
        return vr_refuse(g->why, "tool_choice", NULL,
                         "this model's chat template cannot enforce a tool call: use auto");
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
    if (!tokens || !p->pictures) return vr_refuse_nomem(g->why);
    uint32_t at = 0;
    for (size_t i = 0; i < n_parts; i++) {
        struct vr_media_part part = vr_bridge_media_part(p->scene, i);
        if (part.whole && part.n_tokens > g->e->n_ubatch)
            return vr_refuse(g->why, "messages", NULL,
                             "an image takes %u tokens, which must be in one micro-batch: start the "
                             "server with --n-ubatch and --n-batch of as many",
                             part.n_tokens);
        if (!part.tokens)
            p->pictures[p->n_pictures++] = (struct vr_picture){ at, part.n_tokens, part.n_pos, (uint32_t)i };
        for (uint32_t k = 0; k < part.n_tokens; k++)
            tokens[at++] = part.tokens ? part.tokens[k] : picture_token(part.id, k);
    }
    if (at && tokens[at - 1] < 0)
        return vr_refuse(g->why, "messages", NULL,
                         "this model's chat template ends with an image, so there is nothing to answer");
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
    if (!r->prompts) return vr_refuse_nomem(g->why);
    r->n_prompts = 1;
    return g->n_files ? read_scene(g, prompt, n) : read_prompt_text(g, 0, "messages", prompt, n);
}

static bool read_chat(struct reading *g)
{
    VR_CLEANUP(chat_texts_done) struct chat_texts t = { 0 };
    struct vr_chat_ask ask = { 0 };
    const json_t *messages = GET(g, messages);
    if (!g->e->chats)
        return vr_refuse(g->why, "model", "unsupported_model",
                         "this model's chat template cannot be used: send 'prompt' instead");
    if (!read_pictures(g, messages) || !dump(g, messages, &t.messages)) return false;
    ask.messages = t.messages;
    if (!read_tools(g, &ask, &t) || !read_reasoning(g, &ask, &t) || !read_schema(g, &t.schema)) return false;
    ask.schema = t.schema;
    return make_chat(g, &ask);
}

/* --- the others --- */

static bool read_completion(struct reading *g)
{
    VR_AUTO_FREE char *schema = NULL;
    return read_schema(g, &schema) && (!schema || make_schema_grammar(g, schema)) && read_grammar(g) &&
           read_prompts(g, VR_FIELD_prompt);
}

static bool read_embedding(struct reading *g)
{
    const json_t *dimensions = GET(g, dimensions);
    if (!g->e->embeddings)
        return vr_refuse(
            g->why, "model", "unsupported_model",
            "this is a text generation model; start the server with --embeddings to get embeddings from it");
    if (dimensions && json_integer_value(dimensions) != g->e->n_embd)
        return vr_refuse(g->why, "dimensions", "invalid_value", "this model's embeddings have %u dimensions, no others",
                         g->e->n_embd);
    return read_prompts(g, VR_FIELD_input);
}

static bool read_all(struct reading *g)
{
    if (!vr_request_kind_parse(json_string_value(json_object_get(g->body, "kind")), &g->r->kind))
        return vr_refuse(g->why, "kind", NULL, "the request has no kind");
    if (g->r->kind == VR_EMBEDDING) return read_embedding(g);
    if (!g->e->text)
        return vr_refuse(g->why, "model", "unsupported_model", "this is an embedding model; use /v1/embeddings");
    read_numbers(g);
    read_logprobs(g);
    if (!read_biases(g) || !read_stops(g)) return false;
    return g->r->kind == VR_CHAT ? read_chat(g) : read_completion(g);
}

bool vr_request_read(struct vr_request *r, const struct vr_engine *e, struct vr_refusal *why)
{
    json_error_t at;
    struct reading g = { .r = r, .e = e, .why = why };
    g.body = json_loadb(r->json, r->n_json, JSON_REJECT_DUPLICATES, &at);
    free(r->json);
    r->json = NULL;
    bool ok = g.body ? read_all(&g)
                     : vr_refuse(why, NULL, NULL, "the request is not JSON: %s (at byte %d)", at.text, at.position);
    json_decref(g.body);
    return ok;
}
