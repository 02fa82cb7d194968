/* What preparing one request may take: processor time and memory, by the size of what was sent.
 *
 * Nothing that is done here can be interrupted, so the limit is the end of the process: a timer on its processor time
 * whose signal kills it, and a limit on its memory. Time is counted in processor time, since a busy machine is no fault
 * of a request. What takes longer than most goes behind the others on the way (nice). The stage is kept where the
 * engine process can read it when the worker is no more. */
#ifndef VR_ENGINE_PREPARE_BUDGET_H
#define VR_ENGINE_PREPARE_BUDGET_H

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/wire/request_check.h"

enum vr_prepare_stage {
#define STAGE(name, param, words) VR_STAGE_##name,
#include "engine/prepare/stage.def"
#undef STAGE
    VR_N_STAGES
};

#define VR_BUDGET_SIGNAL SIGPROF /* ends a process whose processor time is spent */

/* Milliseconds of processor time for a body of n bytes. */
uint32_t vr_budget_ms(size_t n);

/* In a worker, in the thread that does the work: how much memory there is now counts as nothing, and the stage is told
 * there. */
bool vr_budget_open(atomic_int *stage, struct vr_err *err) VR_MUST_CHECK;
/* From here until end: one request, with a body of n bytes; 0: no request, but trying a template. */
void vr_budget_begin(size_t n);
void vr_budget_end(void);
void vr_budget_stage(enum vr_prepare_stage stage);
/* Pictures become larger than their files. */
void vr_budget_add_pixels(uint64_t n);
/* The worker was slow, or has grown: another should take its place. */
bool vr_budget_is_worn(void);
/* Running out of memory is the request's fault here: a refusal for that (503) becomes one that says so. */
void vr_budget_explain(struct vr_refusal *why);

/* In the engine process: why there is no result. `status` is waitpid's; late: it was killed for sleeping. */
void vr_budget_refuse(struct vr_refusal *why, int stage, size_t n, int status, bool late);

#endif
