/* Automatic differentiation for a small network: every operation computes its result at once and is put down on a tape;
 * going back over the tape adds gradients up. Rows are tokens: `n_rows / length` texts of `length` tokens each. What an
 * operation does is what llama.cpp does for the same step of the architecture. */
#ifndef TRAIN_MTP_TAPE_H
#define TRAIN_MTP_TAPE_H

#include <stdbool.h>
#include <stddef.h>

struct mat {
    float *x, *g; /* values and gradients, row by row */
    int rows, cols;
};

struct op {
    void (*back)(const struct op *op);
    const struct mat *a, *b, *c, *w; /* inputs and weights */
    struct mat *y;
    const int *ids;
    float *keep; /* what the way back needs besides */
    float eps;
    int n, from, length;
};

struct tape {
    struct op ops[2048];
    int n;
    char *memory;
    size_t used, size;
    int length; /* tokens of a text */
    bool train; /* else nothing is put down */
};

bool tape_init(struct tape *t, size_t bytes);
void tape_reset(struct tape *t, int length, bool train);
void tape_back(struct tape *t);

struct mat *op_embed(struct tape *t, const struct mat *w, const int *ids, int rows);
struct mat *op_mul(struct tape *t, const struct mat *x, const struct mat *w); /* x w^T */
struct mat *op_add(struct tape *t, const struct mat *a, const struct mat *b);
struct mat *op_silu(struct tape *t, const struct mat *x);
struct mat *op_silu_mul(struct tape *t, const struct mat *a, const struct mat *b);    /* silu(a) b */
struct mat *op_sigmoid_mul(struct tape *t, const struct mat *a, const struct mat *b); /* sigmoid(a) b */
/* Each `width` columns over their root mean square, times w; w may be NULL: times 1/sqrt(width), which is the L2 norm.
 */
struct mat *op_norm(struct tape *t, const struct mat *x, const struct mat *w, int width, float eps);
/* Of each `width` columns the n from `from` on. */
struct mat *op_take(struct tape *t, const struct mat *x, int width, int from, int n);
struct mat *op_join(struct tape *t, const struct mat *a, const struct mat *b); /* side by side */
struct mat *op_later(struct tape *t, const struct mat *x); /* each row one token later; first: zeros */
struct mat *op_conv(struct tape *t, const struct mat *x, const struct mat *w); /* causal, each column by itself */
/* The gated delta rule: q, k, v with heads of `width` columns; beta and decay (before sigmoid and softplus) a column
 * for each head; dt and a_log weights of each head. */
struct delta {
    const struct mat *q, *k, *v, *beta, *decay, *dt, *a_log;
    int width;
};
struct mat *op_delta(struct tape *t, const struct delta *d);
struct mat *op_rope(struct tape *t, const struct mat *x, int width, int n_rot, float base);
struct mat *op_attend(struct tape *t, const struct mat *q, const struct mat *k, const struct mat *v, int width);
/* The mean loss of predicting want[], times `weight`; rows with want < 0 do not count. */
float op_loss(struct tape *t, const struct mat *logits, const int *want, float weight);

#endif
