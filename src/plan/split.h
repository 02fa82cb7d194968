/* How llama.cpp turns a tensor split into layers per device. */
#ifndef VR_PLAN_SPLIT_H
#define VR_PLAN_SPLIT_H

#include <stddef.h>
#include <stdint.h>

/* Stations (layers, and the output as the last) of each of n devices, from shares or counts. The engine's arithmetic,
 * in floats as it has them: counts that add up to n_stations come out as they are, shares may be off by one at a
 * border.
 */
void vr_split_counts(const double *split, size_t n, uint32_t n_stations, uint32_t *counts);

#endif
