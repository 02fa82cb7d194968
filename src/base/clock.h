/* The one clock: time since some moment in the past, which no change of the date moves; and what a thread has used. */
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

/* A time that is measured again and again (0: not yet). One that is long on a busy machine is not a slow machine. */
static inline double vr_smooth(double old, double now)
{
    return old > 0 ? old * 0.8 + (now < 3 * old ? now : 3 * old) * 0.2 : now;
}

/* Processor time of this thread: what something costs, however busy the machine is. */
static inline double vr_thread_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* That clock in so many milliseconds, for pthread_cond_clockwait(3) with CLOCK_MONOTONIC. */
static inline struct timespec vr_clock_in(uint32_t ms)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += ms / 1000;
    t.tv_nsec += (long)(ms % 1000) * 1000000;
    if (t.tv_nsec >= 1000000000) t.tv_sec++, t.tv_nsec -= 1000000000;
    return t;
}

#endif
