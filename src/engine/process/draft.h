/* Speculative decoding: a small draft model proposes the next tokens of a stream, and the model (the target) verifies
 * all of them in one step.
 *
 * A drafted token is accepted when it is the very token that the target's own sampling chooses at its position. So the
 * output is what it would have been without a draft, and so is its distribution; only the steps are fewer. */
#ifndef VR_ENGINE_PROCESS_DRAFT_H
#define VR_ENGINE_PROCESS_DRAFT_H

#include "engine/process/loader.h"
#include "engine/vgpu/vgpu_spec.h"

#define VR_MOST_DRAFT 16

struct vr_batcher;
struct vr_draft;

/* NULL without an error when the engine has no draft model. */
bool vr_draft_new(const struct vr_engine *e, struct vr_draft **out, struct vr_err *err) VR_MUST_CHECK;
void vr_draft_free(struct vr_draft *d);

/* Drafts for the streams that generate: each choice's draft[0 .. n_draft-1] follow its next token. */
void vr_draft_step(struct vr_batcher *b);

#endif
