/* Speculative decoding: whoever guesses, and whatever memory the model has, the text is what it is without guesses. The
 * models are calm ones, whose guesses are often right. */
#include "test_engine.h"

#include <math.h>

static const struct {
    const char *kind, *load;
} guessers[] = {
    { "ngram", ", 'spec': 'ngram', 'n_draft': 5, 'steer': false" },
    { "ngram, steered", ", 'spec': 'ngram'" },
    { "mtp", ", 'spec': 'mtp', 'steer': false" },
    { "mtp, steered", ", 'spec': 'mtp'" },
};

static bool has_head(const char *file) { return strstr(file, "mtp") != NULL; }
static bool can_guess(size_t g, const char *file) { return guessers[g].kind[0] != 'm' || has_head(file); }

/* What is asked: a request's further fields. */
static const char *const bodies[] = {
    "'max_tokens': 240, 'temperature': 0, 'ignore_eos': true",
    "'max_tokens': 60, 'temperature': 0, 'ignore_eos': true, 'presence_penalty': 1, 'repeat_penalty': 1.1",
    "'max_tokens': 40, 'temperature': 0, 'grammar': 'root ::= (\\\"ab\\\" | \\\"cd\\\" | [0-9])+ \\\".\\\" [a-f]{20}'",
    "'max_tokens': 40, 'temperature': 0, 'ignore_eos': true, 'logprobs': 2",
    "'max_tokens': 70, 'temperature': 0.8, 'seed': 4, 'ignore_eos': true",
    "'max_tokens': 1, 'temperature': 0",
};

struct said {
    char *text;
    uint32_t drafted, accepted, tokens;
};

static struct said say(struct client *c, const char *prompt, const char *more)
{
    struct answer a;
    client_ask(c, &a, 1, "{'kind':'completion','prompt':'%s','cache_prompt':false, %s}", prompt, more);
    client_wait(c, &a);
    if (a.error) fail_msg("%s: %s", more, json_string_value(json_object_get(a.error, "message")));
    struct said s = { strdup(vr_buf_str(&a.text[0])), a.end[0].drafted_tokens, a.end[0].accepted_tokens,
                      a.end[0].completion_tokens };
    answer_done(&a);
    return s;
}

static void compare(struct client *without, struct client *with, const char *who, bool steered)
{
    uint32_t drafted = 0, accepted = 0;
    for (size_t i = 0; i < VR_COUNT(bodies); i++) {
        struct said want = say(without, "tell me and tell me and tell me more", bodies[i]);
        struct said got = say(with, "tell me and tell me and tell me more", bodies[i]);
        if (strcmp(want.text, got.text) != 0) fail_msg("%s, %s:\n%s\nnot\n%s", who, bodies[i], got.text, want.text);
        assert_int_equal(want.tokens, got.tokens);
        assert_int_equal(want.drafted, 0);
        assert_true(got.accepted <= got.drafted);
        drafted += got.drafted;
        accepted += got.accepted;
        free(want.text);
        free(got.text);
    }
    ask_status(with);
    assert_int_equal(json_integer_value(json_object_get(with->status, "drafted_tokens")), drafted);
    assert_int_equal(json_integer_value(json_object_get(with->status, "accepted_tokens")), accepted);
    if (!steered && drafted < 40) fail_msg("%s: only %u guesses: nothing was tested", who, drafted);
    if (!steered && accepted < 20) fail_msg("%s: %u of %u guesses were right", who, accepted, drafted);
    if (!steered && accepted == drafted) fail_msg("%s: all guesses were right: nothing was taken back", who);
}

static void compare_kinds(const char *file, const char *more)
{
    struct client without;
    up(&without, file, more);
    for (size_t g = 0; g < VR_COUNT(guessers); g++) {
        char load[400], who[400];
        struct client with;
        if (!can_guess(g, file) || (strstr(file, "gemma") && strstr(guessers[g].kind, "steered"))) continue;
        snprintf(load, sizeof load, "%s%s", more, guessers[g].load);
        snprintf(who, sizeof who, "%s, %s", strrchr(file, '/') + 1, guessers[g].kind);
        up(&with, file, load);
        compare(&without, &with, who, strstr(guessers[g].kind, "steered"));
        down(&with);
    }
    down(&without);
}

void test_guesses(void **state)
{
    (void)state;
    for (int i = 0; i < N_CALM; i++) compare_kinds(calm_files[i], ", 'n_ctx': 1024");
}

/* Several at once, of different lengths, and in a window that moves on: in cells of their own and in shared ones. */
void test_guesses_side_by_side(void **state)
{
    (void)state;
    enum { N = 5 };
    static const char *const ways[] = { ", 'n_seq': 3, 'n_ctx': 1536",
                                        ", 'n_seq': 3, 'n_ctx': 1536, 'kv_unified': true" };
    for (int i = 0; i < N_CALM; i++)
        for (size_t w = 0; w < VR_COUNT(ways); w++) {
            char *want[N] = { 0 };
            if (w && !strstr(calm_files[i], "gemma")) continue; /* shared cells: one kind is enough */
            for (size_t g = 0; g <= VR_COUNT(guessers); g++) {  /* the first one is nobody */
                if (g && strstr(guessers[g - 1].kind, "steered")) continue;
                struct client c;
                struct answer a[N];
                char load[400];
                if (g && !can_guess(g - 1, calm_files[i])) continue;
                snprintf(load, sizeof load, "%s%s", ways[w], g ? guessers[g - 1].load : "");
                up(&c, calm_files[i], load);
                for (int k = 0; k < N; k++)
                    client_ask(
                        &c, &a[k], 1,
                        "{'kind':'completion','prompt':'story number %d of many','max_tokens':%d,'temperature':0,"
                        "'ignore_eos':true,'cache_prompt':%s}",
                        k, 8 + 13 * k, k % 2 ? "true" : "false");
                for (int k = 0; k < N; k++) {
                    client_wait(&c, &a[k]);
                    assert_null(a[k].error);
                    const char *text = vr_buf_str(&a[k].text[0]);
                    if (g == 0)
                        want[k] = strdup(text);
                    else if (strcmp(text, want[k]) != 0)
                        fail_msg("%s, %s%s, %d:\n%s\nnot\n%s", calm_files[i], guessers[g - 1].kind, ways[w], k, text,
                                 want[k]);
                    answer_done(&a[k]);
                }
                down(&c);
            }
            for (int k = 0; k < N; k++) free(want[k]);
        }
}

/* A conversation that goes on, is edited, and is left in the middle. */
void test_guesses_and_the_cache(void **state)
{
    (void)state;
    for (int i = 1; i < N_CALM; i++) /* a window, and a state */
        for (size_t g = 0; g < VR_COUNT(guessers); g += 2) {
            struct client with, without;
            struct answer left;
            char load[400];
            if (!can_guess(g, calm_files[i])) continue;
            snprintf(load, sizeof load, ", 'n_seq': 2, 'n_ctx': 2048%s", guessers[g].load);
            up(&with, calm_files[i], load);
            up(&without, calm_files[i], ", 'n_seq': 2, 'n_ctx': 2048");
            VR_AUTO_BUF prompt = { 0 };
            vr_buf_adds(&prompt, "a tale of two or three of them");
            for (int turn = 0; turn < 3; turn++) {
                char body[4000];
                client_ask(&with, &left, 1,
                           "{'kind':'completion','prompt':'%s and','max_tokens':200,'temperature':0,"
                           "'ignore_eos':true}",
                           vr_buf_str(&prompt));
                while (left.n_deltas == 0 && client_read(&with, 10000)) continue;
                client_send(&with, VR_WIRE_CANCEL, left.id, NULL, 0);
                client_wait(&with, &left);
                answer_done(&left);
                snprintf(
                    body, sizeof body,
                    "'kind':'completion','prompt':'%s','max_tokens':20,'temperature':0,'ignore_eos':true,'grammar':"
                    "'root ::= [a-z0-9 ]+'",
                    vr_buf_str(&prompt));
                char *want = ask_text(&without, body), *got = ask_text(&with, body);
                if (strcmp(got, want) != 0) fail_msg("%s, turn %d:\n%s\nnot\n%s", calm_files[i], turn, got, want);
                vr_buf_adds(&prompt, want);
                vr_buf_adds(&prompt, " and then");
                free(want);
                free(got);
            }
            down(&with);
            down(&without);
        }
}

/* The first tokens of many answers, with and without guesses: the same distribution, by chi-squared over the most
 * common ones. The seeds differ, so it is not the same luck. */
void test_guesses_keep_the_distribution(void **state)
{
    (void)state;
    enum { MANY = 400, WORDS = 64 };
    const char *file = calm_files[N_CALM - 1];
    double counts[2][WORDS] = { { 0 } };
    char *words[WORDS] = { 0 };
    uint32_t accepted = 0, drafted = 0;
    for (int side = 0; side < 2; side++) {
        struct client c;
        struct answer a[4];
        up(&c, file,
           side ? ", 'n_ctx': 2048, 'n_seq': 4, 'spec': 'mtp', 'steer': false" : ", 'n_ctx': 2048, 'n_seq': 4");
        for (int k = 0; k < MANY; k += 4) {
            for (int j = 0; j < 4; j++)
                client_ask(&c, &a[j], 1,
                           "{'kind':'completion','prompt':'once','max_tokens':4,'temperature':0.8,'top_k':2,'seed':%d,"
                           "'ignore_eos':true}",
                           k + j + (side ? 100000 : 1));
            for (int j = 0; j < 4; j++) {
                client_wait(&c, &a[j]);
                assert_null(a[j].error);
                accepted += a[j].end[0].accepted_tokens;
                drafted += a[j].end[0].drafted_tokens;
                const char *text = vr_buf_str(&a[j].text[0]);
                int w = 0;
                while (w < WORDS - 1 && words[w] && strcmp(words[w], text) != 0) w++;
                if (!words[w]) words[w] = strdup(text);
                counts[side][w]++;
                answer_done(&a[j]);
            }
        }
        down(&c);
    }
    double chi = 0;
    int freedom = -1;
    for (int w = 0; w < WORDS; w++) {
        double sum = counts[0][w] + counts[1][w], d = counts[0][w] - counts[1][w];
        free(words[w]);
        if (sum < 10) continue;
        chi += d * d / sum;
        freedom++;
    }
    if (accepted < 40 || accepted == drafted || freedom < 3)
        fail_msg("%u of %u guesses, %d degrees of freedom: nothing was tested", accepted, drafted, freedom);
    if (chi > freedom + 4 * sqrt(2.0 * freedom)) fail_msg("chi-squared %.1f with %d degrees of freedom", chi, freedom);
}

void test_guess_refusals(void **state)
{
    (void)state;
    static const struct {
        int file; /* of the kinds of memory */
        const char *more, *says;
    } rows[] = {
        { 0, "'spec': 'mtp'", "no MTP head" },
        { 0, "'spec': 'draft'", "needs its file: --draft FILE" },
        { 3, "'spec': 'ngram'", "keeps no earlier states of this recurrent model" },
        { 0, "'spec': 'magic'", "spec" },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct client c;
        client_start(&c, "{'model': '%s', " PLAIN ", 'n_ctx': 256, %s}", kind_files[rows[i].file], rows[i].more);
        const char *message = json_string_value(json_object_get(c.failed, "message"));
        if (c.ready || !message || !strstr(message, rows[i].says)) fail_msg("%s: %s", rows[i].more, message);
        client_stop(&c, 0);
    }
}
