/* The two ways in which tokens see earlier ones: attention, and a state that each token corrects (the gated delta rule,
 * as ggml_gated_delta_net computes it). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tape_inner.h"

/* --- rope: pairs of the first n_rot columns of a head, half of n_rot apart --- */

static void turn(const struct op *o, const float *from, float *to, float sign)
{
    int cols = o->y->cols, width = o->n, half = o->from / 2;
    for (int r = 0; r < o->y->rows; r++)
        for (int h = 0; h < cols; h += width)
            for (int i = 0; i < width; i++) {
                const float *x = from + r * cols + h;
                float *y = to + r * cols + h;
                if (i >= 2 * half) {
                    y[i] += x[i];
                } else if (i < half) {
                    float angle = (float)(r % o->length) * powf(o->eps, -(float)i / (float)half);
                    float c = cosf(angle), s = sign * sinf(angle);
                    y[i] += x[i] * c - x[i + half] * s;
                    y[i + half] += x[i] * s + x[i + half] * c;
                }
            }
}

static void rope_back(const struct op *o) { turn(o, o->y->g, o->a->g, -1); }

struct mat *op_rope(struct tape *t, const struct mat *x, int width, int n_rot, float base)
{
    struct op o = { rope_back, .a = x, .y = tape_mat(t, x->rows, x->cols), .eps = base, .n = width, .from = n_rot };
    o.length = t->length;
    turn(&o, x->x, o.y->x, 1);
    return tape_put(t, o);
}

/* --- attention: heads of q share those of k and v --- */

static float dot(const float *a, const float *b, int n)
{
    float sum = 0;
    for (int i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

static void add_scaled(float *to, const float *from, float f, int n)
{
    for (int i = 0; i < n; i++) to[i] += f * from[i];
}

/* keep: for every row and head `length` probabilities */
static void attend_back(const struct op *o)
{
    int width = o->n, q_cols = o->a->cols, kv_cols = o->b->cols, heads = q_cols / width, length = o->length;
    int share = heads / (kv_cols / width);
    float scale = 1 / sqrtf((float)width), *gp = malloc((size_t)length * sizeof *gp);
    for (int r = 0; gp && r < o->y->rows; r++)
        for (int h = 0; h < heads; h++) {
            int first = r - r % length, n = r % length + 1, at = h / share * width;
            const float *p = o->keep + ((size_t)r * (size_t)heads + (size_t)h) * (size_t)length;
            const float *gy = o->y->g + r * q_cols + h * width;
            float mean = 0;
            for (int i = 0; i < n; i++) {
                gp[i] = dot(gy, o->c->x + (first + i) * kv_cols + at, width);
                mean += gp[i] * p[i];
                add_scaled(o->c->g + (first + i) * kv_cols + at, gy, p[i], width);
            }
            for (int i = 0; i < n; i++) {
                float g = p[i] * (gp[i] - mean) * scale;
                add_scaled(o->a->g + r * q_cols + h * width, o->b->x + (first + i) * kv_cols + at, g, width);
                add_scaled(o->b->g + (first + i) * kv_cols + at, o->a->x + r * q_cols + h * width, g, width);
            }
        }
    free(gp);
}

struct mat *op_attend(struct tape *t, const struct mat *q, const struct mat *k, const struct mat *v, int width)
{
    int heads = q->cols / width, length = t->length, share = q->cols / k->cols;
    struct mat *y = tape_mat(t, q->rows, q->cols);
    float *keep = tape_floats(t, (size_t)q->rows * (size_t)heads * (size_t)length), scale = 1 / sqrtf((float)width);
    for (int r = 0; r < q->rows; r++)
        for (int h = 0; h < heads; h++) {
            int first = r - r % length, n = r % length + 1, at = h / share * width;
            float *p = keep + ((size_t)r * (size_t)heads + (size_t)h) * (size_t)length, top = -INFINITY, sum = 0;
            for (int i = 0; i < n; i++) {
                p[i] = scale * dot(q->x + r * q->cols + h * width, k->x + (first + i) * k->cols + at, width);
                top = fmaxf(top, p[i]);
            }
            for (int i = 0; i < n; i++) sum += p[i] = expf(p[i] - top);
            for (int i = 0; i < n; i++) {
                p[i] /= sum;
                add_scaled(y->x + r * q->cols + h * width, v->x + (first + i) * k->cols + at, p[i], width);
            }
        }
    return tape_put(t, (struct op){ attend_back, .a = q, .b = k, .c = v, .y = y, .keep = keep, .n = width });
}

/* --- the gated delta rule ---
 *
 * Of each head a state S [width x width], row j for value j. For each token: S *= decay; error = v - S k;
 * S += beta error k^T; y = S q / sqrt(width). decay = exp(-exp(a_log) softplus(x + dt)), beta = sigmoid(x). */

struct rule {
    struct delta d;
    float *states, *errors; /* after every row; of every row */
};

static float softplus(float x) { return x > 20 ? x : log1pf(expf(x)); }

static float decay_of(const struct delta *d, int r, int h)
{
    return expf(-expf(d->a_log->x[h]) * softplus(d->decay->x[r * d->decay->cols + h] + d->dt->x[h]));
}

static float beta_of(const struct delta *d, int r, int h) { return 1 / (1 + expf(-d->beta->x[r * d->beta->cols + h])); }

static float *state_at(const struct rule *u, int r, int h)
{
    int w = u->d.width, heads = u->d.q->cols / w;
    return u->states + ((size_t)r * (size_t)heads + (size_t)h) * (size_t)(w * w);
}

struct mat *op_delta(struct tape *t, const struct delta *d)
{
    int w = d->width, cols = d->q->cols, heads = cols / w, rows = d->q->rows;
    struct rule *u = tape_memory(t, sizeof *u);
    struct mat *y = tape_mat(t, rows, cols);
    *u = (struct rule){ *d, tape_floats(t, (size_t)rows * (size_t)(heads * w * w)), NULL };
    u->errors = tape_floats(t, (size_t)rows * (size_t)cols);
    for (int r = 0; r < rows; r++)
        for (int h = 0; h < heads; h++) {
            const float *q = d->q->x + r * cols + h * w, *k = d->k->x + r * cols + h * w;
            const float *old = r % t->length ? state_at(u, r - 1, h) : NULL;
            float *s = state_at(u, r, h), decay = decay_of(d, r, h), beta = beta_of(d, r, h);
            for (int j = 0; j < w; j++) {
                float *row = s + j * w, *error = u->errors + r * cols + h * w + j;
                for (int i = 0; i < w; i++) row[i] = old ? decay * old[j * w + i] : 0;
                *error = d->v->x[r * cols + h * w + j] - dot(row, k, w);
                add_scaled(row, k, beta * *error, w);
                y->x[r * cols + h * w + j] = dot(row, q, w) / sqrtf((float)w);
            }
        }
    return tape_put(t, (struct op){ tape_delta_back, .y = y, .keep = (float *)u });
}

/* One token of one head; gs is the gradient of the state after it, and becomes that of the state before. */
static void delta_back_one(const struct op *o, const struct rule *u, int r, int h, float *gs)
{
    const struct delta *d = &u->d;
    int w = d->width, cols = d->q->cols, at = r * cols + h * w;
    const float *q = d->q->x + at, *k = d->k->x + at, *s = state_at(u, r, h);
    const float *old = r % o->length ? state_at(u, r - 1, h) : NULL;
    float decay = decay_of(d, r, h), beta = beta_of(d, r, h), scale = 1 / sqrtf((float)w), g_beta = 0, g_decay = 0;
    for (int j = 0; j < w; j++) {
        float *row = gs + j * w, gy = o->y->g[at + j] * scale, error = u->errors[at + j];
        add_scaled(row, q, gy, w);
        add_scaled(d->q->g + at, s + j * w, gy, w);
        float g_change = dot(row, k, w), g_error = beta * g_change;
        add_scaled(d->k->g + at, row, beta * error, w);
        g_beta += g_change * error;
        d->v->g[at + j] += g_error;
        add_scaled(row, k, -g_error, w);
        if (!old) continue;
        add_scaled(d->k->g + at, old + j * w, -g_error * decay, w);
        g_decay += dot(row, old + j * w, w);
        for (int i = 0; i < w; i++) row[i] *= decay;
    }
    int x = r * d->beta->cols + h;
    float rate = expf(d->a_log->x[h]), in = d->decay->x[x] + d->dt->x[h], g_log = g_decay * decay * -rate;
    d->beta->g[x] += g_beta * beta * (1 - beta);
    d->a_log->g[h] += g_log * softplus(in);
    d->decay->g[x] += g_log / (1 + expf(-in));
    d->dt->g[h] += g_log / (1 + expf(-in));
}

void tape_delta_back(const struct op *o)
{
    const struct rule *u = (const struct rule *)o->keep;
    int w = u->d.width, heads = u->d.q->cols / w;
    float *gs = malloc((size_t)(w * w) * sizeof *gs);
    for (int first = 0; gs && first < o->y->rows; first += o->length)
        for (int h = 0; h < heads; h++) {
            memset(gs, 0, (size_t)(w * w) * sizeof *gs);
            for (int r = first + o->length - 1; r >= first; r--) delta_back_one(o, u, r, h, gs);
        }
    free(gs);
}
