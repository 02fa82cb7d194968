/* One walk over the schema. A node is one of five: a reference, a choice (anyOf), a value (const, enum), a type, or
 * anything; what stands beside the keyword that decides it would be passed over by the conversion, hence is refused. */
#include "engine/wire/schema.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "engine/grammar/gbnf.h"
#include "engine/wire/limits.h"
#include "engine/wire/schema_forms.h"
#include "engine/wire/schema_numbers.h"

enum where { NOTE, DEFS, ALONE, VALUE, TYPE, OBJECT, ARRAY, STRING, FORMAT, LIMIT };

static const struct keyword {
    const char *name;
    enum where where;
} keywords[] = {
#define KEYWORD(name, where) { name, where },
#include "engine/wire/schema.def"
#undef KEYWORD
};

/* The types, as a set. */
enum { T_NULL = 1, T_BOOLEAN = 2, T_INTEGER = 4, T_NUMBER = 8, T_STRING = 16, T_ARRAY = 32, T_OBJECT = 64 };

static const struct {
    const char *name;
    unsigned bit;
} types[] = {
    { "null", T_NULL },     { "boolean", T_BOOLEAN }, { "integer", T_INTEGER }, { "number", T_NUMBER },
    { "string", T_STRING }, { "array", T_ARRAY },     { "object", T_OBJECT },
};

struct walk {
    const json_t *root;
    enum vr_schema_of of;
    vr_pattern_fn *pattern_ok;
    void *ctx;
    struct vr_buf path;
    size_t n_nodes;
    struct vr_err *err;
};

static const char *place(const struct walk *w) { return w->path.n ? vr_buf_str(&w->path) : "#"; }

static const struct keyword *find(const char *name)
{
    for (size_t i = 0; i < VR_COUNT(keywords); i++)
        if (strcmp(keywords[i].name, name) == 0) return &keywords[i];
    return NULL;
}

static unsigned type_bit(const char *name)
{
    for (size_t i = 0; i < VR_COUNT(types); i++)
        if (strcmp(types[i].name, name) == 0) return types[i].bit;
    return 0;
}

static unsigned type_of(const json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_NULL: return T_NULL;
    case JSON_TRUE:
    case JSON_FALSE: return T_BOOLEAN;
    case JSON_INTEGER: return T_INTEGER | T_NUMBER;
    case JSON_REAL: return T_NUMBER;
    case JSON_STRING: return T_STRING;
    case JSON_ARRAY: return T_ARRAY;
    default: return T_OBJECT;
    }
}

/* The set that "type" names; 0 when there is none. */
static bool read_types(struct walk *w, const json_t *type, unsigned *out)
{
    *out = 0;
    if (!type) return true;
    size_t n = json_is_array(type) ? json_array_size(type) : 1;
    for (size_t i = 0; i < n; i++) {
        const char *name = json_string_value(json_is_array(type) ? json_array_get(type, i) : type);
        unsigned bit = name ? type_bit(name) : 0;
        if (!bit) return vr_fail(w->err, VR_EUSAGE, "%s: \"type\" must name JSON types", place(w));
        *out |= bit;
    }
    if (!*out) return vr_fail(w->err, VR_EUSAGE, "%s: \"type\" is empty", place(w));
    return true;
}

/* --- the parts of a node --- */

static bool check_value(struct walk *w, const json_t *node, unsigned set)
{
    const json_t *list = json_object_get(node, "enum"), *one = json_object_get(node, "const");
    if (list && one) return vr_fail(w->err, VR_EUSAGE, "%s: both \"const\" and \"enum\"", place(w));
    if (list && (!json_is_array(list) || json_array_size(list) == 0))
        return vr_fail(w->err, VR_EUSAGE, "%s: \"enum\" must be a non-empty array", place(w));
    size_t n = list ? json_array_size(list) : 1;
    for (size_t i = 0; i < n; i++)
        if (set && !(type_of(list ? json_array_get(list, i) : one) & set))
            return vr_fail(w->err, VR_EUSAGE, "%s: a value of \"%s\" does not match \"type\"", place(w),
                           list ? "enum" : "const");
    return true;
}

/* A count that the grammar can keep; -1 when absent. */
static bool read_count(struct walk *w, const json_t *node, const char *key, json_int_t *out)
{
    const json_t *v = json_object_get(node, key);
    *out = -1;
    if (!v) return true;
    if (!json_is_integer(v) || json_integer_value(v) < 0)
        return vr_fail(w->err, VR_EUSAGE, "%s: \"%s\" must be a non-negative integer", place(w), key);
    *out = json_integer_value(v);
    if (*out > VR_GBNF_MOST_REPEAT)
        return vr_fail(w->err, VR_EUSAGE, "%s: \"%s\" is more than %d, which cannot be enforced", place(w), key,
                       VR_GBNF_MOST_REPEAT);
    return true;
}

static bool check_counts(struct walk *w, const json_t *node, const char *low, const char *high)
{
    json_int_t least, most;
    if (!read_count(w, node, low, &least) || !read_count(w, node, high, &most)) return false;
    if (most >= 0 && least > most)
        return vr_fail(w->err, VR_EUSAGE, "%s: \"%s\" is more than \"%s\"", place(w), low, high);
    return true;
}

static bool check_string(struct walk *w, const json_t *node)
{
    const json_t *pattern = json_object_get(node, "pattern");
    if (!check_counts(w, node, "minLength", "maxLength")) return false;
    if (!pattern) return true;
    if (json_object_get(node, "minLength") || json_object_get(node, "maxLength"))
        return vr_fail(w->err, VR_EUSAGE, "%s: \"pattern\" and a length cannot both be enforced", place(w));
    if (!json_is_string(pattern)) return vr_fail(w->err, VR_EUSAGE, "%s: \"pattern\" must be a string", place(w));
    if (!w->pattern_ok && json_string_length(pattern) > VR_MOST_PATTERN_BYTES) /* as it came (pattern.h) */
        return vr_fail(w->err, VR_EUSAGE, "%s: \"pattern\" has %zu bytes, at most %d", place(w),
                       json_string_length(pattern), VR_MOST_PATTERN_BYTES);
    if (!w->pattern_ok) return true;
    struct vr_err why = { 0 };
    if (w->pattern_ok(w->ctx, json_string_value(pattern), &why)) return true;
    return vr_fail(w->err, VR_EUSAGE, "%s: %s", place(w), why.msg);
}

/* Of numbers that need not be whole. */
static bool check_range(struct walk *w, const json_t *node)
{
    struct vr_number_limits l = vr_number_limits(node);
    struct vr_err why = { 0 };
    if (isinf(l.low) && isinf(l.high)) return true;
    return vr_number_limits_ok(&l, &why) || vr_fail(w->err, VR_EUSAGE, "%s: %s", place(w), why.msg);
}

static bool check_limits(struct walk *w, const json_t *node, bool whole)
{
    static const char *const keys[] = { "minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum" };
    double v[4] = { NAN, NAN, NAN, NAN };
    for (size_t i = 0; i < 4; i++) {
        const json_t *j = json_object_get(node, keys[i]);
        if (!j) continue;
        if (!json_is_number(j) || (whole && fabs(json_number_value(j)) > 0x1p53))
            return vr_fail(w->err, VR_EUSAGE, "%s: \"%s\" must be a number within 2^53", place(w), keys[i]);
        v[i] = json_number_value(j);
    }
    for (size_t i = 0; i < 4; i += 2)
        if (!isnan(v[i]) && !isnan(v[i + 1]))
            return vr_fail(w->err, VR_EUSAGE, "%s: both \"%s\" and \"%s\"", place(w), keys[i], keys[i + 1]);
    if (!whole) return check_range(w, node);
    double low = !isnan(v[0]) ? ceil(v[0]) : floor(v[1]) + 1, high = !isnan(v[2]) ? floor(v[2]) : ceil(v[3]) - 1;
    if (low > high) return vr_fail(w->err, VR_EUSAGE, "%s: no number satisfies these limits", place(w));
    return true;
}

static bool visit(struct walk *w, const json_t *node, unsigned depth);

static bool visit_child(struct walk *w, const json_t *node, unsigned depth, const char *key, const char *name)
{
    size_t n = w->path.n;
    vr_buf_addf(&w->path, "%s/%s", n ? "" : "#", key);
    if (name) vr_buf_addf(&w->path, "/%.80s", name);
    bool ok = visit(w, node, depth + 1);
    w->path.n = n;
    if (w->path.data) w->path.data[n] = '\0';
    return ok;
}

static bool visit_all(struct walk *w, const json_t *node, unsigned depth, const char *key)
{
    const json_t *list = json_object_get(node, key), *v;
    const char *name;
    if (!list) return true;
    if (json_is_object(list)) {
        json_object_foreach((json_t *)(uintptr_t)list, name, v) if (!visit_child(w, v, depth, key, name)) return false;
        return true;
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        char index[24];
        snprintf(index, sizeof index, "%zu", i);
        if (!visit_child(w, json_array_get(list, i), depth, key, index)) return false;
    }
    return true;
}

static bool check_object(struct walk *w, const json_t *node, unsigned depth)
{
    const json_t *properties = json_object_get(node, "properties"), *required = json_object_get(node, "required");
    const json_t *more = json_object_get(node, "additionalProperties");
    if (properties && !json_is_object(properties))
        return vr_fail(w->err, VR_EUSAGE, "%s: \"properties\" must be an object", place(w));
    if (required && !json_is_array(required))
        return vr_fail(w->err, VR_EUSAGE, "%s: \"required\" must be an array", place(w));
    for (size_t i = 0; i < json_array_size(required); i++) {
        const char *name = json_string_value(json_array_get(required, i));
        if (!name || !json_object_get(properties, name))
            return vr_fail(w->err, VR_EUSAGE, "%s: \"required\" names '%.80s', which is not a property", place(w),
                           name ? name : "?");
    }
    if (more && !json_is_boolean(more) && !json_is_object(more))
        return vr_fail(w->err, VR_EUSAGE, "%s: \"additionalProperties\" must be true, false or a schema", place(w));
    if (json_is_object(more) && !visit_child(w, more, depth, "additionalProperties", NULL)) return false;
    return visit_all(w, node, depth, "properties");
}

static bool check_array(struct walk *w, const json_t *node, unsigned depth)
{
    const json_t *items = json_object_get(node, "items"), *prefix = json_object_get(node, "prefixItems");
    if (!check_counts(w, node, "minItems", "maxItems")) return false;
    if (prefix || json_is_array(items)) {
        if (prefix && items) return vr_fail(w->err, VR_EUSAGE, "%s: both \"items\" and \"prefixItems\"", place(w));
        const char *key = prefix ? "prefixItems" : "items";
        const json_t *list = prefix ? prefix : items, *least = json_object_get(node, "minItems");
        const json_t *most = json_object_get(node, "maxItems");
        json_int_t n = (json_int_t)json_array_size(list);
        if (!json_is_array(list)) return vr_fail(w->err, VR_EUSAGE, "%s: \"%s\" must be an array", place(w), key);
        if ((least && json_integer_value(least) > n) || (most && json_integer_value(most) < n))
            return vr_fail(w->err, VR_EUSAGE, "%s: minItems and maxItems must equal the length of \"%s\"", place(w),
                           key);
        return visit_all(w, node, depth, key);
    }
    return !items || visit_child(w, items, depth, "items", NULL);
}

/* --- a node --- */

/* What decides the node, and that nothing else stands beside it that would be passed over. */
static bool check_keywords(struct walk *w, const json_t *node, unsigned set, const char **decides)
{
    const char *name;
    const json_t *v;
    *decides = NULL;
    json_object_foreach((json_t *)(uintptr_t)node, name, v)
    {
        const struct keyword *k = find(name);
        if (!k && strncmp(name, "x-", 2) == 0) continue;
        if (!k)
            return vr_fail(w->err, VR_EUSAGE, "%s: \"%.80s\" cannot be enforced%s", place(w), name,
                           strcmp(name, "oneOf") == 0   ? ": a value could match two of its branches; use \"anyOf\""
                           : strcmp(name, "allOf") == 0 ? ": its parts contradict or close each other"
                                                        : "");
        if (k->where == ALONE || (k->where == VALUE && !*decides)) *decides = k->name;
        if (k->where == LIMIT && !set)
            return vr_fail(w->err, VR_EUSAGE, "%s: \"%s\" needs \"type\": number or integer", place(w), name);
        if (k->where == LIMIT && set & T_NUMBER && w->of == VR_SCHEMA_TOOL)
            return vr_fail(w->err, VR_EUSAGE, "%s: \"%s\" of a tool can be enforced for integers only", place(w), name);
    }
    if (!*decides) return true;
    bool alone = find(*decides)->where == ALONE;
    json_object_foreach((json_t *)(uintptr_t)node, name, v)
    {
        const struct keyword *k = find(name);
        if (!k || k->where <= DEFS || strcmp(name, *decides) == 0) continue;
        if (!alone && (k->where == VALUE || k->where == TYPE || k->where == FORMAT)) continue;
        return vr_fail(w->err, VR_EUSAGE, "%s: \"%s\" together with \"%s\" cannot be enforced", place(w), name,
                       *decides);
    }
    return true;
}

static bool check_ref(struct walk *w, const json_t *ref)
{
    const char *s = json_string_value(ref);
    if (!s || strncmp(s, "#/", 2) != 0)
        return vr_fail(w->err, VR_EUSAGE, "%s: \"$ref\" must point into the same schema (#/...)", place(w));
    if (strncmp(s, "#/$defs/", 8) != 0 && strncmp(s, "#/definitions/", 14) != 0 && strncmp(s, "#/properties/", 13) != 0)
        return vr_fail(w->err, VR_EUSAGE, "%s: \"$ref\" must point to \"$defs\" or \"properties\": %.200s", place(w),
                       s);
    if (!json_is_object(vr_schema_target(w->root, s)))
        return vr_fail(w->err, VR_EUSAGE, "%s: \"$ref\" points to nothing: %.200s", place(w), s);
    return true;
}

static bool visit(struct walk *w, const json_t *node, unsigned depth)
{
    const char *decides;
    unsigned set;
    if (!json_is_object(node)) return vr_fail(w->err, VR_EUSAGE, "%s: a schema must be an object", place(w));
    if (depth > VR_MOST_SCHEMA_DEPTH)
        return vr_fail(w->err, VR_EUSAGE, "the schema is nested deeper than %d levels", VR_MOST_SCHEMA_DEPTH);
    if (++w->n_nodes > VR_MOST_SCHEMA_NODES)
        return vr_fail(w->err, VR_EUSAGE, "the schema has more than %d nodes", VR_MOST_SCHEMA_NODES);
    if (!visit_all(w, node, depth, "$defs") || !visit_all(w, node, depth, "definitions")) return false;
    if (!read_types(w, json_object_get(node, "type"), &set) || !check_keywords(w, node, set, &decides)) return false;
    if (decides && strcmp(decides, "$ref") == 0) return check_ref(w, json_object_get(node, "$ref"));
    if (decides && strcmp(decides, "anyOf") == 0) {
        if (json_array_size(json_object_get(node, "anyOf")) == 0)
            return vr_fail(w->err, VR_EUSAGE, "%s: \"anyOf\" must be a non-empty array", place(w));
        return visit_all(w, node, depth, "anyOf");
    }
    if (decides) return check_value(w, node, set);
    return (set && !(set & (T_INTEGER | T_NUMBER)) ? true : check_limits(w, node, !(set & T_NUMBER))) &&
           check_string(w, node) && check_array(w, node, depth) && check_object(w, node, depth);
}

bool vr_schema_check(const json_t *schema, enum vr_schema_of of, vr_pattern_fn *pattern_ok, void *ctx,
                     struct vr_err *err)
{
    struct walk w = { .root = schema, .of = of, .pattern_ok = pattern_ok, .ctx = ctx, .err = err };
    w.path.max = 4096;
    bool ok = visit(&w, schema, 0);
    vr_buf_done(&w.path);
    return ok;
}
