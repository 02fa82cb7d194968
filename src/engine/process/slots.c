/* Where to put a prompt: the slot that shares the longest beginning with it knows best, but taking it may throw away
 * another conversation. If it would lose more than half of what it holds, or is busy, the beginning is copied to
 * another slot instead: for nothing where sequences share their cells, and else when the copy is worth it. */
#include "engine/process/slots.h"

#include <string.h>

enum { WORTH_COPYING = 64 }; /* tokens, where copying moves memory */

bool vr_slots_init(struct vr_slots *s, const struct vr_engine *e, struct vr_err *err)
{
    *s = (struct vr_slots){ .e = e, .n = e->n_seq };
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
    for (uint32_t i = 0; s->slot && i < s->n; i++) free(s->slot[i].tokens);
    free(s->slot);
    *s = (struct vr_slots){ 0 };
}

void vr_slot_push(struct vr_slot *slot, const llama_token *tokens, uint32_t n)
{
    memcpy(slot->tokens + slot->n, tokens, n * sizeof *tokens);
    slot->n += n;
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
    while (slot->n_shifts && slot->shifts[slot->n_shifts - 1].end > n) slot->n_shifts--;
}

void vr_slots_clear(struct vr_slots *s, struct vr_slot *slot)
{
    if (s->e->memory) llama_memory_seq_rm(s->e->memory, slot->seq, -1, -1);
    forget(slot, 0);
}

/* Keeps the first n tokens. */
static void cut(struct vr_slots *s, struct vr_slot *slot, uint32_t n)
{
    if (n == slot->n) return;
    if (n == 0 || !llama_memory_seq_rm(s->e->memory, slot->seq, vr_slot_pos(slot, n), -1))
        vr_slots_clear(s, slot);
    else
        forget(slot, n);
}

void vr_slots_give(struct vr_slots *s, struct vr_slot *slot)
{
    slot->choice = NULL;
    slot->used = ++s->clock;
}

void vr_slots_resync(struct vr_slots *s, struct vr_slot *slot)
{
    llama_pos last = llama_memory_seq_pos_max(s->e->memory, slot->seq);
    if (!s->e->can_cut || slot->n_shifts)
        vr_slots_clear(s, slot); /* a state in the middle of nowhere, or positions that are not counts */
    else if (last + 1 < (llama_pos)slot->n)
        forget(slot, last < 0 ? 0 : (uint32_t)last + 1);
    else if (last + 1 > (llama_pos)slot->n) /* more than we counted: the batch's parts that were done */
        llama_memory_seq_rm(s->e->memory, slot->seq, (llama_pos)slot->n, -1);
}

bool vr_slots_evict(struct vr_slots *s)
{
    struct vr_slot *oldest = NULL;
    for (uint32_t i = 0; i < s->n; i++) {
        struct vr_slot *slot = &s->slot[i];
        if (!slot->choice && !slot->held && slot->n && (!oldest || slot->used < oldest->used)) oldest = slot;
    }
    if (oldest) vr_slots_clear(s, oldest);
    return oldest != NULL;
}

/* How many tokens of the prompt's beginning this slot can give. */
static uint32_t shared(const struct vr_slots *s, const struct vr_slot *slot, const llama_token *prompt, uint32_t n)
{
    uint32_t most = slot->n < n - 1 ? slot->n : n - 1, k = 0; /* the last token must be computed, for its logits */
    if (slot->held) return 0;
    while (k < most && slot->tokens[k] == prompt[k]) k++;
    if (k == slot->n) return k;
    if (!s->e->can_cut) return 0;
    if (s->e->n_swa) { /* what the window needs may be gone */
        llama_pos first = llama_memory_seq_pos_min(s->e->memory, slot->seq);
        if (first > 0 && (int64_t)first > (int64_t)k - (int64_t)s->e->n_swa) return 0;
    }
    return k;
}

/* How many of the two slots beside one are in use. Where sequences have cells of their own, the engine computes only
 * such together that are numbered without a gap: each gap is one more pass over all weights, in every step. */
static int beside(const struct vr_slots *s, uint32_t i)
{
    if (s->e->unified) return 0;
    return (i > 0 && s->slot[i - 1].choice) + (i + 1 < s->n && s->slot[i + 1].choice);
}

/* The idle slot whose memory is missed least: an empty one, one that closes a gap, one that leaves
 * none, the one not used for longest. */
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
                                            : slot->used < best->used;
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
    forget(to, n);
}

/* Gives `to` the first n tokens of `from`. */
static void copy(struct vr_slots *s, struct vr_slot *to, const struct vr_slot *from, uint32_t n)
{
    vr_slots_clear(s, to);
    if (s->e->unified && s->e->can_cut) {
        llama_memory_seq_cp(s->e->memory, from->seq, to->seq, 0, vr_slot_pos(from, n));
        learn(to, from, n);
    } else { /* between streams only whole sequences are copied */
        llama_memory_seq_cp(s->e->memory, from->seq, to->seq, -1, -1);
        learn(to, from, from->n);
        cut(s, to, n);
    }
}

/* Whether the beginning that `best` shares can be in another slot without computing it. */
static bool can_copy(const struct vr_slots *s, const struct vr_slot *best, uint32_t n)
{
    return s->e->unified ? s->e->can_cut || n == best->n : n >= WORTH_COPYING;
}

struct vr_slot *vr_slots_take(struct vr_slots *s, const llama_token *prompt, uint32_t n, bool reuse, uint32_t *n_cached)
{
    struct vr_slot *best = NULL;
    uint32_t most = 0;
    for (uint32_t i = 0; reuse && i < s->n; i++) {
        uint32_t k = shared(s, &s->slot[i], prompt, n);
        if (k > most) most = k, best = &s->slot[i];
    }
    struct vr_slot *other = idle(s, best);
    bool copies = best && can_copy(s, best, most);
    bool here = best && !best->choice && (!other || best->n - most <= other->n + (copies ? 0 : 2 * most));
    struct vr_slot *slot = here ? best : other;
    if (!slot) return NULL;
    if (here)
        cut(s, slot, most);
    else if (copies)
        copy(s, slot, best, most);
    else
        vr_slots_clear(s, slot);
    *n_cached = slot->n;
    slot->used = ++s->clock;
    return slot;
}

struct vr_slot *vr_slots_fork(struct vr_slots *s, const struct vr_slot *from)
{
    struct vr_slot *slot = idle(s, NULL);
    if (!slot) return NULL;
    vr_slots_clear(s, slot);
    llama_memory_seq_cp(s->e->memory, from->seq, slot->seq, -1, -1);
    learn(slot, from, from->n);
    slot->used = ++s->clock;
    return slot;
}

struct vr_slot *vr_slots_hold(struct vr_slots *s)
{
    struct vr_slot *slot = idle(s, NULL);
    if (!slot) return NULL;
    vr_slots_clear(s, slot);
    slot->held = true;
    return slot;
}

void vr_slots_let(struct vr_slots *s, struct vr_slot *slot)
{
    vr_slots_clear(s, slot);
    slot->held = false;
}
