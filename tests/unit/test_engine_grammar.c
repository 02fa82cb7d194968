/* Our grammars beside the engine's: random and handwritten ones, token by token, must allow the same tokens. */
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "engine/grammar/gbnf.h"
#include "engine/grammar/grammar.h"
#include "engine/grammar/matcher.h"
#include "engine/llama/bridge.h"
#include "grammar_vocab.h"

static struct grammar_vocab v;
static uint64_t seed = 42;

static uint32_t pick(uint32_t n)
{
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % n;
}

static struct vr_grammar *our_grammar(const char *gbnf, struct vr_err *err)
{
    struct vr_grammar_spec spec = { .gbnf = { gbnf, strlen(gbnf) } };
    return vr_grammar_new(&spec, v.index, NULL, NULL, err);
}

static struct { /* shared with children */
    unsigned n_compared, n_steps, n_both, n_failed;
    char why[8192];
} * seen;

/* Told by a child, for its parent to fail with. */
static VR_PRINTF(1, 2) bool differ(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(seen->why, sizeof seen->why, fmt, ap);
    va_end(ap);
    seen->n_failed++;
    return false;
}

/* The tokens that the engine's grammar lets through, of the candidates. */
static void ask_engine(struct llama_sampler *theirs, const int32_t *tokens, size_t n, bool *out)
{
    llama_token_data *c = calloc(n, sizeof *c);
    for (size_t i = 0; i < n; i++) c[i] = (llama_token_data){ tokens[i], 1, 0 };
    llama_token_data_array all = { c, n, -1, false };
    llama_sampler_apply(theirs, &all);
    for (size_t i = 0; i < n; i++) out[i] = c[i].logit > -INFINITY;
    free(c);
}

/* Ours, by both ways of asking. */
static bool ask_ours(struct vr_grammar_state *ours, const char *gbnf, const int32_t *tokens, size_t n, bool *out)
{
    struct vr_err err = { 0 };
    const uint64_t *mask;
    if (!vr_grammar_mask(ours, &mask, &err)) return differ("%s: %s", gbnf, err.msg);
    for (size_t i = 0; i < n; i++) {
        bool yes;
        if (!vr_grammar_allows(ours, tokens[i], &yes, &err)) return differ("%s: %s", gbnf, err.msg);
        out[i] = mask[tokens[i] / 64] >> tokens[i] % 64 & 1;
        if (out[i] != yes) return differ("%s: token %d: the mask says %d, allows() %d", gbnf, tokens[i], out[i], yes);
    }
    return true;
}

struct walk {
    const char *gbnf;
    const int32_t *tokens; /* that are asked about */
    size_t n;
    uint32_t steps;
};

/* Both go the same way and say the same at every step. */
static bool go(const struct walk *w, struct llama_sampler *theirs, struct vr_grammar_state *ours)
{
    struct vr_err err = { 0 };
    VR_AUTO_BUF said = { 0 };
    VR_AUTO_FREE bool *a = calloc(w->n, sizeof *a), *b = calloc(w->n, sizeof *b);
    for (uint32_t step = 0; step < w->steps; step++) {
        ask_engine(theirs, w->tokens, w->n, a);
        if (!ask_ours(ours, w->gbnf, w->tokens, w->n, b)) return false;
        int32_t next = -1;
        uint32_t n = 0;
        for (size_t i = 0; i < w->n; i++) {
            const struct vr_token_text *t = &v.index->tokens[w->tokens[i]];
            if (a[i] != b[i])
                return differ("%s\nafter '%s': '%.*s' (%d): the engine says %d, we %d", w->gbnf, vr_buf_str(&said),
                              (int)t->n, t->text, w->tokens[i], a[i], b[i]);
            seen->n_compared++;
            if (a[i] && !t->end && pick(++n) == 0) next = w->tokens[i];
        }
        seen->n_steps++;
        if (next < 0) return true;
        vr_buf_add(&said, v.index->tokens[next].text, v.index->tokens[next].n);
        llama_sampler_accept(theirs, next);
        if (!vr_grammar_accept(ours, next, &err))
            return differ("%s: after '%s': %s", w->gbnf, vr_buf_str(&said), err.msg);
    }
    return true;
}

static void compare_here(const struct walk *w)
{
    struct vr_err err = { 0 };
    struct llama_sampler *theirs = llama_sampler_init_grammar(v.vocab, w->gbnf, "root");
    struct vr_grammar *ours = our_grammar(w->gbnf, &err);
    bool both = theirs && ours;
    if (theirs && !ours) differ("only the engine takes\n%s\n%s", w->gbnf, err.msg);
    if (both) {
        seen->n_both++;
        struct vr_grammar_state *s = vr_grammar_begin(ours, &err);
        if (!s) differ("%s: %s", w->gbnf, err.msg);
        if (s) go(w, theirs, s);
        vr_grammar_end(s);
    }
    vr_grammar_free(ours);
    if (theirs) llama_sampler_free(theirs);
}

/* In a child: the engine's cost explodes on some grammars, which is what ours is for. */
static void compare(const struct walk *w)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        setrlimit(RLIMIT_CPU, &(struct rlimit){ 2, 2 });
        setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
        struct rlimit memory;
        getrlimit(RLIMIT_AS, &memory);
        memory.rlim_cur = (rlim_t)1 << 30;
#ifndef __SANITIZE_ADDRESS__ /* its shadow is larger than any limit */
        setrlimit(RLIMIT_AS, &memory);
#endif
        if (getenv("LOUD") || freopen("/dev/null", "w", stderr)) compare_here(w);
        _exit(0);
    }
    assert_true(child > 0);
    assert_true(waitpid(child, NULL, 0) == child);
    if (seen->n_failed) fail_msg("%s", seen->why);
}

/* The engine also takes bytes that are no UTF-8; these can begin such. */
static bool is_strange(const struct vr_token_text *t)
{
    for (uint32_t i = 0; i < t->n; i++)
        if (memchr("\xC0\xC1\xE0\xED\xF0", t->text[i], 5) || (unsigned char)t->text[i] >= 0xF4) return true;
    return false;
}

/* All others. */
static int32_t *all_tokens(size_t *n)
{
    int32_t *t = calloc((size_t)v.n, sizeof *t);
    *n = 0;
    for (int32_t i = 0; i < v.n; i++)
        if (!is_strange(&v.index->tokens[i])) t[(*n)++] = i;
    return t;
}

/* Tokens of few letters, bytes of characters, and the end: those that small grammars can tell apart. */
static size_t small_tokens(int32_t *out)
{
    size_t n = 0;
    for (int32_t i = 0; i < v.n; i++) {
        const struct vr_token_text *t = &v.index->tokens[i];
        bool small = t->n > 0 && t->n < 5 && !is_strange(t);
        for (uint32_t k = 0; small && k < t->n; k++) small = strchr("abcd \n", t->text[k]) || (t->text[k] & 0x80);
        if (t->end || (small && n < 400)) out[n++] = i;
    }
    return n;
}

/* --- random grammars --- */

static uint32_t rule; /* that is being written: mostly it refers to later ones, or nearly all would be left-recursive */

static void add_item(struct vr_buf *b, unsigned depth);

static void add_sequence(struct vr_buf *b, unsigned depth)
{
    static const char *const firsts[] = { " \"\"", " \"a\"", " [bc]", " \"ab\"", " \"d\"", " [^b]", " \"é\"", " ." };
    vr_buf_adds(b, firsts[pick(VR_COUNT(firsts))]); /* repeating what may be empty is left recursion to the engine */
    for (uint32_t n = pick(4); n; n--) add_item(b, depth);
}

static void add_alternatives(struct vr_buf *b, unsigned depth)
{
    add_sequence(b, depth);
    for (uint32_t n = pick(3); n; n--) {
        vr_buf_adds(b, " | ");
        add_sequence(b, depth);
    }
}

static void add_item(struct vr_buf *b, unsigned depth)
{
    static const char *const atoms[] = { "\"a\"",
                                         "\"b\"",
                                         "\"ab\"",
                                         "\"ca\"",
                                         "[ab]",
                                         "[a-c]",
                                         "[^a]",
                                         "[^a-c\\n]",
                                         ".",
                                         "\"\\u00e9\"",
                                         "[\\u00e0-\\u00ff]",
                                         "\"é\"",
                                         "[ä-ü]",
                                         "\"\\x61\"",
                                         "[\\u4e00-\\u9fff]",
                                         "\" \"",
                                         "[a-]",
                                         "[\\]\\[b]" };
    static const char *const again[] = { "", "", "", "*", "+", "?", "{2}", "{1,3}", "{2,}", "{0,2}", "?*", "{0}" };
    uint32_t what = pick(10);
    if (what < 6) {
        vr_buf_addf(b, " %s", atoms[pick(VR_COUNT(atoms))]);
    } else if (what < 8 || depth == 0) {
        vr_buf_addf(b, " r%u", rule < 3 && pick(10) ? rule + pick(4 - rule) : pick(4));
    } else {
        vr_buf_adds(b, " (");
        add_alternatives(b, depth - 1);
        vr_buf_adds(b, ")");
    }
    vr_buf_adds(b, again[pick(VR_COUNT(again))]);
}

static void add_grammar(struct vr_buf *b)
{
    vr_buf_clear(b);
    vr_buf_adds(b, "root ::=");
    rule = 0;
    add_alternatives(b, 2);
    for (rule = 1; rule < 4; rule++) {
        vr_buf_addf(b, "\nr%u ::=", rule - 1);
        add_alternatives(b, 2);
    }
    vr_buf_adds(b, "\nr3 ::= [ab]+ | \"c\" r3 \"d\" | [b-d] (\"a\" r2)?");
    vr_buf_adds(b, "\n");
}

static void test_random(void **state)
{
    (void)state;
    VR_AUTO_FREE int32_t *tokens = calloc((size_t)v.n, sizeof *tokens);
    size_t n = small_tokens(tokens);
    VR_AUTO_BUF b = { 0 };
    for (int i = 0; i < 7000; i++) {
        add_grammar(&b);
        compare(&(struct walk){ b.data, tokens, n, 6 });
    }
    print_message("%u grammars, %u steps, %u answers about %zu tokens\n", seen->n_both, seen->n_steps, seen->n_compared,
                  n);
    assert_true(seen->n_both > 1000);
    assert_true(seen->n_compared > 500000);
}

/* --- by hand --- */

/* Both refuse the same; what only we take is named. */
static void test_by_hand(void **state)
{
    (void)state;
    static const struct {
        const char *gbnf;
        bool theirs, ours;
    } rows[] = {
        { "root ::= \"a\"", true, true },
        { "root ::= [a-z]+ (\" \" [a-z]+)* \".\"", true, true },
        { "root ::= x{2,3}\nx ::= \"a\" | \"b\" x", true, true },
        { "root ::= \"\\u00e9\" | \"\\U0001F600\" [^\\x00-\\x7f]", true, true },
        { "root ::= . . .", true, true },
        { "root ::= [^ab]{2,} \"a\"", true, true },
        { "root ::= [] \"a\"", true, true },
        { "root ::= [^] \"a\"", true, true },
        { "root ::= \"a\"{0} \"b\"", true, true },
        { "root ::= \"ab\"{2} \"ab\"*", true, true },
        { "root ::= \"a\" | \"b\"\nroot ::= \"c\"", true, true },
        { "root ::= [z-a] | \"a\"", true, true },
        { "root ::= \"\" | \"a\" root", true, true },
        { "root ::= \"(\" root \")\" | \"x\"", true, true },
        { "root ::= ((((\"a\")?)?)?)? \"b\"", true, true },
        { "root ::= [a]{2,1}", false, false },
        { "root ::= \"a", false, false },
        { "root ::= a", false, false },
        { "root ::= *", false, false },
        { "root ::= \"\"*", false, false },
        { "root ::= []*", false, false },
        { "root ::= \"a\"{0}*", false, false },
        { "root ::= \"a\"{,2}", false, false },
        { "root ::= \"a\"\nb", false, false },
        { "root ::= (\"a\"", false, false },
        { "root ::= \"a\")", false, false },
        { "root ::= \"\\q\"", false, false },
        { "other ::= \"a\"", false, false },
        { "root ::= root \"a\" | \"b\"", false, true }, /* left recursion */
        { "root ::= (\"a\"?)*", true, true },
        { "root ::= \"a\"{5000}", false, true },
    };
    size_t n_tokens;
    VR_AUTO_FREE int32_t *tokens = all_tokens(&n_tokens);
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct vr_err err = { 0 };
        unsigned both = seen->n_both;
        if (strcmp(rows[i].gbnf, "root ::= [a]{2,1}") != 0) /* fills the engine's memory */
            compare(&(struct walk){ rows[i].gbnf, tokens, n_tokens, 30 });
        if ((seen->n_both > both) != (rows[i].theirs && rows[i].ours)) fail_msg("%s: taken by both?", rows[i].gbnf);
        struct vr_grammar *g = our_grammar(rows[i].gbnf, &err);
        if ((g != NULL) != rows[i].ours) fail_msg("%s: %s", rows[i].gbnf, g ? "taken" : err.msg);
        vr_grammar_free(g);
    }
}

/* Takes a text, token by token: the longest that fits. Returns how many bytes were taken. */
static size_t take_text(struct vr_grammar_state *s, const char *text, uint64_t *most_operations, struct vr_err *err)
{
    size_t at = 0, len = strlen(text);
    while (at < len) {
        uint32_t token = 0, n = 0;
        for (uint32_t k = 1; k < 12 && at + k <= len; k++) {
            uint32_t t;
            if (vr_token_index_find(v.index, text + at, k, &t)) {
                token = t;
                n = k;
            }
        }
        if (n == 0) fail_msg("no token for '%s'", text + at);
        bool yes;
        uint64_t before = vr_grammar_operations(s);
        if (!vr_grammar_allows(s, (int32_t)token, &yes, err) || !yes) return at;
        if (!vr_grammar_accept(s, (int32_t)token, err)) return at;
        if (vr_grammar_operations(s) - before > *most_operations) *most_operations = vr_grammar_operations(s) - before;
        at += n;
    }
    return at;
}

static bool matches(const char *gbnf, const char *text)
{
    struct vr_err err = { 0 };
    uint64_t most = 0;
    struct vr_grammar *g = our_grammar(gbnf, &err);
    if (!g) fail_msg("%s: %s", gbnf, err.msg);
    struct vr_grammar_state *s = vr_grammar_begin(g, &err);
    assert_non_null(s);
    bool all = take_text(s, text, &most, &err) == strlen(text), yes = false;
    if (err.msg[0]) fail_msg("%s: %s", gbnf, err.msg);
    if (all) assert_true(vr_grammar_allows(s, llama_vocab_eos(v.vocab), &yes, &err));
    vr_grammar_end(s);
    vr_grammar_free(g);
    return all && yes;
}

/* What the engine does not take, or cannot count: whole texts. */
static void test_texts(void **state)
{
    (void)state;
    static const struct {
        const char *gbnf, *yes[3], *no[3];
    } rows[] = {
        { "root ::= root \"+\" term | term\nterm ::= term \"*\" [a-c] | [a-c]",
          { "a", "a+b*c+a", "a*b*c" },
          { "a+", "+a", "a**b" } },
        { "root ::= root root | \"a\"", { "a", "aa", "aaaaaaa" }, { "", "b", "aab" } },
        { "root ::= a \"x\" | \"y\"\na ::= root \"z\" | b\nb ::= a \"w\" | \"v\"",
          { "y", "vx", "yzx" },
          { "v", "zx", "x" } },
        { "root ::= (\"a\"?)* \"b\"", { "b", "ab", "aaab" }, { "a", "ba", "" } },
        { "root ::= ([a-c]?){2,4}", { "", "abc", "abca" }, { "abcab", "d", "abcd" } },
        { "root ::= (\"ab\"{2}){2}", { "abababab", NULL }, { "abab", "ababab", "ababababab" } },
        { "root ::= (\"a\" | \"aa\"){3}", { "aaa", "aaaa", "aaaaaa" }, { "aa", "aaaaaaa", "" } },
        { "root ::= x{0,2} \"d\"\nx ::= y{0,2} \"c\"\ny ::= [ab]*", { "d", "abcd", "cacd" }, { "cccd", "c", "abd" } },
        { "root ::= s\ns ::= \"a\" s \"b\" | \"\"", { "", "ab", "aaabbb" }, { "a", "aab", "abb" } },
        { "root ::= list\nlist ::= [a] list | [b]", { "b", "aab", "aaaaaaaab" }, { "a", "ba", "aabb" } },
        { "root ::= \"é\" [^é] \"\\U0001F600\"", { "éè😀", "éa😀", NULL }, { "éé😀", "é😀", "éa" } },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++)
        for (int k = 0; k < 3; k++) {
            if (rows[i].yes[k] && !matches(rows[i].gbnf, rows[i].yes[k]))
                fail_msg("%s\ndoes not take '%s'", rows[i].gbnf, rows[i].yes[k]);
            if (rows[i].no[k] && matches(rows[i].gbnf, rows[i].no[k]))
                fail_msg("%s\ntakes '%s'", rows[i].gbnf, rows[i].no[k]);
        }
}

/* --- as schemas make them --- */

static const char *const schemas[] = {
    "{\"type\":\"object\"}",
    "{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"minItems\":2,\"maxItems\":5}",
    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"age\":{\"type\":\"integer\",\"minimum\":0,"
    "\"maximum\":130}},\"required\":[\"name\",\"age\"],\"additionalProperties\":false}",
    "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"number\"},\"b\":{\"type\":\"boolean\"},\"c\":{\"type\":"
    "\"null\"},\"d\":{\"type\":\"string\"}},\"required\":[\"b\"]}",
    "{\"enum\":[\"red\",\"green\",\"blue\",\"gray\",\"grey\",1,2.5,null,true,\"\"]}",
    "{\"type\":\"string\",\"pattern\":\"^[A-Z]{2,3}-[0-9]{4}(-[a-z]+)?$\"}",
    "{\"type\":\"string\",\"minLength\":3,\"maxLength\":12}",
    "{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"string\",\"format\":\"date-time\"},{\"type\":\"array\",\"items\":{"
    "\"type\":\"boolean\"}}]}",
    "{\"$defs\":{\"node\":{\"type\":\"object\",\"properties\":{\"v\":{\"type\":\"integer\"},\"next\":{\"anyOf\":[{"
    "\"$ref\":\"#/$defs/node\"},{\"type\":\"null\"}]}},\"required\":[\"v\",\"next\"]}},\"$ref\":\"#/$defs/node\"}",
    "{\"type\":\"object\",\"additionalProperties\":{\"type\":\"array\",\"items\":{\"type\":\"string\",\"enum\":[\"x\","
    "\"y\"]}}}",
    "{\"type\":\"array\",\"prefixItems\":[{\"type\":\"string\"},{\"type\":\"number\"},{\"const\":\"end\"}]}",
    "{\"type\":\"object\",\"properties\":{\"steps\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{"
    "\"explanation\":{\"type\":\"string\"},\"output\":{\"type\":\"string\"}},\"required\":[\"explanation\",\"output\"],"
    "\"additionalProperties\":false}},\"final\":{\"type\":\"string\",\"format\":\"uuid\"}},\"required\":[\"steps\","
    "\"final\"],\"additionalProperties\":false}",
    "{\"type\":\"integer\",\"minimum\":-50,\"maximum\":12345}",
};

static void test_schemas(void **state)
{
    (void)state;
    size_t n_tokens;
    VR_AUTO_FREE int32_t *tokens = all_tokens(&n_tokens);
    unsigned before = seen->n_both;
    for (size_t i = 0; i < VR_COUNT(schemas); i++) {
        struct vr_err err = { 0 };
        VR_AUTO_FREE char *gbnf = NULL;
        if (!vr_bridge_schema_grammar(schemas[i], &gbnf, &err)) fail_msg("%s: %s", schemas[i], err.msg);
        for (int k = 0; k < 4; k++) {
            pick(2);
            compare(&(struct walk){ gbnf, tokens, n_tokens, 40 });
        }
    }
    assert_int_equal(seen->n_both - before, 4 * VR_COUNT(schemas));
}

/* --- tokens by number --- */

static void test_tokens(void **state)
{
    (void)state;
    VR_AUTO_FREE int32_t *tokens = calloc((size_t)v.n, sizeof *tokens);
    size_t n = 0;
    for (int32_t i = 0; i < v.n; i++) { /* the engine takes half a character for no token at all */
        const struct vr_token_text *t = &v.index->tokens[i];
        bool ascii = t->n > 0;
        for (uint32_t k = 0; k < t->n; k++) ascii = ascii && !(t->text[k] & 0x80);
        if (ascii || t->end) tokens[n++] = i;
    }
    static const char *const rows[] = {
        "root ::= <[300]> <[301]>+ \"a\"",   "root ::= !<[300]> !<[301]>",
        "root ::= (!<[300]>)* <[300]>",      "root ::= <[300]>{2,3} | <[301]>",
        "root ::= (!<[300]> | !<[301]>){3}", "root ::= <[300]> | <[301]> <[302]> | <[999999]>",
    };
    unsigned before = seen->n_both;
    for (size_t i = 0; i < VR_COUNT(rows); i++) compare(&(struct walk){ rows[i], tokens, n, 12 });
    assert_int_equal(seen->n_both - before, VR_COUNT(rows));
    /* by its text, beside characters that read the same */
    struct vr_err err = { 0 };
    uint32_t there;
    assert_true(vr_token_index_find(v.index, "the", 3, &there) || vr_token_index_find(v.index, "in", 2, &there));
    struct vr_grammar *g = our_grammar("root ::= <[1]> | <no such token>", &err);
    assert_null(g);
    assert_contains(err.msg, "not one token");
}

/* --- lazy ones --- */

static int32_t token_of(const char *text)
{
    uint32_t t;
    if (!vr_token_index_find(v.index, text, strlen(text), &t)) fail_msg("no token for '%s'", text);
    return (int32_t)t;
}

/* The same random texts, with triggers of all kinds in them, to both. */
static void test_lazy(void **state)
{
    (void)state;
    static const char *const pieces[] = { "a", "b", "c", "d", " ", "\n", "<", ">", "!", "ab", "e" };
    static const char *const patterns[] = { "ab<", "!(c+)d", "^dd$", "<(?!a)b" };
    struct vr_trigger triggers[] = { { false, { "ab<", sizeof "ab<" - 1 } },
                                     { true, { "!(c+)d", sizeof "!(c+)d" - 1 } },
                                     { true, { "^dd$", sizeof "^dd$" - 1 } },
                                     { true, { "<(?!a)b", sizeof "<(?!a)b" - 1 } } };
    static const char gbnf[] = "root ::= [a-eB<>!\\n ]{1,30}";
    llama_token tokens[] = { token_of("B") };
    struct vr_grammar_spec spec = { .gbnf = { gbnf, sizeof gbnf - 1 },
                                    .lazy = true,
                                    .triggers = triggers,
                                    .n_triggers = VR_COUNT(triggers),
                                    .trigger_tokens = { tokens, 1 } };
    struct vr_err err = { 0 };
    struct vr_patterns *p = vr_bridge_patterns_new(triggers, VR_COUNT(triggers), &err);
    struct vr_grammar *g = p ? vr_grammar_new(&spec, v.index, vr_bridge_pattern_find, p, &err) : NULL;
    if (!g) fail_msg("%s", err.msg);
    size_t n;
    VR_AUTO_FREE int32_t *all = all_tokens(&n);
    VR_AUTO_FREE bool *a = calloc((size_t)v.n, sizeof *a), *b = calloc((size_t)v.n, sizeof *b);
    unsigned woken = 0;
    for (int round = 0; round < 300; round++) {
        const char *wake[VR_COUNT(patterns)];
        memcpy(wake, patterns, sizeof wake);
        struct llama_sampler *theirs =
            llama_sampler_init_grammar_lazy_patterns(v.vocab, gbnf, "root", wake, VR_COUNT(wake), tokens, 1);
        struct vr_grammar_state *ours = vr_grammar_begin(g, &err);
        assert_true(theirs && ours);
        for (int i = 0; i < 25; i++) {
            const uint64_t *mask;
            ask_engine(theirs, all, n, a);
            assert_true(vr_grammar_mask(ours, &mask, &err));
            for (size_t k = 0; k < n; k++) b[k] = !mask || mask[all[k] / 64] >> all[k] % 64 & 1;
            if (memcmp(a, b, n * sizeof *a) != 0) fail_msg("round %d, step %d: not the same", round, i);
            woken += mask != NULL;
            int32_t next = pick(40) == 0 ? tokens[0] : token_of(pieces[pick(VR_COUNT(pieces) - (i < 3 ? 7 : 0))]);
            if (mask && !(mask[next / 64] >> next % 64 & 1)) break;
            llama_sampler_accept(theirs, next);
            if (!vr_grammar_accept(ours, next, &err)) fail_msg("%s", err.msg);
        }
        llama_sampler_free(theirs);
        vr_grammar_end(ours);
    }
    assert_true(woken > 100);
    vr_grammar_free(g);
    vr_bridge_patterns_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),  cmocka_unit_test(test_by_hand), cmocka_unit_test(test_texts),
        cmocka_unit_test(test_schemas), cmocka_unit_test(test_tokens),  cmocka_unit_test(test_lazy),
    };
    seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (seen == MAP_FAILED) return 1;
    grammar_vocab_open(&v);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    grammar_vocab_close(&v);
    return failed;
}
