/* Every allocation of what the front does for strangers fails in turn, ours and jansson's: bodies, rendered text, calls
 * of tools, frames, keys, the list of models, what was learned. Each failure is an error, and nothing leaks (ASan
 * looks). */
#include "test.h"

#include "nomem.h"
#include "test_hw_tree.h"

#include "base/json.h"
#include "engine/wire/failure.h"
#include "engine/wire/wire.h"
#include "hw/learned.h"
#include "catalog/catalog.h"
#include "server/api/body.h"
#include "server/api/dialect.h"
#include "server/api/render.h"
#include "server/dialect/messages.h"
#include "server/dialect/response_store.h"
#include "server/dialect/responses.h"
#include "server/http/auth.h"
#include "server/http/http.h"
#include "server/supervise/recovery.h"

static const char *body_text;
static const struct vr_dialect *body_dialect;
static struct vr_responses *stored;

static bool body(void)
{
    struct vr_body b;
    struct vr_asker asker = { .dialect = body_dialect, .whose = { 1, 1 }, .responses = stored };
    vr_body_read(body_text, strlen(body_text), &asker, &b);
    bool ok = b.ok;
    if (!ok) assert_true(b.why.status >= 400 && b.why.code && b.why.message[0] && !b.json && !b.memo);
    vr_body_done(&b);
    return ok;
}

static void test_bodies(void **state)
{
    (void)state;
    static const struct {
        const char *name, *text;
        const struct vr_dialect *dialect;
    } rows[] = {
        { "chat",
          "{\"model\":\"m\",\"temperature\":0.5,\"user\":\"u\",\"stop\":[\"a\",\"b\"],\"stream\":true,"
          "\"stream_options\":{\"include_usage\":true},\"logit_bias\":{\"7\":1},\"messages\":[{\"role\":\"user\","
          "\"content\":[{\"type\":\"text\",\"text\":\"hi\"}]}]}",
          &vr_openai_chat },
        { "tools",
          "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"tools\":[{\"type\":\"function\",\"function\":{"
          "\"name\":\"f\",\"strict\":true,\"parameters\":{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":"
          "\"#/$defs/b\"}},\"$defs\":{\"b\":{\"type\":\"string\"}},\"required\":[\"a\"],"
          "\"additionalProperties\":false}}}],\"tool_choice\":\"required\"}",
          &vr_openai_chat },
        { "schema",
          "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"response_format\":{\"type\":\"json_schema\","
          "\"json_schema\":{\"name\":\"x\",\"schema\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"array\","
          "\"items\":{\"enum\":[1,\"two\",null]}}}}}}}",
          &vr_openai_chat },
        { "completion", "{\"prompt\":[\"a\",[1,2,3]],\"n\":2,\"grammar\":\"root ::= \\\"a\\\"\"}",
          &vr_openai_completion },
        { "embedding", "{\"input\":[\"a\",\"b\"],\"encoding_format\":\"base64\"}", &vr_openai_embedding },
        { "responses",
          "{\"input\":[{\"type\":\"item_reference\",\"id\":\"msg_0123456789abcdef01234567_0\"},{\"role\":\"user\","
          "\"content\":[{\"type\":\"input_text\",\"text\":\"a\"},{\"type\":\"input_image\",\"image_url\":"
          "\"data:image/png;base64,AAAA\"}]},{\"type\":\"reasoning\",\"summary\":[{\"type\":\"summary_text\",\"text\":"
          "\"b\"}]},{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\",\"arguments\":\"{}\"},{\"type\":"
          "\"custom_tool_call\",\"call_id\":\"d\",\"name\":\"g\",\"input\":\"x\"},{\"type\":\"function_call_output\","
          "\"call_id\":\"c\",\"output\":\"y\"},{\"role\":\"assistant\",\"content\":\"e\"},{\"role\":\"assistant\","
          "\"content\":\"f\"},{\"role\":\"user\",\"content\":\"g\"},{\"role\":\"system\",\"content\":\"h\"},{\"role\":"
          "\"system\",\"content\":\"i\"}],\"instructions\":\"be\",\"tools\":[{\"type\":\"function\",\"name\":"
          "\"f\"},{\"type\":\"custom\",\"name\":\"g\"},{\"type\":\"web_search\"}],\"reasoning\":{\"summary\":\"auto\"},"
          "\"previous_response_id\":\"resp_0123456789abcdef01234567\"}",
          &vr_responses_create },
        { "a turn in place nine", /* where a list of messages has to grow */
          "{\"input\":[{\"role\":\"user\",\"content\":\"1\"},{\"role\":\"user\",\"content\":\"2\"},{\"role\":\"user\","
          "\"content\":\"3\"},{\"role\":\"user\",\"content\":\"4\"},{\"role\":\"user\",\"content\":\"5\"},{\"role\":"
          "\"user\",\"content\":\"6\"},{\"role\":\"user\",\"content\":\"7\"},{\"role\":\"user\",\"content\":\"8\"},"
          "{\"role\":\"assistant\",\"content\":\"9\"},{\"role\":\"assistant\",\"content\":\"more\"}]}",
          &vr_responses_create },
        { "messages",
          "{\"max_tokens\":9,\"system\":[{\"type\":\"text\",\"text\":\"s\"}],\"messages\":[{\"role\":\"user\","
          "\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"image\",\"source\":{\"type\":\"base64\","
          "\"media_type\":\"image/png\",\"data\":\"AAAA\"}}]},{\"role\":\"assistant\",\"content\":[{\"type\":"
          "\"thinking\",\"thinking\":\"b\"},{\"type\":\"tool_use\",\"id\":\"c\",\"name\":\"f\",\"input\":{}}]},"
          "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"c\",\"content\":[{\"type\":"
          "\"text\",\"text\":\"d\"}]}]}],\"tools\":[{\"name\":\"f\",\"input_schema\":{}}],\"thinking\":{\"type\":"
          "\"enabled\",\"budget_tokens\":1024},\"stop_sequences\":[\"e\"]}",
          &vr_messages_create },
    };
    static const char item[] = "{\"type\":\"message\",\"role\":\"assistant\",\"content\":\"z\",\"id\":"
                               "\"msg_0123456789abcdef01234567_0\"}";
    stored = vr_responses_new(1 << 20, 1 << 20);
    assert_true(vr_responses_put(stored, &(struct vr_stored_owner){ 0 }, "resp_0123456789abcdef01234567", item,
                                 sizeof item - 1, "{}", 2));
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        body_text = rows[i].text;
        body_dialect = rows[i].dialect;
        nomem_each(rows[i].name, body, 1, true); /* of a schema, where in it */
    }
    vr_responses_free(stored);
}

static bool chunks(void)
{
    static const char text[] = "5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n";
    VR_AUTO_BUF out = { .max = 100 };
    struct vr_chunks c = { 0 };
    struct vr_bad_http no;
    size_t used;
    return vr_chunks_feed(&c, text, sizeof text - 1, &used, &out, &no) == VR_FEED_DONE && !out.failed;
}

static bool text(void)
{
    static const char said[] = "gr\xc3\xbc\xc3\x9f\x65 \x01 \"quoted\"";
    VR_AUTO_BUF out = { 0 };
    for (int i = 0; i < 100; i++) vr_json_add_text(&out, said, sizeof said - 1);
    return !out.failed;
}

static bool tools(void)
{
    static const char *const pieces[] = {
        "{\"index\":0,\"id\":\"a\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"\"}}",
        "{\"index\":0,\"function\":{\"arguments\":\"{}\"}}",
        "{\"index\":1,\"id\":\"b\",\"type\":\"function\",\"function\":{\"name\":\"g\",\"arguments\":\"{}\"}}",
    };
    struct vr_call_choice c = { 0 };
    bool ok = true;
    for (size_t i = 0; ok && i < VR_COUNT(pieces); i++) ok = vr_merge_tool(&c, pieces[i], strlen(pieces[i]));
    json_decref(c.tools);
    return ok;
}

static bool frames(void)
{
    VR_AUTO_BUF out = { 0 };
    static const float v[] = { 1, 2, 3 };
    vr_wire_add_stop(&out, 10);
    vr_wire_add_begin(&out, 1, &(struct vr_wire_begin){ 1, 2, 1 });
    vr_wire_add_delta(&out, 1, 0, VR_DELTA_TEXT, "some text", 9);
    vr_wire_add_end(&out, 1, &(struct vr_wire_end){ .reason = VR_END_STOP });
    vr_wire_add_result(&out, 2, 0, 3, v, 3);
    vr_wire_add_error(&out, 3, 400, "messages", NULL, "it is too long");
    return !out.failed;
}

static bool keys(void)
{
    static const char *const list[] = { "secret-key-one", "secret-key-two", NULL }, *const hosts[] = { "box.example",
                                                                                                       NULL };
    struct vr_err err = { 0 };
    struct vr_auth *a = vr_auth_new(
        &(struct vr_auth_config){ .keys = list, .origins = hosts, .hosts = hosts, .bound = "127.0.0.1" }, &err);
    if (!a) assert_int_equal(err.code, VR_ENOMEM);
    vr_auth_free(a);
    return a != NULL;
}

static bool models(void)
{
    struct vr_catalog list;
    struct vr_err err = { 0 };
    char dir[600];
    snprintf(dir, sizeof dir, "%s/models", scratch_dir);
    bool ok = vr_catalog_folder(dir, &list, &err);
    if (!ok) assert_int_equal(err.code, VR_ENOMEM);
    if (ok) vr_catalog_done(&list);
    return ok;
}

static bool learned(void)
{
    static struct vr_learned l, again;
    struct vr_err err = { 0 };
    VR_AUTO_BUF out = { 0 };
    l = (struct vr_learned){ 0 };
    struct vr_learned_row *r = vr_learned_at(&l, "GPU-1");
    r->hidden_bytes = 11, r->free_bytes = 100, r->when = 1000;
    bool ok = vr_learned_print(&l, true, &out, &err) && vr_learned_parse(vr_buf_str(&out), out.n, &again) &&
              vr_learned_save(scratch("learned.json"), &l, &err) &&
              vr_learned_load(scratch("learned.json"), 1000, &again, &err);
    if (ok) assert_int_equal(again.n, 1);
    return ok;
}

static bool failed(void)
{
    static const char json[] =
        "{\"stage\":\"load\",\"out_of_memory\":true,\"device\":\"CUDA0\",\"asked_bytes\":10,\"free_bytes\":1,"
        "\"missing_bytes\":9,\"message\":\"no\",\"left\":[{\"name\":\"CUDA0\",\"free_bytes\":1}],"
        "\"log\":[]}";
    static struct vr_failure f;
    return vr_failure_read(json, sizeof json - 1, &f);
}

static void test_rest(void **state)
{
    (void)state;
    tree_put("models/hub/org/split-00002-of-00002.gguf", "12345");
    tree_put("models/hub/org/split-00001-of-00002.gguf", "12345");
    tree_put("models/a.gguf", "12345");
    nomem_each("chunks", chunks, 1, false);
    nomem_each("text", text, 1, false);
    nomem_each("calls of tools", tools, 1, false);
    nomem_each("frames", frames, 1, false);
    nomem_each("keys", keys, 1, false);
    nomem_each("the list of models", models, 1, false);
    nomem_each("what was learned", learned, 1, false);
    nomem_each("a failure", failed, 1, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_bodies), cmocka_unit_test(test_rest) };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
