/* Inside the batcher: a request's choices, each of which becomes one sequence. */
#ifndef VR_ENGINE_PROCESS_CHOICE_H
#define VR_ENGINE_PROCESS_CHOICE_H

#include "base/clock.h"
#include "engine/process/batch.h"
#include "engine/process/chain.h"
#include "engine/process/deltas.h"
#include "engine/process/guess.h"
#include "engine/process/line_ends.h"
#include "engine/process/sample.h"
#include "engine/process/slots.h"
#include "engine/process/stops.h"
#include "engine/speculate/ngram.h"
#include "engine/speculate/steer.h"

enum vr_choice_state { VR_WAITING, VR_PROMPT, VR_TEXT, VR_OVER };

struct vr_job;

struct vr_choice {
    struct vr_job *job;
    struct vr_choice *leader; /* the choice that computes their common prompt; itself for the first */
    const struct vr_prompt *prompt;
    enum vr_choice_state state;
    struct vr_slot *slot;
    const llama_token *todo; /* must be in the slot before the first (or next) token of text */
    uint32_t n_todo;
    llama_token *own; /* what todo points to when it is not the request's prompt any more */
    llama_token next; /* chosen, not computed yet */
    uint32_t n_prompt, n_text, n_reasoning, n_cached;
    uint64_t rng;
    struct vr_chain *chain;           /* NULL: it is sampled as most are */
    struct vr_grammar_state *grammar; /* NULL: none */
    struct vr_reply reply;
    struct vr_line_ends lines;
    double start_ms, first_ms;
    int32_t row;    /* of the batch, whose logits choose the next token; -1. Those of its draft follow */
    uint32_t n_add; /* tokens in the batch */
    bool prompted;  /* its prompt was just computed, to the end */
    uint32_t stop;  /* of its prompt: how many tokens are computed before the next checkpoint; VR_NO_STOP_AT */
    /* speculative decoding: what is checked behind `next`, of which the first n_guessed are guesses; how many were
     * guessed and accepted in all */
    llama_token draft[VR_MOST_DRAFT];
    uint32_t n_draft, n_guessed, n_drafted, n_accepted;
    struct vr_acceptance acceptance;
    struct vr_rest rest;
    struct vr_ngram *ngram; /* NULL: none */
};

struct vr_job {
    struct vr_job *next;
    struct vr_request *request;
    struct vr_choice *choices;
    uint32_t n, n_left;
    bool begun;
    /* embeddings: the next input, how much of it is done, and where */
    uint32_t at, done;
    double *sum;
    struct vr_slot *slot;
};

struct vr_totals {
    uint64_t prompt_tokens, text_tokens, cached_tokens, batches, begun, cancelled, errors, preempted;
    uint64_t drafted_tokens, accepted_tokens, filler_tokens;
};

struct vr_batcher {
    const struct vr_engine *e;
    struct vr_in_flight *live;
    struct vr_buf *out;
    struct vr_slots slots;
    struct vr_sampler *sampler;
    struct vr_guess *guess; /* NULL: none */
    struct llama_batch batch;
    struct vr_request **in_batch;
    struct vr_job *jobs;    /* in the order they came */
    struct vr_job *looking; /* whose picture is being computed; NULL: none */
    bool (*turn)(void *ctx);
    void *turn_ctx;
    bool dead;
    struct vr_buf piece, probs;
    struct vr_totals totals;
    uint64_t n_pieces; /* of pictures, computed */
    /* how fast it goes */
    double batch_ms;      /* of one token for each stream */
    double prompt_us;     /* of one more token of prompt */
    double began_ms;      /* computing since the engine last gave a result */
    uint32_t n_unsettled; /* prompt tokens since then */
    uint32_t n_meanwhile; /* prompt tokens since the streams had their turn, where they have turns */
    uint32_t n_runs;      /* batches of prompts alone */
    /* which adapters the context computes with, since when, and for which slot it was chosen (lora_turns.c) */
    uint64_t lora_key;
    double lora_ms;
    uint32_t lora_slot;
    double rate_ms, prompt_rate, text_rate;
    struct vr_totals rated;
};

/* The next token of a choice, from a row of logits: sampled, sent, and the end of the choice if it is one. False: the
 * whole job was ended with an error. */
bool vr_choice_sample(struct vr_batcher *b, struct vr_choice *c, const float *logits);
void vr_choice_end(struct vr_batcher *b, struct vr_choice *c, enum vr_end reason, int stop);
/* How fast a choice goes, and how far its prompt is, for requests that want to know. */
void vr_choice_say_timings(struct vr_batcher *b, const struct vr_choice *c);
void vr_choice_say_progress(struct vr_batcher *b, const struct vr_choice *c);
/* Ends the job with an ERROR frame. */
void vr_job_fail(struct vr_batcher *b, struct vr_job *j, uint16_t status, const char *message);

/* Makes the next batch: a token of every stream, of the prompts what there is time for, or both. Returns how many
 * tokens of choices are in it; 0: nothing to do. */
uint32_t vr_batch_fill(struct vr_batcher *b, bool with_prompts);
/* A pass takes the same number of tokens of each sequence. */
bool vr_batch_apart(const struct vr_batcher *b);
/* It will be one of prompts alone: the streams have their turn later. */
bool vr_batch_without_streams(const struct vr_batcher *b);
/* After computing it: what was in it only to close gaps leaves the engine's memory. */
void vr_batch_unfill(struct vr_batcher *b);
/* Tokens of one prompt that the streams can wait for. */
uint32_t vr_batch_chunk(const struct vr_batcher *b);
/* Computes one picture. False: there is none. rc is llama_decode's; b->dead is set when a turn of the others failed. */
bool vr_vision_step(struct vr_batcher *b, int *rc, struct vr_err *err);
/* The picture that is the next thing to compute for a choice; NULL: text is, or nothing. */
const struct vr_picture *vr_choice_picture(const struct vr_choice *c);

/* Adapters: a batch is computed with one set of scales, and only choices with that set are in it. Those with others
 * have their turn later. These return llama_decode's codes. */
int vr_lora_turn(struct vr_batcher *b, struct vr_err *err);
int vr_lora_use(struct vr_batcher *b, const struct vr_request *r, struct vr_err *err);
static inline bool vr_lora_fits(const struct vr_batcher *b, const struct vr_request *r)
{
    return r->lora.key == b->lora_key;
}

/* Embeddings, one batch of them. False: nothing to do. rc is llama_decode's. */
bool vr_embed_step(struct vr_batcher *b, int *rc, struct vr_err *err);
/* Forgets a job all of whose choices are over. */
void vr_job_free(struct vr_batcher *b, struct vr_job *j);

#endif
