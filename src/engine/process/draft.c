/* The draft model has a context of its own with the same sequences. What it has computed of a sequence may lag behind
 * (while many streams ran, nothing was drafted) or have run ahead (drafted tokens that were rejected): before drafting,
 * each sequence is cut to the prefix that it shares with the stream and fed the rest, a piece per step so that nobody
 * waits for it long.
 *
 * A stream whose drafts cost more than they save, by the times measured, is not drafted for during PAUSE tokens. */
#include "engine/process/draft.h"

#include <string.h>

#include "engine/process/choice.h"

enum { CATCH_UP = 256, REVIEW = 24, PAUSE = 64 };

struct sequence {
    llama_token *tokens; /* what the draft's KV cache holds */
    uint32_t n;
    struct vr_choice *choice; /* whose next tokens are drafted; NULL: none */
    int32_t row;              /* of the batch, whose logits give the next draft token */
    uint32_t want;
};

struct vr_draft {
    struct sequence *seqs; /* as the slots */
    uint32_t n_seq, n_vocab, n_batch;
    struct llama_batch batch;
    struct vr_sampler *sampler;
    llama_memory_t memory;
    bool broken;     /* it failed once: the model goes on alone */
    double token_ms; /* what one drafted token takes, smoothed */
};

bool vr_draft_new(const struct vr_engine *e, struct vr_draft **out, struct vr_err *err)
{
    *out = NULL;
    if (!e->draft) return true;
    struct vr_draft *d = calloc(1, sizeof *d);
    if (!d) return vr_fail_nomem(err, "allocating the draft buffers");
    d->n_seq = e->n_seq;
    d->n_vocab = (uint32_t)llama_vocab_n_tokens(llama_model_get_vocab(e->draft_model));
    d->n_batch = llama_n_batch(e->draft);
    d->memory = llama_get_memory(e->draft);
    d->batch = llama_batch_init((int32_t)d->n_batch, 0, 1);
    d->sampler = vr_sampler_new(d->n_vocab);
    d->seqs = calloc(d->n_seq, sizeof *d->seqs);
    bool ok = d->batch.token && d->sampler && d->seqs;
    for (uint32_t i = 0; ok && i < d->n_seq; i++)
        ok = (d->seqs[i].tokens = calloc((size_t)e->n_ctx_seq + VR_MOST_DRAFT + 1, sizeof(llama_token))) != NULL;
    if (ok) return *out = d, true;
    vr_draft_free(d);
    return vr_fail_nomem(err, "allocating the draft buffers");
}

void vr_draft_free(struct vr_draft *d)
{
    if (!d) return;
    for (uint32_t i = 0; d->seqs && i < d->n_seq; i++) free(d->seqs[i].tokens);
    free(d->seqs);
    vr_sampler_free(d->sampler);
    llama_batch_free(d->batch);
    free(d);
}

static llama_token token_at(const struct vr_choice *c, uint32_t i)
{
    return i < c->slot->n ? c->slot->tokens[i] : c->next;
}

static void put(struct vr_draft *d, struct sequence *s, llama_token token, bool logits)
{
    struct llama_batch *t = &d->batch;
    int32_t i = t->n_tokens++;
    t->token[i] = token;
    t->pos[i] = (llama_pos)s->n;
    t->n_seq_id[i] = 1;
    t->seq_id[i][0] = (llama_seq_id)(s - d->seqs);
    t->logits[i] = logits;
    if (logits) s->row = i;
    s->tokens[s->n++] = token;
}

/* How many drafted tokens a choice has use for. */
static uint32_t wanted(const struct vr_batcher *b, const struct vr_choice *c)
{
    const struct vr_request *r = c->job->request;
    uint32_t n = b->e->n_draft, room = b->e->n_ctx_seq, left = r->max_tokens - c->n_text;
    uint32_t used = c->slot->n + 2; /* the next token, and the one that the target adds to the draft */
    if (c->n_pause || left < 2 || used >= room) return 0;
    if (n > left - 1) n = left - 1;
    return n < room - used ? n : room - used;
}

/* Cuts the draft's sequence to what it shares with the stream, and feeds it the rest or a piece of it. */
static void feed(struct vr_draft *d, struct sequence *s, struct vr_choice *c)
{
    uint32_t all = c->slot->n + 1, k = 0;
    while (k < s->n && k + 1 < all && s->tokens[k] == token_at(c, k)) k++;
    if (k < s->n && !llama_memory_seq_rm(d->memory, (llama_seq_id)(s - d->seqs), (llama_pos)k, -1)) {
        llama_memory_seq_rm(d->memory, (llama_seq_id)(s - d->seqs), -1, -1);
        k = 0;
    }
    s->n = k;
    s->row = -1;
    for (uint32_t piece = 0; s->n < all && piece < CATCH_UP && (uint32_t)d->batch.n_tokens < d->n_batch; piece++) {
        llama_token token = token_at(c, s->n);
        if ((uint32_t)token >= d->n_vocab) break; /* one that only the target has */
        put(d, s, token, s->n + 1 == all);
    }
}

static bool compute(struct vr_batcher *b, struct vr_draft *d)
{
    struct vr_err err = { 0 };
    int rc = d->batch.n_tokens ? vr_bridge_decode(b->e->draft, d->batch, &err) : 0;
    if (rc == 0) return true;
    d->broken = rc < 0;
    llama_memory_clear(d->memory, false);
    for (uint32_t i = 0; i < d->n_seq; i++) d->seqs[i].n = 0;
    return false;
}

/* The draft model's most likely token behind what it was fed; -1: none. */
static llama_token draft_token(struct vr_batcher *b, struct vr_draft *d, struct sequence *s)
{
    static const struct vr_sampling greedy = { .repeat = 1, .top_p = 1 };
    uint64_t no_luck = 0;
    const float *logits = llama_get_logits_ith(b->e->draft, s->row);
    llama_token token = logits ? vr_sample(d->sampler, &greedy, &no_luck, logits, NULL, NULL) : -1;
    bool usable = token >= 0 && (uint32_t)token < b->e->n_vocab && !llama_vocab_is_eog(b->e->vocab, token);
    return usable ? token : -1;
}

/* One more drafted token for everybody who wants one; the batch becomes what is to be computed for the next ones. */
static void draft_all(struct vr_batcher *b, struct vr_draft *d)
{
    d->batch.n_tokens = 0;
    llama_synchronize(b->e->draft);
    for (uint32_t i = 0; i < d->n_seq; i++) {
        struct sequence *s = &d->seqs[i];
        if (!s->choice || s->row < 0) continue;
        llama_token token = draft_token(b, d, s);
        s->row = -1;
        if (token < 0) continue;
        s->choice->draft[s->choice->n_draft++] = token;
        s->choice->n_drafted++;
        b->totals.drafted_tokens++;
        if (s->choice->n_draft < s->want) put(d, s, token, true);
    }
}

/* Whether drafts have paid off in this stream: each token costs token_ms, each that is accepted saves a step. */
static void review(struct vr_batcher *b, struct vr_draft *d, struct vr_choice *c)
{
    uint32_t drafted = c->n_drafted - c->reviewed_drafted, accepted = c->n_accepted - c->reviewed_accepted;
    if (drafted < REVIEW) return;
    if (accepted * b->batch_ms < drafted * d->token_ms) c->n_pause = PAUSE;
    c->reviewed_drafted = c->n_drafted;
    c->reviewed_accepted = c->n_accepted;
}

/* The streams that generate and have use for a draft. Returns how many. */
static uint32_t choose(struct vr_batcher *b, struct vr_draft *d)
{
    uint32_t streams = 0, n = 0;
    for (uint32_t i = 0; i < d->n_seq; i++) {
        const struct vr_choice *c = b->slots.slot[i].choice;
        d->seqs[i].choice = NULL;
        streams += c && c->state == VR_TEXT;
    }
    if (streams == 0 || streams > VR_DRAFT_STREAMS) return 0;
    for (uint32_t i = 0; i < d->n_seq; i++) {
        struct vr_choice *c = b->slots.slot[i].choice;
        if (!c || c->state != VR_TEXT) continue;
        review(b, d, c);
        if (c->n_pause) c->n_pause--;
        d->seqs[i].want = wanted(b, c);
        if (d->seqs[i].want == 0) continue;
        d->seqs[i].choice = c;
        n++;
    }
    return n;
}

void vr_draft_step(struct vr_batcher *b)
{
    struct vr_draft *d = b->draft;
    if (!d || d->broken || choose(b, d) == 0) return;
    d->batch.n_tokens = 0;
    for (uint32_t i = 0; i < d->n_seq; i++)
        if (d->seqs[i].choice) feed(d, &d->seqs[i], d->seqs[i].choice);
    for (bool first = true; d->batch.n_tokens; first = false) {
        double t0 = vr_now_fine_ms();
        if (!compute(b, d)) return;
        draft_all(b, d);
        double ms = vr_now_fine_ms() - t0; /* the first one also fed what was missing */
        if (!first) d->token_ms = d->token_ms > 0 ? d->token_ms * 0.9 + ms * 0.1 : ms;
    }
}
