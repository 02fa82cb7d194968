/* The host, from fake trees and from this computer. */
#include "test.h"
#include "test_hw_tree.h"

#include "base/text.h"
#include "hw/host.h"

#define MEMINFO "MemTotal:       65536000 kB\nMemFree:         1000000 kB\nMemAvailable:   60000000 kB\nBuffers: 5 kB\n"

static struct vr_host read_host(void)
{
    struct vr_host h;
    struct vr_err err = { 0 };
    char proc[512];
    snprintf(proc, sizeof proc, "%s/proc", scratch_dir);
    if (!vr_host_read(scratch_dir, proc, &h, &err)) fail_msg("%s", err.msg);
    return h;
}

static void test_plain(void **state)
{
    (void)state;
    tree_put("proc/meminfo", MEMINFO);
    tree_put("proc/cpuinfo",
             "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC 7302 16-Core Processor\n"
             "processor\t: 1\nmodel name\t: other\n");
    /* two cores of two threads, numbered as Linux does, one of one, one offline */
    tree_put("devices/system/cpu/cpu0/topology/core_cpus_list", "0,2\n");
    tree_put("devices/system/cpu/cpu2/topology/core_cpus_list", "0,2\n");
    tree_put("devices/system/cpu/cpu1/topology/thread_siblings_list", "1,3\n");
    tree_put("devices/system/cpu/cpu3/topology/thread_siblings_list", "1-3\n");
    tree_put("devices/system/cpu/cpu5/topology/core_cpus_list", "5\n");
    tree_put("devices/system/cpu/cpu4/online", "0\n");
    tree_put("devices/system/cpu/cpufreq/x", "");
    tree_put("devices/system/node/node0/cpulist", "0-3\n");
    tree_put("devices/system/node/node1/cpulist", "\n");
    struct vr_host h = read_host();
    assert_int_equal(h.ram_total_bytes, 65536000ull * 1024);
    assert_int_equal(h.ram_free_bytes, 60000000ull * 1024);
    assert_string_equal(h.cpu, "AMD EPYC 7302 16-Core Processor");
    assert_int_equal(h.threads, 5);
    assert_int_equal(h.cores, 3);
    assert_int_equal(h.numa_nodes, 2);
    assert_true(h.bandwidth_gbs == 0);
}

static void test_cgroup(void **state)
{
    (void)state;
    tree_put("proc/meminfo", MEMINFO);
    tree_put("proc/self/cgroup", "12:cpu:/old\n0::/box/inner\n");
    tree_put("fs/cgroup/box/inner/memory.max", "max\n");
    assert_int_equal(read_host().ram_total_bytes, 65536000ull * 1024);
    /* the parent's limit counts; its file cache is as good as free */
    tree_put("fs/cgroup/box/memory.max", "8589934592\n");
    tree_put("fs/cgroup/box/memory.current", "3221225472\n");
    tree_put("fs/cgroup/box/memory.stat", "anon 1073741824\ninactive_file 1073741824\nfile 5\n");
    struct vr_host h = read_host();
    assert_int_equal(h.ram_total_bytes, 8 * VR_GIB);
    assert_int_equal(h.ram_free_bytes, 6 * VR_GIB);
    /* the tightest wins */
    tree_put("fs/cgroup/box/inner/memory.max", "1073741824\n");
    h = read_host();
    assert_int_equal(h.ram_total_bytes, VR_GIB);
    assert_int_equal(h.ram_free_bytes, VR_GIB);
    /* more in use than the limit, which a lowered limit does */
    tree_put("fs/cgroup/box/inner/memory.current", "2147483648\n");
    assert_int_equal(read_host().ram_free_bytes, 0);
    /* in a container's namespace the group is the root, and its files lie there */
    tree_put("proc/self/cgroup", "0::/\n");
    assert_int_equal(read_host().ram_total_bytes, 65536000ull * 1024);
    tree_put("fs/cgroup/memory.max", "4294967296\n");
    assert_int_equal(read_host().ram_total_bytes, 4 * VR_GIB);
    /* a limit above the machine is none */
    tree_put("fs/cgroup/memory.max", "9223372036854771712\n");
    assert_int_equal(read_host().ram_total_bytes, 65536000ull * 1024);
    tree_put("proc/self/cgroup", "");
}

static void test_odd(void **state)
{
    (void)state;
    tree_put("proc/meminfo", "MemTotal: 1000 kB\nMemFree: 2000 kB\n"); /* no MemAvailable, and more than all */
    tree_put("proc/cpuinfo", "BogoMIPS : 48.00\n");
    struct vr_host h = read_host();
    assert_int_equal(h.ram_free_bytes, 1000 * 1024);
    assert_string_equal(h.cpu, "");
}

static void test_fails(void **state)
{
    (void)state;
    struct vr_host h;
    struct vr_err err = { 0 };
    assert_false(vr_host_read("/sys", "/nonexistent", &h, &err));
    assert_int_equal(err.code, VR_EIO);
    assert_non_null(strstr(err.msg, "/nonexistent/meminfo: No such file"));
    char proc[512];
    snprintf(proc, sizeof proc, "%s/proc", scratch_dir);
    tree_put("proc/meminfo", "Hello\n");
    assert_false(vr_host_read("/sys", proc, &h, &err));
    assert_int_equal(err.code, VR_EFORMAT);
    assert_non_null(strstr(err.msg, "no MemTotal"));
}

static void test_this_computer(void **state)
{
    (void)state;
    struct vr_host h;
    struct vr_err err = { 0 };
    if (!vr_host_read("/sys", "/proc", &h, &err)) fail_msg("%s", err.msg);
    assert_true(h.ram_total_bytes > 64 * VR_MIB);
    assert_true(h.ram_free_bytes <= h.ram_total_bytes);
    assert_true(h.cores <= h.threads);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain), cmocka_unit_test(test_cgroup),        cmocka_unit_test(test_odd),
        cmocka_unit_test(test_fails), cmocka_unit_test(test_this_computer),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
