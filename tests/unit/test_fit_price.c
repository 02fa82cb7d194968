/* Times of hand-made work on a machine of round numbers. */
#include "test.h"

#include <math.h>

#include "fit/price.h"
#include "gguf/type.h"

static struct vr_speeds machine(void)
{
    struct vr_speeds s = { .n_devices = 2, .card = { 0, 1 }, .cuda = 3, .pair_kernel = 3 };
    for (size_t i = 0; i <= VR_SPEED_HOST; i++) {
        struct vr_speed *p = &s.places[i];
        p->gbs = i == 0 ? 1000 : i == 1 ? 500 : 50;
        p->tflops = 100;
        p->launch_ms = 0.001;
        p->link_gbs = p->mapped_gbs = 10;
        p->link_ms = 0.01;
        p->attention_gbs = p->gbs / 2;
        p->attention_tflops = 50;
        p->overlaps = true;
        for (size_t t = 0; t < VR_SPEED_TYPES; t++) {
            p->share[t] = 1, p->matrix[t] = 100;
            p->expert_share[t] = 0.5f, p->expert_matrix[t] = 25;
        }
    }
    return s;
}

/* Work on both devices, with so much of 4,096 tokens of context filled. */
static struct vr_pricing both_devices(const struct vr_speeds *s, double fill)
{
    static const uint16_t devices[] = { 0, 1 };
    return (struct vr_pricing){
        .speeds = s, .machine_device = devices, .n_devices = 2, .fill = { fill, 4096, 512 }, .n_seq = 1
    };
}

enum { Q4_0 = 2, Q8_0 = 8 }; /* as the engine numbers types */

#define assert_near(a, b) assert_true(fabs((a) - (b)) < 1e-9)

static void test_sum(void **state)
{
    (void)state;
    struct vr_speeds s = machine();
    struct vr_work rows[] = {
        { .phase = VR_DECODE, .device = 0, .type = VR_TYPE_F16, .n = 1, .kernels = 10, .weight_bytes = 1000000000 },
        { .phase = VR_DECODE, .device = 1, .type = VR_TYPE_F16, .n = 1, .kernels = 10, .weight_bytes = 1000000000 },
        { .phase = VR_DECODE, .device = 2, .type = VR_TYPE_F16, .n = 1, .weight_bytes = 100000000 },
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
    struct vr_pricing p = both_devices(&s, 0.25);
    struct vr_price price;
    vr_price(&w, &p, &price);
    assert_near(price.ms[VR_DECODE][0], 1 + 0.01 + 0.1 + 0.1);
    assert_near(price.ms[VR_DECODE][1], 2 + 0.01);
    assert_near(price.ms[VR_DECODE][2], 2 + 0.001);
    assert_near(price.copy_ms[VR_DECODE], 2 * (2 * 0.01 + 2 * 0.01));
    assert_near(price.step_ms[VR_DECODE], 1.21 + 2.01 + 2.001 + 0.08);
    assert_near(price.decode_tok_s, 1000 / 5.301);
    assert_near(price.step_ms[VR_PREFILL], 10 + 20 + 1.01);
    assert_near(price.prefill_tok_s, 512 * 1000 / 31.01);
    p.pipeline = true; /* micro-batches overlap: the slowest device sets the pace, once the first of four is through */
    vr_price(&w, &p, &price);
    assert_near(price.step_ms[VR_PREFILL], 31.01 / 4 + 20 * 0.75);
    assert_near(price.prefill_tok_s, 512 * 1000 / price.step_ms[VR_PREFILL]);
    s.places[1].overlaps = false; /* without CUDA they take turns */
    vr_price(&w, &p, &price);
    assert_near(price.step_ms[VR_PREFILL], 31.01);
    s.places[1].overlaps = true;
    p.n_prompt = 300; /* nothing overlaps in a single one */
    vr_price(&w, &p, &price);
    assert_near(price.step_ms[VR_PREFILL], 31.01);
    p.n_prompt = UINT32_MAX; /* without end */
    vr_price(&w, &p, &price);
    assert_true(fabs(price.step_ms[VR_PREFILL] - 20) < 1e-5);
    assert_near(price.step_ms[VR_DECODE], 5.301);
    s.card[1] = 0; /* but what shares a card takes turns on it */
    vr_price(&w, &p, &price);
    assert_true(fabs(price.step_ms[VR_PREFILL] - 30) < 1e-5);
}

/* Split mode tensor: devices do a stage at once and wait for the slowest; the host starts the kernels of all; then
 * parts are added up. */
static void test_spread(void **state)
{
    (void)state;
    struct vr_speeds s = machine();
    struct vr_work rows[] = {
        { .phase = VR_DECODE, .device = 2, .name = "GET_ROWS", .n = 1, .act_bytes = 0 },
        { .phase = VR_DECODE, .device = 0, .type = VR_TYPE_F16, .n = 1, .weight_bytes = 1000000000 },
        { .phase = VR_DECODE, .device = 1, .type = VR_TYPE_F16, .n = 1, .weight_bytes = 1000000000 },
        { .phase = VR_DECODE, .device = 0, .stage = 1, .type = VR_TYPE_F16, .n = 1, .weight_bytes = 3000000000 },
        { .phase = VR_DECODE, .device = 1, .stage = 1, .type = VR_TYPE_F16, .n = 1, .weight_bytes = 500000000 },
    };
    struct vr_reduction reductions[] = { { .phase = VR_DECODE, .n_devices = 2, .n = 10, .bytes = 0 } };
    struct vr_works w = {
        .rows = rows, .n_rows = VR_COUNT(rows), .reductions = reductions, .n_reductions = VR_COUNT(reductions)
    };
    struct vr_pricing p = both_devices(&s, 1);
    struct vr_price price;
    vr_price(&w, &p, &price);
    double slow[2] = { fmax(price.ms[VR_DECODE][0] / 4, price.ms[VR_DECODE][1] * 2 / 3),
                       fmax(price.ms[VR_DECODE][0] * 3 / 4, price.ms[VR_DECODE][1] / 3) };
    assert_near(price.spread_ms[VR_DECODE], slow[0] + slow[1]);
    assert_near(price.copy_ms[VR_DECODE], 10 * 0.018);
    assert_near(price.step_ms[VR_DECODE], slow[0] + slow[1] + 0.18 + price.ms[VR_DECODE][2]);
    s.reductions[s.n_reductions++] = (struct vr_measured_reduction){ 3, { 20, 30, 40, 50 } };
    vr_price(&w, &p, &price);
    assert_near(price.copy_ms[VR_DECODE], 10 * 0.020);
    s.card[1] = 0; /* what shares a card takes turns on it, but for the beginnings of kernels */
    vr_price(&w, &p, &price);
    assert_near(price.spread_ms[VR_DECODE], price.ms[VR_DECODE][0] + price.ms[VR_DECODE][1]);
    double sum = price.spread_ms[VR_DECODE];
    for (size_t i = 1; i < VR_COUNT(rows); i++) rows[i].kernels = 1;
    s.places[0].launch_ms = s.places[1].launch_ms = 0.1;
    vr_price(&w, &p, &price);
    assert_near(price.spread_ms[VR_DECODE], sum + 2 * 0.1); /* of two devices in each of two stages */
    s.places[0].launch_ms = s.places[1].launch_ms = 0;
    s.card[1] = 1;
    s.places[0].submit_ms = s.places[1].submit_ms = 1; /* two kernels of each stage take longer to start than to run */
    for (size_t i = 1; i < VR_COUNT(rows); i++) rows[i].kernels = 2;
    vr_price(&w, &p, &price);
    assert_near(price.spread_ms[VR_DECODE], 4 + 4);
}

/* Kernels of a batch: the host makes their graph while the devices wait, unless batches overlap; and each change
 * between devices and host beyond the first ones costs. */
static void test_prompt(void **state)
{
    (void)state;
    struct vr_speeds s = machine();
    s.places[0].prompt_submit_ms = s.places[1].prompt_submit_ms = 0.01;
    s.places[0].switch_ms = 0.5, s.places[1].prompt_switch_ms = 0.25;
    struct vr_work rows[] = {
        { .phase = VR_PREFILL, .device = 0, .name = "ADD", .n = 100, .kernels = 100, .act_bytes = 1900000000 },
        { .phase = VR_PREFILL, .device = 1, .name = "ADD", .n = 100, .kernels = 100, .act_bytes = 450000000 },
        { .phase = VR_PREFILL, .device = 2, .name = "ADD", .n = 100 }, /* nobody starts the host */
        { .phase = VR_DECODE, .device = 0, .name = "ADD", .n = 1, .kernels = 100, .act_bytes = 900000000 },
    };
    struct vr_works w = { .rows = rows, .n_rows = VR_COUNT(rows), .n_splits = { 6, 7 } };
    struct vr_pricing p = both_devices(&s, 1);
    struct vr_price price;
    vr_price(&w, &p, &price);
    assert_near(price.submit_ms, 2);
    assert_near(price.copy_ms[VR_DECODE], (6 - 2) * 0.5);
    assert_near(price.copy_ms[VR_PREFILL], (7 - 3) * 0.25);
    assert_near(price.step_ms[VR_PREFILL], (1.9 + 0.1) + (0.9 + 0.1) + 0.1 + 2 + 1);
    p.pipeline = true;
    p.n_prompt = UINT32_MAX;
    vr_price(&w, &p, &price);
    assert_true(fabs(price.step_ms[VR_PREFILL] - 2) < 1e-5);
    s.places[0].prompt_submit_ms = 0.03; /* the host is the slowest */
    vr_price(&w, &p, &price);
    assert_true(fabs(price.step_ms[VR_PREFILL] - 4) < 1e-5);
}

/* Products, experts and attention each have their own rates; products cost more in prompts, and small ones no less than
 * the least. */
static void test_kinds(void **state)
{
    (void)state;
    static const struct {
        struct vr_work row;
        double ms;
    } rows[] = {
        { { .phase = VR_DECODE, .name = "MUL_MAT", .weight_bytes = 1000000000, .act_bytes = 1000000 }, 1 },
        { { .phase = VR_DECODE, .name = "MUL_MAT", .weight_bytes = 1000000000, .kernels = 10 }, 1 + 10 * 0.004 },
        { { .phase = VR_DECODE, .name = "MUL_MAT_ID", .weight_bytes = 1000000000 }, 2 },
        { { .phase = VR_DECODE, .name = "FLASH_ATTN_EXT", .cells = 4096, .cache_bytes = 1000000000 }, 2 },
        { { .phase = VR_DECODE, .name = "ADD", .act_bytes = 1000000000, .kernels = 10 }, 1 + 10 * 0.001 },
        { { .phase = VR_PREFILL, .name = "MUL_MAT", .weight_bytes = 1, .flops = 1000000000000 }, 10 },
        { { .phase = VR_PREFILL, .name = "MUL_MAT_ID", .weight_bytes = 1, .flops = 1000000000000 }, 40 },
        /* of 4,096 cells a batch of 512 sees 3,840, on average */
        { { .phase = VR_PREFILL, .name = "FLASH_ATTN_EXT", .cells = 4096, .flops = 1000000000000 }, 18.75 },
        { { .phase = VR_PREFILL, .name = "MUL_MAT", .weight_bytes = 1000000000, .kernels = 10 }, 1 + 10 * 0.006 },
        { { .phase = VR_PREFILL, .name = "ADD", .act_bytes = 1000000000, .kernels = 10 }, 1 + 10 * 0.001 },
        { { .phase = VR_DECODE, .name = "MUL_MAT", .weight_bytes = 1000000, .kernels = 10 }, 10 * 0.015625 },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct vr_speeds s = machine();
        s.places[0].product_ms = 0.003, s.places[0].prompt_product_ms = 0.005;
        s.places[0].least_ms[VR_TYPE_F16] = 0.015625f;
        s.places[0].step_ms = 7, s.places[0].prompt_step_ms = 11;
        s.places[1].step_ms = 70; /* has no part in it */
        struct vr_work row = rows[i].row;
        row.n = 1, row.type = VR_TYPE_F16;
        struct vr_works w = { .rows = &row, .n_rows = 1 };
        struct vr_pricing p = both_devices(&s, 1);
        struct vr_price price;
        vr_price(&w, &p, &price);
        assert_near(price.ms[row.phase][0], rows[i].ms);
        assert_near(price.step_ms[row.phase], rows[i].ms + (row.phase == VR_DECODE ? 7 : 11));
    }
}

/* What a batch's products read and write beside weights counts where no measured rate has it; a kernel does it while it
 * computes, but for experts. */
static void test_activations(void **state)
{
    (void)state;
    struct vr_work row = { .phase = VR_PREFILL, .name = "MUL_MAT", .n = 1, .type = Q4_0, .weight_bytes = 1000000000 };
    struct vr_works w = { .rows = &row, .n_rows = 1 };
    struct vr_speeds s = machine();
    struct vr_pricing p = both_devices(&s, 1);
    struct vr_price price;
    row.act_bytes = 3000000000, row.flops = 200000000000;
    vr_price(&w, &p, &price);
    assert_near(price.ms[VR_PREFILL][0], 2);
    s.places[0].act_gbs = 1000;
    vr_price(&w, &p, &price);
    assert_near(price.ms[VR_PREFILL][0], 1 + 3);
    snprintf(row.name, sizeof row.name, "MUL_MAT_ID");
    s.places[0].expert_read[Q4_0] = 200;
    vr_price(&w, &p, &price);
    assert_near(price.ms[VR_PREFILL][0], 5 + 8 + 3);
    row.phase = VR_DECODE; /* a single token's are nothing */
    vr_price(&w, &p, &price);
    assert_near(price.ms[VR_DECODE][0], 8);
}

/* An expert goes through its weights once for every tile of the tokens that it gets, which are never quite as many as
 * the others': of 128 in the middle nearly half of the experts have more than one tile of 128. */
static void test_tiles(void **state)
{
    (void)state;
    static const double rows[][2] = { { 1, 1 },         { 64, 1 },        { 96, 1.0005 }, { 128, 1.4824 },
                                      { 160, 1.99359 }, { 256, 2.48759 }, { 1e6, 7813 },  { 1e12, 7812500000.5 } };
    struct vr_work row = { .phase = VR_PREFILL, .name = "MUL_MAT_ID", .n = 1, .type = Q4_0, .weight_bytes = 18 };
    struct vr_works w = { .rows = &row, .n_rows = 1 };
    struct vr_speeds s = machine();
    s.places[0].expert_read[Q4_0] = 36e-6F, s.places[0].expert_again[Q4_0] = 18e-6F; /* 0.5 ms, and 1 ms again */
    s.places[0].expert_matrix[Q4_0] = 1e30F, s.places[0].tile = 128;
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        row.flops = (uint64_t)(2 * 32 * rows[i][0]);
        struct vr_pricing p = both_devices(&s, 1);
        struct vr_price price;
        vr_price(&w, &p, &price);
        double tiles = price.ms[VR_PREFILL][0] + 0.5;
        if (fabs(tiles / rows[i][1] - 1) > 1e-4)
            fail_msg("%g tokens: %.9g tiles, not %g", rows[i][0], tiles, rows[i][1]);
    }
}

static const struct vr_speed_op measured_ops[] = {
    { VR_OP_ATTENTION, VR_TYPE_F16, 0.010, 0, 0, 500, 0, 0, 50 },
    { VR_OP_ATTENTION, Q8_0, 0.012, 0.030, 0, 200, 0.5, 0, 25 },
    { VR_OP_ATTENTION_MANY, VR_TYPE_F16, 0.020, 0.005, 8192, 250, 0, 0, 80 },
    { VR_OP_ATTENTION_ONE, VR_TYPE_F16, 0, 0, 0, 0, 0, 0, 20 },
    { VR_OP_CACHE_PRODUCT, VR_TYPE_F16, 0.004, 0, 0, 250, 0, 0, 10 },
    { VR_OP_SET_ROWS, Q8_0, 0.006, 0, 0, 0, 0, 100, 0 },
    { VR_OP_ROTATE, VR_TYPE_NONE, 0.003, 0, 0, 0, 0, 400, 0 },
    { VR_OP_SOFT_MAX, VR_TYPE_NONE, 0.005, 0, 0, 800, 0, 200, 0 },
    { VR_OP_NORM, VR_TYPE_NONE, 0.002, 0, 0, 20, 0, 400, 0 },
};

static struct vr_speeds measured_machine(void)
{
    struct vr_speeds s = machine();
    memcpy(s.places[0].ops, measured_ops, sizeof measured_ops);
    s.places[0].n_ops = VR_COUNT(measured_ops);
    s.places[0].other_ms = 0.003;
    s.places[0].whole_tiles = true;
    return s;
}

/* What was measured by itself is priced by its own figures: by kind and, over a cache, by the cache's type. */
static void test_ops(void **state)
{
    (void)state;
    enum { GB = 1000000000 };
    static const struct {
        struct vr_work row;
        double ms;
    } rows[] = {
        { { .name = "FLASH_ATTN_EXT", .type = VR_TYPE_F16, .cells = 4096, .cache_bytes = GB, .kernels = 2 }, 2.01 },
        { { .name = "FLASH_ATTN_EXT", .type = Q8_0, .cells = 4096, .cache_bytes = GB, .kernels = 2 }, 5.042 },
        { { .name = "FLASH_ATTN_EXT", .type = Q8_0, .cells = 2176, .cache_bytes = GB }, 5.027 }, /* half the parts */
        { { .name = "FLASH_ATTN_EXT", .type = VR_TYPE_F16, .cells = 4096, .cache_bytes = 500, .heads = 4 }, 0.010001 },
        { { .name = "FLASH_ATTN_EXT", .type = VR_TYPE_F16, .cells = 4096, .cache_bytes = 500, .heads = 8 }, 0.025002 },
        /* those go on growing up to 8,192 cells; the others do not */
        { { .name = "FLASH_ATTN_EXT", .type = VR_TYPE_F16, .cells = 7936, .cache_bytes = 500, .heads = 8 }, 0.030002 },
        { { .name = "FLASH_ATTN_EXT", .type = VR_TYPE_F16, .cells = 16384, .cache_bytes = 500, .heads = 8 }, 0.025002 },
        { { .name = "FLASH_ATTN_EXT", .type = Q8_0, .cells = 7936, .cache_bytes = GB }, 5.042 },
        { { .name = "FLASH_ATTN_EXT", .type = Q8_0, .cells = 256, .cache_bytes = GB }, 5.012 },
        { { .name = "FLASH_ATTN_EXT", .type = Q8_0, .cells = 4096, .cache_bytes = 1, .flops = GB }, 2.042 },
        { { .name = "FLASH_ATTN_EXT", .type = Q4_0, .cells = 4096, .cache_bytes = GB }, 2 }, /* as f16's once */
        { { .name = "MUL_MAT", .type = VR_TYPE_F16, .cells = 4096, .cache_bytes = GB, .kernels = 1 }, 4.004 },
        { { .name = "MUL_MAT", .type = VR_TYPE_F32, .act_bytes = GB, .kernels = 4 }, 1.012 }, /* a rotation */
        { { .name = "SET_ROWS", .type = Q8_0, .cache_bytes = 1000, .kernels = 10 }, 0.060001 },
        { { .name = "SET_ROWS", .type = VR_TYPE_F16, .kernels = 10 }, 0.03 }, /* not measured: the middle one */
        { { .name = "SOFT_MAX", .type = VR_TYPE_NONE, .act_bytes = 8 * (uint64_t)GB, .kernels = 1 }, 10.005 },
        { { .name = "RMS_NORM", .type = VR_TYPE_NONE, .columns = 5000, .act_bytes = GB, .kernels = 1 }, 0.004 },
        { { .name = "RMS_NORM", .type = VR_TYPE_NONE, .phase = VR_PREFILL, .act_bytes = GB, .kernels = 1 }, 2.501 },
        { { .name = "MUL", .type = VR_TYPE_F32, .act_bytes = GB }, 0 }, /* done along */
        { { .name = "FLASH_ATTN_EXT", .type = Q8_0, .phase = VR_PREFILL, .flops = GB, .kernels = 1 }, 0.041 },
        { { .name = "SOFT_MAX", .type = VR_TYPE_NONE, .phase = VR_PREFILL, .act_bytes = GB, .kernels = 1 }, 5.001 },
        { { .name = "MUL_MAT", .type = VR_TYPE_F16, .phase = VR_PREFILL, .cache_bytes = 1, .flops = GB }, 0.1 },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct vr_speeds s = measured_machine();
        struct vr_works w = { .rows = &(struct vr_work){ 0 }, .n_rows = 1 };
        w.rows[0] = rows[i].row;
        w.rows[0].n = 1;
        struct vr_pricing p = both_devices(&s, 1);
        if (p.fill.n_ctx_seq < rows[i].row.cells) p.fill.n_ctx_seq = rows[i].row.cells;
        struct vr_price price;
        vr_price(&w, &p, &price);
        if (fabs(price.ms[rows[i].row.phase][0] - rows[i].ms) > 1e-6)
            fail_msg("row %zu: %g ms, not %g", i, price.ms[rows[i].row.phase][0], rows[i].ms);
    }
}

/* Attention of a batch: by how many heads the kernel takes at once, and those that fill it up count too: of eleven,
 * sixteen. */
static void test_heads_at_once(void **state)
{
    (void)state;
    static const struct {
        uint32_t type;
        uint16_t heads, together;
        double ms;
    } rows[] = { { VR_TYPE_F16, 1, 1, 0.05 },
                 { VR_TYPE_F16, 2, 2, 0.0316228 },
                 { VR_TYPE_F16, 3, 4, 0.02 * 4 / 3 },
                 { VR_TYPE_F16, 4, 4, 0.02 },
                 { VR_TYPE_F16, 8, 8, 0.0125 },
                 { VR_TYPE_F16, 11, 8, 0.0125 * 16 / 11 },
                 { Q8_0, 6, 2, 0.04 } /* measured with four alone */ };
    struct vr_speeds s = measured_machine();
    struct vr_pricing p = both_devices(&s, 1);
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct vr_work row = { .name = "FLASH_ATTN_EXT",
                               .phase = VR_PREFILL,
                               .type = rows[i].type,
                               .n = 1,
                               .flops = 1000000000,
                               .heads = rows[i].heads,
                               .together = rows[i].together };
        struct vr_price price;
        vr_price(&(struct vr_works){ .rows = &row, .n_rows = 1 }, &p, &price);
        if (fabs(price.ms[VR_PREFILL][0] - rows[i].ms) > 1e-6)
            fail_msg("%u heads, %u at once: %g ms", rows[i].heads, rows[i].together, price.ms[VR_PREFILL][0]);
    }
}

/* Without a device the host is another one; and what fits into its cache is read from there. */
static void test_alone(void **state)
{
    (void)state;
    struct vr_speeds s = machine();
    struct vr_speed *host = &s.alone;
    *host = s.places[VR_SPEED_HOST];
    host->gbs = 100;
    host->launch_ms = 0;
    host->cache_bytes = 32e6;
    host->cached_share[VR_TYPE_F16] = 4;
    static const double rows[][2] = { { 8e6, 0.02 }, { 16e6, 0.04 }, { 32e6, 0.2 }, { 64e6, 0.64 }, { 128e6, 1.28 } };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct vr_work row = { .name = "MUL_MAT", .type = VR_TYPE_F16, .n = 1, .weight_bytes = (uint64_t)rows[i][0] };
        struct vr_works w = { .rows = &row, .n_rows = 1 };
        struct vr_price price;
        vr_price(&w, &(struct vr_pricing){ .speeds = &s }, &price);
        if (fabs(price.step_ms[VR_DECODE] - rows[i][1]) > 1e-9)
            fail_msg("%g bytes: %g ms, not %g", rows[i][0], price.step_ms[VR_DECODE], rows[i][1]);
    }
}

/* Generating with 1,000 of 4,096 cells filled: devices read whole 256s, and so does a plain product on the host. */
static void test_fill(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint8_t device;
        double cells;
    } rows[] = {
        { "FLASH_ATTN_EXT", 0, 1024 }, { "FLASH_ATTN_EXT", 2, 1000 }, { "MUL_MAT", 0, 1024 },
        { "MUL_MAT", 2, 1024 },        { "SOFT_MAX", 0, 1024 },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct vr_speeds s = machine();
        struct vr_work row = { .device = rows[i].device, .type = VR_TYPE_F16, .n = 1, .cells = 4096, .kernels = 1 };
        snprintf(row.name, sizeof row.name, "%s", rows[i].name);
        row.cache_bytes = 4096000000;
        struct vr_speed *p = &s.places[rows[i].device == 2 ? VR_SPEED_HOST : 0];
        p->launch_ms = 0;
        p->attention_gbs = p->gbs;
        struct vr_works w = { .rows = &row, .n_rows = 1 };
        struct vr_pricing pricing = both_devices(&s, 1000 / 4096.0);
        struct vr_price price;
        vr_price(&w, &pricing, &price);
        assert_near(price.ms[VR_DECODE][rows[i].device], rows[i].cells / p->gbs);
    }
}

/* What is known of a type by itself: kernels of its products, and experts of a batch that are read one after the other.
 */
static void test_types(void **state)
{
    (void)state;
    struct vr_speeds s = machine();
    s.places[0].launch_ms = s.places[0].product_ms = 1; /* of types that were not measured */
    s.places[0].type_ms[VR_TYPE_F16] = 0.5f, s.places[0].prompt_type_ms[VR_TYPE_F16] = 0.25f;
    s.places[0].prompt_submit_ms = 0.125; /* in the price apart; of floats it was measured along */
    s.places[0].expert_read[VR_TYPE_F16] = 500;
    static const struct {
        const char *name;
        uint8_t phase;
        uint32_t type;
        double ms;
    } rows[] = {
        { "MUL_MAT", VR_DECODE, VR_TYPE_F16, 1 + 2 * 0.5 },
        { "MUL_MAT", VR_DECODE, Q8_0, 1 + 2 * 2 },
        { "MUL_MAT", VR_PREFILL, VR_TYPE_F16, 10 + 2 * 0.125 },
        { "MUL_MAT", VR_PREFILL, Q8_0, 10 + 2 * 1 },
        { "MUL_MAT_ID", VR_PREFILL, VR_TYPE_F16, 2 + 40 + 2 * 0.125 },
        { "MUL_MAT_ID", VR_PREFILL, Q8_0, 40 + 2 },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct vr_work row = { .phase = rows[i].phase, .type = rows[i].type, .n = 1, .kernels = 2 };
        snprintf(row.name, sizeof row.name, "%s", rows[i].name);
        row.weight_bytes = 1000000000, row.flops = row.phase == VR_PREFILL ? 1000000000000 : 0;
        struct vr_works w = { .rows = &row, .n_rows = 1 };
        struct vr_pricing p = { .speeds = &s, .machine_device = (const uint16_t[]){ 0 }, .n_devices = 1 };
        struct vr_price price;
        vr_price(&w, &p, &price);
        if (fabs(price.ms[row.phase][0] - rows[i].ms) > 1e-9)
            fail_msg("row %zu: %g ms, not %g", i, price.ms[row.phase][0], rows[i].ms);
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
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_sum),         cmocka_unit_test(test_prompt),
                                        cmocka_unit_test(test_spread),      cmocka_unit_test(test_kinds),
                                        cmocka_unit_test(test_activations), cmocka_unit_test(test_tiles),
                                        cmocka_unit_test(test_ops),         cmocka_unit_test(test_heads_at_once),
                                        cmocka_unit_test(test_alone),       cmocka_unit_test(test_fill),
                                        cmocka_unit_test(test_types),       cmocka_unit_test(test_nothing) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
