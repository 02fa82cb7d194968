/* The draft model has a context of its own with the same sequences. What it has computed of a sequence may lag behind
 * (while many streams ran, nothing was drafted) or have run ahead (drafted tokens that were rejected): before drafting,
 * each sequence is cut to the prefix that it shares with the stream and fed the rest, a piece per step so that nobody
 * waits for it long. */
#include "engine/process/draft.h"

#include <string.h>

#include "engine/process/choice.h"

enum { CATCH_UP = 256 };

struct sequence {
    llama_token *tokens; /* what the draft's KV cache holds */
    uint32_t n;
    uint64_t tenant;          /* whose they are; another's are no shortcut, as in slots.h */
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
    bool broken; /* it failed once: the model goes on alone */
};

struct vr_draft *vr_draft_new(const struct vr_engine *e, struct vr_err *err)
{
    struct vr_draft *d = calloc(1, sizeof *d);
    if (!d) return vr_fail_nomem(err, "allocating the draft buffers"), NULL;
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
    if (ok) return d;
    vr_draft_free(d);
    return vr_fail_nomem(err, "allocating the draft buffers"), NULL;
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

/* Cuts the draft's sequence to what it shares with the stream, and feeds it the rest or a piece of it. */
static void feed(struct vr_draft *d, struct sequence *s, struct vr_choice *c)
{
    uint32_t all = c->slot->n + 1, k = 0;
    while (s->tenant == c->slot->tenant && k < s->n && k + 1 < all && s->tokens[k] == token_at(c, k)) k++;
    if (k < s->n && !llama_memory_seq_rm(d->memory, (llama_seq_id)(s - d->seqs), (llama_pos)k, -1)) {
        llama_memory_seq_rm(d->memory, (llama_seq_id)(s - d->seqs), -1, -1);
        k = 0;
    }
    s->n = k;
    s->tenant = c->slot->tenant;
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
        if (s->choice->n_draft < s->want) put(d, s, token, true);
    }
}

void vr_draft_guess(struct vr_draft *d, struct vr_batcher *b, const struct vr_pick *picks, uint32_t n)
{
    if (d->broken) return;
    d->batch.n_tokens = 0;
    for (uint32_t i = 0; i < d->n_seq; i++) d->seqs[i].choice = NULL;
    for (uint32_t i = 0; i < n; i++) {
        if (picks[i].want == 0) continue;
        struct sequence *s = &d->seqs[picks[i].c->slot->seq];
        s->choice = picks[i].c;
        s->want = picks[i].want;
        feed(d, s, s->choice);
    }
    while (d->batch.n_tokens) {
        if (!compute(b, d)) return;
        draft_all(b, d);
    }
}
