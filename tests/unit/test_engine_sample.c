/* Sampling: against the plain definition, on rows small enough to enumerate and large enough to go through the blocks.
 */
#include "test.h"

#include <math.h>

#include "engine/process/sample.h"

enum { N = 5000, DRAWS = 200000 / EACH };

static float row[N];

static void fill(uint32_t seed)
{
    for (int i = 0; i < N; i++) {
        seed = seed * 1664525u + 1013904223u;
        row[i] = (float)(seed >> 8) / (float)(1 << 24) * 12 - 6;
    }
}

static struct vr_sampling plain(float temperature)
{
    return (struct vr_sampling){ .temperature = temperature, .top_p = 1, .repeat = 1 };
}

static int by_logit(const void *a, const void *b)
{
    const struct vr_candidate *x = a, *y = b;
    return x->logit != y->logit ? (x->logit < y->logit ? 1 : -1) : x->id - y->id;
}

/* The distribution that llama.cpp's chain of samplers defines, in the slowest way. Returns how many can be drawn. */
static size_t reference(const struct vr_sampling *how, double p[N])
{
    static struct vr_candidate c[N];
    for (int i = 0; i < N; i++) c[i] = (struct vr_candidate){ i, row[i] };
    qsort(c, N, sizeof *c, by_logit);
    size_t n = how->top_k > 0 && how->top_k < N ? (size_t)how->top_k : N;
    double sum = 0, seen = 0;
    for (size_t i = 0; i < n; i++) sum += exp((double)c[i].logit - (double)c[0].logit);
    if (how->top_p < 1)
        for (size_t i = 0; i < n; i++) {
            seen += exp((double)c[i].logit - (double)c[0].logit) / sum;
            if (seen >= (double)how->top_p) n = i + 1;
        }
    if (how->min_p > 0)
        for (size_t i = 1; i < n; i++)
            if (exp((double)c[i].logit - (double)c[0].logit) < (double)how->min_p) n = i;
    memset(p, 0, N * sizeof *p);
    sum = 0;
    for (size_t i = 0; i < n; i++) sum += exp(((double)c[i].logit - (double)c[0].logit) / (double)how->temperature);
    for (size_t i = 0; i < n; i++)
        p[c[i].id] = exp(((double)c[i].logit - (double)c[0].logit) / (double)how->temperature) / sum;
    return n;
}

static void test_distributions(void **state)
{
    (void)state;
    static const struct {
        float temperature;
        int32_t top_k;
        float top_p, min_p;
    } rows[] = {
        { 1, 0, 1, 0 },    { 0.7f, 40, 1, 0 },     { 1, 0, 0.5f, 0 },          { 1, 0, 0.999f, 0 },
        { 1, 0, 1, 0.2f }, { 1.5f, 100, 0.9f, 0 }, { 0.8f, 40, 0.95f, 0.05f }, { 2, 0, 0.3f, 0.5f },
        { 0.3f, 7, 1, 0 }, { 1, 5001, 1, 0 },
    };
    static double p[N];
    static int count[N];
    struct vr_sampler *s = vr_sampler_new(N);
    uint64_t rng = 1;
    fill(3);
    row[17] = 7;
    row[4999] = 6.5f;
    for (size_t k = 0; k < VR_COUNT(rows); k++) {
        struct vr_sampling how = plain(rows[k].temperature);
        how.top_k = rows[k].top_k;
        how.top_p = rows[k].top_p;
        how.min_p = rows[k].min_p;
        size_t n = reference(&how, p);
        memset(count, 0, sizeof count);
        int draws = n > 1000 ? 10000 : DRAWS / 4; /* fewer leave no token eight of them */
        for (int i = 0; i < draws; i++) {
            int32_t t = vr_sample(s, &how, &rng, row, NULL, NULL);
            assert_in_range(t, 0, N - 1);
            count[t]++;
        }
        double chi = 0;
        size_t cells = 0;
        for (int i = 0; i < N; i++) {
            if (p[i] == 0 && count[i]) fail_msg("row %zu draws token %d, which it may not", k, i);
            double want = p[i] * draws;
            if (want < 8) continue;
            chi += (count[i] - want) * (count[i] - want) / want;
            cells++;
        }
        assert_true(cells > 0);
        if (chi > (double)cells + 6 * sqrt(2.0 * (double)cells) + 6)
            fail_msg("row %zu: chi2 %.1f of %zu", k, chi, cells);
    }
    vr_sampler_free(s);
}

static void test_greedy(void **state)
{
    (void)state;
    struct vr_sampler *s = vr_sampler_new(N);
    struct vr_sampling how = plain(0);
    uint64_t rng = 0;
    for (int at = 0; at < N; at += 7 * EACH) {
        fill((uint32_t)at);
        row[at] = 9;
        assert_int_equal(vr_sample(s, &how, &rng, row, NULL, NULL), at);
    }
    row[10] = row[11] = 50; /* the first of equals */
    assert_int_equal(vr_sample(s, &how, &rng, row, NULL, NULL), 10);
    row[3] = NAN; /* never */
    assert_int_equal(vr_sample(s, &how, &rng, row, NULL, NULL), 10);
    for (int i = 0; i < N; i++) row[i] = NAN;
    assert_int_equal(vr_sample(s, &how, &rng, row, NULL, NULL), -1);
    assert_int_equal(rng, 0); /* nothing was drawn */
    vr_sampler_free(s);
}

static void test_seeds(void **state)
{
    (void)state;
    struct vr_sampler *s = vr_sampler_new(N);
    struct vr_sampling how = plain(1);
    uint64_t a = 5, b = 5, c = 6;
    int same = 0;
    fill(1);
    for (int i = 0; i < 50; i++) {
        int32_t x = vr_sample(s, &how, &a, row, NULL, NULL);
        assert_int_equal(x, vr_sample(s, &how, &b, row, NULL, NULL));
        same += x == vr_sample(s, &how, &c, row, NULL, NULL);
    }
    assert_true(same < 10);
    for (int i = 0; i < 1000; i++) {
        double r = vr_random(&a);
        assert_true(r >= 0 && r < 1);
    }
    vr_sampler_free(s);
}

static void test_bias_and_penalties(void **state)
{
    (void)state;
    struct vr_sampler *s = vr_sampler_new(N);
    uint64_t rng = 1;
    fill(2);
    const int32_t said[] = { 1, 2, 2, 9, 9, 9 };
    const struct vr_history h = { said, 2, 6 }; /* the answer so far: 2 9 9 9 */
    row[1] = 20, row[2] = 19, row[9] = 18, row[5] = 17;
    const struct vr_bias bias[] = { { 1, -INFINITY }, { 2, -5 }, { 99999, 3 }, { -1, 3 } };
    static const struct {
        const char *what;
        float presence, frequency, repeat;
        int32_t last;
        bool biased;
        int32_t want;
    } rows[] = {
        { "nothing", 0, 0, 1, 64, false, 1 },
        { "bias", 0, 0, 1, 64, true, 9 },
        { "presence: the prompt does not count", 2, 0, 1, 64, false, 1 },
        { "presence and bias", 1.5f, 0, 1, 64, true, 5 },
        { "frequency: three times 9", 0, 0.5f, 1, 64, true, 5 },
        { "repeat: the prompt counts", 0, 0, 2, 64, false, 5 },
        { "repeat: only the last three", 0, 0, 2, 3, false, 1 },
        { "repeat: none", 0, 0, 2, 0, false, 1 },
        { "repeat: all", 0, 0, 2, -1, false, 5 },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct vr_sampling how = plain(0);
        how.presence = rows[i].presence;
        how.frequency = rows[i].frequency;
        how.repeat = rows[i].repeat;
        how.repeat_last_n = rows[i].last;
        if (rows[i].biased) how.bias = bias, how.n_bias = VR_COUNT(bias);
        for (int again = 0; again < 2; again++) { /* working memory is clean afterwards */
            int32_t t = vr_sample(s, &how, &rng, row, &h, NULL);
            if (t != rows[i].want) fail_msg("%s: %d", rows[i].what, t);
        }
    }
    assert_true(row[1] == 20 && row[9] == 18);
    vr_sampler_free(s);
}

/* A gate that lets only some tokens through. */
struct evens {
    int mod, asked;
    bool broken;
};

static bool evens_filter(void *ctx, struct vr_candidate *c, size_t n)
{
    struct evens *e = ctx;
    for (size_t i = 0; i < n; i++)
        if (c[i].id % e->mod) c[i].logit = -INFINITY;
    e->asked += (int)n;
    return !e->broken;
}

static bool evens_allows(void *ctx, int32_t token, bool *yes)
{
    struct vr_candidate c = { token, 1 };
    bool ok = evens_filter(ctx, &c, 1);
    *yes = c.logit > -INFINITY;
    return ok;
}

static void test_gates(void **state)
{
    (void)state;
    struct vr_sampler *s = vr_sampler_new(N);
    uint64_t rng = 1;
    fill(4);
    row[1] = 20;
    row[400] = 19;
    struct evens e = { .mod = 100 };
    const struct vr_gate gate = { evens_allows, evens_filter, &e };
    struct vr_sampling how = plain(0);
    assert_int_equal(vr_sample(s, &how, &rng, row, NULL, &gate), 400);
    assert_true(e.asked < 300); /* and not the whole vocabulary */
    for (int i = 0; i < 200; i++) {
        how = plain(1);
        how.top_k = i % 2 ? 0 : 20;
        assert_int_equal(vr_sample(s, &how, &rng, row, NULL, &gate) % 100, 0);
    }
    /* with top-k the k best that may pass are drawn from */
    e.mod = 3;
    how = plain(5);
    how.top_k = 2;
    row[300] = 18, row[301] = 30, row[302] = 30, row[303] = 17;
    for (int i = 0; i < 100; i++) {
        int32_t t = vr_sample(s, &how, &rng, row, NULL, &gate);
        assert_true(t == 300 || t == 303);
    }
    e.mod = 1000000; /* only token 0 */
    how = plain(1);
    assert_int_equal(vr_sample(s, &how, &rng, row, NULL, &gate), 0);
    row[0] = -INFINITY;
    assert_int_equal(vr_sample(s, &how, &rng, row, NULL, &gate), -1);
    e.broken = true;
    assert_int_equal(vr_sample(s, &how, &rng, row, NULL, &gate), -1);
    vr_sampler_free(s);
}

static void test_logprobs(void **state)
{
    (void)state;
    struct vr_sampler *s = vr_sampler_new(N);
    fill(8);
    row[4321] = 8;
    row[77] = 7.5f;
    double sum = 0;
    for (int i = 0; i < N; i++) sum += exp((double)row[i]);
    struct vr_candidate top[5];
    float p = vr_logprobs(s, row, 12, top, 5);
    assert_true(fabs((double)p - ((double)row[12] - log(sum))) < 1e-3);
    assert_int_equal(top[0].id, 4321);
    assert_int_equal(top[1].id, 77);
    assert_true(fabs((double)top[0].logit - (8 - log(sum))) < 1e-3);
    assert_true(top[2].logit >= top[3].logit && top[3].logit >= top[4].logit);
    vr_logprobs(s, row, 12, NULL, 0);
    vr_sampler_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_distributions),      cmocka_unit_test(test_greedy), cmocka_unit_test(test_seeds),
        cmocka_unit_test(test_bias_and_penalties), cmocka_unit_test(test_gates),  cmocka_unit_test(test_logprobs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
