/* Where to put a prompt: the slot that shares the longest beginning with it knows best, but taking it may throw away
 * another conversation. If it would lose more than half of what it holds, or is busy, the beginning is copied to
 * another slot instead: for nothing where sequences share their cells, and else when the copy is worth it.
 *
 * A recurrent state cannot be cut back to that beginning, nor a window that has moved on: there the slot goes back to
 * the latest checkpoint that is not beyond it, and only so much of the beginning counts as shared.
 *
 * What a slot must give up goes to host memory, and comes back from there when it is asked for again; both only where
 * copying takes less time than computing, by the speeds that were measured. Of idle slots the one is taken whose loss
 * costs least time, and among equals the one not used for longest (GreedyDual, as in cache/prompt_cache.h). */
#include "engine/process/slots.h"

#include <string.h>

enum {
    WORTH_COPYING = 64, /* tokens, where copying moves memory */
    WORTH_SAVING = 64,
};
#define GUESS_MS 0.1 /* of a token of prompt, until it was measured */

bool vr_slots_init(struct vr_slots *s, const struct vr_engine *e, struct vr_err *err)
{
    *s = (struct vr_slots){ .e = e, .n = e->n_seq };
    vr_recall_init(&s->recall, e);
    s->slot = calloc(s->n, sizeof *s->slot);
    if (!s->slot) return vr_fail_nomem(err, "allocating the slots");
    for (uint32_t i = 0; i < s->n; i++) {
        s->slot[i].seq = (llama_seq_id)i;
        s->slot[i].tokens = calloc((size_t)e->n_ctx_seq + 1, sizeof(llama_token));
        if (!s->slot[i].tokens) return vr_slots_done(s), vr_fail_nomem(err, "allocating the slots");
    }
    return true;
}

void vr_slots_done(struct vr_slots *s)
{
    for (uint32_t i = 0; s->slot && i < s->n; i++) {
        vr_checkpoints_clear(&s->slot[i].checkpoints);
        free(s->slot[i].tokens);
    }
    free(s->slot);
    vr_recall_done(&s->recall);
    *s = (struct vr_slots){ 0 };
}

void vr_slot_push(struct vr_slot *slot, const llama_token *tokens, uint32_t n)
{
    memcpy(slot->tokens + slot->n, tokens, n * sizeof *tokens);
    slot->n += n;
    slot->kept = false;
}

bool vr_slot_push_picture(struct vr_slot *slot, const llama_token *tokens, uint32_t n, uint32_t n_pos)
{
    if (n_pos != n && slot->n_shifts == VR_MOST_SHIFTS) return false;
    vr_slot_push(slot, tokens, n);
    if (n_pos == n) return true;
    uint32_t before = slot->n_shifts ? slot->shifts[slot->n_shifts - 1].less : 0;
    slot->shifts[slot->n_shifts].end = slot->n;
    slot->shifts[slot->n_shifts++].less = before + n - n_pos;
    return true;
}

llama_pos vr_slot_pos(const struct vr_slot *slot, uint32_t i)
{
    uint32_t less = 0;
    for (uint32_t k = 0; k < slot->n_shifts && slot->shifts[k].end <= i; k++) less = slot->shifts[k].less;
    return (llama_pos)(i - less);
}

/* It holds n tokens, and nothing that was behind them. */
static void forget(struct vr_slot *slot, uint32_t n)
{
    slot->n = n;
    vr_checkpoints_cut(&slot->checkpoints, n);
    while (slot->n_shifts && slot->shifts[slot->n_shifts - 1].end > n) slot->n_shifts--;
}

void vr_slots_clear(struct vr_slots *s, struct vr_slot *slot)
{
    if (s->e->memory) llama_memory_seq_rm(s->e->memory, slot->seq, -1, -1);
    slot->rolled_back = false;
    forget(slot, 0);
}

/* The end of the sequence can go, and what is left knows all that the next token needs. */
static bool can_cut(const struct vr_slots *s, const struct vr_slot *slot, uint32_t n)
{
    if (!s->e->can_cut) return false;
    if (!s->e->n_swa) return true;
    llama_pos first = llama_memory_seq_pos_min(s->e->memory, slot->seq);
    return first <= 0 || (int64_t)first <= (int64_t)vr_slot_pos(slot, n) - (int64_t)s->e->n_swa;
}

/* Of the first k tokens, how many the slot can go back to. */
static uint32_t reach(const struct vr_slots *s, const struct vr_slot *slot, uint32_t k)
{
    if (k == slot->n || can_cut(s, slot, k)) return k;
    const struct vr_checkpoint *c = vr_checkpoints_last(&slot->checkpoints, k);
    return c ? c->n : 0;
}

/* Goes back to the first n tokens, or to none: n is what reach() said. */
static void cut(struct vr_slots *s, struct vr_slot *slot, uint32_t n)
{
    if (n == slot->n) return;
    bool ok = n > 0;
    if (ok && !can_cut(s, slot, n)) {
        const struct vr_checkpoint *c = vr_checkpoints_last(&slot->checkpoints, n);
        ok = c && c->n == n && vr_recall_restore(&s->recall, slot->seq, c->state);
        slot->rolled_back = false;
    }
    if (ok && llama_memory_seq_rm(s->e->memory, slot->seq, vr_slot_pos(slot, n), -1))
        forget(slot, n);
    else
        vr_slots_clear(s, slot);
}

/* Time to compute so many tokens of prompt. */
static double ms_of(const struct vr_slots *s, uint32_t n)
{
    return n * (s->prompt_us > 0 ? s->prompt_us / 1e3 : GUESS_MS);
}

void vr_slots_give(struct vr_slots *s, struct vr_slot *slot)
{
    slot->choice = NULL;
    slot->used = ++s->clock;
    slot->worth = s->floor + slot->n; /* each token takes the same time to compute again */
}

void vr_slots_resync(struct vr_slots *s, struct vr_slot *slot)
{
    llama_pos last = llama_memory_seq_pos_max(s->e->memory, slot->seq);
    uint32_t n = slot->n;
    if (!s->e->can_cut) { /* a state in the middle of nowhere */
        const struct vr_checkpoint *c = vr_checkpoints_last(&slot->checkpoints, slot->n);
        slot->n++; /* it is not where it was: also what it holds must be put back */
        cut(s, slot, c ? c->n : 0);
    } else if (slot->n_shifts)
        vr_slots_clear(s, slot); /* positions that are not counts */
    else if (last + 1 < (llama_pos)slot->n)
        forget(slot, last < 0 ? 0 : (uint32_t)last + 1);
    else if (last + 1 > (llama_pos)slot->n) { /* more than we counted: the batch's parts that were done */
        slot->n = (uint32_t)last + 1;
        cut(s, slot, reach(s, slot, n));
    }
}

/* How many tokens slot and prompt begin with. The prompt's last one must be computed, for its logits. */
static uint32_t common(const struct vr_slot *slot, const llama_token *prompt, uint32_t n)
{
    uint32_t most = slot->n < n - 1 ? slot->n : n - 1, k = 0;
    while (k < most && slot->tokens[k] == prompt[k]) k++;
    return k;
}

/* How many of the two slots beside one are in use. Where sequences have cells of their own, the engine computes only
 * such together that are numbered without a gap: each gap is one more pass over all weights, in every step. */
static int beside(const struct vr_slots *s, uint32_t i)
{
    if (s->e->unified) return 0;
    return (i > 0 && s->slot[i - 1].choice) + (i + 1 < s->n && s->slot[i + 1].choice);
}

static bool is_worth_less(const struct vr_slot *a, const struct vr_slot *b)
{
    return a->worth != b->worth ? a->worth < b->worth : a->used < b->used;
}

/* The idle slot whose memory is missed least: an empty one, one that closes a gap, one that leaves none, the one that
 * is worth least. */
static struct vr_slot *idle(struct vr_slots *s, const struct vr_slot *not_this)
{
    struct vr_slot *best = NULL;
    int best_beside = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        struct vr_slot *slot = &s->slot[i];
        if (slot->choice || slot->held || slot == not_this) continue;
        int near = beside(s, i);
        bool empty = slot->n == 0, best_empty = best && best->n == 0;
        bool better = !best                 ? true
                      : empty != best_empty ? empty
                      : near != best_beside ? near > best_beside
                                            : is_worth_less(slot, best);
        if (better) best = slot, best_beside = near;
    }
    return best;
}

/* An empty slot now holds the first n tokens of another. */
static void learn(struct vr_slot *to, const struct vr_slot *from, uint32_t n)
{
    vr_slot_push(to, from->tokens, n);
    memcpy(to->shifts, from->shifts, sizeof to->shifts);
    to->n_shifts = from->n_shifts;
    vr_checkpoints_share(&to->checkpoints, &from->checkpoints, n);
    forget(to, n);
}

/* Gives `to` the first n tokens of `from`. */
static void copy(struct vr_slots *s, struct vr_slot *to, const struct vr_slot *from, uint32_t n)
{
    vr_slots_clear(s, to);
    if (from->rolled_back) return;
    if (s->e->unified && can_cut(s, from, n)) {
        llama_memory_seq_cp(s->e->memory, from->seq, to->seq, 0, vr_slot_pos(from, n));
        learn(to, from, n);
    } else { /* between streams only whole sequences are copied */
        llama_memory_seq_cp(s->e->memory, from->seq, to->seq, -1, -1);
        learn(to, from, from->n);
        if (!can_cut(s, to, n) && !vr_recall_settle(&s->recall)) return vr_slots_clear(s, to);
        cut(s, to, n);
    }
}

/* Whether the beginning that `best` shares is better copied than computed. */
static bool can_copy(const struct vr_slots *s, uint32_t n) { return s->e->unified || n >= WORTH_COPYING; }

/* --- giving up --- */

/* Bytes of the last checkpoint, about what each takes. */
static uint64_t checkpoint_bytes(const struct vr_checkpoints *c) { return c->n ? c->at[c->n - 1].state->n : 0; }

/* What a slot holds beyond the first `keep` tokens is about to be lost. It is saved if copying it to host memory and
 * back takes less time than computing it. */
static void save(struct vr_slots *s, struct vr_slot *slot, uint32_t keep)
{
    uint32_t lost = slot->n - keep;
    double ms = ms_of(s, lost);
    if (!s->e->cache_bytes || lost < WORTH_SAVING || slot->n_shifts) return; /* positions that are not counts */
    if (ms < 2 * vr_recall_ms(&s->recall, slot->n, checkpoint_bytes(&slot->checkpoints))) return;
    const struct vr_checkpoint *last = vr_checkpoints_last(&slot->checkpoints, slot->n);
    if (s->e->stop_step && (!last || last->n < slot->n)) vr_slots_checkpoint(s, slot);
    const struct vr_recall_of of = { .seq = slot->seq,
                                     .tenant = slot->tenant,
                                     .tokens = slot->tokens,
                                     .n = slot->n,
                                     .checkpoints = &slot->checkpoints,
                                     .cost = slot->n };
    vr_recall_save(&s->recall, &of);
}

void vr_slots_shelve(struct vr_slots *s, struct vr_slot *slot)
{
    save(s, slot, 0);
    vr_slots_clear(s, slot);
}

void vr_slots_keep(struct vr_slots *s)
{
    for (uint32_t i = 0; i < s->n; i++) {
        struct vr_slot *slot = &s->slot[i];
        if (slot->choice || slot->held || slot->n == 0 || slot->kept) continue;
        save(s, slot, 0);
        slot->kept = true;
    }
}

bool vr_slots_evict(struct vr_slots *s)
{
    struct vr_slot *least = NULL;
    for (uint32_t i = 0; i < s->n; i++) {
        struct vr_slot *slot = &s->slot[i];
        if (!slot->choice && !slot->held && slot->n && (!least || is_worth_less(slot, least))) least = slot;
    }
    if (least) vr_slots_shelve(s, least);
    return least != NULL;
}

/* --- taking --- */

/* It is no longer what it was: those that stay were worth more. */
static void leave(struct vr_slots *s, const struct vr_slot *slot)
{
    if (slot->n && slot->worth > s->floor) s->floor = slot->worth;
}

/* A cached prompt that has more of the prompt than a slot that has `most` tokens of it, if bringing it back takes less
 * time than computing what it has more. */
static struct vr_cached_prompt *better_cached(const struct vr_slots *s, uint64_t tenant, const llama_token *prompt,
                                              uint32_t n, uint32_t most, uint32_t *n_has)
{
    struct vr_cached_prompt *h = vr_recall_find(&s->recall, tenant, prompt, n - 1, n_has);
    if (!h || *n_has < most + WORTH_SAVING) return NULL;
    return ms_of(s, *n_has - most) > vr_recall_back_ms(&s->recall, h, *n_has) ? h : NULL;
}

/* An empty slot gets the first n tokens of a cached prompt. Where sequences share the cells, idle ones make room for
 * it. */
static void load(struct vr_slots *s, struct vr_slot *slot, struct vr_cached_prompt *h, uint32_t n)
{
    bool ok = vr_recall_load(&s->recall, slot->seq, h, n);
    while (!ok && !vr_cached_prompt_is_damaged(h) && s->e->unified && vr_slots_evict(s))
        ok = vr_recall_load(&s->recall, slot->seq, h, n);
    if (!ok) return vr_slots_clear(s, slot);
    vr_slot_push(slot, (const llama_token *)(const void *)h->tokens->data, n);
    vr_checkpoints_share(&slot->checkpoints, &h->checkpoints, n);
}

/* A slot with the first n tokens of a cached prompt: the one that is wished for, the one that has nothing but the
 * prompt's beginning, or an idle one. NULL: all are busy. */
static struct vr_slot *take_cached(struct vr_slots *s, struct vr_slot *wish, struct vr_slot *best,
                                   struct vr_cached_prompt *h, uint32_t n_has, const llama_token *prompt, uint32_t n)
{
    bool here = best && !best->choice && common(best, prompt, n) == best->n && (!wish || wish == best);
    struct vr_slot *slot = here ? best : wish ? wish : idle(s, NULL);
    if (!slot) return NULL;
    h->n_pins++;
    if (!here) leave(s, slot);
    save(s, slot, common(slot, prompt, n));
    vr_slots_clear(s, slot);
    slot->held = true;
    load(s, slot, h, n_has);
    slot->held = false;
    h->n_pins--;
    if (vr_cached_prompt_is_damaged(h)) vr_prompt_cache_drop_damaged(&s->recall.prompts);
    return slot;
}

/* Whether the prompt goes on with the slot's conversation. A template that drops thoughts rewrites the end of it, but
 * messages that were there come again, so some of what is lost is in the rest of the prompt; of another conversation
 * with the same beginning, an agent's with the same tools, nothing is. */
static bool goes_on(const struct vr_slot *slot, const llama_token *prompt, uint32_t n)
{
    enum { SAMPLES = 8, LENGTH = 32 };
    uint32_t k = common(slot, prompt, n), lost = slot->n - k;
    if (lost < SAMPLES * LENGTH) return true;
    for (uint32_t i = 0; i < SAMPLES; i++) {
        const llama_token *sample = slot->tokens + k + (uint64_t)(lost - LENGTH) * i / (SAMPLES - 1);
        for (uint32_t at = k; at + LENGTH <= n; at++)
            if (prompt[at] == sample[0] && memcmp(prompt + at, sample, LENGTH * sizeof *sample) == 0) return true;
    }
    return false;
}

/* The slot that has `most` tokens of the prompt, cut; or another one with a copy of them; or an empty one, without
 * `best`. A wish decides between these. NULL: all are busy. */
static struct vr_slot *take_slot(struct vr_slots *s, struct vr_slot *wish, struct vr_slot *best, uint32_t most,
                                 const llama_token *prompt, uint32_t n)
{
    struct vr_slot *other = wish && wish != best ? wish : idle(s, best);
    bool copies = best && can_copy(s, most);
    bool cheap = best && (!other || best->n - most <= other->n + (copies ? 0 : 2 * most));
    bool here = best && !best->choice && (wish ? wish == best : cheap);
    struct vr_slot *slot = here ? best : other;
    if (!slot) return NULL;
    if (!here) leave(s, slot);
    if (!here || slot->n - most > most || !goes_on(slot, prompt, n)) save(s, slot, here ? most : 0);
    if (here)
        cut(s, slot, most);
    else if (copies)
        copy(s, slot, best, most);
    else
        vr_slots_clear(s, slot);
    return slot;
}

struct vr_slot *vr_slots_take(struct vr_slots *s, uint64_t tenant, const llama_token *prompt, uint32_t n, bool reuse,
                              uint32_t *n_cached)
{
    return vr_slots_take_as(s, NULL, tenant, prompt, n, reuse, n_cached);
}

struct vr_slot *vr_slots_take_as(struct vr_slots *s, struct vr_slot *wish, uint64_t tenant, const llama_token *prompt,
                                 uint32_t n, bool reuse, uint32_t *n_cached)
{
    if (wish && (wish->choice || wish->held)) wish = NULL;
    struct vr_slot *best = NULL;
    uint32_t most = 0, n_has = 0, known = reuse ? vr_prompt_cache_known(&s->recall.prompts, tenant, prompt, n - 1) : 0;
    for (uint32_t i = 0; reuse && i < s->n; i++) {
        struct vr_slot *slot = &s->slot[i];
        uint32_t k = slot->tenant == tenant && !slot->held ? common(slot, prompt, n) : 0;
        if (k > known) known = k;
        if (k > most) k = reach(s, slot, k);
        if (k > most) most = k, best = slot;
    }
    struct vr_cached_prompt *h = reuse ? better_cached(s, tenant, prompt, n, most, &n_has) : NULL;
    struct vr_slot *slot =
        h ? take_cached(s, wish, best, h, n_has, prompt, n) : take_slot(s, wish, best, most, prompt, n);
    if (!slot) return NULL;
    slot->tenant = tenant;
    *n_cached = slot->n;
    if (known > slot->n) s->n_recomputed_tokens += known - slot->n;
    slot->used = ++s->clock;
    return slot;
}

/* An idle slot, empty. */
static struct vr_slot *take_empty(struct vr_slots *s)
{
    struct vr_slot *slot = idle(s, NULL);
    if (!slot) return NULL;
    leave(s, slot);
    vr_slots_shelve(s, slot);
    return slot;
}

struct vr_slot *vr_slots_fork(struct vr_slots *s, const struct vr_slot *from)
{
    struct vr_slot *slot = take_empty(s);
    if (!slot) return NULL;
    llama_memory_seq_cp(s->e->memory, from->seq, slot->seq, -1, -1);
    learn(slot, from, from->n);
    slot->tenant = from->tenant;
    slot->used = ++s->clock;
    return slot;
}

struct vr_slot *vr_slots_hold(struct vr_slots *s)
{
    struct vr_slot *slot = take_empty(s);
    if (slot) slot->held = true;
    return slot;
}

void vr_slots_let(struct vr_slots *s, struct vr_slot *slot)
{
    vr_slots_clear(s, slot);
    slot->held = false;
}

/* --- checkpoints --- */

/* The slot whose checkpoints are missed least: the one not used for longest that has any. */
static struct vr_slot *oldest_with_checkpoints(struct vr_slots *s, const struct vr_slot *not_this)
{
    struct vr_slot *oldest = NULL;
    for (uint32_t i = 0; i < s->n; i++) {
        struct vr_slot *slot = &s->slot[i];
        if (slot != not_this && slot->checkpoints.n && (!oldest || slot->used < oldest->used)) oldest = slot;
    }
    return oldest;
}

/* Room for so many bytes: cached prompts go first, then idle slots give theirs up, then the slot thins out its own. */
static bool make_room(struct vr_slots *s, struct vr_slot *slot, uint64_t bytes)
{
    const struct vr_cache_ram *ram = &s->recall.ram;
    if (bytes > ram->limit_bytes) return false;
    vr_prompt_cache_make_room(&s->recall.prompts, bytes);
    while (ram->used_bytes + bytes > ram->limit_bytes) {
        struct vr_slot *other = oldest_with_checkpoints(s, slot);
        if (other && !other->choice)
            vr_checkpoints_thin(&other->checkpoints);
        else if (!vr_checkpoints_thin(&slot->checkpoints))
            return false;
    }
    return true;
}

void vr_slots_checkpoint(struct vr_slots *s, struct vr_slot *slot)
{
    uint64_t bytes = vr_recall_partial_cost(&s->recall, slot->seq);
    struct vr_kept *state = make_room(s, slot, bytes) ? vr_recall_partial(&s->recall, slot->seq) : NULL;
    if (state) vr_checkpoints_add(&slot->checkpoints, slot->n, state);
}
