/* What prompts would take with other settings, told from the graph of one dry run: with larger micro-batches, with the
 * host's weights in pinned memory, and computed on the host instead of a device. Estimates, to choose by: what is
 * chosen is confirmed by a dry run of its own. */
#ifndef VR_FIT_WAYS_H
#define VR_FIT_WAYS_H

#include "fit/price.h"

#define VR_N_WIDER 4 /* micro-batches of 1, 2, 4 and 8 times as many tokens */

/* How the host's weights are kept: mapped from the file, or read into pinned memory. */
enum vr_loading { VR_MAPPED, VR_PINNED, VR_N_LOADINGS };

struct vr_ways {
    uint32_t n_ubatch;                            /* of the graph, which is the first of the wider ones */
    double sent_tok_s[VR_N_LOADINGS][VR_N_WIDER]; /* prompts, if the host's weights are sent to a device … */
    double host_tok_s[VR_N_WIDER];                /* … or the host computes with them itself */
    /* Tokens of a batch from which on sending is faster; 0: no weights are on the host, or all are. */
    uint32_t pays[VR_N_LOADINGS];
};

/* What it is told from. */
struct vr_ways_ask {
    const struct vr_works *works;
    const struct vr_pricing *pricing;
    const struct vr_speeds *speeds[VR_N_LOADINGS];
    uint32_t n_expert, n_expert_used;
    bool offloads; /* the engine sends weights to devices at all */
    uint8_t first; /* the trial's device that they are sent to */
};
bool vr_ways_find(const struct vr_ways_ask *a, struct vr_ways *out, struct vr_err *err) VR_MUST_CHECK;

#endif
