/* Memory of a step comes from one block and is given back as a whole. */
#include "tape_inner.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gemm.h"

enum { KERNEL = 4 };

bool tape_init(struct tape *t, size_t bytes)
{
    *t = (struct tape){ .size = bytes, .memory = malloc(bytes) };
    return t->memory != NULL;
}

void tape_reset(struct tape *t, int length, bool train)
{
    t->n = 0;
    t->used = 0;
    t->length = length;
    t->train = train;
}

void tape_back(struct tape *t)
{
    for (int i = t->n - 1; i >= 0; i--) t->ops[i].back(&t->ops[i]);
}

void *tape_memory(struct tape *t, size_t bytes)
{
    size_t at = t->used;
    t->used += (bytes + 63) & ~(size_t)63;
    if (t->used > t->size) {
        fprintf(stderr, "the tape's memory is full\n");
        exit(1);
    }
    return memset(t->memory + at, 0, bytes);
}

float *tape_floats(struct tape *t, size_t n) { return tape_memory(t, n * sizeof(float)); }

struct mat *tape_mat(struct tape *t, int rows, int cols)
{
    struct mat *m = tape_memory(t, sizeof *m);
    size_t n = (size_t)rows * (size_t)cols;
    *m = (struct mat){ tape_floats(t, n), t->train ? tape_floats(t, n) : NULL, rows, cols };
    return m;
}

struct mat *tape_put(struct tape *t, struct op op)
{
    if (!t->train) return op.y;
    if (t->n == (int)(sizeof t->ops / sizeof t->ops[0])) {
        fprintf(stderr, "the tape is full\n");
        exit(1);
    }
    op.length = t->length;
    t->ops[t->n++] = op;
    return op.y;
}

static size_t count(const struct mat *m) { return (size_t)m->rows * (size_t)m->cols; }

/* --- rows of a table, products --- */

static void embed_back(const struct op *o)
{
    for (int r = 0; r < o->y->rows; r++)
        for (int i = 0; i < o->y->cols; i++) o->w->g[o->ids[r] * o->y->cols + i] += o->y->g[r * o->y->cols + i];
}

struct mat *op_embed(struct tape *t, const struct mat *w, const int *ids, int rows)
{
    struct mat *y = tape_mat(t, rows, w->cols);
    for (int r = 0; r < rows; r++) memcpy(y->x + r * y->cols, w->x + ids[r] * y->cols, (size_t)y->cols * sizeof(float));
    return tape_put(t, (struct op){ embed_back, .w = w, .y = y, .ids = ids });
}

static void mul_back(const struct op *o)
{
    int in = o->a->cols, out = o->w->rows, rows = o->a->rows;
    gemm(rows, in, out, o->y->g, out, 1, o->w->x, o->a->g);
    gemm(out, in, rows, o->y->g, 1, out, o->a->x, o->w->g);
}

struct mat *op_mul(struct tape *t, const struct mat *x, const struct mat *w)
{
    int in = x->cols, out = w->rows;
    struct mat *y = tape_mat(t, x->rows, out);
    float *turned = tape_floats(t, count(w)); /* in x out */
    for (int o = 0; o < out; o++)
        for (int i = 0; i < in; i++) turned[i * out + o] = w->x[o * in + i];
    gemm(x->rows, out, in, x->x, in, 1, turned, y->x);
    return tape_put(t, (struct op){ mul_back, .a = x, .w = w, .y = y });
}

/* --- element by element --- */

static void add_back(const struct op *o)
{
    for (size_t i = 0; i < count(o->y); i++) {
        o->a->g[i] += o->y->g[i];
        o->b->g[i] += o->y->g[i];
    }
}

struct mat *op_add(struct tape *t, const struct mat *a, const struct mat *b)
{
    struct mat *y = tape_mat(t, a->rows, a->cols);
    for (size_t i = 0; i < count(y); i++) y->x[i] = a->x[i] + b->x[i];
    return tape_put(t, (struct op){ add_back, .a = a, .b = b, .y = y });
}

static float sigmoid(float x) { return 1 / (1 + expf(-x)); }

static void silu_back(const struct op *o)
{
    for (size_t i = 0; i < count(o->y); i++) {
        float s = sigmoid(o->a->x[i]);
        o->a->g[i] += o->y->g[i] * s * (1 + o->a->x[i] * (1 - s));
    }
}

struct mat *op_silu(struct tape *t, const struct mat *x)
{
    struct mat *y = tape_mat(t, x->rows, x->cols);
    for (size_t i = 0; i < count(y); i++) y->x[i] = x->x[i] * sigmoid(x->x[i]);
    return tape_put(t, (struct op){ silu_back, .a = x, .y = y });
}

static void silu_mul_back(const struct op *o)
{
    for (size_t i = 0; i < count(o->y); i++) {
        float a = o->a->x[i], s = sigmoid(a), g = o->y->g[i];
        o->b->g[i] += g * a * s;
        o->a->g[i] += g * o->b->x[i] * s * (1 + a * (1 - s));
    }
}

struct mat *op_silu_mul(struct tape *t, const struct mat *a, const struct mat *b)
{
    struct mat *y = tape_mat(t, a->rows, a->cols);
    for (size_t i = 0; i < count(y); i++) y->x[i] = a->x[i] * sigmoid(a->x[i]) * b->x[i];
    return tape_put(t, (struct op){ silu_mul_back, .a = a, .b = b, .y = y });
}

static void sigmoid_mul_back(const struct op *o)
{
    for (size_t i = 0; i < count(o->y); i++) {
        float s = sigmoid(o->a->x[i]), g = o->y->g[i];
        o->b->g[i] += g * s;
        o->a->g[i] += g * o->b->x[i] * s * (1 - s);
    }
}

struct mat *op_sigmoid_mul(struct tape *t, const struct mat *a, const struct mat *b)
{
    struct mat *y = tape_mat(t, a->rows, a->cols);
    for (size_t i = 0; i < count(y); i++) y->x[i] = sigmoid(a->x[i]) * b->x[i];
    return tape_put(t, (struct op){ sigmoid_mul_back, .a = a, .b = b, .y = y });
}

/* --- norms --- */

static void norm_back(const struct op *o)
{
    int n = o->n;
    float plain = 1 / sqrtf((float)n);
    for (size_t at = 0, k = 0; at < count(o->y); at += (size_t)n, k++) {
        const float *x = o->a->x + at, *gy = o->y->g + at;
        float r = o->keep[k], dot = 0;
        for (int i = 0; i < n; i++) dot += gy[i] * (o->w ? o->w->x[i] : plain) * x[i];
        for (int i = 0; i < n; i++) {
            o->a->g[at + (size_t)i] += r * (gy[i] * (o->w ? o->w->x[i] : plain) - x[i] * dot * r * r / (float)n);
            if (o->w) o->w->g[i] += gy[i] * x[i] * r;
        }
    }
}

struct mat *op_norm(struct tape *t, const struct mat *x, const struct mat *w, int width, float eps)
{
    struct mat *y = tape_mat(t, x->rows, x->cols);
    float *keep = tape_floats(t, count(x) / (size_t)width), plain = 1 / sqrtf((float)width);
    for (size_t at = 0, k = 0; at < count(x); at += (size_t)width, k++) {
        float sum = 0;
        for (int i = 0; i < width; i++) sum += x->x[at + (size_t)i] * x->x[at + (size_t)i];
        keep[k] = 1 / sqrtf(sum / (float)width + (w ? eps : eps / (float)width));
        for (int i = 0; i < width; i++) y->x[at + (size_t)i] = x->x[at + (size_t)i] * keep[k] * (w ? w->x[i] : plain);
    }
    return tape_put(t, (struct op){ norm_back, .a = x, .w = w, .y = y, .keep = keep, .n = width });
}

/* --- columns and rows --- */

static void take_back(const struct op *o)
{
    int n = o->y->cols / (o->a->cols / o->n), groups = o->a->cols / o->n;
    for (int r = 0; r < o->y->rows; r++)
        for (int k = 0; k < groups; k++)
            for (int i = 0; i < n; i++)
                o->a->g[r * o->a->cols + k * o->n + o->from + i] += o->y->g[r * o->y->cols + k * n + i];
}

struct mat *op_take(struct tape *t, const struct mat *x, int width, int from, int n)
{
    int groups = x->cols / width;
    struct mat *y = tape_mat(t, x->rows, groups * n);
    for (int r = 0; r < y->rows; r++)
        for (int k = 0; k < groups; k++)
            memcpy(y->x + r * y->cols + k * n, x->x + r * x->cols + k * width + from, (size_t)n * sizeof(float));
    return tape_put(t, (struct op){ take_back, .a = x, .y = y, .n = width, .from = from });
}

static void join_back(const struct op *o)
{
    int a = o->a->cols, b = o->b->cols;
    for (int r = 0; r < o->y->rows; r++) {
        for (int i = 0; i < a; i++) o->a->g[r * a + i] += o->y->g[r * (a + b) + i];
        for (int i = 0; i < b; i++) o->b->g[r * b + i] += o->y->g[r * (a + b) + a + i];
    }
}

struct mat *op_join(struct tape *t, const struct mat *a, const struct mat *b)
{
    struct mat *y = tape_mat(t, a->rows, a->cols + b->cols);
    for (int r = 0; r < y->rows; r++) {
        memcpy(y->x + r * y->cols, a->x + r * a->cols, (size_t)a->cols * sizeof(float));
        memcpy(y->x + r * y->cols + a->cols, b->x + r * b->cols, (size_t)b->cols * sizeof(float));
    }
    return tape_put(t, (struct op){ join_back, .a = a, .b = b, .y = y });
}

static void later_back(const struct op *o)
{
    for (int r = 0; r < o->y->rows; r++)
        for (int i = 0; r % o->length && i < o->y->cols; i++)
            o->a->g[(r - 1) * o->y->cols + i] += o->y->g[r * o->y->cols + i];
}

struct mat *op_later(struct tape *t, const struct mat *x)
{
    struct mat *y = tape_mat(t, x->rows, x->cols);
    for (int r = 0; r < y->rows; r++)
        if (r % t->length) memcpy(y->x + r * y->cols, x->x + (r - 1) * y->cols, (size_t)y->cols * sizeof(float));
    return tape_put(t, (struct op){ later_back, .a = x, .y = y });
}

static void conv_back(const struct op *o)
{
    for (int r = 0; r < o->y->rows; r++)
        for (int j = 0; j < KERNEL; j++) {
            int from = r - (KERNEL - 1) + j;
            if (from < r - r % o->length) continue;
            for (int c = 0; c < o->y->cols; c++) {
                float g = o->y->g[r * o->y->cols + c];
                o->a->g[from * o->y->cols + c] += g * o->w->x[c * KERNEL + j];
                o->w->g[c * KERNEL + j] += g * o->a->x[from * o->y->cols + c];
            }
        }
}

struct mat *op_conv(struct tape *t, const struct mat *x, const struct mat *w)
{
    struct mat *y = tape_mat(t, x->rows, x->cols);
    for (int r = 0; r < y->rows; r++)
        for (int j = 0; j < KERNEL; j++) {
            int from = r - (KERNEL - 1) + j;
            if (from < r - r % t->length) continue;
            for (int c = 0; c < y->cols; c++) y->x[r * y->cols + c] += x->x[from * y->cols + c] * w->x[c * KERNEL + j];
        }
    return tape_put(t, (struct op){ conv_back, .a = x, .w = w, .y = y });
}

/* --- the loss --- */

static void loss_back(const struct op *o)
{
    for (size_t i = 0; i < count(o->a); i++) o->a->g[i] += o->keep[i];
}

float op_loss(struct tape *t, const struct mat *logits, const int *want, float weight)
{
    int n = logits->cols, counted = 0;
    float *keep = tape_floats(t, count(logits)), loss = 0;
    for (int r = 0; r < logits->rows; r++) counted += want[r] >= 0;
    for (int r = 0; r < logits->rows; r++) {
        const float *x = logits->x + r * n;
        float top = x[0], sum = 0;
        if (want[r] < 0) continue;
        for (int i = 1; i < n; i++) top = fmaxf(top, x[i]);
        for (int i = 0; i < n; i++) sum += keep[r * n + i] = expf(x[i] - top);
        for (int i = 0; i < n; i++) keep[r * n + i] *= weight / (sum * (float)counted);
        keep[r * n + want[r]] -= weight / (float)counted;
        loss += logf(sum) + top - x[want[r]];
    }
    tape_put(t, (struct op){ loss_back, .a = logits, .keep = keep });
    return loss / (float)counted * weight;
}
