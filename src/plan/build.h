/* From a model, its footprint and a machine to a placement problem. */
#ifndef VR_PLAN_BUILD_H
#define VR_PLAN_BUILD_H

#include "base/arena.h"
#include "hw/select.h"
#include "memory/footprint.h"
#include "plan/observed.h"
#include "plan/problem.h"
#include "plan/speed.h"

/* What the engine allocates besides weights and caches. First a guess, then what a dry run told. */
struct vr_overheads {
    struct {
        uint64_t overhead_bytes; /* beyond the reserve: what the driver takes for a process, if that is known */
        uint64_t compute_bytes[VR_N_SITUATIONS];
    } devices[VR_MAX_DEVICES]; /* as the machine's */
    uint64_t host_compute_bytes;
    uint64_t host_reserve_bytes; /* of free memory, to be left alone */
};

/* From the model's shape and the rows of logits. Errs on the large side; a dry run corrects it. */
void vr_overheads_guess(const struct vr_model *m, const struct vr_context *c, uint32_t n_outputs,
                        const struct vr_footprint *f, const struct vr_machine *machine, struct vr_overheads *out);

enum vr_optimize { VR_OPTIMIZE_DECODE, VR_OPTIMIZE_PREFILL, VR_OPTIMIZE_BALANCED, VR_N_GOALS };
#define VR_FILL_DEFAULT   0.5  /* of the context is full when the time is taken */
#define VR_BALANCE_PROMPT 4    /* balanced: tokens of prompt for each token generated */
#define VR_PROMPT_DEFAULT 2048 /* tokens of the prompt whose speed is told */

/* What a goal minimises: how much the milliseconds of a decoding step (of all sequences) and those of a token of prompt
 * count. */
void vr_goal_weights(enum vr_optimize goal, uint32_t n_seq, double weight[VR_N_PHASES]);

/* The prompt whose speed is told: so many tokens (0: VR_PROMPT_DEFAULT), no fewer than a micro-batch. And the share of
 * it that its first micro-batch is: in a pipeline, all devices but one wait while it comes and while the last one
 * leaves. */
#define VR_PROMPT_ENDLESS UINT32_MAX
uint32_t vr_prompt_tokens(uint32_t n_prompt, uint32_t n_ubatch);
double vr_prompt_first(uint32_t n_prompt, uint32_t n_ubatch);

/* An override of the user's: tensors whose name the expression finds go to this device of the machine, or to the
 * host (-1). The first that matches wins, as in the engine. */
struct vr_fixed_override {
    const char *pattern;
    int device;
};

/* Stations that something beside the model needs on one device of the machine, or on the host (-1). */
struct vr_anchor {
    uint32_t stations[2]; /* what is past all layers is the output */
    size_t n;             /* 0: it does not matter where they are */
    int device;
};

/* What the user fixed; zeroed: nothing. */
struct vr_fixed {
    bool has_gpu_layers;
    uint32_t n_gpu_layers; /* counted from the end, the output first */
    const double *split;   /* per device in use, in their order: stations if they are whole and add up, else shares */
    size_t n_split;        /* 0: not fixed */
    bool order;            /* the budgets are in the order that the devices must have */
    bool split_mode;       /* the planner may not choose it */
    const struct vr_fixed_override *overrides;
    size_t n_overrides;
    struct vr_anchor anchor; /* not the user's, but as firm */
};

struct vr_plan;

/* All that a plan depends on. Nothing is owned. */
struct vr_ask {
    const struct vr_model *model;
    const struct vr_context *context;
    const struct vr_footprint *footprint; /* of the model in that context */
    const struct vr_machine *machine;
    const struct vr_budgets *budgets;
    const struct vr_speeds *speeds;       /* of the machine */
    const struct vr_overheads *overheads; /* on the machine */
    const struct vr_observed *observed;   /* the graph of a dry run in that context; NULL: there was none */
    enum vr_optimize optimize;
    double fill;       /* 0: VR_FILL_DEFAULT */
    uint32_t n_prompt; /* 0: VR_PROMPT_DEFAULT */
    struct vr_fixed fixed;
    bool no_pipeline;    /* the engine makes none of this model */
    uint64_t work_limit; /* 0: VR_WORK_DEFAULT */
    /* For a second look: a plan with weights on the host that a dry run confirmed, and a better one that failed by its
     * buffers, or NULL. The search begins there and is a longer one; the FFN matrices of dense layers may be anywhere
     * then, unless the user fixed which layers are on the host. Both NULL: a first plan, where they only cross borders.
     */
    const struct vr_plan *known, *near;
    const struct vr_plan *seed; /* NULL, or a plan of a first look that was made with less knowledge */
};

/* The tensors of one unit: those of its layer that have this stem. */
struct vr_unit_name {
    const char *stem;                 /* "ffn_up_exps"; NULL: the tensors that the user moved out of a core */
    uint32_t first_tensor, n_tensors; /* in vr_built.tensors */
};

struct vr_built {
    struct vr_problem problem;
    uint8_t devices[VR_MAX_PLACED]; /* the problem's devices, as indices of the machine's */
    struct vr_unit_name *units;     /* n_stations x VR_MAX_UNITS */
    const struct vr_tensor **tensors;
    uint32_t n_tensors;
};

/* Whether all devices that may be used compute at once in a pipeline. */
bool vr_devices_overlap(const struct vr_speeds *s, const struct vr_budgets *b);

/* Everything is in the arena. VR_EUSAGE for a wish that cannot be met. */
bool vr_build(const struct vr_ask *ask, struct vr_arena *arena, struct vr_built *out, struct vr_err *err) VR_MUST_CHECK;

#endif
