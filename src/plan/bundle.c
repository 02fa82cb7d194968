#include "plan/bundle.h"

#include <math.h>
#include <string.h>

#define MAX_STEPS 100
#define EXACT     0.1 /* of what is promised: shares this near the best ones will do */
#define RIGHT     0.5 /* of what was promised: a rise for which to go farther the next time */
#define FARTHER   2.0
#define NEARER    0.5
#define MAX_GROW  3 /* how often to look farther when the model promises nothing */

static double dot(const struct vr_bundle *b, const double *x, const double *y)
{
    double sum = 0;
    for (uint32_t i = 0; i < b->n; i++) sum += x[i] * y[i];
    return sum;
}

/* sum: what variables at their bound pull back with, for the slopes by shares in it. */
static void hold(const struct vr_bundle *b, const double *slopes, double *sum)
{
    for (uint32_t i = 0; i < b->n; i++) sum[i] = fmax(slopes[i], -b->best[i] / b->reach);
}

/* What the model promises at the next point; and at most, whatever the shares. */
static double promise(const struct vr_bundle *b, const double *slopes, double *most)
{
    double least = INFINITY;
    *most = b->reach * dot(b, b->sum, b->sum);
    for (uint32_t i = 0; i < b->n; i++) *most += (b->sum[i] - slopes[i]) * b->best[i];
    for (uint32_t k = 0; k < b->n_planes; k++) {
        least = fmin(least, b->planes[k].above + b->reach * dot(b, b->planes[k].slope, b->sum));
        *most += b->planes[k].share * b->planes[k].above;
    }
    return least;
}

/* The shares of the planes for which reach / 2 x |sum|^2 + their heights is least: share goes from the plane that adds
 * most to it to the one that adds least. Returns what the model promises at most. */
static double share_out(struct vr_bundle *b)
{
    double slopes[VR_BUNDLE_VARIABLES] = { 0 }, at_most = 0;
    for (uint32_t k = 0; k < b->n_planes; k++)
        for (uint32_t i = 0; i < b->n; i++) slopes[i] += b->planes[k].share * b->planes[k].slope[i];
    for (unsigned step = 0;; step++) {
        uint32_t from = b->n_planes, to = 0;
        double most = -INFINITY, least = INFINITY, square = 0;
        hold(b, slopes, b->sum);
        for (uint32_t k = 0; k < b->n_planes; k++) {
            double adds = b->reach * dot(b, b->planes[k].slope, b->sum) + b->planes[k].above;
            if (adds < least) least = adds, to = k;
            if (adds > most && b->planes[k].share > 0) most = adds, from = k;
        }
        if (step % 8 == 0 || step == MAX_STEPS) {
            b->promised = promise(b, slopes, &at_most);
            if (step == MAX_STEPS || at_most - b->promised <= EXACT * at_most) return at_most;
        }
        if (from == b->n_planes || most <= least) return at_most;
        for (uint32_t i = 0; i < b->n; i++) {
            double apart = b->planes[from].slope[i] - b->planes[to].slope[i];
            square += apart * apart;
        }
        double move = b->planes[from].share;
        if (square > 0) move = fmin(move, (most - least) / (b->reach * square));
        b->planes[from].share -= move;
        b->planes[to].share += move;
        for (uint32_t i = 0; i < b->n; i++) slopes[i] += move * (b->planes[to].slope[i] - b->planes[from].slope[i]);
    }
}

void vr_bundle_start(struct vr_bundle *b, uint32_t n, const double *x, double value, const double *slope, double rise)
{
    memset(b, 0, sizeof *b);
    b->n = n;
    b->top = value;
    b->n_planes = 1;
    b->planes[0].share = 1;
    memcpy(b->best, x, n * sizeof *x);
    memcpy(b->planes[0].slope, slope, n * sizeof *x);
    double square = dot(b, slope, slope);
    b->reach = square > 0 ? rise / square : 1;
}

bool vr_bundle_next(struct vr_bundle *b, double least, double *x)
{
    for (unsigned i = 0; share_out(b) <= least; i++) {
        if (i == MAX_GROW) return false;
        b->reach *= 8;
    }
    for (uint32_t i = 0; i < b->n; i++) x[i] = fmax(b->best[i] + b->reach * b->sum[i], 0);
    return true;
}

/* Room for one more plane: the one with no share that is highest above goes, else the one with the least. */
static struct vr_plane *new_plane(struct vr_bundle *b)
{
    if (b->n_planes < VR_BUNDLE_PLANES) return &b->planes[b->n_planes++];
    uint32_t out = 0;
    for (uint32_t k = 1; k < b->n_planes; k++) {
        const struct vr_plane *x = &b->planes[k], *y = &b->planes[out];
        if (x->share < y->share || (x->share == y->share && x->above > y->above)) out = k;
    }
    double share = b->planes[out].share; /* others take it over */
    for (uint32_t k = 0; k < b->n_planes && share < 1; k++) b->planes[k].share /= 1 - share;
    return &b->planes[out];
}

void vr_bundle_take(struct vr_bundle *b, const double *x, double value, const double *slope)
{
    double gain = value - b->top, apart[VR_BUNDLE_VARIABLES];
    struct vr_plane *p = new_plane(b);
    memcpy(p->slope, slope, b->n * sizeof *slope);
    p->share = 0;
    for (uint32_t i = 0; i < b->n; i++) apart[i] = b->best[i] - x[i];
    p->above = fmax(gain + dot(b, slope, apart), 0);
    if (gain > RIGHT * b->promised) b->reach *= FARTHER;
    if (gain <= 0 && p->above > b->promised) b->reach *= NEARER;
    if (gain <= 0) return;
    for (uint32_t k = 0; k < b->n_planes; k++)
        b->planes[k].above = fmax(b->planes[k].above - dot(b, b->planes[k].slope, apart) - gain, 0);
    memcpy(b->best, x, b->n * sizeof *x);
    b->top = value;
}
