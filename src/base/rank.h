/* One of many numbers, by its place in their order. */
#ifndef VR_BASE_RANK_H
#define VR_BASE_RANK_H

#include <stddef.h>

/* Of n values, which it puts into order, the one that this share of them is below; 0.5: the middle one, 0: the least.
 * 0 when there are none. */
double vr_rank(double *values, size_t n, double share);

#endif
