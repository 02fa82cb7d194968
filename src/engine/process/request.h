/* A request, read: from the JSON of a REQUEST message to tokens, sampling settings, grammar and parser.
 *
 * All that can be refused is refused here, before the model is asked for anything, and all that takes long without the
 * model (templates, tokens, grammars) is done here, in a thread of its own. */
#ifndef VR_ENGINE_PROCESS_REQUEST_H
#define VR_ENGINE_PROCESS_REQUEST_H

#include <stdatomic.h>

#include "base/arena.h"
#include "engine/process/loader.h"
#include "engine/wire/limits.h"

enum vr_request_kind { VR_CHAT, VR_COMPLETION, VR_EMBEDDING };

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

/* Why a request is refused, as the client is told. */
struct vr_refusal {
    uint16_t status;
    const char *type, *code; /* code may be NULL */
    char param[64];          /* "" none */
    char message[1100];
};

/* Takes over `json` (malloc'd). NULL when memory is out: json is freed then, too. */
struct vr_request *vr_request_new(uint32_t id, char *json, size_t n, double now_ms) VR_MUST_CHECK;
void vr_request_free(struct vr_request *r);

/* Reads the JSON. */
bool vr_request_read(struct vr_request *r, const struct vr_engine *e, struct vr_refusal *why) VR_MUST_CHECK;

#endif
