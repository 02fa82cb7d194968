/* What happens to one choice when the model has computed: choosing a token, saying it, ending. */
#include "engine/process/choice.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"

/* --- ending --- */

/* Gives back what a choice holds. */
static void drop(struct vr_batcher *b, struct vr_choice *c)
{
    if (c->state == VR_OVER) return;
    c->state = VR_OVER;
    c->row = -1;
    if (c->slot) vr_slots_give(&b->slots, c->slot);
    c->slot = NULL;
    vr_grammar_end(c->grammar);
    c->grammar = NULL;
    vr_chain_free(c->chain);
    c->chain = NULL;
    vr_ngram_free(c->ngram);
    c->ngram = NULL;
    vr_reply_done(&c->reply);
    free(c->own);
    c->own = NULL;
    c->job->n_left--;
}

void vr_choice_end(struct vr_batcher *b, struct vr_choice *c, enum vr_end reason, int stop)
{
    const struct vr_request *r = c->job->request;
    double now = vr_now_fine_ms();
    if (!r->stream) vr_choice_say_timings(b, c);
    if (reason == VR_END_STOP || reason == VR_END_LENGTH) {
        vr_reply_end(&c->reply, stop >= 0, b->out);
        if (c->reply.refused) return vr_job_fail(b, c->job, 400, c->reply.refused);
        bool complete = reason == VR_END_STOP || vr_reply_is_full(&c->reply);
        if (complete && vr_reply_has_tools(&c->reply)) reason = VR_END_TOOL_CALLS;
    }
    struct vr_wire_end end = {
        .choice = (uint8_t)(c - c->job->choices),
        .reason = reason,
        .stop = stop >= 0 && (size_t)stop < r->n_own_stops ? (uint8_t)stop : VR_NO_STOP,
        .completion_tokens = c->n_text,
        .reasoning_tokens = c->n_reasoning,
        .cached_tokens = c->leader == c ? c->n_cached : 0,
        .drafted_tokens = c->n_drafted,
        .accepted_tokens = c->n_accepted,
        .slot = c->slot ? (uint32_t)c->slot->seq + 1 : 0,
        .queue_ms = (float)((c->start_ms ? c->start_ms : now) - r->arrived_ms),
        .prompt_ms = c->start_ms ? (float)((c->first_ms ? c->first_ms : now) - c->start_ms) : 0,
        .text_ms = c->first_ms ? (float)(now - c->first_ms) : 0,
    };
    vr_wire_add_end(b->out, r->id, &end);
    drop(b, c);
}

void vr_job_fail(struct vr_batcher *b, struct vr_job *j, uint16_t status, const char *message)
{
    vr_wire_add_error(b->out, j->request->id, status, NULL, NULL, message);
    for (uint32_t i = 0; i < j->n; i++) drop(b, &j->choices[i]);
    j->n_left = 0;
    b->totals.errors++;
}

void vr_job_free(struct vr_batcher *b, struct vr_job *j)
{
    for (uint32_t i = 0; i < j->n; i++) drop(b, &j->choices[i]);
    if (j->slot) vr_slots_let(&b->slots, j->slot);
    vr_in_flight_remove(b->live, j->request);
    vr_request_free(j->request);
    free(j->choices);
    free(j->sum);
    free(j);
}

/* --- choosing --- */

struct gate {
    struct vr_grammar_state *grammar;
    struct vr_err err;
};

static bool gate_allows(void *ctx, int32_t token, bool *yes)
{
    struct gate *g = ctx;
    return vr_grammar_allows(g->grammar, token, yes, &g->err);
}

/* A few are asked about one by one; for many, a mask of the whole vocabulary is made. */
static bool gate_filter(void *ctx, struct vr_candidate *c, size_t n)
{
    enum { FEW = 1024 };
    struct gate *g = ctx;
    const uint64_t *mask = NULL;
    if (n > FEW && !vr_grammar_mask(g->grammar, &mask, &g->err)) return false;
    for (size_t i = 0; i < n; i++) {
        bool yes = !mask || mask[c[i].id / 64] >> c[i].id % 64 & 1;
        if (n <= FEW && !gate_allows(ctx, c[i].id, &yes)) return false;
        if (!yes) c[i].logit = -INFINITY;
    }
    return true;
}

/* -1 when there is none, and why in err. */
static llama_token choose(struct vr_batcher *b, struct vr_choice *c, const float *logits, struct vr_err *err)
{
    const struct vr_request *r = c->job->request;
    struct vr_history said = { c->slot->tokens, c->n_prompt, c->slot->n };
    struct gate g = { .grammar = c->grammar };
    const struct vr_gate gate = { gate_allows, gate_filter, &g };
    const struct vr_gate *held = c->grammar ? &gate : NULL;
    llama_token token = c->chain ? vr_chain_sample(c->chain, &r->sampling, logits, &said, held)
                                 : vr_sample(b->sampler, &r->sampling, &c->rng, logits, &said, held);
    if (token < 0) {
        if (g.err.msg[0])
            *err = g.err;
        else if (c->grammar)
            vr_fail(err, VR_EUSAGE, "the grammar allows no further token");
        else
            vr_fail(err, VR_EENGINE, "the model's logits are not finite");
        return -1;
    }
    if (!c->grammar || llama_vocab_is_eog(b->e->vocab, token)) return token;
    return vr_grammar_accept(c->grammar, token, err) ? token : -1;
}

/* --- saying --- */

/* A token's bytes, in b->piece. */
static void read_piece(struct vr_batcher *b, const struct vr_choice *c, llama_token token)
{
    const struct vr_chat *chat = c->job->request->chat;
    bool special = chat && vr_bridge_chat_keeps(chat, token);
    char small[256];
    vr_buf_clear(&b->piece);
    int32_t n = llama_token_to_piece(b->e->vocab, token, small, sizeof small, 0, special);
    if (n >= 0) {
        vr_buf_add(&b->piece, small, (size_t)n);
        return;
    }
    vr_buf_addc(&b->piece, 0, (size_t)-n);
    if (!b->piece.failed) llama_token_to_piece(b->e->vocab, token, b->piece.data, -n, 0, special);
}

static void add_prob(struct vr_batcher *b, llama_token token, const char *key, float value)
{
    char bytes[256];
    int32_t n = token < 0 ? 0 : llama_token_to_piece(b->e->vocab, token, bytes, sizeof bytes - 1, 0, true);
    if (n < 0) n = 0;
    bytes[n] = '\0';
    vr_buf_addf(&b->probs, "{\"id\":%d,\"token\":", token);
    vr_json_add_string(&b->probs, bytes);
    vr_buf_addf(&b->probs, ",\"%s\":%.6g,\"bytes\":[", key, isfinite(value) ? (double)value : -9999.0);
    for (int32_t i = 0; i < n; i++) vr_buf_addf(&b->probs, "%s%d", i ? "," : "", (unsigned char)bytes[i]);
    vr_buf_adds(&b->probs, "]");
}

/* As the model has it; or, where that was asked for, among the tokens that the samplers had left. */
static void read_probs(struct vr_batcher *b, const struct vr_choice *c, llama_token token, const float *logits)
{
    const struct vr_request *r = c->job->request;
    struct vr_candidate top[VR_MOST_TOP_LOGPROBS];
    bool left = r->sampling.chain.tells;
    const char *key = left ? "prob" : "logprob";
    vr_buf_clear(&b->probs);
    float value = left ? vr_chain_probs(c->chain, token, top, r->top_logprobs)
                       : vr_logprobs(b->sampler, logits, token, top, r->top_logprobs);
    add_prob(b, token, key, value);
    vr_buf_addf(&b->probs, ",\"top_%ss\":[", key);
    for (uint32_t i = 0; i < r->top_logprobs && top[i].id >= 0; i++) {
        if (i) vr_buf_addc(&b->probs, ',', 1);
        add_prob(b, top[i].id, key, top[i].logit);
        vr_buf_addc(&b->probs, '}', 1);
    }
    vr_buf_adds(&b->probs, "]}");
}

static void read_id(struct vr_batcher *b, llama_token token)
{
    vr_buf_clear(&b->probs);
    vr_buf_addf(&b->probs, "{\"id\":%d}", token);
}

bool vr_choice_sample(struct vr_batcher *b, struct vr_choice *c, const float *logits)
{
    struct vr_request *r = c->job->request;
    struct vr_err err = { 0 };
    bool over = false;
    if (r->max_tokens == 0) return vr_choice_end(b, c, VR_END_LENGTH, -1), true; /* its prompt was to be computed */
    llama_token token = choose(b, c, logits, &err);
    if (token < 0) return vr_job_fail(b, c->job, err.code == VR_EUSAGE ? 400 : 500, err.msg), false;
    if (!c->first_ms) c->first_ms = vr_now_fine_ms();
    c->state = VR_TEXT;
    c->next = token;
    if (llama_vocab_is_eog(b->e->vocab, token) && !r->ignore_eos) return vr_choice_end(b, c, VR_END_STOP, -1), true;
    c->n_text++;
    b->totals.text_tokens++;
    if (r->stream) vr_choice_say_timings(b, c);
    read_piece(b, c, token);
    if (r->logprobs)
        read_probs(b, c, token, logits);
    else if (r->ids)
        read_id(b, token);
    bool late = r->max_ms > 0 && vr_now_fine_ms() - c->first_ms > r->max_ms;
    size_t n = vr_line_ends_add(&c->lines, vr_buf_str(&b->piece), b->piece.n, r->n_indent, late, &over);
    int stop = vr_reply_add(&c->reply, vr_buf_str(&b->piece), n, r->logprobs || r->ids ? &b->probs : NULL, b->out);
    c->n_reasoning += c->reply.reasoning;
    if (c->reply.failed || b->piece.failed || b->probs.failed)
        return vr_job_fail(b, c->job, 500, "out of memory while writing the answer"), false;
    if (c->reply.refused) return vr_job_fail(b, c->job, 400, c->reply.refused), false;
    if (stop >= 0 || vr_reply_is_full(&c->reply))
        vr_choice_end(b, c, VR_END_STOP, stop);
    else if (over || c->n_text >= r->max_tokens || c->slot->n + 1 > b->e->n_ctx_seq)
        vr_choice_end(b, c, VR_END_LENGTH, -1);
    return true;
}
