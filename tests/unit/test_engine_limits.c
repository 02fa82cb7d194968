/* Grammars that the engine's parser must never see, and those that it must. */
#include "test.h"

#include "base/buf.h"
#include "engine/wire/limits.h"

static void check(const char *what, const char *gbnf, const char *says)
{
    struct vr_err err = { 0 };
    bool ok = vr_limit_grammar(gbnf, strlen(gbnf), &err);
    if (!says && !ok) fail_msg("%s: refused: %s", what, err.msg);
    if (says && ok) fail_msg("%s: not refused", what);
    if (says) assert_contains(err.msg, says);
}

static void test_rows(void **state)
{
    (void)state;
    static const struct {
        const char *what, *gbnf, *says;
    } rows[] = {
        { "empty", "", NULL },
        { "a letter", "root ::= \"a\"", NULL },
        { "comments and lines", "# hello (((\nroot ::= # more\n  ( \"a\" |\n \"b\" ) # end\nx ::= [(] \"(((\"\n",
          NULL },
        { "json",
          "root ::= value\nvalue ::= object | array | string | number | \"true\"\nobject ::= \"{\" ws (string \":\" ws "
          "value "
          "(\",\" ws string \":\" ws value)*)? \"}\" ws\narray ::= \"[\" ws (value (\",\" ws value)*)? \"]\" ws\n"
          "string ::= \"\\\"\" ([^\"\\\\] | \"\\\\\" [\"\\\\bfnrt])* \"\\\"\" ws\nnumber ::= \"-\"? [0-9]{1,15} ws\nws "
          "::= [ \\t\\n]*",
          NULL },
        { "a bracket in a class", "root ::= [\\]()]+ \"\\\"(\"", NULL },
        { "syntax is not ours", "root = \"a\"", NULL },
        { "left recursion is the engine's", "root ::= root \"a\" | \"a\"", NULL },
        { "repeats the wrong way round", "root ::= [a]{5,3}", "at least 5 and at most 3" },
        { "with spaces", "root ::= ([a] { 9 , 2 })", "at least 9 and at most 2" },
        { "too many repeats", "root ::= [a]{2001}", "more than 2000" },
        { "too many at most", "root ::= [a]{1,99999999999999999999}", "more than 2000" },
        { "open end", "root ::= [a]{2000,}", NULL },
        { "a NUL-free grammar of another kind", "%llguidance {}", "llguidance" },
        { "repeats of repeats of what may be empty", "root ::= (a{0,1000}){0,1000}\na ::= (b){0,1000}\nb ::= [x]*",
          "too ambiguous" },
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
    nest(&b, VR_MOST_GRAMMAR_DEPTH);
    check("just deep enough", b.data, NULL);
    nest(&b, VR_MOST_GRAMMAR_DEPTH + 1);
    check("too deep", b.data, "deep");
    nest(&b, 60000);
    check("60,000 groups", b.data, "deep");
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
}

static void test_size(void **state)
{
    (void)state;
    VR_AUTO_BUF b = { 0 };
    vr_buf_adds(&b, "root ::= \"");
    vr_buf_addc(&b, 'a', VR_MOST_GRAMMAR_BYTES);
    check("too long", b.data, "bytes");
    vr_buf_clear(&b);
    vr_buf_adds(&b, "root ::= r0\n");
    for (int i = 0; i < VR_MOST_GRAMMAR_RULES + 10; i++) vr_buf_addf(&b, "r%d ::= \"a\"\n", i);
    check("too many rules", b.data, "rules");
    vr_buf_clear(&b);
    vr_buf_adds(&b, "root ::= ");
    for (int i = 0; i < 100; i++) vr_buf_addf(&b, "[a]{0,1999} ");
    check("repetitions add up", b.data, "add up");
    struct vr_err err = { 0 };
    assert_false(vr_limit_grammar("root ::= \0", 10, &err));
    assert_contains(err.msg, "NUL");
}

/* r0 ::= r1 | r1, r1 ::= r2 | r2, ...: the engine would walk every path. */
static void test_paths(void **state)
{
    (void)state;
    static const struct {
        int rules;
        const char *body, *says;
    } rows[] = {
        { 10, "r%d | r%d", NULL },
        { 40, "r%d | r%d", "ambiguous" },
        { 40, "(r%d) | ((r%d))", "ambiguous" },
        { 40, "r%d? r%d", "ambiguous" },
        { 40, "\"\" r%d | r%d", "ambiguous" },
        { 40, "\"a\" r%d | \"b\" r%d", NULL },
        { 40, "[ab] (r%d | r%d)", NULL },
        { 40, "\"a\"? r%d | r%d", "ambiguous" },
        { 40, "\"a\"* r%d | r%d", "ambiguous" },
        { 40, "\"a\"{0,3} r%d | r%d", "ambiguous" },
        { 40, "\"a\"{1,3} r%d | [x] r%d", NULL },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        VR_AUTO_BUF b = { 0 };
        vr_buf_adds(&b, "root ::= r0\n");
        for (int k = 0; k < rows[i].rules; k++) {
            const char *at = rows[i].body;
            vr_buf_addf(&b, "r%d ::= ", k);
            for (; *at; at++) {
                if (strncmp(at, "r%d", 3) == 0) {
                    vr_buf_addf(&b, "r%d", k + 1);
                    at += 2;
                } else {
                    vr_buf_addc(&b, *at, 1);
                }
            }
            vr_buf_adds(&b, "\n");
        }
        vr_buf_addf(&b, "r%d ::= \"z\"\n", rows[i].rules);
        check(rows[i].body, b.data, rows[i].says);
    }
    /* a long chain is no crowd */
    VR_AUTO_BUF b = { 0 };
    vr_buf_adds(&b, "root ::= r0\n");
    for (int k = 0; k < 900; k++) vr_buf_addf(&b, "r%d ::= r%d\n", k, k + 1);
    vr_buf_adds(&b, "r900 ::= \"z\"\n");
    check("a chain", b.data, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_size),
        cmocka_unit_test(test_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
