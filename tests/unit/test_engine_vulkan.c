/* Cards through Vulkan: what detection knew and what the engine lists become one machine. */
#include "test.h"

#include "base/text.h"
#include "engine/llama/vulkan.h"

static struct vr_machine m;

static struct vr_device *add(const char *backend, const char *name, const char *pci, uint64_t free_mib)
{
    struct vr_device *d = vr_machine_add(&m);
    snprintf(d->backend, sizeof d->backend, "%s", backend);
    snprintf(d->name, sizeof d->name, "%s", name);
    snprintf(d->pci, sizeof d->pci, "%s", pci);
    d->total_bytes = 24576 * VR_MIB;
    d->free_bytes = free_mib * VR_MIB;
    return d;
}

static const struct vr_vulkan list = {
    .items = { { "AMD Radeon RX 7900 XTX (RADV NAVI31)", "0000:03:00.0", 24560 * VR_MIB, 24000 * VR_MIB },
               { "Intel(R) Arc(tm) A770 Graphics (DG2)", "", 16384 * VR_MIB, 16000 * VR_MIB },
               { "NVIDIA GeForce RTX 3090", "0000:01:00.0", 24576 * VR_MIB, 20000 * VR_MIB } },
    .n = 3,
};

static void test_join(void **state)
{
    (void)state;
    memset(&m, 0, sizeof m);
    add("CUDA", "NVIDIA GeForce RTX 3090", "0000:01:00.0", 23000)->bandwidth_gbs = 936;
    add("CUDA", "NVIDIA GeForce RTX 2060", "0000:02:00.0", 5000);
    add("ROCm", "AMD Radeon RX 7900 XTX", "0000:03:00.0", 22000);
    m.links[m.n_links++] = (struct vr_link){ .a = 0, .b = 1, .gbs = 12 };
    vr_machine_number(&m);
    vr_vulkan_join(&list, &m);
    static const struct {
        const char *id, *name;
        uint64_t free_mib;
    } rows[] = {
        { "CUDA0", "NVIDIA GeForce RTX 2060", 5000 }, /* its Vulkan driver is missing */
        { "Vulkan0", "AMD Radeon RX 7900 XTX", 22000 },
        { "Vulkan1", "Intel(R) Arc(tm) A770 Graphics (DG2)", 16000 },
        { "Vulkan2", "NVIDIA GeForce RTX 3090", 23000 },
    };
    assert_int_equal(m.n_devices, VR_COUNT(rows));
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        assert_string_equal(m.devices[i].id, rows[i].id);
        assert_string_equal(m.devices[i].name, rows[i].name);
        assert_int_equal(m.devices[i].free_bytes, rows[i].free_mib * VR_MIB);
    }
    assert_true(m.devices[3].bandwidth_gbs == 936);
    assert_int_equal(m.n_links, 0);
}

static void test_nothing_listed(void **state)
{
    (void)state;
    memset(&m, 0, sizeof m);
    add("ROCm", "AMD Radeon RX 7900 XTX", "0000:03:00.0", 22000);
    vr_machine_number(&m);
    vr_vulkan_join(&(struct vr_vulkan){ 0 }, &m);
    assert_int_equal(m.n_devices, 1);
    assert_string_equal(m.devices[0].id, "ROCm0");
}

static void test_too_many(void **state)
{
    (void)state;
    memset(&m, 0, sizeof m);
    for (size_t i = 0; i < VR_MAX_DEVICES - 1; i++) add("CUDA", "NVIDIA GeForce RTX 2060", "0000:02:00.0", 5000);
    vr_vulkan_join(&list, &m);
    assert_int_equal(m.n_devices, VR_MAX_DEVICES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_join),
        cmocka_unit_test(test_nothing_listed),
        cmocka_unit_test(test_too_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
