/* Ids, notes and link speeds. */
#include "test.h"

#include <math.h>
#include <stdio.h>

#include "base/text.h"
#include "hw/machine.h"

static struct vr_machine m;

static void test_ids(void **state)
{
    (void)state;
    static const char *const backends[] = { "CUDA", "ROCm", "CUDA", "Vulkan", "ROCm", "CUDA" };
    static const char *const ids[] = { "CUDA0", "ROCm0", "CUDA1", "Vulkan0", "ROCm1", "CUDA2" };
    for (size_t i = 0; i < VR_COUNT(backends); i++)
        snprintf(vr_machine_add(&m)->backend, sizeof m.devices[0].backend, "%s", backends[i]);
    vr_machine_number(&m);
    for (size_t i = 0; i < VR_COUNT(ids); i++) assert_string_equal(m.devices[i].id, ids[i]);
    while (vr_machine_add(&m)) {}
    assert_int_equal(m.n_devices, VR_MAX_DEVICES);
}

static void test_notes(void **state)
{
    (void)state;
    static struct vr_machine x;
    vr_machine_note(&x, "one %d", 1);
    vr_machine_note(&x, "two");
    assert_string_equal(x.note, "one 1\ntwo");
    for (int i = 0; i < 100; i++) vr_machine_note(&x, "a note that is long enough to fill the room for notes, %d", i);
    assert_int_equal(strlen(x.note), sizeof x.note - 1);
}

static void test_pcie(void **state)
{
    (void)state;
    static const struct {
        unsigned gen, lanes;
        double gbs;
    } rows[] = { { 0, 16, 0 },      { 1, 1, 0.25 },  { 2, 1, 0.5 },     { 3, 1, 0.985 },
                 { 3, 16, 15.754 }, { 4, 1, 1.969 }, { 4, 16, 31.508 }, { 5, 1, 3.938 },
                 { 5, 16, 63.015 }, { 6, 16, 121 },  { 7, 16, 0 },      { 4, 0, 0 } };
    for (size_t i = 0; i < VR_COUNT(rows); i++)
        assert_true(fabs(vr_pcie_gbs(rows[i].gen, rows[i].lanes) - rows[i].gbs) < 0.001);
    /* idle: trained down to gen 1, but four lanes are all that is wired */
    struct vr_device d = { .pcie_gen = 1, .pcie_gen_max = 4, .pcie_lanes = 4, .pcie_lanes_max = 16 };
    assert_true(fabs(vr_device_link_gbs(&d) - 4 * 1.9692) < 0.001);
    d = (struct vr_device){ .pcie_gen = 4, .pcie_lanes_max = 8 };
    assert_true(fabs(vr_device_link_gbs(&d) - 8 * 1.9692) < 0.001);
    d = (struct vr_device){ 0 };
    assert_true(vr_device_link_gbs(&d) == 0);
}

static void test_links(void **state)
{
    (void)state;
    for (int k = VR_LINK_UNKNOWN; k <= VR_LINK_SYSTEM; k++) {
        enum vr_link_kind back = VR_LINK_UNKNOWN;
        assert_true(vr_link_kind_parse(vr_link_kind_name((enum vr_link_kind)k), &back));
        assert_int_equal(back, k);
    }
    enum vr_link_kind kind;
    assert_false(vr_link_kind_parse("string", &kind));
    assert_string_equal(vr_link_kind_name((enum vr_link_kind)99), "unknown");
    static struct vr_machine x;
    x.links[x.n_links++] = (struct vr_link){ .a = 1, .b = 3 };
    assert_ptr_equal(vr_machine_link(&x, 3, 1), &x.links[0]);
    assert_null(vr_machine_link(&x, 1, 2));
}

static void test_free_guess(void **state)
{
    (void)state;
    assert_int_equal(vr_device_free_guess(25000 * VR_MIB), (25000 - 500 - 256) * VR_MIB);
    assert_int_equal(vr_device_free_guess(100 * VR_MIB), 0);
    assert_int_equal(vr_device_free_guess(0), 0);
}

static void test_same_card(void **state)
{
    (void)state;
    static const struct vr_device a = { .backend = "CUDA", .pci = "0000:01:00.0" };
    static const struct {
        struct vr_device b;
        bool same;
    } rows[] = {
        { { .backend = "CUDA", .pci = "0000:01:00.0" }, true },
        { { .backend = "CUDA", .pci = "0000:02:00.0" }, false },
        { { .backend = "Vulkan", .pci = "0000:01:00.0" }, false },
        { { .backend = "CUDA" }, false },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) assert_int_equal(vr_device_same_card(&a, &rows[i].b), rows[i].same);
    assert_false(vr_device_same_card(&rows[3].b, &rows[3].b)); /* nobody told where they are */
}

/* Devices of another machine come behind our own, under its name, with their links and the way there. */
static void test_borrow(void **state)
{
    (void)state;
    struct vr_err err;
    VR_AUTO(vr_machine) lender = vr_machine_new(&err);
    assert_non_null(lender);
    memset(&m, 0, sizeof m);
    for (int i = 0; i < 3; i++) {
        struct vr_device *d = vr_machine_add(i ? lender : &m);
        snprintf(d->backend, sizeof d->backend, "CUDA");
        snprintf(d->pci, sizeof d->pci, "0000:01:00.0");
    }
    vr_machine_number(&m);
    lender->host = (struct vr_host){
        .cpu = "processor", .ram_total_bytes = 64 * VR_GIB, .ram_free_bytes = 60 * VR_GIB, .cores = 8
    };
    lender->links[lender->n_links++] = (struct vr_link){ .a = 0, .b = 1, .gbs = 50 };
    assert_true(vr_machine_add_cpu(lender, 32 * VR_GIB));
    assert_string_equal(lender->devices[2].id, "CPU0");
    assert_int_equal(vr_machine_borrow(&m, lender, "attic", 1.1, 250), 3);
    static const char *const ids[] = { "CUDA0", "attic/CUDA0", "attic/CUDA1", "attic/CPU0" };
    assert_int_equal(m.n_devices, VR_COUNT(ids));
    for (size_t i = 0; i < VR_COUNT(ids); i++) assert_string_equal(m.devices[i].id, ids[i]);
    assert_string_equal(vr_device_own_id(&m.devices[3]), "CPU0");
    assert_string_equal(vr_device_own_id(&m.devices[0]), "CUDA0");
    assert_true(vr_machine_link(&m, 1, 2) && !vr_machine_link(&m, 0, 1));
    assert_false(vr_device_same_card(&m.devices[0], &m.devices[1])); /* one slot, two machines */
    assert_int_equal(m.devices[3].free_bytes, 32 * VR_GIB);
    assert_true(m.devices[3].net_us > 249 && m.devices[3].net_gbs > 1);
    vr_machine_number(&m); /* as after loading a profile */
    for (size_t i = 0; i < VR_COUNT(ids); i++) assert_string_equal(m.devices[i].id, ids[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ids),    cmocka_unit_test(test_notes),      cmocka_unit_test(test_pcie),
        cmocka_unit_test(test_links),  cmocka_unit_test(test_free_guess), cmocka_unit_test(test_same_card),
        cmocka_unit_test(test_borrow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
