#include "engine/speculate/steer.h"

#include <math.h>
#include <string.h>

#define KEEP_ACCEPTANCE 0.95 /* per step */
#define WEIGHT_BEFORE   4.0  /* checked guesses that what was known before counts for */
#define FALL            0.3  /* of the way to a shorter time, */
#define RISE            0.05 /* and to a longer one, */
#define OUTLIER         2.0  /* which counts for so many times the old one at most */
#define MARGIN          1.02 /* what guessing must bring, at least: times are noisy */
#define ALIKE           0.7 /* what slows steps of some rows down slows the others so much alike: clocks, a longer context */
#define STAY            1.01 /* and another number than the last one: the engine makes a new graph for it */
enum {
    STALE = 1000,
    DUE = 100,
    ENOUGH = 3,
    SHORTEST_REST = 64,
    FIRST_REST = 128, /* of a new stream, at most, when others rest */
    LONGEST_REST = 1024,
    FURTHER = 2, /* guesses more than were ever measured are tried at a time */
    LOOKS = 4,   /* such steps, one after the other: the first two are slow, a device records their kernels */
};

void vr_acceptance_add(struct vr_acceptance *a, uint32_t guessed, uint32_t accepted)
{
    if (guessed == 0) return;
    if (accepted > guessed) accepted = guessed;
    a->right = a->right * KEEP_ACCEPTANCE + accepted;
    a->checked = a->checked * KEEP_ACCEPTANCE + accepted + (accepted < guessed);
}

double vr_acceptance_of(const struct vr_acceptance *a, double before)
{
    return (a->right + WEIGHT_BEFORE * before) / (a->checked + WEIGHT_BEFORE);
}

/* --- times --- */

void vr_time_add(struct vr_time *t, double ms)
{
    if (!(ms > 0)) return;
    if (t->seen < ENOUGH)
        t->ms = t->seen ? fmin(t->ms, ms) : ms;
    else
        t->ms += (fmin(ms, OUTLIER * t->ms) - t->ms) * (ms < t->ms ? FALL : RISE);
    t->seen += t->seen < ENOUGH;
}

bool vr_time_known(const struct vr_time *t) { return t->seen >= ENOUGH; }

static bool is_fresh(const struct vr_step_times *t, uint32_t rows) { return t->n - t->when[rows] < STALE; }

void vr_step_times_add(struct vr_step_times *t, uint32_t rows, double ms)
{
    uint32_t before = t->last;
    t->n++;
    t->last = rows;
    if (rows == 0 || rows >= VR_STEER_ROWS || !(ms > 0)) return;
    if (!is_fresh(t, rows)) t->of[rows] = (struct vr_time){ 0 };
    t->when[rows] = t->n;
    double old = t->of[rows].ms;
    bool known = vr_time_known(&t->of[rows]);
    if (rows == before || !known || ms < old) vr_time_add(&t->of[rows], ms);
    for (uint32_t r = 1; known && r < VR_STEER_ROWS; r++)
        if (r != rows) t->of[r].ms *= 1 + ALIKE * (t->of[rows].ms / old - 1);
}

bool vr_step_times_known(const struct vr_step_times *t, uint32_t rows)
{
    return rows < VR_STEER_ROWS && vr_time_known(&t->of[rows]) && is_fresh(t, rows);
}

/* The nearest known number of rows from `rows` on, upwards or downwards; 0: none. */
static uint32_t nearest(const struct vr_step_times *t, uint32_t rows, int step)
{
    for (uint32_t r = rows; r > 0 && r < VR_STEER_ROWS; r = (uint32_t)((int)r + step))
        if (vr_step_times_known(t, r)) return r;
    return 0;
}

uint32_t vr_step_times_most(const struct vr_step_times *t) { return nearest(t, VR_STEER_ROWS - 1, -1); }

double vr_step_times_ms(const struct vr_step_times *t, uint32_t rows)
{
    if (rows >= VR_STEER_ROWS) rows = VR_STEER_ROWS - 1;
    uint32_t below = nearest(t, rows, -1), above = nearest(t, rows, 1);
    if (!below && !above) return 0;
    if (!below) return t->of[above].ms;
    if (!above) {
        uint32_t before = nearest(t, below - 1, -1);
        if (!before) return t->of[below].ms;
        double slope = (t->of[below].ms - t->of[before].ms) / (below - before);
        return t->of[below].ms + fmax(slope, 0) * (rows - below);
    }
    if (above == below) return t->of[below].ms;
    return t->of[below].ms + (t->of[above].ms - t->of[below].ms) * (rows - below) / (above - below);
}

/* --- the number --- */

static uint32_t rows_of(const struct vr_steer *s, const uint32_t *k, uint32_t *most)
{
    uint32_t rows = s->n;
    *most = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        rows += k[i];
        if (k[i] > *most) *most = k[i];
    }
    return s->even ? s->n * (1 + *most) : rows;
}

/* Tokens per ms with so many guesses for each. */
static double rate(const struct vr_steer *s, const struct vr_step_times *t, const uint32_t *k)
{
    uint32_t most, rows = rows_of(s, k, &most);
    double tokens = s->n;
    for (uint32_t i = 0; i < s->n; i++) {
        double p = 1;
        for (uint32_t j = 0; j < k[i]; j++) tokens += p *= s->acceptance[i];
    }
    double ms = vr_step_times_ms(t, rows) + (most ? s->step_ms + most * s->pass_ms : 0);
    return ms > 0 ? tokens / ms : 0;
}

/* Steps of so many rows were not measured for a while: what was seen of them may have been noise, or is past. */
static bool is_due(const struct vr_step_times *t, uint32_t rows)
{
    return rows < VR_STEER_ROWS && t->of[rows].seen && t->n - t->when[rows] >= DUE;
}

/* One more guess where it is likeliest to be right, or for everybody who can use one. False: nobody can. */
static bool one_more(const struct vr_steer *s, uint32_t *k, double *next)
{
    uint32_t best = s->n;
    bool any = false;
    for (uint32_t i = 0; i < s->n; i++) {
        if (k[i] >= s->most[i]) continue;
        any = true;
        if (s->even)
            k[i]++;
        else if (best == s->n || next[i] > next[best])
            best = i;
    }
    if (best < s->n) {
        k[best]++;
        next[best] *= s->acceptance[best];
    }
    return any;
}

double vr_steer_choose(const struct vr_steer *s, const struct vr_step_times *t, uint32_t out[VR_STEER_STREAMS])
{
    uint32_t k[VR_STEER_STREAMS] = { 0 }, most;
    double next[VR_STEER_STREAMS], none, best;
    memset(out, 0, sizeof k);
    memcpy(next, s->acceptance, sizeof next);
    none = rate(s, t, k);
    best = none * MARGIN;
    while (one_more(s, k, next)) {
        double now = rate(s, t, k);
        if (now <= best) continue;
        best = now;
        memcpy(out, k, sizeof k);
    }
    rows_of(s, out, &most);
    return most ? best / none : 1;
}

/* Whether the numbers of the last step are nearly as good. */
static bool stays(const struct vr_steer *s, const struct vr_step_times *t, const uint32_t *last, const uint32_t *best)
{
    uint32_t none[VR_STEER_STREAMS] = { 0 }, most;
    for (uint32_t i = 0; i < s->n; i++)
        if (last[i] > s->most[i]) return false;
    rows_of(s, last, &most);
    double now = rate(s, t, last);
    return most && now * STAY >= rate(s, t, best) && now > rate(s, t, none);
}

/* The best choice rests on what its neighbours take: of one that is due a few steps are made instead. */
static void look_again(struct vr_steering *g, const struct vr_steer *s, const struct vr_step_times *t,
                       uint32_t out[VR_STEER_STREAMS])
{
    uint32_t more[VR_STEER_STREAMS], none[VR_STEER_STREAMS] = { 0 }, most;
    double next[VR_STEER_STREAMS];
    memcpy(more, out, sizeof more);
    rows_of(s, out, &most);
    if (most == 0) g->looks = g->looks_further = 0;
    if (most == 0) return;
    for (uint32_t i = 0; i < s->n; i++) next[i] = pow(s->acceptance[i], out[i] + 1.0);
    bool further = one_more(s, more, next);
    if (g->looks + g->looks_further == 0) {
        if (is_due(t, rows_of(s, none, &most)))
            g->looks = LOOKS;
        else if (further && is_due(t, rows_of(s, more, &most)))
            g->looks_further = LOOKS;
    }
    if (g->looks)
        memcpy(out, none, sizeof none), g->looks--;
    else if (g->looks_further)
        memcpy(out, further ? more : out, sizeof more), g->looks_further--;
}

/* --- when it does not pay --- */

void vr_rest_begin(struct vr_rest *r)
{
    r->last = r->last == 0 ? SHORTEST_REST : r->last * 2 < LONGEST_REST ? r->last * 2 : LONGEST_REST;
    r->left = r->last;
}

void vr_rest_reset(struct vr_rest *r) { *r = (struct vr_rest){ .begun = true }; }

bool vr_rest_over(struct vr_rest *r)
{
    if (r->left == 0) return true;
    return --r->left == 0;
}

/* --- a step --- */

/* Whether many guesses for stream i would pay if they took as long as a single one does, and were right more often than
 * is known so far. */
static bool may_pay(const struct vr_steer *s, const struct vr_step_times *t, uint32_t i, uint32_t rows_of_one)
{
    double p = 1, tokens = s->n, hope = (1 + s->acceptance[i]) / 2;
    for (uint32_t j = 0; j < s->most[i]; j++) tokens += p *= hope;
    return tokens * vr_step_times_ms(t, s->n) > MARGIN * s->n * vr_step_times_ms(t, rows_of_one);
}

/* A stream for which none pay: how many it tries, and whether it rests then. */
static uint32_t try_some(const struct vr_steer *s, const struct vr_step_times *t, uint32_t i, struct vr_rest *rest)
{
    uint32_t one = s->even ? 2 * s->n : s->n + 1;
    if (!vr_step_times_known(t, one)) return 1;
    if (vr_step_times_most(t) <= one && may_pay(s, t, i, one)) return s->most[i];
    vr_rest_begin(rest);
    rest->tried = s->acceptance[i];
    return 1;
}

/* A new stream rests as the last one did, though not for long: its text is another. */
static void begin_stream(const struct vr_steering *g, struct vr_rest *rest)
{
    if (rest->begun) return;
    *rest = g->rest;
    rest->begun = true;
    if (rest->left > FIRST_REST) rest->left = FIRST_REST;
}

/* The last try was right, and if the next ones are it pays: it does not rest yet. */
static bool goes_on(const struct vr_steer *s, const struct vr_step_times *t, uint32_t i, const struct vr_rest *rest)
{
    struct vr_steer sure = *s;
    uint32_t out[VR_STEER_STREAMS];
    sure.acceptance[i] = sure.most[i] ? 1 : 0;
    return rest->left && s->acceptance[i] > rest->tried && vr_steer_choose(&sure, t, out) > 1 && out[i];
}

void vr_steer_step(struct vr_steering *g, struct vr_steered *streams, uint32_t n, bool even)
{
    const struct vr_step_times *times = &g->times[n - 1];
    uint32_t known = vr_step_times_most(times), out[VR_STEER_STREAMS] = { 0 };
    uint32_t further = (known > n ? (known - n) / n : 0) + FURTHER;
    uint32_t last[VR_STEER_STREAMS] = { 0 };
    struct vr_steer s = { .n = n, .even = even };
    for (uint32_t i = 0; i < n; i++) {
        begin_stream(g, streams[i].rest);
        last[i] = streams[i].rest->n;
        s.acceptance[i] = streams[i].acceptance;
        s.most[i] = streams[i].want < further ? streams[i].want : further;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (goes_on(&s, times, i, streams[i].rest)) streams[i].rest->left = 0;
        if (streams[i].want && !vr_rest_over(streams[i].rest)) s.most[i] = 0;
    }
    if (!vr_step_times_known(times, n)) { /* first, what a step takes without guesses */
        for (uint32_t i = 0; i < n; i++) streams[i].want = 0;
        return;
    }
    g->gain = vr_steer_choose(&s, times, out);
    if (stays(&s, times, last, out)) memcpy(out, last, sizeof out);
    memcpy(last, out, sizeof last);
    look_again(g, &s, times, out);
    bool looks = memcmp(last, out, sizeof out) != 0;
    for (uint32_t i = 0; i < n; i++) {
        streams[i].want = out[i];
        if (last[i])
            vr_rest_reset(streams[i].rest);
        else if (s.most[i] && !looks)
            streams[i].want = try_some(&s, times, i, streams[i].rest);
        streams[i].rest->n = last[i];
    }
    g->rest = *streams[n - 1].rest;
}
