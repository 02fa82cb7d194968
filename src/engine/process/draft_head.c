/* The head has a context of its own with the same sequences, and is fed what the model computes: each token with the
 * model's hidden state of the one before it. A guess is such a pair, too; the next one has the head's own hidden state.
 *
 * Prompts are fed as the model computes them. Of a stream the hidden states of the last tokens are kept, and what was
 * accepted is fed before the next guess: a stream that rests costs nothing, and wrong guesses are never fed.
 *
 * What a slot holds may come from elsewhere (another slot, the prompt cache, a picture), and a stream may have rested
 * for longer than states are kept: then the head goes on without what it missed. It guesses worse for a while, and
 * nothing is wrong. Hidden states are of one tenant and never used for another.
 *
 * An EAGLE-3 head is the same with more before it: what it is fed for a token are the inputs of some of the model's
 * layers side by side, its features, of which its encoder makes the hidden state that its decoder reads. They are kept
 * as they are, and encoded when they are fed. It has no row for the first token of a text, which none comes before.
 *
 * A DFlash head takes the features of a token at the token's own place, straight into its cache. It guesses a block:
 * the next token and as many masked ones behind it as there shall be guesses, which see each other and everything
 * before. Of a DSpark head the next token's own place can be a guess, too.
 *
 * A head that shares the model's cache (a Gemma 4 assistant) is fed nothing: keys and values are there. Of the tokens
 * of a step it is given one after the other, each with the hidden state before it, and all at the place of the first.
 */
#include "engine/process/draft_head.h"

#include <string.h>

#include "engine/llama/bridge_nextn.h"
#include "engine/process/choice.h"

enum { STEP = VR_MOST_DRAFT + 1 /* rows of a stream in a step, at most */, KEPT = 2 * STEP };

struct head_seq {
    llama_token *tokens; /* that the model computed; the head may have missed some */
    uint32_t n;
    uint64_t tenant;
    float *states; /* hidden ones, or features, of the tokens from `first` on; KEPT at most */
    uint32_t first, n_states;
    uint32_t fed;             /* tokens up to which the head's cache is what the model computed */
    llama_token fed_last;     /* the last one of them, which the model had yet to compute */
    struct vr_choice *choice; /* that wants guesses; NULL: none */
    int32_t row;
    uint32_t want;
};

struct vr_draft_head {
    const struct vr_engine *e;
    struct llama_context *ctx; /* the head's */
    uint32_t n_batch, n_vocab; /* rows that it is fed at once, and its own tokens */
    uint32_t width, wide;      /* dimensions of what it is fed; of what the model gives out for a token */
    uint32_t tapped;           /* of that, a layer's part */
    float *features;           /* EAGLE-3: of rows that are not encoded yet, at most n_features of them; else NULL */
    uint32_t n_features, encoded;
    bool blocks, guessing; /* it guesses blocks; the batch is such */
    llama_token mask;      /* what a block has in the place of guesses */
    float *row;            /* one that was put together */
    struct head_seq *seqs; /* as the slots */
    struct llama_batch batch;
    struct vr_sampler *sampler;
    llama_memory_t memory;
    bool broken; /* it failed once: the model goes on alone */
};

struct llama_batch vr_draft_head_batch(uint32_t n, uint32_t width)
{
    struct llama_batch b = llama_batch_init((int32_t)n, (int32_t)width, 1);
    b.token = calloc(n, sizeof *b.token); /* it makes only one of both */
    llama_pos *places = calloc(4 * (size_t)n, sizeof *places);
    if (places) free(b.pos), b.pos = places;
    if (!places) free(b.token), b.token = NULL;
    return b;
}

/* Without tokens, the engine wants places of several dimensions written out, where a model has such. */
struct llama_batch vr_draft_head_given(struct llama_batch *b)
{
    struct llama_batch given = *b;
    size_t n = (size_t)b->n_tokens;
    memcpy(b->pos + n, b->pos, n * sizeof *b->pos);
    memcpy(b->pos + 2 * n, b->pos, n * sizeof *b->pos);
    memset(b->pos + 3 * n, 0, n * sizeof *b->pos);
    given.token = NULL;
    return given;
}

void vr_draft_head_batch_free(struct llama_batch b) { llama_batch_free(b); /* and the tokens with it */ }

struct vr_draft_head *vr_draft_head_new(const struct vr_engine *e, struct vr_err *err)
{
    struct vr_draft_head *m = calloc(1, sizeof *m);
    if (!m) return vr_fail_nomem(err, "preparing the draft head"), NULL;
    m->e = e;
    m->ctx = e->head ? e->head : e->draft;
    const struct llama_model *head = llama_get_model(m->ctx);
    m->n_vocab = (uint32_t)llama_vocab_n_tokens(llama_model_get_vocab(head));
    uint32_t own = (uint32_t)llama_model_n_embd(head);
    m->blocks = vr_spec_guesses_blocks(e->spec);
    m->mask = llama_vocab_mask(llama_model_get_vocab(head));
    m->tapped = (uint32_t)llama_model_n_embd(e->model);
    m->wide = e->n_taps ? (uint32_t)e->n_taps * m->tapped : e->n_embd;
    m->width = m->blocks ? m->wide : e->n_taps ? own : e->n_embd;
    m->n_features = vr_head_rows(llama_n_ubatch(m->ctx), m->wide, own);
    m->n_batch = m->blocks ? m->n_features : llama_n_batch(m->ctx);
    m->memory = llama_get_memory(m->ctx);
    m->batch = vr_draft_head_batch(llama_n_batch(m->ctx), m->width);
    m->sampler = vr_sampler_new(m->n_vocab);
    m->seqs = calloc(e->n_seq, sizeof *m->seqs);
    m->row = calloc(m->wide, sizeof *m->row);
    bool ok = m->batch.token && m->batch.embd && m->sampler && m->seqs && m->row;
    if (e->n_taps && !m->blocks) {
        m->features = calloc((size_t)m->n_features * m->wide, sizeof *m->features);
        ok &= m->features != NULL;
    }
    for (uint32_t i = 0; ok && i < e->n_seq; i++) {
        m->seqs[i].tokens = calloc((size_t)e->n_ctx_seq + STEP, sizeof(llama_token));
        m->seqs[i].states = calloc((size_t)KEPT * m->wide, sizeof(float));
        ok = m->seqs[i].tokens && m->seqs[i].states;
    }
    if (ok) return m;
    vr_draft_head_free(m);
    return vr_fail_nomem(err, "preparing the draft head"), NULL;
}

void vr_draft_head_free(struct vr_draft_head *m)
{
    if (!m) return;
    for (uint32_t i = 0; m->seqs && i < m->e->n_seq; i++) {
        free(m->seqs[i].tokens);
        free(m->seqs[i].states);
    }
    free(m->seqs);
    free(m->features);
    free(m->row);
    vr_sampler_free(m->sampler);
    vr_draft_head_batch_free(m->batch);
    free(m);
}

/* --- sequences --- */

static bool knows(const struct head_seq *s, const struct vr_slot *slot)
{
    return s->tenant == slot->tenant && s->n && s->n >= slot->n &&
           memcmp(s->tokens, slot->tokens, slot->n * sizeof *slot->tokens) == 0;
}

/* What the model gave out for token n, or for the one before it; NULL: it was not kept, or there is none. */
static const float *state_of(const struct vr_draft_head *m, const struct head_seq *s, uint32_t n)
{
    if (n < s->first || n - s->first >= s->n_states) return NULL;
    return s->states + (size_t)(n - s->first) * m->wide;
}

static const float *state_before(const struct vr_draft_head *m, const struct head_seq *s, uint32_t n)
{
    return n ? state_of(m, s, n - 1) : NULL;
}

/* What the model gave out for a row of its last batch, until the next call; NULL: nothing. */
static const float *given(struct vr_draft_head *m, int32_t row)
{
    size_t each = m->tapped;
    if (!m->e->n_taps) return vr_bridge_nextn(m->e->ctx, row);
    for (size_t i = 0; i < m->e->n_taps; i++)
        memcpy(m->row + i * each, vr_bridge_tap(m->e->ctx, m->e->taps[i]) + (size_t)row * each, each * sizeof *m->row);
    return m->row;
}

/* The head's cache ends before token n: guesses leave it, and what does not reach up to there is of no use. */
static void align(const struct vr_draft_head *m, const struct vr_slot *slot, uint32_t n)
{
    llama_pos next = vr_slot_pos(slot, n);
    llama_memory_seq_rm(m->memory, slot->seq, next, -1);
    if (llama_memory_seq_pos_max(m->memory, slot->seq) + 1 != next) llama_memory_seq_rm(m->memory, slot->seq, -1, -1);
}

/* The rows of the batch that have features become such with hidden states. */
static int encode(struct vr_draft_head *m)
{
    struct vr_err err = { 0 };
    uint32_t n = (uint32_t)m->batch.n_tokens - m->encoded;
    struct llama_batch b = { .n_tokens = (int32_t)n, .embd = m->features };
    int rc = m->features && n ? vr_bridge_encode(m->ctx, b, &err) : 0;
    for (uint32_t i = 0; rc == 0 && m->features && i < n; i++) {
        const float *state = vr_bridge_nextn(m->ctx, (int32_t)i);
        if (!state) return -3;
        memcpy(m->batch.embd + (size_t)(m->encoded + i) * m->width, state, m->width * sizeof *state);
    }
    m->encoded += n;
    return rc;
}

static void clear(struct vr_draft_head *m) { m->batch.n_tokens = 0, m->encoded = 0; }

static bool compute(struct vr_draft_head *m)
{
    struct vr_err err = { 0 };
    int rc = m->broken ? -3 : encode(m);
    struct llama_batch b = m->batch;
    if (m->blocks && m->guessing) b.embd = NULL;
    if (m->blocks && !m->guessing) b = vr_draft_head_given(&m->batch);
    if (rc == 0 && b.n_tokens) rc = vr_bridge_decode(m->ctx, b, &err);
    if (rc == 0) return true;
    m->broken = rc < 0;
    llama_memory_clear(m->memory, false);
    for (uint32_t i = 0; i < m->e->n_seq; i++) m->seqs[i].fed = 0;
    return false;
}

/* One more row; those that fill the batch are computed. Its state is one of the head's own, or what the model gave. */
static void put(struct vr_draft_head *m, llama_seq_id seq, llama_pos pos, llama_token token, const float *state,
                bool own, bool logits)
{
    struct llama_batch *t = &m->batch;
    bool raw = m->features && !own;
    if (m->e->n_taps && !state) return;
    if ((uint32_t)t->n_tokens == m->n_batch) {
        compute(m);
        clear(m);
    }
    if (raw && (uint32_t)t->n_tokens - m->encoded == m->n_features && encode(m) != 0) m->broken = true;
    int32_t i = t->n_tokens++;
    float *to = raw ? m->features + ((size_t)i - m->encoded) * m->wide : t->embd + (size_t)i * m->width;
    uint32_t n = raw ? m->wide : m->width;
    if (own) m->encoded = (uint32_t)t->n_tokens;
    t->token[i] = token;
    t->pos[i] = pos;
    t->n_seq_id[i] = 1;
    t->seq_id[i][0] = seq;
    t->logits[i] = logits;
    if (state)
        memcpy(to, state, n * sizeof *to);
    else
        memset(to, 0, n * sizeof *to);
}

/* --- feeding --- */

/* The engine gives hidden states out in the order in which it computed tokens. Is that the batch's order? Where a pass
 * takes the same number of tokens of each sequence, only if one pass took all of each. */
static bool in_order(const struct vr_batcher *b)
{
    const struct llama_batch *t = &b->batch;
    int32_t each = 0, same = 0;
    if (!vr_batch_apart(b)) return true;
    for (int32_t i = 0; i < t->n_tokens; i++) {
        same = i && t->seq_id[i][0] == t->seq_id[i - 1][0] ? same + 1 : 1;
        bool ends = i + 1 == t->n_tokens || t->seq_id[i + 1][0] != t->seq_id[i][0];
        if (ends && each && same != each) return false;
        if (ends) each = same;
    }
    return each == t->n_tokens || (uint32_t)t->n_tokens <= b->e->n_ubatch;
}

/* Nothing is known of what the slots hold after this batch. */
static void miss(struct vr_draft_head *m, const struct vr_batcher *b)
{
    for (int32_t i = 0; i < b->batch.n_tokens; i++) m->seqs[b->batch.seq_id[i][0]].n = 0;
}

/* The hidden states of rows from `row` on, which are those of tokens n_before .. n_before + n - 1, behind what is kept.
 */
static void keep_states(struct vr_draft_head *m, struct head_seq *s, int32_t row, uint32_t n_before, uint32_t n)
{
    size_t each = m->wide;
    if (n_before < s->first || n_before - s->first > s->n_states) s->n_states = 0; /* there is a gap */
    if (s->n_states == 0) s->first = n_before;
    s->n_states = n_before - s->first; /* those of wrong guesses go */
    if (s->n_states + n > KEPT) {
        uint32_t drop = s->n_states + n - KEPT;
        memmove(s->states, s->states + drop * each, (s->n_states - drop) * each * sizeof *s->states);
        s->first += drop;
        s->n_states -= drop;
    }
    for (uint32_t i = 0; i < n; i++, s->n_states++) {
        const float *state = given(m, row + (int32_t)i);
        if (!state) return;
        memcpy(s->states + s->n_states * each, state, each * sizeof *state);
    }
}

/* What the head has not been fed of the tokens that the slot holds, as far as hidden states are kept. */
static void catch_up(struct vr_draft_head *m, struct head_seq *s, const struct vr_slot *slot)
{
    if (m->e->shares_cache) return;
    uint32_t from = s->fed, behind = m->blocks ? 0 : 1;
    if (from < slot->n && from < s->first + behind) from = s->first + behind;
    if (from > slot->n || s->n_states == 0) from = slot->n;
    align(m, slot, from);
    for (uint32_t i = from; i < slot->n; i++)
        put(m, slot->seq, vr_slot_pos(slot, i), slot->tokens[i], m->blocks ? state_of(m, s, i) : state_before(m, s, i),
            false, false);
    s->fed = slot->n;
}

/* A prompt's rows are fed at once. */
static void put_prompt(struct vr_draft_head *m, struct vr_batcher *b, const struct vr_slot *slot, int32_t row,
                       uint32_t n)
{
    const struct llama_batch *t = &b->batch;
    struct head_seq *s = &m->seqs[slot->seq];
    if (m->e->shares_cache) return;
    catch_up(m, s, slot);
    for (uint32_t i = 0; i < n; i++) {
        int32_t at = row + (int32_t)i;
        const float *state = m->blocks ? given(m, at) : i ? given(m, at - 1) : state_before(m, s, slot->n);
        put(m, slot->seq, t->pos[at], t->token[at], state, false, false);
    }
    s->fed = slot->n + n;
}

/* Rows from `row` on are the n tokens of a slot; before the batch it held slot->n. */
static void take_rows(struct vr_draft_head *m, struct vr_batcher *b, struct vr_choice *c, int32_t row)
{
    const struct vr_slot *slot = c->slot;
    const llama_token *tokens = b->batch.token + row;
    struct head_seq *s = &m->seqs[slot->seq];
    uint32_t n = c->n_add;
    bool text = c->state == VR_TEXT && n <= STEP;
    if (!knows(s, slot)) {
        llama_memory_seq_rm(m->memory, slot->seq, -1, -1);
        memcpy(s->tokens, slot->tokens, slot->n * sizeof *s->tokens);
        s->n_states = s->fed = 0;
    }
    if (s->fed > slot->n) s->fed = slot->n + (text && !m->blocks && s->fed_last == tokens[0]);
    s->tenant = slot->tenant;
    memcpy(s->tokens + slot->n, tokens, n * sizeof *tokens);
    s->n = slot->n + n;
    if (text) {
        keep_states(m, s, row, slot->n, n);
    } else {
        put_prompt(m, b, slot, row, n);
        s->n_states = 0;
        keep_states(m, s, row + (int32_t)n - 1, slot->n + n - 1, 1);
    }
}

bool vr_draft_head_feed(struct vr_draft_head *m, struct vr_batcher *b)
{
    if (m->broken) return false;
    if (!in_order(b)) return miss(m, b), false;
    llama_synchronize(b->e->ctx);
    double t0 = vr_now_fine_ms();
    clear(m);
    for (int32_t row = 0; row < b->batch.n_tokens;) {
        llama_seq_id seq = b->batch.seq_id[row][0];
        struct vr_choice *c = b->slots.slot[seq].choice;
        if (c && c->n_add) take_rows(m, b, c, row);
        while (row < b->batch.n_tokens && b->batch.seq_id[row][0] == seq) row++;
    }
    compute(m);
    b->began_ms += vr_now_fine_ms() - t0; /* that is not the model's own time */
    return true;
}

/* --- guessing --- */

/* The head's most likely token by a row of its batch; -1: none. */
static llama_token guess_token(struct vr_draft_head *m, int32_t row)
{
    static const struct vr_sampling greedy = { .repeat = 1, .top_p = 1 };
    uint64_t no_luck = 0;
    const float *logits = llama_get_logits_ith(m->ctx, row);
    llama_token token = logits ? vr_sample(m->sampler, &greedy, &no_luck, logits, NULL, NULL) : -1;
    bool usable = token >= 0 && (uint32_t)token < m->e->n_vocab && !llama_vocab_is_eog(m->e->vocab, token);
    return usable ? token : -1;
}

/* One more guess for everybody who wants one; the batch becomes what is to be computed for the next ones. */
static void guess_all(struct vr_draft_head *m)
{
    clear(m);
    llama_synchronize(m->ctx);
    for (uint32_t i = 0; i < m->e->n_seq; i++) {
        struct head_seq *s = &m->seqs[i];
        struct vr_choice *c = s->choice;
        if (!c || s->row < 0) continue;
        int32_t row = s->row;
        llama_token token = guess_token(m, row);
        s->row = -1;
        if (token < 0) continue;
        c->draft[c->n_draft++] = token;
        const float *state = vr_bridge_nextn(m->ctx, row);
        if (c->n_draft >= s->want || !state) continue;
        s->row = m->batch.n_tokens;
        uint32_t at = c->slot->n + (m->e->shares_cache ? 0 : c->n_draft);
        put(m, c->slot->seq, vr_slot_pos(c->slot, at), token, state, true, true);
    }
}

/* Whom guesses are for, and the head as far as the model is. */
static bool begin(struct vr_draft_head *m, const struct vr_pick *picks, uint32_t n)
{
    clear(m);
    for (uint32_t i = 0; i < m->e->n_seq; i++) m->seqs[i].choice = NULL;
    for (uint32_t i = 0; i < n; i++) {
        const struct vr_slot *slot = picks[i].c->slot;
        struct head_seq *s = &m->seqs[slot->seq];
        if (picks[i].want == 0 || !knows(s, slot) || !state_before(m, s, slot->n)) continue;
        s->choice = picks[i].c;
        s->want = picks[i].want;
        catch_up(m, s, slot);
    }
    return compute(m);
}

/* All guesses for everybody in one pass. Blocks are equally long, or it would be several. */
static void guess_blocks(struct vr_draft_head *m)
{
    struct llama_batch *t = &m->batch;
    uint32_t most = 0;
    for (uint32_t i = 0; i < m->e->n_seq; i++)
        if (m->seqs[i].choice && m->seqs[i].want > most) most = m->seqs[i].want;
    uint32_t first = m->e->from_anchor ? 0 : 1; /* row that guesses */
    for (uint32_t i = 0; i < m->e->n_seq; i++) {
        struct head_seq *s = &m->seqs[i];
        s->row = t->n_tokens;
        for (uint32_t k = 0; s->choice && k < most + first; k++) {
            int32_t at = t->n_tokens++;
            t->token[at] = k ? m->mask : s->choice->next;
            t->pos[at] = vr_slot_pos(s->choice->slot, s->choice->slot->n + k);
            t->n_seq_id[at] = 1;
            t->seq_id[at][0] = s->choice->slot->seq;
            t->logits[at] = 1; /* the engine makes them of all rows */
        }
    }
    if (t->n_tokens == 0 || !compute(m)) return;
    llama_synchronize(m->ctx);
    for (uint32_t i = 0; i < m->e->n_seq; i++) {
        struct vr_choice *c = m->seqs[i].choice;
        llama_token token = 0;
        for (uint32_t k = first; c && k < m->seqs[i].want + first && token >= 0; k++) {
            token = guess_token(m, m->seqs[i].row + (int32_t)k);
            if (token >= 0) c->draft[c->n_draft++] = token;
        }
    }
}

void vr_draft_head_guess(struct vr_draft_head *m, struct vr_batcher *b, const struct vr_pick *picks, uint32_t n)
{
    (void)b;
    if (m->broken || !begin(m, picks, n)) return;
    clear(m);
    if (m->blocks) {
        m->guessing = true;
        guess_blocks(m);
        m->guessing = false;
        return;
    }
    for (uint32_t i = 0; i < m->e->n_seq; i++) {
        struct head_seq *s = &m->seqs[i];
        if (!s->choice) continue;
        const struct vr_slot *slot = s->choice->slot;
        s->row = m->batch.n_tokens;
        put(m, slot->seq, vr_slot_pos(slot, slot->n), s->choice->next, state_before(m, s, slot->n), false, true);
        s->fed = slot->n + 1;
        s->fed_last = s->choice->next;
    }
    while (m->batch.n_tokens) {
        if (!compute(m)) return;
        guess_all(m);
    }
}
