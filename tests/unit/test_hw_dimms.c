/* Memory modules, from tables and from udev's copies of them. */
#include "test.h"
#include "test_hw_tree.h"

#include <math.h>

#include "hw/dimms.h"

/* --- SMBIOS tables, byte by byte --- */

static unsigned char table[4096];
static size_t n_table;

static void put_strings(const char *a, const char *b)
{
    n_table += (size_t)sprintf((char *)table + n_table, "%s", a) + 1;
    if (*b) n_table += (size_t)sprintf((char *)table + n_table, "%s", b) + 1; /* an empty one is none */
    table[n_table++] = '\0';
}

static void put_other(void)
{
    unsigned char bios[] = { 0, 20, 1, 0 };
    memcpy(table + n_table, bios, sizeof bios);
    n_table += 20;
    put_strings("vendor", "version");
}

static void put_module(unsigned mib, unsigned bits, unsigned mts, unsigned configured, const char *slot,
                       const char *bank)
{
    unsigned char *p = table + n_table;
    p[0] = 17, p[1] = 0x28;
    p[0x0a] = (unsigned char)bits;
    p[0x0c] = (unsigned char)mib, p[0x0d] = (unsigned char)(mib >> 8);
    p[0x10] = 1, p[0x11] = 2;
    p[0x15] = (unsigned char)mts, p[0x16] = (unsigned char)(mts >> 8);
    p[0x20] = (unsigned char)configured, p[0x21] = (unsigned char)(configured >> 8);
    n_table += 0x28;
    put_strings(slot, bank);
}

static double table_gbs(size_t n)
{
    char path[1024];
    tree_put("firmware/dmi/tables/DMI", "");
    snprintf(path, sizeof path, "%s/firmware/dmi/tables/DMI", scratch_dir);
    FILE *f = fopen(path, "w");
    if (!f || fwrite(table, 1, n, f) != n) abort();
    fclose(f);
    return vr_dimms_gbs(scratch_dir, NULL);
}

static void begin(void)
{
    memset(table, 0, sizeof table);
    n_table = 0;
    put_other();
}

#define assert_gbs(is, should)                                                                                         \
    do {                                                                                                               \
        double gbs_is = is, gbs_should = should;                                                                       \
        if (fabs(gbs_is - gbs_should) > 0.01) fail_msg("%s: %g GB/s, not %g", #is, gbs_is, gbs_should);                \
    } while (0)

static void test_table(void **state)
{
    (void)state;
    assert_gbs(vr_dimms_gbs("/nonexistent", NULL), 0);
    begin();
    put_module(16384, 64, 3600, 3200, "DIMM_A1", "BANK 0"); /* two channels, both slots of one filled */
    put_module(16384, 64, 3600, 3200, "DIMM_A2", "BANK 1");
    put_module(16384, 64, 3600, 3200, "DIMM_B1", "BANK 2");
    put_module(0, 0, 0, 0, "DIMM_B2", "BANK 3");
    assert_gbs(table_gbs(n_table), 51.2);
    begin();
    put_module(16384, 64, 4800, 0, "DIMM 0", "P0 CHANNEL A");
    put_module(16384, 64, 4800, 0, "DIMM 0", "P0 CHANNEL B");
    put_module(16384, 64, 4800, 0, "DIMM 0", "P1 CHANNEL A"); /* of the second processor */
    assert_gbs(table_gbs(n_table), 3 * 38.4);
    begin();
    for (int i = 0; i < 4; i++) put_module(8192, 64, 3200, 3200, "DIMM 0", "BANK 0"); /* nothing tells */
    assert_gbs(table_gbs(n_table), 51.2);
    put_module(8192, 64, 3200, 3200, "DIMM 0", "BANK 0");
    assert_gbs(table_gbs(n_table), 5 * 25.6);
    begin();
    put_module(8192, 64, 0, 0, "DIMM 0", ""); /* a virtual machine's */
    assert_gbs(table_gbs(n_table), 0);
}

/* A table that ends anywhere, or lies about its lengths, is read as far as it goes. */
static void test_broken(void **state)
{
    (void)state;
    begin();
    put_module(8192, 64, 3200, 3200, "DIMM_A1", "");
    put_module(8192, 64, 3200, 3200, "DIMM_B1", "");
    for (size_t n = 0; n <= n_table; n++) {
        double gbs = table_gbs(n);
        assert_true(gbs == 0 || fabs(gbs - 25.6) < 0.01 || fabs(gbs - 51.2) < 0.01);
    }
    table[1] = 0;
    assert_gbs(table_gbs(n_table), 0);
    begin();
    put_module(8192, 64, 3200, 3200, "DIMM_A1", "");
    table[n_table - 1] = 'x';
    assert_gbs(table_gbs(n_table), 0);
    begin();
    put_module(8192, 64, 3200, 3200, "DIMM_A1", "");
    table[20 + 15 + 0x10] = 200; /* no such string */
    assert_true(table_gbs(n_table) >= 0);
}

static void test_udev(void **state)
{
    (void)state;
    char run[512];
    tree_put("empty/x", "");
    snprintf(run, sizeof run, "%s/run", scratch_dir);
    tree_put(
        "run/udev/data/+dmi:id",
        "I:1\nE:MEMORY_ARRAY_NUM_DEVICES=4\n"
        "E:MEMORY_DEVICE_0_PRESENT=0\nE:MEMORY_DEVICE_0_LOCATOR=DIMM 0\nE:MEMORY_DEVICE_0_BANK_LOCATOR=P0 CHANNEL A\n"
        "E:MEMORY_DEVICE_1_TOTAL_WIDTH=64\nE:MEMORY_DEVICE_1_DATA_WIDTH=64\nE:MEMORY_DEVICE_1_SIZE=17179869184\n"
        "E:MEMORY_DEVICE_1_LOCATOR=DIMM 1\nE:MEMORY_DEVICE_1_BANK_LOCATOR=P0 CHANNEL A\n"
        "E:MEMORY_DEVICE_1_SPEED_MTS=5600\nE:MEMORY_DEVICE_1_CONFIGURED_SPEED_MTS=5200\n"
        "E:MEMORY_DEVICE_2_PRESENT=0\n"
        "E:MEMORY_DEVICE_3_DATA_WIDTH=64\nE:MEMORY_DEVICE_3_LOCATOR=DIMM 1\n"
        "E:MEMORY_DEVICE_3_BANK_LOCATOR=P0 CHANNEL B\nE:MEMORY_DEVICE_3_SPEED_MTS=5200\n");
    char sysfs[512];
    snprintf(sysfs, sizeof sysfs, "%s/empty", scratch_dir);
    assert_gbs(vr_dimms_gbs(sysfs, run), 2 * 41.6);
    assert_gbs(vr_dimms_gbs(sysfs, NULL), 0);
    tree_put("run/udev/data/+dmi:id",
             "I:1\nE:MEMORY_DEVICE_0_SPEED_MTS=99999999999\nE:MEMORY_DEVICE_0_DATA_WIDTH=64\n");
    assert_gbs(vr_dimms_gbs(sysfs, run), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_table, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_broken, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_udev, scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
