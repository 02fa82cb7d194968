/* Guesses from the text itself. */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "engine/speculate/ngram.h"

enum { MOST = 8 };

static void test_rows(void **state)
{
    (void)state;
    static const struct {
        const char *text, *guess; /* a token is a letter; the last one of the text is `next` */
        uint32_t most;
    } rows[] = {
        { "", "", 8 },
        { "abc", "", 8 },
        { "abcdefg", "", 8 },
        { "abcdefgabc", "defgabcd", 8 },
        { "abcdefgabc", "de", 2 },
        { "abcdefgabc", "", 0 },
        { "abcxyzabcuvwabc", "uvwabcuv", 8 },   /* the latest of two */
        { "qabcxyzabcuvwqabc", "xyzabcuv", 8 }, /* unless another has more of the past */
        { "aaaa", "aaaaaaaa", 8 },              /* a repetition goes on */
        { "xyxyxy", "xyxyxyxy", 8 },
        { "abcd#fabc", "d", 8 }, /* '#' is a picture */
        { "ab#ab#ab#", "ab", 8 },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct vr_ngram *g = vr_ngram_new();
        int32_t tokens[64], out[MOST];
        uint32_t n = (uint32_t)strlen(rows[i].text), n_out = 0;
        char got[MOST + 1] = "";
        for (uint32_t k = 0; k < n; k++) tokens[k] = rows[i].text[k] == '#' ? -5 : rows[i].text[k];
        if (n) n_out = vr_ngram_guess(g, tokens, n - 1, tokens[n - 1], rows[i].most, out);
        for (uint32_t k = 0; k < n_out; k++) got[k] = (char)out[k];
        if (strcmp(got, rows[i].guess) != 0) fail_msg("%s: %s, not %s", rows[i].text, got, rows[i].guess);
        vr_ngram_free(g);
    }
    vr_ngram_free(NULL);
}

/* What a plain search finds: the latest of the last places with the longest common past. Token by token, so that the
 * table grows beneath it. */
static void test_growing(void **state)
{
    (void)state;
    enum { N = 5000 };
    VR_AUTO_FREE int32_t *tokens = calloc(N, sizeof *tokens);
    struct vr_ngram *g = vr_ngram_new();
    uint32_t seed = 7, n_right = 0, n_found = 0;
    for (uint32_t n = 0; n < N; n++) {
        seed = seed * 1664525u + 1013904223u;
        uint32_t copies = n > 200 && n % 300 >= 200; /* a third is a copy of what was there 200 tokens before */
        tokens[n] = copies ? tokens[n - 200] : (int32_t)((seed >> 8) % 40);
    }
    for (uint32_t n = 10; n + 1 < N; n++) {
        int32_t out[1];
        if (!vr_ngram_guess(g, tokens, n, tokens[n], 1, out)) continue;
        n_found++;
        n_right += out[0] == tokens[n + 1];
        uint32_t at = n; /* its key did stand there before */
        bool is = false;
        while (at-- > 2 && !is)
            is = tokens[at] == tokens[n] && tokens[at - 1] == tokens[n - 1] && tokens[at - 2] == tokens[n - 2];
        assert_true(is);
    }
    assert_true(n_found > N / 4 && n_right > n_found * 3 / 4);
    vr_ngram_free(g);
}

/* A text that shrank, against the rules: guesses may be poor, and nothing is read that is not there. */
static void test_shrinking(void **state)
{
    (void)state;
    struct vr_ngram *g = vr_ngram_new();
    int32_t *tokens = malloc(64 * sizeof *tokens), *few, out[MOST];
    for (int i = 0; i < 64; i++) tokens[i] = i % 5;
    assert_int_equal(vr_ngram_guess(g, tokens, 63, tokens[63], MOST, out), MOST);
    few = malloc(8 * sizeof *few);
    memcpy(few, tokens, 8 * sizeof *few);
    free(tokens);
    for (uint32_t n = 3; n < 8; n++) assert_true(vr_ngram_guess(g, few, n, few[n], MOST, out) <= MOST);
    free(few);
    vr_ngram_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_rows), cmocka_unit_test(test_growing),
                                        cmocka_unit_test(test_shrinking) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
