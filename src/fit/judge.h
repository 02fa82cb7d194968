/* One placement, judged: what the engine would allocate on every device, whether that fits, and how fast it runs. */
#ifndef VR_FIT_JUDGE_H
#define VR_FIT_JUDGE_H

#include "engine/probe/probe.h"
#include "fit/ways.h"
#include "hw/select.h"
#include "plan/stages.h"

struct vr_judged {
    uint16_t device;                /* of the machine */
    uint32_t first_layer, n_layers; /* consecutive; 0 layers: nothing but what overrides put there */
    double share; /* of each of these layers; 1 but in split mode tensor, where all devices have the same ones */
    bool output;
    struct vr_use use; /* exact */
    uint64_t free_bytes, reserve_bytes;
    uint64_t beside_bytes;   /* kernels' scratch memory and the like, as far as the reserve has no room for it */
    uint64_t reduce_bytes;   /* of that: for adding up over devices, in split mode tensor */
    uint64_t overhead_bytes; /* what its runtime takes beside that, where it was measured; part of the reserve */
    uint64_t short_bytes;    /* more than is free */
    uint64_t over_bytes;     /* more than free less reserve; at least short_bytes */
    bool no_cache;           /* holds layers, but none with attention: the engine fails to allocate an empty cache */
    double ms[VR_N_PHASES];
};

/* Why the bytes of a verdict are an estimate. */
enum vr_inexact { VR_EXACT, VR_INEXACT_NOT_CUDA, VR_INEXACT_CAPABILITY };
#define VR_ASSUMED_CC 860 /* of a card that nobody knows: most are no older */

struct vr_verdict {
    struct vr_judged devices[VR_MAX_VGPUS]; /* in placement order */
    size_t n_devices;
    uint32_t host_layers; /* the first ones */
    struct vr_use host;
    uint64_t host_short_bytes; /* more than the host has free */
    bool host_no_cache;        /* as for a device */
    double host_ms[VR_N_PHASES];
    bool fits, pipeline, flash;
    bool exact;
    enum vr_inexact inexact;
    uint16_t inexact_device; /* of the machine: because of it */
    uint32_t n_ctx;
    struct vr_price price, empty, full; /* at the fill that was asked for, with an empty and with a full context */
    double cost[VR_N_GOALS];            /* at the fill that was asked for (vr_price_cost()) */
    uint32_t n_seq, n_prompt;           /* tokens of a step; of the prompt whose speed is told */
    struct vr_ways ways;                /* what prompts would take otherwise */
};

uint64_t vr_use_bytes(const struct vr_use *u);
/* What a device must have: its buffers, and what is beside them. */
uint64_t vr_judged_bytes(const struct vr_judged *j);

/* All devices of the machine that may be used, as the trial's devices; at most VR_MAX_VGPUS. */
bool vr_judge_devices(const struct vr_machine *m, const struct vr_budgets *b, struct vr_vgpu_spec *out,
                      struct vr_err *err) VR_MUST_CHECK;

struct vr_judge_setup { /* what stays the same from trial to trial */
    const struct vr_prober *prober;
    const struct vr_model *model;
    const struct vr_machine *machine;
    const struct vr_budgets *budgets; /* the trial's device i is budgets->items[i] */
    const struct vr_speeds *speeds;
    double fill;
    uint32_t n_prompt;
    /* NULL, or learns what the graph shows of the model, which has that many layers. */
    struct vr_observed *observed;
    uint32_t n_layers;
    struct vr_stages *stages; /* the same of split mode tensor, from each dry run */
};

bool vr_judge(const struct vr_judge_setup *s, const struct vr_load_params *t, struct vr_verdict *out,
              struct vr_err *err) VR_MUST_CHECK;

#endif
