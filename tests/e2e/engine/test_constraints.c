/* What a text is held to: schemas, tools, reasoning; and what is refused before it reaches the engine. */
#include "test_engine.h"

void test_json_schema(void **state)
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

void test_tools(void **state)
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

void test_reasoning(void **state)
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
    /* what it refused to say before is text that the template knows */
    char *refused =
        ask_text(&c, "'kind':'chat','max_tokens':4,'temperature':0,'messages':[{'role':'user','content':'a'},{'role':'"
                     "assistant','content':[{"
                     "'type':'refusal','refusal':'no'}]},{'role':'assistant','content':null,'refusal':'no'},"
                     "{'role':'user','content':'b'}],'reasoning_effort':'none'");
    char *said = ask_text(
        &c,
        "'kind':'chat','max_tokens':4,'temperature':0,'messages':[{'role':'user','content':'a'},{'role':'assistant',"
        "'content':'no'},{'role':'assistant','content':'no'},{'role':'user','content':'b'}],"
        "'reasoning_effort':'none'");
    assert_string_equal(refused, said);
    free(refused);
    free(said);
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

/* What only the model can refuse, and how it is said. The engine must live after each. */
void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *body, *param, *says;
    } rows[] = {
        { "'kind':'dance'", "kind", "no kind" },
        { "'kind':'completion','prompt':''", "prompt", "empty" },
        { "'kind':'completion','prompt':[1,99999]", "prompt", "tokens of this model" },
        { "'kind':'completion','prompt':'x','logit_bias':{'99999':1}", "logit_bias", "no token" },
        { "'kind':'chat','messages':[{'role':'user','content':[{'type':'image_url','image_url':{'url':'data:image/png;"
          "base64,AAAA'}}]}]",
          "messages", "text only" },
        { "'kind':'completion','prompt':'x','grammar':'root ::= root \\'a\\''", "grammar", "matches no text" },
        { "'kind':'completion','prompt':'x','response_format':{'type':'json_schema','json_schema':{'schema':{'type':'"
          "string','pattern':'(?=a)a+'}}}",
          "response_format.json_schema.schema", "must do without lookarounds" },
        { "'kind':'embedding','input':'x'", "model", "start the server with --embeddings" },
    };
    struct client c;
    struct answer a;
    up(&c, dense, FOUR);
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        client_ask(&c, &a, 1, "{%s}", rows[i].body);
        client_wait(&c, &a);
        if (a.status != 400) fail_msg("%s: status %d", rows[i].body, a.status);
        const char *param = json_string_value(json_object_get(a.error, "param"));
        if (json_object_get(a.error, "by_front")) fail_msg("%s: the front refused it", rows[i].body);
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

/* Grammars made to hurt: 60,000 nested groups; 2^60 ways to begin; schemas likewise. Some are refused, the others cost
 * no more than any. */
void test_hostile_grammars(void **state)
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
        } else if (i == 5) { /* its readings of a text double with every letter */
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
        client_ask_raw(&c, &a, 1, b.data, b.n);
        client_wait(&c, &a);
        bool refused = i == 0 || i == 1 || i == 3;
        if (i != 5 && (a.status == 400) != refused) fail_msg("grammar %d: status %d", i, a.status);
        answer_done(&a);
    }
    free(ask_text(&c, GREEDY));
    down(&c);
}
