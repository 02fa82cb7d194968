/* The host's bandwidth where its firmware tells none: measured once, kept for this host, never over what is known. */
#include "test.h"
#include "test_hw_tree.h"

#include <glob.h>

#include "base/text.h"
#include "hw/bandwidth.h"
#include "hw/profile.h"
#include "plan/speed.h"

static unsigned n_measured, n_threads;
static uint64_t n_bytes;
static double answer;

static double stub(unsigned threads, uint64_t bytes)
{
    n_measured++;
    n_threads = threads;
    n_bytes = bytes;
    return answer;
}

static int set_up(void **state)
{
    if (scratch_setup(state)) return -1;
    setenv("XDG_CACHE_HOME", scratch_dir, 1);
    unsetenv(VR_BANDWIDTH_VAR);
    n_measured = 0;
    answer = 41.5;
    return 0;
}

static struct vr_host a_host(void)
{
    return (struct vr_host){ .cpu = "A \"processor\"",
                             .cores = 6,
                             .threads = 12,
                             .numa_nodes = 1,
                             .ram_total_bytes = 32 * VR_GIB,
                             .ram_free_bytes = 16 * VR_GIB };
}

static struct vr_host find_for(struct vr_host h)
{
    struct vr_err err = { 0 };
    const struct vr_bandwidth how = { .sysfs = scratch_dir, .proc = scratch_dir, .measure = stub };
    if (!vr_bandwidth_find(&how, &h, &err)) fail_msg("%s", err.msg);
    return h;
}

static void test_once(void **state)
{
    (void)state;
    struct vr_host h = find_for(a_host());
    assert_float_equal(h.bandwidth_gbs, 41.5, 1e-9);
    assert_int_equal(h.bandwidth_from, VR_FROM_READING);
    assert_int_equal(n_measured, 1);
    assert_int_equal(n_threads, 6);
    assert_int_equal(n_bytes, 256 * VR_MIB);
    answer = 7;
    h = find_for(a_host()); /* another start: what was kept */
    assert_float_equal(h.bandwidth_gbs, 41.5, 1e-9);
    assert_int_equal(h.bandwidth_from, VR_FROM_READING);
    assert_int_equal(n_measured, 1);
}

/* Another processor, number of cores or memory is another host; both are kept. */
static void test_other_hosts(void **state)
{
    (void)state;
    struct vr_host others[] = { a_host(), a_host(), a_host(), a_host() };
    strcpy(others[1].cpu, "Another");
    others[2].cores = 4;
    others[3].ram_total_bytes = 64 * VR_GIB;
    for (unsigned round = 0; round < 2; round++)
        for (size_t i = 0; i < VR_COUNT(others); i++) {
            answer = 20 + (double)i;
            assert_true(find_for(others[i]).bandwidth_gbs == 20 + (double)i);
        }
    assert_int_equal(n_measured, VR_COUNT(others));
}

static void test_not_measured(void **state)
{
    (void)state;
    struct vr_host h = a_host();
    h.bandwidth_gbs = 76.8;
    h.bandwidth_from = VR_FROM_MODULES;
    assert_int_equal(find_for(h).bandwidth_from, VR_FROM_MODULES); /* it is known */
    h = a_host();
    h.ram_free_bytes = 512 * VR_MIB;
    assert_float_equal(find_for(h).bandwidth_gbs, 0, 0); /* memory is short */
    setenv(VR_BANDWIDTH_VAR, "off", 1);
    assert_float_equal(find_for(a_host()).bandwidth_gbs, 0, 0);
    unsetenv(VR_BANDWIDTH_VAR);
    tree_put("a-file", "x");
    char in_a_file[600];
    snprintf(in_a_file, sizeof in_a_file, "%s/a-file", scratch_dir);
    setenv("XDG_CACHE_HOME", in_a_file, 1);
    assert_float_equal(find_for(a_host()).bandwidth_gbs, 0, 0); /* it could not be kept */
    assert_int_equal(n_measured, 0);
}

/* While others keep the processor busy nothing is kept, and the next start tries again. */
static void test_busy(void **state)
{
    (void)state;
    answer = 0;
    assert_int_equal(find_for(a_host()).bandwidth_from, VR_FROM_NOBODY);
    answer = 30;
    tree_put("loadavg", "9.20 8.18 1.12 3/180 11206\n"); /* two others on six cores: not even tried */
    assert_int_equal(find_for(a_host()).bandwidth_from, VR_FROM_NOBODY);
    assert_int_equal(n_measured, 1);
    tree_put("loadavg", "9.20 8.18 1.12 2/180 11206\n"); /* what was is over */
    assert_float_equal(find_for(a_host()).bandwidth_gbs, 30, 1e-9);
    assert_int_equal(n_measured, 2);
}

static void test_given(void **state)
{
    (void)state;
    struct vr_host h = a_host();
    struct vr_err err = { 0 };
    h.bandwidth_gbs = 76.8;
    setenv(VR_BANDWIDTH_VAR, "51.2", 1);
    h = find_for(h);
    assert_float_equal(h.bandwidth_gbs, 51.2, 1e-9);
    assert_int_equal(h.bandwidth_from, VR_FROM_USER);
    static const char *const wrong[] = { "fast", "0", "-3", "1e9", "51.2 GB/s", "nan" };
    for (size_t i = 0; i < VR_COUNT(wrong); i++) {
        setenv(VR_BANDWIDTH_VAR, wrong[i], 1);
        assert_false(vr_bandwidth_find(NULL, &h, &err));
        assert_non_null(strstr(err.msg, "neither a number of GB/s nor 'off'"));
    }
    unsetenv(VR_BANDWIDTH_VAR);
    assert_int_equal(n_measured, 0);
}

/* What is in the file is believed only if it can be. */
static void test_damaged_file(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "", "{", "[]", "{\"gbs\":\"41\"}", "{\"gbs\":0}", "{\"gbs\":1e300}", "{\"gbs\":-1}"
    };
    char pattern[600];
    glob_t found;
    find_for(a_host());
    snprintf(pattern, sizeof pattern, "%s/vram-llm/host-*.json", scratch_dir);
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    assert_int_equal(found.gl_pathc, 1);
    for (size_t i = 0; i < VR_COUNT(texts); i++) {
        FILE *f = fopen(found.gl_pathv[0], "w");
        assert_non_null(f);
        fputs(texts[i], f);
        fclose(f);
        assert_float_equal(find_for(a_host()).bandwidth_gbs, 41.5, 1e-9);
        assert_int_equal(n_measured, 2 + i);
    }
    globfree(&found);
}

/* Each last-level cache counts once: two of them, each of four threads. */
static void test_caches(void **state)
{
    (void)state;
    assert_int_equal(vr_bandwidth_cache_bytes(scratch_dir), 0);
    for (unsigned i = 0; i < 8; i++) {
        char at[128];
        snprintf(at, sizeof at, "devices/system/cpu/cpu%u/cache/index2/size", i);
        tree_put(at, "1024K\n");
        snprintf(at, sizeof at, "devices/system/cpu/cpu%u/cache/index3/size", i);
        tree_put(at, "262144K\n");
        snprintf(at, sizeof at, "devices/system/cpu/cpu%u/cache/index3/shared_cpu_list", i);
        tree_put(at, i < 4 ? "0-3\n" : "4-7\n");
    }
    assert_int_equal(vr_bandwidth_cache_bytes(scratch_dir), 512 * VR_MIB);
    find_for(a_host());
    assert_int_equal(n_bytes, VR_GIB);
}

/* For real: whatever else this computer does, it comes back, and with a rate that memory can have or with none. */
static void test_measured(void **state)
{
    (void)state;
    for (unsigned threads = 1; threads <= 3; threads++) {
        double gbs = vr_bandwidth_measure(threads, 16 * VR_MIB);
        assert_true(gbs == 0 || (gbs > 0.1 && gbs < 1e4));
    }
    assert_float_equal(vr_bandwidth_measure(0, VR_MIB), 0, 0);
    assert_true(vr_bandwidth_measure(2, 64) >= 0);
}

/* A figure that was read is a smaller part of what modules promise: 85 GB/s read are modules of 100. */
static void test_planned_with(void **state)
{
    (void)state;
    static struct vr_machine m;
    static struct vr_speeds by_modules, by_reading;
    m = (struct vr_machine){ .host = a_host() };
    m.host.bandwidth_gbs = 100, m.host.bandwidth_from = VR_FROM_MODULES;
    vr_speeds_guess(&m, &by_modules);
    m.host.bandwidth_gbs = 85, m.host.bandwidth_from = VR_FROM_READING;
    vr_speeds_guess(&m, &by_reading);
    assert_float_equal(by_reading.places[VR_SPEED_HOST].gbs, by_modules.places[VR_SPEED_HOST].gbs, 1e-9);
}

/* Where it came from is part of a profile. */
static void test_profile(void **state)
{
    (void)state;
    static struct vr_machine m, again;
    struct vr_err err = { 0 };
    char path[600];
    snprintf(path, sizeof path, "%s/machine.json", scratch_dir);
    for (int from = VR_FROM_NOBODY; from <= VR_FROM_USER; from++) {
        m = (struct vr_machine){ .host = a_host() };
        m.host.bandwidth_gbs = 60;
        m.host.bandwidth_from = (enum vr_bandwidth_from)from;
        assert_true(vr_profile_save(path, &m, &err));
        if (!vr_profile_load(path, &again, &err)) fail_msg("%s", err.msg);
        assert_int_equal(again.host.bandwidth_from, from);
    }
    tree_put("bad.json", "{\"host\":{\"ram_total_mib\":1024,\"bandwidth_from\":\"hearsay\"},\"devices\":[]}");
    snprintf(path, sizeof path, "%s/bad.json", scratch_dir);
    assert_false(vr_profile_load(path, &again, &err));
    assert_non_null(strstr(err.msg, "must be one of modules, measured"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_once, set_up, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_other_hosts, set_up, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_not_measured, set_up, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_busy, set_up, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_given, set_up, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_damaged_file, set_up, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_caches, set_up, scratch_teardown),
        cmocka_unit_test(test_measured),
        cmocka_unit_test(test_planned_with),
        cmocka_unit_test_setup_teardown(test_profile, set_up, scratch_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
