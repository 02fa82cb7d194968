/* The one clock: time since some moment in the past, which no change of the date moves. */
#ifndef VR_BASE_CLOCK_H
#define VR_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t vr_now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}
static inline uint64_t vr_now_ms(void) { return vr_now_us() / 1000; }

/* With a fraction, for measuring. */
static inline double vr_now_fine_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}
static inline double vr_now_fine_ms(void) { return vr_now_fine_us() / 1e3; }

#endif
