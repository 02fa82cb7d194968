/* Reading GBNF just far enough to know what its parser will do: which rules there are, which rules can come first in
 * each (the engine looks for left recursion by walking every such path), how groups nest and what is repeated.
 *
 * A rule's "firsts" are counted generously: everything up to the first thing that surely takes a character. Too many is
 * refused; a grammar that is not understood here is left for the engine to refuse. */
#include "engine/wire/limits.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>

#include "base/hash.h"

struct symbol {
    const char *name;
    size_t n;
    size_t first, n_firsts; /* in `firsts` */
    bool busy, known;
    double weight; /* how often its firsts may be tried, for repeats */
    double paths;
};

struct reader {
    const char *at, *end;
    struct symbol *symbols; /* open addressing by name */
    size_t n_buckets, n_symbols;
    size_t *firsts; /* symbol indices */
    size_t n_firsts, cap_firsts;
    size_t n_rules;
    unsigned long repeats; /* all {m,n} together */
    double weight;         /* of the rule that is being read */
    unsigned depth;
    struct vr_err *err;
};

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '-' || c == '_'; }

/* The bucket of a name; SIZE_MAX when there are too many. */
static size_t find(struct reader *r, const char *name, size_t n)
{
    size_t i = vr_hash(name, n, 0) & (r->n_buckets - 1);
    for (;; i = (i + 1) & (r->n_buckets - 1)) {
        struct symbol *s = &r->symbols[i];
        if (s->name && s->n == n && memcmp(s->name, name, n) == 0) return i;
        if (s->name) continue;
        if (++r->n_symbols > VR_MOST_GRAMMAR_RULES) return SIZE_MAX;
        *s = (struct symbol){ .name = name, .n = n };
        return i;
    }
}

static bool add_first(struct reader *r, size_t symbol)
{
    if (r->n_firsts == r->cap_firsts) {
        size_t cap = r->cap_firsts ? r->cap_firsts * 2 : 256;
        size_t *firsts = realloc(r->firsts, cap * sizeof *firsts);
        if (!firsts) return vr_fail_nomem(r->err, "reading a grammar");
        r->firsts = firsts;
        r->cap_firsts = cap;
    }
    r->firsts[r->n_firsts++] = symbol;
    return true;
}

/* Spaces and comments; newlines too inside a group and before a body, where the parser allows them. */
static void skip_space(struct reader *r, bool newlines)
{
    while (r->at < r->end) {
        char c = *r->at;
        if (c == '#')
            while (r->at < r->end && *r->at != '\n' && *r->at != '\r') r->at++;
        else if (c == ' ' || c == '\t' || (newlines && (c == '\n' || c == '\r')))
            r->at++;
        else
            return;
    }
}

/* "..." or [...]: true when it takes at least one character. */
static bool skip_quoted(struct reader *r, char close)
{
    const char *start = ++r->at;
    while (r->at < r->end && *r->at != close) r->at += *r->at == '\\' && r->at + 1 < r->end ? 2 : 1;
    bool some = r->at > start;
    if (r->at < r->end) r->at++;
    return some;
}

static bool read_number(struct reader *r, unsigned long *out)
{
    *out = 0;
    if (r->at == r->end || !isdigit((unsigned char)*r->at)) return false;
    for (; r->at < r->end && isdigit((unsigned char)*r->at); r->at++)
        if (*out <= VR_MOST_GRAMMAR_REPEAT) *out = *out * 10 + (unsigned long)(*r->at - '0');
    return true;
}

/* {m,n}; at the brace. */
static bool read_braces(struct reader *r, bool nested, bool leading, bool *empty)
{
    unsigned long least, most;
    r->at++;
    skip_space(r, nested);
    if (!read_number(r, &least)) return true; /* a syntax error */
    skip_space(r, nested);
    most = least;
    if (r->at < r->end && *r->at == ',') {
        r->at++;
        skip_space(r, nested);
        if (!read_number(r, &most)) most = least;
        skip_space(r, nested);
    }
    if (least > VR_MOST_GRAMMAR_REPEAT || most > VR_MOST_GRAMMAR_REPEAT)
        return vr_fail(r->err, VR_EUSAGE, "the grammar has a repetition of more than %d times", VR_MOST_GRAMMAR_REPEAT);
    if (most < least)
        return vr_fail(r->err, VR_EUSAGE, "the grammar has a repetition of at least %lu and at most %lu times", least,
                       most);
    if ((r->repeats += most) > VR_MOST_GRAMMAR_REPEATS)
        return vr_fail(r->err, VR_EUSAGE, "the grammar's repetitions add up to more than %d", VR_MOST_GRAMMAR_REPEATS);
    if (leading && most > 1) r->weight *= (double)most;
    if (least == 0) *empty = true;
    if (r->at < r->end && *r->at == '}') r->at++;
    return true;
}

/* What stands behind an item: true in *empty when the item may then be left out. */
static bool read_repeats(struct reader *r, bool nested, bool leading, bool *empty)
{
    for (;; skip_space(r, nested)) {
        char c = r->at < r->end ? *r->at : '\0';
        if (c == '*' || c == '?') {
            *empty = true;
            r->at++;
        } else if (c == '+') {
            r->at++;
        } else if (c == '{') {
            if (!read_braces(r, nested, leading, empty)) return false;
        } else {
            return true;
        }
    }
}

static bool read_alternates(struct reader *r, bool nested, bool *empty);

/* One item; *takes is set when it surely takes a character. *more is false where a sequence ends. */
static bool read_item(struct reader *r, bool nested, bool leading, bool *takes, bool *more)
{
    char c = r->at < r->end ? *r->at : '\0';
    bool empty = false;
    *more = true;
    if (c == '"') {
        empty = !skip_quoted(r, '"');
    } else if (c == '[') {
        skip_quoted(r, ']');
    } else if (c == '.') {
        r->at++;
    } else if (c == '<' || c == '!') {
        while (r->at < r->end && *r->at != '>') r->at++;
        if (r->at < r->end) r->at++;
    } else if (is_word(c)) {
        const char *name = r->at;
        while (r->at < r->end && is_word(*r->at)) r->at++;
        size_t s = find(r, name, (size_t)(r->at - name));
        if (s == SIZE_MAX)
            return vr_fail(r->err, VR_EUSAGE, "the grammar has more than %d rules", VR_MOST_GRAMMAR_RULES);
        if (leading && !add_first(r, s)) return false;
        empty = true; /* for all we know */
    } else if (c == '(') {
        if (++r->depth > VR_MOST_GRAMMAR_DEPTH)
            return vr_fail(r->err, VR_EUSAGE, "the grammar nests groups deeper than %d levels", VR_MOST_GRAMMAR_DEPTH);
        r->at++;
        skip_space(r, true);
        if (!leading) { /* its firsts are not the rule's: read them and forget them */
            size_t n = r->n_firsts;
            if (!read_alternates(r, true, &empty)) return false;
            r->n_firsts = n;
        } else if (!read_alternates(r, true, &empty)) {
            return false;
        }
        if (r->at < r->end && *r->at == ')') r->at++;
        r->depth--;
    } else {
        *more = false;
        return true;
    }
    skip_space(r, nested);
    if (!read_repeats(r, nested, leading, &empty)) return false;
    *takes = !empty;
    return true;
}

/* a b c | d | ...: *empty is set when an alternative may take nothing. */
static bool read_alternates(struct reader *r, bool nested, bool *empty)
{
    for (;;) {
        bool leading = true, more = true, takes = false;
        while (more) {
            if (!read_item(r, nested, leading, &takes, &more)) return false;
            if (more && takes) leading = false;
        }
        if (leading) *empty = true;
        if (r->at == r->end || *r->at != '|') return true;
        r->at++;
        skip_space(r, true);
    }
}

static bool read_rule(struct reader *r)
{
    const char *name = r->at;
    while (r->at < r->end && is_word(*r->at)) r->at++;
    size_t n = (size_t)(r->at - name);
    skip_space(r, false);
    if (n == 0 || r->end - r->at < 3 || memcmp(r->at, "::=", 3) != 0) {
        r->at = r->end; /* a syntax error, which is for the engine to tell */
        return true;
    }
    r->at += 3;
    skip_space(r, true);
    size_t s = find(r, name, n), first = r->n_firsts;
    if (s == SIZE_MAX || ++r->n_rules > VR_MOST_GRAMMAR_RULES)
        return vr_fail(r->err, VR_EUSAGE, "the grammar has more than %d rules", VR_MOST_GRAMMAR_RULES);
    bool empty = false;
    r->weight = 1;
    if (!read_alternates(r, false, &empty)) return false;
    r->symbols[s].first = first;
    r->symbols[s].n_firsts = r->n_firsts - first;
    r->symbols[s].weight = r->weight;
    if (r->at < r->end && *r->at != '\n' && *r->at != '\r') r->at = r->end;
    skip_space(r, true);
    return true;
}

/* How many paths the engine walks from a symbol. Explicit stack: a chain of rules may be as long as the grammar. */
static bool count_paths(struct reader *r, size_t root, size_t *stack, size_t *next)
{
    size_t depth = 0;
    stack[0] = root;
    next[0] = 0;
    r->symbols[root].busy = true;
    r->symbols[root].paths = 1;
    for (;;) {
        struct symbol *s = &r->symbols[stack[depth]];
        if (next[depth] < s->n_firsts) {
            size_t child = r->firsts[s->first + next[depth]++];
            struct symbol *c = &r->symbols[child];
            if (c->known) s->paths += c->paths;
            if (c->known || c->busy) continue;
            c->busy = true;
            c->paths = 1;
            stack[++depth] = child;
            next[depth] = 0;
            continue;
        }
        s->known = true;
        s->busy = false;
        s->paths *= s->weight > 1 ? s->weight : 1;
        if (s->paths > VR_MOST_GRAMMAR_PATHS)
            return vr_fail(r->err, VR_EUSAGE,
                           "the grammar is too ambiguous: there are more than %d ways to begin '%.*s'",
                           VR_MOST_GRAMMAR_PATHS, (int)(s->n < 64 ? s->n : 64), s->name);
        if (depth == 0) return true;
        r->symbols[stack[--depth]].paths += s->paths;
    }
}

static bool count_all_paths(struct reader *r)
{
    VR_AUTO_FREE size_t *stack = calloc(r->n_symbols + 1, sizeof *stack);
    VR_AUTO_FREE size_t *next = calloc(r->n_symbols + 1, sizeof *next);
    if (!stack || !next) return vr_fail_nomem(r->err, "reading a grammar");
    double all = 0;
    for (size_t i = 0; i < r->n_buckets; i++) {
        if (!r->symbols[i].name) continue;
        if (!r->symbols[i].known && !count_paths(r, i, stack, next)) return false;
        all += r->symbols[i].paths;
    }
    if (all > 4.0 * VR_MOST_GRAMMAR_PATHS) return vr_fail(r->err, VR_EUSAGE, "the grammar is too ambiguous");
    return true;
}

bool vr_limit_grammar(const char *gbnf, size_t n, struct vr_err *err)
{
    if (n > VR_MOST_GRAMMAR_BYTES)
        return vr_fail(err, VR_EUSAGE, "the grammar has %zu bytes, at most %d", n, VR_MOST_GRAMMAR_BYTES);
    if (memchr(gbnf, '\0', n)) return vr_fail(err, VR_EUSAGE, "the grammar contains a NUL byte");
    if (n >= 11 && memcmp(gbnf, "%llguidance", 11) == 0)
        return vr_fail(err, VR_EUSAGE, "the grammar is for llguidance, which this engine does not support: use GBNF");
    struct reader r = { .at = gbnf, .end = gbnf + n, .n_buckets = 4 * VR_MOST_GRAMMAR_RULES, .err = err };
    r.symbols = calloc(r.n_buckets, sizeof *r.symbols);
    if (!r.symbols) return vr_fail_nomem(err, "reading a grammar");
    bool ok = true;
    skip_space(&r, true);
    while (ok && r.at < r.end) ok = read_rule(&r);
    ok = ok && count_all_paths(&r);
    free(r.symbols);
    free(r.firsts);
    return ok;
}
