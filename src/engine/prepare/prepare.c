/* Reading in the order of cost: numbers and strings first, then schemas and grammars, then the template, then tokens.
 * Types and ranges were checked by the front with the table that is read by here; what is refused is what the model
 * decides. */
#include "engine/prepare/prepare.h"

#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "engine/prepare/asr.h"
#include "engine/prepare/budget.h"
#include "engine/prepare/billing.h"
#include "engine/prepare/boundaries.h"
#include "engine/prepare/infill.h"
#include "engine/prepare/rank_prompt.h"
#include "engine/prepare/reading.h"
#include "engine/prepare/token_list.h"
#include "engine/wire/pattern.h"
#include "engine/wire/schema.h"
#include "engine/wire/schema_numbers.h"

enum { MOST_TOKEN = 512 }; /* bytes that a token can have; most have a few */

static void reading_done(struct vr_reading *g)
{
    for (size_t i = 0; i < g->p->n_prompts; i++) free((void *)(uintptr_t)g->p->prompts[i].ids);
    for (size_t i = 0; i < g->p->n_pictures; i++) free((void *)(uintptr_t)g->p->pictures[i].pixels.data);
    vr_bridge_chat_free(g->chat);
    vr_chat_prompt_done(&g->prompt);
    free(g->gbnf);
    vr_buf_done(&g->reply);
    vr_buf_done(&g->numbered);
    json_decref(g->numbers);
    vr_arena_done(&g->arena);
    json_decref(g->body);
}

/* --- the model's file --- */

/* The sampling that the model's makers recommend, where the file says; llama.cpp's otherwise. */
static void read_defaults(const struct llama_model *model, struct vr_sampling *s)
{
    *s = (struct vr_sampling){ .temperature = 0.8f,
                               .top_k = 40,
                               .top_p = 0.95f,
                               .min_p = 0.05f,
                               .repeat = 1,
                               .repeat_last_n = 64,
                               .chain = { .typical_p = 1,
                                          .top_n_sigma = -1,
                                          .xtc_threshold = 0.1f,
                                          .dry_base = 1.75f,
                                          .dry_allowed_length = 2,
                                          .dry_last_n = -1,
                                          .dynatemp_exponent = 1,
                                          .mirostat_tau = 5,
                                          .mirostat_eta = 0.1f } };
    static const enum llama_model_meta_key keys[] = {
        LLAMA_MODEL_META_KEY_SAMPLING_TEMP, LLAMA_MODEL_META_KEY_SAMPLING_TOP_K, LLAMA_MODEL_META_KEY_SAMPLING_TOP_P,
        LLAMA_MODEL_META_KEY_SAMPLING_MIN_P, LLAMA_MODEL_META_KEY_SAMPLING_PENALTY_REPEAT
    };
    for (size_t i = 0; i < VR_COUNT(keys); i++) {
        char text[64];
        double v;
        const char *key = llama_model_meta_key_str(keys[i]);
        if (!key || llama_model_meta_val_str(model, key, text, sizeof text) < 0 || !vr_parse_double(text, &v)) continue;
        switch (keys[i]) {
        case LLAMA_MODEL_META_KEY_SAMPLING_TEMP: s->temperature = (float)v; break;
        case LLAMA_MODEL_META_KEY_SAMPLING_TOP_K: s->top_k = (int32_t)v; break;
        case LLAMA_MODEL_META_KEY_SAMPLING_TOP_P: s->top_p = (float)v; break;
        case LLAMA_MODEL_META_KEY_SAMPLING_MIN_P: s->min_p = (float)v; break;
        default:
            if (v > 0) s->repeat = (float)v;
        }
    }
}

bool vr_preparer_open(struct vr_preparer *e, const char *path, const char *chat_template, struct vr_err *err)
{
    static ggml_backend_dev_t no_devices[] = { NULL };
    struct llama_model_params p = llama_model_default_params();
    p.vocab_only = true;
    p.devices = no_devices;
    *e = (struct vr_preparer){ .model = llama_model_load_from_file(path, p) };
    if (!e->model) return vr_fail(err, VR_EENGINE, "%s: the vocabulary could not be loaded", path);
    e->vocab = llama_model_get_vocab(e->model);
    e->n_vocab = (uint32_t)llama_vocab_n_tokens(e->vocab);
    read_defaults(e->model, &e->defaults);
    e->specials = vr_chat_specials(e->model, chat_template, err);
    return e->specials != NULL;
}

/* --- what the answer must look like --- */

static bool pattern_ok(void *ctx, const char *pattern, struct vr_err *err)
{
    (void)ctx;
    return vr_bridge_pattern_ok(pattern, err);
}

/* The schema of response_format as JSON text that the caller frees; NULL and true when any text will do. Its patterns
 * are all that is left to ask: whether a regular expression can be a grammar only the engine knows. */
static bool read_schema(struct vr_reading *g, char **out)
{
    const json_t *format = GET(g, response_format);
    const char *type = json_string_value(json_object_get(format, "type"));
    *out = NULL;
    if (!type || strcmp(type, "text") == 0) return true;
    if (strcmp(type, "json_object") == 0) {
        *out = strdup("{\"type\":\"object\"}");
        return *out || vr_refuse_nomem(g->why);
    }
    json_t *schema = json_object_get(json_object_get(format, "json_schema"), "schema");
    struct vr_err err = { 0 };
    vr_budget_stage(VR_STAGE_PATTERNS);
    if (!vr_patterns_write(schema)) return vr_refuse_nomem(g->why);
    if (!vr_schema_check(schema, VR_SCHEMA_ANSWER, pattern_ok, NULL, &err))
        return vr_refuse(g->why, "response_format.json_schema.schema", "invalid_schema",
                         "the schema cannot be used: %s", err.msg);
    g->numbers = json_array();
    if (!g->numbers) return vr_refuse_nomem(g->why);
    if (!vr_numbers_take(schema, g->numbers, &err))
        return vr_reading_refuse(g, "response_format.json_schema.schema", &err);
    *out = json_dumps(schema, JSON_COMPACT);
    return *out || vr_refuse_nomem(g->why);
}

static void set_grammar(struct vr_reading *g, const struct vr_grammar_spec *spec, const char *param)
{
    g->p->grammar = *spec;
    g->p->grammar_param = (struct vr_span){ param, strlen(param) };
}

/* One that was made of a schema, whose numbers may have limits. */
static bool set_made_grammar(struct vr_reading *g, const struct vr_grammar_spec *spec, const char *param)
{
    struct vr_grammar_spec whole = *spec;
    if (json_array_size(g->numbers)) {
        bool all = vr_numbers_put(spec->gbnf.data, spec->gbnf.n, g->numbers, &g->numbered);
        if (g->numbered.failed) return vr_refuse_nomem(g->why);
        if (!all) return vr_refuse(g->why, param, "invalid_schema", "the limits of its numbers cannot be enforced");
        whole.gbnf = (struct vr_span){ g->numbered.data, g->numbered.n };
    }
    set_grammar(g, &whole, param);
    return true;
}

/* The grammar that the request brings. */
static void read_grammar(struct vr_reading *g)
{
    const json_t *v = GET(g, grammar);
    if (v)
        set_grammar(g, &(struct vr_grammar_spec){ .gbnf = { json_string_value(v), json_string_length(v) } }, "grammar");
}

/* One that is made of a schema here. */
static bool make_schema_grammar(struct vr_reading *g, const char *schema)
{
    struct vr_err err = { 0 };
    vr_budget_stage(VR_STAGE_SCHEMA);
    if (!vr_bridge_schema_grammar(schema, &g->gbnf, &err)) return vr_reading_refuse(g, "response_format", &err);
    return set_made_grammar(g, &(struct vr_grammar_spec){ .gbnf = { g->gbnf, strlen(g->gbnf) } }, "response_format");
}

/* --- prompts --- */

static bool too_long(struct vr_reading *g, const char *param, uint64_t n, uint64_t most)
{
    return vr_refuse_too_long(g->why, param, n, most, g->is->n_ctx_seq);
}

static bool set_prompt(struct vr_reading *g, uint32_t i, const char *param, llama_token *tokens, int n)
{
    /* a text needs room for one token of answer; what is pooled does not */
    bool pooled = vr_request_is_pooled((enum vr_request_kind)g->p->kind);
    uint64_t most = g->is->n_ctx_seq - (pooled ? 0 : 1);
    if (pooled && !g->is->text && g->is->n_ubatch < most) most = g->is->n_ubatch;
    g->p->prompts[i] = (struct vr_ids){ tokens, (size_t)n };
    if (n == 0) return vr_refuse(g->why, param, NULL, "'%s' is empty", param);
    return g->p->look || (uint64_t)n <= most || too_long(g, param, (uint64_t)n, most);
}

/* What is this long cannot fit, and would only keep the tokenizer busy. */
static bool is_hopeless(const struct vr_reading *g, size_t n) { return n / MOST_TOKEN > g->is->n_ctx_seq; }

static bool read_prompt_text(struct vr_reading *g, uint32_t i, const char *param, const char *text, size_t n)
{
    struct vr_err err = { 0 };
    llama_token *tokens = NULL;
    if (is_hopeless(g, n)) return too_long(g, param, n / MOST_TOKEN, g->is->n_ctx_seq);
    if (!vr_reading_has_tokenizer(g, param)) return false;
    vr_budget_stage(VR_STAGE_TOKENS);
    int count = vr_bridge_tokenize(g->e->vocab, text, n, true, &tokens, &err);
    return count < 0 ? vr_reading_refuse(g, param, &err) : set_prompt(g, i, param, tokens, count);
}

/* A text among others, or a token. The first text brings what the model begins with. */
static bool add_piece_of_prompt(struct vr_reading *g, const json_t *v, bool first, const char *param,
                                struct vr_buf *out)
{
    struct vr_err err = { 0 };
    VR_AUTO_FREE llama_token *tokens = NULL;
    llama_token token = (llama_token)json_integer_value(v);
    size_t n = json_string_length(v);
    if (!json_is_string(v) && json_integer_value(v) >= (json_int_t)g->e->n_vocab)
        return vr_refuse(g->why, param, NULL, "'%s' must hold tokens of this model (0 to %u)", param,
                         g->e->n_vocab - 1);
    if (!json_is_string(v)) return vr_buf_add(out, &token, sizeof token), true;
    if (is_hopeless(g, n)) return too_long(g, param, n / MOST_TOKEN, g->is->n_ctx_seq);
    if (!vr_reading_has_tokenizer(g, param)) return false;
    int count = vr_bridge_tokenize(g->e->vocab, json_string_value(v), n, first, &tokens, &err);
    if (count < 0) return vr_reading_refuse(g, param, &err);
    vr_buf_add(out, tokens, (size_t)count * sizeof *tokens);
    return true;
}

static bool read_prompt_pieces(struct vr_reading *g, uint32_t i, const char *param, const json_t *list)
{
    VR_AUTO_BUF all = { 0 };
    size_t n = json_array_size(list), most = g->is->n_ctx_seq;
    vr_budget_stage(VR_STAGE_TOKENS);
    for (size_t k = 0; k < n; k++) {
        if (all.n / sizeof(llama_token) + n - k > most)
            return too_long(g, param, all.n / sizeof(llama_token) + n - k, most);
        if (!add_piece_of_prompt(g, json_array_get(list, k), k == 0, param, &all)) return false;
    }
    llama_token *ids = calloc(all.n / sizeof *ids + 1, sizeof *ids);
    if (!ids || all.failed) return free(ids), vr_refuse_nomem(g->why);
    if (all.n) memcpy(ids, all.data, all.n);
    return set_prompt(g, i, param, ids, (int)(all.n / sizeof *ids));
}

/* A string, token ids with texts among them or not, or an array of either. */
static bool read_prompts(struct vr_reading *g, enum vr_request_field field)
{
    const json_t *v = vr_request_get(g->body, field);
    const char *param = vr_request_field_name(field);
    bool one = vr_is_one_text(v);
    size_t n = one ? 1 : json_array_size(v);
    g->p->prompts = vr_arena_alloc(&g->arena, n, sizeof *g->p->prompts);
    if (!g->p->prompts) return vr_refuse_nomem(g->why);
    g->p->n_prompts = n;
    for (uint32_t i = 0; i < n; i++) {
        const json_t *p = one ? v : json_array_get(v, i);
        if (!(json_is_string(p) ? read_prompt_text(g, i, param, json_string_value(p), json_string_length(p))
                                : read_prompt_pieces(g, i, param, p)))
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

static bool dump(struct vr_reading *g, const json_t *v, char **out)
{
    *out = json_dumps(v, JSON_COMPACT);
    return *out || vr_refuse_nomem(g->why);
}

/* The file of a part is kept, and a marker takes its place. */
static bool put_marker(struct vr_reading *g, json_t *part)
{
    g->n_files++;
    json_object_clear(part);
    json_object_set_new(part, "type", json_string("media_marker"));
    json_object_set_new(part, "text", json_string(g->is->marker));
    return json_object_size(part) == 2 || vr_refuse_nomem(g->why);
}

static bool read_picture(struct vr_reading *g, json_t *part, const char *where)
{
    struct vr_err err = { 0 };
    const json_t *url = json_object_get(json_object_get(part, "image_url"), "url");
    if (!g->is->vision)
        return vr_refuse(g->why, "messages", "unsupported_content", "%s is an image: this model supports text only",
                         where);
    if (!vr_picture_read(json_string_value(url), json_string_length(url), &g->arena, &g->files[g->n_files], &err))
        return err.code == VR_ENOMEM ? vr_refuse_nomem(g->why)
                                     : vr_refuse(g->why, "messages", NULL, "%s: %s", where, err.msg);
    return put_marker(g, part);
}

static const char *media_param(const struct vr_reading *g) { return g->speech ? "file" : "messages"; }

static bool read_sound(struct vr_reading *g, json_t *part, const char *where)
{
    struct vr_err err = { 0 };
    const json_t *data = json_object_get(json_object_get(part, "input_audio"), "data");
    if (!g->is->sound_rate)
        return vr_refuse(g->why, media_param(g), "unsupported_content",
                         "%s is a sound, which this model does not take: it needs a projector (--mmproj) for sound",
                         where);
    if (!vr_sound_read(json_string_value(data), json_string_length(data), &g->arena, &g->files[g->n_files], &err))
        return err.code == VR_ENOMEM ? vr_refuse_nomem(g->why)
                                     : vr_refuse(g->why, media_param(g), NULL, "%s: %s", where, err.msg);
    return put_marker(g, part);
}

/* One after the other, so that together they are no longer than one may be. */
static bool decode_file(struct vr_reading *g, const struct vr_picture_file *f, size_t *n_samples, struct vr_rgb *out,
                        struct vr_err *err)
{
    size_t most = (size_t)VR_MOST_SOUND_SECONDS * g->is->sound_rate;
    if (f->width) return vr_bridge_picture_decode(f->data, f->n, out, err);
    if (!vr_bridge_sound_decode(f->data, f->n, g->is->sound_rate, most - *n_samples, out, err))
        return err->code == VR_ENOFIT
                   ? vr_fail_more(err, "; all sounds of a request have at most %d", VR_MOST_SOUND_SECONDS)
                   : false;
    *n_samples += out->pixels.n / sizeof(float);
    return true;
}

/* The files become pixels: what a small file may turn into is known from its header, and paid for by the pixel. */
static bool decode_pictures(struct vr_reading *g)
{
    uint64_t n_pixels = 0;
    size_t n_samples = 0;
    struct vr_err err = { 0 };
    for (size_t i = 0; i < g->n_files; i++) n_pixels += (uint64_t)g->files[i].width * g->files[i].height;
    if (n_pixels > VR_MOST_PICTURES_PIXELS)
        return vr_refuse(g->why, "messages", "too_costly", "the images have %llu million pixels together, at most %d",
                         (unsigned long long)(n_pixels / 1000000), VR_MOST_PICTURES_PIXELS / 1000000);
    vr_budget_stage(VR_STAGE_PICTURES);
    vr_budget_add_pixels(n_pixels);
    g->p->pictures = vr_arena_alloc(&g->arena, g->n_files, sizeof *g->p->pictures);
    if (!g->p->pictures) return vr_refuse_nomem(g->why);
    for (size_t i = 0; i < g->n_files; i++) {
        if (!decode_file(g, &g->files[i], &n_samples, &g->p->pictures[i], &err))
            return err.code == VR_ENOMEM ? vr_refuse_nomem(g->why)
                                         : vr_refuse(g->why, media_param(g), NULL, "%s %zu cannot be decoded: %s",
                                                     g->files[i].width ? "image" : "sound", i + 1, err.msg);
        g->p->n_pictures++;
    }
    return true;
}

static bool read_pictures(struct vr_reading *g, const json_t *messages)
{
    for (size_t i = 0; i < json_array_size(messages); i++) {
        const json_t *content = json_object_get(json_array_get(messages, i), "content");
        for (size_t k = 0; k < json_array_size(content); k++) {
            json_t *part = json_array_get(content, k);
            char where[64];
            if (g->speech)
                snprintf(where, sizeof where, "'file'");
            else
                snprintf(where, sizeof where, "messages[%zu].content[%zu]", i, k);
            if (json_object_get(part, "image_url") && !read_picture(g, part, where)) return false;
            if (json_object_get(part, "input_audio") && !read_sound(g, part, where)) return false;
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

/* Patterns, and what strict ones say. */
static bool check_tools(struct vr_reading *g, const json_t *tools)
{
    vr_budget_stage(VR_STAGE_PATTERNS);
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *f = json_object_get(json_array_get(tools, i), "function");
        json_t *parameters = json_object_get(f, "parameters");
        struct vr_err err = { 0 };
        if (!vr_patterns_write(parameters)) return vr_refuse_nomem(g->why);
        if (json_is_true(json_object_get(f, "strict")) && json_is_object(parameters) &&
            !vr_schema_check(parameters, VR_SCHEMA_TOOL, pattern_ok, NULL, &err))
            return vr_refuse(g->why, "tools", "invalid_schema",
                             "tools[%zu].function.parameters cannot be used strictly: %s", i, err.msg);
    }
    return true;
}

static bool read_tools(struct vr_reading *g, struct vr_chat_ask *ask, struct chat_texts *t)
{
    const json_t *tools = GET(g, tools), *choice = GET(g, tool_choice), *parallel = GET(g, parallel_tool_calls);
    ask->tool_choice = json_is_object(choice)   ? "required"
                       : json_is_string(choice) ? json_string_value(choice)
                                                : "auto";
    if (json_array_size(tools) == 0) return true;
    if (strcmp(ask->tool_choice, "none") == 0 && !g->e->caps.tools) return true; /* nothing of them is needed */
    if (!check_tools(g, tools)) return false;
    json_t *one = json_is_object(choice) ? choose_tool(tools, choice) : NULL;
    bool ok = dump(g, one ? one : tools, &t->tools);
    json_decref(one);
    ask->tools = t->tools;
    ask->parallel = parallel ? json_is_true(parallel) : g->e->caps.parallel_tools;
    return ok;
}

static bool read_reasoning(struct vr_reading *g, struct vr_chat_ask *ask, struct chat_texts *t)
{
    const json_t *kwargs = GET(g, chat_template_kwargs);
    const char *format = json_string_value(GET(g, reasoning_format));
    ask->effort = json_string_value(GET(g, reasoning_effort));
    ask->keep_reasoning = format && strcmp(format, "none") == 0;
    ask->continues = json_is_true(GET(g, continue_final_message));
    ask->unopened = json_is_false(GET(g, add_generation_prompt));
    if (!kwargs) return true;
    if (!dump(g, kwargs, &t->kwargs)) return false;
    ask->kwargs = t->kwargs;
    return true;
}

/* The template's stop strings behind the request's own. */
static void add_chat_stops(struct vr_reading *g)
{
    const char *s;
    for (size_t i = 0; i < VR_MOST_STOPS && (s = vr_bridge_chat_stop(g->chat, i)); i++)
        if (*s) g->p->stops[g->p->n_stops++] = (struct vr_span){ s, strlen(s) };
}

/* The template's grammar; where it has none for a schema, the schema's own, which leaves no room for a thought. */
static bool make_chat_grammar(struct vr_reading *g, const struct vr_chat_ask *ask)
{
    const struct vr_grammar_spec *spec = vr_bridge_chat_grammar(g->chat);
    const char *param = ask->schema ? "response_format" : "tools";
    if (GET(g, grammar)) return read_grammar(g), true;
    if (!spec && ask->schema) {
        if (vr_bridge_chat_thinks(g->chat))
            return vr_refuse(g->why, param, NULL,
                             "'response_format' cannot be enforced while this model thinks: set "
                             "'reasoning_effort' to none");
        return make_schema_grammar(g, ask->schema);
    }
    if (!spec && strcmp(ask->tool_choice, "required") == 0)
        return vr_refuse(g->why, "tool_choice", NULL,
                         "this model's chat template cannot enforce a tool call: use auto");
    return !spec || set_made_grammar(g, spec, param);
}

/* A prompt with pictures: the text is tokenized where they are. It is tried here, where a text that is made to keep a
 * tokenizer busy does no harm. */
static bool read_scene(struct vr_reading *g)
{
    struct vr_err err = { 0 };
    VR_AUTO_FREE llama_token *tokens = NULL;
    if (vr_chat_prompt_tokenize(&g->prompt, g->e->vocab, &tokens, &err) < 0)
        return vr_reading_refuse(g, "messages", &err);
    g->p->scene = (struct vr_span){ vr_buf_str(&g->prompt.text), g->prompt.text.n };
    g->p->cut = (struct vr_span){ g->prompt.mark, strlen(g->prompt.mark) };
    return decode_pictures(g);
}

static bool read_chat_text(struct vr_reading *g)
{
    struct vr_err err = { 0 };
    llama_token *tokens = NULL;
    int n = vr_chat_prompt_tokenize(&g->prompt, g->e->vocab, &tokens, &err);
    if (n < 0) return vr_reading_refuse(g, "messages", &err);
    if (!set_prompt(g, 0, "messages", tokens, n)) return false;
    struct vr_span text = { .n = 0 };
    text.data = vr_bridge_chat_prompt(g->chat, &text.n);
    g->p->boundaries = vr_arena_alloc(&g->arena, VR_MOST_BOUNDARIES, sizeof *g->p->boundaries);
    if (!g->p->boundaries) return vr_refuse_nomem(g->why);
    g->p->n_boundaries = vr_boundaries_find(g->e->vocab, GET(g, messages), text, g->p->chat.generation_prompt,
                                            g->p->prompts[0], g->p->boundaries);
    return true;
}

static bool make_chat(struct vr_reading *g, const struct vr_chat_ask *ask)
{
    struct vr_prepared *p = g->p;
    struct vr_err err = { 0 };
    vr_budget_stage(ask->schema ? VR_STAGE_CHAT_SCHEMA : ask->tools ? VR_STAGE_CHAT_TOOLS : VR_STAGE_CHAT);
    g->chat = vr_bridge_chat_new(g->e->chats, g->e->vocab, ask, &err);
    if (!g->chat) return vr_reading_refuse(g, ask->schema ? "response_format" : "messages", &err);
    add_chat_stops(g);
    if (!make_chat_grammar(g, ask)) return false;
    p->is_chat = true;
    vr_bridge_chat_form(g->chat, &p->chat);
    if (!vr_chat_prompt_make(&g->prompt, g->e->specials, g->e->chats, g->e->vocab, ask, g->chat, &err))
        return vr_reading_refuse(g, "messages", &err);
    size_t n = g->prompt.text.n;
    if (is_hopeless(g, n)) return too_long(g, "messages", n / MOST_TOKEN, g->is->n_ctx_seq);
    vr_budget_stage(VR_STAGE_TOKENS);
    if (g->n_files) return read_scene(g);
    p->prompts = vr_arena_alloc(&g->arena, 1, sizeof *p->prompts);
    if (!p->prompts) return vr_refuse_nomem(g->why);
    p->n_prompts = 1;
    return read_chat_text(g);
}

/* The text that the template made, without marks. */
static void look_at_prompt(struct vr_reading *g)
{
    size_t n;
    const char *text = vr_bridge_chat_prompt(g->chat, &n);
    g->p->reply = (struct vr_span){ text, n };
}

/* A file of speech, in whose message the model's own words may be missing. */
static bool read_speech(struct vr_reading *g, json_t *messages)
{
    const char *asr = json_string_value(json_object_get(g->body, "asr"));
    struct vr_err err = { 0 };
    g->speech = asr != NULL;
    if (!asr || strcmp(asr, "ask") != 0) return true;
    return vr_asr_ask(g->e->chats, messages, &err) || vr_reading_refuse(g, "file", &err);
}

static bool read_chat(struct vr_reading *g)
{
    VR_CLEANUP(chat_texts_done) struct chat_texts t = { 0 };
    struct vr_chat_ask ask = { 0 };
    json_t *messages = GET(g, messages);
    if (!g->e->chats)
        return vr_refuse(g->why, "model", "unsupported_model",
                         "this model's chat template cannot be used: send 'prompt' instead");
    if (!g->is->keep_billing_header && !vr_billing_drop(messages)) return vr_refuse_nomem(g->why);
    if (!read_speech(g, messages) || !read_pictures(g, messages) || !dump(g, messages, &t.messages)) return false;
    ask.messages = t.messages;
    if (!read_tools(g, &ask, &t) || !read_reasoning(g, &ask, &t) || !read_schema(g, &t.schema)) return false;
    ask.schema = t.schema;
    if (!make_chat(g, &ask)) return false;
    if (g->p->look == VR_LOOK_PROMPT) look_at_prompt(g);
    return true;
}

/* --- the others --- */

static bool read_infill(struct vr_reading *g)
{
    uint32_t answer = g->is->n_ctx_seq / 4 < g->p->max_tokens ? g->is->n_ctx_seq / 4 : g->p->max_tokens;
    struct vr_infill ask = { .prefix = GET(g, input_prefix),
                             .suffix = GET(g, input_suffix),
                             .prompt = GET(g, prompt),
                             .extra = GET(g, input_extra),
                             .room = g->is->n_ctx_seq - answer - 1 };
    struct vr_err err = { 0 };
    llama_token *tokens = NULL;
    if (!vr_infill_can(g->e->vocab))
        return vr_refuse(g->why, "model", "unsupported_model",
                         "this model's vocabulary has no tokens for infilling (fill-in-the-middle)");
    g->p->prompts = vr_arena_alloc(&g->arena, 1, sizeof *g->p->prompts);
    if (!g->p->prompts) return vr_refuse_nomem(g->why);
    g->p->n_prompts = 1;
    vr_budget_stage(VR_STAGE_TOKENS);
    int n = vr_infill_prompt(g->e->vocab, &ask, &tokens, &err);
    return n < 0 ? vr_reading_refuse(g, "input_prefix", &err) : set_prompt(g, 0, "prompt", tokens, n);
}

static bool read_completion(struct vr_reading *g)
{
    VR_AUTO_FREE char *schema = NULL;
    if (!read_schema(g, &schema) || (schema && !make_schema_grammar(g, schema))) return false;
    read_grammar(g);
    return GET(g, input_prefix) ? read_infill(g) : read_prompts(g, VR_FIELD_prompt);
}

static bool read_embedding(struct vr_reading *g)
{
    const json_t *dimensions = GET(g, dimensions);
    if (g->is->ranks)
        return vr_refuse(g->why, "model", "unsupported_model", "this is a reranking model; use /v1/rerank");
    if (!g->is->embeddings)
        return vr_refuse(
            g->why, "model", "unsupported_model",
            "this is a text generation model; start the server with --embeddings to get embeddings from it");
    if (dimensions && json_integer_value(dimensions) != g->is->n_embd)
        return vr_refuse(g->why, "dimensions", "invalid_value", "this model's embeddings have %u dimensions, no others",
                         g->is->n_embd);
    return read_prompts(g, VR_FIELD_input);
}

/* A prompt for each document, which is scored by the model's last layer. */
static bool read_rerank(struct vr_reading *g)
{
    const json_t *query = GET(g, query), *documents = GET(g, documents);
    size_t n = json_array_size(documents);
    if (!g->is->ranks)
        return vr_refuse(g->why, "model", "unsupported_model",
                         "this is not a reranking model; serve one to rank documents");
    if (!vr_reading_has_tokenizer(g, "model")) return false;
    g->p->prompts = vr_arena_alloc(&g->arena, n, sizeof *g->p->prompts);
    if (!g->p->prompts) return vr_refuse_nomem(g->why);
    g->p->n_prompts = n;
    vr_budget_stage(VR_STAGE_TOKENS);
    for (uint32_t i = 0; i < n; i++) {
        const json_t *document = json_array_get(documents, i);
        struct vr_err err = { 0 };
        llama_token *tokens = NULL;
        char param[32];
        snprintf(param, sizeof param, "documents[%u]", i);
        size_t bytes = json_string_length(document) + json_string_length(query);
        if (is_hopeless(g, bytes)) return too_long(g, param, bytes / MOST_TOKEN, g->is->n_ctx_seq);
        int count = vr_rank_prompt(g->e->model, g->e->specials, query, document, &tokens, &err);
        if (count < 0) return vr_reading_refuse(g, param, &err);
        if (!set_prompt(g, i, param, tokens, count)) return false;
    }
    return true;
}

/* --- looking --- */

static bool look_at_tokens(struct vr_reading *g, const json_t *text)
{
    struct vr_err err = { 0 };
    VR_AUTO_FREE llama_token *tokens = NULL;
    if (!json_is_string(text)) return vr_refuse(g->why, "content", "invalid_type", "'content' must be a string");
    vr_budget_stage(VR_STAGE_TOKENS);
    int n = vr_bridge_tokenize_as(g->e->vocab, json_string_value(text), json_string_length(text),
                                  json_is_true(json_object_get(g->body, "special")),
                                  !json_is_false(json_object_get(g->body, "parse")), &tokens, &err);
    if (n < 0) return vr_reading_refuse(g, "content", &err);
    vr_token_list(&g->reply, g->e->vocab, tokens, n, g->p->look != VR_LOOK_TOKENS);
    return true;
}

static bool look_at_text(struct vr_reading *g, const json_t *ids)
{
    struct vr_err err = { 0 };
    size_t n = json_array_size(ids);
    VR_AUTO_FREE llama_token *tokens = calloc(n + 1, sizeof *tokens);
    VR_AUTO_FREE char *text = NULL;
    if (!tokens) return vr_refuse_nomem(g->why);
    for (size_t i = 0; i < n; i++) {
        json_int_t id = json_integer_value(json_array_get(ids, i));
        if (id < 0 || id >= (json_int_t)g->e->n_vocab)
            return vr_refuse(g->why, "tokens", "invalid_value", "'tokens' must hold tokens of this model (0 to %u)",
                             g->e->n_vocab - 1);
        tokens[i] = (llama_token)id;
    }
    int len = vr_bridge_detokenize(g->e->vocab, tokens, n, &text, &err);
    if (len < 0) return vr_reading_refuse(g, "tokens", &err);
    vr_buf_add(&g->reply, text, (size_t)len);
    return true;
}

/* About text and tokens alone: there is no prompt. */
static bool read_look(struct vr_reading *g)
{
    const json_t *v = GET(g, prompt);
    if (!vr_reading_has_tokenizer(g, "model") ||
        !(g->p->look == VR_LOOK_TEXT ? look_at_text(g, v) : look_at_tokens(g, v)))
        return false;
    g->p->n = 1;
    g->p->reply = (struct vr_span){ vr_buf_str(&g->reply), g->reply.n };
    return !g->reply.failed || vr_refuse_nomem(g->why);
}

static bool read_all(struct vr_reading *g)
{
    enum vr_request_kind kind;
    if (!vr_request_kind_parse(json_string_value(json_object_get(g->body, "kind")), &kind))
        return vr_refuse(g->why, "kind", NULL, "the request has no kind");
    g->p->kind = kind;
    g->p->look = vr_look_parse(json_string_value(json_object_get(g->body, "look")));
    if (g->p->look >= VR_LOOK_TOKENS) return read_look(g);
    if (!vr_read_lora(g)) return false;
    if (kind == VR_EMBEDDING) return read_embedding(g);
    if (kind == VR_RERANK) return read_rerank(g);
    if (g->is->ranks)
        return vr_refuse(g->why, "model", "unsupported_model", "this is a reranking model; use /v1/rerank");
    if (!g->is->text)
        return vr_refuse(g->why, "model", "unsupported_model", "this is an embedding model; use /v1/embeddings");
    if (!vr_reading_has_tokenizer(g, "model")) return false;
    if (!vr_read_settings(g)) return false;
    return kind == VR_CHAT ? read_chat(g) : read_completion(g);
}

void vr_prepare(const struct vr_preparer *e, const struct vr_prepare_facts *is, const char *json, size_t n,
                struct vr_buf *out)
{
    json_error_t at;
    struct vr_prepared p = { 0 };
    struct vr_refusal why;
    VR_CLEANUP(reading_done) struct vr_reading g = { .p = &p, .e = e, .is = is, .why = &why };
    vr_budget_stage(VR_STAGE_JSON);
    g.body = json_loadb(json, n, JSON_REJECT_DUPLICATES, &at);
    bool ok = g.body ? read_all(&g)
                     : vr_refuse(&why, NULL, NULL, "the request is not JSON: %s (at byte %d)", at.text, at.position);
    if (ok) vr_prepared_write(&p, out);
    if (!ok || out->failed) {
        if (ok) vr_refuse_nomem(&why);
        vr_buf_done(out);
        vr_budget_explain(&why);
        vr_refusal_write(&why, out);
    }
}
