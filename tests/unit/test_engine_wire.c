/* Frames: what goes in comes out, byte for byte; what is malformed is seen. */
#include "test.h"

#include <math.h>

#include <jansson.h>

#include "engine/wire/wire.h"

static struct vr_frame parse(const struct vr_buf *b, enum vr_wire_side side)
{
    struct vr_frame f = { 0 };
    assert_int_equal(vr_wire_parse((const uint8_t *)b->data, b->n, side, &f), b->n);
    return f;
}

static void test_layout(void **state)
{
    (void)state;
    VR_AUTO_BUF b = { 0 };
    vr_wire_add(&b, VR_WIRE_REQUEST, 0x01020304, "hello", 5);
    assert_int_equal(b.n, 14);
    assert_memory_equal(b.data, "\5\0\0\0\2\4\3\2\1hello", 14);
    vr_buf_clear(&b);
    vr_wire_add_delta(&b, 7, 3, VR_DELTA_REASONING, "ab", 2);
    assert_memory_equal(b.data, "\4\0\0\0\104\7\0\0\0\3\1ab", 13);
    vr_buf_clear(&b);
    size_t at = vr_wire_open(&b, VR_WIRE_STATUS, 0);
    vr_buf_adds(&b, "{}");
    vr_wire_close(&b, at);
    assert_memory_equal(b.data, "\2\0\0\0\110\0\0\0\0{}", 11);
}

static void test_round_trips(void **state)
{
    (void)state;
    VR_AUTO_BUF b = { 0 };
    struct vr_wire_begin begin = { 4000000000u, 12, 3 }, begin2;
    vr_wire_add_begin(&b, 9, &begin);
    struct vr_frame f = parse(&b, VR_FROM_ENGINE);
    assert_true(vr_wire_get_begin(&f, &begin2));
    assert_int_equal(f.id, 9);
    assert_memory_equal(&begin, &begin2, sizeof begin);

    vr_buf_clear(&b);
    struct vr_wire_end end = { 200, VR_END_TOOL_CALLS, 4, 1, 2, 3, 5, 4, 9, 0.5f, 1.5f, 1e6f }, end2;
    vr_wire_add_end(&b, 1, &end);
    f = parse(&b, VR_FROM_ENGINE);
    assert_true(vr_wire_get_end(&f, &end2));
    assert_int_equal(end2.choice, 200);
    assert_int_equal(end2.reason, VR_END_TOOL_CALLS);
    assert_int_equal(end2.stop, 4);
    assert_int_equal(end2.completion_tokens + 10 * end2.reasoning_tokens + 100 * end2.cached_tokens, 321);
    assert_int_equal(end2.drafted_tokens + 10 * end2.accepted_tokens + 100 * end2.slot, 945);
    assert_true(end2.queue_ms == 0.5f && end2.prompt_ms == 1.5f && end2.text_ms == 1e6f);

    vr_buf_clear(&b);
    const float v[3] = { 1, -2.5f, 3e-9f };
    float back[3];
    struct vr_wire_result result;
    vr_wire_add_result(&b, 1, 5, 17, v, 3);
    f = parse(&b, VR_FROM_ENGINE);
    assert_true(vr_wire_get_result(&f, &result));
    assert_int_equal(result.index, 5);
    assert_int_equal(result.n_tokens, 17);
    assert_int_equal(result.n_dims, 3);
    memcpy(back, result.floats, sizeof back);
    assert_memory_equal(back, v, sizeof v);

    vr_buf_clear(&b);
    struct vr_wire_error error;
    vr_wire_add_error(&b, 1, 400, "n", NULL, "a \"quoted\" \xff message");
    f = parse(&b, VR_FROM_ENGINE);
    assert_true(vr_wire_get_error(&f, &error));
    assert_int_equal(error.status, 400);
    json_t *j = json_loadb(error.json, error.n, 0, NULL);
    assert_string_equal(json_string_value(json_object_get(j, "message")), "a \"quoted\" \xEF\xBF\xBD message");
    assert_string_equal(json_string_value(json_object_get(j, "param")), "n");
    assert_true(json_is_null(json_object_get(j, "code")));
    json_decref(j);

    vr_buf_clear(&b);
    uint32_t ms;
    vr_wire_add_stop(&b, 1500);
    f = parse(&b, VR_FROM_FRONT);
    assert_true(vr_wire_get_stop(&f, &ms));
    assert_int_equal(ms, 1500);

    vr_buf_clear(&b);
    float scales[3];
    vr_wire_add_lora(&b, (const float[]){ 0.5f, -2, 0 }, 3);
    f = parse(&b, VR_FROM_FRONT);
    assert_false(vr_wire_get_lora(&f, scales, 2));
    assert_true(vr_wire_get_lora(&f, scales, 3));
    assert_true(scales[0] == 0.5f && scales[1] == -2 && scales[2] == 0);
    vr_buf_clear(&b);
    vr_wire_add_lora(&b, (const float[]){ NAN }, 1);
    f = parse(&b, VR_FROM_FRONT);
    assert_false(vr_wire_get_lora(&f, scales, 1));
}

static void test_malformed(void **state)
{
    (void)state;
    static const struct {
        const char *what, *bytes;
        size_t n;
        enum vr_wire_side side;
        long result;
    } rows[] = {
        { "nothing", "", 0, VR_FROM_FRONT, 0 },
        { "half a head", "\0\0\0\0\3", 5, VR_FROM_FRONT, 0 },
        { "a cancel", "\0\0\0\0\3\1\0\0\0", 9, VR_FROM_FRONT, 9 },
        { "a cancel with a payload", "\1\0\0\0\3\1\0\0\0x", 10, VR_FROM_FRONT, -1 },
        { "half a payload", "\5\0\0\0\2\1\0\0\0abc", 12, VR_FROM_FRONT, 0 },
        { "kind 0", "\0\0\0\0\0\0\0\0\0", 9, VR_FROM_FRONT, -1 },
        { "kind 255", "\0\0\0\0\377\0\0\0\0", 9, VR_FROM_ENGINE, -1 },
        { "the wrong side", "\0\0\0\0\101\0\0\0\0", 9, VR_FROM_FRONT, -1 },
        { "the wrong side, back", "\0\0\0\0\3\0\0\0\0", 9, VR_FROM_ENGINE, -1 },
        { "far too long", "\377\377\377\377\2\0\0\0\0", 9, VR_FROM_FRONT, -1 },
        { "64 MiB and one", "\1\0\0\4\2\0\0\0\0", 9, VR_FROM_FRONT, -1 },
        { "64 MiB, not here yet", "\0\0\0\4\2\0\0\0\0", 9, VR_FROM_FRONT, 0 },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct vr_frame f;
        long n = vr_wire_parse((const uint8_t *)rows[i].bytes, rows[i].n, rows[i].side, &f);
        if (n != rows[i].result) fail_msg("%s: %ld", rows[i].what, n);
    }
}

/* Payloads that do not decode. */
static void test_bad_payloads(void **state)
{
    (void)state;
    struct vr_wire_begin begin;
    struct vr_wire_delta delta;
    struct vr_wire_end end;
    struct vr_wire_result result;
    struct vr_wire_error error;
    uint32_t ms;
    uint8_t bytes[64] = { 0 };
    struct vr_frame f = { VR_WIRE_BEGIN, 1, bytes, 11 };
    assert_false(vr_wire_get_begin(&f, &begin));
    f = (struct vr_frame){ VR_WIRE_DELTA, 1, bytes, 1 };
    assert_false(vr_wire_get_delta(&f, &delta));
    bytes[1] = VR_N_DELTAS;
    f.n = 5;
    assert_false(vr_wire_get_delta(&f, &delta));
    bytes[1] = VR_N_ENDS;
    f = (struct vr_frame){ VR_WIRE_END, 1, bytes, 40 };
    assert_false(vr_wire_get_end(&f, &end));
    bytes[1] = 0;
    assert_true(vr_wire_get_end(&f, &end));
    f.n = 39;
    assert_false(vr_wire_get_end(&f, &end));
    f = (struct vr_frame){ VR_WIRE_RESULT, 1, bytes, 12 };
    assert_true(vr_wire_get_result(&f, &result));
    f.n = 16; /* one float, but it says none */
    assert_false(vr_wire_get_result(&f, &result));
    bytes[8] = 1;
    assert_true(vr_wire_get_result(&f, &result));
    f.n = 15;
    assert_false(vr_wire_get_result(&f, &result));
    f = (struct vr_frame){ VR_WIRE_ERROR, 1, bytes, 1 };
    assert_false(vr_wire_get_error(&f, &error));
    f = (struct vr_frame){ VR_WIRE_STOP, 0, bytes, 3 };
    assert_false(vr_wire_get_stop(&f, &ms));
    f = (struct vr_frame){ VR_WIRE_DELTA, 1, bytes, 12 }; /* another kind */
    assert_false(vr_wire_get_begin(&f, &begin));
}

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(vr_wire_name(VR_WIRE_DELTA), "DELTA");
    assert_string_equal(vr_wire_name((enum vr_wire_kind)200), "?");
    assert_string_equal(vr_end_name(VR_END_TOOL_CALLS), "tool_calls");
    assert_string_equal(vr_end_name((enum vr_end)99), "?");
}

static void test_pulse(void **state)
{
    (void)state;
    VR_AUTO_BUF b = { 0 };
    struct vr_wire_pulse p = { 1, 2, 3, 4000000000u }, q;
    vr_wire_add_pulse(&b, &p);
    struct vr_frame f = parse(&b, VR_FROM_ENGINE);
    assert_true(vr_wire_get_pulse(&f, &q));
    assert_memory_equal(&p, &q, sizeof p);
    f.n--;
    assert_false(vr_wire_get_pulse(&f, &q));
}

/* The last two fields, and nothing that only looks like them. */
static void test_whose(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        uint64_t client, tenant;
    } rows[] = {
        { "{\"kind\":\"chat\",\"client\":3,\"tenant\":7}", 3, 7 },
        { "{\"kind\":\"chat\",\"client\":9999999999999999999,\"tenant\":0}", 9999999999999999999u, 0 },
        { "{\"kind\":\"chat\",\"client\":1,\"tenant\":99999999999999999999}", 0, 0 },
        { "{\"kind\":\"chat\",\"client\":99999999999999999999,\"tenant\":1}", 0, 0 },
        { "{\"kind\":\"chat\",\"tenant\":7}", 0, 0 },
        { "{\"kind\":\"chat\"}", 0, 0 },
        { "{\"a\":{\"b\":1,\"client\":3,\"tenant\":7}}", 0, 0 },
        { "{\"a\":\",\\\"client\\\":3,\\\"tenant\\\":7}\"}", 0, 0 },
        { "{\"a\":1,\"b\\\",\\\"client\":3,\"tenant\":7}", 0, 0 },
        { "{\"a\":1,\"client\":3,\"tenant\":}", 0, 0 },
        { "}", 0, 0 },
        { "7}", 0, 0 },
        { "", 0, 0 },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct vr_whose w = vr_wire_whose(rows[i].json, strlen(rows[i].json));
        assert_true(w.client == rows[i].client && w.tenant == rows[i].tenant);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pulse),       cmocka_unit_test(test_whose),     cmocka_unit_test(test_layout),
        cmocka_unit_test(test_round_trips), cmocka_unit_test(test_malformed), cmocka_unit_test(test_bad_payloads),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
