/* Speculative decoding: the next tokens of a stream are guessed, and the model checks all of them in one step.
 *
 * A guess is accepted when it is the very token that the model's own sampling chooses at its place. So the text is what
 * it would have been without guesses, and so is its distribution; only the steps are fewer. Who guesses is one of
 * engine/speculate/kinds.def; how many tokens, engine/speculate/steer.h says. */
#ifndef VR_ENGINE_PROCESS_GUESS_H
#define VR_ENGINE_PROCESS_GUESS_H

#include "engine/process/loader.h"

#define VR_MOST_DRAFT 16

struct vr_batcher;
struct vr_choice;
struct vr_guess;

/* A stream that shall get guesses: so many, in its draft[]. */
struct vr_pick {
    struct vr_choice *c;
    uint32_t want;
};

/* NULL without an error when the engine guesses nothing. */
bool vr_guess_new(const struct vr_engine *e, struct vr_guess **out, struct vr_err *err) VR_MUST_CHECK;
void vr_guess_free(struct vr_guess *g);

/* Guesses for the streams that generate: each choice's draft[0 .. n_draft-1] follow its next token. */
void vr_guess_step(struct vr_batcher *b);
/* The batch was computed, and its slots have not moved on yet: what an MTP head needs of it is kept. True: it waited
 * for the result. */
bool vr_guess_feed(struct vr_batcher *b);
/* The step has computed so many rows; 0: a prompt's were among them. */
void vr_guess_computed(struct vr_batcher *b, uint32_t rows);
/* So many of a choice's guesses were right. */
void vr_guess_settle(struct vr_batcher *b, struct vr_choice *c, uint32_t guessed, uint32_t accepted);
/* {"kind","acceptance","gain"} */
void vr_guess_status_json(const struct vr_batcher *b, struct vr_buf *out);

#endif
