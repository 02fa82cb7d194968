#include "plan/ranges.h"

#include <stdlib.h>
#include <string.h>

bool vr_ranges_init(struct vr_ranges *r, const struct vr_problem *p, bool ends)
{
    size_t n = p->n_classes;
    *r = (struct vr_ranges){ .p = p, .ends = ends, .count = calloc((p->n_stations + 1) * n, sizeof *r->count) };
    if (!r->count) return false;
    for (uint32_t s = 0; s < p->n_stations; s++) {
        memcpy(&r->count[(s + 1) * n], &r->count[s * n], n * sizeof *r->count);
        r->count[(s + 1) * n + p->stations[s]]++;
    }
    return true;
}

void vr_ranges_done(struct vr_ranges *r)
{
    free(r->count);
    *r = (struct vr_ranges){ 0 };
}

static bool same(const struct vr_ranges *r, uint32_t a, uint32_t b, uint32_t len)
{
    const struct vr_problem *p = r->p;
    size_t n = p->n_classes;
    if (r->ends && (p->stations[a] != p->stations[b] || p->stations[a + len - 1] != p->stations[b + len - 1]))
        return false;
    for (size_t q = 0; q < n; q++)
        if (r->count[(a + len) * n + q] - r->count[a * n + q] != r->count[(b + len) * n + q] - r->count[b * n + q])
            return false;
    return true;
}

void vr_ranges_like(const struct vr_ranges *r, uint32_t len, const bool *alive, uint16_t *like)
{
    for (uint32_t begin = 0; begin < r->p->n_stations; begin++) {
        bool here = alive[begin] && begin + len <= r->p->n_stations;
        uint32_t first = 0;
        while (here && first < begin && (like[first] != first || !same(r, first, begin, len))) first++;
        like[begin] = here ? (uint16_t)first : VR_NO_RANGE;
    }
}
