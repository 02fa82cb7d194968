#include "engine/wire/schema_forms.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "engine/wire/limits.h"

#define MAX_BRANCHES 64     /* of a oneOf: each is compared with all others */
#define MAX_COMPARED 200000 /* values, in all; some milliseconds */
#define ROOT         "vr_root"

#define DATE                                                                                                           \
    "[0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))"
#define TIME        "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
#define HOURS       "([0-9]{1,2}H([0-9]{1,2}M)?([0-9]{1,2}S)?|[0-9]{1,4}M([0-9]{1,2}S)?|[0-9]{1,4}S)"
#define LABEL       "[A-Za-z0-9]([A-Za-z0-9-]{0,30}[A-Za-z0-9])?"
#define BYTE        "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
#define HEX         "[0-9A-Fa-f]{1,4}"
#define PATH_OF_URI "(/[A-Za-z0-9._~-]{1,40}){1,4}"
#define URI                                                                                                            \
    "(https?|ftp|wss?)://" LABEL "([.]" LABEL "){0,3}(:[1-9][0-9]{0,3})?(" PATH_OF_URI                                 \
    ")?/?([?][A-Za-z0-9._~=&-]{1,60})?(#[A-Za-z0-9._~-]{1,20})?"

static const struct format {
    const char *name;
    json_int_t shortest, longest;
    const char *pattern;
} formats[] = {
#define FORMAT(name, shortest, longest, pattern) { name, shortest, longest, pattern },
#include "engine/wire/schema_formats.def"
#undef FORMAT
};

struct rewrite {
    json_t *root;
    size_t n_copied;   /* bytes of what references were replaced with */
    size_t n_compared; /* values with each other */
    bool nomem;
};

static bool is_text(const json_t *v, const char *text)
{
    return json_is_string(v) && strcmp(json_string_value(v), text) == 0;
}

static void set(struct rewrite *r, json_t *object, const char *key, json_t *made)
{
    if (json_object_set_new(object, key, made) != 0) r->nomem = true;
}

json_t *vr_schema_target(const json_t *root, const char *ref)
{
    json_t *at = (json_t *)(uintptr_t)root;
    if (!ref || strncmp(ref, "#/", 2) != 0) return NULL;
    for (const char *part = ref + 2; at && part;) {
        const char *end = strchrnul(part, '/');
        char key[256];
        if ((size_t)(end - part) >= sizeof key) return NULL;
        snprintf(key, sizeof key, "%.*s", (int)(end - part), part);
        at = json_is_array(at) ? json_array_get(at, (size_t)strtoul(key, NULL, 10)) : json_object_get(at, key);
        part = *end ? end + 1 : NULL;
    }
    return at;
}

/* --- formats --- */

static json_int_t count_of(const json_t *node, const char *key, json_int_t otherwise)
{
    const json_t *v = json_object_get(node, key);
    return json_is_integer(v) ? json_integer_value(v) : otherwise;
}

static bool has_type(const json_t *node, const char *name)
{
    const json_t *type = json_object_get(node, "type");
    for (size_t i = 0; i < json_array_size(type); i++)
        if (is_text(json_array_get(type, i), name)) return true;
    return is_text(type, name);
}

/* Lengths that every text of the format has are no matter any more; others stay, and are refused beside the pattern. */
static void write_text_format(struct rewrite *r, json_t *node, const struct format *f)
{
    if (json_object_get(node, "pattern") || json_object_get(node, "const") || json_object_get(node, "enum")) return;
    set(r, node, "pattern", json_string(f->pattern));
    json_object_del(node, "format");
    if (count_of(node, "minLength", 0) <= f->shortest) json_object_del(node, "minLength");
    if (count_of(node, "maxLength", f->longest) >= f->longest) json_object_del(node, "maxLength");
}

static void write_int32(struct rewrite *r, json_t *node)
{
    if (!json_object_get(node, "minimum") && !json_object_get(node, "exclusiveMinimum"))
        set(r, node, "minimum", json_integer(INT32_MIN));
    if (!json_object_get(node, "maximum") && !json_object_get(node, "exclusiveMaximum"))
        set(r, node, "maximum", json_integer(INT32_MAX));
}

static void write_format(struct rewrite *r, json_t *node)
{
    json_t *format = json_object_get(node, "format");
    if (has_type(node, "integer") && is_text(format, "int32")) write_int32(r, node);
    if (!has_type(node, "string")) return;
    for (size_t i = 0; i < VR_COUNT(formats); i++)
        if (is_text(format, formats[i].name)) return write_text_format(r, node, &formats[i]);
}

/* --- allOf --- */

/* Keywords that are told and not enforced: the first one stays. */
static bool is_note(const char *key)
{
    static const char *const notes[] = { "title",      "description", "default",  "example", "examples",
                                         "deprecated", "readOnly",    "nullable", "$schema", "$comment" };
    for (size_t i = 0; i < VR_COUNT(notes); i++)
        if (strcmp(key, notes[i]) == 0) return true;
    return strncmp(key, "x-", 2) == 0;
}

static bool merge_properties(json_t *into, const json_t *from)
{
    const char *name;
    json_t *v;
    if (!json_is_object(into) || !json_is_object(from)) return false;
    json_object_foreach((json_t *)(uintptr_t)from, name, v)
    {
        const json_t *have = json_object_get(into, name);
        if (have && !json_equal(have, v)) return false;
        if (!have && json_object_set(into, name, v) != 0) return false;
    }
    return true;
}

/* False: it has been enough, and what was to be found out is not. */
static bool may_compare(struct rewrite *r, size_t n, size_t m)
{
    r->n_compared += n * m;
    return r->n_compared <= MAX_COMPARED;
}

static bool merge_required(struct rewrite *r, json_t *into, const json_t *from)
{
    size_t i, k;
    json_t *a, *b;
    if (!json_is_array(into) || !may_compare(r, json_array_size(into), json_array_size(from))) return false;
    json_array_foreach(from, i, a)
    {
        bool have = false;
        json_array_foreach(into, k, b) have |= json_equal(a, b);
        if (!have && json_array_append(into, a) != 0) return false;
    }
    return true;
}

/* False: both together are more than one node can say. */
static bool merge(struct rewrite *r, json_t *into, const json_t *from)
{
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)from, key, v)
    {
        json_t *have = json_object_get(into, key);
        if (!have) {
            if (json_object_set(into, key, v) != 0) return false;
        } else if (strcmp(key, "properties") == 0) {
            if (!merge_properties(have, v)) return false;
        } else if (strcmp(key, "required") == 0) {
            if (!merge_required(r, have, v)) return false;
        } else if (!is_note(key) && !json_equal(have, v)) {
            return false;
        }
    }
    return true;
}

/* A part forbids the properties of the others: nothing matches. */
static bool is_closed(const json_t *part)
{
    const json_t *more = json_object_get(part, "additionalProperties");
    return more && !json_is_true(more);
}

static void rewrite_node(struct rewrite *r, json_t *node, unsigned depth);

/* A part of allOf by itself: what it refers to in its place, where it is not alone. NULL: too much, or nothing. */
static json_t *part_of(struct rewrite *r, const json_t *part, bool alone, unsigned depth)
{
    if (r->n_copied > VR_MOST_SCHEMA_BYTES) return NULL;
    const json_t *ref = json_object_get(part, "$ref");
    const json_t *from = ref && !alone ? vr_schema_target(r->root, json_string_value(ref)) : part;
    if (!json_is_object(from) || (from != part && json_object_size(part) > 1) || depth > VR_MOST_SCHEMA_DEPTH)
        return NULL;
    r->n_copied += json_dumpb(from, NULL, 0, JSON_COMPACT);
    json_t *made = r->n_copied > VR_MOST_SCHEMA_BYTES ? NULL : json_deep_copy(from);
    if (!made || (alone && ref)) return made;
    rewrite_node(r, made, depth + 1);
    if (alone || !json_object_get(made, "$ref")) return made;
    json_t *further = part_of(r, made, false, depth + 1); /* what it was all of */
    json_decref(made);
    return further;
}

static void write_all_of(struct rewrite *r, json_t *node, unsigned depth)
{
    json_t *parts = json_object_get(node, "allOf");
    size_t n = json_array_size(parts), n_closed = 0, own = 0;
    const char *key;
    json_t *v;
    json_object_foreach(node, key, v) own += !is_note(key) && strcmp(key, "allOf") != 0 && key[0] != '$';
    json_t *whole = json_copy(node);
    json_object_del(whole, "allOf");
    /* these are added to: copies, so that a node whose parts do not fit stays as it was */
    if (json_object_get(whole, "properties"))
        set(r, whole, "properties", json_copy(json_object_get(whole, "properties")));
    if (json_object_get(whole, "required")) set(r, whole, "required", json_copy(json_object_get(whole, "required")));
    bool alone = n == 1 && own == 0, ok = whole && n > 0;
    n_closed += is_closed(node);
    for (size_t i = 0; ok && i < n; i++) {
        json_t *part = part_of(r, json_array_get(parts, i), alone, depth);
        n_closed += is_closed(part);
        ok = part && !json_object_get(part, "allOf") && merge(r, whole, part);
        json_decref(part);
    }
    if (ok && (alone || n_closed == 0)) {
        json_object_clear(node);
        if (json_object_update(node, whole) != 0) r->nomem = true;
    }
    json_decref(whole);
}

/* --- the first walk --- */

static void write_ref(struct rewrite *r, json_t *node)
{
    if (is_text(json_object_get(node, "$ref"), "#")) set(r, node, "$ref", json_string("#/$defs/" ROOT));
}

static void drop_neutral(json_t *node)
{
    const json_t *names = json_object_get(node, "propertyNames");
    bool any =
        json_is_object(names) && (json_object_size(names) == 0 ||
                                  (json_object_size(names) == 1 && is_text(json_object_get(names, "type"), "string")));
    if (any) json_object_del(node, "propertyNames");
    if (json_is_false(json_object_get(node, "uniqueItems"))) json_object_del(node, "uniqueItems");
    if (json_object_get(node, "prefixItems") && json_is_false(json_object_get(node, "items")))
        json_object_del(node, "items");
}

/* Names from a list, all with one schema, are properties. */
static void write_names(struct rewrite *r, json_t *node)
{
    const json_t *names = json_object_get(node, "propertyNames"), *list = json_object_get(names, "enum");
    json_t *each = json_object_get(node, "additionalProperties"), *name, *properties;
    size_t i, allowed = 1u + (json_object_get(names, "type") != NULL);
    if (!json_is_array(list) || !json_is_object(each) || json_object_get(node, "properties")) return;
    if (json_object_size(names) != allowed) return;
    r->n_copied += json_array_size(list) * (json_dumpb(each, NULL, 0, JSON_COMPACT) + 1);
    if (r->n_copied > VR_MOST_SCHEMA_BYTES || !(properties = json_object())) return;
    json_array_foreach(list, i, name)
    {
        if (json_is_string(name)) set(r, properties, json_string_value(name), json_deep_copy(each));
    }
    set(r, node, "properties", properties);
    set(r, node, "additionalProperties", json_false());
    json_object_del(node, "propertyNames");
}

typedef void visit_fn(struct rewrite *r, json_t *node, unsigned depth);

static void visit_children(struct rewrite *r, json_t *node, unsigned depth, visit_fn *visit)
{
    static const char *const one[] = { "items", "additionalProperties" };
    static const char *const lists[] = { "anyOf", "oneOf", "allOf", "prefixItems", "items" };
    static const char *const maps[] = { "$defs", "definitions", "properties" };
    const char *key;
    json_t *v;
    size_t k;
    if (depth > VR_MOST_SCHEMA_DEPTH) return; /* which is refused */
    for (size_t i = 0; i < VR_COUNT(maps); i++)
        json_object_foreach(json_object_get(node, maps[i]), key, v) if (json_is_object(v)) visit(r, v, depth + 1);
    for (size_t i = 0; i < VR_COUNT(lists); i++)
        json_array_foreach(json_object_get(node, lists[i]), k, v) if (json_is_object(v)) visit(r, v, depth + 1);
    for (size_t i = 0; i < VR_COUNT(one); i++) {
        v = json_object_get(node, one[i]);
        if (json_is_object(v)) visit(r, v, depth + 1);
    }
}

static void rewrite_node(struct rewrite *r, json_t *node, unsigned depth)
{
    if (depth > VR_MOST_SCHEMA_DEPTH) return;
    write_ref(r, node);
    if (json_object_get(node, "allOf")) write_all_of(r, node, depth);
    write_format(r, node);
    drop_neutral(node);
    write_names(r, node);
    visit_children(r, node, depth, rewrite_node);
}

/* --- oneOf --- */

static const json_t *branch_of(const struct rewrite *r, const json_t *node)
{
    const json_t *ref = json_object_get(node, "$ref");
    return ref ? vr_schema_target(r->root, json_string_value(ref)) : node;
}

/* The values that a node allows, as an array that the caller owns; NULL: it has no list of them. */
static json_t *values_of(const json_t *node)
{
    json_t *one = json_object_get(node, "const"), *list = json_object_get(node, "enum");
    return one ? json_pack("[O]", one) : json_incref(list);
}

static bool share_value(struct rewrite *r, const json_t *a, const json_t *b)
{
    size_t i, k;
    json_t *x, *y;
    if (!may_compare(r, json_array_size(a), json_array_size(b))) return true;
    json_array_foreach(a, i, x) json_array_foreach(b, k, y) if (json_equal(x, y)) return true;
    return false;
}

/* Whether no value fits both; by lists of values, or by types. */
static bool differ(struct rewrite *r, const json_t *a, const json_t *b)
{
    json_t *x = values_of(a), *y = values_of(b);
    bool apart = x && y && !share_value(r, x, y);
    json_decref(x);
    json_decref(y);
    const json_t *s = json_object_get(a, "type"), *t = json_object_get(b, "type");
    bool numbers = (is_text(s, "number") && is_text(t, "integer")) || (is_text(s, "integer") && is_text(t, "number"));
    return apart || (json_is_string(s) && json_is_string(t) && !json_equal(s, t) && !numbers);
}

/* Do the values of that property tell all branches apart? */
static bool tells_apart(struct rewrite *r, const json_t *branches, const char *name)
{
    for (size_t i = 0; i < json_array_size(branches); i++)
        for (size_t k = 0; k < i; k++) {
            const json_t *a = json_object_get(branch_of(r, json_array_get(branches, i)), "properties");
            const json_t *b = json_object_get(branch_of(r, json_array_get(branches, k)), "properties");
            json_t *x = values_of(json_object_get(a, name)), *y = values_of(json_object_get(b, name));
            bool apart = x && y && !share_value(r, x, y);
            json_decref(x);
            json_decref(y);
            if (!apart) return false;
        }
    return true;
}

/* So that it is there to tell them apart. */
static void require(struct rewrite *r, const json_t *branches, const char *name)
{
    for (size_t i = 0; i < json_array_size(branches); i++) {
        json_t *node = (json_t *)(uintptr_t)branch_of(r, json_array_get(branches, i));
        json_t *required = json_object_get(node, "required"), *one = json_pack("[s]", name);
        if (!json_is_array(required))
            set(r, node, "required", json_incref(one));
        else if (!one || !merge_required(r, required, one))
            r->nomem = true;
        json_decref(one);
    }
}

static bool is_exclusive(struct rewrite *r, const json_t *branches)
{
    const json_t *first = branch_of(r, json_array_get(branches, 0));
    const char *name;
    json_t *v;
    size_t n = json_array_size(branches);
    bool apart = n > 0 && n <= MAX_BRANCHES;
    if (!apart) return false;
    for (size_t i = 0; i < n && apart; i++)
        for (size_t k = 0; k < i && apart; k++)
            apart = differ(r, branch_of(r, json_array_get(branches, i)), branch_of(r, json_array_get(branches, k)));
    if (apart) return true;
    json_object_foreach(json_object_get(first, "properties"), name, v)
    {
        if (!may_compare(r, n, n) || !tells_apart(r, branches, name)) continue;
        require(r, branches, name);
        return true;
    }
    return false;
}

static void rewrite_choice(struct rewrite *r, json_t *node, unsigned depth)
{
    json_t *branches = json_object_get(node, "oneOf");
    if (json_is_array(branches) && !json_object_get(node, "anyOf") && is_exclusive(r, branches)) {
        if (json_object_set(node, "anyOf", branches) != 0) r->nomem = true;
        json_object_del(node, "oneOf");
    }
    visit_children(r, node, depth, rewrite_choice);
}

/* --- the root --- */

static bool refers_to_root(const json_t *v)
{
    const char *key;
    json_t *e;
    size_t i;
    json_array_foreach(v, i, e)
    {
        if (refers_to_root(e)) return true;
    }
    json_object_foreach((json_t *)(uintptr_t)v, key, e)
    {
        if ((strcmp(key, "$ref") == 0 && is_text(e, "#")) || refers_to_root(e)) return true;
    }
    return false;
}

/* What the whole schema says becomes a definition, which the root refers to. */
static void name_root(struct rewrite *r)
{
    json_t *root = r->root, *node = json_copy(root), *defs = json_object_get(root, "$defs");
    json_t *all = defs ? json_copy(defs) : json_object();
    json_object_del(node, "$defs");
    json_object_del(node, "definitions");
    json_t *old = json_incref(json_object_get(root, "definitions"));
    json_object_clear(root);
    set(r, all, ROOT, node);
    set(r, root, "$defs", all);
    if (old) set(r, root, "definitions", old);
    set(r, root, "$ref", json_string("#/$defs/" ROOT));
}

bool vr_schema_rewrite(json_t *schema)
{
    struct rewrite r = { .root = schema };
    if (refers_to_root(schema)) name_root(&r);
    rewrite_node(&r, schema, 0);
    rewrite_choice(&r, schema, 0);
    return !r.nomem;
}
