/* How many tokens are guessed ahead: the arithmetic, and simulated streams in which it decides. */
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/speculate/steer.h"

static void test_acceptance(void **state)
{
    (void)state;
    struct vr_acceptance a = { 0 };
    assert_float_equal(vr_acceptance_of(&a, 0.5), 0.5, 1e-9);
    vr_acceptance_add(&a, 0, 0);
    assert_float_equal(vr_acceptance_of(&a, 0.25), 0.25, 1e-9);
    for (int i = 0; i < 200; i++) vr_acceptance_add(&a, 3, 3);
    assert_true(vr_acceptance_of(&a, 0.1) > 0.9);
    for (int i = 0; i < 200; i++) vr_acceptance_add(&a, 4, 1); /* one right, one wrong, two that nobody looked at */
    assert_float_equal(vr_acceptance_of(&a, 0.5), 0.5, 0.01);
    for (int i = 0; i < 200; i++) vr_acceptance_add(&a, 4, 0);
    assert_true(vr_acceptance_of(&a, 0.5) < 0.12);
}

static void thrice(struct vr_step_times *t, uint32_t rows, double ms)
{
    for (int i = 0; i < 3; i++) vr_step_times_add(t, rows, ms);
}

static void test_times(void **state)
{
    (void)state;
    struct vr_step_times t = { 0 };
    assert_float_equal(vr_step_times_ms(&t, 3), 0, 0);
    assert_int_equal(vr_step_times_most(&t), 0);
    vr_step_times_add(&t, 2, 90); /* the first one is slow, and two are not enough */
    vr_step_times_add(&t, 2, 10);
    assert_false(vr_step_times_known(&t, 2));
    vr_step_times_add(&t, 2, 11);
    assert_float_equal(vr_step_times_ms(&t, 2), 10, 1e-9);
    assert_float_equal(vr_step_times_ms(&t, 1), 10, 1e-9);
    assert_float_equal(vr_step_times_ms(&t, 7), 10, 1e-9); /* thought to be the same, so that it is tried */
    thrice(&t, 4, 14);
    assert_int_equal(vr_step_times_most(&t), 4);
    assert_float_equal(vr_step_times_ms(&t, 3), 12, 1e-9);
    assert_float_equal(vr_step_times_ms(&t, 6), 18, 1e-9);
    vr_step_times_add(&t, 4, 1000); /* once */
    assert_true(vr_step_times_ms(&t, 4) < 15);
    for (int i = 0; i < 60; i++) vr_step_times_add(&t, 4, 21); /* for good */
    assert_true(vr_step_times_ms(&t, 4) > 20);
    for (int i = 0; i < 12; i++) vr_step_times_add(&t, 4, 14);
    assert_float_equal(vr_step_times_ms(&t, 4), 14, 0.2);
    thrice(&t, 6, 5); /* noise does not make more rows faster than fewer */
    assert_true(vr_step_times_ms(&t, 9) >= vr_step_times_ms(&t, 6));
    vr_step_times_add(&t, 100000, 5);
    vr_step_times_add(&t, 0, 5);
    assert_true(isfinite(vr_step_times_ms(&t, 100000)));
    for (int i = 0; i < 2000; i++) vr_step_times_add(&t, 1, 9);
    assert_true(vr_step_times_known(&t, 1) && !vr_step_times_known(&t, 4)); /* too long ago */
}

static void flat(struct vr_step_times *t, double first, double more)
{
    *t = (struct vr_step_times){ 0 };
    for (uint32_t r = 1; r < VR_STEER_ROWS; r++) thrice(t, r, first + more * (r - 1));
    for (uint32_t r = 1; r < VR_STEER_ROWS; r++) t->when[r] = t->n; /* all of them just now */
}

static void test_choose(void **state)
{
    (void)state;
    static const struct {
        double first, more, p[4], pass, step;
        uint32_t n, most, want[4];
        bool even;
    } rows[] = {
        { 10, 0.1, { 0.9 }, 0, 0, 1, 8, { 8 }, false },  /* rows that cost nothing */
        { 10, 0.1, { 0.9 }, 9, 0, 1, 8, { 0 }, false },  /* guesses as dear as steps */
        { 10, 10, { 0.9 }, 0, 0, 1, 8, { 0 }, false },   /* each row costs a step: no gain to be had */
        { 10, 5, { 0.3 }, 0, 0, 1, 8, { 0 }, false },    /* seldom right */
        { 10, 1, { 0.5 }, 0.5, 0, 1, 8, { 2 }, false },  /* something in between */
        { 10, 0.1, { 0.9 }, 0, 0, 1, 3, { 3 }, false },  /* no more than can be used */
        { 10, 0.1, { 0.9 }, 0, 50, 1, 3, { 0 }, false }, /* dear whatever the number */
        { 10, 1.5, { 0.9, 0.1 }, 0, 0, 2, 4, { 4, 0 }, false }, { 10, 1.5, { 0.9, 0.1 }, 0, 0, 2, 4, { 3, 3 }, true },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct vr_step_times t;
        struct vr_steer s = { .n = rows[i].n, .even = rows[i].even, .pass_ms = rows[i].pass, .step_ms = rows[i].step };
        uint32_t k[VR_STEER_STREAMS];
        flat(&t, rows[i].first, rows[i].more);
        for (uint32_t j = 0; j < s.n; j++) s.acceptance[j] = rows[i].p[j], s.most[j] = rows[i].most;
        double gain = vr_steer_choose(&s, &t, k);
        for (uint32_t j = 0; j < s.n; j++)
            if (k[j] != rows[i].want[j]) fail_msg("row %zu: %u for stream %u, not %u", i, k[j], j, rows[i].want[j]);
        assert_true(rows[i].want[0] ? gain > 1.01 : gain <= 1);
    }
}

/* --- a stream that decides for itself --- */

struct world {
    double first, more, pass, step; /* what things take, in ms */
    double p[2];                    /* how often guesses are right, in either half of the text */
    double busy;                    /* how often in 10 ms something else is in the way, for up to 20 ms */
    double change, drift; /* one more, of a step of other rows than the one before; all of it, every other 400 tokens */
};

static uint32_t seed;
static double luck(void)
{
    seed = seed * 1664525u + 1013904223u;
    return (double)(seed >> 8) / (1 << 24);
}

enum { TEXTS = 12, TOKENS = 6000, MOST = 8 };

/* So long, more or less, or much longer. */
static double takes(const struct world *w, double ms)
{
    double mood = luck(), noise = 0.95 + 0.1 * luck(), longer = 20 * luck();
    return ms > 0 ? ms * noise + (mood < w->busy * ms / 10 ? longer : 0) : 0;
}

/* What texts took with always `fixed` guesses, or steered when that is negative: `n` streams, each with its own, in
 * steps of as many rows for each. */
static double run_once(const struct world *w, uint32_t n, int fixed, uint32_t text)
{
    struct vr_steering g = { 0 };
    struct vr_acceptance a[VR_STEER_STREAMS] = { 0 };
    struct vr_rest rest[VR_STEER_STREAMS] = { 0 };
    bool warm = false;
    double ms = 0;
    uint32_t tokens = 0, last = 0;
    seed = text;
    while (tokens < n * TOKENS) {
        struct vr_steered s[VR_STEER_STREAMS];
        double p = w->p[tokens >= n * TOKENS / 2];
        uint32_t right[VR_STEER_STREAMS] = { 0 }, most = 0;
        for (uint32_t i = 0; i < n; i++)
            s[i] = (struct vr_steered){ .want = MOST, .acceptance = vr_acceptance_of(&a[i], 0.6), .rest = &rest[i] };
        if (fixed < 0) vr_steer_step(&g, s, n, n > 1);
        for (uint32_t i = 0; i < n; i++) {
            if (fixed >= 0) s[i].want = (uint32_t)fixed;
            while (right[i] < s[i].want && luck() < p) right[i]++;
            if (s[i].want > most) most = s[i].want;
        }
        double step =
            takes(w, w->first + w->more * (n * (1 + most) - 1) + (most ? w->step : 0) + (most != last ? w->change : 0));
        if (w->drift > 0 && tokens / n / 400 % 2) step *= w->drift;
        last = most;
        for (uint32_t i = 0; i < most; i++, warm = true)
            step += takes(w, w->pass) * (warm ? 1 : 4); /* the first one is slow */
        vr_step_times_add(&g.times[n - 1], n * (1 + most), step);
        ms += step;
        for (uint32_t i = 0; i < n; i++) {
            vr_acceptance_add(&a[i], s[i].want, right[i]);
            tokens += 1 + right[i];
        }
    }
    return ms;
}

/* Tokens per ms, of several texts. */
static double run(const struct world *w, uint32_t n, int fixed)
{
    double ms = 0;
    for (uint32_t text = 1; text <= TEXTS; text++) ms += run_once(w, n, fixed, text * 7919);
    return n * TEXTS * TOKENS / ms;
}

static void test_steered_streams(void **state)
{
    (void)state;
    static const struct world worlds[] = {
        { 10, 0.2, 0.5, 0.2, { 0.8, 0.8 } },
        { 10, 0.2, 0.5, 0.2, { 0.1, 0.1 } },
        { 10, 8, 1, 0.5, { 0.7, 0.7 } },
        { 10, 10, 5, 1, { 0, 0 } },
        { 10, 1, 2, 0, { 0.6, 0.6 } },
        { 10, 0.1, 0, 0, { 0.95, 0.95 } },
        { 10, 0.5, 1, 0, { 0.9, 0.1 } },
        { 10, 0.5, 1, 0, { 0.1, 0.9 } },
        { 10, 3, 0, 0, { 0.5, 0.5 } },
        { 10, 0.2, 0.5, 0.2, { 0.8, 0.8 }, 0.3 },
        { 10, 8, 1, 0.5, { 0.7, 0.7 }, 0.3 },
        { 3, 1, 0.4, 0.3, { 0.85, 0.85 }, 0.3 },
        { 3, 0.1, 0.3, 0.2, { 0.9, 0.9 }, 0.5 },
        { 3, 3, 1, 0.2, { 0.2, 0.2 }, 0.5 },
        { 10, 0.5, 0.5, 10, { 0.9, 0.9 } }, /* the first guess is the dear one */
        { 0.4, 0.02, 0.04, 0.4, { 0.9, 0.9 } },
        { 0.4, 0.02, 0.04, 0.4, { 0.9, 0.9 }, 0.3 },
        { 10, 2, 0.5, 10, { 0.3, 0.9 } },
        /* as rhymes.gguf on a processor, easy and hard */
        { 0.3, 0.06, 0.06, 0.05, { 0.88, 0.88 }, 0, 0.25 },
        { 0.3, 0.1, 0.1, 0.02, { 0.36, 0.36 }, 0, 0.25 },
        { 0.3, 0.06, 0.06, 0.05, { 0.88, 0.88 }, 0, 0.25, 1.4 },
        { 0.3, 0.1, 0.1, 0.02, { 0.36, 0.36 }, 0, 0.25, 1.4 },
        { 10, 2, 2, 1, { 0.5, 0.5 }, 0, 0.25, 1.4 },
        /* a device that records its kernels anew for another number of rows, hard text and easy */
        { 1.6, 0.3, 0.3, 0.2, { 0.35, 0.35 }, 0, 2 },
        { 1.6, 0.1, 0.2, 0.2, { 0.85, 0.85 }, 0, 2 },
        { 1.6, 0.3, 0.3, 0.2, { 0.6, 0.6 }, 0, 2 },
    };
    for (size_t i = 0; i < VR_COUNT(worlds) * 2; i++) {
        const struct world *w = &worlds[i / 2];
        uint32_t n = i % 2 ? VR_STEER_STREAMS : 1;
        double without = run(w, n, 0), best = without, steered = run(w, n, -1);
        for (int k = 1; k <= MOST; k++) best = fmax(best, run(w, n, k));
        if (getenv("FIGURES"))
            printf("world %zu, %u streams: %.3f of without, %.3f of the best\n", i / 2, n, steered / without,
                   steered / best);
        if (steered < 0.97 * without) fail_msg("world %zu, %u streams: %.3f of without", i / 2, n, steered / without);
        if (steered < 0.93 * best) fail_msg("world %zu, %u streams: %.3f of the best", i / 2, n, steered / best);
    }
}

static void test_rest(void **state)
{
    (void)state;
    struct vr_rest r = { 0 };
    uint32_t tries = 0;
    for (int i = 0; i < 10000; i++)
        if (vr_rest_over(&r)) tries++, vr_rest_begin(&r);
    assert_in_range(tries, 8, 16);
    vr_rest_reset(&r);
    assert_true(vr_rest_over(&r));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_acceptance), cmocka_unit_test(test_times),
                                        cmocka_unit_test(test_choose), cmocka_unit_test(test_steered_streams),
                                        cmocka_unit_test(test_rest) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
