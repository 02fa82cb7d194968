/* The probe: llama.cpp itself says what a placement costs, without a GPU and without loading anything.
 *
 * Each question is one short-lived child: it registers virtual GPUs (vgpu.h), loads the model's header without its
 * vocabulary (gguf/strip.h), makes a context and reserves the two graphs that serving uses. A crash, an abort or a
 * hang of the engine is an error here that names the model and repeats the engine's last words. */
#ifndef VR_ENGINE_PROBE_PROBE_H
#define VR_ENGINE_PROBE_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/params/load_params.h"
#include "engine/probe/graph.h"
#include "gguf/model.h"

/* What to try: what would be loaded, and what is asked about it. Begin with vr_trial_default(). The caller owns all
 * pointers. */
struct vr_trial {
    struct vr_load_params load; /* its devices are made up here; files and how they are read do not matter */
    bool want_work;             /* also what each device executes */
    int timeout_ms;
};
struct vr_trial vr_trial_default(void);

struct vr_use {
    uint64_t model_bytes, context_bytes, compute_bytes;
};

struct vr_proof {
    struct vr_use devices[VR_MAX_VGPUS]; /* as in the trial */
    struct vr_use host;
    uint64_t reduce_bytes[VR_MAX_VGPUS]; /* split mode tensor: what adding up takes, from the first computation on */
    uint64_t first_bytes[VR_MAX_VGPUS];  /* for computing, until the model gives out what a head reads; 0: the same */
    uint64_t output_bytes;               /* host memory for logits, which no breakdown counts */
    size_t n_devices;
    uint32_t n_embd;          /* of an mmproj: the width of what it makes */
    uint32_t n_ctx, n_copies; /* the context as the engine rounded it; copies > 1: pipeline */
    bool pipeline, flash;
    double ms;             /* from the question to the answer */
    struct vr_works works; /* empty unless wanted */
};
void vr_proof_done(struct vr_proof *p);

/* A model, ready to be asked about. It keeps the header in memory and not the vr_model. */
struct vr_prober {
    int fd;                   /* the stripped header */
    int beside_fd;            /* of a draft head: that of the model that it reads; 0: none */
    struct vr_context beside; /* and that model's context, whose cache the head may use */
    const char *path; /* not NULL: the engine reads this file instead, as it is (to compare with; the caller's) */
    char name[128];   /* for messages */
    bool mmproj;      /* path is one; what its weights take, in the file and on the host: */
    uint64_t file_bytes, host_bytes;
};
bool vr_prober_open(const struct vr_model *m, struct vr_prober *out, struct vr_err *err) VR_MUST_CHECK;
/* The same for what drafts for `m` with this context: a head is asked about beside it. */
bool vr_prober_open_draft(const struct vr_model *draft, const struct vr_model *m, const struct vr_context *context,
                          struct vr_prober *out, struct vr_err *err) VR_MUST_CHECK;
/* The same for an mmproj, of which a trial says only the device (its first, or none: the host) and flash attention. It
 * keeps the model's path. */
void vr_prober_open_mmproj(const struct vr_model *mmproj, struct vr_prober *out);
void vr_prober_close(struct vr_prober *p);

/* `out` must be zeroed or done. VR_ESPLIT: the engine refuses split mode tensor for this model or these settings, or
 * dies of it; another mode may work. */
bool vr_probe(const struct vr_prober *p, const struct vr_trial *trial, struct vr_proof *out,
              struct vr_err *err) VR_MUST_CHECK;

/* llama.cpp's own fit (common_fit_params) of the model to the same devices, for comparison. The trial's placement is
 * ignored; margins are what it must leave free on each device. */
struct vr_fitted {
    bool fits;
    int n_gpu_layers;
    float split[VR_MAX_SPLIT];
    uint32_t n_ctx, dry_runs;
    double ms;
    struct vr_override *overrides; /* patterns are allocated with it */
    size_t n_overrides;
};
bool vr_probe_fit(const struct vr_prober *p, const struct vr_trial *trial, const uint64_t *margin_bytes,
                  struct vr_fitted *out, struct vr_err *err) VR_MUST_CHECK;
void vr_fitted_done(struct vr_fitted *f);

#endif
