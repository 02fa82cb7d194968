/* Texts: streamed or whole, their characters, seeds, choices and probabilities; embeddings. */
#include "test_engine.h"

#include <math.h>

#include "base/json.h"

void test_stream_is_the_same(void **state)
{
    (void)state;
    struct client c;
    up(&c, dense, FOUR);
    char *whole = ask_text(&c, GREEDY);
    char *pieces = ask_text(&c, GREEDY ", 'stream': true");
    assert_string_equal(whole, pieces);

    /* a stop string that begins inside one token and ends inside another */
    VR_AUTO_BUF stop = { 0 };
    size_t from = strlen(whole) / 2;
    while ((whole[from] & 0xC0) == 0x80 || whole[from] < 32 || whole[from] == '\'' || whole[from] == '"' ||
           whole[from] == '\\')
        from++;
    vr_buf_adds(&stop, "'kind': 'completion', 'prompt': 'the rain in spain and then another one', 'max_tokens': 48, "
                       "'temperature': 0, 'stream': true, 'stop': ['never', ");
    char part[12] = "";
    size_t n = 0;
    for (; n < 6 && whole[from + n] > 32 && whole[from + n] < 127; n++) part[n] = whole[from + n];
    part[n] = '\0';
    vr_json_add_string(&stop, part);
    vr_buf_adds(&stop, "]");
    struct answer a;
    client_ask(&c, &a, 1, "{%s}", vr_buf_str(&stop));
    client_wait(&c, &a);
    const char *at = strstr(whole, part);
    assert_int_equal(a.text[0].n, at - whole);
    assert_memory_equal(a.text[0].data, whole, a.text[0].n);
    assert_int_equal(a.end[0].reason, VR_END_STOP);
    assert_int_equal(a.end[0].stop, 1);
    answer_done(&a);
    free(whole);
    free(pieces);
    down(&c);
}

void test_echo_tokens_and_prompts(void **state)
{
    (void)state;
    struct client c;
    struct answer a;
    up(&c, dense, FOUR);
    client_ask(
        &c, &a, 4,
        "{'kind':'completion','prompt':['one two','three \xc3\xa4'],'n':2,'max_tokens':3,'echo':true,'temperature':0}");
    client_wait(&c, &a);
    assert_memory_equal(a.text[0].data, "one two", 7);
    assert_string_equal(a.text[0].data, a.text[1].data);
    assert_memory_equal(a.text[3].data, "three \xc3\xa4", 8);
    assert_int_equal(a.begin.prompt_tokens, 6 + 6);
    answer_done(&a);
    /* the same as tokens: bytes are their own numbers, more or less */
    client_ask(&c, &a, 1, "{'kind':'completion','prompt':[65,66,67],'max_tokens':1,'ignore_eos':true}");
    client_wait(&c, &a);
    assert_int_equal(a.begin.prompt_tokens, 3);
    assert_int_equal(a.end[0].completion_tokens, 1);
    assert_int_equal(a.end[0].reason, VR_END_LENGTH);
    answer_done(&a);
    down(&c);
}

/* What comes out must be UTF-8 in every piece, though every token is a byte. */
void test_characters_are_whole(void **state)
{
    (void)state;
    struct client c;
    struct answer a;
    up(&c, dense, FOUR);
    static const char body[] = "{\"kind\":\"completion\",\"prompt\":\"x\",\"max_tokens\":64,\"stream\":true,"
                               "\"grammar\":\"root ::= \\\"Stra\xc3\x9f"
                               "e \xf0\x9f\x99\x82 \xe2\x82\xac!\\\"\"}";
    client_ask_raw(&c, &a, 1, body, sizeof body - 1);
    client_wait(&c, &a);
    assert_null(a.error);
    assert_string_equal(vr_buf_str(&a.text[0]), "Stra\xc3\x9f"
                                                "e \xf0\x9f\x99\x82 \xe2\x82\xac!");
    assert_int_equal(a.n_deltas, 11); /* one per character */
    answer_done(&a);
    down(&c);
}

void test_seeds_and_choices(void **state)
{
    (void)state;
    struct client c;
    struct answer a, b;
    up(&c, dense, FOUR);
    char *alone = ask_text(&c, GREEDY);
    /* more choices than slots; all greedy: all the same */
    client_ask(&c, &a, 6, "{%s, 'n': 6}", GREEDY);
    client_wait(&c, &a);
    for (int i = 0; i < 6; i++) assert_string_equal(vr_buf_str(&a.text[i]), alone);
    answer_done(&a);
    for (int round = 0; round < 2; round++) {
        struct answer *x = round ? &b : &a;
        client_ask(&c, x, 3, "{'kind':'completion','prompt':'abc','n':3,'max_tokens':20,'temperature':1,'seed':7}");
        client_wait(&c, x);
    }
    for (int i = 0; i < 3; i++) assert_string_equal(vr_buf_str(&a.text[i]), vr_buf_str(&b.text[i]));
    assert_string_not_equal(vr_buf_str(&a.text[0]), vr_buf_str(&a.text[1]));
    assert_string_not_equal(vr_buf_str(&a.text[1]), vr_buf_str(&a.text[2]));
    answer_done(&a);
    answer_done(&b);
    free(alone);
    down(&c);
}

void test_logprobs(void **state)
{
    (void)state;
    struct client c;
    struct answer a;
    up(&c, dense, FOUR);
    for (int stream = 0; stream < 2; stream++) {
        client_ask(&c, &a, 1,
                   "{'kind':'chat','messages':[{'role':'user','content':'hi'}],'max_tokens':30,'temperature':0,'"
                   "logprobs':true,"
                   "'top_logprobs':3,'stream':%s}",
                   stream ? "true" : "false");
        client_wait(&c, &a);
        VR_AUTO_BUF list = { 0 };
        vr_buf_addf(&list, "[%s]", vr_buf_str(&a.probs[0]));
        json_t *j = json_loads(list.data, 0, NULL);
        assert_int_equal(json_array_size(j), a.end[0].completion_tokens);
        for (size_t i = 0; i < json_array_size(j); i++) {
            const json_t *e = json_array_get(j, i), *top = json_object_get(e, "top_logprobs");
            assert_int_equal(json_array_size(top), 3);
            double best = json_number_value(json_object_get(json_array_get(top, 0), "logprob"));
            double own = json_number_value(json_object_get(e, "logprob"));
            assert_true(own <= 0 && fabs(own - best) < 1e-4); /* greedy took the best */
        }
        json_decref(j);
        answer_done(&a);
    }
    down(&c);
}

static double dot(const float *a, const float *b, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) sum += (double)a[i] * (double)b[i];
    return sum;
}

void test_embeddings(void **state)
{
    (void)state;
    for (int text = 0; text < 2; text++) {
        struct client c;
        struct answer a, b;
        up(&c, text ? dense : vectors, text ? FOUR ", 'embeddings': true" : FOUR);
        client_ask(&c, &a, 1, "{'kind':'embedding','input':['one','another text that is longer','one',[65,66]]}");
        if (text) client_ask(&c, &b, 1, "{%s}", GREEDY);
        client_wait(&c, &a);
        if (a.error) fail_msg("%s", json_string_value(json_object_get(a.error, "message")));
        assert_int_equal(a.n_vectors, 4);
        assert_int_equal(a.n_dims, 128);
        for (uint32_t i = 0; i < 4; i++)
            assert_true(fabs(dot(a.vectors + i * 128, a.vectors + i * 128, 128) - 1) < 1e-4);
        assert_true(dot(a.vectors, a.vectors + 256, 128) > 0.9999);
        assert_true(dot(a.vectors, a.vectors + 128, 128) < 0.99);
        answer_done(&a);
        client_ask(&c, &a, 1, "{'kind':'embedding','input':'x','dimensions':64}");
        client_wait(&c, &a);
        assert_string_equal(json_string_value(json_object_get(a.error, "param")), "dimensions");
        assert_contains(json_string_value(json_object_get(a.error, "message")), "128");
        answer_done(&a);
        if (text) {
            client_wait(&c, &b);
            assert_null(b.error);
            char *again = ask_text(&c, GREEDY);
            assert_string_equal(vr_buf_str(&b.text[0]), again);
            free(again);
            answer_done(&b);
        } else {
            client_ask(&c, &a, 1, "{'kind':'chat','messages':[{'role':'user','content':'x'}]}");
            client_wait(&c, &a);
            assert_int_equal(a.status, 400);
            answer_done(&a);
        }
        down(&c);
    }
}
