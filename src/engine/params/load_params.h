/* What is to be loaded, and how: one struct for the dry run that proves a plan and for the engine process that carries
 * it out, so that what was proven is what is loaded. Everything that follows from other settings is decided here, once.
 *
 * Apart from engine_params.h, which gives it to llama.cpp, so that rooms without the engine's headers can use it. */
#ifndef VR_ENGINE_PARAMS_LOAD_PARAMS_H
#define VR_ENGINE_PARAMS_LOAD_PARAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/speculate/kinds.h"
#include "engine/vgpu/vgpu_spec.h"
#include "gguf/head.h"
#include "gguf/model.h"
#include "memory/footprint.h"
#include "tunnel/hello.h"

#define VR_MAX_SPLIT 16 /* what the engine reads */
#define VR_ON_CPU    (-1)

/* Host memory for the prompt cache, at most, unless told otherwise. */
#define VR_CACHE_MIB 8192
/* And of disk space for each model. */
#define VR_CACHE_DISK_MIB 16384

/* Any override turns llama.cpp's pipeline copies off; this pattern finds no tensor. */
#define VR_NO_PIPELINE "^$"

/* A LoRA adapter, and how strong it is in requests that do not say. */
struct vr_lora {
    const char *path;
    float scale;
};

enum vr_split_mode { VR_SPLIT_LAYER, VR_SPLIT_NONE, VR_SPLIT_TENSOR, VR_N_SPLIT_MODES };
const char *vr_split_mode_name(enum vr_split_mode mode); /* "layer" */

struct vr_override {
    const char *pattern; /* a regular expression that finds tensors by name; the first that matches wins */
    int device;          /* index of the devices, or VR_ON_CPU */
};

#define VR_MAX_NODES 8

/* A machine that lends some of the devices; they are called "NODE/CUDA0". */
struct vr_load_node {
    struct vr_pair pair;
    char devices[VR_MAX_LENT][24]; /* "CUDA0": as that machine calls them */
    size_t n_devices;
};

/* Begin with vr_load_params_default(): everything on all devices, split as llama.cpp would. Nothing is owned. */
struct vr_load_params {
    /* placement */
    const struct vr_vgpu_spec *devices; /* that indices point to; of real ones only the name counts */
    size_t n_devices;                   /* 0: CPU only */
    uint8_t order[VR_MAX_SPLIT];        /* which devices, in placement order; one may stand twice */
    size_t n_order;                     /* 0: all, in their own order */
    int n_gpu_layers;                   /* from the end, the output counts as one; -1: all */
    bool has_split;
    float split[VR_MAX_SPLIT]; /* one number per entry of order: layer counts, or shares */
    enum vr_split_mode split_mode;
    const struct vr_override *overrides;
    size_t n_overrides;
    bool pipeline; /* false: llama.cpp must not pay memory on every device for overlapping batches */

    /* context */
    struct vr_context context;
    bool flash_auto;      /* let the engine decide: context.flash_attn is not looked at */
    uint32_t n_outputs;   /* rows of logits per micro-batch; 0: as many as serving asks for */
    bool op_offload;      /* large batches of host-resident weights run on the first device … */
    uint32_t offload_min; /* … from so many tokens on */
    bool embedding_model; /* made for embeddings, and makes no text */
    bool embeddings;      /* embeddings also from a model that is made for text */
    enum vr_spec spec;    /* speculative decoding: who guesses … */
    uint32_t n_draft;     /* … how many tokens at a time for each stream, at most; 0: as is usual for the kind */
    bool steer;           /* fewer where they do not pay; false: always n_draft */
    enum vr_spec head; /* this is a draft head of that kind, beside the model that it reads; VR_SPEC_OFF: it is not */
    uint32_t taps[VR_MOST_TAPS]; /* the layers whose input such a head reads, of the model's own */
    size_t n_taps;
    const struct vr_lora *loras;
    size_t n_loras; /* VR_MOST_LORAS at most */

    /* loading; a dry run does none of it */
    const struct vr_vgpu_spec *vgpus; /* devices that the engine process makes up, to compute on the CPU */
    size_t n_vgpus;
    const struct vr_load_node *nodes;
    size_t n_nodes;
    uint32_t node_seconds; /* a node that is not heard of for so long is gone */
    bool mmap, mlock;
    bool extra_bufts;                   /* repacked weights on the CPU; false gives the very bits of the virtual GPUs */
    uint32_t threads, threads_batch;    /* 0: one per physical core */
    const char *model, *draft, *mmproj; /* files; "": none */
    const char *draft_device, *mmproj_device; /* the engine's names; "": the CPU */
    const char *cpu;           /* the CPU backend's variant; "auto": the best that works; "": built into the engine */
    const char *chat_template; /* instead of the model's own; "": that */
    bool keep_billing_header;  /* that Claude Code sends before its system prompt */
    uint32_t cache_mib;        /* host memory for checkpoints and cached prompts */
    const char *cache_file;    /* where cached prompts outlive the process; "": nowhere */
    uint32_t cache_disk_mib;   /* most that it may take */
};
struct vr_load_params vr_load_params_default(void);

/* The i-th device in placement order, as an index of the devices; and how many there are. */
size_t vr_load_params_device(const struct vr_load_params *p, size_t i);
size_t vr_load_params_n_order(const struct vr_load_params *p);

/* Sets what follows from the rest: a batch that holds a token of each sequence, a micro-batch within it, rows of
 * logits, what an embedding model needs, what guesses need. Doing it again changes nothing. */
void vr_load_params_settle(struct vr_load_params *p);
/* The part of it that concerns the context alone. */
struct vr_context vr_context_settled(const struct vr_context *c, bool embedding_model);

/* Whether a model is made for embeddings: it pools its output, or its attention goes both ways. */
bool vr_makes_embeddings(bool pools, bool causal);
bool vr_model_makes_embeddings(const struct vr_model *m);

/* Whether the engine can use the MTP heads of an architecture; and whether a model has any that it can use. */
bool vr_arch_has_mtp(const char *arch);
bool vr_model_has_mtp(const struct vr_model *m);

/* The context of what drafts as `kind` for a model with context `c`: as many tokens and sequences, an f16 cache. */
struct vr_context vr_draft_context(const struct vr_context *c, enum vr_spec kind);
/* Of a draft head: rows of features that it is given at once, so that they take no more than what its graph is reserved
 * for: `wide` values each, beside `width` of each token of its micro-batches. */
uint32_t vr_head_rows(uint32_t n_ubatch, uint32_t wide, uint32_t width);
/* How the draft of `p` is loaded: whole, on `device` (NULL: the CPU). */
struct vr_load_params vr_draft_params(const struct vr_load_params *p, const struct vr_vgpu_spec *device);
/* The second context of a model whose MTP head guesses. */
struct vr_load_params vr_head_params(const struct vr_load_params *p);

#endif
