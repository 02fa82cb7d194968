/* Where a prompt's computation pauses for a checkpoint (engine/cache/checkpoints.h).
 *
 * The next prompt of a conversation leaves this one where its template rewrites something: behind a user's message,
 * where thoughts are dropped, or where the answer begins. Those places come from the preparer (vr_prompt.boundaries). A
 * prompt without them (no chat) may be left near its end. Each pause is one more pass over the weights, so they keep a
 * distance, from the end, too. In between, checkpoints are taken at even steps, between two batches that are computed
 * anyway, so that an edit further back does not cost everything. Pure. */
#ifndef VR_ENGINE_PROCESS_STOPS_H
#define VR_ENGINE_PROCESS_STOPS_H

#include "engine/process/request.h"

#define VR_NO_STOP_AT UINT32_MAX

/* The next place behind `at`, of `n_todo` tokens of which the first are the prompt's, when the last checkpoint is at
 * `last` (0: none); VR_NO_STOP_AT. */
uint32_t vr_next_stop(const struct vr_prompt *p, uint32_t last, uint32_t at, uint32_t n_todo);
/* Even steps for a context of that size. */
uint32_t vr_stop_step(uint32_t n_ctx_seq);

#endif
