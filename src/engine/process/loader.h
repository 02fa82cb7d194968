/* A model that is up: what loading made, and what the rest of the process needs to know about it. */
#ifndef VR_ENGINE_PROCESS_LOADER_H
#define VR_ENGINE_PROCESS_LOADER_H

#include <jansson.h>
#include <llama.h>

#include "base/buf.h"
#include "base/err.h"
#include "engine/llama/bridge.h"
#include "engine/llama/confinement.h"
#include "engine/llama/lora.h"
#include "engine/params/load_params.h"
#include "engine/vgpu/vgpu_spec.h"
#include "engine/wire/failure.h"
#include "engine/wire/limits.h"

/* How strong each adapter is, and a number for that: 0 when all are off; equal only for the same files and scales. */
struct vr_lora_scales {
    float of[VR_MOST_LORAS];
    uint64_t key;
};

struct vr_engine {
    struct llama_model *model;
    struct llama_context *ctx;
    llama_memory_t memory; /* NULL for models that keep none */
    const struct llama_vocab *vocab;
    struct vr_token_index *token_index; /* of a model that makes text: for grammars */
    bool chats;                         /* it has a chat template that can be used (engine/prepare finds out) */
    struct vr_chat_caps caps;
    char no_chats[400]; /* why not; "": it makes no text */
    struct ggml_threadpool *pool;
    struct llama_model *draft_model; /* guesses tokens; NULL: none */
    struct llama_context *draft;
    uint32_t taps[VR_MOST_TAPS]; /* the layers that it reads, where it is an EAGLE-3 head … */
    size_t n_taps;               /* … else 0 */
    bool shares_cache;           /* it is a head that uses the model's KV cache */
    uint32_t block;              /* rows that it computes for one stream's guesses at once; 0: one by one */
    bool from_anchor;            /* of which the first guesses, too */
    struct llama_context *head;  /* of the model itself, for its MTP head; NULL: none */
    struct vr_vision *vision;    /* takes pictures; NULL: not */
    struct vr_loras *loras;      /* NULL: none */
    size_t n_loras;
    char lora_paths[VR_MOST_LORAS][512];
    uint64_t lora_ids[VR_MOST_LORAS];
    struct vr_lora_scales lora; /* of requests that do not say, at first */
    uint64_t lora_first;        /* the key of what the context computes with when it is made */
    enum vr_spec spec;          /* who guesses tokens … */
    uint32_t n_draft;           /* … at most so many at a time … */
    bool steer;                 /* … and fewer where they do not pay */

    uint32_t n_vocab, n_embd;
    uint32_t n_ctx_seq; /* tokens that one sequence can hold */
    uint32_t n_seq, n_batch, n_ubatch;
    uint32_t n_outputs;        /* rows of logits that one batch may ask for */
    uint32_t n_swa;            /* the window that limits what a shortened sequence still knows; 0: none */
    bool unified;              /* sequences share the cells */
    bool sliced;               /* split mode tensor: each device has a part of every cell */
    bool can_cut;              /* the end of a sequence can be removed; recurrent states cannot */
    uint64_t cache_bytes;      /* host memory for checkpoints and cached prompts */
    int cache_fd;              /* an open file for cached prompts, which is ours alone; 0: none */
    uint64_t cache_disk_bytes; /* most that it may take */
    char cache_owner[512];     /* what else they depend on than their tokens */
    char cache_note[240];      /* why there is no such file, where there should be; "" */
    uint32_t stop_step;        /* tokens between even checkpoints; 0: the engine can go back without any */
    bool text;                 /* makes text; else embeddings only */
    bool embeddings;           /* may be asked for them */
    bool ranks;                /* scores documents, and does nothing else */
    bool keep_billing_header;
    bool on_devices; /* they compute everything: the host looks tokens up and no more */
    enum llama_pooling_type pooling;

    char cpu[1024]; /* the variant's file, with its path; "" when built in */
    uint32_t n_threads, n_threads_batch;
    double load_ms, context_ms;
    uint64_t sent_bytes; /* to other machines, until the weights were loaded */
};

struct vr_load_hooks {
    void (*progress)(void *ctx, const char *moment, int percent);
    bool (*give_up)(void *ctx); /* asked now and then: nobody waits any more */
    ggml_abort_callback abort;  /* asked while the CPU computes */
    void *ctx;
};

/* Loads it, by the parameters or as the LOAD message says. On failure `why` is filled and nothing is left. */
bool vr_engine_load_params(const struct vr_load_params *p, const struct vr_load_hooks *hooks, struct vr_engine *out,
                           struct vr_failure *why) VR_MUST_CHECK;
bool vr_engine_load(const json_t *load, const struct vr_load_hooks *hooks, struct vr_engine *out,
                    struct vr_failure *why) VR_MUST_CHECK;
void vr_engine_done(struct vr_engine *e);
/* What loading it so touches; valid as long as the parameters. */
struct vr_engine_needs vr_engine_needs_of(const struct vr_load_params *p);

/* Sets the key of scales. */
void vr_lora_key(const struct vr_engine *e, struct vr_lora_scales *s);
/* The READY message, with how the process is confined. */
void vr_engine_ready_json(const struct vr_engine *e, const struct vr_confined *confined, struct vr_buf *out);
/* Fills in what is known about a shortage of memory. Devices are asked for their free memory unless they are in a state
 * where asking could be the end. */
void vr_failure_explain(struct vr_failure *f, enum vr_load_stage stage, const char *what, bool ask_devices);

#endif
