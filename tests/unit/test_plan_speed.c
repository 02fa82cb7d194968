/* What was measured takes the place of guesses, figure by figure. */
#include "test.h"

#include <math.h>
#include <stdio.h>

#include "gguf/type.h"
#include "plan/speed.h"

#define assert_near(a, b) assert_true(fabs((a) - (b)) < 1e-6 * fabs((double)(b)) + 1e-9)

static struct vr_machine m;
static struct vr_speeds guess, s;

static void make(void)
{
    memset(&m, 0, sizeof m);
    for (int i = 0; i < 2; i++) {
        struct vr_device *d = vr_machine_add(&m);
        d->bandwidth_gbs = 1000;
        d->fp16_tflops = 100;
        d->cc_major = 8;
    }
    m.host.cores = 8;
    m.links[m.n_links++] = (struct vr_link){ .a = 0, .b = 1, .measured_gbs = 30, .measured_us = 12 };
}

static void test_unmeasured(void **state)
{
    (void)state;
    make();
    m.n_links = 0;
    vr_speeds_guess(&m, &guess);
    vr_speeds_of(&m, &s);
    assert_memory_equal(&s, &guess, sizeof s);
    assert_false(s.measured);
}

static void test_measured(void **state)
{
    (void)state;
    make();
    struct vr_measured *x = &m.devices[0].measured;
    snprintf(x->when, sizeof x->when, "today");
    x->types[x->n_types++] = (struct vr_measured_type){ "q4_K", 600, 40, 300, 10, 0, 0, 0, 0, 2, 4, 1.5, 450 };
    x->types[x->n_types++] = (struct vr_measured_type){ "q8_0", 800, 60, 0, 0 };
    x->types[x->n_types++] = (struct vr_measured_type){ "not a type", 100, 1, 0, 0 };
    x->launch_us = 2.5, x->prompt_submit_us = 5, x->prompt_switch_us = 200, x->step_us = 100, x->product_us = 1;
    x->up_gbs = 20, x->up_us = 6, x->down_us = 10;
    vr_speeds_of(&m, &s);
    vr_speeds_guess(&m, &guess);
    const struct vr_speed *p = &s.places[0];
    uint32_t q4 = vr_type_by_name("q4_K"), q8 = vr_type_by_name("q8_0"), q6 = vr_type_by_name("q6_K");
    assert_near(p->gbs * (double)p->share[q4], 600);
    assert_near(p->gbs * (double)p->share[q8], 800);
    assert_near(p->gbs * (double)p->share[q6], 500); /* the mean of three */
    assert_near((double)p->matrix[q4], 40);
    assert_near((double)p->matrix[q8], 60);
    assert_near(p->gbs * (double)p->expert_share[q4], 300);
    assert_near((double)p->expert_matrix[q4], 10);
    assert_near(p->launch_ms, 0.0025);
    assert_near(p->prompt_submit_ms, 0.005);
    assert_near(p->prompt_switch_ms, 0.2);
    assert_near(p->product_ms, 0.001);
    assert_near(p->step_ms, 0.1);
    assert_near(p->prompt_step_ms, 0);
    assert_near((double)p->type_ms[q4], 0.002);
    assert_near((double)p->prompt_type_ms[q4], 0.004);
    assert_near((double)p->least_ms[q4], 0.0015);
    assert_near((double)p->expert_read[q4], 450);
    assert_near((double)p->expert_read[q8], 0);                 /* measured, and found to be no limit */
    assert_near((double)p->expert_read[q6], 450 * 210.0 / 144); /* as many weights as of the one that was measured */
    assert_near(p->link_gbs, 20);
    assert_near(p->link_ms, 0.008);
    assert_near(vr_speed_hop_ms(&s, 0, 1, 30e6), 0.012 + 1);
    assert_near(vr_speed_hop_ms(&s, 1, 0, 30e6), 0.012 + 1);
    assert_memory_equal(&s.places[1], &guess.places[1], sizeof *p); /* the other card is still a guess */
    assert_false(s.measured);
    m.devices[1].measured = *x;
    m.host.measured = *x;
    vr_speeds_of(&m, &s);
    assert_true(s.measured);
    assert_memory_equal(&s.places[1], &s.places[0], sizeof *p); /* cards that are alike stay alike */
}

/* A profile may say that something was measured and hold no figure: nothing divides by zero. */
static void test_empty(void **state)
{
    (void)state;
    make();
    m.n_links = 0;
    snprintf(m.devices[0].measured.when, sizeof m.devices[0].measured.when, "today");
    snprintf(m.host.measured.when, sizeof m.host.measured.when, "today");
    m.devices[0].measured.types[0] = (struct vr_measured_type){ .name = "q4_K" };
    m.devices[0].measured.n_types = 1;
    vr_speeds_of(&m, &s);
    for (size_t i = 0; i < 2; i++) {
        double ms = vr_speed_node_ms(&s.places[i ? VR_SPEED_HOST : 0], vr_type_by_name("q4_K"), 1e9, 1e12, 10);
        assert_true(isfinite(ms) && ms > 0);
    }
}

/* Reading weights on the host: what each row costs, and each byte, of rows up to 4,096 columns, from 14,336 on and
 * between; experts by figures of their own. */
static void test_rows(void **state)
{
    (void)state;
    make();
    snprintf(m.host.measured.when, sizeof m.host.measured.when, "today");
    m.host.measured.types[m.host.measured.n_types++] = (struct vr_measured_type){
        .name = "f16", .gbs = 40, .expert_gbs = 20, .wide_gbs = 20, .row_ns = 10, .expert_row_ns = 50
    };
    vr_speeds_of(&m, &s);
    const struct vr_speed *p = &s.places[VR_SPEED_HOST];
    uint32_t f16 = vr_type_by_name("f16");
    static const struct {
        uint32_t columns;
        bool experts;
        double ms; /* for 1000 rows */
    } rows[] = { { 1024, false, 2.048e6 / 40e6 + 0.01 },         { 4096, false, 8.192e6 / 40e6 + 0.01 },
                 { 9216, false, 18.432e6 * 0.75 / 20e6 + 0.01 }, { 14336, false, 28.672e6 / 20e6 + 0.01 },
                 { 20480, false, 40.96e6 / 20e6 + 0.01 },        { 14336, true, 28.672e6 / 20e6 + 0.05 } };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        double ms = vr_speed_read_ms(p, f16, rows[i].experts, rows[i].columns * 2000.0, rows[i].columns, 0);
        if (fabs(ms - rows[i].ms) > 1e-6) fail_msg("row %zu: %g ms, not %g", i, ms, rows[i].ms);
    }
}

/* Attention on the host: one rate up to 2,048 cells, another from 16,384 on, and between; the same everywhere in
 * profiles that know but one. */
static void test_cells(void **state)
{
    (void)state;
    const struct vr_speed host = { 0 };
    struct vr_speed_op op = { .tflops = 0.04, .long_tflops = 0.02 };
    static const double rows[][2] = {
        { 1024, 0.04 }, { 2048, 0.04 }, { 9216, 0.04 / 1.5 }, { 16384, 0.02 }, { 40000, 0.02 }
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++)
        assert_true(fabs(vr_speed_tflops(&host, &op, rows[i][0], 1e9) - rows[i][1]) < 1e-9);
    op.long_tflops = 0;
    assert_true(fabs(vr_speed_tflops(&host, &op, 16384, 1e9) - 0.04) < 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_unmeasured), cmocka_unit_test(test_measured),
                                        cmocka_unit_test(test_rows), cmocka_unit_test(test_cells),
                                        cmocka_unit_test(test_empty) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
