/* Times of hand-made work on a machine of round numbers. */
#include "test.h"

#include <math.h>

#include "fit/price.h"
#include "gguf/type.h"

static struct vr_speeds machine(void)
{
    struct vr_speeds s = { .n_devices = 2 };
    for (size_t i = 0; i <= VR_SPEED_HOST; i++) {
        struct vr_speed *p = &s.places[i];
        p->gbs = i == 0 ? 1000 : i == 1 ? 500 : 50;
        p->tflops = 100;
        p->launch_ms = 0.001;
        p->link_gbs = p->mapped_gbs = 10;
        p->link_ms = 0.01;
        p->prompt_launch_ms = 0.002;
        p->attention_gbs = p->gbs / 2;
        p->attention_tflops = 50;
        for (size_t t = 0; t < VR_SPEED_TYPES; t++) {
            p->share[t] = 1, p->matrix[t] = 100;
            p->expert_share[t] = 0.5f, p->expert_matrix[t] = 25;
        }
    }
    return s;
}

#define assert_near(a, b) assert_true(fabs((a) - (b)) < 1e-9)

static void test_sum(void **state)
{
    (void)state;
    struct vr_speeds s = machine();
    struct vr_work rows[] = {
        { .phase = VR_DECODE, .device = 0, .type = VR_TYPE_F16, .n = 1, .launches = 10, .weight_bytes = 1000000000 },
        { .phase = VR_DECODE, .device = 1, .type = VR_TYPE_F16, .n = 1, .launches = 10, .weight_bytes = 1000000000 },
        { .phase = VR_DECODE, .device = 2, .type = VR_TYPE_F16, .n = 1, .launches = 0, .weight_bytes = 100000000 },
        /* a cache of 4096 cells, a quarter full: a quarter of the bytes */
        { .phase = VR_DECODE, .device = 0, .type = VR_TYPE_F16, .n = 1, .cells = 4096, .cache_bytes = 400000000 },
        /* a window of 256 cells is full then */
        { .phase = VR_DECODE, .device = 0, .type = VR_TYPE_F16, .n = 1, .cells = 256, .cache_bytes = 100000000 },
        /* arithmetic, not memory: 1e12 operations at 100 TFLOPS */
        { .phase = VR_PREFILL,
          .device = 0,
          .type = VR_TYPE_F16,
          .n = 1,
          .weight_bytes = 1000000,
          .flops = 1000000000000 },
        { .phase = VR_PREFILL,
          .device = 1,
          .type = VR_TYPE_F16,
          .n = 1,
          .weight_bytes = 1000000,
          .flops = 2000000000000 },
    };
    struct vr_transfer transfers[] = {
        { .phase = VR_DECODE, .from = 0, .to = 1, .n = 2, .bytes = 200000 }, /* two links each way */
        { .phase = VR_PREFILL, .from = 2, .to = 0, .n = 1, .weights = true, .bytes = 10000000 },
    };
    struct vr_works w = {
        .rows = rows, .transfers = transfers, .n_rows = VR_COUNT(rows), .n_transfers = VR_COUNT(transfers)
    };
    struct vr_pricing p = { .speeds = &s,
                            .machine_device = (const uint16_t[]){ 0, 1 },
                            .n_devices = 2,
                            .fill = 0.25,
                            .n_ctx_seq = 4096,
                            .n_ubatch = 512 };
    struct vr_price price;
    vr_price(&w, &p, &price);
    assert_near(price.ms[VR_DECODE][0], 1 + 0.01 + 0.1 + 0.1);
    assert_near(price.ms[VR_DECODE][1], 2 + 0.01);
    assert_near(price.ms[VR_DECODE][2], 2);
    assert_near(price.copy_ms[VR_DECODE], 2 * (2 * 0.01 + 2 * 0.01));
    assert_near(price.step_ms[VR_DECODE], 1.21 + 2.01 + 2 + 0.08);
    assert_near(price.decode_tok_s, 1000 / 5.30);
    assert_near(price.step_ms[VR_PREFILL], 10 + 20 + 1.01);
    assert_near(price.prefill_tok_s, 512 * 1000 / 31.01);
    p.pipeline = true; /* micro-batches overlap: the slowest device sets the pace */
    vr_price(&w, &p, &price);
    assert_near(price.step_ms[VR_PREFILL], 20);
    assert_near(price.step_ms[VR_DECODE], 5.30);
}

/* Products, experts and attention each have their own rates; kernels cost more in prompts. */
static void test_kinds(void **state)
{
    (void)state;
    static const struct {
        struct vr_work row;
        double ms;
    } rows[] = {
        { { .phase = VR_DECODE, .name = "MUL_MAT", .weight_bytes = 1000000000, .act_bytes = 1000000 }, 1 },
        { { .phase = VR_DECODE, .name = "MUL_MAT", .weight_bytes = 1000000000, .launches = 10 }, 1 + 10 * 0.004 },
        { { .phase = VR_DECODE, .name = "MUL_MAT_ID", .weight_bytes = 1000000000 }, 2 },
        { { .phase = VR_DECODE, .name = "FLASH_ATTN_EXT", .cells = 4096, .cache_bytes = 1000000000 }, 2 },
        { { .phase = VR_DECODE, .name = "ADD", .act_bytes = 1000000000, .launches = 10 }, 1 + 10 * 0.001 },
        { { .phase = VR_PREFILL, .name = "MUL_MAT", .weight_bytes = 1, .flops = 1000000000000 }, 10 },
        { { .phase = VR_PREFILL, .name = "MUL_MAT_ID", .weight_bytes = 1, .flops = 1000000000000 }, 40 },
        { { .phase = VR_PREFILL, .name = "FLASH_ATTN_EXT", .cells = 4096, .flops = 1000000000000 }, 20 },
        { { .phase = VR_PREFILL, .name = "MUL_MAT", .weight_bytes = 1000000000, .launches = 10 }, 1 + 10 * 0.007 },
        { { .phase = VR_PREFILL, .name = "ADD", .act_bytes = 1000000000, .launches = 10 }, 1 + 10 * 0.002 },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct vr_speeds s = machine();
        s.places[0].product_ms = 0.003, s.places[0].prompt_product_ms = 0.005;
        s.places[0].step_ms = 7, s.places[0].prompt_step_ms = 11;
        s.places[1].step_ms = 70; /* has no part in it */
        struct vr_work row = rows[i].row;
        row.n = 1, row.type = VR_TYPE_F16;
        struct vr_works w = { .rows = &row, .n_rows = 1 };
        struct vr_pricing p = { .speeds = &s,
                                .machine_device = (const uint16_t[]){ 0, 1 },
                                .n_devices = 2,
                                .fill = 1,
                                .n_ctx_seq = 4096,
                                .n_ubatch = 512 };
        struct vr_price price;
        vr_price(&w, &p, &price);
        assert_near(price.ms[row.phase][0], rows[i].ms);
        assert_near(price.step_ms[row.phase], rows[i].ms + (row.phase == VR_DECODE ? 7 : 11));
    }
}

static void test_nothing(void **state)
{
    (void)state;
    struct vr_speeds s = machine();
    struct vr_works w = { 0 };
    struct vr_price price;
    vr_price(&w, &(struct vr_pricing){ .speeds = &s }, &price);
    assert_near(price.decode_tok_s, 0);
    assert_near(price.step_ms[VR_PREFILL], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_sum), cmocka_unit_test(test_kinds),
                                        cmocka_unit_test(test_nothing) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
