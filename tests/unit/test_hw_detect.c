/* Detection puts NVML (the stub), sysfs and the host together. */
#include "test.h"
#include "test_hw_tree.h"

#include "base/text.h"
#include "hw/detect.h"

static struct vr_machine m;
static char proc[512];

static int make_tree(void **state)
{
    unsetenv("VR_STUB_NVML_MODE");
    if (scratch_setup(state)) return -1;
    snprintf(proc, sizeof proc, "%s/proc", scratch_dir);
    tree_put("proc/meminfo", "MemTotal: 65536 kB\nMemAvailable: 60000 kB\n");
    tree_put("bus/pci/devices/0000:41:00.0/numa_node", "1\n");
    tree_put("bus/pci/devices/0000:41:00.0/vendor", "0x10de\n");
    tree_put("bus/pci/devices/0000:41:00.0/class", "0x030000\n");
    tree_put("class/drm/card0/device/vendor", "0x1002\n");
    tree_put("class/drm/card0/device/device", "0x744c\n");
    tree_put("class/drm/card0/device/revision", "0xc8\n");
    tree_put("class/drm/card0/device/uevent", "PCI_SLOT_NAME=0000:03:00.0\n");
    tree_put("class/drm/card0/device/mem_info_vram_total", "25753026560\n");
    tree_put("class/drm/card0/device/mem_info_vram_used", "0\n");
    return 0;
}

static const char *shown = "";

static void detect(const char *library)
{
    const struct vr_detect opts = { .nvml = library, .sysfs = scratch_dir, .proc = proc, .shown = shown };
    struct vr_err err = { 0 };
    if (!vr_machine_detect(&opts, &m, &err)) fail_msg("%s", err.msg);
}

static const char *stub(void)
{
    const char *s = getenv("VR_STUB_NVML");
    return s ? s : "build/tests/libnvml-stub.so";
}

static void test_both(void **state)
{
    (void)state;
    detect(stub());
    assert_int_equal(m.n_devices, 4);
    static const char *const ids[] = { "CUDA0", "CUDA1", "CUDA2", "ROCm0" };
    for (size_t i = 0; i < 4; i++) assert_string_equal(m.devices[i].id, ids[i]);
    assert_int_equal(m.devices[0].numa, -1);
    assert_int_equal(m.devices[2].numa, 1);
    assert_int_equal(m.host.ram_total_bytes, 64 * VR_MIB);
    assert_string_equal(m.driver, "NVIDIA 580.65.06 (CUDA 13.0)");
    assert_string_equal(m.note, "");
}

static void test_no_nvidia_driver(void **state)
{
    (void)state;
    detect("");
    assert_int_equal(m.n_devices, 1);
    assert_string_equal(m.devices[0].id, "ROCm0");
    assert_string_equal(m.note,
                        "1 NVIDIA GPU is on the bus (0000:41:00.0), but the NVIDIA driver is not loaded: install it.");
    /* a driver that said why it does not answer is not told to be missing as well */
    setenv("VR_STUB_NVML_MODE", "init-fails", 1);
    detect(stub());
    unsetenv("VR_STUB_NVML_MODE");
    assert_null(strstr(m.note, "on the bus"));
    assert_non_null(strstr(m.note, "Driver Not Loaded"));
}

/* GGML_CUDA_DEVICES: as the engine counts and shares (ggml_cuda_init, ggml_backend_cuda_device_get_memory). */
static void test_shown_as_many(void **state)
{
    (void)state;
    static const uint64_t free_mib[] = { 23287 / 2, 24111 / 2, 11047 };
    shown = "5";
    detect(stub());
    assert_int_equal(m.n_devices, 6);
    assert_string_equal(m.devices[4].id, "CUDA4");
    assert_string_equal(m.devices[5].id, "ROCm0");
    for (size_t i = 0; i < 5; i++) {
        assert_string_equal(m.devices[i].uuid, m.devices[i % 3].uuid);
        assert_int_equal(m.devices[i].free_bytes / VR_MIB, free_mib[i % 3]);
        assert_int_equal(m.devices[i].total_bytes, m.devices[i % 3].total_bytes);
        for (size_t k = 0; k < i; k++) assert_non_null(vr_machine_link(&m, i, k));
    }
    assert_int_equal(m.devices[2].numa, 1);
    assert_int_equal(m.n_links, 10);
    assert_int_equal(vr_machine_link(&m, 1, 3)->kind, VR_LINK_NVLINK);
    assert_true(vr_machine_link(&m, 0, 3)->p2p);
    assert_string_equal(m.note, "GGML_CUDA_DEVICES shows 3 GPUs as 5.");
    static const char *const ignored[] = { "0", "-1", "3", "2", "many", "17", "" };
    for (size_t i = 0; i < VR_COUNT(ignored); i++) {
        shown = ignored[i];
        detect(stub());
        assert_int_equal(m.n_devices, 4);
        assert_string_equal(m.note, "");
    }
}

/* Whatever this computer has, looking at it works, and twice the same. */
static void test_this_computer(void **state)
{
    (void)state;
    struct vr_err err = { 0 };
    static struct vr_machine again;
    if (!vr_machine_detect(NULL, &m, &err)) fail_msg("%s", err.msg);
    assert_true(vr_machine_detect(NULL, &again, &err));
    assert_int_equal(m.n_devices, again.n_devices);
    assert_true(m.host.ram_total_bytes > 0);
    const struct vr_detect nowhere = { .nvml = "", .sysfs = "/nonexistent", .proc = "/nonexistent" };
    assert_false(vr_machine_detect(&nowhere, &m, &err));
    assert_int_equal(err.code, VR_EIO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both),
        cmocka_unit_test(test_no_nvidia_driver),
        cmocka_unit_test(test_shown_as_many),
        cmocka_unit_test(test_this_computer),
    };
    return cmocka_run_group_tests(tests, make_tree, scratch_teardown);
}
