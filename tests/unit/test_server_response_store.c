/* Stored responses: each client has so many bytes, all together have so many, the oldest go first, and nobody gets what
 * another key stored. */
#include "test.h"

#include "server/dialect/response_store.h"

static bool put(struct vr_responses *all, unsigned key, uint64_t client, const char *id, size_t n)
{
    char text[4096];
    memset(text, 'x', sizeof text);
    return vr_responses_put(all, &(struct vr_stored_owner){ key, client }, id, text, n, "{}", 2);
}

static bool has(struct vr_responses *all, unsigned key, const char *id)
{
    size_t n = 0;
    VR_AUTO_FREE char *text = vr_responses_items(all, key, id, &n);
    assert_true(!text || strlen(text) == n);
    return text != NULL;
}

static void test_clients(void **state)
{
    (void)state;
    struct vr_responses *all = vr_responses_new(3000, 100000);
    assert_true(put(all, 1, 9, "resp_a", 1000));
    assert_true(put(all, 2, 9, "resp_b", 1000));
    assert_true(put(all, 1, 9, "resp_c", 1000));
    assert_true(has(all, 1, "resp_a") && has(all, 2, "resp_b") && !has(all, 2, "resp_a"));
    assert_true(put(all, 1, 9, "resp_d", 1500)); /* the oldest of that key makes room */
    assert_true(!has(all, 1, "resp_a") && has(all, 1, "resp_d") && has(all, 2, "resp_b"));
    assert_false(put(all, 1, 9, "resp_e", 3000)); /* more than a client may have: nothing is lost for it */
    assert_true(has(all, 1, "resp_d"));
    assert_true(vr_responses_drop(all, 1, "resp_d") && !vr_responses_drop(all, 1, "resp_d") && !has(all, 1, "resp_d"));
    assert_false(vr_responses_drop(all, 1, "resp_b"));
    vr_responses_free(all);
}

/* Without keys every address counts for itself, and whoever knows the id may go on. */
static void test_addresses(void **state)
{
    (void)state;
    struct vr_responses *all = vr_responses_new(2500, 100000);
    assert_true(put(all, 0, 1, "resp_a", 1000) && put(all, 0, 2, "resp_b", 1000) && put(all, 0, 2, "resp_c", 1000));
    assert_true(put(all, 0, 2, "resp_d", 1000));
    assert_true(has(all, 0, "resp_a") && !has(all, 0, "resp_b") && has(all, 0, "resp_c") && has(all, 0, "resp_d"));
    vr_responses_free(all);
}

static void test_all(void **state)
{
    (void)state;
    struct vr_responses *all = vr_responses_new(5000, 10000);
    char id[16];
    for (unsigned i = 0; i < 20; i++) {
        snprintf(id, sizeof id, "resp_%u", i);
        assert_true(put(all, i + 1, 0, id, 1000));
    }
    assert_true(!has(all, 1, "resp_0") && has(all, 20, "resp_19") && has(all, 14, "resp_13"));
    vr_responses_free(all);
}

/* Many small ones are a client's own affair. */
static void test_many(void **state)
{
    (void)state;
    struct vr_responses *all = vr_responses_new(VR_RESPONSES_CLIENT_BYTES, VR_RESPONSES_BYTES);
    assert_true(put(all, 1, 0, "resp_mine", 10));
    for (unsigned i = 0; i < 10000; i++) {
        char id[16];
        snprintf(id, sizeof id, "resp_%u", i);
        assert_true(put(all, 2, 0, id, 10));
    }
    assert_true(has(all, 1, "resp_mine") && has(all, 2, "resp_9999") && !has(all, 2, "resp_8000"));
    vr_responses_free(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_clients), cmocka_unit_test(test_addresses),
                                        cmocka_unit_test(test_all), cmocka_unit_test(test_many) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
