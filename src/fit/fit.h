/* From a model, a machine and wishes to a placement that the engine itself confirmed.
 *
 * Three ways lead to an outcome: the planner's (vr_fit_plan), the user's own placement (vr_fit_given), and llama.cpp's
 * fit (vr_fit_llama). All three are judged by the same dry run, so that their numbers can be laid side by side. */
#ifndef VR_FIT_FIT_H
#define VR_FIT_FIT_H

#include "base/arena.h"
#include "base/buf.h"
#include "fit/judge.h"
#include "fit/reasons.h"
#include "memory/footprint.h"
#include "plan/build.h"

/* Models beside the model: a draft model for speculative decoding, and a vision projector (an mmproj). */
enum vr_companion_kind { VR_DRAFT, VR_MMPROJ, VR_N_COMPANIONS };

/* Where one is, and what it takes. It is all on one device, or on the host. */
struct vr_companion {
    enum vr_companion_kind kind;
    const struct vr_model *model;
    int device;            /* of the machine; -1: the host */
    const char *device_id; /* its name, the machine's; NULL: the host */
    struct vr_use use;     /* there */
    struct vr_use host;    /* on the host beside that; all of it when it is there */
    double prompt_ms;      /* a draft: per token of prompt */
    double ms;             /* a draft: per drafted token; an mmproj: per picture, about */
};
const char *vr_companion_name(enum vr_companion_kind kind); /* "draft", "mmproj" */

/* What is asked. Nothing is owned. */
struct vr_fit_ask {
    const struct vr_model *model;
    const struct vr_model *companions[VR_N_COMPANIONS]; /* NULL: none */
    const struct vr_lora *loras;                        /* adapters, which go where the model's tensors are */
    size_t n_loras;
    uint64_t lora_bytes; /* of all */
    const struct vr_machine *machine;
    const struct vr_budgets *budgets;
    const struct vr_speeds *speeds;
    struct vr_context context;
    bool flash_auto;
    bool embeddings;             /* embeddings also from a model that is made for text */
    enum vr_spec spec;           /* who guesses tokens; a draft model among the companions counts without this */
    const struct vr_model *head; /* a draft head in a file of its own: it reads the model's layers */
    bool head_placed;            /* … and it is there already: */
    int head_device;             /* of the machine; -1: the host */
    uint32_t n_draft;            /* how many at a time; 0: as many as pay, up to what is usual for the kind */
    bool tensor_died;            /* split mode tensor is known to end the engine: nobody may choose it but the user */
    bool tensor_off;             /* … and did so just now: not even the user */
    double fill;                 /* of the context, when speeds are told */
    uint32_t n_prompt;           /* tokens of the prompt whose speed is told; 0: VR_PROMPT_DEFAULT */
    uint32_t offload_min; /* tokens of a batch for which the host's weights are sent to a device; 0: VR_OFFLOAD_MIN */
    uint32_t threads;     /* of the host; 0: one per physical core */
    uint64_t spared; /* devices of the machine, one bit each, whose budget was taken away: hardly faster with them */
};

/* What is loaded for it, before anything is placed: on all devices that may be used, as serving asks for it. Its
 * devices are to be set. */
struct vr_load_params vr_fit_params(const struct vr_fit_ask *a);
/* Who guesses, and how many tokens at a time, at most. */
enum vr_spec vr_fit_spec(const struct vr_fit_ask *a);
uint32_t vr_fit_guesses(const struct vr_fit_ask *a);

/* What guesses are expected to bring. */
struct vr_guess_price {
    uint32_t n;        /* guesses in a step that bring most; 0: none do */
    double acceptance; /* how often one is right, as is typical for the kind */
    double gain;       /* tokens per time, over those without; 1: none */
    double ms;         /* of a guess */
};

#define VR_MAX_REASONS 48

enum vr_how { VR_HOW_PLANNED, VR_HOW_GIVEN, VR_HOW_LLAMA_FIT };

struct vr_outcome {
    struct vr_vgpu_spec specs[VR_MAX_VGPUS]; /* the budgets' devices, in their order; trial.devices points here */
    struct vr_load_params trial;             /* what was tried, and what is loaded; overrides are in the arena */
    struct vr_verdict verdict;
    enum vr_how how;
    uint32_t dry_runs;
    double ms;
    enum vr_optimize optimize; /* planned: what for; verdict.cost[] of it is what was minimised */
    bool optimal;              /* planned: no other placement costs less */
    double lower_bound;        /* planned: none costs less than this; 0: nothing is known */
    double given;              /* planned: the share of the cost that was given for faster prompts */
    struct vr_ways other_ways; /* of the split mode that it is compared with, if its plan came to a dry run */
    double split_bound; /* planned, of whole layers: no split of every layer costs less; infinite: none is to be had */
    double fewer_bound; /* planned, split mode tensor: none over fewer devices costs less; 0: nothing is known */
    struct vr_reason reasons[VR_MAX_REASONS];
    size_t n_reasons;
    struct vr_companion companions[VR_N_COMPANIONS];
    size_t n_companions;
    struct vr_guess_price guesses;
    struct vr_arena arena;
};
void vr_outcome_done(struct vr_outcome *o);
/* o = from, with the pointers into itself set right; `from` is empty afterwards. */
void vr_outcome_move(struct vr_outcome *o, struct vr_outcome *from);
/* One more reason, the last or the first of all. What does not find room is left out. */
void vr_outcome_reason(struct vr_outcome *o, const struct vr_reason *r);
void vr_outcome_reason_first(struct vr_outcome *o, const struct vr_reason *r);
/* Why it does not fit, a reason for each place that is too small; none when it fits. */
size_t vr_outcome_shortages(const struct vr_fit_ask *a, const struct vr_outcome *o,
                            struct vr_reason out[VR_MAX_REASONS]);
/* Fills in o->guesses; and adds to o->reasons what they bring. */
void vr_outcome_price_guesses(const struct vr_fit_ask *a, struct vr_outcome *o);
void vr_outcome_explain_guesses(struct vr_outcome *o);
/* What companions take on a device of the machine. */
uint64_t vr_outcome_companion_bytes(const struct vr_outcome *o, int device);
#define VR_AUTO_OUTCOME VR_CLEANUP(vr_outcome_done) struct vr_outcome

/* Which split modes the planner may choose from. */
enum vr_splits { VR_SPLITS_LAYER, VR_SPLITS_TENSOR, VR_SPLITS_ALL };

/* What dry runs taught the planner about a model in a context. */
struct vr_lessons;
struct vr_lessons *vr_lessons_new(void) VR_MUST_CHECK; /* none yet; NULL: memory is out */
void vr_lessons_free(struct vr_lessons *l);
/* From a dry run of a placement that they had led to, with micro-batches of another size. */
void vr_lessons_learn(struct vr_lessons *l, const struct vr_fit_ask *a, const struct vr_load_params *trial,
                      const struct vr_verdict *v);
VR_DEFINE_AUTO(vr_lessons);

/* What the planner may and must do. */
struct vr_goal {
    enum vr_optimize optimize;
    enum vr_splits splits;
    struct vr_fixed fixed;
    bool whole_layers; /* no second look, which would put parts of layers on the host instead of whole ones */
    /* NULL, or a plan of whole layers for no less room: what it says of splits holds. */
    const struct vr_outcome *unsplit;
    double worth; /* with lessons: no plan of whole layers that costs more is wanted, VR_ENOFIT is as good; 0: any is */
    /* NULL, or those of the same model and context: the planner begins with them, and adds its own. */
    struct vr_lessons *lessons;
};
/* The fastest placement that fits, confirmed by a dry run. VR_ENOFIT with what is missing when there is none. */
bool vr_fit_plan(const struct vr_fit_ask *a, const struct vr_goal *w, struct vr_outcome *out,
                 struct vr_err *err) VR_MUST_CHECK;

/* The same with the largest context that fits (a->context.n_ctx is ignored), in steps of 256 tokens per sequence: one
 * step more would move further weights to the host, or fit nowhere. */
bool vr_fit_largest(const struct vr_fit_ask *a, const struct vr_goal *w, struct vr_outcome *out,
                    struct vr_err *err) VR_MUST_CHECK;
/* Contexts are multiples of so many tokens; the engine rounds others up. */
uint32_t vr_context_step(const struct vr_context *c);
/* Adds to o->reasons. `a` is what was asked, with all devices that might have been used; `fixed`, what was no choice.
 */
bool vr_outcome_explain(const struct vr_fit_ask *a, const struct vr_fixed *fixed, struct vr_outcome *o,
                        struct vr_err *err) VR_MUST_CHECK;

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
/* "PATTERN=DEVICE" taken apart, in place; and whether the pattern is one and finds anything in the model. */
bool vr_override_split(char *text, const char **pattern, const char **device, struct vr_err *err) VR_MUST_CHECK;
bool vr_override_check(const struct vr_model *m, const char *pattern, struct vr_err *err) VR_MUST_CHECK;
/* Whether such a list sends that tensor to a device. */
bool vr_override_moves(const char *list, const char *tensor);
/* Or anywhere. */
bool vr_override_finds(const char *list, const char *tensor);
/* What common_fit_params makes of the same devices, with the reserve as its margin. */
bool vr_fit_llama(const struct vr_fit_ask *a, struct vr_outcome *out, struct vr_err *err) VR_MUST_CHECK;

/* Where each tensor of the model is: an index of verdict.devices, or -1 for the host. where[] has model->n_tensors. */
bool vr_outcome_where(const struct vr_fit_ask *a, const struct vr_outcome *o, int *where,
                      struct vr_err *err) VR_MUST_CHECK;
/* By an entry of `where`: is it on that device? In split mode tensor, if it is on any. */
bool vr_outcome_has(const struct vr_outcome *o, int where, size_t device);
/* How much of a tensor that is there: all of it; in split mode tensor as much as of the weights together. */
double vr_outcome_slice(const struct vr_fit_ask *a, const struct vr_outcome *o, const int *where, size_t device);

/* The flags that make llama-server (or ik_llama.cpp, which lacks some) execute this outcome. */
enum vr_flags_for { VR_LLAMA_SERVER, VR_IK_LLAMA };
void vr_outcome_flags(const struct vr_outcome *o, enum vr_flags_for program, struct vr_buf *out);

#endif
