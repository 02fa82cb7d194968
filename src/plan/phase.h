/* The two things that a model does. */
#ifndef VR_PLAN_PHASE_H
#define VR_PLAN_PHASE_H

/* Token generation: one token for each sequence. Prompt processing: one full micro-batch, of which only each sequence's
 * last token gets logits. */
enum vr_phase { VR_DECODE, VR_PREFILL, VR_N_PHASES };

#endif
