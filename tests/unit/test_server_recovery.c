/* What running out of memory teaches: limits that the next plan keeps, and what is remembered of them. In MiB. */
#include "test.h"

#include "base/text.h"
#include "server/supervise/recovery.h"

#define M VR_MIB

/* Two cards, of which the plan takes 1,000 and 500 for weights, 200 and 100 for the cache, 100 each for computing. */
static struct vr_load two_cards(void)
{
    return (struct vr_load){ .devices = { { .key = "GPU-a",
                                            .id = "CUDA0",
                                            .name = "CUDA0",
                                            .free_bytes = 2000 * M,
                                            .model_bytes = 1000 * M,
                                            .context_bytes = 200 * M,
                                            .compute_bytes = 100 * M },
                                          { .key = "GPU-b",
                                            .id = "CUDA1",
                                            .name = "CUDA1",
                                            .free_bytes = 1000 * M,
                                            .model_bytes = 500 * M,
                                            .context_bytes = 100 * M,
                                            .compute_bytes = 100 * M },
                                          { .key = "GPU-c", .id = "CUDA2", .free_bytes = 500 * M } },
                             .n_devices = 3 };
}

static struct vr_failure failed(const char *text)
{
    struct vr_failure f;
    char json[1024], *at = json;
    snprintf(json, sizeof json, "%s", text);
    while ((at = strchr(at, '\''))) *at = '"';
    json_t *all = json_pack("{s:n, s:i, s:i, s:i, s:s, s:[]}", "device", "asked_bytes", 0, "free_bytes", 0,
                            "missing_bytes", 0, "message", "why", "left");
    json_t *given = json_loads(json, 0, NULL);
    assert_int_equal(json_object_update(all, given), 0);
    VR_AUTO_FREE char *whole = json_dumps(all, 0);
    json_decref(given);
    json_decref(all);
    assert_true(vr_failure_read(whole, strlen(whole), &f));
    for (size_t i = 0; i < f.n_left; i++) f.left[i].free_bytes *= M;
    f.asked_bytes *= M;
    f.missing_bytes *= M;
    return f;
}

#define OOM "'out_of_memory':true,"

static void test_limits(void **state)
{
    (void)state;
    static const struct {
        const char *what, *failed;
        uint64_t a, b; /* MiB at most afterwards; 0: no limit */
        bool recovers;
    } rows[] = {
        /* a failed load gave all back: what is left is all there is, less a sixteenth */
        { "weights", "{'stage':'load'," OOM "'device':'CUDA0','left':[{'name':'CUDA0','free_bytes':800}]}", 749, 0,
          true },
        { "weights, both asked",
          "{'stage':'load'," OOM
          "'device':'CUDA0','left':[{'name':'CUDA0','free_bytes':800},{'name':'CUDA1','free_bytes':640}]}",
          749, 599, true },
        /* the weights were in place */
        { "cache", "{'stage':'context'," OOM "'device':'CUDA0','left':[{'name':'CUDA0','free_bytes':24}]}", 959, 0,
          true },
        /* everything was, and 50 more were asked for */
        { "computing",
          "{'stage':'decode'," OOM "'device':'CUDA1','asked_bytes':50,'left':[{'name':'CUDA0','free_bytes':300},{'"
          "name':'CUDA1','free_bytes':10}]}",
          1499, 618, true },
        /* nothing is known but the name: a sixteenth less than failed */
        { "unknown amount", "{'stage':'decode'," OOM "'device':'CUDA1'}", 0, 656, true },
        { "known to be missing", "{'stage':'load'," OOM "'device':'CUDA1','missing_bytes':200}", 0, 468, true },
        /* not even the name: the one with the least left, or all */
        { "no name",
          "{'stage':'load'," OOM
          "'device':null,'left':[{'name':'CUDA0','free_bytes':1600},{'name':'CUDA1','free_bytes':160}]}",
          1499, 149, true },
        { "nothing", "{'stage':'load'," OOM "'device':null}", 1218, 656, true },
        { "more left than it failed with",
          "{'stage':'load'," OOM "'device':'CUDA0','left':[{'name':'CUDA0','free_bytes':5000}]}", 1218, 0, true },
        { "all gone", "{'stage':'load'," OOM "'device':'CUDA0','left':[{'name':'CUDA0','free_bytes':0}]}", 1, 0, true },
        { "the host", "{'stage':'load'," OOM "'device':'CPU'}", 0, 0, false },
        { "a device that is not in the plan", "{'stage':'load'," OOM "'device':'CUDA2'}", 0, 0, false },
        { "not memory", "{'stage':'load','device':'CUDA0','message':'broken'}", 0, 0, false },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct vr_learned l = { 0 };
        struct vr_load load = two_cards();
        struct vr_failure f = failed(rows[i].failed);
        bool recovers = vr_recovery_failed(&l, &load, &f);
        const struct vr_learned_row *a = vr_learned_find(&l, "GPU-a"), *b = vr_learned_find(&l, "GPU-b");
        uint64_t got_a = a ? (a->most_bytes + M - 1) / M : 0, got_b = b ? (b->most_bytes + M - 1) / M : 0;
        if (recovers != rows[i].recovers || got_a + 1 < rows[i].a || got_a > rows[i].a + 1 || got_b + 1 < rows[i].b ||
            got_b > rows[i].b + 1)
            fail_msg("%s: %d, %llu and %llu", rows[i].what, recovers, (unsigned long long)got_a,
                     (unsigned long long)got_b);
        assert_int_equal(l.n_fails, recovers);
        assert_null(vr_learned_find(&l, "GPU-c"));
    }
}

/* The same failure again and again: limits fall faster each time, until nothing is left. */
static void test_converges(void **state)
{
    (void)state;
    struct vr_learned l = { 0 };
    uint64_t before = UINT64_MAX;
    for (int i = 0; i < VR_MAX_RECOVERIES; i++) {
        struct vr_load load = two_cards();
        struct vr_failure f = failed("{'stage':'context'," OOM "'device':'CUDA0'}");
        const struct vr_learned_row *r = vr_learned_find(&l, "GPU-a");
        if (r) load.devices[0].model_bytes = r->most_bytes; /* the plan takes all that it may */
        if (r) load.devices[0].context_bytes = load.devices[0].compute_bytes = 0;
        assert_true(vr_recovery_failed(&l, &load, &f));
        r = vr_learned_find(&l, "GPU-a");
        assert_true(r->most_bytes < before || r->most_bytes == 1);
        before = r->most_bytes;
    }
    assert_int_equal(before, 1);
}

static json_t *ready(uint64_t left_a)
{
    return json_pack("{s:[{s:s, s:I}, {s:s}]}", "devices", "name", "CUDA0", "free_bytes", (json_int_t)(left_a * M),
                     "name", "?");
}

static void test_remembers(void **state)
{
    (void)state;
    static const struct {
        const char *what, *stage;
        uint64_t then, left_then, now, left_now; /* reported after the failure, left after READY; at the next start */
        uint64_t hidden_then, hidden_now;        /* what is remembered */
    } rows[] = {
        /* the plan takes 1,300. It reports 900 too much, always */
        { "a card that lies", "load", 2000, 0, 2000, 0, 700 + 64, 700 + 64 },
        /* 1,000 were taken by a program that keeps them: reported at once, nothing is hidden but what CUDA takes */
        { "a program that stays", "load", 900, 0, 900, 0, 0, 0 },
        /* taken, and given back at once: seen when the model is up */
        { "a program that went", "load", 2000, 600, 2000, 600, 164, 164 },
        /* given back later: the next load shows it */
        { "a program that went later", "load", 2000, 100, 2000, 600, 600 + 64, 164 },
        /* the first computation ran out, and nothing shows that: believed for a while */
        { "computing", "decode", 2000, 600, 2000, 600, 781, 390 },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct vr_learned l = { 0 };
        struct vr_load load = two_cards();
        char text[256];
        snprintf(text, sizeof text, "{'stage':'%s'," OOM "'device':'CUDA0'}", rows[i].stage);
        struct vr_failure f = failed(text);
        assert_true(vr_recovery_failed(&l, &load, &f));
        load.devices[0].free_bytes = rows[i].then * M;
        vr_recovery_planned(&l, &load, 77);
        json_t *up = ready(rows[i].left_then);
        vr_recovery_ready(&l, &load, up, 78);
        json_decref(up);
        struct vr_learned_row *r = vr_learned_find(&l, "GPU-a");
        uint64_t got = r->hidden_bytes / M;
        if (got + 1 < rows[i].hidden_then || got > rows[i].hidden_then + 1)
            fail_msg("%s: %llu", rows[i].what, (unsigned long long)got);
        assert_true(r->most_bytes == 0 && r->fails == 0 && l.n_fails == 0 && (r->when == 77 || r->when == 78));
        load.devices[0].free_bytes = rows[i].now * M;
        up = ready(rows[i].left_now);
        bool changed = vr_recovery_ready(&l, &load, up, 99);
        json_decref(up);
        got = r->hidden_bytes / M;
        if (got + 1 < rows[i].hidden_now || got > rows[i].hidden_now + 1)
            fail_msg("%s, then: %llu", rows[i].what, (unsigned long long)got);
        assert_int_equal(changed, rows[i].hidden_now != rows[i].hidden_then);
    }
}

/* A load as JSON and back. */
/* Beside other models a limit is no more than what they left: what the card hides stays known, the limit does not. */
static void test_unplanned(void **state)
{
    (void)state;
    struct vr_learned l = { 0 };
    struct vr_load load = two_cards();
    struct vr_failure f = failed("{'stage':'load'," OOM "'device':'CUDA0','left':[{'name':'CUDA0','free_bytes':800}]}");
    assert_true(vr_recovery_failed(&l, &load, &f));
    vr_recovery_unplanned(&l, &load, 7);
    const struct vr_learned_row *r = vr_learned_find(&l, "GPU-a");
    assert_int_equal(r->hidden_bytes / M, 2000 - 750);
    assert_int_equal(r->most_bytes, 0);
    assert_int_equal(r->fails, 0);
    assert_int_equal(l.n_fails, 0);
}

static void test_load(void **state)
{
    (void)state;
    struct vr_load l = two_cards(), again = { 0 };
    struct vr_err err = { 0 };
    vr_buf_adds(&l.load_json, "{\"model\":\"m\"}");
    vr_buf_add(&l.env, "A=b\0C=", 7);
    vr_buf_add(&l.evict, "b\0other", 8);
    l.split = (struct vr_split){ "12", "a model", "0.5.0" };
    l.devices[0].reserve_bytes = 77;
    VR_AUTO_BUF text = { 0 };
    assert_true(vr_load_write(&l, &text, &err));
    assert_true(vr_load_read(vr_buf_str(&text), text.n, &again, &err));
    assert_string_equal(vr_buf_str(&again.load_json), "{\"model\":\"m\"}");
    assert_int_equal(again.plan_json.n, 0);
    assert_int_equal(again.env.n, 7);
    assert_memory_equal(again.env.data, "A=b\0C=", 7);
    assert_int_equal(again.evict.n, 8);
    assert_memory_equal(again.evict.data, "b\0other", 8);
    assert_int_equal(again.n_devices, 3);
    assert_memory_equal(again.devices, l.devices, 3 * sizeof l.devices[0]);
    assert_ptr_equal(vr_load_find(&again, "CUDA1"), &again.devices[1]);
    assert_null(vr_load_find(&again, ""));
    assert_memory_equal(&again.split, &l.split, sizeof l.split);
    vr_load_done(&l);
    vr_load_done(&again);
    static const char *const broken[] = { "",
                                          "{}",
                                          "{\"load\":1}",
                                          "{\"load\":{},\"plan\":null,\"env\":[1],\"devices\":[]}",
                                          "{\"load\":{},\"plan\":null,\"env\":[],\"devices\":[{}]}",
                                          "{\"load\":{},\"plan\":null,\"env\":[],\"devices\":[],\"evict\":[7]}",
                                          "{\"load\":{},\"plan\":null,\"env\":[],\"devices\":[],\"split\":{}}" };
    for (size_t i = 0; i < VR_COUNT(broken); i++) {
        struct vr_load b = { 0 };
        assert_false(vr_load_read(broken[i], strlen(broken[i]), &b, &err));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_limits), cmocka_unit_test(test_converges),
                                        cmocka_unit_test(test_remembers), cmocka_unit_test(test_unplanned),
                                        cmocka_unit_test(test_load) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
