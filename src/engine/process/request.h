/* A request, read: from the JSON of a REQUEST message to tokens, sampling settings, grammar and parser.
 *
 * The front has checked it (vr_request_check), which is relied on here. What only the model can refuse is refused
 * here, before it computes anything, and all that takes long without computing (templates, tokens, grammars) is done
 * here, in a thread of its own. */
#ifndef VR_ENGINE_PROCESS_REQUEST_H
#define VR_ENGINE_PROCESS_REQUEST_H

#include <stdatomic.h>

#include "base/arena.h"
#include "engine/process/loader.h"
#include "engine/wire/limits.h"
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
};

struct vr_request {
    struct vr_request *next; /* of the list that it is in */
    uint32_t id;
    char *json; /* as it came, until it is read */
    size_t n_json;
    atomic_bool cancelled; /* set by the thread that hears of it */
    bool in_batch;         /* being computed right now */
    double arrived_ms;

    enum vr_request_kind kind;
    struct vr_prompt *prompts; /* or the inputs of an embedding */
    uint32_t n_prompts, n;     /* n choices for each */
    struct vr_sampling sampling;
    uint64_t seed;
    uint32_t max_tokens;
    bool stream, ignore_eos, cache, echo, logprobs;
    uint32_t top_logprobs;
    const char **stops; /* the request's own, then the template's */
    size_t n_stops, n_own_stops;
    struct vr_chat *chat;       /* NULL: no chat */
    struct vr_grammar *grammar; /* NULL: none; at the beginning, to be copied for each choice */
    struct vr_arena arena;
};

/* Takes over `json` (malloc'd). NULL when memory is out: json is freed then, too. */
struct vr_request *vr_request_new(uint32_t id, char *json, size_t n, double now_ms) VR_MUST_CHECK;
void vr_request_free(struct vr_request *r);

/* Reads the JSON. */
bool vr_request_read(struct vr_request *r, const struct vr_engine *e, struct vr_refusal *why) VR_MUST_CHECK;

#endif
