/* Answers made to keep the chat template's parser busy: it is asked less often, and not at all before it could fail. */
#include "test.h"

#include <math.h>

#include "engine/process/deltas.h"
#include "grammar_vocab.h"

static const char template[] =
    "{%- if tools %}{{ '<|im_start|>system\n' }}{%- for tool in tools %}{{ tool | tojson }}{{ '\n' }}{%- endfor %}{{ "
    "'For each call return <tool_call>\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call>"
    "<|im_end|>\n' }}{%- endif %}{%- for message in messages %}{%- if message.role == 'assistant' and "
    "message.tool_calls %}{{ '<|im_start|>assistant\n' }}{%- for tool_call in message.tool_calls %}{{ "
    "'<tool_call>\n{\"name\": \"' + tool_call.function.name + '\", \"arguments\": ' }}{{ tool_call.function.arguments "
    "| "
    "tojson }}{{ '}\n</tool_call>' }}{%- endfor %}{{ '<|im_end|>\n' }}{%- else %}{{ '<|im_start|>' + message.role + "
    "'\n' + message.content + '<|im_end|>\n' }}{%- endif %}{%- endfor %}{%- if add_generation_prompt %}{{ "
    "'<|im_start|>assistant\n' }}{%- endif %}";

static struct grammar_vocab v;
static struct vr_chats *chats;

static struct vr_chat *chat_with(const char *tools, bool parallel)
{
    struct vr_err err = { 0 };
    struct vr_chat_ask ask = { .messages = "[{\"role\":\"user\",\"content\":\"hi\"}]",
                               .tools = tools,
                               .tool_choice = "auto",
                               .parallel = parallel };
    struct vr_chat *c = vr_bridge_chat_new(chats, v.vocab, &ask, &err);
    if (!c) fail_msg("%s", err.msg);
    return c;
}

#define TOOL(name)                                                                                                     \
    "{\"type\":\"function\",\"function\":{\"name\":\"" name                                                            \
    "\",\"description\":\"x\",\"parameters\":{\"type\":\"object\",\"properties\":{\"a\":{}}}}}"

/* A call whose argument is 50,000 brackets. */
static void test_deep(void **state)
{
    (void)state;
    struct vr_err err = { 0 };
    struct vr_request r = { .chat = chat_with("[" TOOL("f") "]", true) };
    struct vr_reply reply;
    VR_AUTO_BUF out = { 0 };
    static const char begin[] = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": ";
    assert_true(vr_reply_init(&reply, &r, 0, &err));
    vr_reply_add(&reply, begin, sizeof begin - 1, NULL, &out);
    for (int i = 0; i < 50000 && !reply.refused; i++) vr_reply_add(&reply, "[", 1, NULL, &out);
    assert_non_null(reply.refused);
    assert_contains(reply.refused, "brackets");
    vr_reply_done(&reply);
    vr_bridge_chat_free(r.chat);
}

/* Calls without end, with many tools to choose from. */
static void test_long(void **state)
{
    (void)state;
    struct vr_err err = { 0 };
    VR_AUTO_BUF tools = { 0 }, out = { 0 }, call = { 0 };
    for (int i = 0; i < 100; i++)
        vr_buf_addf(&tools,
                    "%c{\"type\":\"function\",\"function\":{\"name\":\"tool_number_%d\",\"description\":\"x\","
                    "\"parameters\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\"}}}}}",
                    i ? ',' : '[', i);
    vr_buf_adds(&tools, "]");
    vr_buf_adds(&call, "<tool_call>\n{\"name\": \"tool_number_99\", \"arguments\": {\"a\": \"b\"}}\n</tool_call>\n");
    struct vr_request r = { .chat = chat_with(tools.data, true), .stream = true };
    struct vr_reply reply;
    assert_true(vr_reply_init(&reply, &r, 0, &err));
    size_t n = 0;
    for (; n < 100000 && !reply.refused; n++) {
        if (n % 20 == 0) reply.parse_after_us = 0; /* a model takes its time */
        vr_reply_add(&reply, call.data, call.n, NULL, &out);
        assert_false(reply.failed);
        vr_buf_clear(&out);
    }
    assert_non_null(reply.refused);
    assert_contains(reply.refused, "too long");
    assert_true(reply.n_slow > 0 && reply.n_parsed <= 4 * reply.n_slow + call.n);
    vr_reply_done(&reply);
    vr_bridge_chat_free(r.chat);
}

/* One call is wanted, the model goes on, and the parser is asked in the end only, as on a busy machine: the call is
 * said, and the answer is known to be complete; a call that was cut off is not. */
static void test_goes_on(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool full;
        const char *says;
    } answers[] = {
        { "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>\n<tool_call>\n{\"name\": \"f\"",
          true, "{\\\"a\\\": 1}" },
        { "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>", false, "{\\\"a\\\": 1}" },
        { "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1", false, "{\\\"a\\\": 1" },
    };
    struct vr_err err = { 0 };
    struct vr_request r = { .chat = chat_with("[" TOOL("f") "]", false) };
    for (size_t i = 0; i < VR_COUNT(answers); i++) {
        struct vr_reply reply;
        VR_AUTO_BUF out = { 0 };
        assert_true(vr_reply_init(&reply, &r, 0, &err));
        reply.parse_after_us = HUGE_VAL;
        for (const char *c = answers[i].text; *c; c++) vr_reply_add(&reply, c, 1, NULL, &out);
        assert_int_equal(out.n, 0);
        vr_reply_end(&reply, false, &out);
        assert_true(vr_reply_has_tools(&reply));
        assert_int_equal(vr_reply_is_full(&reply), answers[i].full);
        assert_non_null(memmem(out.data, out.n, answers[i].says, strlen(answers[i].says)));
        vr_reply_done(&reply);
    }
    vr_bridge_chat_free(r.chat);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_deep), cmocka_unit_test(test_long),
                                        cmocka_unit_test(test_goes_on) };
    struct vr_err err = { 0 };
    struct vr_chat_caps caps;
    grammar_vocab_open(&v);
    vr_bridge_quiet();
    chats = vr_bridge_chats_open(v.model, template, &caps, &err);
    if (!chats || !caps.tools) return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    vr_bridge_chats_close(chats);
    grammar_vocab_close(&v);
    return failed;
}
