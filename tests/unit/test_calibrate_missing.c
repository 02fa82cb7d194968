/* What was measured is not measured again; what is missing is found, wherever it is missing. */
#include "test.h"

#include "calibrate/missing.h"
#include "gguf/type.h"

static struct vr_machine m;
static struct vr_budgets b;
static struct vr_calibrate c;

static void fill(struct vr_measured *x, const char *type, const char *cache)
{
    *x = (struct vr_measured){ .when = "2026-01-01T00:00:00Z" };
    vr_measured_type_row(x, type);
    vr_measured_keep_op(x, &(struct vr_measured_op){ .name = "RMS_NORM", .us = 1 });
    struct vr_measured_op op = { .name = "FLASH_ATTN_EXT", .us = 2 };
    snprintf(op.type, sizeof op.type, "%s", cache);
    vr_measured_keep_op(x, &op);
}

/* Two cards of one make and one of another, all measured for q8_0 weights and an f16 cache. */
static int setup(void **state)
{
    (void)state;
    m = (struct vr_machine){ 0 };
    b = (struct vr_budgets){ .n = 3 };
    c = (struct vr_calibrate){ .types = { vr_type_by_name("q8_0") }, .n_types = 1 };
    c.caches[c.n_caches++] = vr_type_by_name("f16");
    for (uint16_t i = 0; i < 3; i++) {
        struct vr_device *d = vr_machine_add(&m);
        snprintf(d->name, sizeof d->name, "%s", i < 2 ? "one make" : "another");
        d->total_bytes = 1000;
        b.items[i].device = i;
        fill(&d->measured, "q8_0", "f16");
    }
    fill(&m.host.measured, "q8_0", "f16");
    return 0;
}

static void test_nothing_is_missing(void **state)
{
    (void)state;
    assert_true(vr_calibrated(&c, &m, &b));
    vr_calibrate_forget_old(&m, &b);
    assert_true(vr_calibrated(&c, &m, &b));
}

static void test_something_is(void **state)
{
    (void)state;
    c.types[c.n_types++] = vr_type_by_name("q4_K");
    assert_false(vr_calibrated(&c, &m, &b));
    for (size_t i = 0; i < 3; i++) vr_measured_type_row(&m.devices[i].measured, "q4_K");
    assert_false(vr_calibrated(&c, &m, &b)); /* the host's is missing */
    vr_measured_type_row(&m.host.measured, "q4_K");
    assert_true(vr_calibrated(&c, &m, &b));
    c.caches[c.n_caches++] = vr_type_by_name("q8_0");
    assert_false(vr_calibrated(&c, &m, &b));
    c.n_caches = 1;
    m.devices[2].measured.when[0] = '\0';
    assert_false(vr_calibrated(&c, &m, &b));
    b.n = 2; /* and is not asked for */
    assert_true(vr_calibrated(&c, &m, &b));
}

static void test_host_alone(void **state)
{
    (void)state;
    assert_ptr_equal(vr_calibrate_host(&m, &b), &m.host.measured);
    b.n = 0; /* with devices that are left unused it is another place */
    assert_ptr_equal(vr_calibrate_host(&m, &b), &m.host.alone);
    assert_false(vr_calibrated(&c, &m, &b));
    fill(&m.host.alone, "q8_0", "f16");
    assert_true(vr_calibrated(&c, &m, &b));
    m.n_devices = 0;
    assert_ptr_equal(vr_calibrate_host(&m, &b), &m.host.measured);
}

static void test_old_figures(void **state)
{
    (void)state;
    m.devices[1].measured.n_ops = 0; /* a version that measured none */
    m.host.alone.launch_us = 7;      /* not of this run */
    vr_calibrate_forget_old(&m, &b);
    assert_int_equal(m.devices[1].measured.when[0], '\0');
    assert_int_equal(m.devices[1].measured.n_types, 0);
    assert_int_equal(m.devices[0].measured.n_types, 1);
    assert_true(m.host.alone.launch_us > 6);
    assert_false(vr_calibrated(&c, &m, &b));
}

static void test_twins(void **state)
{
    (void)state;
    assert_int_equal(vr_calibrate_twin(&m, &b, 0), -1);
    assert_int_equal(vr_calibrate_twin(&m, &b, 1), 0);
    assert_int_equal(vr_calibrate_twin(&m, &b, 2), -1);
    m.devices[0].measured.when[0] = '\0';
    assert_int_equal(vr_calibrate_twin(&m, &b, 1), -1); /* it failed: the second one is tried */
    setup(NULL);
    m.devices[1].total_bytes = 2000;
    assert_int_equal(vr_calibrate_twin(&m, &b, 1), -1);
    /* two kinds and the host: types, operations and small models each; a link each, twice; three pairs, their
     * reductions and that of all; the host again */
    assert_int_equal(vr_calibrate_steps(&c, &m, &b), 3 * 3 + 2 * 3 + 3 + 3 + 1 + 1);
    b.n = 0;
    assert_int_equal(vr_calibrate_steps(&c, &m, &b), 3 + 1);
}

static void test_rows(void **state)
{
    (void)state;
    struct vr_measured *x = &m.host.measured;
    assert_ptr_equal(vr_measured_type_row(x, "q8_0"), &x->types[0]);
    for (int i = 0; x->n_types < VR_MAX_MEASURED_TYPES; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", i);
        assert_non_null(vr_measured_type_row(x, name));
    }
    assert_null(vr_measured_type_row(x, "one too many"));
    vr_measured_keep_op(x, &(struct vr_measured_op){ .name = "FLASH_ATTN_EXT", .type = "f16", .us = 9 });
    assert_int_equal(x->n_ops, 2); /* in its place */
    assert_true(x->ops[1].us > 8);
    for (int i = 0; i < 2 * VR_MAX_MEASURED_OPS; i++) {
        struct vr_measured_op op = { .type = "q8_0" };
        snprintf(op.name, sizeof op.name, "o%d", i);
        vr_measured_keep_op(x, &op);
    }
    assert_int_equal(x->n_ops, VR_MAX_MEASURED_OPS);
    struct vr_link *l = vr_measured_link(&m, 0, 2);
    assert_ptr_equal(vr_measured_link(&m, 0, 2), l);
    assert_int_equal(m.n_links, 1);
    m.n_links = VR_COUNT(m.links);
    assert_null(vr_measured_link(&m, 7, 9));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_nothing_is_missing, setup),
        cmocka_unit_test_setup(test_something_is, setup),
        cmocka_unit_test_setup(test_host_alone, setup),
        cmocka_unit_test_setup(test_old_figures, setup),
        cmocka_unit_test_setup(test_twins, setup),
        cmocka_unit_test_setup(test_rows, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
