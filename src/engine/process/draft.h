/* A small model that guesses for the model (guess.h). */
#ifndef VR_ENGINE_PROCESS_DRAFT_H
#define VR_ENGINE_PROCESS_DRAFT_H

#include "engine/process/guess.h"

struct vr_draft;

struct vr_draft *vr_draft_new(const struct vr_engine *e, struct vr_err *err) VR_MUST_CHECK;
void vr_draft_free(struct vr_draft *d);
/* Fills draft[] of those who want guesses, as far as it can. */
void vr_draft_guess(struct vr_draft *d, struct vr_batcher *b, const struct vr_pick *picks, uint32_t n);

#endif
