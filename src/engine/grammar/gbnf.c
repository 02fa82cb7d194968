/* One pass over the text. Symbols of a sequence wait on a stack until it ends, since groups inside it become rules of
 * their own; what is repeated and more than one symbol becomes a rule, too, so that a repetition is two numbers at a
 * symbol. A second pass finds the rules that may be empty. */
#include "engine/grammar/gbnf.h"

#include <ctype.h>
#include <string.h>

#include "base/hash.h"
#include "base/vec.h"
#include "engine/grammar/factor.h"

struct name {
    const char *text;
    size_t n;
    uint32_t rule;
};

struct reader {
    struct vr_gbnf *g;
    const char *text, *at, *end;
    struct name *names; /* open addressing */
    size_t n_names, cap_names;
    uint64_t seed;
    struct vr_gbnf_symbol *stack; /* sequences that have not ended */
    uint32_t n_stack, cap_stack;
    uint32_t *starts; /* alternatives of rules that have not ended */
    uint32_t n_starts, cap_starts;
    struct vr_gbnf_range *class; /* the one that is being read */
    uint32_t n_class, cap_class;
    unsigned depth;
    vr_gbnf_token_fn *token;
    const void *ctx;
    struct vr_err *err;
};

/* --- failing and growing --- */

static unsigned line_of(const struct reader *r)
{
    unsigned n = 1;
    for (const char *s = r->text; s < r->at; s++) n += *s == '\n';
    return n;
}

/* "the grammar is not valid: line 3: expected ...". */
static bool invalid(struct reader *r, const char *what)
{
    char near[25];
    size_t n = 0;
    while (n < sizeof near - 1 && r->at + n < r->end && r->at[n] >= ' ' && r->at[n] < 0x7F) {
        near[n] = r->at[n];
        n++;
    }
    near[n] = '\0';
    if (r->at >= r->end)
        return vr_fail(r->err, VR_EUSAGE, "the grammar is not valid: line %u: %s before the end of the grammar",
                       line_of(r), what);
    return vr_fail(r->err, VR_EUSAGE, "the grammar is not valid: line %u: %s at '%s'", line_of(r), what, near);
}

#define ROOM(r, owner, what) (VR_ROOM(owner, what) || vr_fail_nomem((r)->err, "reading a grammar"))

static bool push(struct reader *r, enum vr_gbnf_kind kind, uint32_t value)
{
    r->g->n_operations++;
    if (!ROOM(r, r, stack)) return false;
    r->stack[r->n_stack++] = (struct vr_gbnf_symbol){ kind, value, 1, 1 };
    return true;
}

static bool new_rule(struct reader *r, uint32_t *out)
{
    if (r->g->n_rules == VR_GBNF_MOST_RULES)
        return vr_fail(r->err, VR_EUSAGE, "the grammar has more than %d rules, groups and repeated strings",
                       VR_GBNF_MOST_RULES);
    if (!ROOM(r, r->g, rules)) return false;
    *out = r->g->n_rules++;
    r->g->rules[*out] = (struct vr_gbnf_rule){ 0 };
    return true;
}

/* --- names --- */

static struct name *slot_of(const struct reader *r, struct name *names, size_t cap, const char *text, size_t n)
{
    size_t i = vr_hash(text, n, r->seed) & (cap - 1);
    while (names[i].text && (names[i].n != n || memcmp(names[i].text, text, n) != 0)) i = (i + 1) & (cap - 1);
    return &names[i];
}

static bool grow_names(struct reader *r)
{
    size_t cap = r->cap_names ? r->cap_names * 2 : 256;
    struct name *names = calloc(cap, sizeof *names);
    if (!names) return vr_fail_nomem(r->err, "reading a grammar");
    for (size_t i = 0; i < r->cap_names; i++)
        if (r->names[i].text) *slot_of(r, names, cap, r->names[i].text, r->names[i].n) = r->names[i];
    free(r->names);
    r->names = names;
    r->cap_names = cap;
    return true;
}

static bool find_rule(struct reader *r, const char *text, size_t n, uint32_t *out)
{
    r->g->n_operations += n;
    if (2 * r->n_names >= r->cap_names && !grow_names(r)) return false;
    struct name *at = slot_of(r, r->names, r->cap_names, text, n);
    if (!at->text) {
        uint32_t rule;
        if (!new_rule(r, &rule)) return false;
        *at = (struct name){ text, n, rule };
        r->n_names++;
    }
    *out = at->rule;
    return true;
}

/* --- characters --- */

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '-' || c == '_'; }
static char peek(const struct reader *r) { return r->at < r->end ? *r->at : '\0'; }

/* Spaces and comments; newlines too where the notation allows them. */
static void skip_space(struct reader *r, bool newlines)
{
    const char *from = r->at;
    for (; r->at < r->end; r->at++) {
        char c = *r->at;
        if (c == '#')
            while (r->at + 1 < r->end && r->at[1] != '\n' && r->at[1] != '\r') r->at++;
        else if (c != ' ' && c != '\t' && !(newlines && (c == '\n' || c == '\r')))
            break;
    }
    r->g->n_operations += (uint64_t)(r->at - from);
}

static bool read_hex(struct reader *r, int digits, uint32_t *out)
{
    *out = 0;
    for (int i = 0; i < digits; i++, r->at++) {
        char c = peek(r);
        if (!isxdigit((unsigned char)c)) return invalid(r, "expected a hexadecimal digit");
        *out = *out << 4 | (uint32_t)(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
    }
    return true;
}

static bool read_escape(struct reader *r, uint32_t *out)
{
    char c = peek(r);
    if (r->at < r->end) r->at++;
    switch (c) {
    case 'x': return read_hex(r, 2, out);
    case 'u': return read_hex(r, 4, out);
    case 'U': return read_hex(r, 8, out);
    case 't': *out = '\t'; return true;
    case 'r': *out = '\r'; return true;
    case 'n': *out = '\n'; return true;
    case '\\':
    case '"':
    case '[':
    case ']':
    case '-': *out = (unsigned char)c; return true;
    default: r->at -= r->at > r->text; return invalid(r, "unknown escape");
    }
}

/* A character of a string or a class; the text is UTF-8. */
static bool read_char(struct reader *r, uint32_t *out)
{
    if (r->at >= r->end) return invalid(r, "a string or class is not closed");
    r->g->n_operations++;
    unsigned char c = (unsigned char)*r->at++;
    if (c == '\\') return read_escape(r, out);
    int more = c < 0xC0 ? 0 : c < 0xE0 ? 1 : c < 0xF0 ? 2 : 3;
    *out = more ? c & (0x3Fu >> more) : c;
    for (; more && r->at < r->end; more--) *out = *out << 6 | ((unsigned char)*r->at++ & 0x3F);
    return true;
}

/* --- classes --- */

static bool add_range(struct reader *r, uint32_t low, uint32_t high)
{
    if (low > high) return true;
    if (!ROOM(r, r, class)) return false;
    r->class[r->n_class++] = (struct vr_gbnf_range){ low, high };
    return true;
}

static int by_low(const void *a, const void *b)
{
    const struct vr_gbnf_range *x = a, *y = b;
    return x->low < y->low ? -1 : x->low > y->low;
}

/* Sorted and disjoint; turned round when it is negated. */
static bool settle_class(struct reader *r, bool negated)
{
    uint32_t n = 0;
    if (r->n_class) qsort(r->class, r->n_class, sizeof *r->class, by_low);
    for (uint32_t i = 0; i < r->n_class; i++) {
        struct vr_gbnf_range *last = n ? &r->class[n - 1] : NULL;
        if (last && r->class[i].low <= (last->high == UINT32_MAX ? UINT32_MAX : last->high + 1)) {
            if (r->class[i].high > last->high) last->high = r->class[i].high;
        } else {
            r->class[n++] = r->class[i];
        }
    }
    r->n_class = n;
    if (!negated) return true;
    uint32_t from = 0, out = 0;
    bool open = true; /* something is left above the last range */
    for (uint32_t i = 0; i < n; i++) {
        struct vr_gbnf_range cut = r->class[i];
        if (cut.low > from) r->class[out++] = (struct vr_gbnf_range){ from, cut.low - 1 };
        open = cut.high < UINT32_MAX;
        from = cut.high + 1;
    }
    r->n_class = out; /* at most as many as were there */
    return !open || add_range(r, from, UINT32_MAX);
}

/* What is in r->class, as a symbol. */
static bool push_class(struct reader *r, bool negated)
{
    struct vr_gbnf *g = r->g;
    struct vr_gbnf_class c = { .first = g->n_ranges };
    if (!settle_class(r, negated)) return false;
    if (r->n_class == 1 && r->class[0].low == r->class[0].high) return push(r, VR_GBNF_CHAR, r->class[0].low);
    for (uint32_t i = 0; i < r->n_class; i++) {
        struct vr_gbnf_range x = r->class[i];
        for (uint32_t k = x.low; k < 128 && k <= x.high; k++) c.ascii[k / 64] |= UINT64_C(1) << k % 64;
        if (x.high < 128) continue;
        if (!ROOM(r, g, ranges)) return false;
        g->ranges[g->n_ranges++] = (struct vr_gbnf_range){ x.low < 128 ? 128 : x.low, x.high };
    }
    c.n = g->n_ranges - c.first;
    if (!ROOM(r, g, classes)) return false;
    g->classes[g->n_classes] = c;
    return push(r, VR_GBNF_CLASS, g->n_classes++);
}

/* [...]; an empty one is nothing, not a class, as in llama.cpp. */
static bool read_class(struct reader *r)
{
    bool negated = false, any = false;
    r->at++;
    r->n_class = 0;
    if (peek(r) == '^') {
        negated = true;
        r->at++;
    }
    while (peek(r) != ']') {
        uint32_t low, high;
        if (!read_char(r, &low)) return false;
        high = low;
        if (peek(r) == '-' && r->end - r->at > 1 && r->at[1] != ']') {
            r->at++;
            if (!read_char(r, &high)) return false;
        }
        if (!add_range(r, low, high)) return false;
        any = true;
    }
    r->at++;
    return !any || push_class(r, negated);
}

static bool read_any(struct reader *r)
{
    r->at++;
    r->n_class = 0;
    return add_range(r, 0, UINT32_MAX) && push_class(r, false);
}

static bool read_string(struct reader *r)
{
    r->at++;
    while (peek(r) != '"') {
        uint32_t c;
        if (!read_char(r, &c) || !push(r, VR_GBNF_CHAR, c)) return false;
    }
    r->at++;
    return true;
}

/* --- tokens --- */

/* <[123]>; at the digits. */
static bool read_token_number(struct reader *r, uint32_t *out)
{
    uint64_t n = 0;
    if (!isdigit((unsigned char)peek(r))) return invalid(r, "expected the number of a token");
    for (; isdigit((unsigned char)peek(r)); r->at++)
        if (n <= VR_GBNF_MOST_TOKEN) n = n * 10 + (uint64_t)(*r->at - '0');
    if (n > VR_GBNF_MOST_TOKEN) return invalid(r, "the number of a token is too large");
    if (r->end - r->at < 2 || r->at[0] != ']' || r->at[1] != '>') return invalid(r, "expected ']>'");
    r->at += 2;
    *out = (uint32_t)n;
    return true;
}

/* <text>, <[123]>, and either with a ! before it. */
static bool read_token(struct reader *r)
{
    bool other = peek(r) == '!';
    uint32_t token = 0;
    if (other) r->at++;
    const char *from = r->at;
    if (peek(r) != '<') return invalid(r, "expected '<'");
    r->at++;
    r->g->has_tokens = true;
    if (peek(r) == '[') {
        r->at++;
        if (!read_token_number(r, &token)) return false;
        return push(r, other ? VR_GBNF_TOKEN_NOT : VR_GBNF_TOKEN, token);
    }
    while (r->at < r->end && *r->at != '>') r->at++;
    if (r->at == r->end) return invalid(r, "expected '>'");
    r->at++;
    size_t n = (size_t)(r->at - from);
    r->g->n_operations += n;
    if (r->token && !r->token(r->ctx, from, n, &token))
        return vr_fail(r->err, VR_EUSAGE, "the grammar is not valid: '%.*s' is not one token of this model",
                       (int)(n < 64 ? n : 64), from);
    return push(r, other ? VR_GBNF_TOKEN_NOT : VR_GBNF_TOKEN, token);
}

/* --- repetitions --- */

/* The alternative on the stack from `from` on ends: it moves to the grammar. */
static bool end_alternative(struct reader *r, uint32_t from)
{
    struct vr_gbnf *g = r->g;
    if (!ROOM(r, r, starts)) return false;
    r->starts[r->n_starts++] = from == r->n_stack ? 0 : g->n_symbols; /* an empty one is an end and nothing else */
    for (uint32_t i = from; i < r->n_stack; i++) {
        if (!ROOM(r, g, symbols)) return false;
        g->symbols[g->n_symbols++] = r->stack[i];
    }
    if (from < r->n_stack) {
        if (!ROOM(r, g, symbols)) return false;
        g->symbols[g->n_symbols++] = (struct vr_gbnf_symbol){ VR_GBNF_END, 0, 1, 1 };
    }
    g->n_operations += r->n_stack - from;
    r->n_stack = from;
    return true;
}

/* The rule whose alternatives are in r->starts from `from` on. */
static bool end_rule(struct reader *r, uint32_t rule, uint32_t from)
{
    struct vr_gbnf *g = r->g;
    struct vr_gbnf_rule made = { .first = g->n_alternatives, .n = r->n_starts - from, .defined = true };
    for (uint32_t i = from; i < r->n_starts; i++) {
        if (!ROOM(r, g, alternatives)) return false;
        g->alternatives[g->n_alternatives++] = r->starts[i];
    }
    r->n_starts = from;
    g->rules[rule] = made;
    return true;
}

/* ** is *, and so on: without it a row of stars would be a tower of rules. */
static bool simple(uint32_t least, uint32_t most) { return least <= 1 && (most == 1 || most == VR_GBNF_NO_END); }

/* Applies {least,most} to the last item, which begins at `item` on the stack. */
static bool repeat(struct reader *r, uint32_t item, uint32_t least, uint32_t most)
{
    if (item == r->n_stack) return invalid(r, "there is nothing to repeat before this");
    struct vr_gbnf_symbol *s = &r->stack[item];
    if (most == 0) {
        r->n_stack = item;
        return true;
    }
    if (r->n_stack - item == 1 && simple(s->least, s->most) && simple(least, most)) {
        s->least *= least;
        if (s->most < most) s->most = most;
        return true;
    }
    if (r->n_stack - item == 1 && s->least == 1 && s->most == 1) {
        s->least = least;
        s->most = most;
        return true;
    }
    uint32_t rule, from = r->n_starts;
    if (!new_rule(r, &rule) || !end_alternative(r, item) || !end_rule(r, rule, from) || !push(r, VR_GBNF_RULE, rule))
        return false;
    r->stack[item].least = least;
    r->stack[item].most = most;
    return true;
}

static bool read_count(struct reader *r, uint32_t *out)
{
    uint64_t n = 0;
    if (!isdigit((unsigned char)peek(r))) return invalid(r, "expected a number");
    for (; isdigit((unsigned char)peek(r)); r->at++)
        if (n <= VR_GBNF_MOST_REPEAT) n = n * 10 + (uint64_t)(*r->at - '0');
    *out = (uint32_t)n;
    return n <= VR_GBNF_MOST_REPEAT ||
           vr_fail(r->err, VR_EUSAGE, "the grammar has a repetition of more than %d times", VR_GBNF_MOST_REPEAT);
}

/* {m}, {m,} and {m,n}; at the brace. */
static bool read_braces(struct reader *r, uint32_t item, bool nested)
{
    uint32_t least, most;
    r->at++;
    skip_space(r, nested);
    if (!read_count(r, &least)) return false;
    skip_space(r, nested);
    most = least;
    if (peek(r) == ',') {
        r->at++;
        most = VR_GBNF_NO_END;
        skip_space(r, nested);
        if (isdigit((unsigned char)peek(r)) && !read_count(r, &most)) return false;
        skip_space(r, nested);
    }
    if (peek(r) != '}') return invalid(r, "expected '}'");
    r->at++;
    if (most < least)
        return vr_fail(r->err, VR_EUSAGE, "the grammar has a repetition of at least %u and at most %u times", least,
                       most);
    return repeat(r, item, least, most);
}

/* --- sequences and rules --- */

static bool read_alternatives(struct reader *r, uint32_t rule, bool nested);

static bool read_group(struct reader *r)
{
    uint32_t rule;
    if (++r->depth > VR_GBNF_MOST_DEPTH)
        return vr_fail(r->err, VR_EUSAGE, "the grammar nests groups deeper than %d levels", VR_GBNF_MOST_DEPTH);
    r->at++;
    skip_space(r, true);
    if (!new_rule(r, &rule) || !read_alternatives(r, rule, true)) return false;
    if (peek(r) != ')') return invalid(r, "expected ')'");
    r->at++;
    r->depth--;
    return push(r, VR_GBNF_RULE, rule);
}

static bool read_reference(struct reader *r)
{
    const char *name = r->at;
    uint32_t rule;
    while (is_word(peek(r))) r->at++;
    return find_rule(r, name, (size_t)(r->at - name), &rule) && push(r, VR_GBNF_RULE, rule);
}

/* What stands behind an item. *more is false when it is no repetition. */
static bool read_repetition(struct reader *r, uint32_t item, bool nested, bool *more)
{
    char c = peek(r);
    *more = true;
    if (c == '{') return read_braces(r, item, nested);
    *more = c == '*' || c == '+' || c == '?';
    if (!*more) return true;
    if (!repeat(r, item, c == '+', c == '?' ? 1 : VR_GBNF_NO_END)) return false;
    r->at++;
    return true;
}

/* One item. *more is false where the sequence ends. */
static bool read_item(struct reader *r, bool *more)
{
    char c = peek(r);
    if (c == '"') return read_string(r);
    if (c == '[') return read_class(r);
    if (c == '.') return read_any(r);
    if (c == '(') return read_group(r);
    if (c == '<' || c == '!') return read_token(r);
    if (is_word(c)) return read_reference(r);
    *more = false;
    return true;
}

static bool read_sequence(struct reader *r, bool nested)
{
    uint32_t from = r->n_stack, item = from;
    for (bool more = true;;) {
        bool repeated;
        if (!read_repetition(r, item, nested, &repeated)) return false;
        if (!repeated) {
            item = r->n_stack;
            if (!read_item(r, &more)) return false;
        }
        if (!more) return end_alternative(r, from);
        skip_space(r, nested);
    }
}

/* a b c | d | ... */
static bool read_alternatives(struct reader *r, uint32_t rule, bool nested)
{
    uint32_t from = r->n_starts;
    for (;;) {
        if (!read_sequence(r, nested)) return false;
        if (peek(r) != '|') return end_rule(r, rule, from);
        r->at++;
        skip_space(r, true);
    }
}

static bool read_rule(struct reader *r)
{
    const char *name = r->at;
    uint32_t rule;
    while (is_word(peek(r))) r->at++;
    size_t n = (size_t)(r->at - name);
    if (n == 0) return invalid(r, "expected the name of a rule");
    skip_space(r, false);
    if (r->end - r->at < 3 || memcmp(r->at, "::=", 3) != 0) return invalid(r, "expected '::='");
    r->at += 3;
    skip_space(r, true);
    if (!find_rule(r, name, n, &rule) || !read_alternatives(r, rule, false)) return false;
    if (r->at < r->end && *r->at != '\n' && *r->at != '\r')
        return invalid(r, *r->at == ')' ? "unexpected ')'" : "expected the end of the line");
    skip_space(r, true);
    return true;
}

/* --- the whole --- */

static bool check_names(struct reader *r)
{
    bool has_root = false;
    for (size_t i = 0; i < r->cap_names; i++) {
        const struct name *n = &r->names[i];
        if (!n->text) continue;
        if (!r->g->rules[n->rule].defined)
            return vr_fail(r->err, VR_EUSAGE, "the grammar is not valid: there is no rule named '%.*s'",
                           (int)(n->n < 64 ? n->n : 64), n->text);
        if (n->n != 4 || memcmp(n->text, "root", 4) != 0) continue;
        r->g->root = n->rule;
        has_root = true;
    }
    return has_root || vr_fail(r->err, VR_EUSAGE, "the grammar is not valid: it has no rule named root");
}

struct waiting {                /* alternatives that may be empty when a rule may */
    uint32_t *head, *next, *of; /* by rule; by symbol; the alternative of a symbol */
    uint32_t *left, *owner;     /* by alternative: symbols that must be empty yet; its rule */
    uint32_t *queue;
};

/* An alternative whose symbols all may be empty makes its rule so. */
static void settle_alternative(struct vr_gbnf *g, struct waiting *w, uint32_t alternative, uint32_t *n_queue)
{
    uint32_t rule = w->owner[alternative];
    if (w->left[alternative] || g->rules[rule].nullable) return;
    g->rules[rule].nullable = true;
    w->queue[(*n_queue)++] = rule;
}

static void find_nullable(struct vr_gbnf *g, struct waiting *w)
{
    uint32_t n_queue = 0;
    for (uint32_t i = 0; i < g->n_rules; i++) w->head[i] = UINT32_MAX;
    for (uint32_t i = 0; i < g->n_rules; i++)
        for (uint32_t k = 0; k < g->rules[i].n; k++) {
            uint32_t a = g->rules[i].first + k;
            w->owner[a] = i;
            for (uint32_t s = g->alternatives[a]; g->symbols[s].kind != VR_GBNF_END; s++) {
                g->n_operations++;
                if (g->symbols[s].least == 0) continue;
                w->left[a]++;
                if (g->symbols[s].kind != VR_GBNF_RULE) continue;
                w->of[s] = a;
                w->next[s] = w->head[g->symbols[s].value];
                w->head[g->symbols[s].value] = s;
            }
            settle_alternative(g, w, a, &n_queue);
        }
    for (uint32_t at = 0; at < n_queue; at++)
        for (uint32_t s = w->head[w->queue[at]]; s != UINT32_MAX; s = w->next[s]) {
            g->symbols[s].least = 0;
            g->n_operations++;
            w->left[w->of[s]]--;
            settle_alternative(g, w, w->of[s], &n_queue);
        }
}

static bool mark_nullable(struct vr_gbnf *g, struct vr_err *err)
{
    size_t n = g->n_symbols, a = g->n_alternatives, rules = g->n_rules;
    VR_AUTO_FREE uint32_t *block = calloc(2 * n + 2 * a + 2 * rules + 1, sizeof *block);
    if (!block) return vr_fail_nomem(err, "reading a grammar");
    struct waiting w = { .head = block };
    w.queue = w.head + rules;
    w.next = w.queue + rules;
    w.of = w.next + n;
    w.left = w.of + n;
    w.owner = w.left + a;
    find_nullable(g, &w);
    return true;
}

/* Splits the groups of ASCII characters by a set of them. */
static void tell_apart(uint8_t alike[256], const uint64_t set[2], unsigned *n)
{
    uint8_t moved[256] = { 0 };
    bool inside[256] = { false }, outside[256] = { false };
    for (unsigned c = 0; c < 128; c++) (set[c / 64] >> c % 64 & 1 ? inside : outside)[alike[c]] = true;
    for (unsigned c = 0; c < 128; c++) {
        uint8_t group = alike[c];
        if (!(set[c / 64] >> c % 64 & 1) || !inside[group] || !outside[group]) continue;
        if (!moved[group]) moved[group] = (uint8_t)(*n)++;
        alike[c] = moved[group];
    }
}

/* At most 128 groups of ASCII, each other byte by itself: the matcher keeps what it has found out by group. */
static void mark_alike(struct vr_gbnf *g)
{
    unsigned n = 1;
    uint64_t single[2] = { 0 };
    for (unsigned c = 0; c < 128; c++) g->alike[c] = 0;
    for (uint32_t i = 0; i < g->n_classes && n < 128; i++)
        if (i == 0 || memcmp(g->classes[i].ascii, g->classes[i - 1].ascii, sizeof g->classes[i].ascii) != 0)
            tell_apart(g->alike, g->classes[i].ascii, &n);
    for (uint32_t i = 0; i < g->n_symbols; i++)
        if (g->symbols[i].kind == VR_GBNF_CHAR && g->symbols[i].value < 128)
            single[g->symbols[i].value / 64] |= UINT64_C(1) << g->symbols[i].value % 64;
    for (unsigned c = 0; c < 128; c++) {
        uint64_t one[2] = { 0 };
        one[c / 64] = single[c / 64] & UINT64_C(1) << c % 64;
        if (one[c / 64]) tell_apart(g->alike, one, &n);
    }
    for (unsigned c = 128; c < 256; c++) g->alike[c] = (uint8_t)c;
}

static bool read_all(struct reader *r)
{
    struct vr_gbnf *g = r->g;
    if (!ROOM(r, g, symbols)) return false;
    g->symbols[g->n_symbols++] = (struct vr_gbnf_symbol){ VR_GBNF_END, 0, 1, 1 };
    skip_space(r, true);
    while (r->at < r->end)
        if (!read_rule(r)) return false;
    if (!check_names(r) || !vr_gbnf_factor(g, r->err) || !mark_nullable(g, r->err)) return false;
    mark_alike(g);
    return true;
}

struct vr_gbnf *vr_gbnf_read(const char *text, size_t n, vr_gbnf_token_fn *token, const void *ctx, struct vr_err *err)
{
    if (n > VR_GBNF_MOST_BYTES)
        return VR_FAIL_NULL(err, VR_EUSAGE, "the grammar has %zu bytes, at most %d", n, VR_GBNF_MOST_BYTES);
    if (n && memchr(text, '\0', n)) return VR_FAIL_NULL(err, VR_EUSAGE, "the grammar contains a NUL byte");
    if (n >= 11 && memcmp(text, "%llguidance", 11) == 0)
        return VR_FAIL_NULL(err, VR_EUSAGE,
                            "the grammar is for llguidance, which this engine does not support: use GBNF");
    VR_AUTO(vr_gbnf) g = calloc(1, sizeof *g);
    if (!g) return vr_fail_nomem(err, "reading a grammar"), NULL;
    struct reader r = { .g = g,
                        .text = text,
                        .at = text,
                        .end = text + n,
                        .token = token,
                        .ctx = ctx,
                        .err = err,
                        .seed = vr_hash_secret() };
    bool ok = read_all(&r);
    free(r.names);
    free(r.stack);
    free(r.starts);
    free(r.class);
    return ok ? VR_TAKE(g) : NULL;
}

void vr_gbnf_free(struct vr_gbnf *g)
{
    if (!g) return;
    free(g->symbols);
    free(g->alternatives);
    free(g->rules);
    free(g->classes);
    free(g->ranges);
    free(g);
}

bool vr_gbnf_has_any(const struct vr_gbnf *g, const struct vr_gbnf_symbol *s, uint32_t low, uint32_t high)
{
    if (s->kind == VR_GBNF_CHAR) return low <= s->value && s->value <= high;
    const struct vr_gbnf_class *c = &g->classes[s->value];
    if (c->n == 0) return false;
    const struct vr_gbnf_range *ranges = g->ranges + c->first;
    uint32_t from = 0, to = c->n; /* the first range that does not end before `low` */
    while (from < to) {
        uint32_t middle = from + (to - from) / 2;
        if (ranges[middle].high < low)
            from = middle + 1;
        else
            to = middle;
    }
    return from < c->n && ranges[from].low <= high;
}

bool vr_gbnf_has(const struct vr_gbnf *g, const struct vr_gbnf_symbol *s, uint32_t code_point)
{
    if (s->kind == VR_GBNF_CHAR) return s->value == code_point;
    if (code_point < 128) return g->classes[s->value].ascii[code_point / 64] >> code_point % 64 & 1;
    return vr_gbnf_has_any(g, s, code_point, code_point);
}
