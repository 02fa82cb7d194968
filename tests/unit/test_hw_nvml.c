/* NVML through the stub library, really loaded: VR_STUB_NVML names it. */
#include "test.h"

#include "base/text.h"
#include "hw/nvml.h"

static struct vr_machine m; /* too large for comfort on a stack under ASan */

static const char *stub(void)
{
    const char *s = getenv("VR_STUB_NVML");
    return s ? s : "build/tests/libnvml-stub.so";
}

static void read_mode(const char *mode)
{
    setenv("VR_STUB_NVML_MODE", mode, 1);
    memset(&m, 0, sizeof m);
    vr_nvml_read(stub(), &m);
    unsetenv("VR_STUB_NVML_MODE");
}

static void near(double got, double want) { assert_true(got > want - 0.01 && got < want + 0.01); }

static void test_three_cards(void **state)
{
    (void)state;
    read_mode("");
    assert_string_equal(m.note, "");
    assert_string_equal(m.driver, "NVIDIA 580.65.06 (CUDA 13.0)");
    assert_int_equal(m.n_devices, 3);
    const struct vr_device *d = &m.devices[0];
    assert_string_equal(d->name, "NVIDIA GeForce RTX 3090 Ti");
    assert_string_equal(d->backend, "CUDA");
    assert_string_equal(d->uuid, "GPU-11111111-aaaa-bbbb-cccc-000000000001");
    assert_string_equal(d->pci, "0000:01:00.0");
    assert_int_equal(d->total_bytes, 24564 * VR_MIB);
    assert_int_equal(d->free_bytes, 23287 * VR_MIB);
    near(d->bandwidth_gbs, 10501 * 2 * 384 / 8 / 1000.0);
    near(d->fp16_tflops, 80);
    assert_int_equal(d->cc_major, 8);
    assert_int_equal(d->cc_minor, 6);
    assert_int_equal(d->pcie_gen, 1);
    assert_int_equal(d->pcie_gen_max, 4);
    assert_int_equal(d->pcie_lanes, 8);
    assert_int_equal(d->pcie_lanes_max, 16);
    near(vr_device_link_gbs(d), 8 * 1.9692);
    assert_string_equal(d->note, "");
    assert_string_equal(m.devices[2].pci, "0000:41:00.0");
    near(m.devices[2].bandwidth_gbs, 432.048);
}

static void test_links(void **state)
{
    (void)state;
    read_mode("");
    assert_int_equal(m.n_links, 3);
    const struct vr_link *l = vr_machine_link(&m, 1, 0);
    assert_int_equal(l->kind, VR_LINK_NVLINK);
    assert_int_equal(l->n_nvlinks, 4);
    near(l->gbs, 4 * 14.062);
    assert_true(l->p2p);
    l = vr_machine_link(&m, 0, 2);
    assert_int_equal(l->kind, VR_LINK_SYSTEM);
    assert_int_equal(l->n_nvlinks, 0);
    assert_false(l->p2p);
    near(l->gbs, 4 * 1.9692);
}

static void test_nvswitch(void **state)
{
    (void)state;
    read_mode("switch");
    assert_int_equal(m.n_links, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(m.links[i].kind, VR_LINK_NVLINK);
        assert_int_equal(m.links[i].n_nvlinks, 18);
        near(m.links[i].gbs, 18 * 25);
    }
}

/* Half an answer: listed with what it told, the rest from the table of known cards, and a note. */
static void test_half(void **state)
{
    (void)state;
    read_mode("half");
    assert_int_equal(m.n_devices, 3);
    const struct vr_device *d = &m.devices[1];
    assert_string_equal(d->name, "NVIDIA GeForce RTX 3090 Ti");
    assert_int_equal(d->free_bytes, 24111 * VR_MIB);
    assert_string_equal(d->uuid, "");
    assert_string_equal(d->pci, "");
    near(d->bandwidth_gbs, 1008);
    assert_int_equal(d->cc_major, 8);
    assert_string_equal(
        d->note, "the driver does not report its UUID, its PCI address, its PCIe link, its memory bandwidth, its "
                 "compute capability");
    assert_string_equal(m.devices[0].note, "");
    assert_int_equal(m.n_links, 1); /* of 0-2; nobody knows where card 1 is */
    assert_null(vr_machine_link(&m, 0, 1));
}

static void test_lost(void **state)
{
    (void)state;
    static const char *const modes[] = { "lost", "lost-late" };
    for (size_t i = 0; i < 2; i++) {
        read_mode(modes[i]);
        assert_int_equal(m.n_devices, 2);
        assert_string_equal(m.devices[1].name, "NVIDIA GeForce RTX 4080 Laptop GPU");
        assert_non_null(strstr(m.note, "NVIDIA device 1 is left out: GPU is lost (15)"));
        assert_int_equal(m.n_links, 1);
    }
}

static void test_no_driver(void **state)
{
    (void)state;
    read_mode("init-fails");
    assert_int_equal(m.n_devices, 0);
    assert_non_null(strstr(m.note, "The NVIDIA driver does not respond: Driver Not Loaded (9); load it"));
    read_mode("mismatch");
    assert_non_null(strstr(m.note, "reboot"));
    read_mode("none");
    assert_int_equal(m.n_devices, 0);
    assert_string_equal(m.note, "");
    assert_string_equal(m.driver, "NVIDIA 580.65.06 (CUDA 13.0)");
}

static void test_old_driver(void **state)
{
    (void)state;
    read_mode("old");
    assert_int_equal(m.n_devices, 3);
    assert_int_equal(m.devices[0].free_bytes, 23287 * VR_MIB);
    assert_string_equal(m.driver, "NVIDIA 580.65.06");
    near(vr_machine_link(&m, 0, 1)->gbs, 4 * 14.0625); /* by version and chip */
}

static void test_many(void **state)
{
    (void)state;
    read_mode("many");
    assert_int_equal(m.n_devices, VR_MAX_DEVICES);
    assert_non_null(strstr(m.note, "lists 40 devices; those after the first 32 are left out"));
    assert_true(m.n_links <= VR_COUNT(m.links));
    assert_string_equal(m.devices[31].pci, "0000:6f:00.0");
}

static void test_wild(void **state)
{
    (void)state;
    read_mode("wild");
    const struct vr_device *d = &m.devices[0];
    assert_string_equal(d->name, "RTX ?[31m4090");
    assert_int_equal(d->free_bytes, d->total_bytes);
    assert_int_equal(d->pcie_lanes, 0);
    assert_int_equal(d->cc_major, 0);
    assert_true(d->bandwidth_gbs == 0);
    assert_int_equal(m.devices[1].cc_major, 8); /* the table's: its name is known */
}

static void test_no_library(void **state)
{
    (void)state;
    memset(&m, 0, sizeof m);
    vr_nvml_read("", &m);
    assert_string_equal(m.note, "");
    vr_nvml_read("/nonexistent/libnvidia-ml.so.1", &m);
    assert_non_null(strstr(m.note, "/nonexistent/libnvidia-ml.so.1 cannot be loaded"));
    memset(&m, 0, sizeof m);
    vr_nvml_read("libm.so.6", &m);
    assert_non_null(strstr(m.note, "libm.so.6 is not NVIDIA's management library"));
    assert_int_equal(m.n_devices, 0);
}

static void test_environment(void **state)
{
    (void)state;
    setenv("VRAM_LLM_NVML", stub(), 1);
    memset(&m, 0, sizeof m);
    vr_nvml_read(NULL, &m);
    assert_int_equal(m.n_devices, 3);
    setenv("VRAM_LLM_NVML", "", 1);
    memset(&m, 0, sizeof m);
    vr_nvml_read(NULL, &m);
    assert_int_equal(m.n_devices, 0);
    assert_string_equal(m.note, "");
    unsetenv("VRAM_LLM_NVML");
}

int main(void)
{
    unsetenv("VR_STUB_NVML_MODE");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_three_cards), cmocka_unit_test(test_links),       cmocka_unit_test(test_nvswitch),
        cmocka_unit_test(test_half),        cmocka_unit_test(test_lost),        cmocka_unit_test(test_no_driver),
        cmocka_unit_test(test_old_driver),  cmocka_unit_test(test_many),        cmocka_unit_test(test_wild),
        cmocka_unit_test(test_no_library),  cmocka_unit_test(test_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
