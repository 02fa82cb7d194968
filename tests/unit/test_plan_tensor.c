/* The search over splits against brute force over share grids, its bounds, and slices as the engine cuts them. */
#include "test.h"

#include <math.h>

#include "gguf/type.h"
#include "plan/tensor.h"

static double between(unsigned *seed, double low, double high)
{
    return low + (high - low) * ((double)rand_r(seed) / RAND_MAX);
}
static size_t pick(unsigned *seed, size_t n) { return (size_t)rand_r(seed) % n; }

#define MAX_STAGES 12

struct problem {
    struct vr_work rows[3 * MAX_STAGES];
    struct vr_stage list[MAX_STAGES];
    struct vr_reduction reductions[VR_N_PHASES];
    struct vr_stages stages;
    struct vr_speeds speeds;
    struct vr_spread_ask ask;
};

static struct vr_work random_row(unsigned *seed, enum vr_phase phase, enum vr_cut cut, bool sliced)
{
    uint64_t bytes = (uint64_t)between(seed, 1e6, sliced ? 2e8 : 2e6), tokens = phase == VR_DECODE ? 1 : 512;
    return (struct vr_work){ .phase = (uint8_t)phase,
                             .device = (uint8_t)cut,
                             .sliced = sliced,
                             .type = VR_TYPE_F16,
                             .n = 1,
                             .kernels = 1 + (uint32_t)pick(seed, 12),
                             .columns = 4096,
                             .weight_bytes = bytes,
                             .flops = bytes * tokens,
                             .name = "MUL_MAT" };
}

static void add_stage(struct problem *p, unsigned *seed, enum vr_phase phase)
{
    enum vr_cut cut = (enum vr_cut)pick(seed, VR_N_CUTS);
    static const double few[] = { 2, 3, 4, 8, 22.5, 112 };
    struct vr_stage *s = &p->list[p->stages.n++];
    *s = (struct vr_stage){ .phase = (uint8_t)phase,
                            .n = 1 + (uint32_t)pick(seed, 40),
                            .first_row = p->stages.n_rows,
                            .n_rows = 2 + (uint32_t)pick(seed, 2) };
    for (uint32_t i = 0; i < s->n_rows; i++) {
        if (i == 2 && pick(seed, 3) == 0) cut = (enum vr_cut)((cut + 1) % VR_N_CUTS); /* two cuts in one stage */
        p->rows[p->stages.n_rows++] = random_row(seed, phase, cut, i > 0);
        if (i && cut != VR_CUT_ROWS) s->grains[cut] = few[pick(seed, VR_COUNT(few))];
        if (i) s->bytes += (double)p->rows[p->stages.n_rows - 1].weight_bytes;
    }
}

static void set_speed(unsigned *seed, struct vr_speed *s)
{
    double gbs = between(seed, 200, 1800), tflops = between(seed, 10, 200);
    *s = (struct vr_speed){ .gbs = gbs,
                            .tflops = tflops,
                            .launch_ms = 0.002,
                            .submit_ms = 0.0015,
                            .prompt_submit_ms = 0.008,
                            .step_ms = 0.05,
                            .link_gbs = between(seed, 3, 50),
                            .link_ms = 0.01 };
    for (size_t i = 0; i < VR_SPEED_TYPES; i++) {
        s->share[i] = 0.93f;
        s->matrix[i] = (float)tflops;
    }
}

/* `n` devices, some of them alike; room for all of it, or hardly. */
static void make(struct problem *p, unsigned *seed, size_t n, bool tight)
{
    memset(p, 0, sizeof *p);
    size_t stages = 1 + pick(seed, MAX_STAGES / 2);
    for (size_t i = 0; i < stages; i++) add_stage(p, seed, VR_DECODE);
    for (size_t i = 0; i < stages; i++) add_stage(p, seed, VR_PREFILL);
    for (size_t i = 0; i < VR_N_PHASES; i++)
        p->reductions[i] = (struct vr_reduction){ (uint8_t)i, 0, 1 + (uint32_t)pick(seed, 100), i ? 4u << 20 : 16384 };
    p->stages.rows = p->rows;
    p->stages.list = p->list;
    p->stages.reductions = p->reductions;
    p->stages.n_reductions = VR_N_PHASES;
    p->stages.fill = (struct vr_fill){ 0.5, 4096, 512 };
    p->speeds.n_devices = n;
    p->ask = (struct vr_spread_ask){ .stages = &p->stages, .speeds = &p->speeds, .n = n, .slice_bytes = 1000000 };
    for (size_t i = 0; i < n; i++) {
        if (i && pick(seed, 2))
            p->speeds.places[i] = p->speeds.places[i - 1];
        else
            set_speed(seed, &p->speeds.places[i]);
        p->ask.devices[i].device = (uint16_t)i;
        p->speeds.card[i] = (uint8_t)i;
        p->ask.devices[i].room_bytes = tight ? (uint64_t)between(seed, 2e5, 9e5) : 2000000;
    }
    p->ask.weight[VR_DECODE] = pick(seed, 4) ? 1 : 0;
    p->ask.weight[VR_PREFILL] = p->ask.weight[VR_DECODE] > 0 && pick(seed, 2) ? 0 : 4.0 / 512;
}

static bool has_room(const struct problem *p, const struct vr_spread *x)
{
    uint64_t all = 0;
    for (size_t i = 0; i < x->n; i++) all += x->share[i];
    for (size_t i = 0; i < x->n; i++)
        if ((double)x->share[i] / (double)all * (double)p->ask.slice_bytes >
            (double)p->ask.devices[x->who[i]].room_bytes * (1 + 1e-12))
            return false;
    return true;
}

/* Every split of so many parts over two devices or more. */
static double brute_force(const struct problem *p, uint32_t parts, uint32_t *n_tried)
{
    double best = INFINITY;
    uint32_t share[4] = { 0 };
    size_t n = p->ask.n;
    struct vr_err err = { 0 };
    for (;;) {
        uint32_t sum = 0;
        for (size_t i = 0; i + 1 < n; i++) sum += share[i];
        struct vr_spread x = { 0 };
        for (size_t i = 0; i < n && sum <= parts; i++) {
            uint32_t mine = i + 1 < n ? share[i] : parts - sum;
            if (mine == 0) continue;
            x.who[x.n] = (uint8_t)i;
            x.share[x.n++] = mine;
        }
        if (x.n >= 2 && has_room(p, &x)) {
            if (!vr_spread_price(&p->ask, &x, &err)) fail_msg("%s", err.msg);
            best = fmin(best, x.cost);
            (*n_tried)++;
        }
        size_t i = 0;
        while (i + 1 < n && ++share[i] > parts) share[i++] = 0;
        if (i + 1 == n) return best;
    }
}

static void test_against_brute_force(void **state)
{
    (void)state;
    static struct problem p;
    const char *many = getenv("VR_RANDOM_SPLITS");
    unsigned seed = 5, n = many ? (unsigned)atoi(many) : 240, tried = 0, found = 0, worse = 0;
    double most_gap = 0, most_over = 0, sum_gap = 0;
    for (unsigned i = 0; i < n; i++) {
        size_t devices = 2 + pick(&seed, 3);
        make(&p, &seed, devices, i % 3 == 2);
        struct vr_spread x;
        struct vr_err err = { 0 };
        double best = brute_force(&p, devices == 2 ? 256 : devices == 3 ? 48 : 20, &tried), bound;
        if (!vr_spread_bound(&p.ask, &bound, &err)) fail_msg("%s", err.msg);
        if (!vr_spread_solve(&p.ask, &x, &err)) {
            assert_int_equal(err.code, VR_ENOFIT);
            if (best < INFINITY) fail_msg("case %u: there is a split with room", i);
            continue;
        }
        found++;
        assert_true(has_room(&p, &x));
        double told = x.cost;
        if (!vr_spread_price(&p.ask, &x, &err)) fail_msg("%s", err.msg);
        assert_true(fabs(x.cost - told) <= 1e-9 * told);
        double off =
            i % 3 == 2 ? 1e-3 : 1e-6; /* rounded slices may be more of a device than its share, which has room */
        if (bound > best * (1 + 1e-6) || x.lower_bound > best * (1 + off) || x.lower_bound > x.cost)
            fail_msg("case %u: bounds %g and %g are above a split of %g", i, bound, x.lower_bound, best);
        worse += x.cost > best * (1 + 1e-6);
        most_over = fmax(most_over, x.cost / best - 1);
        most_gap = fmax(most_gap, x.cost / x.lower_bound - 1);
        sum_gap += x.cost / x.lower_bound - 1;
    }
    print_message(
        "%u problems, %u splits tried: %u found worse than on the grid, by at most %.2f %%; gap %.1f %% in the "
        "mean, at most %.1f %%\n",
        found, tried, worse, 100 * most_over, 100 * sum_gap / found, 100 * most_gap);
    assert_true(worse * 20 <= found && most_over < 0.06);
}

/* Alike devices and one kind of stage: nothing is left to prove. */
static void test_equal_devices_are_proven(void **state)
{
    (void)state;
    static struct problem p;
    unsigned seed = 9;
    for (unsigned i = 0; i < 50; i++) {
        make(&p, &seed, 2 + pick(&seed, 3), false);
        for (size_t d = 1; d < p.ask.n; d++) p.speeds.places[d] = p.speeds.places[0];
        for (uint32_t s = 0; s < p.stages.n; s++) memset(p.list[s].grains, 0, sizeof p.list[s].grains);
        for (uint32_t r = 0; r < p.stages.n_rows; r++) p.rows[r].device = VR_CUT_ROWS;
        struct vr_spread x;
        struct vr_err err = { 0 };
        if (!vr_spread_solve(&p.ask, &x, &err)) fail_msg("%s", err.msg);
        for (size_t d = 1; d < x.n; d++) assert_int_equal(x.share[d], x.share[0]);
        assert_true(x.cost <= x.lower_bound * (1 + 1e-6));
    }
}

static void test_cut(void **state)
{
    (void)state;
    double slice[3];
    vr_spread_cut(8, (const uint32_t[]){ 1, 1, 1 }, 3, 0, slice); /* 2, 3 and 3 heads */
    assert_true(slice[0] == 0.25 && slice[1] == 0.375 && slice[2] == 0.375);
    vr_spread_cut(8, (const uint32_t[]){ 1, 1, 1 }, 3, 1, slice); /* the second device comes first */
    assert_true(slice[1] == 0.25 && slice[2] == 0.375 && slice[0] == 0.375);
    vr_spread_cut(3, (const uint32_t[]){ 1, 1 }, 2, 0, slice);
    assert_true(fabs(slice[0] - 1.0 / 3) < 1e-12 && fabs(slice[1] - 2.0 / 3) < 1e-12);
    vr_spread_cut(2, (const uint32_t[]){ 1, 1, 2 }, 3, 0, slice); /* fewer heads than devices */
    assert_true(slice[0] == 0 && slice[1] == 0.5 && slice[2] == 0.5);
    vr_spread_cut(0, (const uint32_t[]){ 3, 1 }, 2, 1, slice);
    assert_true(slice[0] == 0.75 && slice[1] == 0.25);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_brute_force),
        cmocka_unit_test(test_equal_devices_are_proven),
        cmocka_unit_test(test_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
