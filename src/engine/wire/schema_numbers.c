/* A number with k decimals is a whole number of units of 10^-k, written with a point before its last k digits. So a
 * range is one of whole numbers: each of them but the last may be followed by any more decimals. Ranges are cut by how
 * many digits their numbers have, and those of one length go digit by digit. */
#include "engine/wire/schema_numbers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "engine/wire/limits.h"

enum { MOST_DIGITS = 15 }; /* that a double keeps: what is beyond a limit in the text is beyond it as a number, too */
#define MARK "vr-number-"  /* what stands for a node */

struct vr_number_limits vr_number_limits(const json_t *node)
{
    const json_t *low = json_object_get(node, "minimum"), *above = json_object_get(node, "exclusiveMinimum");
    const json_t *high = json_object_get(node, "maximum"), *below = json_object_get(node, "exclusiveMaximum");
    return (struct vr_number_limits){ .low = low     ? json_number_value(low)
                                             : above ? json_number_value(above)
                                                     : -INFINITY,
                                      .high = high    ? json_number_value(high)
                                              : below ? json_number_value(below)
                                                      : INFINITY,
                                      .above = !low && above,
                                      .below = !high && below };
}

/* --- digits --- */

struct digits { /* of one length, with a point before the last k */
    struct vr_buf *out;
    size_t n, k;
};

static void add_point(const struct digits *d, size_t i)
{
    if (d->k && i == d->n - d->k) vr_buf_adds(d->out, "\".\" ");
}

static void add_class(const struct digits *d, size_t i, char from, char to)
{
    add_point(d, i);
    vr_buf_addf(d->out, "[%c-%c] ", from, to);
}

static void add_any(const struct digits *d, size_t i)
{
    for (; i < d->n; i++) add_class(d, i, '0', '9');
}

static void add_same(const struct digits *d, size_t from, size_t to, const char *text)
{
    for (size_t i = from; i < to; i++) add_class(d, i, text[i], text[i]);
}

/* From digit i on: no less than the text (`least`), or no more. */
static void add_side(const struct digits *d, size_t i, const char *text, bool least)
{
    vr_buf_adds(d->out, "( ");
    for (size_t p = i; p < d->n; p++) {
        if (text[p] == (least ? '9' : '0')) continue;
        add_same(d, i, p, text);
        add_class(d, p, least ? (char)(text[p] + 1) : '0', least ? '9' : (char)(text[p] - 1));
        add_any(d, p + 1);
        vr_buf_adds(d->out, "| ");
    }
    add_same(d, i, d->n, text);
    vr_buf_adds(d->out, ") ");
}

static void add_between(const struct digits *d, const char *low, const char *high)
{
    size_t p = 0;
    while (p < d->n && low[p] == high[p]) p++;
    add_same(d, 0, p, low);
    if (p == d->n) return;
    vr_buf_adds(d->out, "( ");
    add_same(d, p, p + 1, low);
    if (p + 1 < d->n) add_side(d, p + 1, low, true);
    vr_buf_adds(d->out, "| ");
    if (low[p] + 1 < high[p]) {
        add_class(d, p, (char)(low[p] + 1), (char)(high[p] - 1));
        add_any(d, p + 1);
        vr_buf_adds(d->out, "| ");
    }
    add_same(d, p, p + 1, high);
    if (p + 1 < d->n) add_side(d, p + 1, high, false);
    vr_buf_adds(d->out, ") ");
}

/* --- units --- */

struct units {
    struct vr_buf *out;
    size_t k; /* decimals */
    size_t n; /* alternatives so far */
};

static size_t count_digits(uint64_t v, size_t least)
{
    size_t n = 1;
    while (v /= 10) n++;
    return n < least ? least : n;
}

static void next_alternative(struct units *u, const char *sign)
{
    if (u->n++) vr_buf_adds(u->out, "| ");
    if (*sign) vr_buf_addf(u->out, "\"%s\" ", sign);
}

/* One number, and nothing behind it; or decimals that make it more, where there is room for them. */
static void add_exact(struct units *u, const char *sign, uint64_t v, bool more)
{
    char text[24];
    struct digits d = { u->out, count_digits(v, u->k + 1), u->k };
    if (more && d.n >= MOST_DIGITS) return;
    snprintf(text, sizeof text, "%0*llu", (int)d.n, (unsigned long long)v);
    next_alternative(u, sign);
    add_same(&d, 0, d.n, text);
    if (more && !u->k) vr_buf_adds(u->out, "\".\" ");
    if (more && d.n + 1 < MOST_DIGITS) vr_buf_addf(u->out, "[0-9]{0,%d} ", MOST_DIGITS - 1 - (int)d.n);
    if (more) vr_buf_adds(u->out, "[1-9] ");
}

/* All from low to high, each with any decimals behind it. */
static void add_range(struct units *u, const char *sign, uint64_t low, uint64_t high)
{
    while (low <= high) {
        char from[24], to[24];
        struct digits d = { u->out, count_digits(low, u->k + 1), u->k };
        uint64_t last = 9;
        for (size_t i = 1; i < d.n; i++) last = last * 10 + 9;
        if (last > high) last = high;
        snprintf(from, sizeof from, "%0*llu", (int)d.n, (unsigned long long)low);
        snprintf(to, sizeof to, "%0*llu", (int)d.n, (unsigned long long)last);
        next_alternative(u, sign);
        add_between(&d, from, to);
        if (d.n < MOST_DIGITS)
            vr_buf_addf(u->out, u->k ? "[0-9]{0,%d} " : "( \".\" [0-9]{1,%d} )? ", MOST_DIGITS - (int)d.n);
        low = last + 1;
    }
}

/* From low to high, which are no less than 0: above is "not low itself". */
static void add_interval(struct units *u, const char *sign, uint64_t low, uint64_t high, bool above, bool below)
{
    if (low == high && (above || below)) return;
    if (above) add_exact(u, sign, low++, true);
    if (low < high) add_range(u, sign, low, high - 1);
    if (!below) add_exact(u, sign, high, false);
}

/* --- limits --- */

/* The shortest text that is that number, as decimals: how many are behind the point. -1: too many. */
static int decimals_of(double v)
{
    char text[64];
    if (isinf(v)) return 0;
    for (int k = 0; k < MOST_DIGITS; k++) {
        snprintf(text, sizeof text, "%.*f", k, v);
        if (strtod(text, NULL) == v) return k;
    }
    return -1;
}

/* |v| in units, from its decimal text: multiplying would round. */
static uint64_t units_of(double v, int k)
{
    char text[64];
    uint64_t n = 0;
    snprintf(text, sizeof text, "%.*f", k, fabs(v));
    for (const char *c = text; *c; c++)
        if (*c != '.') n = n * 10 + (uint64_t)(*c - '0');
    return n;
}

/* Limits that a rule can have: those that are too far are brought nearer. */
static bool settle(struct vr_number_limits *l, int *k, struct vr_err *err)
{
    int a = fabs(l->low) < 1e15 ? decimals_of(l->low) : 0, b = fabs(l->high) < 1e15 ? decimals_of(l->high) : 0;
    *k = a > b ? a : b;
    double most = pow(10, MOST_DIGITS - *k) - 1;
    bool far = l->low < -most || l->high > most;
    if (a < 0 || b < 0) return vr_fail(err, VR_EUSAGE, "a limit has too many decimals");
    if (l->low < -most) l->low = -most, l->above = false;
    if (l->high > most) l->high = most, l->below = false;
    if (l->low < l->high || (l->low == l->high && !l->above && !l->below)) return true;
    return vr_fail(err, VR_EUSAGE, far ? "the limits have too many digits" : "no number satisfies these limits");
}

bool vr_number_limits_ok(const struct vr_number_limits *given, struct vr_err *err)
{
    struct vr_number_limits l = *given;
    int k;
    return settle(&l, &k, err);
}

bool vr_number_rule(const struct vr_number_limits *given, struct vr_buf *out, struct vr_err *err)
{
    struct vr_number_limits l = *given;
    int k;
    if (!settle(&l, &k, err)) return false;
    struct units u = { .out = out, .k = (size_t)k };
    vr_buf_adds(out, "( ");
    if (l.low < 0) { /* mirrored; what ends at 0 leaves that out: it has no sign */
        bool to_zero = l.high >= 0;
        add_interval(&u, "-", to_zero ? 0 : units_of(l.high, k), units_of(l.low, k), to_zero || l.below, l.above);
    }
    if (l.high >= 0 && !(l.high == 0 && l.below))
        add_interval(&u, "", l.low > 0 ? units_of(l.low, k) : 0, units_of(l.high, k), l.low >= 0 && l.above, l.below);
    vr_buf_adds(out, ")");
    if (u.n == 0) return vr_fail(err, VR_EUSAGE, "the limits have too many digits");
    return !out->failed || vr_fail_nomem(err, "writing a rule");
}

/* --- schemas --- */

static bool names_number(const json_t *type)
{
    const char *one = json_string_value(type);
    if (one) return strcmp(one, "number") == 0;
    for (size_t i = 0; i < json_array_size(type); i++)
        if (names_number(json_array_get(type, i))) return true;
    return false;
}

static const char *const keys[] = { "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum" };

static bool is_limited(const json_t *node)
{
    for (size_t i = 0; i < VR_COUNT(keys); i++)
        if (json_object_get(node, keys[i])) return names_number(json_object_get(node, "type"));
    return false;
}

/* The types beside the number, without its limits; NULL: there are none. */
static json_t *others_of(const json_t *node)
{
    json_t *copy = json_copy((json_t *)(uintptr_t)node), *types = json_array();
    const json_t *type = json_object_get(node, "type");
    for (size_t i = 0; i < json_array_size(type); i++) {
        const char *name = json_string_value(json_array_get(type, i));
        if (strcmp(name, "number") != 0 && strcmp(name, "integer") != 0)
            json_array_append_new(types, json_string(name));
    }
    for (size_t i = 0; i < VR_COUNT(keys); i++) json_object_del(copy, keys[i]);
    size_t n = json_array_size(types);
    json_object_set_new(copy, "type", types);
    if (n) return copy;
    json_decref(copy);
    return NULL;
}

static bool take(json_t *v, bool names, json_t *rules, struct vr_err *err);

static bool take_node(json_t *node, json_t *rules, struct vr_err *err)
{
    if (json_array_size(rules) >= VR_MOST_SCHEMA_NUMBERS)
        return vr_fail(err, VR_EUSAGE, "more than %d numbers have limits", VR_MOST_SCHEMA_NUMBERS);
    VR_AUTO_BUF rule = { 0 };
    struct vr_number_limits l = vr_number_limits(node);
    if (!vr_number_rule(&l, &rule, err)) return false;
    json_t *value = json_pack("{s:o}", "const", json_sprintf(MARK "%zu", json_array_size(rules)));
    json_t *others = others_of(node);
    bool ok = value && json_array_append_new(rules, json_string(vr_buf_str(&rule))) == 0;
    json_object_clear(node);
    if (others)
        ok = ok && json_object_set_new(node, "anyOf", json_pack("[O,O]", value, others)) == 0;
    else
        ok = ok && json_object_update(node, value) == 0;
    json_decref(value);
    json_decref(others);
    return ok ? take(json_object_get(node, "anyOf"), false, rules, err) : vr_fail_nomem(err, "reading a schema");
}

/* What stands where values do is no schema. */
static bool is_value(const char *key)
{
    return strcmp(key, "const") == 0 || strcmp(key, "enum") == 0 || strcmp(key, "default") == 0 ||
           strcmp(key, "examples") == 0 || strcmp(key, "example") == 0;
}

static bool take(json_t *v, bool names, json_t *rules, struct vr_err *err)
{
    const char *key;
    json_t *child;
    void *next;
    size_t i;
    json_array_foreach(v, i, child) if (!take(child, false, rules, err)) return false;
    if (json_is_object(v) && !names && is_limited(v)) return take_node(v, rules, err);
    json_object_foreach_safe(v, next, key, child)
    {
        bool are_names =
            !names && (strcmp(key, "properties") == 0 || strcmp(key, "$defs") == 0 || strcmp(key, "definitions") == 0);
        if ((names || !is_value(key)) && !take(child, are_names, rules, err)) return false;
    }
    return true;
}

bool vr_numbers_take(json_t *schema, json_t *rules, struct vr_err *err)
{
    VR_AUTO_FREE char *text = json_dumps(schema, JSON_COMPACT);
    if (!text) return vr_fail_nomem(err, "reading a schema");
    size_t n = json_array_size(rules);
    if (!take(schema, false, rules, err)) return false;
    if (json_array_size(rules) > n && strstr(text, MARK))
        return vr_fail(err, VR_EUSAGE, "limits of numbers cannot be enforced beside the text '" MARK "'");
    return true;
}

bool vr_numbers_put(const char *gbnf, size_t n, const json_t *rules, struct vr_buf *out)
{
    static const char mark[] = "\"\\\"" MARK, end[] = "\\\"\""; /* the value as the converter writes it */
    const char *at = gbnf, *stop = gbnf + n, *found;
    while ((found = memmem(at, (size_t)(stop - at), mark, sizeof mark - 1))) {
        char *digits_end;
        size_t i = strtoul(found + sizeof mark - 1, &digits_end, 10);
        const char *rule = json_string_value(json_array_get(rules, i));
        if (!rule || strncmp(digits_end, end, sizeof end - 1) != 0) break; /* nothing of ours */
        vr_buf_add(out, at, (size_t)(found - at));
        vr_buf_adds(out, rule);
        at = digits_end + sizeof end - 1;
    }
    vr_buf_add(out, at, (size_t)(stop - at));
    return !memmem(vr_buf_str(out), out->n, MARK, sizeof MARK - 1);
}
