/* Figures from timings: each row is a machine that is known, the timings it would give, and what must come out. */
#include "test.h"

#include <math.h>

#include "base/text.h"
#include "calibrate/figures.h"

static bool is_near(double a, double b) { return fabs(a - b) <= 1e-9 * fmax(1, fabs(b)); }
#define NEAR(a, b) assert_true(is_near(a, b))

/* A device that computes for `base` ms, starts `n` kernels of `each` ms, and takes `step` ms more whatever it does. */
static struct vr_timed timed(double base, double n, double each, double step)
{
    return (struct vr_timed){ .took = base + n * each + step, .free_starts = base, .slow_starts = base + n };
}

static void test_two_equations(void **state)
{
    (void)state;
    static const struct {
        double each, step;
    } rows[] = { { 0.002, 0.1 }, { 0.0085, 0 }, { 0, 0.4 }, { 0.0005, 2 } };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        /* generating, the kernels' time is hidden in the starts: both models compute as long */
        struct vr_timed few = timed(0.01, 70, rows[i].each, rows[i].step),
                        many = timed(0.01, 390, rows[i].each, rows[i].step);
        double each = vr_figure_submit_ms(&few, &many);
        NEAR(each, rows[i].each);
        NEAR(vr_figure_beyond_us(few.took, few.free_starts + 70 * each), rows[i].step * 1e3);
        /* a prompt's is not: what the layers compute must not count as starts */
        few = timed(0.3, 80, rows[i].each, rows[i].step), many = timed(1.9, 440, rows[i].each, rows[i].step);
        NEAR(vr_figure_prompt_submit_ms(&few, &many), rows[i].each);
    }
}

/* What noise can do: never less than nothing, never a division by it. */
static void test_noise(void **state)
{
    (void)state;
    struct vr_timed few = timed(1, 70, 0.002, 0.1), many = timed(1, 390, 0.002, 0.1), same = few;
    many.took = few.took - 0.05; /* the large one was faster */
    NEAR(vr_figure_submit_ms(&few, &many), 0);
    NEAR(vr_figure_prompt_submit_ms(&few, &many), 0);
    same.took += 1; /* no kernel more */
    NEAR(vr_figure_submit_ms(&few, &same), 0);
    NEAR(vr_figure_prompt_submit_ms(&few, &same), 0);
    NEAR(vr_figure_beyond_us(1, 1.5), 0);
    NEAR(vr_figure_beyond_us(1.5, 1), 500);
}

static void test_switches(void **state)
{
    (void)state;
    NEAR(vr_figure_switch_us(2.0 + 8 * 0.03, 2.0, 2.0 + 8), 30); /* eight changes of 30 us */
    NEAR(vr_figure_switch_us(1.9, 2.0, 10.0), 0.01); /* faster than its price: measured, and next to nothing */
    NEAR(vr_figure_switch_us(2.5, 2.0, 2.0), 0);     /* no change at all: nothing is known */
}

static void test_memory(void **state)
{
    (void)state;
    struct vr_measure_run r = { .n_devices = 1 };
    r.devices[0].model_bytes = 100 * VR_MIB, r.devices[0].context_bytes = 20 * VR_MIB;
    r.devices[0].compute_bytes = 30 * VR_MIB;
    r.devices[0].before_bytes = 500 * VR_MIB, r.devices[0].loaded_bytes = 1000 * VR_MIB;
    r.devices[0].after_bytes = 1010 * VR_MIB;
    assert_int_equal(vr_figure_outside_bytes(&r), 360 * VR_MIB); /* the most that was ever taken counts */
    r.devices[0].after_bytes = 900 * VR_MIB;
    assert_int_equal(vr_figure_outside_bytes(&r), 350 * VR_MIB);
    r.devices[0].loaded_bytes = r.devices[0].after_bytes = 600 * VR_MIB; /* another program left meanwhile */
    assert_int_equal(vr_figure_outside_bytes(&r), 0);
    r.devices[0].before_bytes = 700 * VR_MIB;
    assert_int_equal(vr_figure_outside_bytes(&r), 0);

    struct vr_measured m = { 0 };
    vr_figure_memory(300, 340, 320, &m);
    assert_int_equal(m.runtime_bytes, 300);
    assert_int_equal(m.blas_bytes, 40);
    vr_figure_memory(300, 290, 280, &m);
    assert_int_equal(m.blas_bytes, 0);
}

static void test_products(void **state)
{
    (void)state;
    const struct vr_measure_products p = { .gbs = 800,
                                           .tflops = 60,
                                           .expert_gbs = 500,
                                           .expert_tflops = 30,
                                           .product_us = 6,
                                           .prompt_product_us = 12,
                                           .kernels = 2,
                                           .least_us = 2.5,
                                           .expert_prompt_gbs = 400,
                                           .expert_again_gbs = 450,
                                           .expert_act_gbs = 1100 };
    struct vr_measured_type t = { .name = "q4_K" };
    vr_figure_product(&p, &t);
    NEAR(t.gbs, 800), NEAR(t.expert_tflops, 30), NEAR(t.least_us, 2.5), NEAR(t.expert_prompt_gbs, 400);
    NEAR(t.expert_again_gbs, 450), NEAR(t.expert_act_gbs, 1100);
    NEAR(t.us, 3), NEAR(t.prompt_us, 6); /* per kernel */
    vr_figure_product(&(struct vr_measure_products){ .product_us = 5, .prompt_product_us = 5 }, &t);
    NEAR(t.us, 5); /* nobody counted: one */

    struct vr_measured m = { .product_us = 9, .prompt_product_us = 9 };
    vr_figure_products(NULL, NULL, 0, &m);
    NEAR(m.product_us, 9); /* nothing new */
    double us[] = { 5, 1, 3 }, prompt_us[] = { 7, 8, 30 };
    vr_figure_products(us, prompt_us, 3, &m);
    NEAR(m.product_us, 3), NEAR(m.prompt_product_us, 8);
}

static void test_kernels(void **state)
{
    (void)state;
    struct vr_measured m = { .product_us = 3, .prompt_product_us = 8 };
    vr_figure_kernels(true, &m); /* a device: a product costs what any kernel costs */
    NEAR(m.launch_us, 3), NEAR(m.product_us, 0), NEAR(m.prompt_product_us, 5);

    struct vr_measured host = { .product_us = 10, .prompt_product_us = 99, .n_ops = 3 };
    const char *const names[] = { "RMS_NORM", "ADD", "GLU" };
    for (size_t i = 0; i < 3; i++) {
        snprintf(host.ops[i].name, sizeof host.ops[i].name, "%s", names[i]);
        host.ops[i].us = 2 + 2.0 * (double)i;
    }
    vr_figure_kernels(false, &host);
    NEAR(host.launch_us, 4); /* the middle operation's */
    NEAR(host.product_us, 6);
    NEAR(host.prompt_product_us, 6); /* a prompt's costs no more: threads start nothing */
}

static void test_attention(void **state)
{
    (void)state;
    struct vr_measured m = { 0 };
    struct vr_measured_op op = {
        .name = "FLASH_ATTN_EXT", .type = "f16", .gbs = 700, .tflops = 5, .prompt_tflops = 40
    };
    vr_figure_attention(&op, &m);
    NEAR(m.attention_gbs, 700), NEAR(m.attention_tflops, 40);
    op.gbs = 0; /* the host: four operations for each byte */
    op.tflops = 0.2;
    vr_figure_attention(&op, &m);
    NEAR(m.attention_gbs, 50);
    snprintf(op.type, sizeof op.type, "q8_0");
    op.gbs = 1;
    vr_figure_attention(&op, &m);
    NEAR(m.attention_gbs, 50); /* only f16's stands for others */
}

static void test_links(void **state)
{
    (void)state;
    const struct vr_measure_link l = {
        .up_gbs = 24, .up_us = 5, .down_gbs = 20, .down_us = 7, .mapped_gbs = 8, .mapped_expert_gbs = 10
    };
    const struct vr_measure_link later = { .up_gbs = 20, .down_gbs = 22, .mapped_gbs = 8.5, .mapped_expert_gbs = 5 };
    struct vr_measured m = { 0 }, twin = { .launch_us = 3, .up_gbs = 1, .mapped_gbs = 1 };
    vr_figure_link(&l, &m);
    vr_figure_link_again(&later, &m);
    NEAR(m.up_gbs, 24), NEAR(m.down_gbs, 22), NEAR(m.up_us, 5); /* the better time */
    NEAR(m.mapped_gbs, 2 / (1 / 8.0 + 1 / 8.5));                /* the middle of both */
    NEAR(m.mapped_expert_gbs, 10);                              /* but for one that was disturbed */
    vr_figure_twin(&twin, &m);
    NEAR(m.launch_us, 3), NEAR(m.up_gbs, 24), NEAR(m.down_us, 7), NEAR(m.mapped_expert_gbs, 10);

    struct vr_link pair = { .a = 0, .b = 1 };
    vr_figure_pair(&l, &pair);
    NEAR(pair.measured_gbs, 20), NEAR(pair.measured_us, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_equations), cmocka_unit_test(test_noise),    cmocka_unit_test(test_switches),
        cmocka_unit_test(test_memory),        cmocka_unit_test(test_products), cmocka_unit_test(test_kernels),
        cmocka_unit_test(test_attention),     cmocka_unit_test(test_links),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
