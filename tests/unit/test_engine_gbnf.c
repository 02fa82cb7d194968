/* Grammars that are read, those that are not and why; and that reading is linear in the text. */
#include "test.h"

#include "base/buf.h"
#include "engine/grammar/gbnf.h"

static bool no_token(const void *ctx, const char *text, size_t n, uint32_t *token)
{
    (void)ctx;
    *token = 7;
    return n == 7 && memcmp(text, "<there>", 7) == 0;
}

static void check(const char *what, const char *gbnf, const char *says)
{
    struct vr_err err = { 0 };
    VR_AUTO(vr_gbnf) g = vr_gbnf_read(gbnf, strlen(gbnf), no_token, NULL, &err);
    if (!says && !g) fail_msg("%s: refused: %s", what, err.msg);
    if (says && g) fail_msg("%s: not refused", what);
    if (says) assert_contains(err.msg, says);
}

static void test_rows(void **state)
{
    (void)state;
    static const struct {
        const char *what, *gbnf, *says;
    } rows[] = {
        { "empty", "", "no rule named root" },
        { "a comment", "# nothing\n", "no rule named root" },
        { "a letter", "root ::= \"a\"", NULL },
        { "nothing is a text", "root ::= \"\"", NULL },
        { "an empty alternative", "root ::= \"a\" | ", NULL },
        { "comments and lines", "# hello (((\nroot ::= # more\n  ( \"a\" |\n \"b\" ) # end\nx ::= [(] \"(((\"\n",
          NULL },
        { "carriage returns", "root ::= x\r\nx ::= \"a\"\r\n", NULL },
        { "json",
          "root ::= value\nvalue ::= object | array | string | number | \"true\"\nobject ::= \"{\" ws (string \":\" ws "
          "value "
          "(\",\" ws string \":\" ws value)*)? \"}\" ws\narray ::= \"[\" ws (value (\",\" ws value)*)? \"]\" ws\n"
          "string ::= \"\\\"\" ([^\"\\\\] | \"\\\\\" [\"\\\\bfnrt])* \"\\\"\" ws\nnumber ::= \"-\"? [0-9]{1,15} ws\nws "
          "::= [ \\t\\n]*",
          NULL },
        { "a bracket in a class", "root ::= [\\]()]+ \"\\\"(\"", NULL },
        { "escapes", "root ::= \"\\x41\\u00e9\\U0001F600\\n\\t\\r\\\\\\\"\" [\\[\\]\\-a-]", NULL },
        { "no ::=", "root = \"a\"", "line 1: expected '::=' at '= \"a\"'" },
        { "no name", "root ::= \"a\"\n::= \"b\"", "line 2: expected the name of a rule" },
        { "a stray bracket", "root ::= \"a\" )", "unexpected ')'" },
        { "something else", "root ::= \"a\" $", "expected the end of the line at '$'" },
        { "an open string", "root ::= \"a", "not closed before the end" },
        { "an open class", "root ::= [a", "not closed" },
        { "an open group", "root ::= (\"a\"", "expected ')' before the end" },
        { "an unknown escape", "root ::= \"\\q\"", "unknown escape" },
        { "half an escape", "root ::= \"\\u12\"", "hexadecimal" },
        { "no such rule", "root ::= thing", "no rule named 'thing'" },
        { "no root", "start ::= \"a\"", "no rule named root" },
        { "left recursion", "root ::= root \"a\" | \"a\"", NULL },
        { "the last definition counts", "root ::= \"a\"\nroot ::= \"b\"", NULL },
        { "nothing to repeat", "root ::= * \"a\"", "nothing to repeat" },
        { "nor here", "root ::= \"\"*", "nothing to repeat" },
        { "no number", "root ::= \"a\"{}", "expected a number" },
        { "no first number", "root ::= \"a\"{,3}", "expected a number" },
        { "no brace", "root ::= \"a\"{3", "expected '}'" },
        { "repeats the wrong way round", "root ::= [a]{5,3}", "at least 5 and at most 3" },
        { "with spaces", "root ::= ([a] { 9 , 2 })", "at least 9 and at most 2" },
        { "many repeats", "root ::= [a]{1000000}", NULL },
        { "too many repeats", "root ::= [a]{1000001}", "more than 1000000" },
        { "too many at most", "root ::= [a]{1,99999999999999999999}", "more than 1000000" },
        { "open end", "root ::= [a]{2000,}", NULL },
        { "repeats of repeats of what may be empty", "root ::= (a{0,1000}){0,1000}\na ::= (b){0,1000}\nb ::= [x]*",
          NULL },
        { "tokens", "root ::= <[12]> !<[13]> <there> !<there>", NULL },
        { "no such token", "root ::= <nowhere>", "'<nowhere>' is not one token" },
        { "a token without a number", "root ::= <[x]>", "the number of a token" },
        { "a token's number is too large", "root ::= <[99999999999]>", "too large" },
        { "an open token", "root ::= <there", "expected '>'" },
        { "a grammar of another kind", "%llguidance {}", "llguidance" },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) check(rows[i].what, rows[i].gbnf, rows[i].says);
}

static void nest(struct vr_buf *b, size_t n)
{
    vr_buf_clear(b);
    vr_buf_adds(b, "root ::= ");
    vr_buf_addc(b, '(', n);
    vr_buf_adds(b, "\"a\"");
    vr_buf_addc(b, ')', n);
}

static void test_depth(void **state)
{
    (void)state;
    VR_AUTO_BUF b = { 0 };
    nest(&b, VR_GBNF_MOST_DEPTH);
    check("just deep enough", b.data, NULL);
    nest(&b, VR_GBNF_MOST_DEPTH + 1);
    check("too deep", b.data, "deep");
    nest(&b, 400000);
    check("400,000 groups", b.data, "deep");
    vr_buf_clear(&b);
    vr_buf_adds(&b, "root ::= ");
    vr_buf_addc(&b, '(', 60000); /* never closed */
    check("open groups", b.data, "deep");
    vr_buf_clear(&b);
    vr_buf_adds(&b, "root ::= \"a\" ");
    for (int i = 0; i < 20000; i++) vr_buf_adds(&b, "(\"a\")");
    check("many groups, side by side", b.data, NULL);
    vr_buf_clear(&b);
    vr_buf_adds(&b, "root ::= \"a\"");
    vr_buf_addc(&b, '*', 60000);
    check("many stars", b.data, NULL);
}

static void test_size(void **state)
{
    (void)state;
    VR_AUTO_BUF b = { 0 };
    vr_buf_adds(&b, "root ::= \"");
    vr_buf_addc(&b, 'a', VR_GBNF_MOST_BYTES);
    check("too long", b.data, "bytes");
    vr_buf_clear(&b);
    vr_buf_adds(&b, "root ::= r0\n");
    for (int i = 0; i < VR_GBNF_MOST_RULES + 10; i++) vr_buf_addf(&b, "r%d::=[a]\n", i);
    check("too many rules", b.data, "rules");
    struct vr_err err = { 0 };
    assert_null(vr_gbnf_read("root ::= \0", 10, NULL, NULL, &err));
    assert_contains(err.msg, "NUL");
}

/* Without a vocabulary any token's text will do. */
static void test_no_vocabulary(void **state)
{
    (void)state;
    struct vr_err err = { 0 };
    static const char text[] = "root ::= <nowhere>";
    VR_AUTO(vr_gbnf) g = vr_gbnf_read(text, sizeof text - 1, NULL, NULL, &err);
    assert_non_null(g);
    assert_true(g->has_tokens);
}

/* %a is the number of this time, %b that of the next, %c one out of order, %d the same in four hexadecimal digits. */
static void add_again(struct vr_buf *b, const char *again, unsigned i)
{
    for (; *again; again++) {
        unsigned mixed = i * 7919u % 65521;
        if (*again != '%') {
            vr_buf_addc(b, *again, 1);
            continue;
        }
        again++;
        if (*again == 'd')
            vr_buf_addf(b, "%04x", mixed);
        else
            vr_buf_addf(b, "%u", *again == 'a' ? i : *again == 'b' ? i + 1 : mixed);
    }
}

static uint64_t cost(const char *before, const char *again, const char *after, size_t bytes)
{
    struct vr_err err = { 0 };
    VR_AUTO_BUF b = { 0 };
    vr_buf_adds(&b, before);
    for (unsigned i = 0; b.n < bytes; i++) add_again(&b, again, i);
    vr_buf_adds(&b, after);
    VR_AUTO(vr_gbnf) g = vr_gbnf_read(b.data, b.n, NULL, NULL, &err);
    if (!g) fail_msg("%s...: %s", again, err.msg);
    return g->n_operations;
}

/* What twice the text costs is twice as much, or a little more where something is sorted. */
static void test_linear(void **state)
{
    (void)state;
    static const struct {
        const char *before, *again, *after;
    } rows[] = {
        { "root ::= ", "[a]? ", "" },
        { "root ::= ", "\"abc\"{3,9} ", "" },
        { "root ::= \"x\"", " | \"value %c\"", "" },
        { "root ::= \"x\"", " | \"the same\"", "" },
        { "root ::= [", "%a-", "z]" },
        { "root ::= [", "\\u%d", "]" },
        { "root ::= r0\n", "r%a ::= \"a\" r%b | r%b\nr%b ::= \"\"\n", "" },
        { "root ::= \"a\"", "*", "" },
        { "", "# comment\n", "root ::= \"a\"" },
        { "root ::= ", "<[%a]> ", "" },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        uint64_t one = cost(rows[i].before, rows[i].again, rows[i].after, 30000);
        uint64_t two = cost(rows[i].before, rows[i].again, rows[i].after, 60000);
        if ((double)two > 2.4 * (double)one || two > 60000 * 40)
            fail_msg("%s: %llu operations, %llu for twice the text", rows[i].again, (unsigned long long)one,
                     (unsigned long long)two);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),          cmocka_unit_test(test_depth),  cmocka_unit_test(test_size),
        cmocka_unit_test(test_no_vocabulary), cmocka_unit_test(test_linear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
