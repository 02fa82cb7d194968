/* HTTP as bytes: heads and chunks, whole and cut at every place. */
#include "test.h"

#include "server/http/http.h"

#define MAX 1024

static const struct {
    const char *name, *bytes;
    int status; /* 0: it is taken */
    bool chunked, keep;
    uint64_t length;
} heads[] = {
    { "plain", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", 0, false, true, 0 },
    { "close", "GET / HTTP/1.1\r\nHost: a\r\nConnection: x, CLOSE\r\n\r\n", 0, false, false, 0 },
    { "1.0", "GET / HTTP/1.0\r\n\r\n", 0, false, false, 0 },
    { "1.0 kept", "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", 0, false, true, 0 },
    { "length", "POST / HTTP/1.1\r\nHost:a\r\nContent-Length:\t12 \r\n\r\n", 0, false, true, 12 },
    { "chunks", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n", 0, true, true, 0 },
    { "empty lines", "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", 0, false, true, 0 },
    { "options *", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 0, false, true, 0 },
    { "three empty lines", "\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", 400, false, false, 0 },
    { "both lengths", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400,
      false, false, 0 },
    { "two lengths", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\ncontent-length: 1\r\n\r\n", 400, false, false,
      0 },
    { "empty length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n", 400, false, false, 0 },
    { "hex length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x1\r\n\r\n", 400, false, false, 0 },
    { "xchunked", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n", 501, false, false, 0 },
    { "folded", "GET / HTTP/1.1\r\nHost: a\r\n\tb\r\n\r\n", 400, false, false, 0 },
    { "first line folded", "GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400, false, false, 0 },
    { "space before colon", "GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400, false, false, 0 },
    { "bare LF", "GET / HTTP/1.1\nHost: a\r\n\r\n", 400, false, false, 0 },
    { "bare CR", "GET / HTTP/1.1\rHost: a\r\n\r\n", 400, false, false, 0 },
    { "no target", "GET HTTP/1.1\r\nHost: a\r\n\r\n", 400, false, false, 0 },
    { "relative target", "GET health HTTP/1.1\r\nHost: a\r\n\r\n", 400, false, false, 0 },
    { "target with a byte past ASCII", "GET /\xc3\xa4 HTTP/1.1\r\nHost: a\r\n\r\n", 400, false, false, 0 },
    { "fragment", "GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", 400, false, false, 0 },
    { "version", "GET / HTTP/1.10\r\nHost: a\r\n\r\n", 505, false, false, 0 },
    { "no version", "GET / \r\nHost: a\r\n\r\n", 400, false, false, 0 },
    { "lower case version", "GET / http/1.1\r\nHost: a\r\n\r\n", 400, false, false, 0 },
};

/* Feeds the bytes in pieces of `cut`, as a connection would. */
static int take(const char *bytes, size_t cut, struct vr_head *h)
{
    struct vr_head_scan s = { 0 };
    struct vr_bad_http no = { 0 };
    size_t n = strlen(bytes);
    enum vr_feed fed = VR_FEED_MORE;
    for (size_t have = cut; fed == VR_FEED_MORE; have += cut) {
        fed = vr_head_scan(&s, bytes, have < n ? have : n, MAX, &no);
        if (have >= n) break;
    }
    assert_int_not_equal(fed, VR_FEED_MORE);
    if (fed == VR_FEED_DONE) {
        assert_int_equal(s.at, n);
        if (vr_head_parse(bytes + s.skip, s.at - s.skip, h, &no)) return 0;
    }
    assert_true(no.why[0]);
    return no.status;
}

static void test_heads(void **state)
{
    (void)state;
    for (size_t i = 0; i < VR_COUNT(heads); i++)
        for (size_t cut = 1; cut < 80; cut++) {
            struct vr_head h;
            int status = take(heads[i].bytes, cut, &h);
            if (status != heads[i].status) fail_msg("%s, cut at %zu: %d", heads[i].name, cut, status);
            if (status) continue;
            assert_int_equal(h.chunked, heads[i].chunked);
            assert_int_equal(h.keep_alive, heads[i].keep);
            assert_int_equal(h.content_length, heads[i].length);
        }
}

static void test_head_parts(void **state)
{
    (void)state;
    struct vr_head h;
    assert_int_equal(
        take("POST /v1/x?a=b HTTP/1.1\r\nHost: h:1\r\nORIGIN:  o \r\nAuthorization: Bearer k\r\n\r\n", 7, &h), 0);
    assert_int_equal(h.method, VR_POST);
    assert_true(vr_slice_is(h.path, "/v1/x") && vr_slice_is(h.query, "a=b") && vr_slice_is(h.host, "h:1"));
    assert_true(vr_slice_is(h.origin, "o") && vr_slice_is(h.authorization, "Bearer k") && !h.api_key.p);
}

static void test_head_too_large(void **state)
{
    (void)state;
    char bytes[MAX + 100];
    memset(bytes, 'a', sizeof bytes);
    struct vr_head_scan s = { 0 };
    struct vr_bad_http no;
    assert_int_equal(vr_head_scan(&s, bytes, MAX, MAX, &no), VR_FEED_MORE);
    assert_int_equal(vr_head_scan(&s, bytes, MAX + 1, MAX, &no), VR_FEED_BAD);
    assert_int_equal(no.status, 431);
}

static const struct {
    const char *bytes;
    int status;
    const char *body;
    const char *rest;
} chunks[] = {
    { "5\r\nhello\r\n0\r\n\r\n", 0, "hello", "" },
    { "5\r\nhello\r\n00a\r\n0123456789\r\n0\r\n\r\nGET", 0, "hello0123456789", "GET" },
    { "0\r\n\r\n", 0, "", "" },
    { "A\r\n0123456789\r\n0\r\n\r\n", 0, "0123456789", "" },
    { "5;x\r\nhello\r\n0\r\n\r\n", 400, NULL, NULL },
    { "\r\n", 400, NULL, NULL },
    { "5\nhello", 400, NULL, NULL },
    { "5\r\nhelloX", 400, NULL, NULL },
    { "0\r\nA: b\r\n\r\n", 400, NULL, NULL },
    { "ffffffff\r\n", 413, NULL, NULL },
    { "65\r\n", 413, NULL, NULL },
    { "32\r\n01234567890123456789012345678901234567890123456789\r\n33\r\n", 413, NULL, NULL },
    { "000000001\r\n", 400, NULL, NULL },
};

static void test_chunks(void **state)
{
    (void)state;
    for (size_t i = 0; i < VR_COUNT(chunks); i++)
        for (size_t cut = 1; cut < 60; cut++) {
            struct vr_chunks c = { 0 };
            struct vr_bad_http no = { 0 };
            VR_AUTO_BUF out = { .max = 100 };
            size_t at = 0, n = strlen(chunks[i].bytes), used = 0;
            enum vr_feed fed = VR_FEED_MORE;
            for (; at < n && fed == VR_FEED_MORE; at += used)
                fed = vr_chunks_feed(&c, chunks[i].bytes + at, n - at < cut ? n - at : cut, &used, &out, &no);
            if (chunks[i].status) {
                if (fed != VR_FEED_BAD || no.status != chunks[i].status)
                    fail_msg("row %zu, cut %zu: %d", i, cut, no.status);
                continue;
            }
            assert_int_equal(fed, VR_FEED_DONE);
            assert_string_equal(vr_buf_str(&out), chunks[i].body);
            assert_string_equal(chunks[i].bytes + at, chunks[i].rest);
        }
}

static void test_percent(void **state)
{
    (void)state;
    char out[8];
    assert_true(vr_percent_decode((struct vr_slice){ "a%2Fb%41", 8 }, out, sizeof out));
    assert_string_equal(out, "a/bA");
    assert_false(vr_percent_decode((struct vr_slice){ "%", 1 }, out, sizeof out));
    assert_false(vr_percent_decode((struct vr_slice){ "%4", 2 }, out, sizeof out));
    assert_false(vr_percent_decode((struct vr_slice){ "%00", 3 }, out, sizeof out));
    assert_false(vr_percent_decode((struct vr_slice){ "12345678", 8 }, out, sizeof out));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_heads),  cmocka_unit_test(test_head_parts), cmocka_unit_test(test_head_too_large),
        cmocka_unit_test(test_chunks), cmocka_unit_test(test_percent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
