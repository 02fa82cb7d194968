/* The highest point of a concave function of variables that are not negative, known only by its value and one slope at
 * the points that are asked for: the proximal bundle method. Private to plan/.
 *
 * Every slope that was met is a plane above the function; together they are a model of it, and the next point is the
 * model's highest, with a pull towards the best point so far. A rise moves that point; without one, the new plane makes
 * the model better. The pull gets weaker while the model is right, and stronger where it promised too much. */
#ifndef VR_PLAN_BUNDLE_H
#define VR_PLAN_BUNDLE_H

#include <stdbool.h>
#include <stdint.h>

#define VR_BUNDLE_VARIABLES 32
#define VR_BUNDLE_PLANES    24

struct vr_plane {
    double slope[VR_BUNDLE_VARIABLES];
    double above; /* the function, at the best point */
    double share; /* in the direction that was taken last */
};

struct vr_bundle {
    uint32_t n, n_planes;
    double best[VR_BUNDLE_VARIABLES], top;
    double reach; /* how far to go along a slope: the inverse of the pull */
    double promised;
    double sum[VR_BUNDLE_VARIABLES]; /* of the slopes by their shares, and what holds variables at 0 */
    struct vr_plane planes[VR_BUNDLE_PLANES];
};

/* From a point, its value and slope; `rise` is about how much there could be to gain. */
void vr_bundle_start(struct vr_bundle *b, uint32_t n, const double *x, double value, const double *slope, double rise);
/* The point to look at next. False: no rise above `least` is to be expected. */
bool vr_bundle_next(struct vr_bundle *b, double least, double *x);
/* What is there. */
void vr_bundle_take(struct vr_bundle *b, const double *x, double value, const double *slope);

#endif
