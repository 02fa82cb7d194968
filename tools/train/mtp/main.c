/* Trains the tiny hybrid model with an MTP head that tests use: tests/fixtures/models/rhymes.gguf.
 *
 *     mtp-train OUT.gguf [STEPS] [SEED]      writes every hundred steps, and at the end
 *     mtp-train --check                      compares gradients with differences
 *
 * One thread, no packages; the same seed gives the same model on the same processor. Adam, with a learning rate that
 * rises for a while and then falls with a cosine. Rows get longer towards the end, so that long texts hold together. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "rhymes.h"
#include "write.h"

enum { ROWS = 768, REPORT = 20, SAVE = 100 };
#define TOP_RATE    4e-3f
#define HEAD_WEIGHT 0.3f

static int ids[ROWS], want[ROWS];

static void fill(uint64_t *luck, int rows, int length)
{
    int text[ROWS + 1];
    for (int first = 0; first < rows; first += length) {
        rhymes(luck, text, length + 1);
        memcpy(ids + first, text, (size_t)length * sizeof *ids);
        memcpy(want + first, text + 1, (size_t)length * sizeof *want);
    }
}

static int largest(const float *x, int n)
{
    int best = 0;
    for (int i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

struct report {
    float loss[1 + GUESSES];
    int same[1 + GUESSES]; /* rows where this one chooses what the model chooses; the model: what was wanted */
};

static float pass(const struct net *n, struct tape *t, int rows, int length, bool train, struct report *out)
{
    struct mat *logits[1 + GUESSES];
    float all = 0;
    tape_reset(t, length, train);
    net_run(n, t, ids, rows, logits);
    for (int i = 0; i <= GUESSES; i++) {
        float weight = i ? HEAD_WEIGHT : 1, loss = op_loss(t, logits[i], want, weight);
        all += loss;
        if (!out) continue;
        out->loss[i] += loss / weight;
        for (int r = 0; r < rows; r++)
            out->same[i] +=
                largest(logits[i]->x + r * VOCAB, VOCAB) == (i ? largest(logits[0]->x + r * VOCAB, VOCAB) : want[r]);
    }
    if (train) tape_back(t);
    return all;
}

static void adam(struct net *n, int step, float rate)
{
    float sum = 0, b1 = 1 - powf(0.9f, (float)step), b2 = 1 - powf(0.98f, (float)step);
    for (int i = 0; i < n->n; i++)
        for (int k = 0; k < n->w[i].m.rows * n->w[i].m.cols; k++) sum += n->w[i].m.g[k] * n->w[i].m.g[k];
    float clip = sum > 1 ? 1 / sqrtf(sum) : 1;
    for (int i = 0; i < n->n; i++) {
        struct weight *w = &n->w[i];
        for (int k = 0; k < w->m.rows * w->m.cols; k++) {
            float g = w->m.g[k] * clip;
            w->mean[k] = 0.9f * w->mean[k] + 0.1f * g;
            w->square[k] = 0.98f * w->square[k] + 0.02f * g * g;
            if (w->decays) w->m.x[k] *= 1 - 0.05f * rate;
            w->m.x[k] -= rate * (w->mean[k] / b1) / (sqrtf(w->square[k] / b2) + 1e-8f);
            w->m.g[k] = 0;
        }
    }
}

static int train(struct net *n, struct tape *t, const char *path, int steps, uint64_t luck)
{
    struct report r = { 0 };
    for (int step = 1; step <= steps; step++) {
        float part = (float)step / (float)steps, warm = (float)step / 30;
        float rate = TOP_RATE * (warm < 1 ? warm : 0.02f + 0.49f * (1 + cosf(3.14159265f * part)));
        int length = part < 0.7f ? 256 : part < 0.9f ? 384 : 768;
        fill(&luck, ROWS, length);
        pass(n, t, ROWS, length, true, &r);
        adam(n, step, rate);
        if (step % REPORT == 0 || step == steps) {
            int of = step % REPORT ? step % REPORT : REPORT;
            printf("step %d, %.0f s: loss", step, (double)clock() / CLOCKS_PER_SEC);
            for (int i = 0; i <= GUESSES; i++) printf(" %.3f", (double)r.loss[i] / of);
            printf("; right");
            for (int i = 0; i <= GUESSES; i++) printf(" %.3f", (double)r.same[i] / of / ROWS);
            printf("\n");
            fflush(stdout);
            r = (struct report){ 0 };
        }
        if ((step % SAVE == 0 || step == steps) && !net_write(n, path))
            return fprintf(stderr, "cannot write %s\n", path), 1;
    }
    return 0;
}

/* The gradient along a random direction of each weight, against the difference of two losses. */
static int check(struct net *n, struct tape *t)
{
    enum { FEW = 48, LENGTH = 24 };
    uint64_t luck = 5;
    int wrong = 0;
    fill(&luck, FEW, LENGTH);
    pass(n, t, FEW, LENGTH, true, NULL);
    for (int i = 0; i < n->n; i++) {
        struct mat *m = &n->w[i].m;
        int count = m->rows * m->cols;
        double along = 0, norm = 0;
        for (int k = 0; k < count; k++) norm += (double)m->g[k] * m->g[k];
        double far = 0.02 / (1 + sqrt(norm)); /* along the gradient itself: there the loss changes by its norm */
        float step = (float)(far / sqrt(norm + 1e-12));
        for (int k = 0; k < count; k++) m->x[k] += step * m->g[k];
        along += (double)pass(n, t, FEW, LENGTH, false, NULL);
        for (int k = 0; k < count; k++) m->x[k] -= 2 * step * m->g[k];
        along -= (double)pass(n, t, FEW, LENGTH, false, NULL);
        for (int k = 0; k < count; k++) m->x[k] += step * m->g[k];
        double got = along / (2 * far), off = fabs(got - sqrt(norm)) / (sqrt(norm) + 1e-3);
        if (off > 0.05) wrong++, printf("%s: gradient %.5f, difference %.5f\n", n->w[i].name, sqrt(norm), got);
    }
    printf("%d of %d weights differ\n", wrong, n->n);
    return wrong != 0;
}

int main(int n_args, char **args)
{
    static struct net n;
    static struct tape t;
    bool checks = n_args > 1 && strcmp(args[1], "--check") == 0;
    unsigned long seed = n_args > 3 ? strtoul(args[3], NULL, 10) : 1;
    if (n_args < 2) return fprintf(stderr, "mtp-train OUT.gguf [STEPS] [SEED] | --check\n"), 2;
    if (!net_init(&n, seed) || !tape_init(&t, (size_t)900 << 20)) return fprintf(stderr, "out of memory\n"), 1;
    if (checks) return check(&n, &t);
    return train(&n, &t, args[1], n_args > 2 ? atoi(args[2]) : 900, seed + 1);
}
