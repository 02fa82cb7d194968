/* Text that is held back and said: every row is tried in one piece, byte by byte and in all ways to cut it in two. */
#include "test.h"

#include <string.h>

#include "base/json.h"
#include "engine/process/pieces.h"

struct row {
    const char *what, *in, *stops[4];
    const char *said; /* before the end */
    const char *all;  /* with what the end releases */
    int stop;
};

static const struct row rows[] = {
    { "nothing", "", { 0 }, "", "", -1 },
    { "plain", "hello", { 0 }, "hello", "hello", -1 },
    { "two bytes",
      "Stra\xC3\x9F"
      "e",
      { 0 },
      "Stra\xC3\x9F"
      "e",
      "Stra\xC3\x9F"
      "e",
      -1 },
    { "four bytes",
      "a\xF0\x9F\x99\x82"
      "b",
      { 0 },
      "a\xF0\x9F\x99\x82"
      "b",
      "a\xF0\x9F\x99\x82"
      "b",
      -1 },
    { "half a character at the end", "a\xF0\x9F\x99", { 0 }, "a", "a\xEF\xBF\xBD", -1 },
    { "one byte of three", "\xE2", { 0 }, "", "\xEF\xBF\xBD", -1 },
    { "a lone continuation",
      "a\x80"
      "b",
      { 0 },
      "a\xEF\xBF\xBD"
      "b",
      "a\xEF\xBF\xBD"
      "b",
      -1 },
    { "overlong slash", "\xC0\xAF", { 0 }, "\xEF\xBF\xBD\xEF\xBF\xBD", "\xEF\xBF\xBD\xEF\xBF\xBD", -1 },
    { "a surrogate",
      "\xED\xA0\x80x",
      { 0 },
      "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBDx",
      "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBDx",
      -1 },
    { "past the last code point",
      "\xF4\x90\x80\x80",
      { 0 },
      "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD",
      "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD",
      -1 },
    { "a character broken off by a letter",
      "\xE2\x82"
      "a",
      { 0 },
      "\xEF\xBF\xBD"
      "a",
      "\xEF\xBF\xBD"
      "a",
      -1 },
    { "a character broken off by another",
      "\xE2\x82\xC3\xA4",
      { 0 },
      "\xEF\xBF\xBD\xC3\xA4",
      "\xEF\xBF\xBD\xC3\xA4",
      -1 },
    { "a stop", "one STOP two", { "STOP" }, "one ", "one ", 0 },
    { "a stop at once", "STOP", { "STOP" }, "", "", 0 },
    { "a stop that did not come", "one STO", { "STOP" }, "one ", "one STO", -1 },
    { "almost, then not", "one STOx", { "STOP" }, "one STOx", "one STOx", -1 },
    { "almost, then really", "STSTOP", { "STOP" }, "ST", "ST", 0 },
    { "the earliest of two", "ab END cd STOP", { "STOP", "END" }, "ab ", "ab ", 1 },
    { "one inside the other: the first that is complete", "x<end>", { "<end>", "end" }, "x<", "x<", 1 },
    { "two that end together: the longer", "x<end", { "end", "<end" }, "x", "x", 1 },
    { "a repeating one", "aaaab", { "aab" }, "aa", "aa", 0 },
    { "a newline", "line\nnext", { "\n" }, "line", "line", 0 },
    { "behind an umlaut", "\xC3\xA4STOP", { "STOP" }, "\xC3\xA4", "\xC3\xA4", 0 },
    { "an umlaut", "x\xC3\xA4y", { "\xC3\xA4" }, "x", "x", 0 },
    { "half of an emoji begins like the stop",
      "\xF0\x9F\x99\x82",
      { "\xF0\x9F\x99\x83" },
      "\xF0\x9F\x99\x82",
      "\xF0\x9F\x99\x82",
      -1 },
    { "two ends are held", "x<|im_", { "<|im_end|>", "<|im_start|>" }, "x", "x<|im_", -1 },
};

/* Adds in[from..to), as a stream would, and says what it may. True: a stop string ended it. */
static bool add(struct vr_text *t, struct vr_buf *said, const char *in, size_t n, int *stop)
{
    vr_text_add(t, in, n);
    size_t ready = vr_text_ready(t, stop);
    vr_buf_add(said, t->held.data, ready);
    vr_text_take(t, ready);
    return *stop >= 0;
}

static void check(const struct row *r, const size_t *cuts, size_t n_cuts)
{
    struct vr_text t = { .stops = r->stops };
    while (t.n_stops < 4 && r->stops[t.n_stops]) t.n_stops++;
    VR_AUTO_BUF said = { 0 };
    size_t n = strlen(r->in), from = 0;
    int stop = -1;
    for (size_t i = 0; i <= n_cuts && stop < 0; i++) {
        size_t to = i < n_cuts ? cuts[i] : n;
        add(&t, &said, r->in + from, to - from, &stop);
        from = to;
    }
    assert_int_equal(stop, r->stop);
    assert_string_equal(vr_buf_str(&said), r->said);
    if (stop < 0) {
        vr_text_end(&t);
        vr_buf_add(&said, t.held.data, t.held.n);
    }
    assert_string_equal(vr_buf_str(&said), r->all);
    vr_text_done(&t);
}

/* A model that says it would make its own answer a history that no request may hold. */
static void test_nul(void **state)
{
    (void)state;
    for (size_t cut = 0; cut <= 3; cut++) {
        struct vr_text t = { 0 };
        vr_text_add(&t, "a\0b", cut);
        vr_text_add(&t, &"a\0b"[cut], 3 - cut);
        assert_string_equal(vr_buf_str(&t.held), "a\xEF\xBF\xBD"
                                                 "b");
        vr_text_done(&t);
    }
}

static void test_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        const struct row *r = &rows[i];
        size_t n = strlen(r->in), each[64];
        assert_true(n < VR_COUNT(each));
        for (size_t j = 0; j < n; j++) each[j] = j;
        check(r, NULL, 0);
        check(r, each, n);
        for (size_t cut = 0; cut <= n; cut++) check(r, &cut, 1);
        for (size_t a = 0; a <= n; a++)
            for (size_t b = a; b <= n; b++) check(r, (size_t[]){ a, b }, 2);
    }
}

/* An answer that is kept whole until its end: the stop string is found once, however late. */
static void test_kept_whole(void **state)
{
    (void)state;
    static const char *const stops[] = { "the end", "END" };
    struct vr_text t = { .stops = stops, .n_stops = 2 };
    int stop;
    for (int i = 0; i < 200000; i++) {
        vr_text_add(&t, "the en", 6);
        size_t ready = vr_text_ready(&t, &stop);
        assert_int_equal(stop, -1);
        assert_int_equal(ready, t.held.n - 6);
    }
    vr_text_add(&t, "d", 1);
    assert_int_equal(vr_text_ready(&t, &stop), t.held.n - 7);
    assert_int_equal(stop, 0);
    vr_text_done(&t);
}

/* Any bytes at all come out as UTF-8. */
static void test_any_bytes(void **state)
{
    (void)state;
    struct vr_text t = { 0 };
    uint32_t r = 1;
    for (int i = 0; i < 100000; i++) {
        r = r * 1664525u + 1013904223u;
        char c = (char)(r >> 24);
        vr_text_add(&t, &c, 1);
    }
    vr_text_end(&t);
    for (size_t i = 0; i < t.held.n;) {
        size_t len = vr_utf8_len((const unsigned char *)t.held.data + i, t.held.n - i);
        assert_true(len > 0);
        i += len;
    }
    vr_text_done(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_nul),
        cmocka_unit_test(test_kept_whole),
        cmocka_unit_test(test_any_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
