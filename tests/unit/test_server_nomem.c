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
#include "server/api/body.h"
#include "server/api/model_list.h"
#include "server/api/render.h"
#include "server/http/auth.h"
#include "server/http/http.h"
#include "server/supervise/recovery.h"

static const char *body_text;
static enum vr_request_kind body_kind;

static bool body(void)
{
    struct vr_refusal why = { 0 };
    struct vr_reply_form form;
    json_t *tree = vr_body_parse(body_text, strlen(body_text), &why);
    bool ok = tree && vr_body_check(tree, body_kind, &form, &why);
    if (!ok) assert_true(why.status >= 400 && why.code && why.message[0]);
    json_decref(tree);
    return ok;
}

static void test_bodies(void **state)
{
    (void)state;
    static const struct {
        const char *name, *text;
        enum vr_request_kind kind;
    } rows[] = {
        { "chat",
          "{\"model\":\"m\",\"temperature\":0.5,\"user\":\"u\",\"stop\":[\"a\",\"b\"],\"stream\":true,"
          "\"stream_options\":{\"include_usage\":true},\"logit_bias\":{\"7\":1},\"messages\":[{\"role\":\"user\","
          "\"content\":[{\"type\":\"text\",\"text\":\"hi\"}]}]}",
          VR_CHAT },
        { "tools",
          "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"tools\":[{\"type\":\"function\",\"function\":{"
          "\"name\":\"f\",\"strict\":true,\"parameters\":{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":"
          "\"#/$defs/b\"}},\"$defs\":{\"b\":{\"type\":\"string\"}},\"required\":[\"a\"],"
          "\"additionalProperties\":false}}}],\"tool_choice\":\"required\"}",
          VR_CHAT },
        { "schema",
          "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"response_format\":{\"type\":\"json_schema\","
          "\"json_schema\":{\"name\":\"x\",\"schema\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"array\","
          "\"items\":{\"enum\":[1,\"two\",null]}}}}}}}",
          VR_CHAT },
        { "completion", "{\"prompt\":[\"a\",[1,2,3]],\"n\":2,\"grammar\":\"root ::= \\\"a\\\"\"}", VR_COMPLETION },
        { "embedding", "{\"input\":[\"a\",\"b\"],\"encoding_format\":\"base64\"}", VR_EMBEDDING },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        body_text = rows[i].text;
        body_kind = rows[i].kind;
        nomem_each(rows[i].name, body, 1, true); /* of a schema, where in it */
    }
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
    vr_wire_add_begin(&out, 1, &(struct vr_wire_begin){ 1, 2 });
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
    static struct vr_model_list list;
    struct vr_err err = { 0 };
    char dir[600];
    snprintf(dir, sizeof dir, "%s/models", scratch_dir);
    bool ok = vr_model_list_read(dir, &list, &err);
    if (!ok) assert_int_equal(err.code, VR_ENOMEM);
    vr_model_list_done(&list);
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
