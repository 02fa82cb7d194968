#include "server/api/body.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "engine/wire/limits.h"

#define MAX_DEPTH  VR_MOST_JSON_DEPTH
#define MAX_VALUES 1000000 /* each costs the parser some 40 bytes */
#define MAX_KWARGS 32

bool vr_body_error_set(struct vr_body_error *p, const char *param, const char *code, const char *fmt, ...)
{
    p->status = 400;
    p->code = code;
    snprintf(p->param, sizeof p->param, "%s", param ? param : "");
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(p->message, sizeof p->message, fmt, ap);
    va_end(ap);
    /* a field's name is the client's, and may have been cut in the middle of a character */
    for (char *text = p->param; text; text = text == p->param ? p->message : NULL)
        for (size_t at = 0, n = strlen(text), len; at < n; at += len) {
            len = vr_utf8_len((const unsigned char *)text + at, n - at);
            if (len == 0) text[at] = '?', len = 1;
        }
    return false;
}

/* --- from bytes to a tree --- */

/* What the parser must not see: too deep (it recurses), too many values (memory), bytes that are no text. */
static bool scan(const char *data, size_t n, struct vr_body_error *p)
{
    size_t depth = 0, values = 0;
    bool in_string = false;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)data[i];
        if (c >= 0x80) {
            size_t len = vr_utf8_len((const unsigned char *)data + i, n - i);
            if (len == 0) return vr_body_error_set(p, NULL, "invalid_utf8", "the body is not UTF-8 at byte %zu", i);
            i += len - 1;
        } else if (in_string) {
            if (c == '\\') i++;
            if (c == '"') in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            values++;
            if (++depth > MAX_DEPTH)
                return vr_body_error_set(p, NULL, "too_deep", "the body is nested deeper than %d", MAX_DEPTH);
        } else if (c == '}' || c == ']') {
            if (depth) depth--;
        } else if (c == ',') {
            values++;
        }
        if (values > MAX_VALUES)
            return vr_body_error_set(p, NULL, "too_many_values", "the body has more than %d values", MAX_VALUES);
    }
    return true;
}

json_t *vr_body_parse(const char *data, size_t n, struct vr_body_error *p)
{
    json_error_t why;
    if (n == 0) return vr_body_error_set(p, NULL, "empty_body", "the body is empty; it must be a JSON object"), NULL;
    if (!scan(data, n, p)) return NULL;
    json_t *tree = json_loadb(data, n, JSON_REJECT_DUPLICATES, &why);
    if (!tree)
        return vr_body_error_set(p, NULL, "invalid_json", "the body is not valid JSON at line %d, column %d: %s",
                                 why.line, why.column, why.text),
               NULL;
    if (json_is_object(tree)) return tree;
    json_decref(tree);
    return vr_body_error_set(p, NULL, "invalid_json", "the body must be a JSON object"), NULL;
}

/* --- checks --- */

static bool is_id(const json_t *v)
{
    return json_is_integer(v) && json_integer_value(v) >= 0 && json_integer_value(v) < 1 << 30;
}

/* A string, token ids, or an array of either. */
static bool check_texts(json_t *v, size_t most, const char *path, struct vr_body_error *p)
{
    size_t n = json_array_size(v), n_ids = 0;
    if (json_is_string(v)) return true;
    if (!json_is_array(v) || n == 0)
        return vr_body_error_set(p, path, "invalid_type",
                                 "'%s' must be a string, an array of token ids, or an array of those", path);
    for (size_t i = 0; i < n; i++) {
        json_t *e = json_array_get(v, i);
        bool fine = json_is_string(e) || is_id(e) || (json_is_array(e) && json_array_size(e) > 0);
        for (size_t k = 0; fine && json_is_array(e) && k < json_array_size(e); k++) fine = is_id(json_array_get(e, k));
        if (!fine)
            return vr_body_error_set(p, path, "invalid_type", "'%s[%zu]' is neither a string nor token ids", path, i);
        n_ids += json_is_integer(e);
    }
    if (n_ids && n_ids < n) return vr_body_error_set(p, path, "invalid_type", "'%s' mixes token ids and texts", path);
    if (!n_ids && n > most)
        return vr_body_error_set(p, path, "too_many", "'%s' has %zu texts, at most %zu are taken", path, n, most);
    return true;
}

static bool check_prompt(json_t *v, const char *path, struct vr_body_error *p)
{
    return check_texts(v, VR_MOST_PROMPTS, path, p);
}

static bool check_input(json_t *v, const char *path, struct vr_body_error *p)
{
    if (json_is_string(v) && json_string_length(v) == 0)
        return vr_body_error_set(p, path, "invalid_value", "'%s' is empty", path);
    return check_texts(v, VR_MOST_INPUTS, path, p);
}

static bool check_stream_options(json_t *v, const char *path, struct vr_body_error *p)
{
    const char *key;
    json_t *e;
    if (!json_is_object(v)) return vr_body_error_set(p, path, "invalid_type", "'%s' must be an object", path);
    json_object_foreach(v, key, e)
    {
        char at[96];
        snprintf(at, sizeof at, "%s.%.60s", path, key);
        if (strcmp(key, "include_usage") != 0 && strcmp(key, "include_obfuscation") != 0)
            return vr_body_error_set(p, at, "unknown_parameter", "'%s' is not an option of streams", at);
        if (!json_is_boolean(e)) return vr_body_error_set(p, at, "invalid_type", "'%s' must be true or false", at);
    }
    return true;
}

static bool check_stop(json_t *v, const char *path, struct vr_body_error *p)
{
    size_t n = json_is_array(v) ? json_array_size(v) : 1;
    if (n > VR_MOST_STOPS)
        return vr_body_error_set(p, path, "too_many", "'%s' has %zu strings, at most %d are taken", path, n,
                                 VR_MOST_STOPS);
    for (size_t i = 0; i < n; i++) {
        json_t *e = json_is_array(v) ? json_array_get(v, i) : v;
        if (!json_is_string(e) || json_string_length(e) == 0 || json_string_length(e) > VR_MOST_STOP_BYTES)
            return vr_body_error_set(p, path, "invalid_value", "'%s' must be strings of 1 to %d bytes", path,
                                     VR_MOST_STOP_BYTES);
    }
    return true;
}

static bool check_logit_bias(json_t *v, const char *path, struct vr_body_error *p)
{
    const char *key;
    json_t *e;
    if (!json_is_object(v) || json_object_size(v) > VR_MOST_BIASES)
        return vr_body_error_set(p, path, "invalid_type",
                                 "'%s' must be an object of at most %d token ids with a bias each", path,
                                 VR_MOST_BIASES);
    json_object_foreach(v, key, e)
    {
        uint64_t id;
        if (!vr_parse_u64(key, 0, 1u << 30, &id))
            return vr_body_error_set(p, path, "invalid_value", "'%s': '%.40s' is not a token id", path, key);
        if (!json_is_number(e) || !(fabs(json_number_value(e)) <= 100))
            return vr_body_error_set(p, path, "invalid_value", "'%s': the bias of %s is not a number from -100 to 100",
                                     path, key);
    }
    return true;
}

static bool pick(json_t *v, const char *path, const char *const *words, struct vr_body_error *p)
{
    VR_AUTO_BUF all = { 0 };
    for (; *words; words++) {
        if (json_is_string(v) && strcmp(json_string_value(v), *words) == 0) return true;
        vr_buf_addf(&all, "%s%s", all.n ? ", " : "", *words);
    }
    return vr_body_error_set(p, path, "invalid_value", "'%s' must be one of %s", path, vr_buf_str(&all));
}

static bool check_effort(json_t *v, const char *path, struct vr_body_error *p)
{
    return pick(v, path, (const char *const[]){ "none", "minimal", "low", "medium", "high", "xhigh", NULL }, p);
}
static bool check_reasoning_format(json_t *v, const char *path, struct vr_body_error *p)
{
    return pick(v, path, (const char *const[]){ "auto", "none", "deepseek", NULL }, p);
}
static bool check_encoding(json_t *v, const char *path, struct vr_body_error *p)
{
    return pick(v, path, (const char *const[]){ "float", "base64", NULL }, p);
}

/* The engine's parser trusts its input: nesting and repetitions are counted before it sees them. */
static bool check_grammar(json_t *v, const char *path, struct vr_body_error *p)
{
    struct vr_err why;
    size_t n = json_string_length(v);
    if (!json_is_string(v) || n == 0 || n > VR_MOST_GRAMMAR_USER)
        return vr_body_error_set(p, path, "invalid_value", "'%s' must be a GBNF grammar of 1 to %d bytes", path,
                                 VR_MOST_GRAMMAR_USER);
    if (vr_limit_grammar(json_string_value(v), n, &why)) return true;
    return vr_body_error_set(p, path, "invalid_grammar", "'%s': %.300s", path, why.msg);
}

static bool check_template_kwargs(json_t *v, const char *path, struct vr_body_error *p)
{
    const char *key;
    json_t *e;
    bool fine = json_is_object(v) && json_object_size(v) <= MAX_KWARGS;
    json_object_foreach(v, key, e) fine =
        fine && (json_is_boolean(e) || json_is_number(e) || (json_is_string(e) && json_string_length(e) <= 4096));
    if (fine) return true;
    return vr_body_error_set(p, path, "invalid_type", "'%s' must be an object of at most %d plain values", path,
                             MAX_KWARGS);
}

/* The checks of other files under the names of the table. */
#define check_messages        vr_check_messages
#define check_tools           vr_check_tools
#define check_tool_choice     vr_check_tool_choice
#define check_response_format vr_check_response_format

static bool check_ANY(json_t *v, const char *path, struct vr_body_error *p)
{
    (void)v;
    (void)path;
    (void)p;
    return true;
}

/* Types with a range are checked by check_range; these give them an address. */
static bool check_BOOL(json_t *v, const char *path, struct vr_body_error *p)
{
    return json_is_boolean(v) || vr_body_error_set(p, path, "invalid_type", "'%s' must be true or false", path);
}
static bool check_INT(json_t *v, const char *path, struct vr_body_error *p)
{
    return json_is_integer(v) || vr_body_error_set(p, path, "invalid_type", "'%s' must be a whole number", path);
}
static bool check_NUM(json_t *v, const char *path, struct vr_body_error *p)
{
    return json_is_number(v) || vr_body_error_set(p, path, "invalid_type", "'%s' must be a number", path);
}
static bool check_TEXT(json_t *v, const char *path, struct vr_body_error *p)
{
    return json_is_string(v) || vr_body_error_set(p, path, "invalid_type", "'%s' must be a string", path);
}
static bool check_OBJECT(json_t *v, const char *path, struct vr_body_error *p)
{
    return json_is_object(v) || vr_body_error_set(p, path, "invalid_type", "'%s' must be an object", path);
}

/* --- the table --- */

enum { C = 1 << VR_CALL_CHAT, P = 1 << VR_CALL_COMPLETION, E = 1 << VR_CALL_EMBEDDING };
enum use { USE_TAKE, USE_FRONT, USE_PASS, USE_ONLY, USE_NEVER };

static const struct field {
    const char *name;
    unsigned kinds;
    bool (*check)(json_t *, const char *, struct vr_body_error *);
    double min, max;
    struct {
        enum use use;
        const char *text;
    };
} fields[] = {
#define TAKE                                                                                                           \
    {                                                                                                                  \
        USE_TAKE, NULL                                                                                                 \
    }
#define FRONT                                                                                                          \
    {                                                                                                                  \
        USE_FRONT, NULL                                                                                                \
    }
#define PASS                                                                                                           \
    {                                                                                                                  \
        USE_PASS, NULL                                                                                                 \
    }
#define ONLY(x)                                                                                                        \
    {                                                                                                                  \
        USE_ONLY, x                                                                                                    \
    }
#define NEVER(why)                                                                                                     \
    {                                                                                                                  \
        USE_NEVER, why                                                                                                 \
    }
#define FIELD(name, kinds, type, min, max, ...) { name, kinds, check_##type, min, max, __VA_ARGS__ },
#include "server/api/request_fields.def"
#undef FIELD
};

static const char *field_name(size_t i, const void *ctx)
{
    const unsigned *kind = ctx;
    return fields[i].kinds & *kind && fields[i].use <= USE_FRONT ? fields[i].name : "";
}

static bool unknown(const char *name, unsigned kind, struct vr_body_error *p)
{
    char word[64];
    snprintf(word, sizeof word, "%.60s", name);
    int i = vr_nearest(word, VR_COUNT(fields), field_name, &kind);
    if (i >= 0)
        return vr_body_error_set(p, word, "unknown_parameter", "there is no field '%s' here; did you mean '%s'?", word,
                                 fields[i].name);
    return vr_body_error_set(p, word, "unknown_parameter", "there is no field '%s' here", word);
}

static bool check_range(const struct field *f, json_t *v, struct vr_body_error *p)
{
    if (f->check == check_TEXT) {
        double n = (double)json_string_length(v);
        if (n >= f->min && n <= f->max) return true;
        return vr_body_error_set(p, f->name, "invalid_value", "'%s' must have %.0f to %.0f bytes", f->name, f->min,
                                 f->max);
    }
    if (f->check != check_INT && f->check != check_NUM) return true;
    double x = json_number_value(v);
    if (x >= f->min && x <= f->max) return true;
    return vr_body_error_set(p, f->name, "invalid_value", "'%s' is %.6g, which is not from %.6g to %.6g", f->name, x,
                             f->min, f->max);
}

static bool check_only(const struct field *f, json_t *v, struct vr_body_error *p)
{
    json_t *only = json_loads(f->text, JSON_DECODE_ANY, NULL);
    bool same = only && json_equal(v, only);
    json_decref(only);
    return same || vr_body_error_set(p, f->name, "unsupported_parameter",
                                     "'%s' is not supported here: the only value taken is %s", f->name, f->text);
}

static const struct field *find(const char *name, unsigned kind)
{
    for (size_t i = 0; i < VR_COUNT(fields); i++)
        if (fields[i].kinds & kind && strcmp(fields[i].name, name) == 0) return &fields[i];
    return NULL;
}

static bool check_field(const char *name, json_t *v, unsigned kind, struct vr_body_error *p)
{
    if (json_is_null(v)) return true;
    const struct field *f = find(name, kind);
    if (!f) return unknown(name, kind, p);
    if (f->use == USE_NEVER)
        return vr_body_error_set(p, name, "unsupported_parameter", "'%s' is not supported here: %s", name, f->text);
    if (f->use == USE_ONLY) return check_only(f, v, p);
    return f->check(v, f->name, p) && check_range(f, v, p);
}

/* --- what fields mean together --- */

static bool is_true(const json_t *body, const char *name) { return json_is_true(json_object_get(body, name)); }
static bool has(const json_t *body, const char *name)
{
    json_t *v = json_object_get(body, name);
    return v && !json_is_null(v);
}

static bool required(const json_t *body, const char *name, struct vr_body_error *p)
{
    return has(body, name) || vr_body_error_set(p, name, "missing_required_parameter", "'%s' is missing", name);
}

static size_t count_prompts(const json_t *v)
{
    return json_is_array(v) && !json_is_integer(json_array_get(v, 0)) ? json_array_size(v) : 1;
}

static bool together(const json_t *body, enum vr_call_kind kind, struct vr_reply_form *out, struct vr_body_error *p)
{
    static const char *const needs[] = { "messages", "prompt", "input" };
    if (!required(body, needs[kind], p)) return false;
    json_t *n = json_object_get(body, "n"), *dims = json_object_get(body, "dimensions");
    json_t *encoding = json_object_get(body, "encoding_format");
    out->model = json_string_value(json_object_get(body, "model"));
    out->stream = is_true(body, "stream");
    out->usage = is_true(json_object_get(body, "stream_options"), "include_usage");
    out->logprobs = kind == VR_CALL_CHAT ? is_true(body, "logprobs") : has(body, "logprobs");
    out->base64 = encoding && strcmp(json_string_value(encoding), "base64") == 0;
    out->echo = is_true(body, "echo");
    out->dimensions = (size_t)json_integer_value(dims);
    out->n_choices = (n ? (size_t)json_integer_value(n) : 1) *
                     (kind == VR_CALL_COMPLETION ? count_prompts(json_object_get(body, "prompt")) : 1);
    if (has(body, "stream_options") && !out->stream)
        return vr_body_error_set(p, "stream_options", "invalid_value", "'stream_options' needs 'stream': true");
    if (has(body, "top_logprobs") && !out->logprobs)
        return vr_body_error_set(p, "top_logprobs", "invalid_value", "'top_logprobs' needs 'logprobs': true");
    if (has(body, "max_tokens") && has(body, "max_completion_tokens"))
        return vr_body_error_set(p, "max_tokens", "invalid_value",
                                 "give 'max_tokens' or 'max_completion_tokens', not both");
    if (has(body, "tool_choice") && !has(body, "tools") && json_is_object(json_object_get(body, "tool_choice")))
        return vr_body_error_set(p, "tool_choice", "invalid_value", "'tool_choice' needs 'tools'");
    if (has(body, "grammar") && has(body, "response_format"))
        return vr_body_error_set(p, "grammar", "invalid_value", "give 'grammar' or 'response_format', not both");
    if (out->n_choices > VR_MAX_CHOICES)
        return vr_body_error_set(p, "n", "too_many", "%zu prompts and choices at once, at most %d are taken",
                                 out->n_choices, VR_MAX_CHOICES);
    return true;
}

bool vr_body_check(json_t *body, enum vr_call_kind kind, struct vr_reply_form *out, struct vr_body_error *p)
{
    static const char *const kinds[] = { "chat", "completion", "embedding" };
    const char *name;
    json_t *v;
    void *next;
    *out = (struct vr_reply_form){ 0 };
    json_object_foreach(body, name, v) if (!check_field(name, v, 1u << kind, p)) return false;
    if (!together(body, kind, out, p)) return false;
    json_object_foreach_safe(body, next, name, v)
    {
        const struct field *f = find(name, 1u << kind);
        bool keep = f && !json_is_null(v) && (f->use == USE_TAKE || strcmp(name, "model") == 0);
        if (!keep) json_object_del(body, name);
    }
    if (json_object_set_new(body, "kind", json_string(kinds[kind])) == 0) return true;
    p->status = 503;
    p->code = "out_of_memory";
    snprintf(p->message, sizeof p->message, "the server is out of memory");
    return false;
}
