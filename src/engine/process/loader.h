/* A model that is up: what loading made, and what the rest of the process needs to know about it. */
#ifndef VR_ENGINE_PROCESS_LOADER_H
#define VR_ENGINE_PROCESS_LOADER_H

#include <jansson.h>
#include <llama.h>

#include "base/buf.h"
#include "base/err.h"
#include "engine/llama/bridge.h"
#include "engine/params/load_params.h"
#include "engine/process/sample.h"
#include "engine/vgpu/vgpu_spec.h"
#include "engine/wire/failure.h"

struct vr_engine {
    struct llama_model *model;
    struct llama_context *ctx;
    llama_memory_t memory; /* NULL for models that keep none */
    const struct llama_vocab *vocab;
    struct vr_chats *chats; /* NULL: not a model to chat with */
    struct vr_chat_caps caps;
    struct ggml_threadpool *pool;
    struct llama_model *draft_model; /* guesses tokens; NULL: none */
    struct llama_context *draft;
    struct vr_vision *vision; /* takes pictures; NULL: not */
    uint32_t n_draft;         /* tokens that it guesses at a time */

    uint32_t n_vocab, n_embd;
    uint32_t n_ctx_seq; /* tokens that one sequence can hold */
    uint32_t n_seq, n_batch, n_ubatch;
    uint32_t n_outputs; /* rows of logits that one batch may ask for */
    uint32_t n_swa;     /* the window that limits what a shortened sequence still knows; 0: none */
    bool unified;       /* sequences share the cells */
    bool can_cut;       /* the end of a sequence can be removed; recurrent states cannot */
    bool text;          /* makes text; else embeddings only */
    bool embeddings;    /* may be asked for them */
    bool on_devices;    /* they compute everything: the host looks tokens up and no more */
    enum llama_pooling_type pooling;
    struct vr_sampling defaults;

    char cpu[64]; /* the variant's file; "" when built in */
    uint32_t n_threads, n_threads_batch;
    double load_ms, context_ms;
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

/* The READY message. */
void vr_engine_ready_json(const struct vr_engine *e, struct vr_buf *out);
/* Fills in what is known about a shortage of memory. Devices are asked for their free memory unless they are in a state
 * where asking could be the end. */
void vr_failure_explain(struct vr_failure *f, enum vr_load_stage stage, const char *what, bool ask_devices);

#endif
