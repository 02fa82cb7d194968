/* The bundle method against functions whose highest point is known: the least of some planes that meet there. */
#include "test.h"

#include <math.h>

#include "plan/bundle.h"
#include "plan_random.h"

#define N_FUNCTIONS 400
#define MAX_PLANES  24

struct function {
    uint32_t n, n_planes;
    double at[VR_BUNDLE_VARIABLES], top;
    double slope[MAX_PLANES][VR_BUNDLE_VARIABLES], above[MAX_PLANES];
};

/* Slopes that cancel each other by some shares, so that there is no way up from `at`; where a variable is 0 there, they
 * may all lead below it. The last planes do not reach that point. */
static void draw(struct dice *d, struct function *f)
{
    memset(f, 0, sizeof *f);
    f->n = (uint32_t)roll_between(d, 1, 8);
    f->n_planes = f->n + 1 + (uint32_t)roll(d, MAX_PLANES - f->n);
    f->top = toss(d, -5, 50);
    uint32_t meet = f->n + 1;
    for (uint32_t i = 0; i < f->n; i++) {
        bool low = roll(d, 4) == 0;
        double sum = 0;
        f->at[i] = low ? 0 : toss(d, 0, 20);
        for (uint32_t k = 0; k < f->n_planes; k++) f->slope[k][i] = toss(d, -1, 1);
        for (uint32_t k = 0; k < meet; k++) sum += f->slope[k][i] / meet;
        for (uint32_t k = 0; k < meet; k++) f->slope[k][i] -= sum + (low ? toss(d, 0, 1) : 0);
    }
    for (uint32_t k = meet; k < f->n_planes; k++) f->above[k] = toss(d, 0, 3);
}

static double value(const struct function *f, const double *x, double *slope)
{
    double least = INFINITY;
    for (uint32_t k = 0; k < f->n_planes; k++) {
        double sum = f->top + f->above[k];
        for (uint32_t i = 0; i < f->n; i++) sum += f->slope[k][i] * (x[i] - f->at[i]);
        if (sum >= least) continue;
        least = sum;
        memcpy(slope, f->slope[k], f->n * sizeof *slope);
    }
    return least;
}

static void test_finds_the_top(void **state)
{
    (void)state;
    unsigned rounds = 0, most = 0;
    for (uint64_t seed = 0; seed < N_FUNCTIONS; seed++) {
        struct dice d = { seed };
        struct function f;
        struct vr_bundle b;
        double x[VR_BUNDLE_VARIABLES] = { 0 }, slope[VR_BUNDLE_VARIABLES];
        draw(&d, &f);
        double first = value(&f, x, slope);
        unsigned i = 0;
        vr_bundle_start(&b, f.n, x, first, slope, 1);
        for (; i < 400 && vr_bundle_next(&b, 1e-6, x); i++) {
            for (uint32_t k = 0; k < f.n; k++) assert_true(x[k] >= 0);
            double now = value(&f, x, slope);
            vr_bundle_take(&b, x, now, slope);
            assert_true(b.top >= now);
        }
        double check = value(&f, b.best, slope);
        if (fabs(check - b.top) > 1e-12 * (1 + fabs(check)) || b.top > f.top + 1e-9)
            fail_msg("seed %lu: %g is told of a point that is %g high, of %g", seed, b.top, check, f.top);
        if (b.top < f.top - 1e-3 * (1 + f.top - first))
            fail_msg("seed %lu: %g of %g after %u rounds, %u variables", seed, b.top, f.top, i, f.n);
        rounds += i;
        if (i > most) most = i;
    }
    print_message("%d functions: %.1f rounds each, at most %u\n", N_FUNCTIONS, (double)rounds / N_FUNCTIONS, most);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_finds_the_top),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
