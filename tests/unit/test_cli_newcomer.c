/* A model that is to be loaded beside others, by real plans: host memory that they have taken already, or may take yet,
 * and what stands in the way as data. */
#include "test.h"

#include <jansson.h>

#include "cli/load/newcomer.h"
#include "engine_fixtures.h"

#define GIB (UINT64_C(1) << 30)

struct found {
    bool fits;
    struct vr_departure d;
    char obstacles[512]; /* JSON, where it does not fit */
};

/* Qwen3-30B on a card of 12 GB, most of the rest on a host with so much free memory. */
static struct found settle(const char *residents, uint64_t ram_mib)
{
    const char *argv[] = { "--gpus",
                           "RTX 3060 12GB",
                           "--n-ctx=4096",
                           "--n-ubatch=512",
                           "--host-weights=mapped",
                           "--cache-ram=0",
                           "--model",
                           fixture_path("qwen3-30b-a3b") };
    struct vr_options o;
    struct vr_err err = { 0 }, why = { 0 };
    struct vr_learned learned = { 0 };
    struct found out = { 0 };
    VR_AUTO(vr_input) in = vr_input_new(&err);
    VR_AUTO_MODELS models = { 0 };
    VR_AUTO_FREE struct vr_residents *all = calloc(1, sizeof *all);
    if (!in || !vr_options_parse(vr_command_find("serve"), (int)VR_COUNT(argv), (char **)(uintptr_t)argv, &o, &err))
        fail_msg("%s", err.msg);
    o.ram_mib = ram_mib;
    if (!vr_models_open(&o, &models, &err) || !vr_input_machine(&o, &in->machine, &err) ||
        !vr_residents_parse(residents, strlen(residents), &in->machine, all, &err))
        fail_msg("%s", err.msg);
    out.fits = vr_newcomer_settle(&o, &models, &learned, all, in, &out.d, &why);
    if (out.fits) return out;
    assert_int_equal(why.code, VR_ENOFIT);
    json_t *list = vr_newcomer_obstacles(all, &out.d);
    VR_AUTO_FREE char *text = json_dumps(list, JSON_COMPACT);
    json_decref(list);
    snprintf(out.obstacles, sizeof out.obstacles, "%s", text);
    return out;
}

/* One resident with so much of the card and the host, of which it has taken some. */
static struct found beside(const char *how, uint64_t card, uint64_t host, uint64_t host_now, uint64_t ram_mib)
{
    char text[400];
    snprintf(text, sizeof text,
             "{\"residents\":[{\"model\":\"a\",%s\"cost_s\":5,\"last_used_s\":60,\"devices\":{\"CUDA0\":%llu},"
             "\"host\":%llu,\"host_now\":%llu}]}",
             how, (unsigned long long)card, (unsigned long long)host, (unsigned long long)host_now);
    return settle(text, ram_mib);
}

static void test_host_now(void **state)
{
    (void)state;
    static const struct {
        uint64_t ram_gib, host_now_gib;
        bool fits, leaves;
    } rows[] = {
        { 14, 8, true, false }, /* it has taken what it may: the free memory lacks that already */
        { 14, 0, true, true },  /* it may take 8 of it yet */
        { 6, 8, true, true },   /* what it has taken comes back */
        { 6, 0, false, false }, /* nothing does */
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct found f = beside("", 0, 8 * GIB, rows[i].host_now_gib * GIB, rows[i].ram_gib * 1024);
        if (f.fits != rows[i].fits || (f.d.leaving != 0) != rows[i].leaves)
            fail_msg("row %zu: fits %d, leaving %d", i, f.fits, (int)f.d.leaving);
    }
}

static void test_obstacles(void **state)
{
    (void)state;
    struct found f = beside("\"busy\":true,", GIB, 8 * GIB, 8 * GIB, 6 * 1024);
    assert_false(f.fits);
    assert_string_equal(f.obstacles, "[{\"kind\":\"busy\",\"model\":\"a\",\"bytes\":9663676416}]");
    f = beside("\"busy\":true,\"pinned\":true,", GIB, 8 * GIB, 8 * GIB, 6 * 1024);
    assert_string_equal(f.obstacles, "[{\"kind\":\"pinned\",\"model\":\"a\",\"bytes\":9663676416}]");
    f = beside("\"busy\":true,\"before\":{\"CUDA0\":9000000000},", GIB, 8 * GIB, 8 * GIB, 6 * 1024);
    assert_string_equal(f.obstacles, "[{\"kind\":\"loading\",\"model\":\"a\",\"bytes\":9663676416}]");
    f = beside("\"pinned\":true,", GIB, GIB, 0, 1024);
    assert_string_equal(f.obstacles, "[{\"kind\":\"too_large\"}]");
    for (enum vr_obstacle kind = 0, again; kind < VR_N_OBSTACLES; kind++) {
        assert_true(vr_obstacle_parse(vr_obstacle_name(kind), &again));
        assert_int_equal(again, kind);
    }
    enum vr_obstacle none;
    assert_false(vr_obstacle_parse("nothing", &none) || vr_obstacle_parse(NULL, &none));
}

static void test_nonsense(void **state)
{
    (void)state;
    static const char *const texts[] = { "{\"residents\":[{}]}", "{\"residents\":[{\"model\":7}]}",
                                         "{\"residents\":[{\"model\":\"a\",\"host\":-1}]}",
                                         "{\"residents\":[{\"model\":\"a\",\"before\":{\"CUDA0\":-1}}]}",
                                         "{\"residents\":[{\"model\":\"a\",\"host_now\":\"all\"}]}" };
    struct vr_err err = { 0 };
    VR_AUTO(vr_machine) m = vr_machine_new(&err);
    VR_AUTO_FREE struct vr_residents *all = calloc(1, sizeof *all);
    for (size_t i = 0; i < VR_COUNT(texts); i++)
        assert_false(vr_residents_parse(texts[i], strlen(texts[i]), m, all, &err));
}

int main(void)
{
    setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_host_now),
        cmocka_unit_test(test_obstacles),
        cmocka_unit_test(test_nonsense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
