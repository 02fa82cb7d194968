/* From the JSON of a REQUEST message to tokens, sampling settings, grammar and parser (prepared.h).
 *
 * The front has checked it (vr_request_check), which is relied on here. What only the model can refuse is refused
 * here, before anything is computed, and all that can take long without computing (templates, schemas, tokens, files of
 * pictures) is done here: in a worker process that may be killed (worker.h), since none of it can be interrupted. */
#ifndef VR_ENGINE_PREPARE_PREPARE_H
#define VR_ENGINE_PREPARE_PREPARE_H

#include "engine/llama/chat_prompt.h"
#include "engine/prepare/prepared.h"

/* What a worker knows by itself: the file's vocabulary, templates and settings. */
struct vr_preparer {
    struct llama_model *model; /* its vocabulary alone */
    const struct llama_vocab *vocab;
    uint32_t n_vocab;
    struct vr_chats *chats; /* NULL: not a model to chat with */
    struct vr_chat_caps caps;
    struct vr_specials *specials; /* texts that only a template may turn into tokens */
    struct vr_sampling defaults;
};

/* What it is told with each request, since only the engine process knows it. */
struct vr_prepare_facts {
    uint32_t n_ctx_seq, n_ubatch, n_embd, n_seq;
    uint32_t n_loras;
    uint32_t sound_rate; /* samples in a second; 0: no sounds */
    bool text, embeddings, ranks, vision;
    bool keep_billing_header; /* billing.h */
    char marker[64];          /* stands for a picture in a prompt */
};

/* Loads the vocabulary of a model file and what its makers recommend; the chats are left to the caller. The template is
 * the model's own when it is NULL; it is only read here. */
bool vr_preparer_open(struct vr_preparer *e, const char *path, const char *chat_template,
                      struct vr_err *err) VR_MUST_CHECK;

/* Reads the JSON and writes what came of it, a refusal included, to `out`. */
void vr_prepare(const struct vr_preparer *e, const struct vr_prepare_facts *is, const char *json, size_t n,
                struct vr_buf *out);

#endif
