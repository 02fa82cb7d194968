/* The sequences of the context, and what each still remembers.
 *
 * A sequence that is no longer used keeps its tokens: the next prompt that begins alike does not compute them again.
 * The tokens of a slot are always what the engine's memory holds for its sequence. */
#ifndef VR_ENGINE_PROCESS_SLOTS_H
#define VR_ENGINE_PROCESS_SLOTS_H

#include "engine/process/loader.h"

/* Pictures in one sequence that take fewer positions than tokens. */
#define VR_MOST_SHIFTS 64

struct vr_choice;

struct vr_slot {
    llama_seq_id seq;
    struct vr_choice *choice; /* NULL: idle */
    llama_token *tokens;      /* room for n_ctx_seq; those of pictures are negative, and tell pictures apart */
    uint32_t n;
    struct {
        uint32_t end, less; /* behind a picture, positions are so many fewer than tokens */
    } shifts[VR_MOST_SHIFTS];
    uint32_t n_shifts;
    bool held;         /* by what is not a choice, or a picture: the engine's memory of it is being changed */
    uint32_t n_filler; /* tokens that the batch has behind its own, to be forgotten */
    uint64_t used;     /* when it was last used */
};

struct vr_slots {
    const struct vr_engine *e;
    struct vr_slot *slot;
    uint32_t n;
    uint64_t clock;
};

bool vr_slots_init(struct vr_slots *s, const struct vr_engine *e, struct vr_err *err) VR_MUST_CHECK;
void vr_slots_done(struct vr_slots *s);

/* An idle slot for a prompt of n tokens, holding its first *n_cached ones (fewer than n) when `reuse`, or none. NULL
 * when all are busy. The caller sets its choice. */
struct vr_slot *vr_slots_take(struct vr_slots *s, const llama_token *prompt, uint32_t n, bool reuse,
                              uint32_t *n_cached);
/* An idle slot that becomes a copy of `from`. NULL when all are busy. */
struct vr_slot *vr_slots_fork(struct vr_slots *s, const struct vr_slot *from);
/* An idle slot, empty, for something else; vr_slots_let() gives it back. NULL when all are busy. */
struct vr_slot *vr_slots_hold(struct vr_slots *s);
void vr_slots_let(struct vr_slots *s, struct vr_slot *slot);
/* The engine has taken these. */
void vr_slot_push(struct vr_slot *slot, const llama_token *tokens, uint32_t n);
/* The same for a picture of n tokens; false when the slot cannot remember one more of those that bend positions. */
bool vr_slot_push_picture(struct vr_slot *slot, const llama_token *tokens, uint32_t n, uint32_t n_pos);
/* The position of token i, which may be the next one. */
llama_pos vr_slot_pos(const struct vr_slot *slot, uint32_t i);
/* The slot becomes idle and keeps what it knows. */
void vr_slots_give(struct vr_slots *s, struct vr_slot *slot);
void vr_slots_clear(struct vr_slots *s, struct vr_slot *slot);
/* After a computation that was broken off: as much as the engine still has. */
void vr_slots_resync(struct vr_slots *s, struct vr_slot *slot);
/* Forgets the idle slot that was used least lately. False when none holds anything. */
bool vr_slots_evict(struct vr_slots *s);

#endif
