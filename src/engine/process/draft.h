/* Speculation: a small model guesses the next tokens of a stream, and the model looks at all of them in one step.
 *
 * The model's own choice decides for every token: a guess is kept when it is the very token that was chosen from the
 * model's logits, by the same sampling, at its place. So the text is what it would have been without guesses, and so is
 * its distribution; only the steps are fewer. */
#ifndef VR_ENGINE_PROCESS_DRAFT_H
#define VR_ENGINE_PROCESS_DRAFT_H

#include "engine/process/loader.h"
#include "engine/vgpu/vgpu_spec.h"

#define VR_MOST_GUESSES 16

struct vr_batcher;
struct vr_draft;

/* NULL without an error when the engine has no draft. */
bool vr_draft_new(const struct vr_engine *e, struct vr_draft **out, struct vr_err *err) VR_MUST_CHECK;
void vr_draft_free(struct vr_draft *d);

/* Guesses for the streams that are writing: each choice's guess[0 .. n_guess-1] follow its next token. */
void vr_draft_guess(struct vr_batcher *b);

#endif
