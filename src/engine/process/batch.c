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

enum { RATE_MS = 1000 };

struct vr_batcher *vr_batcher_new(const struct vr_engine *e, struct vr_in_flight *live, struct vr_buf *out,
                                  struct vr_err *err)
{
    struct vr_batcher *b = calloc(1, sizeof *b);
    if (!b) return VR_FAIL_NULL(err, VR_ENOMEM, "out of memory");
    b->e = e;
    b->live = live;
    b->out = out;
    b->sampler = vr_sampler_new(e->n_vocab);
    b->batch = llama_batch_init((int32_t)e->n_batch, 0, 1);
    b->in_batch = calloc(e->n_batch, sizeof *b->in_batch);
    b->rate_ms = vr_now_fine_ms();
    if (b->sampler && b->batch.token && b->in_batch && vr_slots_init(&b->slots, e, err) &&
        vr_draft_new(e, &b->draft, err))
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
    vr_draft_free(b->draft);
    llama_batch_free(b->batch);
    free(b->in_batch);
    vr_buf_done(&b->piece);
    vr_buf_done(&b->probs);
    free(b);
}

/* --- jobs --- */

static bool init_choice(struct vr_choice *c, struct vr_job *j, uint32_t i, struct vr_err *err)
{
    struct vr_request *r = j->request;
    const struct vr_prompt *p = &r->prompts[i / r->n];
    *c = (struct vr_choice){ .job = j, .prompt = p, .todo = p->tokens, .n_todo = p->n, .n_prompt = p->n, .row = -1 };
    c->leader = &j->choices[i - i % r->n];
    c->rng = r->seed + (uint64_t)i * 0x9E3779B97F4A7C15u;
    if (!vr_reply_init(&c->reply, r, (uint8_t)i, err)) return false;
    if (r->grammar) c->grammar = vr_bridge_grammar_clone(r->grammar, err);
    return !r->grammar || c->grammar;
}

void vr_batcher_add(struct vr_batcher *b, struct vr_request *r)
{
    struct vr_job *j = calloc(1, sizeof *j), **end = &b->jobs;
    uint32_t n = r->kind == VR_EMBEDDING ? 0 : r->n_prompts * r->n;
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
        if (!init_choice(&choices[i], j, i, &err)) return vr_job_fail(b, j, 503, err.msg);
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

void vr_batcher_share(struct vr_batcher *b, bool (*turn)(void *ctx), void *ctx)
{
    b->turn = turn;
    b->turn_ctx = ctx;
}

static void say_begin(struct vr_batcher *b, struct vr_job *j, uint32_t n_cached)
{
    struct vr_wire_begin begin = { .cached_tokens = n_cached };
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
    if (!c->job->begun) say_begin(b, c->job, slot->n);
    if (c->job->request->echo) echo(b, c);
}

/* Waiting choices get slots, in order. A choice whose prompt is being computed by its leader waits for that. */
static void assign(struct vr_batcher *b)
{
    for (struct vr_job *j = b->jobs; j; j = j->next)
        for (uint32_t i = 0; i < j->n; i++) {
            struct vr_choice *c = &j->choices[i];
            uint32_t n_cached;
            if (c->state != VR_WAITING) continue;
            if (c->leader != c && (c->leader->state == VR_PROMPT || c->leader->state == VR_WAITING)) continue;
            struct vr_slot *slot = vr_slots_take(&b->slots, c->todo, c->n_todo, j->request->cache, &n_cached);
            if (!slot) return;
            start(b, c, slot);
        }
}

static void drop_drafts(struct vr_batcher *b)
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

/* The choice that began last gives its place up and will begin again with all it has said. False: it is the only one.
 */
static bool step_back(struct vr_batcher *b)
{
    struct vr_choice *last = NULL;
    uint32_t n = 0;
    for (uint32_t i = 0; i < b->slots.n; i++) {
        struct vr_choice *c = b->slots.slot[i].choice;
        if (!c) continue;
        n++;
        if (!last || c->start_ms > last->start_ms) last = c;
    }
    if (n < 2) return false;
    struct vr_slot *slot = last->slot;
    uint32_t has = slot->n > last->n_todo ? slot->n : last->n_todo;
    llama_token *own = calloc((size_t)has + 1, sizeof *own);
    if (!own) return vr_job_fail(b, last->job, 503, "out of memory while waiting for a slot"), true;
    memcpy(own, slot->n > last->n_todo ? slot->tokens : last->todo, has * sizeof *own);
    if (last->state == VR_TEXT) own[has++] = last->next;
    free(last->own);
    last->todo = last->own = own;
    last->n_todo = has;
    last->state = VR_WAITING;
    last->slot = NULL;
    vr_slots_give(&b->slots, slot);
    vr_slots_clear(&b->slots, slot);
    b->totals.preempted++;
    return true;
}

/* No room in the cells. Makes some and computes again; what cannot fit alone ends. */
static int make_room(struct vr_batcher *b, struct vr_err *err)
{
    int rc = 1;
    while (rc == 1 && vr_slots_evict(&b->slots) && vr_batch_fill(b, true)) rc = compute(b, err);
    if (rc == 1) drop_drafts(b);
    if (rc == 1 && vr_batch_fill(b, false)) rc = compute(b, err); /* the streams alone; prompts wait */
    while (rc == 1 && step_back(b)) {
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

/* One slow batch on a busy machine is not a slow machine. */
static double smooth(double old, double now) { return old > 0 ? old * 0.8 + fmin(now, 3 * old) * 0.2 : now; }

/* The engine has given a result: how long it took for what. */
static void measure(struct vr_batcher *b, uint32_t n_streams, uint32_t n_prompt)
{
    double ms = vr_now_fine_ms() - b->began_ms;
    b->began_ms = 0;
    n_prompt += b->n_unsettled;
    b->n_unsettled = 0;
    if (n_prompt == 0)
        b->batch_ms = smooth(b->batch_ms, ms);
    else {
        double rest = n_streams && ms > b->batch_ms ? ms - b->batch_ms : ms;
        if (n_prompt >= 16) b->prompt_us = smooth(b->prompt_us, rest * 1e3 / n_prompt);
    }
}

/* Choices that share a finished prompt begin from the same logits, as far as there are slots. */
static void fork_followers(struct vr_batcher *b, struct vr_choice *leader, const float *logits)
{
    struct vr_job *j = leader->job;
    for (uint32_t i = 0; i < j->n && j->n_left; i++) {
        struct vr_choice *c = &j->choices[i];
        if (c == leader || c->leader != leader || c->state != VR_WAITING || c->own) continue;
        struct vr_slot *slot = vr_slots_fork(&b->slots, leader->slot);
        if (!slot) return;
        start(b, c, slot);
        if (!vr_choice_sample(b, c, logits)) return;
    }
}

/* A stream advances: one token, and one more behind every drafted token that is accepted. Rejected ones leave the
 * KV cache. */
static void advance(struct vr_batcher *b, struct vr_choice *c)
{
    struct vr_slot *slot = c->slot;
    uint32_t n = c->n_draft;
    int32_t row = c->row;
    c->n_draft = 0;
    c->row = -1;
    for (uint32_t i = 0;; i++) {
        const float *logits = llama_get_logits_ith(b->e->ctx, row + (int32_t)i);
        if (!logits) {
            vr_job_fail(b, c->job, 500, "the engine returned no result for this request");
            break;
        }
        if (!vr_choice_sample(b, c, logits) || slot->choice != c || i == n || c->next != c->draft[i]) break;
        vr_slot_push(slot, &c->next, 1);
        c->n_accepted++;
        b->totals.accepted_tokens++;
    }
    if (n) llama_memory_seq_rm(b->e->memory, slot->seq, vr_slot_pos(slot, slot->n), -1);
}

/* The batch is computed: count it, then sample where there are logits. */
static void settle(struct vr_batcher *b)
{
    uint32_t n_streams = 0, n_prompt = 0, n_rows = 0;
    for (uint32_t i = 0; i < b->slots.n; i++) {
        struct vr_choice *c = b->slots.slot[i].choice;
        if (!c || c->n_add == 0) continue;
        if (c->state == VR_TEXT) {
            vr_slot_push(c->slot, &c->next, 1);
            n_streams++;
        } else {
            vr_slot_push(c->slot, c->todo + c->slot->n, c->n_add);
            n_prompt += c->n_add;
        }
        c->n_add = 0;
        n_rows += c->row >= 0;
    }
    b->totals.prompt_tokens += n_prompt;
    if (n_rows == 0) { /* nothing to wait for: the next piece of prompt can follow at once */
        b->n_unsettled += n_prompt;
        return;
    }
    llama_synchronize(b->e->ctx);
    measure(b, n_streams, n_prompt);
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
    sweep(b);
    if (b->e->embeddings) {
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
    if (!vr_batch_without_streams(b)) vr_draft_step(b);
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
        "\"filler_tokens\":%llu}",
        b->e->n_ctx_seq, running, queued, (unsigned long long)t->prompt_tokens, (unsigned long long)t->text_tokens,
        (unsigned long long)t->cached_tokens, b->prompt_rate, b->text_rate, (unsigned long long)t->batches,
        (unsigned long long)t->begun, (unsigned long long)t->cancelled, (unsigned long long)t->errors,
        (unsigned long long)t->preempted, (unsigned long long)t->drafted_tokens, (unsigned long long)t->accepted_tokens,
        (unsigned long long)t->filler_tokens);
}
