#include "plan/split.h"

#include "hw/machine.h"

void vr_split_counts(const double *split, size_t n, uint32_t n_stations, uint32_t *counts)
{
    float ends[VR_MAX_DEVICES], sum = 0;
    for (size_t i = 0; i < n; i++) ends[i] = sum += (float)split[i];
    for (size_t i = 0; i < n; i++) {
        ends[i] /= sum;
        counts[i] = 0;
    }
    for (uint32_t s = 0; s < n_stations; s++) {
        float at = (float)s / (float)n_stations;
        size_t d = 0;
        while (d + 1 < n && !(at < ends[d])) d++;
        counts[d]++;
    }
}
