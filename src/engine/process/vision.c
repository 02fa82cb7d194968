/* Pictures, one at a time, and in pieces: streams go on meanwhile.
 *
 * Computing a picture is one graph, and what comes of it is decoded in batches of its own, since vectors and tokens do
 * not mix. Two computations at once would fight for the same cores, or the same device, so there is no second thread:
 * the graph is computed some nodes at a time, and whenever it has taken twice as long as a token of the streams does,
 * the others have their turn. That is a step of the batcher inside a step; what it may not do is to look at a second
 * picture, to free the request that is looked at, or to touch its slot, which is held. It may end that request, though:
 * then the rest of the picture is left. */
#include "engine/process/choice.h"

#define MOST_MS 80.0

struct look {
    struct vr_batcher *b;
    struct vr_choice *c;
    struct vr_slot *slot;
    struct vr_request *request;
    double since_ms; /* of the last turn of the others */
    bool decoding;
};

static bool wanted(const struct look *l) { return l->c->slot == l->slot && !atomic_load(&l->request->cancelled); }

/* Between two pieces. False: leave the rest. */
static bool pause_for_others(void *ctx)
{
    struct look *l = ctx;
    struct vr_batcher *b = l->b;
    b->n_pieces++;
    double slice = 2 * b->batch_ms < MOST_MS ? 2 * b->batch_ms : MOST_MS;
    if (!wanted(l) || !b->turn || vr_now_fine_ms() - l->since_ms < slice) return wanted(l);
    if (l->decoding) vr_in_flight_end(b->live, &l->request, 1);
    bool alive = b->turn(b->turn_ctx);
    if (l->decoding) vr_in_flight_begin(b->live, &l->request, 1);
    l->since_ms = vr_now_fine_ms();
    return alive && wanted(l);
}

/* Puts the picture that was computed into the sequence; idle slots make room for it. As llama_decode(). */
static int decode(struct look *l, const struct vr_picture *p, struct vr_err *err)
{
    struct vr_batcher *b = l->b;
    int rc;
    l->decoding = true;
    do {
        llama_pos at = vr_slot_pos(l->slot, l->slot->n);
        vr_in_flight_begin(b->live, &l->request, 1);
        rc = vr_bridge_media_decode(l->c->prompt->scene, p->part, b->e->ctx, at, l->slot->seq, vr_batch_chunk(b),
                                    pause_for_others, l, err);
        vr_in_flight_end(b->live, &l->request, 1);
        if (rc == 1) llama_memory_seq_rm(b->e->memory, l->slot->seq, at, -1);
    } while (rc == 1 && vr_slots_evict(&b->slots));
    b->totals.batches++;
    return rc;
}

/* The picture whose turn it is: the oldest request's. */
static struct vr_choice *pick(const struct vr_batcher *b)
{
    struct vr_choice *best = NULL;
    for (uint32_t i = 0; i < b->slots.n; i++) {
        struct vr_choice *c = b->slots.slot[i].choice;
        if (c && vr_choice_picture(c) && (!best || c->start_ms < best->start_ms)) best = c;
    }
    return best;
}

bool vr_vision_step(struct vr_batcher *b, int *rc, struct vr_err *err)
{
    struct vr_choice *c = b->looking ? NULL : pick(b);
    if (!c) return false;
    const struct vr_picture *p = vr_choice_picture(c);
    struct look l = { .b = b, .c = c, .slot = c->slot, .request = c->job->request };
    if (b->began_ms) llama_synchronize(b->e->ctx); /* pieces of prompt: what they take is not measured with a picture */
    b->began_ms = 0;
    b->n_unsettled = 0;
    b->looking = c->job;
    l.slot->held = true;
    if ((*rc = vr_lora_use(b, l.request, err)) != 0) return b->looking = NULL, l.slot->held = false, true;
    l.since_ms = vr_now_fine_ms();
    *rc = vr_bridge_media_encode(c->prompt->scene, p->part, pause_for_others, &l, err);
    if (*rc == 0) *rc = decode(&l, p, err);
    l.slot->held = false;
    b->looking = NULL;
    if (b->dead) return true;
    bool here = c->slot == l.slot;
    if (here && *rc == 0 && vr_slot_push_picture(l.slot, c->todo + l.slot->n, p->n, p->n_pos)) {
        b->totals.prompt_tokens += p->n;
        return true;
    }
    if (here && *rc == 2)
        vr_slots_resync(&b->slots, l.slot);
    else
        vr_slots_clear(&b->slots, l.slot);
    if (here && (*rc == 0 || *rc == 1)) vr_job_fail(b, c->job, 503, "this image does not fit into the context");
    if (*rc == 1) *rc = 0;
    return true;
}
