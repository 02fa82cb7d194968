/* The ways to nodes: kept, found again, and doubted where a look tells something else. */
#include "test.h"

#include <sys/stat.h>

#include "base/file.h"
#include "hw/node_links.h"
#include "scratch.h"

static struct vr_node_links l, again;

static struct vr_node_link way(const char *node, const char *key, const char *address, const char *when)
{
    struct vr_node_link one = { .round_trip_us = 300, .to_gbs = 0.1, .from_gbs = 0.3 };
    snprintf(one.node, sizeof one.node, "%s", node);
    snprintf(one.key, sizeof one.key, "%s", key);
    snprintf(one.address, sizeof one.address, "%s", address);
    snprintf(one.when, sizeof one.when, "%s", when);
    return one;
}

static void test_kept(void **state)
{
    (void)state;
    struct vr_err err = { 0 };
    char path[600];
    snprintf(path, sizeof path, "%s/a/links.json", scratch("links"));
    assert_true(vr_node_links_load(path, &l, &err)); /* none yet */
    assert_int_equal(l.n, 0);
    struct vr_node_link a = way("attic", "aa", "10.0.0.1:7433", "2026-01-02"),
                        b = way("attic", "aa", "10.9.0.1:7433", "2026-01-01"), /* over another network */
        c = way("cellar", "cc", "10.0.0.1:7433", "2026-01-03"); /* another machine that lives there now */
    vr_node_link_keep(&l, &a);
    vr_node_link_keep(&l, &b);
    vr_node_link_keep(&l, &c);
    a.round_trip_us = 500;
    vr_node_link_keep(&l, &a);
    assert_int_equal(l.n, 3);
    assert_true(vr_node_links_save(path, &l, &err) && vr_node_links_load(path, &again, &err));
    assert_memory_equal(&l, &again, sizeof l);
    assert_true(vr_node_link_find(&again, "aa", "10.0.0.1:7433")->round_trip_us == 500);
    assert_true(vr_node_link_find(&again, "aa", "10.9.0.1:7433")->round_trip_us == 300);
    assert_null(vr_node_link_find(&again, "cc", "10.9.0.1:7433"));
    assert_true(vr_node_link_gbs(&b) > 0.149 && vr_node_link_gbs(&b) < 0.151); /* there and back */
}

static void test_oldest_is_forgotten(void **state)
{
    (void)state;
    l = (struct vr_node_links){ 0 };
    for (int i = 0; i < VR_MAX_NODE_LINKS + 1; i++) {
        char key[8], when[32];
        snprintf(key, sizeof key, "%d", i);
        snprintf(when, sizeof when, "2026-%02d", i == 7 ? 1 : 2);
        struct vr_node_link one = way("n", key, "h:1", when);
        vr_node_link_keep(&l, &one);
    }
    assert_int_equal(l.n, VR_MAX_NODE_LINKS);
    assert_null(vr_node_link_find(&l, "7", "h:1"));
    assert_non_null(vr_node_link_find(&l, "64", "h:1"));
}

static void test_holds(void **state)
{
    (void)state;
    static const struct {
        double kept_us, look_us;
        bool holds;
    } rows[] = {
        { 300, 300, true },   { 300, 100, true },
        { 100, 20, true },                                                  /* a look is without the engine */
        { 300, 1500, true },  /* busy for a moment */ { 300, 5000, false }, /* now over Wi-Fi */
        { 5000, 300, false }, /* now by cable */ { 5000, 4000, true },
        { 5000, 9000, true },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct vr_node_link one = { .round_trip_us = rows[i].kept_us };
        assert_int_equal(vr_node_link_holds(&one, rows[i].look_us), rows[i].holds);
    }
}

static void test_damaged(void **state)
{
    (void)state;
#define GOOD "\"node\":\"a\",\"key\":\"k\",\"address\":\"h:1\",\"when\":\"w\","
    static const char *const bad[] = {
        "",
        "[]",
        "{\"links\":{}}",
        "{\"links\":[{}]}",
        "{\"links\":[{" GOOD "\"round_trip_us\":0,\"to_gbs\":1,\"from_gbs\":1}]}",
        "{\"links\":[{" GOOD "\"round_trip_us\":1,\"to_gbs\":-1,\"from_gbs\":1}]}",
        "{\"links\":[{" GOOD "\"round_trip_us\":1,\"to_gbs\":1e9,\"from_gbs\":1}]}",
        "{\"links\":[{" GOOD "\"round_trip_us\":1,\"to_gbs\":1}]}",
        "{\"links\":[{\"node\":\"a name that is much too "
        "long\",\"key\":\"k\",\"address\":\"h\",\"when\":\"w\",\"round_trip_us\":1,"
        "\"to_gbs\":1,\"from_gbs\":1}]}",
    };
    char path[600];
    snprintf(path, sizeof path, "%s", scratch("damaged.json"));
    for (size_t i = 0; i < VR_COUNT(bad); i++) {
        struct vr_err err = { 0 };
        assert_true(vr_file_write(path, bad[i], strlen(bad[i]), &err));
        assert_false(vr_node_links_load(path, &l, &err));
        assert_contains(err.msg, "is damaged");
        assert_int_equal(l.n, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_kept), cmocka_unit_test(test_oldest_is_forgotten),
                                        cmocka_unit_test(test_holds), cmocka_unit_test(test_damaged) };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
