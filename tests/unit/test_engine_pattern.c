/* Patterns of schemas: what they become, that llama.cpp's converter takes it, and that the texts which its grammar
 * allows are JSON strings that match the pattern as it was. */
#include "test.h"

#include <jansson.h>

#include "engine/grammar/gbnf.h"
#include "engine/llama/bridge.h"
#include "engine/wire/pattern.h"

#define ANY "[^\"\\\\\\x00-\\x1F]"

static const struct {
    const char *pattern, *becomes; /* NULL: it only must be convertible */
} rows[] = {
    { "^[a-z]+$", "^[a-z]+$" },
    { "^\\d{4}-\\d{2}$", "^[0-9]{4}-[0-9]{2}$" },
    { "^\\w+\\s\\w+$", "^[A-Za-z0-9_]+[ ][A-Za-z0-9_]+$" },
    { "^[\\w.+-]+@[\\w-]+\\.[a-z]{2,}$", "^[A-Za-z0-9_.+\\x2D]+@[A-Za-z0-9_\\x2D]+\\.[a-z]{2,}$" },
    { "^.*$", "^" ANY "*$" },
    { "abc", "^" ANY "*(abc)" ANY "*$" },
    { "^a|b", "^(a|b)" ANY "*$" },
    { "\\$$", "^" ANY "*(\\$)$" },
    { "a\\$", "^" ANY "*(a\\$)" ANY "*$" },
    { "^[^/]+$", "^[^/\"\\\\\\x00-\\x1F]+$" },
    { "^\\D\\S$", NULL },
    { "^\"a\\\\b\"$", "^\\\\\"a\\\\\\\\b\\\\\"$" },
    { "^https?:\\/\\/.+?$", "^https?://" ANY "+$" },
    { "^(?<year>\\d+)(?:-x)?$", "^([0-9]+)(?:-x)?$" },
    { "^[\\-\\.]$", "^[\\x2D.]$" },
    { "^$", "^$" },
    { "^(?:(?:25[0-5]|2[0-4]\\d|[01]?\\d\\d?)\\.){3}(?:25[0-5]|2[0-4]\\d|[01]?\\d\\d?)$", NULL },
    { "^[0-9a-fA-F]{8}\\b-[0-9a-fA-F]{4}$", "^[0-9a-fA-F]{8}\\b-[0-9a-fA-F]{4}$" }, /* refused, as it should be */
};

static void test_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        VR_AUTO_BUF out = { 0 };
        struct vr_err err = { 0 };
        vr_pattern_write(rows[i].pattern, strlen(rows[i].pattern), &out);
        if (rows[i].becomes) assert_string_equal(vr_buf_str(&out), rows[i].becomes);
        bool taken = vr_bridge_pattern_ok(vr_buf_str(&out), &err), should = !strstr(rows[i].pattern, "\\b-");
        if (taken != should) fail_msg("%s: %s", rows[i].pattern, taken ? "taken" : err.msg);
        if (!taken) continue;
        json_t *schema = json_pack("{s:s,s:s}", "type", "string", "pattern", vr_buf_str(&out));
        VR_AUTO_FREE char *text = json_dumps(schema, 0), *gbnf = NULL;
        json_decref(schema);
        assert_true(vr_bridge_schema_grammar(text, &gbnf, &err));
        VR_AUTO(vr_gbnf) g = vr_gbnf_read(gbnf, strlen(gbnf), NULL, NULL, &err);
        if (!g) fail_msg("%s: %s", rows[i].pattern, err.msg);
    }
}

/* In a schema, but not in its values, nor where "pattern" is the name of a property. */
static void test_schema(void **state)
{
    (void)state;
    json_t *schema =
        json_loads("{\"properties\":{\"pattern\":{\"type\":\"string\",\"pattern\":\"\\\\d\"},\"b\":{\"anyOf\":[{"
                   "\"pattern\":\"^x$\"}],\"default\":{\"pattern\":\"\\\\d\"}}},\"enum\":[{\"pattern\":\"\\\\w\"}]}",
                   0, NULL);
    assert_true(vr_patterns_write(schema));
    VR_AUTO_FREE char *text = json_dumps(schema, JSON_COMPACT);
    assert_contains(text, "\"b\":{\"anyOf\":[{\"pattern\":\"^x$\"}],\"default\":{\"pattern\":\"\\\\d\"}}");
    assert_contains(text, "([0-9])");
    assert_contains(text, "\"enum\":[{\"pattern\":\"\\\\w\"}]");
    json_decref(schema);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_rows), cmocka_unit_test(test_schema) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
