/* Embeddings as base64; pieces of tool calls become calls; whole answers with logprobs. */
#include "test.h"

#include <time.h>

#include <jansson.h>

#include "server/api/render.h"
#include "server/dialect/native.h"
#include "server/front.h"

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
    VR_AUTO_BUF text = { 0 };
    vr_render_tools(&text, &c);
    assert_string_equal(
        vr_buf_str(&text),
        "[{\"id\":\"a\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"x\\\":1}\"}},"
        "{\"id\":\"b\",\"type\":\"function\",\"function\":{\"name\":\"g\",\"arguments\":\"{}\"}}]");
    static const char *const bad[] = {
        "", "nonsense", "{}", "{\"index\":5}", "{\"index\":-1}", "{\"index\":0,\"id\":1}"
    };
    for (size_t i = 0; i < VR_COUNT(bad); i++) assert_false(vr_merge_tool(&c, bad[i], strlen(bad[i])));
    json_decref(c.tools);
}

static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double merge_seconds(int n)
{
    static const char piece[] = "{\"index\":0,\"function\":{\"arguments\":\"some more text of it\"}}";
    struct vr_call_choice c = { 0 };
    double from = cpu_s();
    for (int i = 0; i < n; i++) assert_true(vr_merge_tool(&c, piece, sizeof piece - 1));
    double s = cpu_s() - from;
    json_decref(c.tools);
    return s;
}

/* A piece costs the same however long the arguments are by then. */
static void test_long_arguments(void **state)
{
    (void)state;
    double few = 1e9;
    for (int i = 0; i < 3; i++) {
        double s = merge_seconds(2000);
        if (s < few) few = s;
    }
    double many = merge_seconds(32000);
    if (many > 5 * 16 * few) fail_msg("%.1f ms of CPU time for 2,000 pieces, %.1f for 32,000", few * 1e3, many * 1e3);
}

/* n tokens with five others each, as they come; then the whole answer. The seconds of the second. */
static double whole_seconds(const struct vr_dialect *d, json_t *memo, int n, double *kept_s, struct vr_buf *out)
{
    static struct vr_front front;
    struct vr_conn conn = { .front = &front };
    struct vr_served model = { .front = &front, .fingerprint = "x" };
    struct vr_call *call = calloc(1, sizeof *call + sizeof *call->choices);
    assert_non_null(call);
    vr_buf_adds(&model.id_json, "\"m\"");
    call->conn = &conn;
    call->model = &model;
    call->dialect = d;
    call->n_choices = 1;
    call->memo = memo;
    double from = cpu_s();
    for (int i = 0; i < n; i++) {
        VR_AUTO_BUF entry = { 0 };
        vr_buf_addf(&entry, "{\"id\":%d,\"token\":\"t%d\",\"logprob\":-0.5,\"top_logprobs\":[", i, i);
        for (int k = 0; k < 5; k++)
            vr_buf_addf(&entry, "%s{\"id\":%d,\"token\":\"o%d\",\"logprob\":-%d.5}", k ? "," : "", k, k, k);
        vr_buf_adds(&entry, "]}");
        d->keep(call, &call->choices[0], entry.data, entry.n);
    }
    *kept_s = cpu_s() - from;
    from = cpu_s();
    d->whole(out, &front, call);
    double s = cpu_s() - from;
    for (int k = 0; k < VR_MOST_COLUMNS; k++) vr_buf_done(&call->choices[0].columns[k]);
    vr_buf_done(&model.id_json);
    free(call);
    return s;
}

/* Logprobs take their form as they come: the end of a long answer, at which all other clients wait, is its smallest
 * part. */
static void test_whole_logprobs(void **state)
{
    (void)state;
    json_t *memo = json_pack("{s:b,s:b}", VR_MEMO_TOKENS, 1, VR_MEMO_PROBS, 1);
    const struct vr_dialect *const all[] = { &vr_openai_completion, &vr_native_completion };
    const char *const two[] = { "\"logprobs\":{\"tokens\":[\"t0\",\"t1\"],\"token_logprobs\":[-0.5,-0.5],\"top_"
                                "logprobs\":[{\"o0\":-0.5,\"o1\":-1.5,",
                                "\"tokens\":[0,1],\"completion_probabilities\":[{\"id\":0,\"token\":\"t0\"" };
    for (size_t i = 0; i < VR_COUNT(all); i++) {
        double kept_s, best = 1e9;
        VR_AUTO_BUF few = { 0 };
        whole_seconds(all[i], memo, 2, &kept_s, &few);
        if (!strstr(vr_buf_str(&few), two[i])) fail_msg("not as expected: %s", vr_buf_str(&few));
        json_t *tree = json_loadb(few.data, few.n, 0, NULL);
        assert_non_null(tree);
        json_decref(tree);
        for (int k = 0; k < 3; k++) {
            VR_AUTO_BUF many = { 0 };
            double share = whole_seconds(all[i], memo, 4000, &kept_s, &many) / kept_s;
            if (share < best) best = share;
        }
        if (best > 0.25) fail_msg("the end takes %.2f of the time of all tokens", best);
    }
    json_decref(memo);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_base64), cmocka_unit_test(test_tools),
                                        cmocka_unit_test(test_long_arguments), cmocka_unit_test(test_whole_logprobs) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
