/* A step: who has use for guesses, how many pay (steer.h), then the kind makes them. Guesses from the text itself cost
 * nothing and are made first; there are as many as there are.
 *
 * What pays is measured from the beginning of a step to that of the next: so everything is in it, whoever guesses, and
 * whatever checking, sampling and taking back cost beside the model's own computation. Steps of so many streams have
 * times of their own; a step with a prompt in it has none. Where the engine computes the same number of tokens of each
 * sequence in a pass, streams with fewer guesses than others get rows that nobody asks for. */
#include "engine/process/guess.h"

#include <string.h>

#include "engine/process/choice.h"
#include "engine/process/draft.h"
#include "engine/process/draft_head.h"

struct vr_guess {
    enum vr_spec kind;
    struct vr_draft *draft;
    struct vr_draft_head *head;
    struct vr_steering steering;
    double began_ms;          /* the step that runs */
    uint32_t n, rows;         /* its streams; the rows that it computed, 0: it is not to be measured */
    struct vr_acceptance all; /* of all streams: what to expect of a new one */
};

bool vr_guess_new(const struct vr_engine *e, struct vr_guess **out, struct vr_err *err)
{
    *out = NULL;
    if (!e->spec) return true;
    struct vr_guess *g = calloc(1, sizeof *g);
    if (!g) return vr_fail_nomem(err, "preparing speculative decoding");
    g->kind = e->spec;
    g->steering.gain = 1;
    bool ok = true;
    if (e->spec == VR_SPEC_DRAFT) ok = (g->draft = vr_draft_new(e, err)) != NULL;
    if (e->spec == VR_SPEC_MTP || vr_spec_is_head_file(e->spec)) ok = (g->head = vr_draft_head_new(e, err)) != NULL;
    if (!ok) return vr_guess_free(g), false;
    *out = g;
    return true;
}

void vr_guess_free(struct vr_guess *g)
{
    if (!g) return;
    vr_draft_free(g->draft);
    vr_draft_head_free(g->head);
    free(g);
}

bool vr_guess_feed(struct vr_batcher *b) { return b->guess && b->guess->head && vr_draft_head_feed(b->guess->head, b); }

void vr_guess_computed(struct vr_batcher *b, uint32_t rows)
{
    if (b->guess) b->guess->rows = rows;
}

/* A step of n streams begins, and with it the last one ends. */
static void begin(struct vr_guess *g, uint32_t n)
{
    double now = vr_now_fine_ms();
    if (g->rows && g->n == n && n) vr_step_times_add(&g->steering.times[n - 1], g->rows, now - g->began_ms);
    g->began_ms = now;
    g->n = n;
    g->rows = 0;
}

void vr_guess_settle(struct vr_batcher *b, struct vr_choice *c, uint32_t guessed, uint32_t accepted)
{
    if (accepted > guessed) accepted = guessed;
    b->totals.drafted_tokens += guessed;
    b->totals.accepted_tokens += accepted;
    vr_acceptance_add(&c->acceptance, guessed, accepted);
    vr_acceptance_add(&b->guess->all, guessed, accepted);
}

/* --- how many --- */

/* Guesses that a choice has use for, at most. */
static uint32_t wanted(const struct vr_batcher *b, const struct vr_choice *c)
{
    const struct vr_request *r = c->job->request;
    uint32_t n = b->e->n_draft, room = b->e->n_ctx_seq, left = r->max_tokens - c->n_text;
    uint32_t used = c->slot->n + 2; /* the next token, and the one that the model adds to the guesses */
    if (left < 2 || used >= room) return 0;
    if (n > left - 1) n = left - 1;
    return n < room - used ? n : room - used;
}

/* The streams that generate; 0 when there are none, or so many that they fill a batch by themselves. */
static uint32_t find_streams(struct vr_batcher *b, struct vr_pick picks[VR_STEER_STREAMS])
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < b->slots.n; i++) {
        struct vr_choice *c = b->slots.slot[i].choice;
        if (!c || c->state != VR_TEXT) continue;
        c->n_draft = c->n_guessed = 0;
        if (!vr_lora_fits(b, c->job->request)) continue; /* it is another adapter's turn */
        if (n == VR_STEER_STREAMS) return 0;
        picks[n++] = (struct vr_pick){ c, wanted(b, c) };
    }
    return n;
}

/* From its own text. What it finds is what it can use. */
static void look_back(struct vr_pick *p)
{
    struct vr_choice *c = p->c;
    if (p->want == 0 || (!c->ngram && !(c->ngram = vr_ngram_new()))) {
        p->want = 0;
        return;
    }
    p->want = vr_ngram_guess(c->ngram, c->slot->tokens, c->slot->n, c->next, p->want, c->draft);
}

/* Limits each to what pays. */
static void steer(struct vr_batcher *b, struct vr_pick *picks, uint32_t n)
{
    struct vr_guess *g = b->guess;
    struct vr_steered streams[VR_STEER_STREAMS];
    double before = vr_acceptance_of(&g->all, vr_spec_row(g->kind)->acceptance);
    for (uint32_t i = 0; i < n; i++)
        streams[i] = (struct vr_steered){ .want = picks[i].want,
                                          .acceptance = vr_acceptance_of(&picks[i].c->acceptance, before),
                                          .rest = &picks[i].c->rest };
    vr_steer_step(&g->steering, streams, n, n > 1 && vr_batch_apart(b));
    for (uint32_t i = 0; i < n; i++) picks[i].want = streams[i].want;
}

/* Rows that nobody asks for, so that all streams have as many. Where there is no room, nobody guesses. */
static void even_out(const struct vr_batcher *b, struct vr_pick *picks, uint32_t n)
{
    uint32_t most = 0;
    bool room = true;
    for (uint32_t i = 0; i < n; i++)
        if (picks[i].c->n_draft > most) most = picks[i].c->n_draft;
    for (uint32_t i = 0; i < n; i++) room &= picks[i].c->slot->n + 1 + most <= b->e->n_ctx_seq;
    for (uint32_t i = 0; i < n; i++) {
        struct vr_choice *c = picks[i].c;
        while (room && c->n_draft < most) c->draft[c->n_draft++] = c->next;
        if (!room) c->n_draft = c->n_guessed = 0;
    }
}

void vr_guess_step(struct vr_batcher *b)
{
    struct vr_guess *g = b->guess;
    struct vr_pick picks[VR_STEER_STREAMS];
    uint32_t n = g ? find_streams(b, picks) : 0;
    if (g) begin(g, n);
    if (n == 0) return;
    for (uint32_t i = 0; i < n && g->kind == VR_SPEC_NGRAM; i++) look_back(&picks[i]);
    if (b->e->steer) steer(b, picks, n);
    if (g->kind == VR_SPEC_NGRAM)
        for (uint32_t i = 0; i < n; i++) picks[i].c->n_draft = picks[i].want;
    else if (g->draft)
        vr_draft_guess(g->draft, b, picks, n);
    else
        vr_draft_head_guess(g->head, b, picks, n);
    for (uint32_t i = 0; i < n; i++) picks[i].c->n_guessed = picks[i].c->n_draft;
    if (n > 1 && vr_batch_apart(b)) even_out(b, picks, n);
}

void vr_guess_status_json(const struct vr_batcher *b, struct vr_buf *out)
{
    const struct vr_guess *g = b->guess;
    vr_buf_addf(out, "\"spec\":{\"kind\":\"%s\"", vr_spec_row(b->e->spec)->name);
    if (g) vr_buf_addf(out, ",\"acceptance\":%.3f,\"gain\":%.3f", vr_acceptance_of(&g->all, 0), g->steering.gain);
    vr_buf_adds(out, "}");
}
