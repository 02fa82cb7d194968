/* Checkpoints: which one a prompt goes on from, which are kept when there are too many, the bytes they take, and where
 * a prompt is interrupted for them. */
#include "test.h"

#include <jansson.h>

#include "engine/cache/checkpoints.h"
#include "engine/prepare/billing.h"
#include "engine/prepare/boundaries.h"
#include "engine/process/stops.h"

static struct vr_kept *piece(struct vr_cache_ram *ram, size_t n)
{
    struct vr_kept *p = vr_kept_new(ram, n);
    assert_non_null(p);
    return p;
}

static void test_budget(void **state)
{
    (void)state;
    struct vr_cache_ram ram = { .limit_bytes = 3 * vr_kept_cost(100) };
    struct vr_kept *a = piece(&ram, 100), *b = piece(&ram, 100), *c = piece(&ram, 100);
    assert_null(vr_kept_new(&ram, 1));
    vr_kept_share(a);
    vr_kept_drop(a);
    assert_null(vr_kept_new(&ram, 1)); /* somebody still has it */
    vr_kept_drop(a);
    assert_int_equal(ram.used_bytes, 2 * vr_kept_cost(100));
    vr_kept_drop(b);
    vr_kept_drop(c);
    vr_kept_drop(NULL);
    assert_int_equal(ram.used_bytes, 0);
}

static void test_last(void **state)
{
    (void)state;
    struct vr_cache_ram ram = { .limit_bytes = 1 << 20 };
    struct vr_checkpoints c = { 0 }, copy = { 0 };
    assert_null(vr_checkpoints_last(&c, 1000));
    const uint32_t at[] = { 300, 100, 200, 100 };
    for (size_t i = 0; i < VR_COUNT(at); i++) vr_checkpoints_add(&c, at[i], piece(&ram, 10));
    assert_int_equal(c.n, 3); /* one was replaced */
    assert_null(vr_checkpoints_last(&c, 99));
    assert_int_equal(vr_checkpoints_last(&c, 100)->n, 100);
    assert_int_equal(vr_checkpoints_last(&c, 299)->n, 200);
    assert_int_equal(vr_checkpoints_last(&c, 5000)->n, 300);
    vr_checkpoints_share(&copy, &c, 250);
    assert_int_equal(copy.n, 2);
    vr_checkpoints_cut(&c, 150);
    assert_int_equal(c.n, 1);
    assert_int_equal(ram.used_bytes, 2 * vr_kept_cost(10));
    vr_checkpoints_clear(&c);
    vr_checkpoints_clear(&copy);
    assert_int_equal(ram.used_bytes, 0);
}

/* Many more than there is room for: the last ones stay, and gaps grow with the distance from them. */
static void test_thin(void **state)
{
    (void)state;
    struct vr_cache_ram ram = { .limit_bytes = 1 << 20 };
    struct vr_checkpoints c = { 0 };
    for (uint32_t i = 1; i <= 1000; i++) {
        vr_checkpoints_add(&c, i * 50, piece(&ram, 10));
        assert_true(c.n <= VR_MOST_CHECKPOINTS);
        assert_int_equal(c.at[c.n - 1].n, i * 50);
        for (uint32_t k = 1; k < c.n; k++) {
            uint32_t gap = c.at[k].n - c.at[k - 1].n, far = i * 50 - c.at[k - 1].n;
            assert_true(c.at[k].n > c.at[k - 1].n);
            assert_true(gap <= 100 || gap * 2 <= far + 100);
        }
    }
    assert_int_equal(ram.used_bytes, VR_MOST_CHECKPOINTS * vr_kept_cost(10));
    vr_checkpoints_clear(&c);
}

static void test_stops(void **state)
{
    (void)state;
    uint32_t boundaries[] = { 500, 510, 2000 };
    struct vr_prompt p = { .n = 3000, .boundaries = boundaries, .n_boundaries = 3 }, plain = { .n = 3000 };
    assert_int_equal(vr_next_stop(&p, 0, 0, 3000), 500);
    assert_int_equal(vr_next_stop(&p, 500, 500, 3000), 2000); /* 510 is too near */
    assert_int_equal(vr_next_stop(&p, 480, 400, 3000), 2000);
    assert_int_equal(vr_next_stop(&p, 0, 505, 3000), 510);
    assert_int_equal(vr_next_stop(&p, 2000, 2000, 3000), VR_NO_STOP_AT);
    assert_int_equal(vr_next_stop(&p, 0, 0, 500), VR_NO_STOP_AT);
    assert_int_equal(vr_next_stop(&plain, 0, 0, 3000), 2936); /* 64 tokens are left for the last pass */
    assert_int_equal(vr_next_stop(&plain, 2936, 2936, 3000), VR_NO_STOP_AT);
    assert_int_equal(vr_next_stop(&plain, 2900, 2900, 3000), 2936);
    assert_int_equal(vr_next_stop(&plain, 2910, 2910, 3000), VR_NO_STOP_AT); /* too near to both */
    struct vr_prompt brief = { .n = 5 };
    assert_int_equal(vr_next_stop(&brief, 0, 0, 5), VR_NO_STOP_AT);
    assert_int_equal(vr_stop_step(4096), 1024);
    assert_int_equal(vr_stop_step(131072), 8192);
}

static struct vr_span span(const char *s) { return (struct vr_span){ s, strlen(s) }; }

static void test_offsets(void **state)
{
    (void)state;
    static const char messages[] =
        "[{\"role\":\"system\",\"content\":\"be brief\"},{\"role\":\"user\",\"content\":\" one \"},"
        "{\"role\":\"assistant\",\"content\":\"two\"},{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":"
        "\"three\"},"
        "{\"type\":\"image_url\"},{\"type\":\"text\",\"text\":\"four\"}]},{\"role\":\"user\",\"content\":\"\"},"
        "{\"role\":\"user\",\"content\":\"nowhere to be found\"}]";
    static const char text[] = "S:be brief U:one A:two U:three four A:";
    json_t *j = json_loads(messages, 0, NULL);
    size_t at[VR_MOST_BOUNDARIES];
    assert_non_null(j);
    assert_int_equal(vr_boundaries_offsets(j, span(text), span(" A:"), at), 4);
    assert_int_equal(at[0], strlen("S:be brief U:one"));
    assert_int_equal(at[1], strlen("S:be brief U:one A:two U:"));
    assert_int_equal(at[2], strlen("S:be brief U:one A:two U:three four"));
    assert_int_equal(at[3], at[2]); /* the answer begins right behind it */
    assert_int_equal(vr_boundaries_offsets(NULL, span(text), span("B:"), at), 0);
    json_decref(j);
}

static void test_billing(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        { "[{'role':'user','content':'x-anthropic-billing-header: a'}]",
          "[{'role':'user','content':'x-anthropic-billing-header: a'}]" },
        { "[{'role':'system','content':'x-anthropic-billing-header: a; b=1\\n\\nYou "
          "are'},{'role':'user','content':'u'}]",
          "[{'role':'system','content':'You are'},{'role':'user','content':'u'}]" },
        { "[{'role':'system','content':[{'type':'text','text':'x-anthropic-billing-header: "
          "a'},{'type':'text','text':'b'}]}]",
          "[{'role':'system','content':[{'type':'text','text':'b'}]}]" },
        { "[{'role':'developer','content':[{'type':'text','text':'x-anthropic-billing-header: a\\nb'}]}]",
          "[{'role':'developer','content':[{'type':'text','text':'b'}]}]" },
        { "[{'role':'system','content':[{'type':'text','text':'x-anthropic-billing-header: a'}]}]",
          "[{'role':'system','content':''}]" },
        { "[{'role':'system','content':'x-anthropic-billing-header: a'}]", "[{'role':'system','content':''}]" },
        { "[{'role':'system'},7,{'content':null}]", "[{'role':'system'},7,{'content':null}]" },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        json_t *is[2];
        for (int k = 0; k < 2; k++) {
            char text[400];
            snprintf(text, sizeof text, "%s", rows[i][k]);
            for (char *at = text; *at; at++)
                if (*at == '\'') *at = '"';
            is[k] = json_loads(text, 0, NULL);
            assert_non_null(is[k]);
        }
        assert_true(vr_billing_drop(is[0]));
        if (!json_equal(is[0], is[1])) fail_msg("%s became %s", rows[i][0], json_dumps(is[0], 0));
        json_decref(is[0]);
        json_decref(is[1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_budget), cmocka_unit_test(test_last),    cmocka_unit_test(test_thin),
        cmocka_unit_test(test_stops),  cmocka_unit_test(test_offsets), cmocka_unit_test(test_billing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
