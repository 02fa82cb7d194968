#include "engine/wire/request_check.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/text.h"
#include "engine/grammar/gbnf.h"
#include "engine/wire/limits.h"
#include "engine/wire/samplers.h"

#define MAX_KWARGS 32

static const char *const kinds[VR_N_REQUEST_KINDS] = { "chat", "completion", "embedding", "rerank" };

const char *vr_request_kind_name(enum vr_request_kind kind) { return kinds[kind]; }

bool vr_request_kind_parse(const char *name, enum vr_request_kind *out)
{
    for (size_t i = 0; name && i < VR_N_REQUEST_KINDS; i++)
        if (strcmp(name, kinds[i]) == 0) return *out = (enum vr_request_kind)i, true;
    return false;
}

/* --- refusing --- */

bool vr_refuse(struct vr_refusal *p, const char *param, const char *code, const char *fmt, ...)
{
    p->status = 400;
    p->code = code;
    p->n_prompt = p->n_ctx = 0;
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

bool vr_refuse_nomem(struct vr_refusal *p)
{
    vr_refuse(p, NULL, "out_of_memory", "out of memory while reading the request");
    p->status = 503;
    return false;
}

void vr_notes_add(struct vr_notes *notes, const char *name)
{
    if (!notes) return;
    size_t n = strlen(notes->text), from = n;
    snprintf(notes->text + n, sizeof notes->text - n, "%s%.90s", n ? ", " : "", name);
    for (char *c = notes->text + from; *c; c++)
        if (*c < ' ' || *c > '~') *c = '?';
}

void vr_notes_add_others(struct vr_notes *notes, const json_t *object, const char *const *known, const char *path)
{
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)object, key, v)
    {
        char at[96];
        bool found = json_is_null(v);
        for (size_t i = 0; known[i] && !found; i++) found = strcmp(key, known[i]) == 0;
        snprintf(at, sizeof at, "%.50s.%.40s", path, key);
        if (!found) vr_notes_add(notes, at);
    }
}

/* --- checks --- */

static bool is_id(const json_t *v)
{
    return json_is_integer(v) && json_integer_value(v) >= 0 && json_integer_value(v) < 1 << 30;
}

bool vr_is_one_text(const json_t *v)
{
    for (size_t i = 0; i < json_array_size(v); i++)
        if (json_is_integer(json_array_get(v, i))) return true;
    return json_is_string(v);
}

/* Token ids, with texts among them or not: one of both at least is an id. */
static bool is_pieces(const json_t *v)
{
    for (size_t i = 0; i < json_array_size(v); i++)
        if (!is_id(json_array_get(v, i)) && !json_is_string(json_array_get(v, i))) return false;
    return json_is_array(v) && vr_is_one_text(v);
}

/* A string, token ids with or without strings among them, or an array of either. */
static bool check_texts(json_t *v, size_t most, const char *path, struct vr_refusal *p)
{
    size_t n = json_array_size(v);
    if (json_is_string(v) || is_pieces(v)) return true;
    if (!json_is_array(v) || n == 0)
        return vr_refuse(p, path, "invalid_type", "'%s' must be a string, an array of token ids, or an array of those",
                         path);
    for (size_t i = 0; i < n; i++) {
        json_t *e = json_array_get(v, i);
        if (!json_is_string(e) && !is_pieces(e))
            return vr_refuse(p, path, "invalid_type", "'%s[%zu]' is neither a string nor token ids", path, i);
    }
    if (n > most) return vr_refuse(p, path, "too_many", "'%s' has %zu items, at most %zu are allowed", path, n, most);
    return true;
}

static bool check_prompt(json_t *v, const char *path, struct vr_refusal *p)
{
    return check_texts(v, VR_MOST_PROMPTS, path, p);
}

/* What has no text has no embedding. A prompt may be empty: most models begin it with a token of their own. */
static bool check_input(json_t *v, const char *path, struct vr_refusal *p)
{
    if (!check_texts(v, VR_MOST_INPUTS, path, p)) return false;
    size_t n = json_is_array(v) ? json_array_size(v) : 1;
    for (size_t i = 0; i < n; i++) {
        json_t *e = json_is_array(v) ? json_array_get(v, i) : v;
        if (!json_is_string(e) || json_string_length(e)) continue;
        if (e == v) return vr_refuse(p, path, "invalid_value", "'%s' is empty", path);
        return vr_refuse(p, path, "invalid_value", "'%s[%zu]' is empty", path, i);
    }
    return true;
}

static bool check_stream_options(json_t *v, const char *path, struct vr_refusal *p)
{
    const char *key;
    json_t *e;
    if (!json_is_object(v)) return vr_refuse(p, path, "invalid_type", "'%s' must be an object", path);
    json_object_foreach(v, key, e)
    {
        char at[96];
        snprintf(at, sizeof at, "%s.%.60s", path, key);
        if (strcmp(key, "include_usage") != 0 && strcmp(key, "include_obfuscation") != 0)
            return vr_refuse(p, at, "unknown_parameter", "'%s' is not an option of streams", at);
        if (!json_is_boolean(e)) return vr_refuse(p, at, "invalid_type", "'%s' must be true or false", at);
    }
    return true;
}

static bool check_documents(json_t *v, const char *path, struct vr_refusal *p)
{
    size_t n = json_array_size(v);
    if (n == 0) return vr_refuse(p, path, "invalid_type", "'%s' must be an array of texts, with at least one", path);
    if (n > VR_MOST_INPUTS)
        return vr_refuse(p, path, "too_many", "'%s' has %zu items, at most %d are allowed", path, n, VR_MOST_INPUTS);
    for (size_t i = 0; i < n; i++)
        if (!json_is_string(json_array_get(v, i)))
            return vr_refuse(p, path, "invalid_type", "'%s[%zu]' must be a string", path, i);
    return true;
}

/* Texts of other files, for infilling: [{"filename":"a.c","text":"..."}]; a name may be missing. */
static bool check_input_extra(json_t *v, const char *path, struct vr_refusal *p)
{
    size_t n = json_array_size(v);
    if (!json_is_array(v) || n > VR_MOST_EXTRAS)
        return vr_refuse(p, path, "invalid_type", "'%s' must be an array of at most %d {\"filename\", \"text\"}", path,
                         VR_MOST_EXTRAS);
    for (size_t i = 0; i < n; i++) {
        const json_t *e = json_array_get(v, i), *name = json_object_get(e, "filename");
        if (!json_is_string(json_object_get(e, "text")) || (name && !json_is_string(name)))
            return vr_refuse(p, path, "invalid_value", "'%s[%zu]' must have a 'text', and a 'filename' if any: strings",
                             path, i);
        char at[48];
        snprintf(at, sizeof at, "%.20s[%zu]", path, i);
        /* "time" is how old it is, to llama.vim */
        vr_notes_add_others(p->notes, e, (const char *const[]){ "text", "filename", "time", NULL }, at);
    }
    return true;
}

/* The adapters that a request wants, [{"id":0,"scale":0.5}]; the others are off. */
static bool check_lora(json_t *v, const char *path, struct vr_refusal *p)
{
    size_t n = json_array_size(v);
    if (!json_is_array(v) || n > VR_MOST_LORAS)
        return vr_refuse(p, path, "invalid_type", "'%s' must be an array of at most %d {\"id\", \"scale\"}", path,
                         VR_MOST_LORAS);
    for (size_t i = 0; i < n; i++) {
        const json_t *e = json_array_get(v, i), *scale = json_object_get(e, "scale");
        if (!is_id(json_object_get(e, "id")) || !json_is_number(scale) || json_object_size(e) != 2 ||
            !(fabs(json_number_value(scale)) <= 100))
            return vr_refuse(p, path, "invalid_value",
                             "'%s[%zu]' must be {\"id\": an adapter's number, \"scale\": from -100 to 100}", path, i);
    }
    return true;
}

static bool check_stop(json_t *v, const char *path, struct vr_refusal *p)
{
    size_t n = json_is_array(v) ? json_array_size(v) : 1;
    if (n > VR_MOST_STOPS)
        return vr_refuse(p, path, "too_many", "'%s' has %zu strings, at most %d are allowed", path, n, VR_MOST_STOPS);
    for (size_t i = 0; i < n; i++) {
        json_t *e = json_is_array(v) ? json_array_get(v, i) : v;
        if (!json_is_string(e) || json_string_length(e) == 0 || json_string_length(e) > VR_MOST_STOP_BYTES)
            return vr_refuse(p, path, "invalid_value", "'%s' must be strings of 1 to %d bytes", path,
                             VR_MOST_STOP_BYTES);
    }
    return true;
}

static bool check_breakers(json_t *v, const char *path, struct vr_refusal *p)
{
    size_t n = json_array_size(v);
    bool fine = json_is_array(v) && n > 0 && n <= VR_MOST_BREAKERS;
    for (size_t i = 0; fine && i < n; i++) {
        const json_t *e = json_array_get(v, i);
        fine = json_is_string(e) && json_string_length(e) > 0 && json_string_length(e) <= VR_MOST_STOP_BYTES;
    }
    return fine || vr_refuse(p, path, "invalid_value", "'%s' must be 1 to %d strings of 1 to %d bytes", path,
                             VR_MOST_BREAKERS, VR_MOST_STOP_BYTES);
}

static bool check_samplers(json_t *v, const char *path, struct vr_refusal *p)
{
    uint32_t steps[VR_MOST_STEPS];
    return vr_samplers_read(v, steps) >= 0 ||
           vr_refuse(p, path, "invalid_value",
                     "'%s' must be names of samplers: penalties, dry, top_n_sigma, top_k, typ_p, top_p, min_p, xtc, "
                     "temperature; or their letters, as in \"edskypmxt\"",
                     path);
}

static bool check_logit_bias(json_t *v, const char *path, struct vr_refusal *p)
{
    const char *key;
    json_t *e;
    if (!json_is_object(v) || json_object_size(v) > VR_MOST_BIASES)
        return vr_refuse(p, path, "invalid_type", "'%s' must be an object of at most %d token ids with a bias each",
                         path, VR_MOST_BIASES);
    json_object_foreach(v, key, e)
    {
        uint64_t id;
        if (!vr_parse_u64(key, 0, 1u << 30, &id))
            return vr_refuse(p, path, "invalid_value", "'%s': '%.40s' is not a token id", path, key);
        if (!json_is_number(e) || !(fabs(json_number_value(e)) <= 100))
            return vr_refuse(p, path, "invalid_value", "'%s': the bias of %s is not a number from -100 to 100", path,
                             key);
    }
    return true;
}

static bool pick(json_t *v, const char *path, const char *const *words, struct vr_refusal *p)
{
    VR_AUTO_BUF all = { 0 };
    for (; *words; words++) {
        if (json_is_string(v) && strcmp(json_string_value(v), *words) == 0) return true;
        vr_buf_addf(&all, "%s%s", all.n ? ", " : "", *words);
    }
    return vr_refuse(p, path, "invalid_value", "'%s' must be one of %s", path, vr_buf_str(&all));
}

static bool check_effort(json_t *v, const char *path, struct vr_refusal *p)
{
    return pick(v, path, (const char *const[]){ "none", "minimal", "low", "medium", "high", "xhigh", NULL }, p);
}
static bool check_reasoning_format(json_t *v, const char *path, struct vr_refusal *p)
{
    return pick(v, path, (const char *const[]){ "auto", "none", "deepseek", NULL }, p);
}
static bool check_encoding(json_t *v, const char *path, struct vr_refusal *p)
{
    return pick(v, path, (const char *const[]){ "float", "base64", NULL }, p);
}

static bool check_grammar(json_t *v, const char *path, struct vr_refusal *p)
{
    struct vr_err why = { 0 };
    size_t n = json_string_length(v);
    if (!json_is_string(v) || n == 0 || n > VR_MOST_GRAMMAR_USER)
        return vr_refuse(p, path, "invalid_value", "'%s' must be a GBNF grammar of 1 to %d bytes", path,
                         VR_MOST_GRAMMAR_USER);
    VR_AUTO(vr_gbnf) g = vr_gbnf_read(json_string_value(v), n, NULL, NULL, &why);
    if (g) return true;
    return vr_refuse(p, path, "invalid_grammar", "'%s': %.300s", path, why.msg);
}

static bool check_template_kwargs(json_t *v, const char *path, struct vr_refusal *p)
{
    const json_t *thinking = json_object_get(v, "enable_thinking");
    if (!json_is_object(v) || json_object_size(v) > MAX_KWARGS)
        return vr_refuse(p, path, "invalid_type", "'%s' must be an object of at most %d values", path, MAX_KWARGS);
    if (thinking && !json_is_boolean(thinking))
        return vr_refuse(p, path, "invalid_type", "'%s.enable_thinking' must be true or false", path);
    if (json_dumpb(v, NULL, 0, JSON_COMPACT) <= VR_MOST_KWARGS_BYTES) return true;
    return vr_refuse(p, path, "too_large", "'%s' has more than %d bytes", path, VR_MOST_KWARGS_BYTES);
}

/* The checks of other files under the names of the table. */
#define check_messages        vr_check_messages
#define check_tools           vr_check_tools
#define check_tool_choice     vr_check_tool_choice
#define check_response_format vr_check_response_format

static bool check_ANY(json_t *v, const char *path, struct vr_refusal *p)
{
    (void)v;
    (void)path;
    (void)p;
    return true;
}

/* Types with a range are checked by check_range; these give them an address. */
static bool check_BOOL(json_t *v, const char *path, struct vr_refusal *p)
{
    return json_is_boolean(v) || vr_refuse(p, path, "invalid_type", "'%s' must be true or false", path);
}
static bool check_INT(json_t *v, const char *path, struct vr_refusal *p)
{
    return json_is_integer(v) || vr_refuse(p, path, "invalid_type", "'%s' must be an integer", path);
}
static bool check_NUM(json_t *v, const char *path, struct vr_refusal *p)
{
    return json_is_number(v) || vr_refuse(p, path, "invalid_type", "'%s' must be a number", path);
}
static bool check_TEXT(json_t *v, const char *path, struct vr_refusal *p)
{
    return json_is_string(v) || vr_refuse(p, path, "invalid_type", "'%s' must be a string", path);
}
static bool check_OBJECT(json_t *v, const char *path, struct vr_refusal *p)
{
    return json_is_object(v) || vr_refuse(p, path, "invalid_type", "'%s' must be an object", path);
}

/* --- the table --- */

enum { C = 1 << VR_CHAT, P = 1 << VR_COMPLETION, E = 1 << VR_EMBEDDING, R = 1 << VR_RERANK };
enum use { USE_TAKE, USE_FRONT, USE_SAME, USE_PASS, USE_NOTE, USE_ONLY, USE_NEVER };

static const struct field {
    const char *name;
    unsigned kinds;
    bool (*check)(json_t *, const char *, struct vr_refusal *);
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
#define SAME(as)                                                                                                       \
    {                                                                                                                  \
        USE_SAME, as                                                                                                   \
    }
#define PASS                                                                                                           \
    {                                                                                                                  \
        USE_PASS, NULL                                                                                                 \
    }
#define NOTE                                                                                                           \
    {                                                                                                                  \
        USE_NOTE, NULL                                                                                                 \
    }
#define ONLY(x)                                                                                                        \
    {                                                                                                                  \
        USE_ONLY, x                                                                                                    \
    }
#define NEVER(why)                                                                                                     \
    {                                                                                                                  \
        USE_NEVER, why                                                                                                 \
    }
#define NAMED(id, name, kinds, type, min, max, ...) { name, kinds, check_##type, min, max, __VA_ARGS__ },
#define FIELD(id, ...)                              NAMED(id, #id, __VA_ARGS__)
#include "engine/wire/request_fields.def"
#undef NAMED
#undef FIELD
};

const char *vr_request_field_name(enum vr_request_field field) { return fields[field].name; }

json_t *vr_request_get(const json_t *body, enum vr_request_field field)
{
    json_t *v = json_object_get(body, fields[field].name);
    return json_is_null(v) ? NULL : v;
}

static const char *field_name(size_t i, const void *ctx)
{
    const unsigned *kind = ctx;
    return fields[i].kinds & *kind && fields[i].use <= USE_SAME ? fields[i].name : "";
}

static bool unknown(const char *name, unsigned kind, struct vr_refusal *p)
{
    char word[64];
    snprintf(word, sizeof word, "%.60s", name);
    int i = vr_nearest(word, VR_COUNT(fields), field_name, &kind);
    if (i >= 0)
        return vr_refuse(p, word, "unknown_parameter", "unknown field '%s'; did you mean '%s'?", word, fields[i].name);
    return vr_refuse(p, word, "unknown_parameter", "unknown field '%s'", word);
}

static bool check_range(const struct field *f, json_t *v, struct vr_refusal *p)
{
    if (f->check == check_TEXT) {
        double n = (double)json_string_length(v);
        if (n >= f->min && n <= f->max) return true;
        return vr_refuse(p, f->name, "invalid_value", "'%s' must have %.0f to %.0f bytes", f->name, f->min, f->max);
    }
    if (f->check != check_INT && f->check != check_NUM) return true;
    double x = json_number_value(v);
    if (x >= f->min && x <= f->max) return true;
    return vr_refuse(p, f->name, "invalid_value", "'%s' is %.6g, which is not from %.6g to %.6g", f->name, x, f->min,
                     f->max);
}

static bool check_only(const struct field *f, json_t *v, struct vr_refusal *p)
{
    json_t *only = json_loads(f->text, JSON_DECODE_ANY, NULL);
    bool same = only && json_equal(v, only);
    json_decref(only);
    return same || vr_refuse(p, f->name, "unsupported_parameter",
                             "'%s' is not supported here: the only supported value is %s", f->name, f->text);
}

static const struct field *find(const char *name, unsigned kind)
{
    for (size_t i = 0; i < VR_COUNT(fields); i++)
        if (fields[i].kinds & kind && strcmp(fields[i].name, name) == 0) return &fields[i];
    return NULL;
}

static bool check_field(const char *name, json_t *v, unsigned kind, struct vr_refusal *p)
{
    if (json_is_null(v)) return true;
    const struct field *f = find(name, kind);
    if (!f) return unknown(name, kind, p);
    if (f->use == USE_NEVER)
        return vr_refuse(p, name, "unsupported_parameter", "'%s' is not supported here: %s", name, f->text);
    if (f->use == USE_ONLY) return check_only(f, v, p);
    if (f->use == USE_NOTE) vr_notes_add(p->notes, f->name);
    return f->check(v, f->name, p) && check_range(f, v, p);
}

/* --- what fields mean together --- */

#define GET(field) vr_request_get(body, VR_FIELD_##field)

static bool required(const json_t *body, enum vr_request_kind kind, struct vr_refusal *p)
{
    static const enum vr_request_field needs[VR_N_REQUEST_KINDS][2] = { { VR_FIELD_messages, VR_FIELD_messages },
                                                                        { VR_FIELD_prompt, VR_FIELD_prompt },
                                                                        { VR_FIELD_input, VR_FIELD_input },
                                                                        { VR_FIELD_query, VR_FIELD_documents } };
    for (size_t i = 0; i < VR_COUNT(needs[kind]); i++) {
        const char *name = vr_request_field_name(needs[kind][i]);
        if (!vr_request_get(body, needs[kind][i]))
            return vr_refuse(p, name, "missing_required_parameter", "'%s' is missing", name);
    }
    return true;
}

static size_t count_texts(const json_t *v) { return vr_is_one_text(v) ? 1 : json_array_size(v); }

size_t vr_request_choices(const json_t *body, enum vr_request_kind kind)
{
    const json_t *n = GET(n);
    if (vr_request_is_pooled(kind)) return 1;
    return (n ? (size_t)json_integer_value(n) : 1) * (kind == VR_COMPLETION ? count_texts(GET(prompt)) : 1);
}

/* Infilling needs both sides of the place, and one text. */
static bool check_infill(const json_t *body, struct vr_refusal *p)
{
    if (!GET(input_prefix) && !GET(input_suffix) && !GET(input_extra)) return true;
    const char *missing = !GET(input_prefix) ? "input_prefix" : !GET(input_suffix) ? "input_suffix" : NULL;
    if (missing) return vr_refuse(p, missing, "missing_required_parameter", "'%s' is missing", missing);
    return json_is_string(GET(prompt)) ||
           vr_refuse(p, "prompt", "invalid_type", "'prompt' must be a string beside 'input_prefix'");
}

static bool together(const json_t *body, enum vr_request_kind kind, struct vr_refusal *p)
{
    if (!required(body, kind, p) || (kind == VR_COMPLETION && !check_infill(body, p))) return false;
    if (GET(grammar) && GET(response_format))
        return vr_refuse(p, "grammar", "invalid_value", "give 'grammar' or 'response_format', not both");
    if (kind == VR_COMPLETION && json_is_true(GET(echo)) && GET(top_logprobs_of_completion))
        return vr_refuse(p, "echo", "invalid_value", "'echo' and 'logprobs' cannot be used together");
    size_t n = vr_request_choices(body, kind);
    if (n > VR_MOST_TEXTS)
        return vr_refuse(p, "n", "too_many", "%zu prompts and choices at once, at most %d are allowed", n,
                         VR_MOST_TEXTS);
    return kind != VR_CHAT || vr_check_chat_together(body, p);
}

/* A schema by itself is the format that has it; all others are the same value under another name. */
static json_t *renamed(const struct field *f, json_t *v)
{
    if (f != &fields[VR_FIELD_json_schema]) return json_incref(v);
    return json_pack("{s:s,s:{s:s,s:O}}", "type", "json_schema", "json_schema", "name", "answer", "schema", v);
}

/* Fields that llama.cpp has under a name of its own. */
static bool rename_fields(json_t *body, unsigned kind, struct vr_refusal *p)
{
    for (size_t i = 0; i < VR_COUNT(fields); i++) {
        const struct field *f = &fields[i];
        json_t *v = json_object_get(body, f->name);
        if (f->use != USE_SAME || !(f->kinds & kind) || !v || json_is_null(v)) continue;
        if (!f->check(v, f->name, p) || !check_range(f, v, p)) return false;
        json_t *same = renamed(f, v), *other = json_object_get(body, f->text);
        if (same && other && !json_is_null(other) && !json_equal(same, other)) {
            json_decref(same);
            return vr_refuse(p, f->name, "invalid_value", "give '%s' or '%s', not both", f->name, f->text);
        }
        if (json_object_set_new(body, f->text, same) != 0) return vr_refuse_nomem(p);
        json_object_del(body, f->name);
    }
    return true;
}

/* Forms that mean what another one does: 40.0 is 40, and a limit of -1 is none. */
static bool even_out(json_t *body, unsigned kind, struct vr_refusal *p)
{
    const char *name;
    json_t *v;
    void *next;
    json_object_foreach_safe(body, next, name, v)
    {
        const struct field *f = find(name, kind);
        double x = json_real_value(v);
        bool limit = f == &fields[VR_FIELD_max_tokens] || f == &fields[VR_FIELD_max_completion_tokens] ||
                     f == &fields[VR_FIELD_n_predict];
        json_t *same = NULL;
        if (f && f->check == check_INT && json_is_real(v) && x == trunc(x) && fabs(x) < 0x1p53)
            same = json_integer((json_int_t)x);
        else if (limit && json_is_integer(v) && json_integer_value(v) == -1)
            same = json_integer(1 << 30);
        if (same && json_object_set_new(body, name, same) != 0) return vr_refuse_nomem(p);
    }
    return true;
}

/* A prompt with a suffix, as OpenAI's API and Ollama's have it, is what /infill calls prefix and suffix. */
static bool read_suffix(json_t *body, enum vr_request_kind kind, struct vr_refusal *p)
{
    json_t *suffix = json_object_get(body, "suffix"), *prompt = GET(prompt);
    if (kind != VR_COMPLETION || json_string_length(suffix) == 0) return true;
    if (!json_is_string(prompt) || GET(input_prefix) || json_is_true(GET(echo)))
        return vr_refuse(p, "suffix", "invalid_value",
                         "'suffix' needs a 'prompt' that is a string, without 'input_prefix' and 'echo'");
    if (json_object_set(body, "input_prefix", prompt) != 0 || json_object_set(body, "input_suffix", suffix) != 0 ||
        json_object_set_new(body, "prompt", json_string("")) != 0)
        return vr_refuse_nomem(p);
    json_object_del(body, "suffix");
    return true;
}

bool vr_request_check(json_t *body, enum vr_request_kind kind, struct vr_refusal *p)
{
    const char *name;
    json_t *v;
    if (!even_out(body, 1u << kind, p) || !rename_fields(body, 1u << kind, p) || !read_suffix(body, kind, p))
        return false;
    json_object_foreach(body, name, v) if (!check_field(name, v, 1u << kind, p)) return false;
    return together(body, kind, p);
}

bool vr_request_strip(json_t *body, enum vr_request_kind kind, struct vr_refusal *p)
{
    const char *name;
    json_t *v;
    void *next;
    json_object_foreach_safe(body, next, name, v)
    {
        const struct field *f = find(name, 1u << kind);
        if (!f || f->use != USE_TAKE || json_is_null(v)) json_object_del(body, name);
    }
    return json_object_set_new(body, "kind", json_string(kinds[kind])) == 0 || vr_refuse_nomem(p);
}
