/* Whatever the bytes, the string is valid JSON; jansson is the judge. */
#include "test.h"

#include "base/json.h"

#include <jansson.h>

static const struct row {
    const char *in, *out;
} rows[] = {
    { "", "\"\"" },
    { "plain", "\"plain\"" },
    { "a\"b\\c/d", "\"a\\\"b\\\\c/d\"" },
    { "line\nfeed\ttab\rret", "\"line\\nfeed\\ttab\\rret\"" },
    { "\x01\x1f\x7f", "\"\\u0001\\u001f\\u007f\"" },
    { "\033[31mred", "\"\\u001b[31mred\"" },
    { "Zürich, 東京, 🙂", "\"Zürich, 東京, 🙂\"" },
    { "\xff", "\"\xEF\xBF\xBD\"" },
    { "a\xc3", "\"a\xEF\xBF\xBD\"" },                                               /* cut in the middle */
    { "\xe6\x9d", "\"\xEF\xBF\xBD\xEF\xBF\xBD\"" },                                 /* two bytes of three */
    { "\x80z", "\"\xEF\xBF\xBDz\"" },                                               /* no first byte */
    { "\xc0\xaf", "\"\xEF\xBF\xBD\xEF\xBF\xBD\"" },                                 /* '/' in two bytes */
    { "\xed\xa0\x80", "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"" },                 /* half of a surrogate pair */
    { "\xf4\x90\x80\x80", "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"" }, /* U+110000 */
    { "\xc3\"", "\"\xEF\xBF\xBD\\\"\"" }, /* a quote is not eaten as its second byte */
};

static void test_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        VR_AUTO_BUF b = { 0 };
        vr_json_add_string(&b, rows[i].in);
        assert_string_equal(vr_buf_str(&b), rows[i].out);
    }
}

static void test_counted(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t n;
        const char *json;
    } counted[] = {
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
    for (size_t i = 0; i < VR_COUNT(counted); i++) {
        VR_AUTO_BUF out = { 0 };
        vr_json_add_text(&out, counted[i].bytes, counted[i].n);
        assert_string_equal(vr_buf_str(&out), counted[i].json);
    }
}

/* Every pair of bytes: what comes out, a parser takes. */
static void test_pairs(void **state)
{
    (void)state;
    for (int a = 0; a < 256; a++)
        for (int b = 0; b < 256; b++) {
            const char bytes[] = { (char)a, (char)b };
            VR_AUTO_BUF out = { 0 };
            vr_json_add_text(&out, bytes, 2);
            json_t *j = json_loadb(out.data, out.n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
            if (!j) fail_msg("%02x %02x: %s", a, b, out.data);
            if (a < 0x80 && b < 0x80) assert_memory_equal(json_string_value(j), bytes, 2);
            json_decref(j);
        }
}

static void test_appends(void **state)
{
    (void)state;
    VR_AUTO_BUF b = { 0 };
    vr_buf_adds(&b, "{\"k\":");
    vr_json_add_string(&b, "v");
    assert_string_equal(vr_buf_str(&b), "{\"k\":\"v\"");
}

/* Random bytes, parsed back: valid text comes back as it was, the rest with U+FFFD in it. */
static void test_random_bytes(void **state)
{
    (void)state;
    uint32_t seed = 1;
    for (int round = 0; round < 20000; round++) {
        char s[24];
        size_t n = 0;
        for (; n < sizeof s - 1; n++) {
            seed = seed * 1664525 + 1013904223;
            s[n] = (char)(seed >> 24);
            if (round % 3 == 0) s[n] = (char)(s[n] & 0x7f);
            if (s[n] == 0) break;
        }
        s[n] = '\0';
        bool valid = true;
        for (size_t i = 0, len; i < n && valid; i += len) {
            len = vr_utf8_len((const unsigned char *)s + i, n - i);
            valid = len > 0;
        }
        VR_AUTO_BUF b = { 0 };
        vr_json_add_string(&b, s);
        json_error_t e;
        json_t *back = json_loadb(b.data, b.n, JSON_DECODE_ANY, &e);
        if (!back) fail_msg("%s: %s", b.data, e.text);
        if (valid)
            assert_string_equal(json_string_value(back), s);
        else
            assert_non_null(strstr(json_string_value(back), "\xEF\xBF\xBD"));
        json_decref(back);
    }
}

static size_t encode(uint32_t c, unsigned char out[4])
{
    if (c < 0x80) return out[0] = (unsigned char)c, 1;
    size_t len = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = len - 1; i > 0; i--, c >>= 6) out[i] = (unsigned char)(0x80 | (c & 0x3f));
    out[0] = (unsigned char)((0xF00 >> len) | c);
    return len;
}

/* Every code point, and every way to spell one that Unicode forbids. */
static void test_utf8(void **state)
{
    (void)state;
    unsigned char s[4];
    for (uint32_t c = 1; c < 0x120000; c++) {
        size_t len = encode(c, s);
        size_t want = (c >= 0xD800 && c < 0xE000) || c > 0x10FFFF ? 0 : len;
        if (vr_utf8_len(s, len) != want) fail_msg("U+%04X: %zu", c, vr_utf8_len(s, len));
        if (vr_utf8_len(s, len - 1) != 0) fail_msg("U+%04X cut by one was taken", c);
    }
    static const char *const overlong[] = { "\xc0\x80",
                                            "\xc1\xbf",
                                            "\xe0\x80\x80",
                                            "\xe0\x9f\xbf",
                                            "\xf0\x80\x80\x80",
                                            "\xf0\x8f\xbf\xbf",
                                            "\xf8\x88\x80\x80\x80",
                                            "\xfe",
                                            "\xff" };
    for (size_t i = 0; i < VR_COUNT(overlong); i++)
        assert_int_equal(vr_utf8_len((const unsigned char *)overlong[i], strlen(overlong[i])), 0);
    for (unsigned b = 0; b < 256; b++) /* a second byte that does not continue */
        if ((b & 0xC0) != 0x80) assert_int_equal(vr_utf8_len((const unsigned char[]){ 0xC3, (unsigned char)b }, 2), 0);
    assert_int_equal(vr_utf8_len((const unsigned char *)"", 0), 0);
}

static void test_of_a_tree(void **state)
{
    (void)state;
    static const char *const texts[][2] = { { "/a/gr\xc3\xbc\xc3\x9f \"b\"", "/a/gr\xc3\xbc\xc3\x9f \"b\"" },
                                            { "/caf\xe9/\\", "/caf\xef\xbf\xbd/\\" },
                                            { "", "" } };
    for (size_t i = 0; i < VR_COUNT(texts); i++) {
        json_t *j = vr_json_text(texts[i][0]);
        assert_string_equal(json_string_value(j), texts[i][1]);
        json_decref(j);
    }
    assert_true(json_is_null(vr_json_text(NULL)));
}

static void test_mask(void **state)
{
    (void)state;
    char text[] = "gr\xc3\xbc\xc3\x9f caf\xe9 \x1b[0m \xc2\x9b cut\xe2\x82";
    vr_utf8_mask(text);
    assert_string_equal(text, "gr\xc3\xbc\xc3\x9f caf? ?[0m ?? cut??");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),      cmocka_unit_test(test_counted),      cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_appends),   cmocka_unit_test(test_random_bytes), cmocka_unit_test(test_utf8),
        cmocka_unit_test(test_of_a_tree), cmocka_unit_test(test_mask),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
