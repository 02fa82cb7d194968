/* Ranges of stations that are made of the same classes. What a block of them costs on a device does not depend on their
 * order, so it is found once: a model has few kinds of layers, and so few ranges of a length that differ. */
#ifndef VR_PLAN_RANGES_H
#define VR_PLAN_RANGES_H

#include "plan/problem.h"

#define VR_NO_RANGE UINT16_MAX

struct vr_ranges {
    const struct vr_problem *p;
    bool ends;       /* the first and the last station must be of the same class, too */
    uint16_t *count; /* [station][class]: how many there are before it */
};
bool vr_ranges_init(struct vr_ranges *r, const struct vr_problem *p, bool ends) VR_MUST_CHECK;
void vr_ranges_done(struct vr_ranges *r);

/* like[begin]: where the first range of `len` stations begins that is made of what this one is; VR_NO_RANGE for one
 * that is not `alive`, or that ends behind the last station. */
void vr_ranges_like(const struct vr_ranges *r, uint32_t len, const bool *alive, uint16_t *like);

/* Memory in n grains of equal size: how many there are in a byte, and which one has it: 0 to n, the last one
 * also all that is beyond. */
static inline double vr_grains(uint64_t bytes, uint32_t n) { return bytes ? n / (double)bytes : 0; }
static inline uint32_t vr_grain(uint64_t byte, double grains, uint32_t n)
{
    double g = (double)byte * grains;
    return g < n ? (uint32_t)g : n;
}

#endif
