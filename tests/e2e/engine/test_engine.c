/* The engine process, end to end: a small model made on the spot, real frames, real computation; GPUs are virtual ones
 * that execute. $ENGINE_MAIN is the program, $TINY_MODEL the tool that makes models. */
#include "test.h"

#include <math.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/json.h"
#include "client.h"

/* With f32 everywhere a text does not depend on what else is in the batch: noise has no clear favourites. */
#define PLAIN "'extra_bufts': false, 'threads': 1, 'type_k': 'f32', 'type_v': 'f32', 'flash_attn': 'off'"
#define FOUR  ", 'n_seq': 4, 'n_ctx': 4096"

static char dir[256], dense[300], moe[300], think[300], vectors[300];

static void make(char *path, const char *name, const char *options)
{
    char command[1024];
    snprintf(path, 300, "%s/%s.gguf", dir, name);
    snprintf(command, sizeof command, "%s %s %s", getenv("TINY_MODEL"), path, options);
    if (system(command) != 0) fail_msg("cannot make a model: %s", command);
}

static int setup(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "%s/engine-e2e-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (!mkdtemp(dir) || !getenv("TINY_MODEL")) return -1;
    make(dense, "dense", "--ctx 65536 --type f32");
    make(moe, "moe", "--experts 4 --used 2 --type f32");
    make(think, "think", "--template think");
    make(vectors, "vectors", "--embedding");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    char command[400];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}

static void up(struct client *c, const char *model, const char *more)
{
    client_start(c, "{'model': '%s', " PLAIN "%s}", model, more);
    if (!c->ready) fail_msg("not up: %s", json_string_value(json_object_get(c->failed, "message")));
}

static void down(struct client *c) { assert_int_equal(client_stop(c, 0), 0); }

/* A request that ends well; its text. */
static char *ask_text(struct client *c, const char *body)
{
    struct answer a;
    client_ask(c, &a, 1, "{%s}", body);
    client_wait(c, &a);
    if (a.error) fail_msg("%s: %s", body, json_string_value(json_object_get(a.error, "message")));
    char *text = strdup(vr_buf_str(&a.text[0]));
    answer_done(&a);
    return text;
}

#define GREEDY                                                                                                         \
    "'kind': 'completion', 'prompt': 'the rain in spain and then another one', 'max_tokens': 48, 'temperature': 0"

/* --- placement --- */

static void test_same_text_everywhere(void **state)
{
    (void)state;
#define THREE "'vgpus': [{'name':'CUDA0','mib':64},{'name':'CUDA1','mib':24},{'name':'CUDA2','mib':40,'cc':890}]"
    static const struct {
        const char *what, *more;
        bool experts;
        int n_devices;
    } rows[] = {
        { "dense, three cards",
          FOUR ", " THREE ", 'devices': ['CUDA2','CUDA0','CUDA1'], 'tensor_split': [3,3,1], 'n_gpu_layers': 7", false,
          3 },
        { "dense, half on the host",
          FOUR ", " THREE ", 'devices': ['CUDA1','CUDA0'], 'tensor_split': [2,2], 'n_gpu_layers': 4", false, 2 },
        { "dense, no pipeline",
          FOUR ", " THREE ", 'devices': ['CUDA0','CUDA1','CUDA2'], 'tensor_split': [1,1,5], 'n_gpu_layers': 7,"
               " 'pipeline': false",
          false, 3 },
        { "experts, three cards",
          FOUR ", " THREE ", 'devices': ['CUDA0','CUDA1','CUDA2'], 'tensor_split': [4,1,2], 'n_gpu_layers': 7", true,
          3 },
        { "experts on the host",
          FOUR ", " THREE ", 'devices': ['CUDA0','CUDA1','CUDA2'], 'tensor_split': [2,2,3], 'n_gpu_layers': 7,"
               " 'overrides': [{'pattern':'ffn_.*_exps','device':'CPU'}]",
          true, 3 },
        { "one expert tensor elsewhere",
          FOUR
          ", " THREE ", 'devices': ['CUDA0','CUDA1'], 'tensor_split': [4,3], 'n_gpu_layers': 7,"
          " 'overrides': "
          "[{'pattern':'blk\\\\.2\\\\.ffn_up_exps','device':'CUDA1'},{'pattern':'blk\\\\.[45].*exps','device':'CPU'}]",
          true, 2 },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct client c;
        up(&c, rows[i].experts ? moe : dense, FOUR);
        char *want = ask_text(&c, GREEDY);
        assert_true(strlen(want) > 40);
        down(&c);
        up(&c, rows[i].experts ? moe : dense, rows[i].more);
        char *got = ask_text(&c, GREEDY);
        if (strcmp(want, got) != 0) fail_msg("%s: '%s' is not '%s'", rows[i].what, got, want);
        const json_t *devices = json_object_get(c.ready, "devices");
        assert_int_equal(json_array_size(devices), rows[i].n_devices);
        for (size_t k = 0; k < json_array_size(devices); k++)
            assert_true(json_integer_value(json_object_get(json_array_get(devices, k), "model_bytes")) > 0);
        down(&c);
        free(want);
        free(got);
    }
}

static void test_out_of_memory(void **state)
{
    (void)state;
    static const struct {
        const char *moment, *device, *cap, *n_ctx;
    } rows[] = {
        { "load", "CUDA1", "'cap_mib':0.5", "4096" },
        { "context", "CUDA1", "'cap_mib':3", "16384" },
        { "decode", "CUDA1", "'cap_mib':40,'run_mib':64", "4096" },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct client c;
        client_start(
            &c,
            "{'model': '%s', 'n_seq': 1, 'n_ctx': %s, 'n_batch': 128, 'n_ubatch': 128, 'devices': ['CUDA0','CUDA1'], "
            "'tensor_split': [4,3], 'n_gpu_layers': 7, 'vgpus': "
            "[{'name':'CUDA0','mib':256},{'name':'CUDA1','mib':64,%s}]}",
            dense, rows[i].n_ctx, rows[i].cap);
        assert_null(c.ready);
        assert_non_null(c.failed);
        assert_string_equal(json_string_value(json_object_get(c.failed, "moment")), rows[i].moment);
        assert_true(json_is_true(json_object_get(c.failed, "out_of_memory")));
        assert_string_equal(json_string_value(json_object_get(c.failed, "device")), rows[i].device);
        json_int_t asked = json_integer_value(json_object_get(c.failed, "asked_bytes"));
        json_int_t left = json_integer_value(json_object_get(c.failed, "free_bytes"));
        json_int_t missing = json_integer_value(json_object_get(c.failed, "missing_bytes"));
        assert_true(asked > 0 && missing == asked - left);
        assert_contains(json_string_value(json_object_get(c.failed, "message")), "CUDA1");
        assert_true(json_array_size(json_object_get(c.failed, "log")) > 0);
        assert_int_equal(client_stop(&c, 0), 1);
    }
}

static void test_load_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *load, *says;
    } rows[] = {
        { "{}", "\"model\" is missing" },
        { "{'model': '/nowhere/x.gguf'}", "No such file" },
        { "{'model': '/dev/null'}", "did not load" },
        { "{'model': 'x', 'speed': 1}", "\"speed\" is not known" },
        { "{'model': 'x', 'n_seq': 0}", "n_seq" },
        { "{'model': 'MODEL', 'devices': ['CUDA7']}", "does not see the device CUDA7" },
        { "{'model': 'MODEL', 'type_k': 'q9'}", "type_k" },
        { "{'model': 'MODEL', 'chat_template': '{% if %}'}", "chat template" },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct client c;
        VR_AUTO_BUF load = { 0 };
        const char *model = strstr(rows[i].load, "MODEL");
        vr_buf_add(&load, rows[i].load, model ? (size_t)(model - rows[i].load) : strlen(rows[i].load));
        if (model) vr_buf_addf(&load, "%s%s", dense, model + 5);
        client_start(&c, "%s", load.data);
        assert_non_null(c.failed);
        assert_contains(json_string_value(json_object_get(c.failed, "message")), rows[i].says);
        assert_int_equal(client_stop(&c, 0), 1);
    }
}

/* --- texts --- */

static void test_stream_is_the_same(void **state)
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

static void test_echo_tokens_and_prompts(void **state)
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
static void test_characters_are_whole(void **state)
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

static void test_seeds_and_choices(void **state)
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

static void test_prefix_reuse(void **state)
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

/* Twelve at once over four slots: each says what it says alone. */
static void test_many_at_once(void **state)
{
    (void)state;
    static const char *const kv[] = { FOUR, FOUR ", 'kv_unified': true" };
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
static void test_cells_run_out(void **state)
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
    while (!c.status && client_read(&c, 5000)) continue;
    assert_true(json_integer_value(json_object_get(c.status, "preempted")) > 0);
    down(&c);
}

static void test_context_is_full(void **state)
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
    assert_contains(json_string_value(json_object_get(a.error, "message")), "has 300: 45 too many");
    answer_done(&a);
    down(&c);
}

/* --- constraints --- */

static void test_json_schema(void **state)
{
    (void)state;
    static const char *const kinds[] = { "'kind':'chat','messages':[{'role':'user','content':'go'}]",
                                         "'kind':'completion','prompt':'go'" };
    struct client c;
    up(&c, dense, FOUR);
    for (size_t k = 0; k < 16; k++) { /* fences around JSON, which some templates allow, must not come through */
        struct answer a;
        client_ask(
            &c, &a, 1,
            "{%s, 'max_tokens': 400, 'temperature': %s, 'seed': %zu, 'stream': true, 'response_format': {'type': "
            "'json_schema', "
            "'json_schema': {'name': 'x', 'schema': {'type':'object','properties':{'n':{'type':'integer','minimum':3,"
            "'maximum':40},'s':{'type':'string','maxLength':6},'e':{'enum':['red','green']},'l':{'type':'array','items'"
            ":"
            "{'type':'boolean'},'minItems':1,'maxItems':3}},'required':['n','s','e','l'],'additionalProperties':false}}"
            "}}",
            kinds[k % 2], k < 2 ? "0" : "1", k);
        client_wait(&c, &a);
        if (a.error) fail_msg("%s", json_string_value(json_object_get(a.error, "message")));
        assert_int_equal(a.end[0].reason, VR_END_STOP);
        json_error_t at;
        json_t *j = json_loads(vr_buf_str(&a.text[0]), 0, &at);
        if (!j) fail_msg("not JSON: '%s' (%s)", vr_buf_str(&a.text[0]), at.text);
        json_int_t n = json_integer_value(json_object_get(j, "n"));
        assert_true(n >= 3 && n <= 40);
        assert_int_equal(json_object_size(j), 4);
        assert_in_range(json_array_size(json_object_get(j, "l")), 1, 3);
        json_decref(j);
        answer_done(&a);
    }
    down(&c);
}

#define TOOLS                                                                                                          \
    "'tools': [{'type':'function','function':{'name':'get_weather','description':'w','parameters':{'type':'object',"   \
    "'properties':{'city':{'type':'string','enum':['Paris','Rome']},'days':{'type':'integer'}},'required':['city','"   \
    "days'],"                                                                                                          \
    "'additionalProperties':false}}},{'type':'function','function':{'name':'other','parameters':{'type':'object'}}}]"

static void test_tools(void **state)
{
    (void)state;
    static const char *const streams[] = { "true", "false" };
    struct client c;
    up(&c, dense, FOUR);
    for (size_t k = 0; k < VR_COUNT(streams); k++) {
        struct answer a;
        /* the model has no wish to call anything: the token before a call (510) is made attractive */
        client_ask(
            &c, &a, 1,
            "{'kind':'chat','messages':[{'role':'user','content':'weather?'}],'max_tokens':300,'temperature':0,'stream'"
            ":%s,"
            "'parallel_tool_calls':false,'logit_bias':{'510':100},'tool_choice':{'type':'function','function':{'name':"
            "'get_weather'}}," TOOLS "}",
            streams[k]);
        client_wait(&c, &a);
        if (a.error) fail_msg("%s", json_string_value(json_object_get(a.error, "message")));
        assert_int_equal(a.end[0].reason, VR_END_TOOL_CALLS);
        VR_AUTO_BUF list = { 0 };
        vr_buf_addf(&list, "[%s]", vr_buf_str(&a.tools[0]));
        json_t *deltas = json_loads(list.data, 0, NULL);
        assert_non_null(deltas);
        VR_AUTO_BUF arguments = { 0 };
        for (size_t i = 0; i < json_array_size(deltas); i++) {
            const json_t *d = json_array_get(deltas, i), *f = json_object_get(d, "function");
            assert_int_equal(json_integer_value(json_object_get(d, "index")), 0);
            if (i == 0) assert_string_equal(json_string_value(json_object_get(f, "name")), "get_weather");
            if (i == 0)
                assert_memory_equal(json_string_value(json_object_get(d, "id")), "call_", 5);
            else
                assert_null(json_object_get(d, "id"));
            vr_buf_adds(&arguments, json_string_value(json_object_get(f, "arguments")));
        }
        json_t *args = json_loads(vr_buf_str(&arguments), 0, NULL);
        assert_non_null(args);
        assert_non_null(json_object_get(args, "city"));
        assert_true(json_is_integer(json_object_get(args, "days")));
        json_decref(args);
        json_decref(deltas);
        answer_done(&a);
    }
    /* a conversation that has called before is written out by the template */
    char *text = ask_text(
        &c, "'kind':'chat','max_tokens':4,'messages':[{'role':'system','content':'be brief'},{'role':'user','content':"
            "'weather?'},{'role':'assistant','content':null,'tool_calls':[{'id':'call_1','type':'function',"
            "'function':{'name':'get_weather','arguments':'{\\'city\\':\\'Rome\\'}'}}]},{'role':'tool','tool_call_id':"
            "'call_1','content':'sunny'}]," TOOLS ", 'tool_choice':'none'");
    free(text);
    down(&c);
}

static void test_reasoning(void **state)
{
    (void)state;
    struct client c;
    struct answer a;
    up(&c, think, FOUR);
    assert_true(json_is_true(json_object_get(json_object_get(c.ready, "chat"), "reasoning")));
    for (int stream = 0; stream < 2; stream++) {
        client_ask(&c, &a, 1,
                   "{'kind':'chat','messages':[{'role':'user','content':'why?'}],'max_tokens':200,'stream':%s,"
                   "'grammar':'root ::= \\'let me see\\\\n</think>\\\\n\\\\nbecause \\' [a-z]{3,9}'}",
                   stream ? "true" : "false");
        client_wait(&c, &a);
        if (a.error) fail_msg("%s", json_string_value(json_object_get(a.error, "message")));
        assert_memory_equal(vr_buf_str(&a.reasoning[0]), "let me see", 10);
        assert_null(strstr(vr_buf_str(&a.reasoning[0]), "think"));
        assert_memory_equal(vr_buf_str(&a.text[0]), "because ", 8);
        assert_true(stream == 0 || a.end[0].reasoning_tokens > 5);
        answer_done(&a);
    }
    client_ask(&c, &a, 1,
               "{'kind':'chat','messages':[{'role':'user','content':'why?'}],'max_tokens':60,'reasoning_format':'none',"
               "'grammar':'root ::= \\'x</think>y\\''}");
    client_wait(&c, &a);
    assert_string_equal(vr_buf_str(&a.text[0]), "<think>\nx</think>y");
    answer_done(&a);
    client_ask(&c, &a, 1,
               "{'kind':'chat','messages':[{'role':'user','content':'why?'}],'max_tokens':60,'reasoning_effort':'none',"
               "'grammar':'root ::= \\'at once\\''}");
    client_wait(&c, &a);
    assert_string_equal(vr_buf_str(&a.text[0]), "at once");
    answer_done(&a);
    /* what the template is told by name */
    client_ask(&c, &a, 1,
               "{'kind':'chat','messages':[{'role':'user','content':'why?'}],'max_tokens':60,'chat_template_kwargs':"
               "{'enable_thinking':false,'more':[1,{'x':null}],'text':'y'},'grammar':'root ::= \\'now\\''}");
    client_wait(&c, &a);
    assert_null(a.error);
    assert_string_equal(vr_buf_str(&a.text[0]), "now");
    answer_done(&a);
    down(&c);
}

static void test_logprobs(void **state)
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

/* What must be refused, and how it is said. The engine must live after each. */
static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *body, *param, *says;
    } rows[] = {
        { "'kind':'dance'", "kind", "must be" },
        { "'kind':'completion'", "prompt", "must be" },
        { "'kind':'completion','prompt':''", "prompt", "empty" },
        { "'kind':'completion','prompt':[1,99999]", "prompt", "tokens of this model" },
        { "'kind':'completion','prompt':'x','temperature':-1", "temperature", "from 0" },
        { "'kind':'completion','prompt':'x','n':17", "n", "16" },
        { "'kind':'completion','prompt':'x','n':1.5", "n", "whole" },
        { "'kind':'completion','prompt':'x','stop':['a','b','c','d','e','f','g','h','i','j','k','l','m','n','o','p','q'"
          "]",
          "stop", "at most 16" },
        { "'kind':'completion','prompt':'x','stop':['']", "stop", "empty" },
        { "'kind':'completion','prompt':'x','logit_bias':{'banana':1}", "logit_bias", "no token" },
        { "'kind':'completion','prompt':'x','logit_bias':{'5':101}", "logit_bias", "-100" },
        { "'kind':'completion','prompt':'x','logprobs':21", "logprobs", "20" },
        { "'kind':'chat','messages':[]", "messages", "not empty" },
        { "'kind':'chat','messages':[{'role':'user','content':[{'type':'image_url','image_url':{'url':'x'}}]}]",
          "messages", "text only" },
        { "'kind':'chat','messages':[{'role':'user','content':'x'}],'top_logprobs':2", "top_logprobs", "needs" },
        { "'kind':'chat','messages':[{'role':'user','content':'x'}],'tool_choice':'required'", "tool_choice", "needs" },
        { "'kind':'chat','messages':[{'role':'user','content':'x'}],'tool_choice':{'type':'function','function':{'name'"
          ":'no'}}," TOOLS,
          "tool_choice", "not in" },
        { "'kind':'completion','prompt':'x','grammar':'nothing'", "grammar", "not valid" },
        { "'kind':'completion','prompt':'x','grammar':'root ::= [a]{5,3}'", "grammar", "at most 3" },
        { "'kind':'completion','prompt':'x','grammar':'root ::= root \\'a\\''", "grammar", "not valid" },
        { "'kind':'completion','prompt':'x','response_format':{'type':'xml'}", "response_format", "must have" },
        { "'kind':'completion','prompt':'x','response_format':{'type':'json_schema','json_schema':{'schema':{'type':'"
          "number','minimum':1}}}",
          "response_format.json_schema.schema", "integers only" },
        { "'kind':'completion','prompt':'x','response_format':{'type':'json_schema','json_schema':{'schema':{'type':'"
          "string','pattern':'a+'}}}",
          "response_format.json_schema.schema", "must begin with" },
        { "'kind':'embedding','input':'x'", "model", "not started for embeddings" },
    };
    struct client c;
    struct answer a;
    up(&c, dense, FOUR);
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        client_ask(&c, &a, 1, "{%s}", rows[i].body);
        client_wait(&c, &a);
        if (a.status != 400) fail_msg("%s: status %d", rows[i].body, a.status);
        const char *param = json_string_value(json_object_get(a.error, "param"));
        if (!param || strcmp(param, rows[i].param) != 0) fail_msg("%s: param %s", rows[i].body, param ? param : "none");
        assert_contains(json_string_value(json_object_get(a.error, "message")), rows[i].says);
        answer_done(&a);
    }
    /* bytes that are no text */
    static const char *const raw[] = { "",
                                       "{",
                                       "[]",
                                       "{\"kind\":\"completion\",\"prompt\":\"\xff\"}",
                                       "{\"kind\":\"completion\",\"prompt\":\"\\ud800\"}",
                                       "{\"kind\":\"completion\",\"kind\":\"chat\"}" };
    for (size_t i = 0; i < VR_COUNT(raw); i++) {
        client_ask_raw(&c, &a, 1, raw[i], strlen(raw[i]));
        client_wait(&c, &a);
        assert_int_equal(a.status, 400);
        answer_done(&a);
    }
    free(ask_text(&c, GREEDY));
    down(&c);
}

/* Grammars made to hurt: 60,000 nested groups; 2^40 ways to begin; schemas likewise. */
static void test_hostile_grammars(void **state)
{
    (void)state;
    struct client c;
    struct answer a;
    up(&c, dense, FOUR);
    for (int i = 0; i < 6; i++) {
        VR_AUTO_BUF b = { 0 };
        vr_buf_adds(&b, "{\"kind\":\"completion\",\"prompt\":\"x\",\"max_tokens\":100,");
        if (i == 0) {
            vr_buf_adds(&b, "\"grammar\":\"root ::= ");
            vr_buf_addc(&b, '(', 60000);
            vr_buf_adds(&b, "\\\"a\\\"");
            vr_buf_addc(&b, ')', 60000);
            vr_buf_adds(&b, "\"}");
        } else if (i == 1) {
            vr_buf_adds(&b, "\"grammar\":\"root ::= ");
            vr_buf_addc(&b, '(', 20000);
            vr_buf_adds(&b, "\\\"a\\\"");
            vr_buf_addc(&b, ')', 20000);
            vr_buf_adds(&b, "\"}");
        } else if (i == 2) {
            vr_buf_adds(&b, "\"grammar\":\"root ::= r0\\n");
            for (int k = 0; k < 60; k++) vr_buf_addf(&b, "r%d ::= r%d | r%d\\n", k, k + 1, k + 1);
            vr_buf_adds(&b, "r60 ::= [a]\"}");
        } else if (i == 5) { /* harmless to parse; its readings of a text double with every letter */
            vr_buf_adds(&b, "\"grammar\":\"root ::= a\\na ::= (c) a* [x]*\\nc ::= . ([a-z] | [q])+{2}*\"}");
        } else if (i == 3) {
            vr_buf_adds(&b, "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"schema\":");
            for (int k = 0; k < 500; k++) vr_buf_adds(&b, "{\"type\":\"array\",\"items\":");
            vr_buf_adds(&b, "{}");
            vr_buf_addc(&b, '}', 500);
            vr_buf_adds(&b, "}}}");
        } else {
            vr_buf_adds(&b, "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"schema\":{\"$ref\":\"#/"
                            "$defs/a0\",\"$defs\":{");
            for (int k = 0; k < 50; k++)
                vr_buf_addf(&b, "\"a%d\":{\"anyOf\":[{\"$ref\":\"#/$defs/a%d\"},{\"$ref\":\"#/$defs/a%d\"}]},", k,
                            k + 1, k + 1);
            vr_buf_adds(&b, "\"a50\":{\"type\":\"integer\"}}}}}}");
        }
        double t0 = client_now_ms();
        client_ask_raw(&c, &a, 1, b.data, b.n);
        client_wait(&c, &a);
        if (a.status != 400) fail_msg("grammar %d: status %d", i, a.status);
        assert_true(client_now_ms() - t0 < 2000);
        answer_done(&a);
    }
    free(ask_text(&c, GREEDY));
    down(&c);
}

/* --- time --- */

static void test_cancel(void **state)
{
    (void)state;
    struct client c;
    struct answer a, b;
    up(&c, dense, ", 'n_ctx': 65536, 'n_seq': 4");
    VR_AUTO_BUF prompt = { 0 };
    for (int i = 0; i < 1500; i++) vr_buf_addf(&prompt, "%d ", i);
    double worst = 0;
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
        double t0 = client_now_ms();
        client_send(&c, VR_WIRE_CANCEL, a.id, NULL, 0);
        client_wait(&c, &a);
        worst = fmax(worst, client_now_ms() - t0);
        assert_int_equal(a.end[0].reason, VR_END_CANCELLED);
        answer_done(&a);
    }
    print_message("cancelled within %.1f ms\n", worst);
    assert_true(worst < 100);
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
static void test_fairness(void **state)
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
    double last = client_now_ms(), gap = 0;
    while (!big.over) {
        unsigned n = stream.n_deltas;
        if (!client_read(&c, 30000)) break;
        if (stream.n_deltas == n) continue;
        gap = fmax(gap, client_now_ms() - last);
        last = client_now_ms();
    }
    print_message("%u pieces of the stream while %u tokens of prompt were computed, at most %.0f ms apart\n",
                  stream.n_deltas - before, big.begin.prompt_tokens, gap);
    assert_true(stream.n_deltas - before >= 8);
    assert_true(big.begin.prompt_tokens > 5000);
    client_send(&c, VR_WIRE_CANCEL, stream.id, NULL, 0);
    client_wait(&c, &stream);
    answer_done(&stream);
    answer_done(&big);
    down(&c);
}

/* --- embeddings --- */

static double dot(const float *a, const float *b, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) sum += (double)a[i] * (double)b[i];
    return sum;
}

static void test_embeddings(void **state)
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

/* --- the process --- */

static int ended(struct client *c, double *ms)
{
    double t0 = client_now_ms();
    int status = 0;
    waitpid(c->pid, &status, 0);
    *ms = client_now_ms() - t0;
    json_decref(c->ready);
    json_decref(c->status);
    vr_buf_done(&c->in);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void test_hang_up_and_nonsense(void **state)
{
    (void)state;
    struct client c;
    struct answer a;
    double ms;
    up(&c, dense, FOUR);
    client_ask(&c, &a, 1, "{'kind':'completion','prompt':'abc','max_tokens':1000,'ignore_eos':true}");
    close(c.fd);
    assert_int_equal(ended(&c, &ms), 0);
    assert_true(ms < 500);
    answer_done(&a);
    static const char *const nonsense[] = { "GET / HTTP/1.1\r\n\r\n", "\xff\xff\xff\xff\x02\0\0\0\0",
                                            "\0\0\0\0\x41\0\0\0\0" };
    for (size_t i = 0; i < VR_COUNT(nonsense); i++) {
        up(&c, dense, FOUR);
        assert_true(send(c.fd, nonsense[i], i == 0 ? 18 : 9, MSG_NOSIGNAL) > 0);
        assert_int_equal(ended(&c, &ms), 0);
        close(c.fd);
    }
}

static void test_stop_finishes_streams(void **state)
{
    (void)state;
    struct client c;
    struct answer a, b;
    up(&c, dense, FOUR);
    client_ask(&c, &a, 1, "{'kind':'completion','prompt':'abc','max_tokens':30,'ignore_eos':true}");
    while (!a.begun) client_read(&c, 1000);
    VR_AUTO_BUF stop = { 0 };
    vr_wire_add_stop(&stop, 10000);
    assert_true(send(c.fd, stop.data, stop.n, 0) > 0);
    client_ask(&c, &b, 1, "{'kind':'completion','prompt':'abc'}");
    client_wait(&c, &b);
    assert_int_equal(b.status, 503);
    client_wait(&c, &a);
    assert_int_equal(a.end[0].completion_tokens, 30);
    answer_done(&a);
    answer_done(&b);
    assert_int_equal(client_stop(&c, 0), 0);
    /* and those that take too long are cut off */
    up(&c, dense, ", 'n_seq': 4, 'n_ctx': 65536");
    client_ask(&c, &a, 1, "{'kind':'completion','prompt':'abc','max_tokens':100000,'ignore_eos':true}");
    while (!a.begun) client_read(&c, 1000);
    double t0 = client_now_ms();
    assert_int_equal(client_stop(&c, 100), 0);
    assert_true(a.over && a.end[0].reason == VR_END_CANCELLED);
    assert_true(client_now_ms() - t0 < 1500);
    answer_done(&a);
}

/* Nobody reads: the engine waits, and everything is there in the end. */
static void test_front_that_does_not_read(void **state)
{
    (void)state;
    struct client c;
    static struct answer a[32];
    up(&c, dense, ", 'n_seq': 4, 'n_ctx': 16384");
    for (int i = 0; i < 32; i++)
        client_ask(
            &c, &a[i], 1,
            "{'kind':'completion','prompt':'abc %d','max_tokens':200,'ignore_eos':true,'stream':true,'logprobs':20,"
            "'temperature':1}",
            i);
    usleep(1500000);
    for (int i = 0; i < 32; i++) {
        client_wait(&c, &a[i]);
        assert_int_equal(a[i].end[0].completion_tokens, 200);
        answer_done(&a[i]);
    }
    down(&c);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_text_everywhere),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_load_refusals),
        cmocka_unit_test(test_stream_is_the_same),
        cmocka_unit_test(test_echo_tokens_and_prompts),
        cmocka_unit_test(test_characters_are_whole),
        cmocka_unit_test(test_seeds_and_choices),
        cmocka_unit_test(test_prefix_reuse),
        cmocka_unit_test(test_many_at_once),
        cmocka_unit_test(test_cells_run_out),
        cmocka_unit_test(test_context_is_full),
        cmocka_unit_test(test_json_schema),
        cmocka_unit_test(test_tools),
        cmocka_unit_test(test_reasoning),
        cmocka_unit_test(test_logprobs),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_hostile_grammars),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_fairness),
        cmocka_unit_test(test_embeddings),
        cmocka_unit_test(test_hang_up_and_nonsense),
        cmocka_unit_test(test_stop_finishes_streams),
        cmocka_unit_test(test_front_that_does_not_read),
    };
    if (argc == 2) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, setup, teardown);
}
