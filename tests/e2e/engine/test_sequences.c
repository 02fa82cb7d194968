/* Many at once: prefixes that are reused, cells that run out, contexts that are full, prompts that do not starve
 * streams, cancelling. */
#include "test_engine.h"

#include <sys/socket.h>

void test_prefix_reuse(void **state)
{
    (void)state;
    static const char *const kv[] = { FOUR, FOUR ", 'kv_unified': true" };
    for (size_t k = 0; k < VR_COUNT(kv); k++) {
        struct client c;
        struct answer a;
        VR_AUTO_BUF prompt = { 0 };
        up(&c, dense, kv[k]);
        for (int i = 0; i < 60; i++) vr_buf_addf(&prompt, "sentence number %d. ", i);
        const char *tails[] = { "and so", "and so", "but then", "and then" };
        for (int round = 0; round < 4; round++) {
            char *texts[2];
            for (int cached = 0; cached < 2; cached++) {
                client_ask(&c, &a, 1,
                           "{'kind':'completion','prompt':'%s%s','max_tokens':24,'temperature':0,'cache_prompt':%s}",
                           prompt.data, tails[round], cached ? "true" : "false");
                client_wait(&c, &a);
                assert_null(a.error);
                texts[cached] = strdup(vr_buf_str(&a.text[0]));
                if (!cached)
                    assert_int_equal(a.end[0].cached_tokens, 0);
                else
                    assert_true(a.end[0].cached_tokens + 10 > a.begin.prompt_tokens);
                answer_done(&a);
            }
            assert_string_equal(texts[0], texts[1]);
            free(texts[0]);
            free(texts[1]);
        }
        down(&c);
    }
}

/* Twelve at once over four slots: each says what it says alone, also where shorter prompts are filled up to the length
 * of their neighbours. */
void test_many_at_once(void **state)
{
    (void)state;
    static const char *const kv[] = { FOUR, FOUR ", 'kv_unified': true", FOUR DEVICE };
    for (size_t k = 0; k < VR_COUNT(kv); k++) {
        struct client c;
        struct answer a[12];
        char *alone[12];
        up(&c, dense, kv[k]);
        for (int round = 0; round < 2; round++)
            for (int i = 0; i < 12; i++) {
                client_ask(&c, &a[i], 1,
                           "{'kind':'completion','prompt':'%.*s number "
                           "%d','max_tokens':%d,'temperature':0,'cache_prompt':false}",
                           5 + i * 3, "once upon a time there was a small model that said", i, 10 + i);
                if (round == 0) {
                    client_wait(&c, &a[i]);
                    alone[i] = strdup(vr_buf_str(&a[i].text[0]));
                    answer_done(&a[i]);
                }
            }
        for (int i = 0; i < 12; i++) {
            client_wait(&c, &a[i]);
            assert_null(a[i].error);
            assert_int_equal(a[i].end[0].completion_tokens, 10 + i);
            assert_string_equal(vr_buf_str(&a[i].text[0]), alone[i]);
            answer_done(&a[i]);
            free(alone[i]);
        }
        down(&c);
    }
}

/* Sequences that share too few cells take turns; nobody fails and nothing changes. */
void test_cells_run_out(void **state)
{
    (void)state;
    struct client c;
    struct answer a[4];
    char *alone[4];
    client_start(&c, "{'model': '%s', " PLAIN ", 'n_seq': 4, 'n_ctx': 512, 'kv_unified': true}", dense);
    assert_non_null(c.ready);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 4; i++) {
            client_ask(&c, &a[i], 1,
                       "{'kind':'completion','prompt':'tale %d of a long "
                       "night','max_tokens':200,'temperature':0,'ignore_eos':true}",
                       i);
            if (round) continue;
            client_wait(&c, &a[i]);
            alone[i] = strdup(vr_buf_str(&a[i].text[0]));
            answer_done(&a[i]);
        }
    for (int i = 0; i < 4; i++) {
        client_wait(&c, &a[i]);
        assert_null(a[i].error);
        assert_int_equal(a[i].end[0].completion_tokens, 200);
        assert_string_equal(vr_buf_str(&a[i].text[0]), alone[i]);
        answer_done(&a[i]);
        free(alone[i]);
    }
    client_send(&c, VR_WIRE_STATS, 0, NULL, 0);
    json_decref(c.status);
    c.status = NULL;
    while ((!c.status || !c.n_pulses) && client_read(&c, 60000)) continue;
    assert_true(json_integer_value(json_object_get(c.status, "preempted")) > 0);
    assert_int_equal(c.pulse.preparing, 0);
    assert_int_equal(c.pulse.killed, 0);
    down(&c);
}

void test_context_is_full(void **state)
{
    (void)state;
    struct client c;
    struct answer a;
    client_start(&c, "{'model': '%s', 'n_seq': 1, 'n_ctx': 256, 'threads': 1}", dense);
    assert_non_null(c.ready);
    client_ask(&c, &a, 1, "{'kind':'completion','prompt':'abc','max_tokens':5000,'ignore_eos':true}");
    client_wait(&c, &a);
    assert_int_equal(a.end[0].reason, VR_END_LENGTH);
    assert_int_equal(a.begin.prompt_tokens + a.end[0].completion_tokens, 257);
    answer_done(&a);
    VR_AUTO_BUF b = { 0 };
    vr_buf_addc(&b, 'x', 300);
    client_ask(&c, &a, 1, "{'kind':'completion','prompt':'%s'}", b.data);
    client_wait(&c, &a);
    assert_int_equal(a.status, 400);
    assert_string_equal(json_string_value(json_object_get(a.error, "code")), "context_length_exceeded");
    assert_contains(json_string_value(json_object_get(a.error, "message")),
                    "has 300 tokens, which exceeds the available context size of 255");
    answer_done(&a);
    down(&c);
}

void test_cancel(void **state)
{
    (void)state;
    struct client c;
    struct answer a, b;
    up(&c, dense, ", 'n_ctx': 65536, 'n_seq': 4");
    VR_AUTO_BUF prompt = { 0 };
    for (int i = 0; i < 1500; i++) vr_buf_addf(&prompt, "%d ", i);
    for (int i = 0; i < 8; i++) {
        bool long_prompt = i % 2;
        client_ask(&c, &a, 1,
                   "{'kind':'completion','prompt':'%s','max_tokens':100000,'ignore_eos':true,'stream':true,'cache_"
                   "prompt':false}",
                   long_prompt ? prompt.data : "abc");
        if (long_prompt)
            client_read(&c, 100);
        else
            while (a.n_deltas < 5) client_read(&c, 1000);
        client_send(&c, VR_WIRE_CANCEL, a.id, NULL, 0);
        client_wait(&c, &a);
        assert_int_equal(a.end[0].reason, VR_END_CANCELLED);
        answer_done(&a);
    }
    /* cancelled while it waits for a slot, and one that is not there at all */
    struct answer more[4];
    for (int i = 0; i < 4; i++)
        client_ask(&c, &more[i], 1, "{'kind':'completion','prompt':'abc','max_tokens':300,'ignore_eos':true}");
    client_ask(&c, &b, 1, "{'kind':'completion','prompt':'abc','max_tokens':10}");
    client_send(&c, VR_WIRE_CANCEL, b.id, NULL, 0);
    client_send(&c, VR_WIRE_CANCEL, 4711, NULL, 0);
    client_wait(&c, &b);
    assert_int_equal(b.end[0].reason, VR_END_CANCELLED);
    answer_done(&b);
    for (int i = 0; i < 4; i++) {
        client_wait(&c, &more[i]);
        assert_int_equal(more[i].end[0].completion_tokens, 300);
        answer_done(&more[i]);
    }
    down(&c);
}

/* A long prompt arrives while a stream runs: the stream goes on. */
void test_fairness(void **state)
{
    (void)state;
    struct client c;
    struct answer stream, big;
    up(&c, dense, ", 'n_ctx': 65536, 'n_seq': 4, 'n_batch': 2048, 'n_ubatch': 2048");
    VR_AUTO_BUF prompt = { 0 };
    for (int i = 0; i < 1500; i++) vr_buf_addf(&prompt, "%d ", i);
    client_ask(
        &c, &stream, 1,
        "{'kind':'completion','prompt':'abc','max_tokens':4000,'ignore_eos':true,'stream':true,'temperature':0}");
    while (stream.n_deltas < 5) client_read(&c, 1000);
    client_ask(&c, &big, 1, "{'kind':'completion','prompt':'%s','max_tokens':1}", prompt.data);
    unsigned before = stream.n_deltas;
    client_wait(&c, &big);
    print_message("%u pieces of the stream while %u tokens of prompt were computed\n", stream.n_deltas - before,
                  big.begin.prompt_tokens);
    assert_true(stream.n_deltas - before >= 8);
    assert_true(big.begin.prompt_tokens > 5000);
    client_send(&c, VR_WIRE_CANCEL, stream.id, NULL, 0);
    client_wait(&c, &stream);
    answer_done(&stream);
    answer_done(&big);
    down(&c);
}

#define STREAM "'max_tokens':3000,'ignore_eos':true,'stream':true,'temperature':0}"

/* Two streams at once are in neighbouring slots, though the one not used for longest is elsewhere: with a gap between
 * them the engine would read all weights twice in every step. */
void test_neighbours(void **state)
{
    (void)state;
    struct client c;
    struct answer a, b;
    up(&c, dense, ", 'n_ctx': 16384, 'n_seq': 4");
    static const char *const before[] = { "one", "two two", "three three three", "four", "two two and more" };
    for (size_t i = 0; i < VR_COUNT(before); i++) { /* the last one is in slot 1 again */
        client_ask(&c, &a, 1, "{'kind':'completion','prompt':'%s','max_tokens':2,'ignore_eos':true}", before[i]);
        client_wait(&c, &a);
        answer_done(&a);
    }
    client_ask(&c, &a, 1, "{'kind':'completion','prompt':'Xa'," STREAM);
    while (a.n_deltas < 3) client_read(&c, 1000);
    client_ask(&c, &b, 1, "{'kind':'completion','prompt':'Yb'," STREAM);
    while (b.n_deltas < 3) client_read(&c, 1000);
    ask_status(&c);
    const json_t *slots = json_object_get(c.status, "slots");
    int busy[2] = { -1, -1 };
    for (int i = 0, n = 0; i < (int)json_array_size(slots) && n < 2; i++)
        if (strcmp(json_string_value(json_object_get(json_array_get(slots, (size_t)i), "state")), "idle") != 0)
            busy[n++] = i;
    if (busy[0] < 0 || busy[1] != busy[0] + 1) fail_msg("slots %d and %d", busy[0], busy[1]);
    client_send(&c, VR_WIRE_CANCEL, a.id, NULL, 0);
    client_send(&c, VR_WIRE_CANCEL, b.id, NULL, 0);
    client_wait(&c, &a);
    client_wait(&c, &b);
    answer_done(&a);
    answer_done(&b);
    down(&c);
}

static const char *const gap_prompts[] = { "the first of four", "a second", "one third of it", "and the last of all" };
#define ONE "{'kind':'completion','prompt':'%s','max_tokens':%d,'temperature':0,'ignore_eos':true,'cache_prompt':%s}"

/* All four at once say what they say alone. */
static void ask_all_four(struct client *c, char *const alone[4])
{
    struct answer a[4];
    for (int i = 0; i < 4; i++) client_ask(c, &a[i], 1, ONE, gap_prompts[i], i % 3 ? 4 : 60, "false");
    for (int i = 0; i < 4; i++) {
        client_wait(c, &a[i]);
        assert_null(a[i].error);
        assert_string_equal(vr_buf_str(&a[i].text[0]), alone[i]);
        answer_done(&a[i]);
    }
}

/* A prompt of those that were idle in between: what its slot remembers is right, if it was not taken meanwhile, which
 * is told. */
static bool ask_remembered(struct client *c, const char *prompt)
{
    struct answer known, anew;
    client_ask(c, &known, 1, ONE, prompt, 24, "true");
    client_wait(c, &known);
    client_ask(c, &anew, 1, ONE, prompt, 24, "false");
    client_wait(c, &anew);
    assert_string_equal(vr_buf_str(&known.text[0]), vr_buf_str(&anew.text[0]));
    uint32_t cached = known.end[0].cached_tokens, all = known.begin.prompt_tokens - 1;
    assert_true(cached <= all); /* prompts may begin alike */
    answer_done(&known);
    answer_done(&anew);
    return cached == all;
}

/* Streams end and leave gaps between others. Where devices compute, idle slots are computed along, which is as if it
 * had not been: the long ones say what they say alone, and what the idle ones remember is still right. On the host no
 * gap is filled. Who gets which slot is chance: an answer may be over before the next prompt comes. */
void test_gaps(void **state)
{
    (void)state;
    static const char *const where[] = { FOUR, FOUR DEVICE };
    for (size_t w = 0; w < VR_COUNT(where); w++) {
        struct client c;
        struct answer a;
        char *alone[4];
        up(&c, dense, where[w]);
        for (int i = 0; i < 4; i++) {
            client_ask(&c, &a, 1, ONE, gap_prompts[i], i % 3 ? 4 : 60, "false");
            client_wait(&c, &a);
            alone[i] = strdup(vr_buf_str(&a.text[0]));
            answer_done(&a);
        }
        json_int_t fillers = 0;
        for (int tries = 0; tries < (w ? 50 : 2) && fillers < 50; tries++) {
            ask_all_four(&c, alone);
            ask_status(&c);
            fillers = json_integer_value(json_object_get(c.status, "filler_tokens"));
        }
        if (w ? fillers < 50 : fillers > 0) fail_msg("%lld tokens filled gaps", (long long)fillers);
        for (int i = 1; i < 3; i++) {
            int tries = 1;
            for (; !ask_remembered(&c, gap_prompts[i]) && tries < 20; tries++) ask_all_four(&c, alone);
            if (tries == 20) fail_msg("'%s' was never remembered", gap_prompts[i]);
        }
        for (int i = 0; i < 4; i++) free(alone[i]);
        down(&c);
    }
}
