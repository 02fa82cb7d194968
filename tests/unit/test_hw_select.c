/* Which devices may be used and how much of them: rows over one machine. */
#include "test.h"

#include <stdio.h>

#include "base/text.h"
#include "hw/select.h"

static struct vr_machine m;

static void add(const char *name, const char *backend, uint64_t total, uint64_t free_mib, const char *uuid)
{
    struct vr_device *d = vr_machine_add(&m);
    snprintf(d->name, sizeof d->name, "%s", name);
    snprintf(d->backend, sizeof d->backend, "%s", backend);
    snprintf(d->uuid, sizeof d->uuid, "%s", uuid);
    d->total_bytes = total * VR_MIB;
    d->free_bytes = free_mib * VR_MIB;
}

static int setup(void **state)
{
    (void)state;
    add("NVIDIA GeForce RTX 4080 Laptop GPU", "CUDA", 12281, 11047, "GPU-aaaa1111-0000");
    add("NVIDIA GeForce RTX 3090", "CUDA", 24576, 20000, "GPU-bbbb2222-0000");
    add("NVIDIA GeForce RTX 3090 Ti", "CUDA", 24563, 23287, "GPU-bbbb3333-0000");
    add("NVIDIA GeForce RTX 3090", "CUDA", 24576, 23287, "GPU-cccc4444-0000");
    add("AMD Radeon RX 7900 XTX", "ROCm", 24560, 900, "");
    add("NVIDIA GB10", "CUDA", 0, 0, "");
    vr_machine_number(&m);
    return 0;
}

/* "1:18976 3:22263 | 0 2 4": index and budget in MiB, then the excluded ones */
static void print(const struct vr_budgets *b, char *out, size_t n)
{
    size_t at = 0;
    for (size_t i = 0; i < b->n; i++)
        at += (size_t)snprintf(out + at, n - at, "%s%u:%llu", i ? " " : "", b->items[i].device,
                               (unsigned long long)(b->items[i].budget_bytes / VR_MIB));
    at += (size_t)snprintf(out + at, n - at, " |");
    for (size_t i = 0; i < b->n_excluded; i++) at += (size_t)snprintf(out + at, n - at, " %u", b->excluded[i].device);
}

static void test_good(void **state)
{
    (void)state;
    static const struct {
        struct vr_select s;
        const char *want;
    } rows[] = {
        { { 0 }, "0:10023 1:18976 2:22263 3:22263 | 4 5" },
        { { .device_order = "auto" }, "0:10023 1:18976 2:22263 3:22263 | 4 5" },
        { { .device_order = "index" }, "0:10023 1:18976 2:22263 3:22263 | 4 5" },
        { { .device_order = "free_desc" }, "2:22263 3:22263 1:18976 0:10023 | 4 5" },
        { { .device_order = "total_desc" }, "1:18976 3:22263 2:22263 0:10023 | 4 5" },
        { { .devices = "0,2" }, "0:10023 2:22263 | 1 3 4 5" },
        { { .visible = "0,2" }, "0:10023 2:22263 | 1 3 4 5" },
        { { .visible = "2", .devices = "2,3" }, "2:22263 | 0 1 3 4 5" },
        { { .visible = "GPU-bbbb2222-0000,GPU-cccc" }, "1:18976 3:22263 | 0 2 4 5" },
        { { .visible = "1,-1,2" }, "1:18976 | 0 2 3 4 5" },
        { { .visible = "" }, " | 0 1 2 3 4 5" },
        { { .visible = "NoDevFiles" }, " | 0 1 2 3 4 5" },
        { { .visible = "MIG-1234" }, "0:10023 1:18976 2:22263 3:22263 | 4 5" },
        { { .devices = " 2 , 0 " }, "0:10023 2:22263 | 1 3 4 5" },
        { { .devices = "CUDA1" }, "1:18976 | 0 2 3 4 5" },
        { { .devices = "cuda1,CUDA0" }, "0:10023 1:18976 | 2 3 4 5" },
        { { .devices = "3090" }, "1:18976 3:22263 | 0 2 4 5" },
        { { .devices = "RTX 3090 Ti" }, "2:22263 | 0 1 3 4 5" },
        { { .devices = "4080 laptop" }, "0:10023 | 1 2 3 4 5" },
        { { .devices = "4080" }, "0:10023 | 1 2 3 4 5" },
        { { .devices = "GPU-cccc" }, "3:22263 | 0 1 2 4 5" },
        { { .devices = "gpu-BBBB3" }, "2:22263 | 0 1 3 4 5" },
        { { .devices = "aaaa1111" }, "0:10023 | 1 2 3 4 5" },
        { { .devices = "rocm0", .reserve_mib = "0" }, "4:900 | 0 1 2 3 5" },
        { { .reserve_mib = "0" }, "0:11047 1:20000 2:23287 3:23287 4:900 | 5" },
        { { .reserve_mib = "512,0,2048,0,100,0" }, "0:10535 1:20000 2:21239 3:23287 4:800 | 5" },
        /* one per device of the machine, chosen or not */
        { { .reserve_mib = "512,0,2048,0,100,0", .devices = "2" }, "2:21239 | 0 1 3 4 5" },
        { { .reserve_mib = "20000" }, "2:3287 3:3287 | 0 1 4 5" },
        { { .min_budget_bytes = 18976 * VR_MIB }, "1:18976 2:22263 3:22263 | 0 4 5" },
        { { .min_budget_bytes = 18976 * VR_MIB + 1 }, "2:22263 3:22263 | 0 1 4 5" },
        { { .reserve_mib = "16777216" }, " | 0 1 2 3 4 5" },
    };
    static struct vr_budgets b;
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct vr_err err = { 0 };
        if (!vr_budgets_select(&m, &rows[i].s, &b, &err)) fail_msg("row %zu: %s", i, err.msg);
        char got[256];
        print(&b, got, sizeof got);
        if (strcmp(got, rows[i].want)) fail_msg("row %zu: %s, not %s", i, got, rows[i].want);
        assert_int_equal(b.n + b.n_excluded, m.n_devices);
        for (size_t k = 0; k < b.n; k++)
            assert_int_equal(b.items[k].budget_bytes + b.items[k].reserve_bytes,
                             m.devices[b.items[k].device].free_bytes);
    }
}

static void test_bad(void **state)
{
    (void)state;
    static const struct {
        struct vr_select s;
        const char *says;
    } rows[] = {
        { { .devices = "" }, "--devices has an empty entry" },
        { { .devices = "0,,1" }, "empty entry" },
        { { .devices = "0," }, "empty entry" },
        { { .devices = "6" }, "no device '6'; there are 0 to 5: CUDA0 (RTX 4080 Laptop GPU), CUDA1 (RTX 3090)" },
        { { .devices = "-1" }, "no device '-1'" },
        { { .devices = "1.5" }, "no device '1.5'" },
        { { .devices = "CUDA9" }, "no device 'CUDA9'" },
        { { .devices = "5090" }, "no device '5090'" },
        { { .devices = "99999999999999999999" }, "no device" },
        { { .devices = "1,1" }, "--devices names CUDA1 twice" },
        { { .devices = "1,CUDA1" }, "names CUDA1 twice" },
        { { .devices = "3,3090" }, "names CUDA3 twice" },
        { { .devices = "GPU-bbbb" }, "more than one UUID starts with 'GPU-bbbb'" },
        { { .devices = "GPU-" }, "no device 'GPU-'" },
        { { .device_order = "" }, "--device-order is ''" },
        { { .device_order = "free" }, "must be auto, free_desc, total_desc or index" },
        { { .device_order = "free-desc" }, "did you mean free_desc?" },
        { { .reserve_mib = "512,512" },
          "--reserve-mib has 2 values, but this machine has 6 devices: give one value for all, or one per device in "
          "this "
          "order, used or not: CUDA0 (RTX 4080 Laptop GPU)" },
        { { .reserve_mib = "1,2,3,4,5,6,7" }, "has 7 values" },
        { { .reserve_mib = "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1" },
          "has 36 values" },
        { { .reserve_mib = "512,512", .devices = "0,1" }, "has 2 values" },
        { { .reserve_mib = "" }, "'' is not a number of MiB" },
        { { .reserve_mib = "-1" }, "'-1' is not a number of MiB" },
        { { .reserve_mib = "1g" }, "'1g' is not a number" },
        { { .reserve_mib = "16777217" }, "is not a number of MiB" },
    };
    static struct vr_budgets b;
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct vr_err err = { 0 };
        if (vr_budgets_select(&m, &rows[i].s, &b, &err)) fail_msg("row %zu was taken", i);
        assert_int_equal(err.code, VR_EUSAGE);
        if (!strstr(err.msg, rows[i].says)) fail_msg("row %zu: %s", i, err.msg);
    }
}

static void test_reasons(void **state)
{
    (void)state;
    static struct vr_budgets b;
    struct vr_err err = { 0 };
    const struct vr_select s = { .devices = "0,1,4,5", .min_budget_bytes = 12000 * VR_MIB };
    assert_true(vr_budgets_select(&m, &s, &b, &err));
    assert_int_equal(b.n_excluded, 5);
    static const enum vr_exclusion why[] = { VR_EXCLUDED_BELOW_MIN_BUDGET, VR_EXCLUDED_NOT_CHOSEN,
                                             VR_EXCLUDED_NOT_CHOSEN, VR_EXCLUDED_RESERVE_TAKES_ALL,
                                             VR_EXCLUDED_MEMORY_UNKNOWN };
    for (size_t i = 0; i < b.n_excluded; i++) assert_int_equal(b.excluded[i].why, why[i]);
    assert_int_equal(b.excluded[0].free_bytes / VR_MIB, 11047);
    assert_int_equal(b.excluded[0].reserve_bytes / VR_MIB, 1024);
    assert_int_equal(b.excluded[0].min_budget_bytes / VR_MIB, 12000);
    assert_int_equal(b.excluded[3].free_bytes / VR_MIB, 900);
}

static void test_no_devices(void **state)
{
    (void)state;
    static struct vr_machine none;
    static struct vr_budgets b;
    struct vr_err err = { 0 };
    assert_true(vr_budgets_select(&none, &(struct vr_select){ .reserve_mib = "512" }, &b, &err));
    assert_int_equal(b.n + b.n_excluded, 0);
    assert_false(vr_budgets_select(&none, &(struct vr_select){ .devices = "0" }, &b, &err));
    assert_non_null(strstr(err.msg, "this machine has no devices"));
    assert_false(vr_budgets_select(&none, &(struct vr_select){ .reserve_mib = "1,2" }, &b, &err));
    assert_non_null(strstr(err.msg, "this machine has no devices"));
}

static void test_full(void **state)
{
    (void)state;
    static struct vr_machine full;
    static struct vr_budgets b;
    struct vr_device *d;
    while ((d = vr_machine_add(&full))) {
        snprintf(d->name, sizeof d->name, "card");
        snprintf(d->backend, sizeof d->backend, "CUDA");
        d->total_bytes = d->free_bytes = 4096 * VR_MIB;
    }
    vr_machine_number(&full);
    struct vr_err err = { 0 };
    assert_true(vr_budgets_select(&full, &(struct vr_select){ .devices = "31,CUDA0" }, &b, &err));
    assert_int_equal(b.n, 2);
    assert_int_equal(b.items[1].device, 31);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),       cmocka_unit_test(test_bad),  cmocka_unit_test(test_reasons),
        cmocka_unit_test(test_no_devices), cmocka_unit_test(test_full),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
