/* From a model, a machine and wishes to a placement that the engine itself confirmed.
 *
 * Three ways lead to an outcome: the planner's (vr_fit_plan), the user's own placement (vr_fit_given), and llama.cpp's
 * fit (vr_fit_llama). All three are judged by the same dry run, so that their numbers can be laid side by side. */
#ifndef VR_FIT_FIT_H
#define VR_FIT_FIT_H

#include "base/arena.h"
#include "base/buf.h"
#include "fit/judge.h"
#include "memory/footprint.h"

/* What is asked. Nothing is owned. */
struct vr_fit_ask {
    const struct vr_model *model;
    const struct vr_machine *machine;
    const struct vr_budgets *budgets;
    const struct vr_speeds *speeds;
    struct vr_context context;
    bool flash_auto;
    double fill; /* of the context, when speeds are told */
};

struct vr_outcome {
    struct vr_vgpu_spec specs[VR_MAX_VGPUS]; /* the budgets' devices, in their order; trial.devices points here */
    struct vr_trial trial;                   /* overrides are in the arena */
    struct vr_verdict verdict;
    const char *how; /* "as given", "llama.cpp's fit" */
    uint32_t dry_runs;
    double ms;
    struct vr_arena arena;
};
void vr_outcome_done(struct vr_outcome *o);
#define VR_AUTO_OUTCOME VR_CLEANUP(vr_outcome_done) struct vr_outcome

/* The user's placement, kept to the letter. n_gpu_layers -1: all. */
struct vr_given {
    int n_gpu_layers;
    enum vr_split_mode split_mode;
    const double *split; /* shares or layer counts, one per device of the budgets; NULL: by free memory, as llama.cpp */
    size_t n_split;
    const char *overrides; /* "pattern=CUDA0,pattern=CPU"; NULL: none */
};
bool vr_fit_given(const struct vr_fit_ask *a, const struct vr_given *g, struct vr_outcome *out,
                  struct vr_err *err) VR_MUST_CHECK;
/* What common_fit_params makes of the same devices, with the reserve as its margin. */
bool vr_fit_llama(const struct vr_fit_ask *a, struct vr_outcome *out, struct vr_err *err) VR_MUST_CHECK;

/* The flags that make llama-server (or ik_llama.cpp, which lacks some) execute this outcome. */
enum vr_dialect { VR_LLAMA_SERVER, VR_IK_LLAMA };
void vr_outcome_flags(const struct vr_outcome *o, enum vr_dialect dialect, struct vr_buf *out);

#endif
