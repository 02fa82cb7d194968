/* Typed machines: rows of what is typed and what becomes of it. */
#include "test.h"

#include <math.h>

#include "base/text.h"
#include "hw/spec.h"

static struct vr_machine m;

static void test_good(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t n;
        const char *last; /* the last device's */
        uint64_t total_mib, free_mib;
        double gbs;
    } rows[] = {
        { "RTX 3090", 1, "NVIDIA GeForce RTX 3090", 24576, 0, 936 },
        { "3090", 1, "NVIDIA GeForce RTX 3090", 24576, 0, 936 },
        { "2x RTX 3090 Ti, RTX 4080 Laptop", 3, "NVIDIA GeForce RTX 4080 Laptop GPU", 12288, 0, 432 },
        { "RTX 4080 Laptop,2x3090ti", 3, "NVIDIA GeForce RTX 3090 Ti", 24576, 0, 1008 },
        { "2 x 3090ti", 2, "NVIDIA GeForce RTX 3090 Ti", 24576, 0, 1008 },
        { "2*3090ti", 2, "NVIDIA GeForce RTX 3090 Ti", 24576, 0, 1008 },
        { "2 * NVIDIA GeForce RTX 3090 Ti", 2, "NVIDIA GeForce RTX 3090 Ti", 24576, 0, 1008 },
        { "2X3090", 2, "NVIDIA GeForce RTX 3090", 24576, 0, 936 },
        { "2\xc3\x97 3090", 2, "NVIDIA GeForce RTX 3090", 24576, 0, 936 },
        { "02x 3090", 2, "NVIDIA GeForce RTX 3090", 24576, 0, 936 },
        { "  3060 12GB ,  3060 8GB ", 2, "NVIDIA GeForce RTX 3060 8GB", 8192, 0, 240 },
        { "32x A40", 32, "NVIDIA A40", 46068, 0, 696 },
        { "7900 XTX", 1, "AMD Radeon RX 7900 XTX", 24576, 0, 960 },
        { "7900xtx", 1, "AMD Radeon RX 7900 XTX", 24576, 0, 960 },
        { "2x 7900 XTX", 2, "AMD Radeon RX 7900 XTX", 24576, 0, 960 },
        { "9070 XT, B580", 2, "Intel Arc B580", 12288, 0, 456 },
        { "A100 80GB", 1, "NVIDIA A100 80GB PCIe", 81920, 0, 1935 },
        { "RTX 5060 Ti 16GB", 1, "NVIDIA GeForce RTX 5060 Ti 16GB", 16384, 0, 448 },
        { "RTX 5060 Ti 8GB", 1, "NVIDIA GeForce RTX 5060 Ti", 8192, 0, 448 },
        { "RTX 5060 Ti:16000", 1, "NVIDIA GeForce RTX 5060 Ti 16GB", 16384, 16000, 448 },
        { "H100", 1, "NVIDIA H100 PCIe", 81559, 0, 2039 },
        { "H100 80GB", 1, "NVIDIA H100 PCIe", 81559, 0, 2039 },
        /* a size: free as typed, the rest from the table */
        { "RTX 3090:20000", 1, "NVIDIA GeForce RTX 3090", 24576, 20000, 936 },
        { "RTX 4090:49140", 1, "NVIDIA GeForce RTX 4090", 49140, 49140, 1008 },
        { "RTX 3090:24000:900", 1, "NVIDIA GeForce RTX 3090", 24576, 24000, 900 },
        { "3060:8192", 1, "NVIDIA GeForce RTX 3060 8GB", 8192, 8192, 240 },
        { "3060:7900", 1, "NVIDIA GeForce RTX 3060 8GB", 8192, 7900, 240 },
        { "3090 : 24GiB : 936.5", 1, "NVIDIA GeForce RTX 3090", 24576, 24576, 936.5 },
        /* unknown names */
        { "My Card:24000", 1, "My Card", 24000, 24000, 0 },
        { "My Card:24000:512.5", 1, "My Card", 24000, 24000, 512.5 },
        { "2x my card:16g:300, 3090", 3, "NVIDIA GeForce RTX 3090", 24576, 0, 936 },
        { "3x X:12 GB:300", 3, "X", 12288, 12288, 300 },
        { "cut-down 3090:4096", 1, "cut-down 3090", 4096, 4096, 0 },
        { "card:256", 1, "card", 256, 256, 0 },
        { "card:16777216", 1, "card", 16777216, 16777216, 0 },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct vr_err err = { 0 };
        if (!vr_spec_parse(rows[i].text, &m, &err)) fail_msg("%s: %s", rows[i].text, err.msg);
        assert_int_equal(m.n_devices, rows[i].n);
        const struct vr_device *d = &m.devices[m.n_devices - 1];
        assert_string_equal(d->name, rows[i].last);
        assert_int_equal(d->total_bytes, rows[i].total_mib * VR_MIB);
        uint64_t free_bytes = rows[i].free_mib ? rows[i].free_mib * VR_MIB : vr_device_free_guess(d->total_bytes);
        assert_int_equal(d->free_bytes, free_bytes);
        assert_true(fabs(d->bandwidth_gbs - rows[i].gbs) < 0.01);
        assert_int_equal(d->numa, -1);
        assert_true(d->pcie_gen >= 3 && d->pcie_gen == d->pcie_gen_max);
        assert_true(d->pcie_lanes > 0);
    }
}

static void test_bad(void **state)
{
    (void)state;
    char long_entry[300], long_name[140];
    memset(long_entry, 'x', sizeof long_entry - 1);
    long_entry[sizeof long_entry - 1] = '\0';
    memset(long_name, 'y', sizeof long_name - 1);
    strcpy(long_name + 120, ":24000");
    const struct {
        const char *text, *says;
    } rows[] = {
        { "", "an entry is empty" },
        { " ", "an entry is empty" },
        { "3090,,3090", "an entry is empty" },
        { "3090,", "an entry is empty" },
        { ",", "an entry is empty" },
        { "RTX 3095", "unknown GPU 'RTX 3095'; did you mean 'RTX 3090'?" },
        { "RTX 3900 Ti", "did you mean 'RTX 3090 Ti'?" },
        { "RTX 4050", "did you mean 'RTX 4050 Laptop GPU'?" },
        { "RX 7700", "did you mean 'RX 7700 XT'?" },
        { "Voodoo Banshee", "unknown GPU 'Voodoo Banshee'; give its memory in MiB" },
        { "Voodoo Banshee", "'Voodoo Banshee:24576:936'" },
        { "RTX 3095", "'RTX 3095:MiB'" },
        { "0x 3090", "asks for 0 GPUs" },
        { "33x 3090", "more than 32 devices" },
        { "20x 3090, 13x 3070", "'13x 3070' makes more than 32 devices" },
        { "200 x 3090", "more than 32 devices" },
        { "200* 3090", "more than 32 devices" },
        { "2x", "does not name a GPU" },
        { ":24000", "does not name a GPU" },
        { "2x :24000", "does not name a GPU" },
        { "3090:", "'' is not a size in MiB" },
        { "3090:abc", "'abc' is not a size in MiB" },
        { "3090:-5", "'-5' is not a size in MiB" },
        { "3090:24.5", "'24.5' is not a size in MiB" },
        { "3090:24000TB", "'24000TB' is not a size in MiB" },
        { "3090:99999999999999999999", "is not a size in MiB" },
        { "3090:24", "24 MiB is too little for a GPU; for GiB write 24GiB" },
        { "3090:0", "too little" },
        { "card:16777217", "not a size" },
        { "card:20000GiB", "more than any GPU has" },
        { "3090:24000:", "'' is not a memory bandwidth" },
        { "3090:24000:fast", "'fast' is not a memory bandwidth in GB/s, like 936" },
        { "3090:24000:0", "not a memory bandwidth" },
        { "3090:24000:-3", "not a memory bandwidth" },
        { "3090:24000:1e9", "not a memory bandwidth" },
        { "3090:24000:nan", "not a memory bandwidth" },
        { "3090:24000:900:4", "too many colons" },
        { "RTX 3090 12GB", "'RTX 3090' has 24,576 MiB, not 12 GB; to plan with another size write 'RTX 3090:12288'" },
        /* sold in several sizes */
        { "RTX 5060 Ti",
          "'RTX 5060 Ti' comes with 8 GB or 16 GB of memory; write 'RTX 5060 Ti 8GB' or 'RTX 5060 Ti 16GB'" },
        { "2x RTX 3090, 2x 3060", "'3060' comes with 8 GB or 12 GB of memory; write '3060 8GB' or '3060 12GB'" },
        { "NVIDIA GeForce RTX 3080 Laptop GPU", "with 8 GB or 16 GB" },
        { "A100", "'A100' comes with 40 GB or 80 GB" },
        { "a\033[31mb:24000", "control character" },
        { long_entry, "longer than 159 characters" },
        { long_name, "is too long" },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct vr_err err = { 0 };
        if (vr_spec_parse(rows[i].text, &m, &err)) fail_msg("'%s' was taken", rows[i].text);
        assert_int_equal(err.code, VR_EUSAGE);
        if (!strstr(err.msg, rows[i].says)) fail_msg("'%s': %s", rows[i].text, err.msg);
    }
}

static void test_machine(void **state)
{
    (void)state;
    struct vr_err err = { 0 };
    assert_true(vr_machine_spec("2x RTX 3090 Ti, 7900 XTX, RTX 4060", NULL, &m, &err));
    assert_string_equal(m.devices[0].id, "CUDA0");
    assert_string_equal(m.devices[1].id, "CUDA1");
    assert_string_equal(m.devices[2].id, "ROCm0");
    assert_string_equal(m.devices[3].id, "CUDA2");
    assert_string_equal(m.about, "typed: 2x RTX 3090 Ti, 7900 XTX, RTX 4060");
    assert_true(m.host.ram_total_bytes > 0); /* this computer's */
    assert_int_equal(m.devices[3].pcie_lanes, 8);
    assert_true(fabs(vr_device_link_gbs(&m.devices[0]) - 16 * 1.969) < 0.1);
    assert_false(vr_machine_spec("2x", NULL, &m, &err));
    const struct vr_detect nowhere = { .proc = "/nonexistent" };
    assert_false(vr_machine_spec("3090", &nowhere, &m, &err));
    assert_int_equal(err.code, VR_EIO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
