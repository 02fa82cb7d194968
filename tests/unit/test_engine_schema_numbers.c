/* Limits of numbers as rules: whatever a rule takes is within the limits, and what is clearly within them is taken. */
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/grammar/gbnf.h"
#include "engine/grammar/matcher.h"
#include "engine/wire/schema_numbers.h"

static uint64_t seed = 11;
static uint32_t pick(uint32_t n)
{
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % n;
}

static bool is_within(const struct vr_number_limits *l, double v)
{
    return (l->above ? v > l->low : v >= l->low) && (l->below ? v < l->high : v <= l->high);
}

struct rule {
    struct vr_gbnf *gbnf;
    struct vr_matcher *matcher;
};

static struct rule rule_of(const struct vr_number_limits *l)
{
    struct vr_err err = { 0 };
    VR_AUTO_BUF text = { 0 };
    struct rule r;
    vr_buf_adds(&text, "root ::= ");
    if (!vr_number_rule(l, &text, &err)) fail_msg("%g %g: %s", l->low, l->high, err.msg);
    vr_buf_adds(&text, "\n");
    r.gbnf = vr_gbnf_read(vr_buf_str(&text), text.n, NULL, NULL, &err);
    if (!r.gbnf) fail_msg("%s: %s", vr_buf_str(&text), err.msg);
    r.matcher = vr_matcher_new(r.gbnf, &err);
    assert_non_null(r.matcher);
    return r;
}

static void rule_done(struct rule *r)
{
    vr_matcher_free(r->matcher);
    vr_gbnf_free(r->gbnf);
}

static bool takes(struct rule *r, const char *text)
{
    struct vr_err err = { 0 };
    vr_matcher_state s = vr_matcher_now(r->matcher);
    assert_true(vr_matcher_step(r->matcher, &s, text, strlen(text), &err));
    return s != VR_MATCHER_DEAD && vr_matcher_may_end(r->matcher, s);
}

/* A text that the rule takes, letter by letter. */
static void make_text(struct rule *r, char *out, size_t room)
{
    static const char letters[] = "0123456789.-";
    vr_matcher_state s = vr_matcher_now(r->matcher);
    struct vr_err err = { 0 };
    size_t n = 0;
    for (;;) {
        char next[16];
        size_t k = 0;
        for (const char *c = letters; *c; c++) {
            vr_matcher_state after = s;
            assert_true(vr_matcher_step(r->matcher, &after, c, 1, &err));
            if (after != VR_MATCHER_DEAD) next[k++] = *c;
        }
        if (k == 0 || (vr_matcher_may_end(r->matcher, s) && pick(6) == 0)) break;
        /* ends of a range as often as its middle */
        char c = pick(3) ? next[pick((uint32_t)k)] : next[pick(2) ? 0 : k - 1];
        assert_true(vr_matcher_step(r->matcher, &s, &c, 1, &err));
        if (n + 1 >= room) fail_msg("too long: %.*s", (int)n, out);
        out[n++] = c;
    }
    out[n] = '\0';
    assert_true(vr_matcher_may_end(r->matcher, s));
}

static const struct {
    struct vr_number_limits l;
    const char *in, *out; /* texts, with spaces between them */
} rows[] = {
    { { 0, 1, false, false }, "0 1 0.5 0.0 0.999 0.00000000000001", "1.0 1.1 2 -0.1 -0 00 .5 1e0 0.5. 01" },
    { { 0, 1, true, true }, "0.1 0.999 0.0001", "0 1 0.0 0.00 -0.5" },
    { { 0.5, 0.7, false, false }, "0.5 0.6 0.55 0.7 0.699", "0.4 0.71 0.70 0 1 0.49" },
    { { 0.5, 0.7, true, true }, "0.51 0.6 0.65 0.501", "0.5 0.7 0.50 0.500" },
    { { -1, 1, false, false }, "0 -1 1 0.5 -0.5 -0.01", "-0 -0.0 -1.1 1.1 2 -2" },
    { { -2.5, -0.25, false, false }, "-2.50 -0.25 -1.00 -2.49", "0 -0.24 -2.51 1 -3" },
    { { 0, INFINITY, false, false }, "0 7 7.25 123456789.5 999999999999999", "-1 -0.5 1234567890123456" },
    { { -INFINITY, 0, false, true }, "-1 -0.5 -123.25", "0 1 -0" },
    { { 98.6, 1000, false, false }, "98.6 99.9 100.0 999.9 1000.0 98.61", "98.5 1000.1 1001.0 5.0 98" },
    { { 7, 7, false, false }, "7", "7.1 6.9 8 6" },
    { { -3.4e38, 3.4e38, false, false }, "0 1.5 -1.5 -999999999999999", "x" },
};

static void test_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct rule r = rule_of(&rows[i].l);
        for (int in = 0; in < 2; in++) {
            VR_AUTO_FREE char *text = strdup(in ? rows[i].in : rows[i].out);
            for (char *at = text, *word; (word = strsep(&at, " "));)
                if (takes(&r, word) != (in == 1)) fail_msg("row %zu: %s", i, word);
        }
        rule_done(&r);
    }
}

static double some_limit(void)
{
    char text[32];
    int k = (int)pick(5);
    snprintf(text, sizeof text, "%s%u.%0*u", pick(2) ? "-" : "", pick(3) ? pick(20) : pick(2000000), k ? k : 1,
             k == 1   ? pick(10)
             : k == 2 ? pick(100)
             : k      ? pick(1000)
                      : 0);
    return strtod(text, NULL);
}

static void test_random(void **state)
{
    (void)state;
    for (int i = 0; i < 300; i++) {
        struct vr_number_limits l = { some_limit(), some_limit(), pick(2), pick(2) };
        if (l.low > l.high) l = (struct vr_number_limits){ l.high, l.low, l.above, l.below };
        if (l.low == l.high) l.above = l.below = false;
        if (pick(6) == 0) l.high = INFINITY;
        if (pick(6) == 0) l.low = -INFINITY;
        struct rule r = rule_of(&l);
        for (int k = 0; k < 20; k++) {
            char text[64], *end;
            make_text(&r, text, sizeof text);
            double v = strtod(text, &end);
            if (*end || !is_within(&l, v)) fail_msg("%g %g (%d %d): %s", l.low, l.high, l.above, l.below, text);
        }
        if (isfinite(l.low) && isfinite(l.high) && l.low < l.high) { /* and the middle, with decimals enough */
            char text[64];
            snprintf(text, sizeof text, "%.5f", (l.low + l.high) / 2);
            if (is_within(&l, strtod(text, NULL)) && strcmp(text, "-0.00000") != 0 && strtod(text, NULL) != l.low &&
                strtod(text, NULL) != l.high && !takes(&r, text))
                fail_msg("%g %g (%d %d) does not take %s", l.low, l.high, l.above, l.below, text);
        }
        rule_done(&r);
    }
}

static void test_schemas(void **state)
{
    (void)state;
    struct vr_err err = { 0 };
    json_t
        *rules = json_array(),
        *schema = json_loads(
            "{\"type\":\"object\",\"properties\":{\"minimum\":{\"type\":\"number\",\"minimum\":0,\"maximum\":1},"
            "\"b\":{\"type\":[\"number\",\"null\"],\"exclusiveMinimum\":0},\"c\":{\"type\":\"integer\",\"minimum\":3},"
            "\"d\":{\"enum\":[{\"type\":\"number\",\"minimum\":5}]}}}",
            0, NULL);
    assert_true(vr_numbers_take(schema, rules, &err));
    VR_AUTO_FREE char *text = json_dumps(schema, JSON_COMPACT | JSON_SORT_KEYS);
    assert_string_equal(text, "{\"properties\":{\"b\":{\"anyOf\":[{\"const\":\"vr-number-1\"},{\"type\":[\"null\"]}]},"
                              "\"c\":{\"minimum\":3,\"type\":\"integer\"},"
                              "\"d\":{\"enum\":[{\"minimum\":5,\"type\":\"number\"}]},"
                              "\"minimum\":{\"const\":\"vr-number-0\"}},\"type\":\"object\"}");
    assert_int_equal(json_array_size(rules), 2);
    VR_AUTO_BUF out = { 0 };
    const char *gbnf = "a ::= \"\\\"vr-number-1\\\"\" space\nb ::= \"\\\"vr-number-9\\\"\" \"\\\"vr-number-0\\\"\"\n";
    assert_false(vr_numbers_put(gbnf, strlen(gbnf), rules, &out));
    assert_non_null(strstr(vr_buf_str(&out), "a ::= ( "));
    assert_non_null(strstr(vr_buf_str(&out), "vr-number-9")); /* a place that is none of ours is told */
    vr_buf_clear(&out);
    gbnf = "a ::= \"\\\"vr-number-1\\\"\" space | \"\\\"vr-number-0\\\"\"\n";
    assert_true(vr_numbers_put(gbnf, strlen(gbnf), rules, &out));
    json_decref(schema);
    schema = json_loads("{\"type\":[\"number\",\"object\"],\"minimum\":0,\"properties\":{\"a\":{\"type\":\"number\","
                        "\"maximum\":1}}}",
                        0, NULL);
    assert_true(vr_numbers_take(schema, rules, &err));
    assert_int_equal(json_array_size(rules), 4);
    json_decref(schema);
    schema = json_array();
    for (int i = 0; i < 300; i++) json_array_append_new(schema, json_pack("{s:s,s:i}", "type", "number", "minimum", i));
    assert_false(vr_numbers_take(schema, rules, &err));
    assert_non_null(strstr(err.msg, "more than 256"));
    json_decref(schema);
    json_array_clear(rules);
    schema = json_pack("{s:s,s:i,s:s}", "type", "number", "minimum", 0, "title", "vr-number-0");
    assert_false(vr_numbers_take(schema, rules, &err));
    assert_non_null(strstr(err.msg, "beside"));
    json_decref(schema);
    json_decref(rules);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_schemas),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
