/* Requests: what is taken, what is refused and by which name, and what the engine gets of them. */
#include "test.h"

#include "base/buf.h"
#include "engine/wire/request_check.h"

/* ' stands for " */
static json_t *tree(const char *text)
{
    VR_AUTO_BUF b = { 0 };
    vr_buf_adds(&b, text);
    for (size_t i = 0; i < b.n; i++)
        if (b.data[i] == '\'') b.data[i] = '"';
    json_error_t at;
    json_t *j = json_loads(vr_buf_str(&b), 0, &at);
    if (!j) fail_msg("%s: %s", text, at.text);
    return j;
}

#define CHAT       "'messages':[{'role':'user','content':'x'}]"
#define TOOLS      "'tools':[{'type':'function','function':{'name':'f'}}]"
#define IMAGE(url) "{'type':'image_url','image_url':{'url':'" url "'}}"
#define SOUND(of)  "{'type':'input_audio','input_audio':{" of "}}"
#define PNG        IMAGE("data:image/png;base64,AAAA")

static const struct {
    enum vr_request_kind kind;
    const char *body, *param, *says; /* NULL: taken */
} rows[] = {
    { VR_CHAT, "{" CHAT "}" },
    { VR_COMPLETION, "{'prompt':''}" }, /* whether that is a token, the model says */
    { VR_EMBEDDING, "{'input':['a','b'],'dimensions':8}" },
    { VR_CHAT, "{}", "messages", "missing" },
    { VR_COMPLETION, "{}", "prompt", "missing" },
    { VR_EMBEDDING, "{'input':null}", "input", "missing" },
    { VR_COMPLETION, "{'prompt':'','input_prefix':'','input_suffix':'','input_extra':[{'text':'a'}]}" },
    { VR_COMPLETION, "{'prompt':'','input_prefix':'a'}", "input_suffix", "missing" },
    { VR_COMPLETION, "{'prompt':'','input_extra':[]}", "input_prefix", "missing" },
    { VR_COMPLETION, "{'prompt':[1],'input_prefix':'a','input_suffix':''}", "prompt", "string" },
    { VR_COMPLETION, "{'prompt':'','input_prefix':'a','input_suffix':'','input_extra':{}}", "input_extra", "array" },
    { VR_COMPLETION, "{'prompt':'','input_prefix':'a','input_suffix':'','input_extra':[{'filename':'b'}]}",
      "input_extra", "'input_extra[0]'" },
    { VR_COMPLETION, "{'prompt':'','input_prefix':'a','input_suffix':'','input_extra':[{'filename':1,'text':'b'}]}",
      "input_extra", "'input_extra[0]'" },
    { VR_CHAT, "{'messages':[{'role':'user','content':[" SOUND("'data':'UklGRg==','format':'wav'") "]}]}" },
    { VR_CHAT, "{'messages':[{'role':'user','content':[" SOUND("'data':'UklGRg=='") "]}]}" },
    { VR_CHAT, "{'messages':[{'role':'user','content':[" SOUND("'data':''") "]}]}", "messages[0].content[0]",
      "base64" },
    { VR_CHAT, "{'messages':[{'role':'user','content':[" SOUND("'data':7") "]}]}", "messages[0].content[0]", "base64" },
    { VR_CHAT, "{'messages':[{'role':'user','content':[" SOUND("'data':'AAAA','format':'ogg'") "]}]}",
      "messages[0].content[0]", "wav, mp3 or flac" },
    { VR_CHAT, "{" CHAT ",'lora':[{'id':0,'scale':-0.5}]}" },
    { VR_COMPLETION, "{'prompt':'x','lora':[]}" },
    { VR_COMPLETION, "{'prompt':'x','lora':{}}", "lora", "array of at most 8" },
    { VR_COMPLETION, "{'prompt':'x','lora':[0,1,2,3,4,5,6,7,8]}", "lora", "at most 8" },
    { VR_COMPLETION, "{'prompt':'x','lora':[{'id':0}]}", "lora", "'lora[0]'" },
    { VR_COMPLETION, "{'prompt':'x','lora':[{'id':-1,'scale':1}]}", "lora", "'lora[0]'" },
    { VR_COMPLETION, "{'prompt':'x','lora':[{'id':0,'scale':1},{'id':1,'scale':101}]}", "lora", "'lora[1]'" },
    { VR_COMPLETION, "{'prompt':'x','lora':[{'id':0,'scale':1,'more':1}]}", "lora", "'lora[0]'" },
    { VR_RERANK, "{'query':'q','documents':['a','']}" },
    { VR_RERANK, "{'documents':['a']}", "query", "missing" },
    { VR_RERANK, "{'query':'q'}", "documents", "missing" },
    { VR_RERANK, "{'query':'','documents':['a']}", "query", "" },
    { VR_RERANK, "{'query':'q','documents':'a'}", "documents", "array" },
    { VR_RERANK, "{'query':'q','documents':[]}", "documents", "at least one" },
    { VR_RERANK, "{'query':'q','documents':['a',{'text':'b'}]}", "documents", "documents[1]" },
    { VR_RERANK, "{'query':'q','documents':['a'],'temperature':1}", "temperature", "" },

    /* one range */
    { VR_COMPLETION, "{'prompt':'x','temperature':2}" },
    { VR_COMPLETION, "{'prompt':'x','temperature':2.5}", "temperature", "from 0 to 2" },
    { VR_COMPLETION, "{'prompt':'x','temperature':-1}", "temperature", "from 0 to 2" },
    { VR_COMPLETION, "{'prompt':'x','repeat_penalty':11}", "repeat_penalty", "to 10" },
    { VR_COMPLETION, "{'prompt':'x','max_tokens':2000000000}", "max_tokens", "from 0" },
    { VR_COMPLETION, "{'prompt':'x','n':17}", "n", "to 16" },
    { VR_COMPLETION, "{'prompt':'x','n':1.5}", "n", "integer" },
    { VR_COMPLETION, "{'prompt':['a','b','c','d','e','f','g','h','i'],'n':16}", "n", "at most 128" },
    { VR_COMPLETION, "{'prompt':'x','stop':['']}", "stop", "1 to 256 bytes" },
    { VR_COMPLETION, "{'prompt':'x','stop':['1','2','3','4','5','6','7','8','9','0','1','2','3','4','5','6','7']}",
      "stop", "at most 16" },
    { VR_COMPLETION, "{'prompt':[1,'a',2]}" },
    { VR_COMPLETION, "{'prompt':[[1,'a'],'b',[2]]}" },
    { VR_COMPLETION, "{'prompt':['a',[1]]}" },
    { VR_COMPLETION, "{'prompt':[1,['a']]}", "prompt", "neither" },
    { VR_COMPLETION, "{'prompt':[['a','b']]}", "prompt", "neither" },
    { VR_COMPLETION, "{'prompt':[1,-1]}", "prompt", "neither" },
    { VR_EMBEDDING, "{'input':[1,'']}", "input", "empty" },
    { VR_COMPLETION, "{'prompt':'x','n_predict':5.0,'id_slot':0,'json_schema':{'const':1}}" },
    { VR_COMPLETION, "{'prompt':'x','n_predict':-1,'max_tokens':-1}" },
    { VR_COMPLETION, "{'prompt':'x','n_predict':5,'max_tokens':6}", "n_predict", "not both" },
    { VR_COMPLETION, "{'prompt':'x','n_predict':-2}", "n_predict", "from -1" },
    { VR_COMPLETION, "{'prompt':'x','json_schema':{'const':1},'grammar':'root ::= [a]'}", "grammar", "not both" },
    { VR_COMPLETION, "{'prompt':'x','json_schema':{'type':7}}", "response_format.json_schema.schema", "JSON types" },
    { VR_COMPLETION, "{'prompt':'x','logit_bias':{'banana':1}}", "logit_bias", "not a token id" },
    { VR_COMPLETION, "{'prompt':'x','logit_bias':{' 5':1}}", "logit_bias", "not a token id" },
    { VR_COMPLETION, "{'prompt':'x','logit_bias':{'5':101}}", "logit_bias", "-100" },

    /* a name that is two fields */
    { VR_CHAT, "{" CHAT ",'logprobs':true,'top_logprobs':20}" },
    { VR_CHAT, "{" CHAT ",'logprobs':5}", "logprobs", "true or false" },
    { VR_CHAT, "{" CHAT ",'top_logprobs':0}", "top_logprobs", "needs" },
    { VR_COMPLETION, "{'prompt':'x','logprobs':20}" },
    { VR_COMPLETION, "{'prompt':'x','logprobs':21}", "logprobs", "to 20" },
    { VR_COMPLETION, "{'prompt':'x','logprobs':true}", "logprobs", "integer" },
    { VR_COMPLETION, "{'prompt':'x','echo':true,'logprobs':0}", "echo", "together" },
    { VR_COMPLETION, "{'prompt':'x','echo':false,'logprobs':0}" },

    /* nothing has no embedding */
    { VR_EMBEDDING, "{'input':''}", "input", "empty" },
    { VR_EMBEDDING, "{'input':['a','']}", "input", "'input[1]' is empty" },

    /* what a template is told */
    { VR_CHAT, "{" CHAT ",'chat_template_kwargs':{'enable_thinking':true,'documents':[{'title':'x'}]}}" },
    { VR_CHAT, "{" CHAT ",'chat_template_kwargs':{'enable_thinking':1}}", "chat_template_kwargs", "true or false" },
    { VR_CHAT, "{" CHAT ",'chat_template_kwargs':[]}", "chat_template_kwargs", "an object" },
    { VR_CHAT, "{" CHAT ",'reasoning_effort':'lots'}", "reasoning_effort", "one of none, " },
    { VR_CHAT, "{" CHAT ",'reasoning_format':'xml'}", "reasoning_format", "one of auto, " },

    /* refusals that clients send back */
    { VR_CHAT, "{'messages':[{'role':'assistant','content':[{'type':'refusal','refusal':'no'}]}]}" },
    { VR_CHAT, "{'messages':[{'role':'assistant','content':null,'refusal':'no'}]}" },
    { VR_CHAT, "{'messages':[{'role':'assistant','content':null,'refusal':5}]}", "messages[0].refusal", "a string" },
    { VR_CHAT, "{'messages':[{'role':'assistant','content':[{'type':'refusal','text':'no'}]}]}",
      "messages[0].content[0].refusal", "a string" },
    { VR_CHAT, "{'messages':[{'role':'user','content':[{'type':'refusal','refusal':'no'}]}]}", "messages[0].content[0]",
      "an assistant's" },

    /* pictures, as far as they can be seen from outside */
    { VR_CHAT, "{'messages':[{'role':'user','content':[" PNG "]}]}" },
    { VR_CHAT, "{'messages':[{'role':'user','content':[" IMAGE("http://x/y.png") "]}]}", "messages[0].content[0]",
      "does not fetch remote images" },
    { VR_CHAT, "{'messages':[{'role':'user','content':[{'type':'image_url','image_url':'x'}]}]}",
      "messages[0].content[0]", "must be a string" },
    { VR_CHAT,
      "{'messages':[{'role':'user','content':[" PNG "," PNG "," PNG "," PNG "," PNG "," PNG "," PNG "," PNG
      "]},{'role':'user','content':[" PNG "," PNG "," PNG "," PNG "," PNG "," PNG "," PNG "," PNG "," PNG "]}]}",
      "messages[1].content[8]", "more than 16 images" },

    /* tools, and what they exclude */
    { VR_CHAT, "{" CHAT "," TOOLS ",'tool_choice':'required'}" },
    { VR_CHAT, "{" CHAT ",'tool_choice':'none'}" },
    { VR_CHAT, "{" CHAT ",'tool_choice':'required'}", "tool_choice", "needs 'tools'" },
    { VR_CHAT, "{" CHAT ",'tools':[],'tool_choice':'required'}", "tool_choice", "needs 'tools'" },
    { VR_CHAT, "{" CHAT ",'tool_choice':{'type':'function','function':{'name':'f'}}}", "tool_choice", "needs 'tools'" },
    { VR_CHAT, "{" CHAT "," TOOLS ",'tool_choice':{'type':'function','function':{'name':'g'}}}", "tool_choice",
      "not in 'tools'" },
    { VR_CHAT, "{" CHAT "," TOOLS ",'grammar':'root ::= [a]'}", "grammar", "not both" },
    { VR_CHAT, "{" CHAT "," TOOLS ",'response_format':{'type':'json_object'}}", "response_format", "exclude" },
    { VR_CHAT, "{" CHAT "," TOOLS ",'response_format':{'type':'text'}}" },
    { VR_CHAT, "{" CHAT "," TOOLS ",'response_format':{'type':'json_object'},'tool_choice':'none'}" },
    { VR_COMPLETION, "{'prompt':'x','grammar':'root ::= [a]','response_format':{'type':'text'}}", "grammar",
      "not both" },
    { VR_COMPLETION, "{'prompt':'x','grammar':'root ::= [a]{5,3}'}", "grammar", "at most 3" },
    { VR_COMPLETION, "{'prompt':'x','response_format':{'type':'xml'}}", "response_format", "must be text" },
    { VR_COMPLETION, "{'prompt':'x','response_format':{'type':'json_schema','json_schema':{'schema':{'type':'number','"
                     "minimum':1}}}}" },
    { VR_COMPLETION,
      "{'prompt':'x','response_format':{'type':'json_schema','json_schema':{'schema':{'type':'number','multipleOf':1}}}"
      "}",
      "response_format.json_schema.schema", "\"multipleOf\" cannot" },
    { VR_CHAT,
      "{" CHAT ",'tools':[{'type':'function','function':{'name':'f','strict':true,'parameters':{'type':'object','"
      "properties':{'a':"
      "{'type':'number','minimum':1}}}}}]}",
      "tools[0].function.parameters", "of a tool can be enforced for integers only" },
};

static void test_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct vr_refusal why = { 0 };
        json_t *body = tree(rows[i].body);
        bool ok = vr_request_check(body, rows[i].kind, &why);
        if (ok != !rows[i].param) fail_msg("%s: %s", rows[i].body, ok ? "taken" : why.message);
        if (!ok) {
            assert_int_equal(why.status, 400);
            assert_string_equal(why.param, rows[i].param);
            assert_contains(why.message, rows[i].says);
            assert_non_null(why.code);
        }
        json_decref(body);
    }
}

/* The engine gets the fields that are its own; a refusal is the text that it was. */
static void test_stripped(void **state)
{
    (void)state;
    static const struct {
        enum vr_request_kind kind;
        const char *body, *left;
    } strips[] = {
        { VR_CHAT,
          "{'model':'m','user':'u','top_p':null,'stream':true,'stream_options':{'include_usage':true},'store':false,"
          "'messages':[{'role':'assistant','content':[{'type':'refusal','refusal':'no'},{'type':'text','text':'t'}],"
          "'annotations':[]},{'role':'assistant','content':null,'refusal':'never','tool_calls':null}]}",
          "{'stream':true,'kind':'chat','messages':[{'role':'assistant','content':[{'type':'text','text':'no'},{'type':"
          "'text','text':'t'}]},{'role':'assistant','content':'never'}]}" },
        { VR_COMPLETION, "{'model':'m','prompt':'x','best_of':1,'suffix':''}", "{'prompt':'x','kind':'completion'}" },
        { VR_COMPLETION, "{'prompt':'x','suffix':'y'}",
          "{'prompt':'','input_prefix':'x','input_suffix':'y','kind':'completion'}" },
        /* what means the same in another form */
        { VR_COMPLETION, "{'prompt':'x','max_tokens':-1,'top_k':40.0,'stream_options':{'include_usage':true}}",
          "{'prompt':'x','max_tokens':1073741824,'top_k':40,'kind':'completion'}" },
        { VR_CHAT,
          "{'messages':[{'role':'assistant','content':'x','tool_calls':[{'id':'a','function':{'name':'f','arguments':"
          "''}}]}],'max_tokens':5,'max_completion_tokens':5.0,'store':true,'verbosity':'low','response_format':{'type':"
          "'json_object','schema':{'type':'object'}}}",
          "{'messages':[{'role':'assistant','content':'x','tool_calls':[{'id':'a','function':{'name':'f','arguments':"
          "'{}'}}]}],'max_tokens':5,'max_completion_tokens':5,'response_format':{'type':'json_schema','schema':{'type':"
          "'object'},'json_schema':{'name':'answer','schema':{'type':'object'}}},'kind':'chat'}" },
        { VR_EMBEDDING, "{'input':[1,2],'encoding_format':'base64','dimensions':8}",
          "{'input':[1,2],'dimensions':8,'kind':'embedding'}" },
    };
    for (size_t i = 0; i < VR_COUNT(strips); i++) {
        struct vr_refusal why = { 0 };
        json_t *body = tree(strips[i].body), *left = tree(strips[i].left);
        if (!vr_request_check(body, strips[i].kind, &why)) fail_msg("%s", why.message);
        assert_true(vr_request_strip(body, strips[i].kind, &why));
        VR_AUTO_FREE char *got = json_dumps(body, JSON_COMPACT);
        if (!json_equal(body, left)) fail_msg("%s", got);
        json_decref(body);
        json_decref(left);
    }
}

/* What changes nothing is taken, and named. */
static void test_notes(void **state)
{
    (void)state;
    struct vr_notes notes = { 0 };
    struct vr_refusal why = { .notes = &notes };
    json_t *body = tree("{'messages':[{'role':'user','weight':1,'annotations':[],'content':[{'type':'text','text':'x',"
                        "'cache_control':{}}]}],'tools':[{'type':'function','function':{'name':'f','cost':1}}],"
                        "'response_format':{'type':'text','more':1}}");
    assert_true(vr_request_check(body, VR_CHAT, &why));
    static const char *const names[] = { "messages[0].weight", "messages[0].content[0].cache_control", "tools[0].cost",
                                         "response_format.more" };
    for (size_t i = 0; i < VR_COUNT(names); i++) assert_contains(notes.text, names[i]);
    if (strstr(notes.text, "annotations")) fail_msg("%s", notes.text);
    for (int i = 0; i < 100; i++) vr_notes_add(&notes, "a\r\nb: gr\xc3\xbc\xc3\x9f\x65"); /* one line, of ASCII */
    for (const char *c = notes.text; *c; c++) assert_true(*c >= ' ' && *c <= '~');
    json_decref(body);
}

static void test_choices(void **state)
{
    (void)state;
    static const struct {
        enum vr_request_kind kind;
        const char *body;
        size_t n;
    } counts[] = {
        { VR_CHAT, "{" CHAT ",'n':3}", 3 },
        { VR_COMPLETION, "{'prompt':[1,2,3],'n':2}", 2 },
        { VR_COMPLETION, "{'prompt':['a',[1,2]],'n':2}", 4 },
        { VR_EMBEDDING, "{'input':['a','b']}", 1 },
        { VR_RERANK, "{'query':'q','documents':['a','b']}", 1 },
    };
    for (size_t i = 0; i < VR_COUNT(counts); i++) {
        json_t *body = tree(counts[i].body);
        assert_int_equal(vr_request_choices(body, counts[i].kind), counts[i].n);
        json_decref(body);
    }
}

/* What a client wrote and what was cut comes back as text. */
static void test_refusals_are_text(void **state)
{
    (void)state;
    struct vr_refusal why = { 0 };
    assert_false(vr_refuse(&why, "a\xff", "x", "b\xc3"));
    assert_string_equal(why.param, "a?");
    assert_string_equal(why.message, "b?");
    assert_false(vr_refuse_nomem(&why));
    assert_int_equal(why.status, 503);
}

static void test_kinds(void **state)
{
    (void)state;
    for (enum vr_request_kind k = 0, got; k < VR_N_REQUEST_KINDS; k++)
        assert_true(vr_request_kind_parse(vr_request_kind_name(k), &got) && got == k);
    enum vr_request_kind none;
    assert_false(vr_request_kind_parse("dance", &none));
    assert_false(vr_request_kind_parse(NULL, &none));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),    cmocka_unit_test(test_stripped),          cmocka_unit_test(test_notes),
        cmocka_unit_test(test_choices), cmocka_unit_test(test_refusals_are_text), cmocka_unit_test(test_kinds)
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
