/* Readings from the stub library and from fake trees. */
#include "test.h"

#include "base/text.h"
#include "hw/gauge.h"
#include "test_hw_tree.h"

static struct vr_gauge_reading r;
static char root[600], proc[600];

static struct vr_gauge *gauge(const char *nvml)
{
    struct vr_err err = { 0 };
    const char *stub = getenv("VR_STUB_NVML");
    const struct vr_detect where = { .nvml = nvml   ? nvml
                                             : stub ? stub
                                                    : "build/tests/libnvml-stub.so",
                                     .sysfs = root,
                                     .proc = proc };
    static struct vr_machine m;
    if (!vr_machine_detect(&where, &m, &err)) fail_msg("%s", err.msg);
    struct vr_gauge *g = vr_gauge_new(&where, &m, &err);
    if (!g) fail_msg("%s", err.msg);
    return g;
}

static void read_it(struct vr_gauge *g)
{
    struct vr_err err = { 0 };
    if (!vr_gauge_read(g, &r, &err)) fail_msg("%s", err.msg);
}

static int make_tree(void **state)
{
    scratch_setup(state);
    snprintf(root, sizeof root, "%s", scratch_dir);
    snprintf(proc, sizeof proc, "%s/proc", scratch_dir);
    tree_put("proc/meminfo", "MemTotal: 65536 kB\nMemAvailable: 60000 kB\n");
    tree_put("proc/stat", "cpu  100 0 100 800 0 0 0 0 0 0\n");
    tree_put("class/drm/card0/device/vendor", "0x1002\n");
    tree_put("class/drm/card0/device/device", "0x744c\n");
    tree_put("class/drm/card0/device/revision", "0xc8\n");
    tree_put("class/drm/card0/device/uevent", "PCI_SLOT_NAME=0000:03:00.0\n");
    tree_put("class/drm/card0/device/mem_info_vram_total", "25753026560\n");
    tree_put("class/drm/card0/device/mem_info_vram_used", "0\n");
    return 0;
}

static void test_all(void **state)
{
    (void)state;
    struct vr_gauge *g = gauge(NULL);
    read_it(g);
    assert_int_equal(r.n_devices, 4);
    assert_string_equal(r.devices[2].id, "CUDA2");
    assert_string_equal(r.devices[2].name, "NVIDIA GeForce RTX 4080 Laptop GPU");
    assert_int_equal(r.devices[2].free_bytes, 11047 * VR_MIB);
    assert_int_equal(r.devices[2].load_percent, 42);
    assert_int_equal(r.devices[2].temperature_c, 57);
    assert_int_equal(r.devices[2].power_w, 252);
    assert_string_equal(r.devices[3].id, "ROCm0");
    assert_int_equal(r.devices[3].load_percent, -1);
    assert_int_equal(r.ram_total_bytes, 65536 * 1024);
    assert_int_equal(r.ram_free_bytes, 60000 * 1024);
    assert_int_equal(r.cpu_percent, -1); /* nothing to compare with yet */
    tree_put("proc/stat", "cpu  160 0 110 830 0 0 0 0 0 0\n");
    tree_put("class/drm/card0/device/mem_info_vram_used", "1000000000\n");
    read_it(g);
    assert_int_equal(r.cpu_percent, 70);
    assert_int_equal(r.devices[3].total_bytes - r.devices[3].free_bytes, 1000000000);
    vr_gauge_free(g);
}

static const struct {
    const char *mode;
    size_t n;
    const char *second;
    int load, power;
} rows[] = {
    { "", 4, "CUDA1", 41, 251 },
    { "lost-late", 3, "CUDA1", 42, 252 }, /* was not there at the first look either: CUDA1 is the laptop's card */
    { "old", 4, "CUDA1", 41, 251 },
    { "wild", 4, "CUDA1", -1, -1 },
};

static void test_modes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        setenv("VR_STUB_NVML_MODE", rows[i].mode, 1);
        struct vr_gauge *g = gauge(NULL);
        read_it(g);
        unsetenv("VR_STUB_NVML_MODE");
        print_message("%s\n", rows[i].mode);
        assert_int_equal(r.n_devices, rows[i].n);
        assert_string_equal(r.devices[1].id, rows[i].second);
        assert_int_equal(r.devices[1].load_percent, rows[i].load);
        assert_int_equal(r.devices[1].power_w, rows[i].power);
        vr_gauge_free(g);
    }
}

/* A card that is lost later is missing from the reading; those behind it keep their ids. */
static void test_lost_later(void **state)
{
    (void)state;
    struct vr_gauge *g = gauge(NULL);
    setenv("VR_STUB_NVML_MODE", "lost", 1);
    read_it(g);
    unsetenv("VR_STUB_NVML_MODE");
    assert_int_equal(r.n_devices, 3);
    assert_string_equal(r.devices[1].id, "CUDA2");
    vr_gauge_free(g);
}

static void test_no_driver(void **state)
{
    (void)state;
    struct vr_gauge *g = gauge("");
    read_it(g);
    assert_int_equal(r.n_devices, 1);
    assert_string_equal(r.devices[0].id, "ROCm0");
    vr_gauge_free(g);
    vr_gauge_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_all), cmocka_unit_test(test_modes),
                                        cmocka_unit_test(test_lost_later), cmocka_unit_test(test_no_driver) };
    return cmocka_run_group_tests(tests, make_tree, scratch_teardown);
}
