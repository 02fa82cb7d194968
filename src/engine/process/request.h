/* A request in the engine process: as it came, while workers prepare it (engine/prepare), and then as the batcher
 * computes it. Accepting is what makes the second of the first: what a worker wrote is checked, and grammar, parser and
 * pictures are made of it, which takes objects of llama.cpp's that only this process has. */
#ifndef VR_ENGINE_PROCESS_REQUEST_H
#define VR_ENGINE_PROCESS_REQUEST_H

#include <stdatomic.h>

#include "base/arena.h"
#include "engine/prepare/pool.h"
#include "engine/process/loader.h"
#include "engine/wire/limits.h"
#include "engine/wire/look.h"
#include "engine/wire/wire.h"
#include "engine/wire/request_check.h"

struct vr_picture {        /* of a prompt */
    uint32_t at, n, n_pos; /* its first token, tokens and positions */
    uint32_t part;         /* of the scene */
};

struct vr_prompt {
    llama_token *tokens;
    uint32_t n;
    struct vr_media_prompt *scene; /* NULL: text alone */
    struct vr_picture *pictures;   /* in the arena */
    uint32_t n_pictures;
    uint32_t *boundaries; /* where the next prompt may leave this one: ascending, in the arena */
    uint32_t n_boundaries;
};

struct vr_request {
    struct vr_request *next; /* of the list that it is in */
    uint32_t id;
    struct vr_prepare_job job; /* its body is as it came, until it is prepared */
    struct vr_buf answer;      /* what the worker wrote, until it is accepted */
    atomic_bool cancelled;     /* set by the thread that hears of it */
    bool in_batch;             /* being computed right now */
    double arrived_ms;

    enum vr_request_kind kind;
    enum vr_look look;         /* something about it is wanted, and no answer */
    struct vr_buf reply;       /* that, as text */
    struct vr_prompt *prompts; /* or the inputs of an embedding */
    uint32_t n_prompts, n;     /* n choices for each */
    struct vr_sampling sampling;
    uint64_t seed;
    uint32_t max_tokens;
    uint32_t n_indent; /* of each line after the first: it ends with one that has less */
    int32_t max_ms;    /* of text, after which it ends with a line; <= 0: none */
    bool stream, ignore_eos, cache, echo, logprobs;
    bool ids;                  /* of the tokens are told, as logprobs are */
    bool timings, progress;    /* wants to know how fast it goes, and how far its prompt is */
    struct llama_sampler *dry; /* of its chain, to be copied; NULL: none */
    uint32_t top_logprobs;
    uint32_t slot;      /* that it wishes, and 1; 0: any */
    const char **stops; /* the request's own, then the template's */
    size_t n_stops, n_own_stops;
    struct vr_chat *chat;         /* NULL: no chat */
    struct vr_whose whose;        /* who shares slots and cached prompts with whom */
    struct vr_lora_scales lora;   /* the adapters that it is computed with */
    struct vr_grammar *grammar;   /* NULL: none */
    struct vr_patterns *patterns; /* of the grammar's triggers */
    struct vr_arena arena;
};

/* Takes over `json` (malloc'd). NULL when memory is out: json is freed then, too. */
struct vr_request *vr_request_new(uint32_t id, char *json, size_t n, double now_ms) VR_MUST_CHECK;
void vr_request_free(struct vr_request *r);
struct vr_request *vr_request_of(struct vr_prepare_job *job);

/* Takes over what a worker wrote, which is not trusted. False: it was a refusal, or becomes one. */
bool vr_request_accept(struct vr_request *r, const struct vr_engine *e, struct vr_refusal *why) VR_MUST_CHECK;
/* What was prepared is large, as pictures are: accepting it takes longer. */
bool vr_request_is_large(const struct vr_request *r);

#endif
