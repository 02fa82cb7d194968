/* Embeddings as base64; pieces of tool calls become calls. */
#include "test.h"

#include <jansson.h>

#include "server/api/render.h"

/* Base64 of more than one block: the floats as they came, padded once, at the end. */
static void test_base64(void **state)
{
    (void)state;
    uint8_t floats[13 * 4];
    for (size_t i = 0; i < sizeof floats; i++) floats[i] = (uint8_t)(i * 7);
    struct vr_call call = { .base64 = true };
    vr_render_embedding(&call, &(struct vr_wire_result){ .index = 2, .n_tokens = 1, .n_dims = 13, .floats = floats });
    assert_string_equal(
        vr_buf_str(&call.body),
        "{\"object\":\"embedding\",\"index\":2,\"embedding\":\"AAcOFRwjKjE4P0ZNVFtiaXB3foWMk5qhqK+2vcTL0tng"
        "5+71/AMKERgfJi00O0JJUFdeZQ==\"}");
    vr_buf_done(&call.body);
}

static void test_tools(void **state)
{
    (void)state;
    static const char *const pieces[] = {
        "{\"index\":0,\"id\":\"a\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"\"}}",
        "{\"index\":0,\"function\":{\"arguments\":\"{\\\"x\\\":\"}}",
        "{\"index\":1,\"id\":\"b\",\"type\":\"function\",\"function\":{\"name\":\"g\",\"arguments\":\"{}\"}}",
        "{\"index\":0,\"function\":{\"arguments\":\"1}\"}}",
    };
    struct vr_call_choice c = { 0 };
    for (size_t i = 0; i < VR_COUNT(pieces); i++) assert_true(vr_merge_tool(&c, pieces[i], strlen(pieces[i])));
    char *text = json_dumps(c.tools, JSON_COMPACT);
    assert_string_equal(
        text, "[{\"id\":\"a\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"x\\\":1}\"}},"
              "{\"id\":\"b\",\"type\":\"function\",\"function\":{\"name\":\"g\",\"arguments\":\"{}\"}}]");
    free(text);
    static const char *const bad[] = {
        "", "nonsense", "{}", "{\"index\":5}", "{\"index\":-1}", "{\"index\":0,\"id\":1}"
    };
    for (size_t i = 0; i < VR_COUNT(bad); i++) assert_false(vr_merge_tool(&c, bad[i], strlen(bad[i])));
    json_decref(c.tools);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_base64), cmocka_unit_test(test_tools) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
