/* A step: drop what was cancelled, give waiting choices a slot, fill a batch, compute, sample for every choice that has
 * new logits.
 *
 * When sequences share the cells and they run out, what idle slots
 * remember goes first, then the youngest choice steps back and computes again later: nobody gets an error for somebody
 * else's length. */
#include "engine/process/choice.h"

#include <math.h>
#include <string.h>

#include "base/json.h"

enum {
    RATE_MS = 1000,
    PATIENCE_MS = 250, /* for a client without a slot, before others make way */
    KEEP_MS = 5000,    /* without work, before what slots hold is copied for the disk: an agent's tool is faster */
    WRITE_MS = 50,     /* between two looks at what is being written */
};

struct vr_batcher *vr_batcher_new(const struct vr_engine *e, struct vr_in_flight *live, struct vr_buf *out,
                                  struct vr_err *err)
{
    struct vr_batcher *b = calloc(1, sizeof *b);
    if (!b) return VR_FAIL_NULL(err, VR_ENOMEM, "out of memory");
    b->e = e;
    b->live = live;
    b->out = out;
    b->lora_key = e->lora_first;
    b->sampler = vr_sampler_new(e->n_vocab);
    b->batch = llama_batch_init((int32_t)e->n_batch, 0, 1);
    b->in_batch = calloc(e->n_batch, sizeof *b->in_batch);
    b->rate_ms = vr_now_fine_ms();
    if (b->sampler && b->batch.token && b->in_batch && vr_slots_init(&b->slots, e, err) &&
        vr_guess_new(e, &b->guess, err))
        return b;
    vr_fail_nomem(err, "allocating batches");
    vr_batcher_free(b);
    return NULL;
}

void vr_batcher_free(struct vr_batcher *b)
{
    if (!b) return;
    while (b->jobs) {
        struct vr_job *j = b->jobs;
        b->jobs = j->next;
        vr_job_free(b, j);
    }
    vr_slots_done(&b->slots);
    vr_sampler_free(b->sampler);
    vr_guess_free(b->guess);
    llama_batch_free(b->batch);
    free(b->in_batch);
    vr_buf_done(&b->piece);
    vr_buf_done(&b->probs);
    free(b);
}

/* --- jobs --- */

static bool init_choice(struct vr_choice *c, struct vr_job *j, uint32_t i, const struct llama_vocab *vocab,
                        struct vr_err *err)
{
    struct vr_request *r = j->request;
    const struct vr_prompt *p = &r->prompts[i / r->n];
    *c = (struct vr_choice){ .job = j, .prompt = p, .todo = p->tokens, .n_todo = p->n, .n_prompt = p->n, .row = -1 };
    c->leader = &j->choices[i - i % r->n];
    c->rng = r->seed + (uint64_t)i * 0x9E3779B97F4A7C15u;
    if (!vr_reply_init(&c->reply, r, (uint8_t)i, err)) return false;
    if (r->sampling.chain.on && !(c->chain = vr_chain_new(&r->sampling, r->dry, vocab, c->rng)))
        return vr_fail_nomem(err, "beginning the answer");
    if (r->grammar) c->grammar = vr_grammar_begin(r->grammar, err);
    return !r->grammar || c->grammar;
}

void vr_batcher_add(struct vr_batcher *b, struct vr_request *r)
{
    struct vr_job *j = calloc(1, sizeof *j), **end = &b->jobs;
    uint32_t n = vr_request_is_pooled(r->kind) ? 0 : r->n_prompts * r->n;
    struct vr_choice *choices = calloc(n + 1, sizeof *choices);
    struct vr_err err = { .msg = "out of memory while starting the request" };
    b->totals.begun++;
    if (!j || !choices) {
        vr_wire_add_error(b->out, r->id, 503, NULL, NULL, err.msg);
        vr_in_flight_remove(b->live, r);
        vr_request_free(r);
        free(j);
        free(choices);
        return;
    }
    *j = (struct vr_job){ .request = r, .choices = choices, .n = n, .n_left = n ? n : 1 };
    for (uint32_t i = 0; i < n; i++) choices[i] = (struct vr_choice){ .job = j, .state = VR_WAITING, .row = -1 };
    while (*end) end = &(*end)->next;
    *end = j;
    for (uint32_t i = 0; i < n; i++)
        if (!init_choice(&choices[i], j, i, b->e->vocab, &err)) return vr_job_fail(b, j, 503, err.msg);
}

/* Takes finished and cancelled jobs off the list. */
static void sweep(struct vr_batcher *b)
{
    for (struct vr_job **at = &b->jobs; *at;) {
        struct vr_job *j = *at;
        if (j->n_left && atomic_load(&j->request->cancelled)) {
            for (uint32_t i = 0; i < j->n; i++)
                if (j->choices[i].state != VR_OVER) vr_choice_end(b, &j->choices[i], VR_END_CANCELLED, -1);
            if (j->n == 0)
                vr_wire_add_end(b->out, j->request->id,
                                &(struct vr_wire_end){ .reason = VR_END_CANCELLED, .stop = VR_NO_STOP });
            j->n_left = 0;
            b->totals.cancelled++;
        }
        if (j->n_left || j == b->looking) {
            at = &j->next;
            continue;
        }
        *at = j->next;
        vr_job_free(b, j);
    }
}

bool vr_batcher_busy(const struct vr_batcher *b) { return b->jobs != NULL; }
uint64_t vr_batcher_progress(const struct vr_batcher *b) { return b->totals.batches + b->n_pieces; }

void vr_batcher_share(struct vr_batcher *b, bool (*turn)(void *ctx), void *ctx)
{
    b->turn = turn;
    b->turn_ctx = ctx;
}

static void say_begin(struct vr_batcher *b, struct vr_job *j, const struct vr_slot *slot)
{
    struct vr_wire_begin begin = { .cached_tokens = slot->n, .slot = (uint32_t)slot->seq + 1 };
    for (uint32_t i = 0; i < j->request->n_prompts; i++) begin.prompt_tokens += j->request->prompts[i].n;
    vr_wire_add_begin(b->out, j->request->id, &begin);
    j->begun = true;
}

/* The prompt's text, for those who want it back. */
static void echo(struct vr_batcher *b, struct vr_choice *c)
{
    char piece[256];
    for (uint32_t i = 0; i < c->n_prompt; i++) {
        int32_t n = llama_token_to_piece(b->e->vocab, c->todo[i], piece, sizeof piece, 0, false);
        if (n > 0) vr_text_add(&c->reply.text, piece, (size_t)n);
    }
    size_t n = c->reply.text.held.n;
    const char *at = c->reply.text.held.data;
    for (size_t k; n; n -= k, at += k) {
        k = n > 65536 ? 65536 : n;
        while (k < n && (at[k] & 0xC0) == 0x80) k--;
        vr_wire_add_delta(b->out, c->job->request->id, c->reply.choice, VR_DELTA_TEXT, at, k);
    }
    vr_text_take(&c->reply.text, c->reply.text.held.n);
}

static void start(struct vr_batcher *b, struct vr_choice *c, struct vr_slot *slot)
{
    slot->choice = c;
    c->slot = slot;
    c->state = VR_PROMPT;
    if (c->start_ms) return; /* it was here before */
    c->start_ms = vr_now_fine_ms();
    c->n_cached = slot->n;
    b->totals.cached_tokens += slot->n;
    if (!c->job->begun) say_begin(b, c->job, slot);
    if (c->job->request->echo) echo(b, c);
    vr_choice_say_progress(b, c);
}

/* --- slots --- */

static uint64_t client_of(const struct vr_choice *c) { return c->job->request->whose.client; }

/* Slots that a client's choices have. */
static uint32_t held_by(const struct vr_batcher *b, uint64_t client)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < b->slots.n; i++)
        n += b->slots.slot[i].choice && client_of(b->slots.slot[i].choice) == client;
    return n;
}

/* A choice whose prompt is being computed by its leader waits for that, not for a slot. */
static bool wants_slot(const struct vr_choice *c)
{
    if (c->state != VR_WAITING) return false;
    return c->leader == c || (c->leader->state != VR_PROMPT && c->leader->state != VR_WAITING);
}

/* Whose turn it is: the first choice, in the order they came, of the client that has the fewest slots. NULL: nobody
 * waits. */
static struct vr_choice *next_choice(const struct vr_batcher *b)
{
    struct vr_choice *next = NULL;
    uint32_t fewest = 0;
    for (struct vr_job *j = b->jobs; j; j = j->next) {
        uint32_t n = held_by(b, j->request->whose.client);
        if (next && n >= fewest) continue;
        for (uint32_t i = 0; i < j->n; i++)
            if (wants_slot(&j->choices[i])) {
                next = &j->choices[i];
                fewest = n;
                break;
            }
    }
    return next;
}

static bool step_back(struct vr_batcher *b, struct vr_choice *c);

/* Nobody waits long for somebody else's slots: whoever has none gets one of those who have several, of whom the choice
 * that began last goes on later. */
static bool make_way(struct vr_batcher *b, const struct vr_choice *c)
{
    struct vr_choice *last = NULL;
    uint32_t most = 1;
    if (vr_now_fine_ms() - c->job->request->arrived_ms < PATIENCE_MS || held_by(b, client_of(c))) return false;
    for (uint32_t i = 0; i < b->slots.n; i++) {
        struct vr_choice *x = b->slots.slot[i].choice;
        if (!x || x->job == b->looking || b->slots.slot[i].held) continue;
        uint32_t n = held_by(b, client_of(x));
        if (n < most || n < 2 || (n == most && last && x->start_ms < last->start_ms)) continue;
        most = n;
        last = x;
    }
    return last && step_back(b, last);
}

/* Waiting choices get slots, in turns between clients. */
static void assign(struct vr_batcher *b)
{
    for (struct vr_choice *c; (c = next_choice(b));) {
        const struct vr_request *r = c->job->request;
        uint32_t n_cached;
        struct vr_slot *wish = r->slot ? &b->slots.slot[r->slot - 1] : NULL;
        struct vr_slot *slot =
            vr_slots_take_as(&b->slots, wish, r->whose.tenant, c->todo, c->n_todo, r->cache, &n_cached);
        if (slot)
            start(b, c, slot);
        else if (!make_way(b, c))
            return;
    }
}

static void drop_guesses(struct vr_batcher *b)
{
    for (uint32_t i = 0; i < b->slots.n; i++)
        if (b->slots.slot[i].choice) b->slots.slot[i].choice->n_draft = 0;
}

/* --- computing --- */

static int compute(struct vr_batcher *b, struct vr_err *err)
{
    size_t n = (size_t)b->batch.n_tokens;
    if (b->began_ms == 0) b->began_ms = vr_now_fine_ms();
    vr_in_flight_begin(b->live, b->in_batch, n);
    int rc = vr_bridge_decode(b->e->ctx, b->batch, err);
    vr_in_flight_end(b->live, b->in_batch, n);
    vr_batch_unfill(b);
    b->totals.batches++;
    return rc;
}

/* A choice gives its slot up and will begin again with all it has said. True: there is a free slot. */
static bool step_back(struct vr_batcher *b, struct vr_choice *c)
{
    struct vr_slot *slot = c->slot;
    uint32_t has = slot->n > c->n_todo ? slot->n : c->n_todo;
    llama_token *own = calloc((size_t)has + 1, sizeof *own);
    if (!own) return vr_job_fail(b, c->job, 503, "out of memory while waiting for a slot"), true;
    memcpy(own, slot->n > c->n_todo ? slot->tokens : c->todo, has * sizeof *own);
    if (c->state == VR_TEXT) own[has++] = c->next;
    free(c->own);
    c->todo = c->own = own;
    c->n_todo = has;
    c->state = VR_WAITING;
    c->slot = NULL;
    vr_slots_give(&b->slots, slot);
    vr_slots_shelve(&b->slots, slot);
    b->totals.preempted++;
    return true;
}

/* The choice that began last does. False: it is the only one. */
static bool youngest_steps_back(struct vr_batcher *b)
{
    struct vr_choice *last = NULL;
    uint32_t n = 0;
    for (uint32_t i = 0; i < b->slots.n; i++) {
        struct vr_choice *c = b->slots.slot[i].choice;
        if (!c) continue;
        n++;
        if (!last || c->start_ms > last->start_ms) last = c;
    }
    return n > 1 && step_back(b, last);
}

/* No room in the cells. Makes some and computes again; what cannot fit alone ends. */
static int make_room(struct vr_batcher *b, struct vr_err *err)
{
    int rc = 1;
    while (rc == 1 && vr_slots_evict(&b->slots) && vr_batch_fill(b, true)) rc = compute(b, err);
    if (rc == 1) drop_guesses(b);
    if (rc == 1 && vr_batch_fill(b, false)) rc = compute(b, err); /* the streams alone; prompts wait */
    while (rc == 1 && youngest_steps_back(b)) {
        if (vr_batch_fill(b, false) == 0 && vr_batch_fill(b, true) == 0) return 0;
        rc = compute(b, err);
    }
    if (rc != 1) return rc;
    for (uint32_t i = 0; i < b->slots.n; i++) {
        struct vr_choice *c = b->slots.slot[i].choice;
        if (c && c->state == VR_TEXT)
            vr_choice_end(b, c, VR_END_LENGTH, -1);
        else if (c)
            vr_job_fail(b, c->job, 503, "this prompt does not fit into the context");
    }
    b->batch.n_tokens = 0;
    return 0;
}

/* The engine has given a result: how long it took for what. */
static void measure(struct vr_batcher *b, uint32_t n_streams, uint32_t n_tokens, uint32_t n_prompt)
{
    double ms = vr_now_fine_ms() - b->began_ms;
    b->began_ms = 0;
    n_prompt += b->n_unsettled;
    b->n_unsettled = 0;
    vr_guess_computed(b, n_prompt ? 0 : n_tokens);
    if (n_prompt == 0) {
        b->batch_ms = vr_smooth(b->batch_ms, ms);
    } else {
        double rest = n_streams && ms > b->batch_ms ? ms - b->batch_ms : ms;
        if (n_prompt >= 16) b->slots.prompt_us = b->prompt_us = vr_smooth(b->prompt_us, rest * 1e3 / n_prompt);
    }
}

/* Somebody waits whose client has fewer slots. */
static bool is_ahead(const struct vr_batcher *b, const struct vr_choice *c)
{
    const struct vr_choice *next = next_choice(b);
    return next && held_by(b, client_of(next)) < held_by(b, client_of(c));
}

/* Choices that share a finished prompt begin from the same logits, as far as there are slots that nobody else waits
 * for. */
static void fork_followers(struct vr_batcher *b, struct vr_choice *leader, const float *logits)
{
    struct vr_job *j = leader->job;
    for (uint32_t i = 0; i < j->n && j->n_left; i++) {
        struct vr_choice *c = &j->choices[i];
        if (c == leader || c->leader != leader || c->state != VR_WAITING || c->own) continue;
        struct vr_slot *slot = is_ahead(b, leader) ? NULL : vr_slots_fork(&b->slots, leader->slot);
        if (!slot) return;
        start(b, c, slot);
        if (!vr_choice_sample(b, c, logits)) return;
    }
}

/* The engine forgets the last n tokens that it computed of a sequence. */
static void take_back(struct vr_batcher *b, struct vr_slot *slot, uint32_t n)
{
    if (n == 0) return;
    slot->rolled_back = !b->e->can_cut;
    if (llama_memory_seq_rm(b->e->memory, slot->seq, vr_slot_pos(slot, slot->n), -1)) return;
    if (slot->choice) vr_job_fail(b, slot->choice->job, 500, "the engine could not take back guesses that were wrong");
    vr_slots_clear(&b->slots, slot);
}

/* A stream advances: one token, and one more behind every guess that is accepted. */
static void advance(struct vr_batcher *b, struct vr_choice *c)
{
    struct vr_slot *slot = c->slot;
    uint32_t n = c->n_draft, guessed = c->n_guessed < n ? c->n_guessed : n, i = 0;
    int32_t row = c->row;
    c->n_draft = c->n_guessed = 0;
    c->n_drafted += guessed; /* told when the choice ends, which may be in the middle of this */
    c->row = -1;
    for (;; i++) {
        const float *logits = llama_get_logits_ith(b->e->ctx, row + (int32_t)i);
        if (!logits) {
            vr_job_fail(b, c->job, 500, "the engine returned no result for this request");
            break;
        }
        if (!vr_choice_sample(b, c, logits) || slot->choice != c || i == n || c->next != c->draft[i]) break;
        vr_slot_push(slot, &c->next, 1);
        c->n_accepted += i < guessed; /* beyond: a row that nobody asked for was right */
    }
    if (guessed) vr_guess_settle(b, c, guessed, i);
    take_back(b, slot, n - i);
}

/* A prompt has come an even step further. */
static bool is_due(const struct vr_batcher *b, const struct vr_choice *c)
{
    const struct vr_checkpoint *last = vr_checkpoints_last(&c->slot->checkpoints, c->slot->n);
    return b->e->stop_step && c->job->request->cache && c->slot->n < c->n_todo &&
           c->slot->n - (last ? last->n : 0) >= b->e->stop_step;
}

/* The next prompt of a conversation mostly goes on from the end of this one. A state that cannot be cut is remembered
 * there, too: that takes no pass of its own, and the first token is on its way already. */
static void remember_ends(struct vr_batcher *b)
{
    for (uint32_t i = 0; i < b->slots.n; i++) {
        struct vr_slot *slot = &b->slots.slot[i];
        struct vr_choice *c = slot->choice;
        if (c && c->prompted && slot->n == c->n_todo) vr_slots_checkpoint(&b->slots, slot);
        if (c) c->prompted = false;
    }
}

/* The batch is computed: count it, then sample where there are logits. */
static void settle(struct vr_batcher *b)
{
    uint32_t n_streams = 0, n_tokens = 0, n_prompt = 0, n_rows = 0;
    bool waited = vr_guess_feed(b);
    for (uint32_t i = 0; i < b->slots.n; i++) {
        struct vr_choice *c = b->slots.slot[i].choice;
        if (!c || c->n_add == 0) continue;
        c->slot->rolled_back = false;
        if (c->state == VR_TEXT) {
            vr_slot_push(c->slot, &c->next, 1);
            n_streams++;
            n_tokens += c->n_add;
        } else {
            vr_slot_push(c->slot, c->todo + c->slot->n, c->n_add);
            if (c->slot->n == c->stop || is_due(b, c)) vr_slots_checkpoint(&b->slots, c->slot);
            c->prompted = c->slot->n == c->n_todo && b->e->stop_step && !b->e->can_cut && c->job->request->cache;
            n_prompt += c->n_add;
            vr_choice_say_progress(b, c);
        }
        c->n_add = 0;
        n_rows += c->row >= 0;
    }
    b->totals.prompt_tokens += n_prompt;
    if (n_rows == 0 && !waited) { /* nothing to wait for: the next piece of prompt can follow at once */
        b->n_unsettled += n_prompt;
        return;
    }
    llama_synchronize(b->e->ctx);
    measure(b, n_streams, n_tokens, n_prompt);
    for (uint32_t i = 0; i < b->slots.n; i++) {
        struct vr_choice *c = b->slots.slot[i].choice;
        if (!c || c->row < 0) continue;
        bool first = c->state == VR_PROMPT && c->leader == c && !c->own;
        const float *logits = first && c->job->n > 1 ? llama_get_logits_ith(b->e->ctx, c->row) : NULL;
        if (logits) fork_followers(b, c, logits);
        if (b->slots.slot[i].choice == c) advance(b, c);
    }
}

/* Broken off: everybody in the batch was cancelled. */
static void unsettle(struct vr_batcher *b)
{
    b->began_ms = 0;
    for (uint32_t i = 0; i < b->slots.n; i++) {
        struct vr_choice *c = b->slots.slot[i].choice;
        if (!c || c->n_add == 0) continue;
        c->n_add = 0;
        c->n_draft = 0;
        c->row = -1;
        vr_slots_resync(&b->slots, c->slot);
    }
}

static bool dies(struct vr_batcher *b, int rc, const struct vr_err *err, bool *dead, struct vr_failure *why)
{
    if (rc >= 0) return false;
    b->dead = true;
    vr_failure_explain(why, VR_AT_DECODE, err->msg[0] ? err->msg : "the engine failed while computing", true);
    if (rc == -2) why->out_of_memory = true;
    return *dead = true;
}

bool vr_batcher_step(struct vr_batcher *b, bool *dead, struct vr_failure *why)
{
    struct vr_err err = { 0 };
    int rc = 0;
    *dead = false;
    remember_ends(b);
    sweep(b);
    if (b->e->embeddings || b->e->ranks) {
        bool did = vr_embed_step(b, &rc, &err);
        if (did && dies(b, rc, &err, dead, why)) return true;
        if (did && !b->e->text) return true;
    }
    if (!b->e->text) return false;
    assign(b);
    if (b->e->vision && vr_vision_step(b, &rc, &err)) {
        if (b->dead) return *dead = true; /* in a turn of the others, which has told why */
        if (dies(b, rc, &err, dead, why)) return true;
        sweep(b);
    }
    if (dies(b, vr_lora_turn(b, &err), &err, dead, why)) return true;
    if (vr_batch_without_streams(b))
        vr_guess_computed(b, 0);
    else
        vr_guess_step(b);
    if (vr_batch_fill(b, true) == 0) return b->jobs != NULL && (b->e->embeddings || b->e->vision);
    rc = compute(b, &err);
    if (rc == 1) rc = make_room(b, &err);
    if (dies(b, rc, &err, dead, why)) return true;
    if (rc == 2)
        unsettle(b);
    else
        settle(b);
    sweep(b);
    return true;
}

/* --- the disk --- */

int vr_batcher_tidy(struct vr_batcher *b, double idle_ms)
{
    struct vr_recall *r = &b->slots.recall;
    char note[240];
    if (vr_recall_note(r, note, sizeof note)) vr_wire_add(b->out, VR_WIRE_NOTE, 0, note, strlen(note));
    if (!r->disk.writer) return -1;
    if (idle_ms >= KEEP_MS) vr_slots_keep(&b->slots);
    if (vr_recall_write(r, 0)) return WRITE_MS;
    return idle_ms < KEEP_MS ? (int)(KEEP_MS - idle_ms) + 1 : -1;
}

void vr_batcher_finish(struct vr_batcher *b, double ms)
{
    double end = vr_now_fine_ms() + ms;
    if (!b->slots.recall.disk.writer) return;
    vr_slots_keep(&b->slots);
    while (vr_recall_write(&b->slots.recall, WRITE_MS) && vr_now_fine_ms() < end) continue;
}

/* --- STATUS --- */

static void update_rates(struct vr_batcher *b)
{
    double now = vr_now_fine_ms(), dt = now - b->rate_ms;
    if (dt < RATE_MS / 4.0) return;
    double prompt = (double)(b->totals.prompt_tokens - b->rated.prompt_tokens) * 1e3 / dt;
    double text = (double)(b->totals.text_tokens - b->rated.text_tokens) * 1e3 / dt;
    double keep = exp(-dt / RATE_MS);
    b->prompt_rate = b->prompt_rate * keep + prompt * (1 - keep);
    b->text_rate = b->text_rate * keep + text * (1 - keep);
    b->rated = b->totals;
    b->rate_ms = now;
}

static void add_cache(const struct vr_slots *s, struct vr_buf *out)
{
    const struct vr_recall *r = &s->recall;
    uint64_t n_checkpoints = 0;
    for (uint32_t i = 0; i < s->n; i++) n_checkpoints += s->slot[i].checkpoints.n;
    vr_buf_addf(out,
                "\"cache\":{\"limit_bytes\":%llu,\"bytes\":%llu,\"prompts\":%zu,\"checkpoints\":%llu,"
                "\"saved_tokens\":%llu,\"restored_tokens\":%llu,\"recomputed_tokens\":%llu,"
                "\"disk_limit_bytes\":%llu,\"disk_bytes\":%llu,\"disk_prompts\":%zu}",
                (unsigned long long)r->ram.limit_bytes, (unsigned long long)r->ram.used_bytes, r->prompts.n,
                (unsigned long long)n_checkpoints, (unsigned long long)r->saved_tokens,
                (unsigned long long)r->restored_tokens, (unsigned long long)s->n_recomputed_tokens,
                (unsigned long long)r->disk.file.limit_bytes, (unsigned long long)r->disk.file.used_bytes,
                vr_disk_cache_count(&r->disk));
}

void vr_batcher_status_json(struct vr_batcher *b, struct vr_buf *out)
{
    static const char *const states[] = { "idle", "prompt", "text", "idle" };
    uint32_t running = 0, queued = 0;
    update_rates(b);
    vr_buf_adds(out, "{\"slots\":[");
    for (uint32_t i = 0; i < b->slots.n; i++) {
        const struct vr_slot *s = &b->slots.slot[i];
        const struct vr_choice *c = s->choice;
        vr_buf_addf(out, "%s{\"id\":%u,\"state\":\"%s\",\"request\":%u,\"n_cached\":%u,\"n_prompt\":%u,\"n_text\":%u}",
                    i ? "," : "", i, c ? states[c->state] : "idle", c ? c->job->request->id : 0, s->n,
                    c ? c->n_prompt : 0, c ? c->n_text : 0);
        running += c != NULL;
    }
    for (const struct vr_job *j = b->jobs; j; j = j->next) {
        bool started = j->n == 0 && j->begun;
        for (uint32_t i = 0; i < j->n; i++) started |= j->choices[i].state != VR_WAITING;
        queued += !started;
    }
    const struct vr_totals *t = &b->totals;
    vr_buf_addf(
        out,
        "],\"n_ctx_seq\":%u,\"running\":%u,\"queued\":%u,\"prompt_tokens\":%llu,\"text_tokens\":%llu,"
        "\"cached_tokens\":%llu,\"prompt_tok_s\":%.1f,\"text_tok_s\":%.1f,\"batches\":%llu,\"begun\":%llu,"
        "\"cancelled\":%llu,\"errors\":%llu,\"preempted\":%llu,\"drafted_tokens\":%llu,\"accepted_tokens\":%llu,"
        "\"filler_tokens\":%llu,",
        b->e->n_ctx_seq, running, queued, (unsigned long long)t->prompt_tokens, (unsigned long long)t->text_tokens,
        (unsigned long long)t->cached_tokens, b->prompt_rate, b->text_rate, (unsigned long long)t->batches,
        (unsigned long long)t->begun, (unsigned long long)t->cancelled, (unsigned long long)t->errors,
        (unsigned long long)t->preempted, (unsigned long long)t->drafted_tokens, (unsigned long long)t->accepted_tokens,
        (unsigned long long)t->filler_tokens);
    add_cache(&b->slots, out);
    vr_buf_adds(out, ",");
    vr_guess_status_json(b, out);
    vr_buf_adds(out, "}");
}
