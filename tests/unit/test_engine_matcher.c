/* What grammars cost: operations of each call and memory, for long answers and for grammars that are made to hurt. */
#include "test.h"

#include <stdio.h>

#include "base/buf.h"
#include "engine/grammar/grammar.h"
#include "engine/grammar/matcher.h"

static struct vr_token_index *x;
static uint64_t seed = 7;

static uint32_t pick(uint32_t n)
{
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % n;
}

enum { N_TOKENS = 20000, END = N_TOKENS - 1 };

/* Every byte, then words of a few letters and signs; the last one ends an answer. */
static void make_index(void)
{
    static char texts[N_TOKENS][12];
    static struct vr_token_text tokens[N_TOKENS];
    struct vr_err err = { 0 };
    for (uint32_t i = 0; i < N_TOKENS; i++) {
        uint32_t n = i < 256 ? 1 : 2 + pick(7);
        for (uint32_t k = 0; k < n; k++)
            texts[i][k] = (char)(i < 256 ? i : (uint32_t) "etaoinsr hdlu\"{}:,.0123456789abc"[pick(pick(3) ? 9 : 32)]);
        tokens[i] = (struct vr_token_text){ texts[i], n, i == END };
    }
    x = vr_token_index_new(tokens, N_TOKENS, &err);
    if (!x) abort();
}

/* The index itself: each token is found by its text, and nothing else is. */
static void test_index(void **state)
{
    (void)state;
    uint32_t n = 0;
    for (uint32_t i = 0; i < N_TOKENS; i++) {
        uint32_t t;
        bool there = vr_token_index_find(x, x->tokens[i].text, x->tokens[i].n, &t);
        if (i == 0 || i == END) continue; /* NUL; and the end may have a twin */
        assert_true(there);
        assert_int_equal(x->tokens[t].n, x->tokens[i].n);
        assert_memory_equal(x->tokens[t].text, x->tokens[i].text, x->tokens[i].n);
        assert_true(t <= i);
        n++;
    }
    uint32_t t;
    assert_int_equal(n, N_TOKENS - 2);
    assert_false(vr_token_index_find(x, "", 0, &t));
    assert_false(vr_token_index_find(x, "zzzz", 4, &t));
    assert_false(vr_token_index_find(x, "\0", 1, &t));
    assert_int_equal(x->n_others, 2);
}

struct cost {
    uint64_t most, sum; /* operations of one call */
    uint32_t n_tokens;
    size_t bytes;
    bool refused;
};

static void spent(struct cost *c, const struct vr_grammar_state *s, uint64_t before)
{
    uint64_t n = vr_grammar_operations(s) - before;
    if (n > c->most) c->most = n;
    c->sum += n;
    if (vr_grammar_bytes(s) > c->bytes) c->bytes = vr_grammar_bytes(s);
}

/* Asks about all tokens, takes one that is allowed, `steps` times: the worst of the calls. */
static struct cost measure(const char *gbnf, uint32_t steps)
{
    struct cost c = { 0 };
    struct vr_err err = { 0 };
    struct vr_grammar_spec spec = { .gbnf = { gbnf, strlen(gbnf) } };
    struct vr_grammar *g = vr_grammar_new(&spec, x, NULL, NULL, &err);
    struct vr_grammar_state *s = g ? vr_grammar_begin(g, &err) : NULL;
    c.refused = !s;
    for (uint32_t i = 0; s && i < steps; i++) {
        const uint64_t *mask;
        uint64_t before = vr_grammar_operations(s);
        c.refused = !vr_grammar_mask(s, &mask, &err);
        spent(&c, s, before);
        if (c.refused) break;
        uint32_t n = 0, next = 0;
        for (uint32_t k = 0; k < N_TOKENS; k++)
            if (k != END && mask[k / 64] >> k % 64 & 1 && pick(++n) == 0) next = k;
        if (n == 0) break;
        before = vr_grammar_operations(s);
        c.refused = !vr_grammar_accept(s, (int32_t)next, &err);
        spent(&c, s, before);
        if (c.refused) break;
        c.n_tokens++;
    }
    if (c.refused && !strstr(err.msg, "too ambiguous") && !strstr(err.msg, "matches no text"))
        fail_msg("%.200s: %s", gbnf, err.msg);
    if (c.refused) assert_int_equal(err.code, VR_EUSAGE);
    vr_grammar_end(s);
    vr_grammar_free(g);
    return c;
}

enum { MOST = VR_MATCHER_MOST_OPERATIONS + 200000, MOST_BYTES = 64 << 20 }; /* one set more than the allowance */

static void within(const char *what, struct cost c)
{
    if (c.most > MOST) fail_msg("%.200s: a call of %llu operations", what, (unsigned long long)c.most);
    if (c.bytes > MOST_BYTES) fail_msg("%.200s: %zu bytes", what, c.bytes);
}

static void again(struct vr_buf *b, const char *text, int n)
{
    vr_buf_clear(b);
    vr_buf_adds(b, "root ::= ");
    for (int i = 0; i < n; i++) vr_buf_adds(b, text);
}

/* The grammars that stopped everybody once. Those that can be had are to be had. */
static void test_bombs(void **state)
{
    (void)state;
    VR_AUTO_BUF b = { 0 };
    struct cost c;
    again(&b, "[a]? ", 500);
    within("[a]? x 500", c = measure(b.data, 12));
    assert_false(c.refused);
    again(&b, "[a]? ", 12000);
    within("[a]? x 12000", measure(b.data, 12));
    within("[a-z]?{2000}", c = measure("root ::= [a-z]?{2000}", 12));
    assert_false(c.refused);
    vr_buf_clear(&b);
    vr_buf_adds(&b, "root ::= \"\\\"no\\\"\"");
    for (int i = 0; i < 20000; i++) vr_buf_addf(&b, " | \"\\\"%d of many\\\"\"", i * 7919 % 1000003);
    within("20,000 strings", c = measure(b.data, 12));
    assert_false(c.refused);
    assert_true(c.most < 20000);
    static const char *const rows[] = {
        "root ::= root root | \"a\" | \"e\"",
        "root ::= root root root | root root | [a-z]",
        "root ::= (((.*)* .*)* (.* | .* .*)*)* x\nx ::= [a-z] x | x [a-z] | \"\"",
        "root ::= ((a{0,1000}){0,1000}){0,1000}\na ::= (b){0,1000}\nb ::= [a-e]{0,1000}",
        "root ::= (.? | .{1,1000} | [a-z]{500,1000000})+",
        "root ::= ([a-z] | [a-z][a-z] | [a-z][a-z][a-z]){1000,1000000}",
        "root ::= a\na ::= a a | b | \"\"\nb ::= a b a | .",
        "root ::= s*\ns ::= \"e\" s | s \"t\" | s s | [a-z]",
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) within(rows[i], measure(rows[i], 15));
    for (int n = 100; n <= 3000; n *= 5) {
        vr_buf_clear(&b);
        vr_buf_adds(&b, "root ::= r0\n");
        for (int i = 0; i < n; i++)
            vr_buf_addf(&b, "r%d ::= r%d | r%d | [a-z] r%d? | r%d r%d\n", i, (i * 7 + 1) % n, (i * 13 + 5) % n,
                        (i + 1) % n, i * 3 % n, (i * 11 + 2) % n);
        within("tangled rules", measure(b.data, 10));
    }
}

/* --- a generator that looks for cost --- */

static void add_piece(struct vr_buf *b, unsigned depth)
{
    static const char *const atoms[] = { ".", "[a-z]", "[^x]", "\"e\"", "r0", "r1", "r2", "r3", "root" };
    static const char *const many[] = { "", "?", "*", "+", "{0,50}", "{3,}", "{0,1000000}" };
    if (depth && pick(3) == 0) {
        vr_buf_adds(b, "(");
        for (uint32_t n = 1 + pick(3); n; n--) {
            add_piece(b, depth - 1);
            vr_buf_adds(b, n > 1 ? (pick(2) ? " | " : " ") : ")");
        }
    } else {
        vr_buf_addf(b, "%s", atoms[pick(VR_COUNT(atoms))]);
    }
    vr_buf_adds(b, many[pick(VR_COUNT(many))]);
}

static void test_generator(void **state)
{
    (void)state;
    VR_AUTO_BUF b = { 0 }, worst = { 0 };
    uint64_t most = 0;
    unsigned refused = 0;
    for (int i = 0; i < 150; i++) {
        vr_buf_clear(&b);
        for (int r = -1; r < 4; r++) {
            vr_buf_addf(&b, r < 0 ? "root ::= " : "r%d ::= ", r);
            for (uint32_t n = 1 + pick(4); n; n--) {
                add_piece(&b, 3);
                vr_buf_adds(&b, n == 1 ? "\n" : pick(3) ? " " : " | ");
            }
        }
        struct cost c = measure(b.data, 4);
        within(b.data, c);
        refused += c.refused;
        if (c.most <= most) continue;
        most = c.most;
        vr_buf_clear(&worst);
        vr_buf_adds(&worst, b.data);
    }
    print_message("%u of 150 refused; the most costly: %llu operations\n%s", refused, (unsigned long long)most,
                  vr_buf_str(&worst));
    assert_true(most > 10000); /* it does look for cost */
}

/* --- long answers --- */

static const char json[] =
    "root ::= value\nvalue ::= object | array | string | number | \"true\" | \"false\" | \"null\"\nobject ::= \"{\" ws "
    "(string \":\" ws value (\",\" ws string \":\" ws value)*)? \"}\" ws\narray ::= \"[\" ws (value (\",\" ws "
    "value)*)? \"]\" ws\nstring ::= \"\\\"\" ([^\"\\\\\\x7F\\x00-\\x1F] | \"\\\\\" ([\"\\\\bfnrt] | \"u\" "
    "[0-9a-fA-F]{4}))* \"\\\"\" ws\nnumber ::= \"-\"? [0-9]{1,15} (\".\" [0-9]+)? ws\nws ::= | \" \" | \"\\n\" [ "
    "\\t]{0,20}\n";

static struct vr_grammar_state *begin(struct vr_grammar **g, const char *gbnf)
{
    struct vr_err err = { 0 };
    struct vr_grammar_spec spec = { .gbnf = { gbnf, strlen(gbnf) } };
    *g = vr_grammar_new(&spec, x, NULL, NULL, &err);
    if (!*g) fail_msg("%s", err.msg);
    struct vr_grammar_state *s = vr_grammar_begin(*g, &err);
    if (!s) fail_msg("%s", err.msg);
    return s;
}

static void take(struct vr_grammar_state *s, const char *text)
{
    struct vr_err err = { 0 };
    for (; *text; text++)
        if (!vr_grammar_accept(s, (unsigned char)*text, &err)) fail_msg("at '%.20s': %s", text, err.msg);
}

/* 100,000 characters of JSON, right recursion, left recursion: memory and cost stay where they are. */
static void test_long(void **state)
{
    (void)state;
    static const struct {
        const char *gbnf, *first, *again, *last;
    } rows[] = {
        { json, "[", "{\"name\":\"a \\u00e4 b\xC3\xA4\",\"list\":[1,-2.5,true,null,{\"x\":{}}]},\n ", "{}]" },
        { "root ::= list\nlist ::= [a-z] \",\" list | \".\"", "", "a,b,c,d,e,", "." },
        { "root ::= root \",\" word | word\nword ::= [a-z] word | [a-z]", "a", ",bcd,efghi", "" },
        { "root ::= (x \",\"?)* \".\"\nx ::= [a-z]{1,1000}", "", "abcdefgh,", "." },
        { "root ::= [a-z,]{0,1000000}", "", "abcdefgh,", "" },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct vr_grammar *g;
        struct vr_grammar_state *s = begin(&g, rows[i].gbnf);
        struct vr_err err = { 0 };
        size_t bytes = 0, n = 100000 / strlen(rows[i].again);
        uint64_t half = 0;
        take(s, rows[i].first);
        for (size_t k = 0; k < n; k++) {
            take(s, rows[i].again);
            if (k == n / 2) {
                bytes = vr_grammar_bytes(s);
                half = vr_grammar_operations(s);
            }
        }
        if (vr_grammar_bytes(s) > 2 * bytes || vr_grammar_bytes(s) > 16 << 20)
            fail_msg("%s: %zu bytes, then %zu", rows[i].gbnf, bytes, vr_grammar_bytes(s));
        if (vr_grammar_operations(s) > 3 * half) fail_msg("%s: costs more and more", rows[i].gbnf);
        take(s, rows[i].last);
        bool yes;
        assert_true(vr_grammar_allows(s, END, &yes, &err) && yes);
        vr_grammar_end(s);
        vr_grammar_free(g);
    }
}

/* Deep nesting is kept, up to a point. */
static void test_deep(void **state)
{
    (void)state;
    struct vr_grammar *g;
    struct vr_grammar_state *s = begin(&g, json);
    struct vr_err err = { 0 };
    for (int i = 0; i < 20000; i++) take(s, "[");
    take(s, "1");
    for (int i = 0; i < 20000; i++) take(s, "]");
    bool yes;
    assert_true(vr_grammar_allows(s, END, &yes, &err) && yes);
    assert_true(vr_grammar_allows(s, ']', &yes, &err) && !yes);
    vr_grammar_end(s);
    vr_grammar_free(g);
}

/* --- thoughts and triggers --- */

static void test_thought(void **state)
{
    (void)state;
    static const char gbnf[] = "root ::= \"<call>\" [0-9]+ \"</call>\"";
    static const int32_t open[] = { '(', 't' }, close_a[] = { 't', ')' }, close_b[] = { '!', 't', ')' };
    struct vr_ids ends[] = { { close_a, 2 }, { close_b, 3 } };
    struct vr_trigger word = { false, { "<call>", sizeof "<call>" - 1 } };
    struct vr_grammar_spec spec = { .gbnf = { gbnf, sizeof gbnf - 1 },
                                    .lazy = true,
                                    .triggers = &word,
                                    .n_triggers = 1,
                                    .think = { open, 2 },
                                    .think_ends = ends,
                                    .n_think_ends = 2 };
    struct vr_err err = { 0 };
    for (int begun = 0; begun < 2; begun++) {
        bool yes;
        if (begun) spec.begun = (struct vr_ids){ open, 2 }; /* by the template */
        struct vr_grammar *g = vr_grammar_new(&spec, x, NULL, NULL, &err);
        struct vr_grammar_state *s = g ? vr_grammar_begin(g, &err) : NULL;
        assert_non_null(s);
        take(s, begun ? "" : "some text (t");
        take(s, "a thought with <call> in it, and (t again t)");
        take(s, "then text <cal no, <call");
        assert_true(vr_grammar_allows(s, 'x', &yes, &err) && yes);
        take(s, ">");
        assert_true(vr_grammar_allows(s, 'x', &yes, &err) && !yes);
        assert_true(vr_grammar_allows(s, '5', &yes, &err) && yes);
        take(s, "42</call>");
        assert_true(vr_grammar_allows(s, END, &yes, &err) && yes);
        assert_false(vr_grammar_accept(s, 'x', &err));
        assert_contains(err.msg, "does not allow 'x'");
        vr_grammar_end(s);
        vr_grammar_free(g);
    }
}

static size_t longest_search;
static size_t count_search(const void *ctx, size_t i, const char *text, size_t n, bool begins)
{
    (void)ctx, (void)i, (void)begins;
    if (n > longest_search) longest_search = n;
    const char *hit = memmem(text, n, "<go>", 4);
    return hit ? (size_t)(hit - text) : SIZE_MAX;
}

/* While it waits, a grammar keeps and searches the end of the text alone. */
static void test_waiting(void **state)
{
    (void)state;
    static const char gbnf[] = "root ::= \"<go>\" [0-9]";
    struct vr_trigger pattern = { true, { "<go>", sizeof "<go>" - 1 } };
    struct vr_grammar_spec spec = {
        .gbnf = { gbnf, sizeof gbnf - 1 }, .lazy = true, .triggers = &pattern, .n_triggers = 1
    };
    struct vr_err err = { 0 };
    struct vr_grammar *g = vr_grammar_new(&spec, x, count_search, NULL, &err);
    struct vr_grammar_state *s = g ? vr_grammar_begin(g, &err) : NULL;
    assert_non_null(s);
    for (int i = 0; i < 20000; i++) take(s, "words ");
    assert_true(longest_search <= 1024);
    assert_true(vr_grammar_bytes(s) < 1 << 20);
    take(s, "and <go>");
    bool yes;
    assert_true(vr_grammar_allows(s, 'x', &yes, &err) && !yes);
    assert_true(vr_grammar_allows(s, '7', &yes, &err) && yes);
    vr_grammar_end(s);
    vr_grammar_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_index),   cmocka_unit_test(test_bombs), cmocka_unit_test(test_generator),
        cmocka_unit_test(test_long),    cmocka_unit_test(test_deep),  cmocka_unit_test(test_thought),
        cmocka_unit_test(test_waiting),
    };
    make_index();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    vr_token_index_free(x);
    return failed;
}
