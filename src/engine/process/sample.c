/* Loops over the vocabulary come in blocks of 16, which every compiler turns into vector code; the k best are kept in a
 * heap, whose smallest element lets most blocks pass with one comparison. */
#include "engine/process/sample.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 16, FIRST_TRY = 256, BUCKETS = 256 };

struct vr_sampler {
    size_t n; /* of the vocabulary */
    float *row;
    struct vr_candidate *c;
    int32_t *count; /* how often a token was said; all zero between calls */
};

struct vr_sampler *vr_sampler_new(size_t n_vocab)
{
    struct vr_sampler *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->n = n_vocab;
    s->row = calloc(n_vocab, sizeof *s->row);
    s->c = calloc(n_vocab, sizeof *s->c);
    s->count = calloc(n_vocab, sizeof *s->count);
    if (s->row && s->c && s->count) return s;
    vr_sampler_free(s);
    return NULL;
}

void vr_sampler_free(struct vr_sampler *s)
{
    if (!s) return;
    free(s->row);
    free(s->c);
    free(s->count);
    free(s);
}

/* splitmix64 */
double vr_random(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

/* --- whole rows --- */

/* What is not a number is never larger. */
static float block_max(const float *v)
{
    float m[4] = { -INFINITY, -INFINITY, -INFINITY, -INFINITY };
    for (int i = 0; i < BLOCK; i += 4)
        for (int j = 0; j < 4; j++) m[j] = v[i + j] > m[j] ? v[i + j] : m[j];
    float a = m[0] > m[1] ? m[0] : m[1], b = m[2] > m[3] ? m[2] : m[3];
    return a > b ? a : b;
}

/* The index of the largest; ties go to the first. NaN never wins. */
static int32_t best(const float *v, size_t n)
{
    size_t at = 0, i = 0;
    float max = -INFINITY;
    for (; i + BLOCK <= n; i += BLOCK) {
        if (!(block_max(v + i) > max)) continue;
        for (size_t j = i; j < i + BLOCK; j++)
            if (v[j] > max) max = v[at = j];
    }
    for (; i < n; i++)
        if (v[i] > max) max = v[at = i];
    return (int32_t)at;
}

/* e^x for x <= 0, within 3e-7 of it; 0 where floats end. */
static float exp_neg(float x)
{
    float t = x * 1.44269504f;
    t = t > -126.0f ? t : -126.0f;       /* also when x is not a number */
    int32_t whole = (int32_t)(t - 0.5f); /* rounds towards zero: t <= 0 */
    float f = t - (float)whole;
    float p = 1.0f +
              f * (0.693147181f + f * (0.240226507f + f * (0.0555041087f + f * (0.00961812911f + f * 0.00133335581f))));
    union {
        int32_t i;
        float f;
    } scale = { (whole + 127) << 23 };
    return x < -87.0f ? 0.0f : p * scale.f;
}

/* The sum of e^(v - max). */
static double sum_exp(const float *v, size_t n, float max)
{
    double sum = 0;
    size_t i = 0;
    for (; i + BLOCK <= n; i += BLOCK) {
        float part[BLOCK];
        for (int j = 0; j < BLOCK; j++) part[j] = exp_neg(v[i + (size_t)j] - max);
        float s = 0;
        for (int j = 0; j < BLOCK; j++) s += part[j];
        sum += (double)s;
    }
    for (; i < n; i++) sum += (double)exp_neg(v[i] - max);
    return sum;
}

/* --- the k best --- */

/* Worse than: a smaller logit, or the later token. */
static bool worse(const struct vr_candidate *a, const struct vr_candidate *b)
{
    return a->logit != b->logit ? a->logit < b->logit : a->id > b->id;
}

static void sift(struct vr_candidate *heap, size_t n, size_t at)
{
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && worse(&heap[child + 1], &heap[child])) child++;
        if (!worse(&heap[child], &heap[at])) return;
        struct vr_candidate x = heap[at];
        heap[at] = heap[child];
        heap[child] = x;
    }
}

/* Sorts a heap with the worst on top: best first. */
static void sort_heap(struct vr_candidate *heap, size_t n)
{
    while (n-- > 1) {
        struct vr_candidate x = heap[0];
        heap[0] = heap[n];
        heap[n] = x;
        sift(heap, n, 0);
    }
}

static void sort(struct vr_candidate *c, size_t n)
{
    for (size_t i = n / 2; i-- > 0;) sift(c, n, i);
    sort_heap(c, n);
}

/* The k best of a row, best first. Returns how many there are: k, or fewer when the rest cannot be chosen. */
static size_t k_best(const float *v, size_t n, size_t k, struct vr_candidate *heap)
{
    size_t have = 0, i = 0;
    if (k == 0) return 0;
    while (i < n) {
        size_t end = i + BLOCK <= n ? i + BLOCK : n;
        bool full = have == k;
        if (full && end - i == BLOCK && !(block_max(v + i) > heap[0].logit)) {
            i = end;
            continue;
        }
        for (; i < end; i++) {
            if (!(v[i] > -INFINITY)) continue;
            struct vr_candidate x = { (int32_t)i, v[i] };
            if (have < k) {
                heap[have++] = x;
                if (have == k)
                    for (size_t j = k / 2; j-- > 0;) sift(heap, k, j);
            } else if (v[i] > heap[0].logit) {
                heap[0] = x;
                sift(heap, k, 0);
            }
        }
    }
    if (have < k)
        sort(heap, have);
    else
        sort_heap(heap, have);
    return have;
}

/* All with a logit of at least `least`, in any order. */
static size_t at_least(const float *v, size_t n, float least, struct vr_candidate *out)
{
    size_t have = 0;
    for (size_t i = 0; i < n; i++)
        if (v[i] >= least && v[i] > -INFINITY) out[have++] = (struct vr_candidate){ (int32_t)i, v[i] };
    return have;
}

/* Sixteenths below the best one; what is further than that is all in the last. */
static size_t bucket(float max, float v)
{
    float d = (max - v) * 16;
    return d < BUCKETS - 1 ? (size_t)d : BUCKETS - 1; /* also when it is not a number */
}

/* The fewest tokens that have `part` of the probability, in any order. Only where the line goes through are they
 * sorted. */
static size_t nucleus(const float *v, size_t n, float max, float part, struct vr_candidate *out)
{
    double mass[BUCKETS] = { 0 }, sum = 0, seen = 0;
    for (size_t i = 0; i < n; i++) {
        double p = (double)exp_neg(v[i] - max);
        mass[bucket(max, v[i])] += p;
        sum += p;
    }
    size_t edge = 0, have = 0, sure;
    while (edge < BUCKETS - 1 && seen + mass[edge] < sum * (double)part) seen += mass[edge++];
    for (size_t i = 0; i < n; i++)
        if (v[i] > -INFINITY && bucket(max, v[i]) < edge) out[have++] = (struct vr_candidate){ (int32_t)i, v[i] };
    sure = have;
    for (size_t i = 0; i < n; i++)
        if (v[i] > -INFINITY && bucket(max, v[i]) == edge) out[have++] = (struct vr_candidate){ (int32_t)i, v[i] };
    sort(out + sure, have - sure);
    for (size_t i = sure; i < have; i++)
        if ((seen += (double)exp_neg(out[i].logit - max)) >= sum * (double)part) return i + 1;
    return have;
}

/* --- choosing --- */

/* Draws from all tokens, without sorting any. */
static int32_t draw_any(const float *v, size_t n, float temperature, uint64_t *rng)
{
    int32_t top = best(v, n);
    float max = v[top], scale = 1.0f / temperature;
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (double)exp_neg((v[i] - max) * scale);
    double left = vr_random(rng) * sum;
    for (size_t i = 0; i < n; i++) {
        double p = (double)exp_neg((v[i] - max) * scale);
        if (p > 0 && (left -= p) < 0) return (int32_t)i;
    }
    return top; /* rounding left a crumb */
}

/* How many of the sorted candidates are within top_p and min_p; at least one. `sum` is that of all e^(logit - max). */
static size_t cut(const struct vr_sampling *how, const struct vr_candidate *c, size_t n, double sum)
{
    double seen = 0, enough = (double)how->top_p * sum;
    float least = how->min_p > 0 ? c[0].logit + logf(how->min_p) : -INFINITY;
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && c[i].logit < least) return i;
        seen += (double)exp_neg(c[i].logit - c[0].logit);
        if (how->top_p < 1 && seen >= enough) return i + 1;
    }
    return n;
}

static int32_t draw(const struct vr_candidate *c, size_t n, float max, float temperature, uint64_t *rng)
{
    double sum = 0;
    float scale = 1.0f / temperature;
    for (size_t i = 0; i < n; i++) sum += (double)exp_neg((c[i].logit - max) * scale);
    double left = vr_random(rng) * sum;
    for (size_t i = 0; i < n; i++)
        if ((left -= (double)exp_neg((c[i].logit - max) * scale)) < 0) return c[i].id;
    return c[0].id;
}

/* A row of logits to a token; -1 when none can be chosen. */
static int32_t choose(struct vr_sampler *s, const struct vr_sampling *how, uint64_t *rng, const float *v)
{
    size_t n = 0;
    if (how->temperature > 0 && how->top_k > 1 && (size_t)how->top_k < s->n) { /* as most ask: one look at the row */
        double sum = 0;
        if ((n = k_best(v, s->n, (size_t)how->top_k, s->c)) == 0) return -1;
        for (size_t i = 0; i < n; i++) sum += (double)exp_neg(s->c[i].logit - s->c[0].logit);
        return draw(s->c, cut(how, s->c, n, sum), s->c[0].logit, how->temperature, rng);
    }
    int32_t top = best(v, s->n);
    float max = v[top], least = how->min_p > 0 ? max + logf(how->min_p) : -INFINITY;
    if (!(max > -INFINITY)) return -1;
    if (how->temperature <= 0 || how->top_k == 1) return top;
    if (how->top_p < 1) {
        size_t all = nucleus(v, s->n, max, how->top_p, s->c);
        for (size_t i = 0; i < all; i++)
            if (s->c[i].logit >= least) s->c[n++] = s->c[i];
    } else if (how->min_p > 0) {
        n = at_least(v, s->n, least, s->c);
    } else {
        return draw_any(v, s->n, how->temperature, rng);
    }
    return n ? draw(s->c, n, max, how->temperature, rng) : top;
}

static bool penalises(const struct vr_sampling *how)
{
    return how->presence != 0 || how->frequency != 0 || (how->repeat != 1 && how->repeat_last_n != 0);
}

static void count(struct vr_sampler *s, const struct vr_history *h, size_t from, int32_t by)
{
    for (size_t i = from; i < h->n; i++)
        if (h->tokens[i] >= 0 && (size_t)h->tokens[i] < s->n) s->count[h->tokens[i]] += by;
}

/* OpenAI's two penalties look at what was said, llama.cpp's also at the end of the prompt. */
static void penalise(struct vr_sampler *s, const struct vr_sampling *how, const struct vr_history *h, float *v)
{
    size_t last = how->repeat_last_n < 0 ? h->n : (size_t)how->repeat_last_n;
    size_t from = h->n > last ? h->n - last : 0;
    if (how->repeat != 1) {
        for (size_t i = from; i < h->n; i++) {
            int32_t t = h->tokens[i];
            if (t < 0 || (size_t)t >= s->n || s->count[t]++) continue;
            v[t] = v[t] <= 0 ? v[t] * how->repeat : v[t] / how->repeat;
        }
        for (size_t i = from; i < h->n; i++)
            if (h->tokens[i] >= 0 && (size_t)h->tokens[i] < s->n) s->count[h->tokens[i]] = 0;
    }
    if (how->presence == 0 && how->frequency == 0) return;
    count(s, h, h->n_prompt, 1);
    for (size_t i = h->n_prompt; i < h->n; i++) {
        int32_t t = h->tokens[i];
        if (t < 0 || (size_t)t >= s->n || s->count[t] == 0) continue;
        v[t] -= (float)s->count[t] * how->frequency + how->presence;
        s->count[t] = 0;
    }
}

/* The row with bias and penalties, in s->row; the row itself when there are none. */
static const float *prepare(struct vr_sampler *s, const struct vr_sampling *how, const float *logits,
                            const struct vr_history *said)
{
    bool more = said && penalises(how);
    if (!more && how->n_bias == 0) return logits;
    memcpy(s->row, logits, s->n * sizeof *s->row);
    for (size_t i = 0; i < how->n_bias; i++)
        if (how->bias[i].token >= 0 && (size_t)how->bias[i].token < s->n)
            s->row[how->bias[i].token] += how->bias[i].bias;
    if (more) penalise(s, how, said, s->row);
    return s->row;
}

/* The gate refused the first choice. The most likely tokens are asked first: when enough of them may pass, the rest of
 * the vocabulary cannot matter. */
static int32_t choose_gated(struct vr_sampler *s, const struct vr_sampling *how, uint64_t *rng, const float *v,
                            const struct vr_gate *gate)
{
    bool greedy = how->temperature <= 0;
    size_t want = greedy ? 1 : how->top_k > 0 ? (size_t)how->top_k : s->n;
    size_t n = FIRST_TRY < s->n ? FIRST_TRY : s->n, pass = 0;
    n = k_best(v, s->n, n, s->c);
    if (want <= n) {
        if (!gate->filter(gate->ctx, s->c, n)) return -1;
        for (size_t i = 0; i < n; i++)
            if (s->c[i].logit > -INFINITY) s->c[pass++] = s->c[i];
    }
    if (pass < want) {
        for (size_t i = 0; i < s->n; i++) s->c[i] = (struct vr_candidate){ (int32_t)i, v[i] };
        if (!gate->filter(gate->ctx, s->c, s->n)) return -1;
        if (v != s->row) memcpy(s->row, v, s->n * sizeof *s->row);
        for (size_t i = 0; i < s->n; i++) s->row[i] = s->c[i].logit;
        return choose(s, how, rng, s->row);
    }
    if (greedy) return s->c[0].id;
    double sum = 0;
    for (size_t i = 0; i < want; i++) sum += (double)exp_neg(s->c[i].logit - s->c[0].logit);
    return draw(s->c, cut(how, s->c, want, sum), s->c[0].logit, how->temperature, rng);
}

int32_t vr_sample(struct vr_sampler *s, const struct vr_sampling *how, uint64_t *rng, const float *logits,
                  const struct vr_history *said, const struct vr_gate *gate)
{
    const float *v = prepare(s, how, logits, said);
    int32_t token = choose(s, how, rng, v);
    if (token < 0 || !gate) return token;
    bool yes;
    if (!gate->allows(gate->ctx, token, &yes)) return -1;
    return yes ? token : choose_gated(s, how, rng, v, gate);
}

float vr_logprobs(struct vr_sampler *s, const float *logits, int32_t token, struct vr_candidate *top, size_t n)
{
    float max = logits[best(logits, s->n)];
    float all = max + (float)log(sum_exp(logits, s->n, max));
    size_t have = k_best(logits, s->n, n, s->c);
    for (size_t i = 0; i < n; i++) {
        top[i] = i < have ? s->c[i] : (struct vr_candidate){ -1, -INFINITY };
        top[i].logit -= all;
    }
    return logits[token] - all;
}
