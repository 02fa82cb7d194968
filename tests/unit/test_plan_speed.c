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
    x->types[x->n_types++] =
        (struct vr_measured_type){ "q4_K", 600, 40, 300, 10, 0, 0, 0, 0, 2, 4, 1.5, 450, 500, 1100 };
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
    assert_near((double)p->expert_again[q4], 500);
    assert_near((double)p->expert_again[q6], 500 * 210.0 / 144);
    assert_near((double)p->expert_act[q4], 1100);
    assert_near(p->tile, VR_EXPERT_TILE);
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
    struct vr_speed_op op = { .tflops = 0.04, .long_tflops = 0.02, .prompt_tflops = 0.4, .long_prompt_tflops = 0.2 };
    static const double rows[][2] = {
        { 1024, 0.04 }, { 2048, 0.04 }, { 9216, 0.04 / 1.5 }, { 16384, 0.02 }, { 40000, 0.02 }
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        assert_true(fabs(vr_speed_tflops(&host, &op, rows[i][0], 1e9) - rows[i][1]) < 1e-9);
        assert_true(fabs(vr_speed_prompt_tflops(&op, rows[i][0]) - 10 * rows[i][1]) < 1e-9);
    }
    op.long_tflops = op.long_prompt_tflops = 0;
    assert_true(fabs(vr_speed_tflops(&host, &op, 16384, 1e9) - 0.04) < 1e-9);
    assert_true(fabs(vr_speed_prompt_tflops(&op, 16384) - 0.4) < 1e-9);
}

/* Three cards of capability 8 and one of 6, on links of 10 GB/s but for the last with 5. */
static void four_cards(void)
{
    memset(&m, 0, sizeof m);
    for (unsigned i = 0; i < 4; i++) {
        struct vr_device *d = vr_machine_add(&m);
        snprintf(d->backend, sizeof d->backend, "CUDA");
        snprintf(d->pci, sizeof d->pci, "0000:0%u:00.0", i);
        d->cc_major = i < 3 ? 8 : 6;
    }
    vr_speeds_of(&m, &s);
    for (unsigned i = 0; i < 4; i++) s.places[i].link_gbs = i < 3 ? 10 : 5;
}

static void test_reductions_by_table(void **state)
{
    (void)state;
    four_cards();
    const double mib = 1 << 20;
    assert_int_equal(vr_speed_reduce_way(&s, 3), VR_REDUCE_PAIR);
    assert_int_equal(vr_speed_reduce_way(&s, 7), VR_REDUCE_BUTTERFLY); /* the kernel is for two */
    assert_int_equal(vr_speed_reduce_way(&s, 9), VR_REDUCE_BUTTERFLY); /* … that are new enough */
    assert_near(vr_speed_reduce_ms(&s, 1, mib), 0);
    assert_near(vr_speed_reduce_ms(&s, 3, mib), 0.018 + mib / 2 / (0.45 * 1e7)); /* bf16 */
    assert_near(vr_speed_reduce_ms(&s, 7, mib), 2 * (0.018 + 2 * mib / 9e6));
    assert_near(vr_speed_reduce_ms(&s, 9, mib), 0.018 + 2 * mib / 4.5e6); /* as slow as the slower link */
    m.reduce_way = VR_REDUCE_NCCL;
    vr_speeds_of(&m, &s);
    for (unsigned i = 0; i < 4; i++) s.places[i].link_gbs = 10;
    assert_int_equal(vr_speed_reduce_way(&s, 15), VR_REDUCE_NCCL);
    assert_near(vr_speed_reduce_ms(&s, 3, 1000), 0.039 + 1000 / 3e6);              /* f32 */
    assert_near(vr_speed_reduce_ms(&s, 15, 4 * mib), 0.039 + 1.5 * 2 * mib / 3e6); /* bf16, around a ring */
    snprintf(m.devices[3].pci, sizeof m.devices[3].pci, "0000:00:00.0"); /* a card that is shown twice: no NCCL */
    vr_speeds_of(&m, &s);
    assert_int_equal(vr_speed_reduce_way(&s, 3), VR_REDUCE_PAIR);
    snprintf(m.devices[0].backend, sizeof m.devices[0].backend, "Vulkan");
    vr_speeds_of(&m, &s);
    assert_int_equal(vr_speed_reduce_way(&s, 3), VR_REDUCE_BUTTERFLY);
}

static void test_reductions_measured(void **state)
{
    (void)state;
    four_cards();
    const struct vr_measured_reduction rows[] = { { 3, { 20, 100, 300, 2000 } },
                                                  { 5, { 30, 90, 400, 2500 } },
                                                  { 7, { 45, 200, 800, 5000 } } };
    for (size_t i = 0; i < VR_COUNT(rows); i++) vr_machine_keep_reduction(&m, &rows[i]);
    vr_speeds_of(&m, &s);
    assert_near(vr_speed_reduce_ms(&s, 3, 10240), 0.020);
    assert_near(vr_speed_reduce_ms(&s, 3, 100), 0.020); /* no less is sent in no less time */
    assert_near(vr_speed_reduce_ms(&s, 3, 4 << 20), 0.300);
    assert_near(vr_speed_reduce_ms(&s, 3, 18 << 20), 1.150);     /* half way from 4 to 32 MiB */
    assert_near(vr_speed_reduce_ms(&s, 3, 60 << 20), 2 + 1.7);   /* and on as from there */
    assert_near(vr_speed_reduce_ms(&s, 10, 10240), 0.030);       /* two others: as the slowest two */
    assert_near(vr_speed_reduce_ms(&s, 11, 10240), 0.045);       /* three others */
    assert_near(vr_speed_reduce_ms(&s, 15, 4 << 20), 2 * 0.400); /* four: two steps of the slowest two of them */
    vr_machine_keep_reduction(&m, &(struct vr_measured_reduction){ 3, { 21, 100, 300, 2000 } });
    assert_int_equal(m.n_reductions, 3); /* in place of the older one */
    assert_near(vr_machine_reduction(&m, 3)->us[0], 21);
    m.reduce_way = VR_REDUCE_BUTTERFLY; /* what was measured is of another way then */
    vr_speeds_of(&m, &s);
    assert_true(s.n_reductions == 0 && !vr_machine_reduction(&m, 3));
}

/* Rates as the engine's kernels use them: by backend, vendor and generation. */
static void test_kernels(void **state)
{
    (void)state;
    static const struct {
        const char *name, *backend;
        double gbs, tflops;
        uint16_t major, minor;
        double reads, quantized, floats, launch_us; /* GB/s; TFLOPS of a batch; microseconds */
    } rows[] = {
        { "NVIDIA GeForce RTX 3090", "CUDA", 936, 71, 8, 6, 0.93 * 936, 0.30 * 284, 71, 1 }, /* listed at half */
        { "NVIDIA RTX A6000", "CUDA", 768, 155, 8, 6, 0.93 * 768, 0.30 * 310, 77.5, 1 }, /* a workstation's is not */
        { "NVIDIA GeForce RTX 3090", "Vulkan", 936, 71, 8, 6, 0.93 * 936, 0.30 * 284, 71, 3.5 },
        { "NVIDIA GeForce RTX 2080 Ti", "CUDA", 616, 53.8, 7, 5, 0.75 * 616, 0.18 * 215.2, 53.8, 1 },
        { "NVIDIA GeForce GTX 1660", "CUDA", 192, 10, 7, 5, 0.75 * 192, 0.18 * 20, 5, 1 }, /* no tensor cores */
        { "NVIDIA Tesla P40", "CUDA", 347, 12, 6, 1, 0.75 * 347, 0.30 * 48, 6, 1 },        /* dp4a */
        { "NVIDIA Tesla P100-PCIE-16GB", "CUDA", 732, 19, 6, 0, 0.28 * 732, 9.5, 9.5, 1 }, /* none */
        { "NVIDIA Tesla V100-PCIE-16GB", "CUDA", 900, 112, 7, 0, 0.75 * 900, 56, 56, 1 },
        { "NVIDIA B200", "CUDA", 7672, 2250, 10, 0, 0.93 * 7672, 190, 1125, 1 },
        { "AMD Radeon RX 7900 XTX", "ROCm", 960, 123, 0, 0, 600, 0.4 * 123, 61.5, 3.5 },
        { "AMD Radeon RX 6600", "Vulkan", 224, 18, 0, 0, 0.93 * 224, 0.4 * 18, 9, 3.5 },
        { "AMD Instinct MI300X", "ROCm", 5300, 1307, 0, 0, 0.59 * 5300, 0.4 * 1307, 653.5, 3.5 },
        { "Intel Arc Pro B70", "SYCL", 608, 183.5, 0, 0, 0.75 * 608, 0.12 * 183.5, 91.75, 3.5 },
        { "Intel Arc Pro B70", "Vulkan", 608, 183.5, 0, 0, 0.75 * 608, 0.12 * 183.5, 91.75, 10 },
        { "somebody's", "CUDA", 1200, 0, 0, 0, 0.93 * 1200, 0.30 * 400, 100, 1 }, /* nobody knows it */
    };
    uint32_t q5 = vr_type_by_name("q5_0");
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        memset(&m, 0, sizeof m);
        struct vr_device *d = vr_machine_add(&m);
        snprintf(d->name, sizeof d->name, "%s", rows[i].name);
        snprintf(d->backend, sizeof d->backend, "%s", rows[i].backend);
        d->bandwidth_gbs = rows[i].gbs, d->fp16_tflops = rows[i].tflops;
        d->cc_major = rows[i].major, d->cc_minor = rows[i].minor;
        vr_speeds_guess(&m, &s);
        const struct vr_speed *p = &s.places[0];
        double reads = p->gbs * (double)p->share[q5], quantized = (double)p->matrix[q5];
        double floats = (double)p->matrix[VR_TYPE_F16], us = p->launch_ms * 1e3;
        if (fabs(reads / rows[i].reads - 1) > 1e-5 || fabs(quantized / rows[i].quantized - 1) > 1e-5 ||
            fabs(floats / rows[i].floats - 1) > 1e-5 || fabs(us / rows[i].launch_us - 1) > 1e-5)
            fail_msg("%s, %s: %g GB/s, %g and %g TFLOPS, %g us", rows[i].name, rows[i].backend, reads, quantized,
                     floats, us);
        assert_true(p->overlaps == (strcmp(rows[i].backend, "CUDA") == 0));
    }
    memset(&m, 0, sizeof m); /* unpacking limits what so fast a memory could give */
    struct vr_device *a100 = vr_machine_add(&m);
    snprintf(a100->backend, sizeof a100->backend, "CUDA");
    a100->bandwidth_gbs = 2039, a100->cc_major = 8;
    vr_speeds_guess(&m, &s);
    assert_near(s.places[0].gbs * (double)s.places[0].share[vr_type_by_name("q4_K")], 1210);
}

/* The host beside devices reads weights as the file has them, alone as it likes them best; where it was measured beside
 * devices alone, that is better than a guess. */
static void test_host(void **state)
{
    (void)state;
    make();
    m.host.bandwidth_gbs = 100;
    uint32_t q4 = vr_type_by_name("q4_K");
    vr_speeds_of(&m, &s);
    assert_near(s.places[VR_SPEED_HOST].gbs * (double)s.places[VR_SPEED_HOST].share[q4], 62);
    assert_near(s.alone.gbs * (double)s.alone.share[q4], 80);
    m.host.bandwidth_gbs = 0; /* nobody knows: by its eight cores */
    vr_speeds_of(&m, &s);
    assert_near(s.places[VR_SPEED_HOST].gbs, 48);
    snprintf(m.host.measured.when, sizeof m.host.measured.when, "today");
    m.host.measured.types[m.host.measured.n_types++] = (struct vr_measured_type){ .name = "q4_K", .gbs = 30 };
    vr_speeds_of(&m, &s);
    assert_near(s.alone.gbs * (double)s.alone.share[q4], 30);
}

/* Without CUDA one device waits for the other, until somebody measured how long. */
static void test_peers(void **state)
{
    (void)state;
    make();
    m.n_links = 0;
    for (size_t i = 0; i < 2; i++) snprintf(m.devices[i].backend, sizeof m.devices[i].backend, "ROCm");
    vr_speeds_of(&m, &s);
    double host = vr_speed_hop_ms(&s, VR_SPEED_HOST, 1, 0);
    assert_near(vr_speed_hop_ms(&s, 0, 1, 0), 2 * host + 1.5);
    for (size_t i = 0; i < 2; i++) snprintf(m.devices[i].measured.when, sizeof m.devices[i].measured.when, "today");
    vr_speeds_of(&m, &s);
    assert_near(vr_speed_hop_ms(&s, 0, 1, 0), 2 * host);
    assert_true(s.places[0].overlaps && s.places[1].overlaps);
}

/* Over a network: its bandwidth, and a round trip for what comes back; a node copies between its own. */
static void test_nodes(void **state)
{
    (void)state;
    make();
    m.n_links = 0;
    vr_speeds_of(&m, &guess);
    snprintf(m.devices[1].node, sizeof m.devices[1].node, "attic");
    m.devices[1].net_gbs = 0.1;
    m.devices[1].net_us = 500;
    vr_speeds_of(&m, &s);
    double near = vr_speed_hop_ms(&guess, VR_SPEED_HOST, 1, 0);
    assert_near(vr_speed_hop_ms(&s, VR_SPEED_HOST, 1, 0), near);
    assert_near(vr_speed_hop_ms(&s, 1, VR_SPEED_HOST, 0), near + 0.5);
    assert_near(vr_speed_hop_ms(&s, VR_SPEED_HOST, 1, 1e6) - near, 10); /* a megabyte at 0.1 GB/s */
    assert_near(vr_speed_hop_ms(&s, VR_SPEED_HOST, 0, 1e6), vr_speed_hop_ms(&guess, VR_SPEED_HOST, 0, 1e6));
    assert_true(s.places[1].mapped_gbs <= 0.1 && !s.places[1].overlaps);
    m.devices[0] = m.devices[1];
    vr_speeds_of(&m, &s);
    double within = vr_speed_hop_ms(&s, 0, 1, 1e6);
    assert_true(within > 0.5 && within < 1); /* one round trip, and nothing sent */
    snprintf(m.devices[0].backend, sizeof m.devices[0].backend, "CPU");
    m.devices[0].bandwidth_gbs = 40;
    m.devices[0].fp16_tflops = 0.4;
    vr_speeds_of(&m, &s);
    assert_near(s.places[0].gbs, 40); /* a processor, as the host is */
    assert_near(s.places[0].tflops, s.places[VR_SPEED_HOST].tflops);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_kernels),
                                        cmocka_unit_test(test_host),
                                        cmocka_unit_test(test_peers),
                                        cmocka_unit_test(test_nodes),
                                        cmocka_unit_test(test_unmeasured),
                                        cmocka_unit_test(test_measured),
                                        cmocka_unit_test(test_rows),
                                        cmocka_unit_test(test_cells),
                                        cmocka_unit_test(test_empty),
                                        cmocka_unit_test(test_reductions_by_table),
                                        cmocka_unit_test(test_reductions_measured) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
