/* How many tokens to guess ahead: the number that brings the most tokens per time, which may be none.
 *
 * A step computes rows: the next token of each stream, and its guesses. What a step of so many rows takes is measured
 * as it happens, and so is how often a stream's guesses are right. Guesses are checked in order, so with acceptance p
 * the i-th one brings p^i tokens. Pure arithmetic: no clock, no engine. */
#ifndef VR_ENGINE_SPECULATE_STEER_H
#define VR_ENGINE_SPECULATE_STEER_H

#include <stdbool.h>
#include <stdint.h>

#define VR_STEER_STREAMS 4  /* beyond so many streams nothing is guessed: the batch is full enough */
#define VR_STEER_ROWS    80 /* more rows than a step with guesses has */

/* --- acceptance --- */

/* Sums that fade, so that they follow the text. */
struct vr_acceptance {
    double right, checked;
};
/* A step in which `guessed` tokens were offered and the first `accepted` of them were right. Those behind the first
 * wrong one were not checked. */
void vr_acceptance_add(struct vr_acceptance *a, uint32_t guessed, uint32_t accepted);
/* The estimate; `before` is what to expect of a stream of which little is known. */
double vr_acceptance_of(const struct vr_acceptance *a, double before);

/* --- times --- */

/* What something takes when nothing else is in its way: falls quickly and rises slowly, because whatever disturbs a
 * machine makes things slower and never faster. The first ones count as the fastest of them: buffers and kernels are
 * made then. */
struct vr_time {
    double ms;
    uint32_t seen;
};
void vr_time_add(struct vr_time *t, double ms);
bool vr_time_known(const struct vr_time *t); /* it was seen a few times */

struct vr_step_times {
    struct vr_time of[VR_STEER_ROWS]; /* by rows */
    uint64_t when[VR_STEER_ROWS], n;
    uint32_t last; /* rows of the last step */
};
/* A step that follows one of other rows takes longer, because the engine makes a new graph: that is of no weight once
 * something is known. */
void vr_step_times_add(struct vr_step_times *t, uint32_t rows, double ms);
/* Whether steps of exactly so many rows were measured lately, and a few of them. */
bool vr_step_times_known(const struct vr_step_times *t, uint32_t rows);
/* The most rows that are known; 0: none. */
uint32_t vr_step_times_most(const struct vr_step_times *t);
/* Measured, or between two measured neighbours. Beyond the last one the line through the last two goes on; of a single
 * one all others are thought to take as long, so that they are tried. 0: nothing is known. */
double vr_step_times_ms(const struct vr_step_times *t, uint32_t rows);

/* --- the number --- */

struct vr_steer {
    uint32_t n; /* streams, at most VR_STEER_STREAMS */
    double acceptance[VR_STEER_STREAMS];
    uint32_t most[VR_STEER_STREAMS]; /* guesses that a stream can use */
    bool even;                       /* all have as many rows: else the engine needs several passes */
    double pass_ms;                  /* one more guess for everybody: a pass of what guesses */
    double step_ms;                  /* beside that, of a step with guesses */
};
/* Guesses for each stream, in out[]. Returns the tokens per ms expected with them, over those without; 1: none pay. */
double vr_steer_choose(const struct vr_steer *s, const struct vr_step_times *t, uint32_t out[VR_STEER_STREAMS]);

/* --- when it does not pay --- */

/* A stream without guesses tries one now and then, ever more rarely: one more row in so many tokens. */
struct vr_rest {
    uint32_t left; /* tokens until the next try */
    uint32_t last; /* how long the last rest was */
    uint32_t n;    /* guesses that were chosen last */
    double tried;  /* the acceptance before the last try: it was right if it is more now */
    bool begun;    /* it was looked at */
};
void vr_rest_begin(struct vr_rest *r);
void vr_rest_reset(struct vr_rest *r);
bool vr_rest_over(struct vr_rest *r); /* counts one token */

/* --- a step --- */

/* What is known of the steps, however many streams there are. */
struct vr_steering {
    struct vr_step_times times[VR_STEER_STREAMS]; /* by the number of streams, from one on; all that a step takes */
    double gain;                                  /* that the last choice expected; 1: none */
    struct vr_rest rest;                          /* of the stream that was looked at last */
    uint32_t looks, looks_further;                /* steps without guesses, and with one more, that are still to come */
};
struct vr_steered {
    uint32_t want; /* guesses that the stream can use, then those that it gets */
    double acceptance;
    struct vr_rest *rest;
};
/* How many guesses each stream gets in this step. Where none pay, a few are tried at times: a single one, to know how
 * often it is right, and many until it is known what that takes, because the first one may be the dear one (a pass of
 * another model, other kernels). Once in a hundred steps the choice is none although some would pay, or one more than
 * is best, to see what that takes now. */
void vr_steer_step(struct vr_steering *g, struct vr_steered *streams, uint32_t n, bool even);

#endif
