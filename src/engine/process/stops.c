#include "engine/process/stops.h"

enum {
    APART = 32,        /* tokens between two checkpoints, at least */
    NEAR_END = 8,      /* tokens before the end of a prompt that is no chat */
    TAIL = 64,         /* tokens behind the last pause, at least */
    LEAST_STEP = 1024, /* of the even ones */
    STEPS = 16,        /* even ones in a full context */
};

uint32_t vr_stop_step(uint32_t n_ctx_seq)
{
    uint32_t step = (n_ctx_seq / STEPS + 255) / 256 * 256;
    return step > LEAST_STEP ? step : LEAST_STEP;
}

/* What is left behind the last pause is a pass of its own, and short ones are slow: on the CPU, flash attention over
 * fewer than 64 tokens takes ten times as long for each. */
static uint32_t leave_tail(uint32_t stop, uint32_t from, uint32_t n)
{
    if (stop + TAIL <= n) return stop;
    return n >= from + TAIL ? n - TAIL : VR_NO_STOP_AT;
}

uint32_t vr_next_stop(const struct vr_prompt *p, uint32_t last, uint32_t at, uint32_t n_todo)
{
    uint32_t from = last + APART > at + 1 ? last + APART : at + 1;
    uint32_t next = VR_NO_STOP_AT;
    for (uint32_t i = 0; i < p->n_boundaries; i++)
        if (p->boundaries[i] >= from && p->boundaries[i] < next) next = p->boundaries[i];
    if (p->n_boundaries == 0 && p->n > NEAR_END && p->n - NEAR_END >= from && p->n - NEAR_END < next)
        next = p->n - NEAR_END;
    return next < n_todo ? leave_tail(next, from, n_todo) : VR_NO_STOP_AT;
}
