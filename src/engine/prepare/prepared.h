/* A request that was prepared: what a worker (worker.h) makes of the JSON of a REQUEST message, and the engine process
 * takes over. Numbers, strings, tokens and pixels; nothing of it is an object of llama.cpp's.
 *
 * It travels as bytes whose layout is one function in prepared.c, for writing and for reading. The worker runs code on
 * what strangers sent, so the reader believes nothing: every count is held against the bytes that are there and against
 * the limits of a request, and every token against the vocabulary. Pure. */
#ifndef VR_ENGINE_PREPARE_PREPARED_H
#define VR_ENGINE_PREPARE_PREPARED_H

#include "base/arena.h"
#include "base/buf.h"
#include "engine/llama/forms.h"
#include "engine/prepare/sampling.h"
#include "engine/wire/limits.h"
#include "engine/wire/look.h"
#include "engine/wire/request_check.h"

#define VR_MOST_BOUNDARIES 16

struct vr_prepared {
    uint32_t kind;          /* an enum vr_request_kind */
    struct vr_ids *prompts; /* or the inputs of an embedding; none where there are pictures */
    size_t n_prompts;
    uint32_t
        *boundaries; /* where the next prompt may leave this one (boundaries.h): tokens of the only prompt, ascending */
    size_t n_boundaries;
    uint32_t n; /* choices for each */
    struct vr_sampling sampling;
    uint64_t seed;
    uint32_t max_tokens, top_logprobs;
    uint32_t n_indent;    /* of each line after the first: it ends with one that has less */
    int32_t max_ms;       /* of text, after which it ends with a line; <= 0: none */
    uint32_t slot;        /* that it wishes, and 1; 0: any */
    uint32_t look;        /* an enum vr_look */
    struct vr_span reply; /* what it wants to know, as text */
    bool stream, ignore_eos, cache, echo, logprobs, ids, timings, progress;
    bool has_lora;             /* it says which adapters it wants, and how strong: */
    float lora[VR_MOST_LORAS]; /* 0: not */
    struct vr_span *stops;     /* the request's own, then the template's */
    size_t n_stops;
    uint32_t n_own_stops;
    struct vr_grammar_spec grammar;
    struct vr_span grammar_param; /* the field that it comes from */
    bool is_chat;
    struct vr_chat_form chat;
    struct vr_span scene; /* the prompt's text with a marker for each picture; n == 0: none */
    struct vr_span cut;   /* where no token is made of both sides of it; n == 0: nowhere */
    struct vr_rgb *pictures;
    size_t n_pictures;
};

/* What came of a request. */
void vr_prepared_write(const struct vr_prepared *p, struct vr_buf *out);
void vr_refusal_write(const struct vr_refusal *why, struct vr_buf *out);

/* A prompt of n tokens where there is room for `most`, in a context of n_ctx. */
bool vr_refuse_too_long(struct vr_refusal *why, const char *param, uint64_t n, uint64_t most, uint32_t n_ctx);

enum vr_prepared_what { VR_PREPARED, VR_REFUSED, VR_MALFORMED };
/* Reads either. What `out` holds points into `data` (aligned as malloc does) and into the arena; of a refusal `code` is
 * in the arena. */
enum vr_prepared_what vr_prepared_read(const char *data, size_t n, uint32_t n_vocab, struct vr_arena *arena,
                                       struct vr_prepared *out, struct vr_refusal *why) VR_MUST_CHECK;

#endif
