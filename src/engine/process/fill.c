/* Filling a batch: who gets how many tokens, and in which order they stand.
 *
 * Each stream gets its one token. Prompts share what the streams can spare, the shortest first (most requests wait
 * least that way), but the oldest is never without a share. While streams run, they are kept from their next token no
 * longer than SPARE_MS, by the speed that was measured; but prompts that take BRIEF_MS at most are taken whole, so that
 * many that come together become streams within a few steps.
 *
 * Where sequences share the cells, a batch holds streams and prompts alike, and the engine computes all of it in one
 * pass over the weights. Where they have cells of their own, a pass takes the same number of tokens of each sequence,
 * and only of such as are numbered without a gap. So there
 * - tokens are written in the order of the slots;
 * - streams and prompts have batches of their own, in turns, but for a token of each prompt between two streams;
 * - a batch of prompts takes the same number of tokens of each, and they are neighbours;
 * - on devices, where a row costs little, what is missing is filled: a gap between streams, the end of a prompt that is
 * a little shorter than its neighbours. Nobody asks for the result, and vr_batch_unfill() takes it out again.
 *
 * Where a sequence cannot be cut, prompts are interrupted for checkpoints (stops.h). */
#include "engine/process/choice.h"

#define SPARE_MS 80.0
#define BRIEF_MS 250.0
enum { LEAST_CHUNK = 64, MOST_GAP = 4, OLDEST_EVERY = 4, EVEN = 64 };

/* --- shares --- */

static uint32_t left(const struct vr_choice *c) { return c->n_todo - c->slot->n - c->n_add; }

/* The picture at or behind the next token that is to be computed; NULL: none. */
static const struct vr_picture *next_picture(const struct vr_choice *c)
{
    uint32_t at = c->slot->n + c->n_add;
    for (uint32_t i = 0; i < c->prompt->n_pictures; i++)
        if (c->prompt->pictures[i].at >= at) return &c->prompt->pictures[i];
    return NULL;
}

/* Tokens of text until the next picture, or the next checkpoint. */
static uint32_t left_text(const struct vr_choice *c)
{
    const struct vr_picture *p = next_picture(c);
    uint32_t at = c->slot->n + c->n_add, end = p ? p->at : c->n_todo;
    return (c->stop > c->slot->n && c->stop < end ? c->stop : end) - at;
}

const struct vr_picture *vr_choice_picture(const struct vr_choice *c)
{
    return c->state == VR_PROMPT && left_text(c) == 0 ? next_picture(c) : NULL;
}

/* Tokens of prompt that can be computed in so many milliseconds, by what was measured. */
static uint32_t tokens_in(const struct vr_batcher *b, double ms, uint32_t room)
{
    double n = b->prompt_us > 0 ? ms * 1e3 / b->prompt_us : 2 * LEAST_CHUNK;
    if (n < LEAST_CHUNK) n = LEAST_CHUNK;
    return n < room ? (uint32_t)n : room;
}

static bool its_turn(const struct vr_batcher *b, const struct vr_choice *c) { return vr_lora_fits(b, c->job->request); }

static bool has_streams(const struct vr_batcher *b)
{
    for (uint32_t i = 0; i < b->slots.n; i++)
        if (b->slots.slot[i].choice && b->slots.slot[i].choice->state == VR_TEXT &&
            its_turn(b, b->slots.slot[i].choice))
            return true;
    return false;
}

uint32_t vr_batch_chunk(const struct vr_batcher *b)
{
    return has_streams(b) ? tokens_in(b, SPARE_MS, b->e->n_batch) : b->e->n_batch;
}

/* The slot with the shortest rest, or the oldest request. */
static struct vr_choice *pick_prompt(const struct vr_batcher *b, bool oldest)
{
    struct vr_choice *best = NULL;
    for (uint32_t i = 0; i < b->slots.n; i++) {
        struct vr_choice *c = b->slots.slot[i].choice;
        if (!c || c->state != VR_PROMPT || left_text(c) == 0 || !its_turn(b, c)) continue;
        if (!best || (oldest ? c->start_ms < best->start_ms : left(c) < left(best))) best = c;
    }
    return best;
}

/* These return how many tokens were given. */

static uint32_t give_prompt(struct vr_choice *c, uint32_t n)
{
    if (n > left_text(c)) n = left_text(c);
    c->n_add += n;
    return n;
}

/* The next token of a stream, and the draft behind it as far as the others leave room. */
static uint32_t give_stream(const struct vr_batcher *b, struct vr_choice *c, uint32_t given, uint32_t n_behind)
{
    uint32_t most = b->e->n_outputs < b->e->n_batch ? b->e->n_outputs : b->e->n_batch;
    if (given + 1 + c->n_draft + n_behind > most) c->n_draft = 0;
    return c->n_add = 1 + c->n_draft;
}

static uint32_t give_streams(struct vr_batcher *b)
{
    uint32_t given = 0;
    for (uint32_t i = 0; i < b->slots.n; i++) {
        struct vr_choice *c = b->slots.slot[i].choice;
        if (c && c->state == VR_TEXT && its_turn(b, c) && given < b->e->n_batch)
            given += give_stream(b, c, given, b->slots.n - i - 1);
    }
    return given;
}

/* Beside the streams' tokens. */
static uint32_t give_prompts(struct vr_batcher *b, uint32_t before)
{
    uint32_t given = before, room = b->e->n_batch - given;
    uint32_t budget = given ? tokens_in(b, SPARE_MS, room) : room, end = given + budget;
    struct vr_choice *c = pick_prompt(b, true);
    if (c) given += give_prompt(c, budget / 4 ? budget / 4 : budget);
    while (given < end && (c = pick_prompt(b, false))) given += give_prompt(c, end - given);
    uint32_t brief = tokens_in(b, BRIEF_MS, room);
    while ((c = pick_prompt(b, false)) && left(c) <= brief && given + left(c) <= b->e->n_batch)
        given += give_prompt(c, left(c));
    return given - before;
}

/* --- shares where a pass takes the same number of tokens of each --- */

bool vr_batch_apart(const struct vr_batcher *b)
{
    return b->slots.n > 1 && (!b->e->unified || !b->e->can_cut); /* a state that cannot be cut is never shared */
}

static bool can_fill(const struct vr_batcher *b) { return b->e->on_devices && !b->e->unified && b->e->can_cut; }

bool vr_batch_without_streams(const struct vr_batcher *b)
{
    uint32_t spare = tokens_in(b, SPARE_MS, UINT32_MAX), batch = vr_batch_chunk(b);
    bool waited = b->n_meanwhile && b->n_meanwhile + batch / 2 >= spare;
    return vr_batch_apart(b) && pick_prompt(b, false) && !(waited && has_streams(b));
}

/* Neighbours whose prompts get `each` tokens; the shortest rest and the longest beginning among them. */
struct run {
    uint32_t from, to, each, least, held;
};

/* The prompt in slot i, beside the run, joins it if there is room: with as much as the others; or with all that it has,
 * if what the others then lack, or it, is little. */
static bool join(const struct vr_batcher *b, struct run *r, uint32_t i, uint32_t room)
{
    const struct vr_slot *slot = i < b->slots.n ? &b->slots.slot[i] : NULL;
    if (!slot || !slot->choice || slot->choice->state != VR_PROMPT || left_text(slot->choice) == 0 ||
        !its_turn(b, slot->choice))
        return false;
    uint32_t n = r->to - r->from + 1, rest = left_text(slot->choice);
    uint32_t least = rest < r->least ? rest : r->least, held = slot->n > r->held ? slot->n : r->held;
    uint32_t each = rest > r->each ? rest : r->each;
    bool whole = least >= each - each / 4 && held + each <= b->e->n_ctx_seq && n * each <= room;
    if (!whole && (rest < r->each || n * r->each > room)) return false;
    *r = (struct run){ i < r->from ? i : r->from, i < r->to ? r->to : i + 1, whole ? each : r->each, least, held };
    return true;
}

static uint32_t give_run(struct vr_batcher *b)
{
    struct vr_choice *c = pick_prompt(b, b->n_runs++ % OLDEST_EVERY == 0);
    uint32_t chunk = vr_batch_chunk(b), rest = left_text(c), i = (uint32_t)(c->slot - b->slots.slot), given = 0;
    struct run r = { i, i + 1, rest < chunk ? rest : chunk, rest, c->slot->n };
    uint32_t room = r.each <= tokens_in(b, BRIEF_MS, b->e->n_batch) ? b->e->n_batch : chunk;
    bool fill = can_fill(b) && !b->e->n_swa; /* of several tokens: a window would move on, and what it left is gone */
    while (join(b, &r, r.to, room) || join(b, &r, r.from - 1, room)) continue;
    for (i = r.from; i < r.to; i++) {
        uint32_t n = give_prompt(b->slots.slot[i].choice, r.each), lacks = fill ? r.each - n : 0;
        b->slots.slot[i].n_filler = lacks;
        b->totals.filler_tokens += lacks;
        given += n;
    }
    b->n_meanwhile += (r.to - r.from) * r.each;
    return given;
}

/* A prompt between two streams goes along with one token, so there is no gap; but not with its last one, whose logits
 * there may be no room for. */
static uint32_t give_between(struct vr_batcher *b, uint32_t before)
{
    uint32_t given = before, from = b->slots.n, to = 0;
    for (uint32_t i = 0; i < b->slots.n; i++) {
        const struct vr_choice *c = b->slots.slot[i].choice;
        if (!c || c->n_add == 0) continue;
        if (from > i) from = i;
        to = i;
    }
    for (uint32_t i = from; i < to && given < b->e->n_batch; i++) {
        struct vr_choice *c = b->slots.slot[i].choice;
        if (c && c->state == VR_PROMPT && its_turn(b, c) && left(c) > 1) given += give_prompt(c, 1);
    }
    return given - before;
}

/* Where the choice's prompt is interrupted next. */
static uint32_t next_stop(const struct vr_batcher *b, const struct vr_choice *c)
{
    const struct vr_checkpoint *last = vr_checkpoints_last(&c->slot->checkpoints, c->slot->n);
    if (!b->e->stop_step || c->state != VR_PROMPT || !c->job->request->cache) return VR_NO_STOP_AT;
    return vr_next_stop(c->prompt, last ? last->n : 0, c->slot->n, c->n_todo);
}

/* A prompt that is alone and takes several passes gets equal parts, in multiples of EVEN: a short one at the end would
 * be slow (stops.c). Returns by how much that is less. */
static uint32_t even_out(struct vr_batcher *b)
{
    struct vr_choice *one = NULL;
    for (uint32_t i = 0; i < b->slots.n; i++) {
        struct vr_choice *c = b->slots.slot[i].choice;
        if (!c || c->n_add == 0) continue;
        if (one || c->state != VR_PROMPT || c->slot->n_filler) return 0;
        one = c;
    }
    if (!one || left_text(one) == 0) return 0;
    uint32_t all = one->n_add + left_text(one), n_parts = (all + one->n_add - 1) / one->n_add;
    uint32_t part = ((all + n_parts - 1) / n_parts + EVEN - 1) / EVEN * EVEN, less = 0;
    if (part < one->n_add) less = one->n_add - part;
    one->n_add -= less;
    return less;
}

static uint32_t give(struct vr_batcher *b, bool with_prompts)
{
    for (uint32_t i = 0; i < b->slots.n; i++) {
        struct vr_choice *c = b->slots.slot[i].choice;
        if (c) c->n_add = 0, c->row = -1, c->stop = next_stop(b, c);
    }
    uint32_t given;
    if (with_prompts && vr_batch_without_streams(b))
        given = give_run(b);
    else {
        b->n_meanwhile = 0;
        given = give_streams(b);
        if (with_prompts) given += vr_batch_apart(b) ? give_between(b, given) : give_prompts(b, given);
    }
    return given - even_out(b);
}

/* --- tokens --- */

static int32_t put(struct vr_batcher *b, const struct vr_slot *slot, uint32_t at, llama_token token, bool logits)
{
    struct llama_batch *t = &b->batch;
    int32_t i = t->n_tokens++;
    t->token[i] = token;
    t->pos[i] = vr_slot_pos(slot, at);
    t->n_seq_id[i] = 1;
    t->seq_id[i][0] = slot->seq;
    t->logits[i] = logits;
    return i;
}

static void put_choice(struct vr_batcher *b, struct vr_choice *c)
{
    uint32_t from = c->slot->n;
    for (uint32_t k = 0; k < c->n_add; k++) {
        bool text = c->state == VR_TEXT, logits = text || from + k + 1 == c->n_todo;
        llama_token token = !text ? c->todo[from + k] : k ? c->draft[k - 1] : c->next;
        int32_t i = put(b, c->slot, from + k, token, logits);
        if (logits && c->row < 0) c->row = i;
        b->in_batch[i] = c->job->request;
    }
    for (uint32_t k = 0; k < c->slot->n_filler; k++)
        b->in_batch[put(b, c->slot, from + c->n_add + k, 0, false)] = c->job->request;
}

/* One past the last slot whose stream wants one token; 0 when gaps are better left: where they cost nothing, where a
 * row costs the host as much as a pass, and beside guesses, which are several tokens of a sequence. */
static uint32_t end_of_streams(const struct vr_batcher *b)
{
    uint32_t end = 0;
    if (!can_fill(b)) return 0;
    for (uint32_t i = 0; i < b->slots.n; i++) {
        const struct vr_choice *c = b->slots.slot[i].choice;
        if (!c || c->state != VR_TEXT || c->n_add == 0) continue;
        if (c->n_draft) return 0;
        end = i + 1;
    }
    return end;
}

/* Slots between two that compute something get a token, too: reading all weights once more would take longer. Returns
 * how many. */
static uint32_t put_fillers(struct vr_batcher *b, uint32_t from, uint32_t to, uint32_t room, struct vr_request *r)
{
    struct vr_slot *slot = b->slots.slot;
    if (to - from > MOST_GAP || to - from > room) return 0;
    for (uint32_t i = from; i < to; i++)
        if (slot[i].choice || slot[i].held || slot[i].n >= b->e->n_ctx_seq) return 0;
    for (uint32_t i = from; i < to; i++) {
        b->in_batch[put(b, &slot[i], slot[i].n, 0, false)] = r;
        slot[i].n_filler = 1;
    }
    b->totals.filler_tokens += to - from;
    return to - from;
}

uint32_t vr_batch_fill(struct vr_batcher *b, bool with_prompts)
{
    uint32_t given = give(b, with_prompts);
    uint32_t room = b->e->n_batch - given, end = end_of_streams(b), next = 0; /* behind the last slot that computes */
    struct vr_request *stream = NULL;
    b->batch.n_tokens = 0;
    for (uint32_t i = 0; i < b->slots.n; i++) {
        struct vr_choice *c = b->slots.slot[i].choice;
        if (!c || c->n_add == 0) continue;
        if (stream && i < end) room -= put_fillers(b, next, i, room, stream);
        put_choice(b, c);
        next = i + 1;
        if (c->state == VR_TEXT) stream = c->job->request;
    }
    return given;
}

void vr_batch_unfill(struct vr_batcher *b)
{
    for (uint32_t i = 0; i < b->slots.n; i++) {
        struct vr_slot *slot = &b->slots.slot[i];
        uint32_t n = slot->n + (slot->choice ? slot->choice->n_add : 0);
        if (slot->n_filler) llama_memory_seq_rm(b->e->memory, slot->seq, vr_slot_pos(slot, n), -1);
        slot->n_filler = 0;
    }
}
