/* Answers written by hand are JSON, whatever the text; pieces of tool calls become calls. */
#include "test.h"

#include <jansson.h>

#include "server/api/render.h"

static void test_text(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t n;
        const char *json;
    } rows[] = {
        { "plain", 5, "\"plain\"" },
        { "", 0, "\"\"" },
        { "a\"b\\c", 5, "\"a\\\"b\\\\c\"" },
        { "\n\r\t\x01\x1f\x7f", 6, "\"\\n\\r\\t\\u0001\\u001f\\u007f\"" },
        { "a\0b", 3, "\"a\\u0000b\"" },
        { "gr\xc3\xbc\xc3\x9f\x65", 7, "\"gr\xc3\xbc\xc3\x9f\x65\"" },
        { "\xf0\x9f\x98\x80", 4, "\"\xf0\x9f\x98\x80\"" },
        { "\xff", 1, "\"\xef\xbf\xbd\"" },
        { "a\xc3", 2, "\"a\xef\xbf\xbd\"" },
        { "\xed\xa0\x80", 3, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        VR_AUTO_BUF out = { 0 };
        vr_render_text(&out, rows[i].bytes, rows[i].n);
        assert_string_equal(vr_buf_str(&out), rows[i].json);
    }
}

/* Every pair of bytes: what comes out, a parser takes. */
static void test_text_is_json(void **state)
{
    (void)state;
    for (int a = 0; a < 256; a++)
        for (int b = 0; b < 256; b++) {
            const char bytes[] = { (char)a, (char)b };
            VR_AUTO_BUF out = { 0 };
            vr_render_text(&out, bytes, 2);
            json_t *j = json_loadb(out.data, out.n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
            if (!j) fail_msg("%02x %02x: %s", a, b, out.data);
            if (a < 0x80 && b < 0x80) assert_memory_equal(json_string_value(j), bytes, 2);
            json_decref(j);
        }
}

static void test_tools(void **state)
{
    (void)state;
    static const char *const pieces[] = {
        "{\"index\":0,\"id\":\"a\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"\"}}",
        "{\"index\":0,\"function\":{\"arguments\":\"{\\\"x\\\":\"}}",
        "{\"index\":1,\"id\":\"b\",\"type\":\"function\",\"function\":{\"name\":\"g\",\"arguments\":\"{}\"}}",
        "{\"index\":0,\"function\":{\"arguments\":\"1}\"}}",
    };
    struct vr_call_choice c = { 0 };
    for (size_t i = 0; i < VR_COUNT(pieces); i++) assert_true(vr_merge_tool(&c, pieces[i], strlen(pieces[i])));
    char *text = json_dumps(c.tools, JSON_COMPACT);
    assert_string_equal(
        text, "[{\"id\":\"a\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"x\\\":1}\"}},"
              "{\"id\":\"b\",\"type\":\"function\",\"function\":{\"name\":\"g\",\"arguments\":\"{}\"}}]");
    free(text);
    static const char *const bad[] = {
        "", "nonsense", "{}", "{\"index\":5}", "{\"index\":-1}", "{\"index\":0,\"id\":1}"
    };
    for (size_t i = 0; i < VR_COUNT(bad); i++) assert_false(vr_merge_tool(&c, bad[i], strlen(bad[i])));
    json_decref(c.tools);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_text), cmocka_unit_test(test_text_is_json),
                                        cmocka_unit_test(test_tools) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
