/* Continuous batching: which tokens of which requests the model computes next.
 *
 * Streams that are writing get a token each, and the waiting prompts as much as fits into the time that the streams can
 * spare. One thread calls all of this. */
#ifndef VR_ENGINE_PROCESS_BATCH_H
#define VR_ENGINE_PROCESS_BATCH_H

#include "base/buf.h"
#include "engine/process/loader.h"
#include "engine/process/in_flight.h"

struct vr_batcher;

/* Frames for the front are appended to `out`; finished requests are taken out of `live` and freed. */
struct vr_batcher *vr_batcher_new(const struct vr_engine *e, struct vr_in_flight *live, struct vr_buf *out,
                                  struct vr_err *err) VR_MUST_CHECK;
void vr_batcher_free(struct vr_batcher *b);

/* Takes over a request that was read. */
void vr_batcher_add(struct vr_batcher *b, struct vr_request *r);

/* Computes one batch and says what came of it. False: nothing to do. *dead is set when the engine failed for good. */
bool vr_batcher_step(struct vr_batcher *b, bool *dead, struct vr_failure *why);
/* A picture may take as long as many steps. `turn` is called in between, from within a step, and does what is done
 * between steps and one more of them, with the same `why`; false: the engine is dead. */
void vr_batcher_share(struct vr_batcher *b, bool (*turn)(void *ctx), void *ctx);
bool vr_batcher_busy(const struct vr_batcher *b);
/* A number that changes whenever something was computed: a batch, or a piece of a picture. */
uint64_t vr_batcher_progress(const struct vr_batcher *b);
/* What is done besides: cached prompts are written to disk, and after a while without work (idle_ms) what slots hold,
 * too. Returns in how many milliseconds it is wanted again; -1: not before something was computed. */
int vr_batcher_tidy(struct vr_batcher *b, double idle_ms);
/* At the end: writes all of it, for so long at most. */
void vr_batcher_finish(struct vr_batcher *b, double ms);
void vr_batcher_status_json(struct vr_batcher *b, struct vr_buf *out);

#endif
