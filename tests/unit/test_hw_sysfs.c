/* AMD and Intel cards in a fake /sys. */
#include "test.h"
#include "test_hw_tree.h"

#include "base/text.h"
#include "hw/gpus.h"
#include "hw/sysfs.h"

static struct vr_machine m;

/* One PCI device with what every card has; cardN is linked to it when n >= 0. */
static void pci_device(const char *dir, int card, const char *slot, const char *vendor, const char *device,
                       const char *revision)
{
    char path[256], text[128];
    const struct {
        const char *name, *text;
    } files[] = { { "vendor", vendor }, { "device", device }, { "revision", revision }, { "class", "0x030000" } };
    for (size_t i = 0; i < VR_COUNT(files); i++) {
        snprintf(path, sizeof path, "%s/%s", dir, files[i].name);
        snprintf(text, sizeof text, "%s\n", files[i].text);
        tree_put(path, text);
    }
    snprintf(path, sizeof path, "%s/uevent", dir);
    snprintf(text, sizeof text, "DRIVER=x\nPCI_SLOT_NAME=%s\nMODALIAS=pci\n", slot);
    tree_put(path, text);
    snprintf(path, sizeof path, "bus/pci/devices/%s", slot);
    tree_link(path, dir);
    if (card < 0) return;
    snprintf(path, sizeof path, "class/drm/card%d/device", card);
    tree_link(path, dir);
}

static void put(const char *dir, const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    tree_put(path, text);
}

static void link_files(const char *dir, const char *speed, const char *width, const char *max_speed,
                       const char *max_width)
{
    put(dir, "current_link_speed", speed);
    put(dir, "current_link_width", width);
    put(dir, "max_link_speed", max_speed);
    put(dir, "max_link_width", max_width);
}

#define PORT "devices/pci0000:00/0000:00:01.0"

static int make_cards(void **state)
{
    if (scratch_setup(state)) return -1;
    /* a 7900 XTX behind its own switch, in a slot with four lanes, idle */
    const char *xtx = PORT "/0000:01:00.0/0000:02:00.0/0000:03:00.0";
    pci_device(xtx, 1, "0000:03:00.0", "0x1002", "0x744c", "0xc8");
    put(xtx, "mem_info_vram_total", "25753026560\n");
    put(xtx, "mem_info_vram_used", "400556032\n");
    put(xtx, "unique_id", "7a1b2c3d4e5f6071\n");
    put(xtx, "numa_node", "1\n");
    link_files(xtx, "16.0 GT/s PCIe\n", "16\n", "16.0 GT/s PCIe\n", "16\n");
    link_files(PORT "/0000:01:00.0/0000:02:00.0", "16.0 GT/s PCIe\n", "16\n", "16.0 GT/s PCIe\n", "16\n");
    link_files(PORT "/0000:01:00.0", "2.5 GT/s PCIe\n", "4\n", "16.0 GT/s PCIe\n", "16\n");
    link_files(PORT, "2.5 GT/s PCIe\n", "4\n", "16.0 GT/s PCIe\n", "4\n");
    /* an unknown AMD card with a product name and no use count; its card number is lower, its address higher */
    const char *unknown = "devices/pci0000:00/0000:0b:00.0";
    pci_device(unknown, 0, "0000:0b:00.0", "0x1002", "0x9999", "0x01");
    put(unknown, "product_name", "Instinct MI999\n");
    put(unknown, "mem_info_vram_total", "34342961152\n");
    put(unknown, "numa_node", "-1\n");
    /* a processor's own graphics: 512 MiB of the host's memory */
    const char *apu = "devices/pci0000:00/0000:0c:00.0";
    pci_device(apu, 2, "0000:0c:00.0", "0x1002", "0x1681", "0xc8");
    put(apu, "mem_info_vram_total", "536870912\n");
    /* Strix Halo twice: as shipped, and with 96 GiB set aside */
    pci_device("devices/pci0000:00/0000:0d:00.0", 3, "0000:0d:00.0", "0x1002", "0x1586", "0xc1");
    put("devices/pci0000:00/0000:0d:00.0", "mem_info_vram_total", "536870912\n");
    pci_device("devices/pci0000:00/0000:0e:00.0", 4, "0000:0e:00.0", "0x1002", "0x1586", "0xc1");
    put("devices/pci0000:00/0000:0e:00.0", "mem_info_vram_total", "103079215104\n");
    put("devices/pci0000:00/0000:0e:00.0", "mem_info_vram_used", "999999999999999\n"); /* more than there is */
    /* a small card, all of it there */
    pci_device("devices/pci0000:00/0000:0f:00.0", 5, "0000:0f:00.0", "0x1002", "0x743f", "0xc7");
    put("devices/pci0000:00/0000:0f:00.0", "mem_info_vram_total", "4278190080\n");
    put("devices/pci0000:00/0000:0f:00.0", "mem_info_vram_used", "0\n");
    /* Intel: one that tells, one that does not, one processor */
    pci_device("devices/pci0000:00/0000:10:00.0", 6, "0000:10:00.0", "0x8086", "0xe20b", "0x00");
    put("devices/pci0000:00/0000:10:00.0", "tile0/physical_vram_size_bytes", "0x300000000\n");
    pci_device("devices/pci0000:00/0000:11:00.0", 7, "0000:11:00.0", "0x8086", "0x56a0", "0x08");
    pci_device("devices/pci0000:00/0000:12:00.0", 8, "0000:12:00.0", "0x8086", "0x4680", "0x0c");
    /* NVIDIA is NVML's; its sound function is nobody's */
    pci_device("devices/pci0000:00/0000:13:00.0", 9, "0000:13:00.0", "0x10de", "0x2204", "0xa1");
    pci_device("devices/pci0000:00/0000:13:00.1", -1, "0000:13:00.1", "0x10de", "0x1aef", "0xa1");
    tree_put("bus/pci/devices/0000:13:00.1/class", "0x040300\n");
    /* not cards */
    tree_put("class/drm/card1-DP-1/status", "connected\n");
    tree_put("class/drm/renderD128/dev", "226:128\n");
    tree_put("class/drm/card99/device/vendor", "garbage\n");
    tree_put("class/drm/card98/device/vendor", "0x\n");
    memset(&m, 0, sizeof m);
    vr_sysfs_read(scratch_dir, &m);
    vr_machine_number(&m);
    return 0;
}

static void test_list(void **state)
{
    (void)state;
    static const struct {
        const char *id, *name, *pci;
        uint64_t total_mib;
    } rows[] = {
        { "ROCm0", "AMD Radeon RX 7900 XTX", "0000:03:00.0", 24560 },
        { "ROCm1", "AMD Instinct MI999", "0000:0b:00.0", 32752 },
        { "ROCm2", "AMD Radeon 8060S Graphics", "0000:0e:00.0", 98304 },
        { "ROCm3", "AMD Radeon RX 6400", "0000:0f:00.0", 4080 },
        { "SYCL0", "Intel Arc B580", "0000:10:00.0", 12288 },
    };
    assert_int_equal(m.n_devices, VR_COUNT(rows));
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        assert_string_equal(m.devices[i].id, rows[i].id);
        assert_string_equal(m.devices[i].name, rows[i].name);
        assert_string_equal(m.devices[i].pci, rows[i].pci);
        assert_int_equal(m.devices[i].total_bytes / VR_MIB, rows[i].total_mib);
        assert_true(m.devices[i].free_bytes <= m.devices[i].total_bytes);
    }
}

static void test_facts(void **state)
{
    (void)state;
    const struct vr_device *d = &m.devices[0];
    assert_int_equal(d->free_bytes, 25753026560 - 400556032);
    assert_string_equal(d->uuid, "GPU-7a1b2c3d4e5f6071");
    assert_int_equal(d->numa, 1);
    assert_true(d->bandwidth_gbs == 960);
    assert_int_equal(d->cc_major, 0);
    /* the narrowest hop, not the card's own link */
    assert_int_equal(d->pcie_gen, 1);
    assert_int_equal(d->pcie_lanes, 4);
    assert_int_equal(d->pcie_gen_max, 4);
    assert_int_equal(d->pcie_lanes_max, 4);
    assert_string_equal(d->note, "");
    d = &m.devices[1];
    assert_int_equal(d->numa, -1);
    assert_int_equal(d->free_bytes, vr_device_free_guess(d->total_bytes));
    assert_string_equal(d->note, "the driver does not report used memory");
    assert_true(d->bandwidth_gbs == 0);
    assert_int_equal(m.devices[2].free_bytes, 0);
}

static void test_left_out(void **state)
{
    (void)state;
    assert_non_null(strstr(m.note, "AMD GPU 1681:c8 (0000:0c:00.0) is left out: integrated GPU with 512 MiB"));
    assert_non_null(strstr(m.note, "AMD Radeon 8060S Graphics (0000:0d:00.0) is left out: integrated"));
    assert_non_null(
        strstr(m.note, "Intel Arc A770 (0000:11:00.0) is left out: its driver does not report its memory size"));
    assert_null(strstr(m.note, "0000:12:00.0")); /* an Intel processor's graphics are nothing to talk about */
}

static void test_nvidia(void **state)
{
    (void)state;
    char slot[32];
    assert_int_equal(vr_sysfs_count_nvidia(scratch_dir, slot, sizeof slot), 1);
    assert_string_equal(slot, "0000:13:00.0");
    assert_int_equal(vr_sysfs_count_nvidia("/nonexistent", slot, sizeof slot), 0);
    assert_int_equal(vr_sysfs_numa(scratch_dir, "0000:03:00.0"), 1);
    assert_int_equal(vr_sysfs_numa(scratch_dir, ""), -1);
}

static void test_full(void **state)
{
    (void)state;
    static struct vr_machine full;
    while (vr_machine_add(&full)) {}
    vr_sysfs_read(scratch_dir, &full);
    assert_int_equal(full.n_devices, VR_MAX_DEVICES);
    assert_non_null(strstr(full.note, "is left out: more than 32 devices"));
    static struct vr_machine none;
    vr_sysfs_read("/nonexistent", &none);
    assert_int_equal(none.n_devices, 0);
}

/* Every name of pci.def is a row of the table: a slip would lose the card's speed silently. */
static void test_names_are_known(void **state)
{
    (void)state;
    static const char *const names[] = {
#define PCI(vendor, device, revision, name) name,
#include "hw/pci.def"
#undef PCI
    };
    assert_true(VR_COUNT(names) > 70);
    for (size_t i = 0; i < VR_COUNT(names); i++) {
        const struct vr_gpu *g = vr_gpu_known(names[i], 0);
        if (!g || strcmp(g->name, names[i])) fail_msg("%s", names[i]);
    }
}

static void test_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool ok;
        uint64_t value;
    } rows[] = {
        { "12\n", true, 12 },
        { "0x1f\n", true, 31 },
        { "0\n", true, 0 },
        { "18446744073709551615", true, UINT64_MAX },
        { "18446744073709551616", false, 0 },
        { "-1\n", false, 0 },
        { "", false, 0 },
        { "0x", false, 0 },
        { "0x-1", false, 0 },
        { "12 MiB", false, 0 },
        { "max\n", false, 0 },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        tree_put("number", rows[i].text);
        uint64_t v = 0;
        assert_int_equal(vr_sysfs_u64(&v, "%s/number", scratch_dir), rows[i].ok);
        assert_int_equal(v, rows[i].value);
    }
    char text[4];
    tree_put("number", "abcdef\n");
    assert_true(vr_sysfs_text(text, sizeof text, "%s/number", scratch_dir));
    assert_string_equal(text, "abc");
    assert_false(vr_sysfs_text(text, sizeof text, "%s/nothing", scratch_dir));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list),    cmocka_unit_test(test_facts), cmocka_unit_test(test_left_out),
        cmocka_unit_test(test_nvidia),  cmocka_unit_test(test_full),  cmocka_unit_test(test_names_are_known),
        cmocka_unit_test(test_numbers),
    };
    return cmocka_run_group_tests(tests, make_cards, scratch_teardown);
}
