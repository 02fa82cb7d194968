/* The sequences of the context, what each still remembers, and what they had to give up (recall.h).
 *
 * A sequence that is no longer used keeps its tokens: the next prompt that begins alike does not compute them again.
 * The tokens of a slot are always what the engine's memory holds for its sequence. They are used again for the tenant
 * that they were computed for and for no other, who could tell from the time, and from cached_tokens, what it was. */
#ifndef VR_ENGINE_PROCESS_SLOTS_H
#define VR_ENGINE_PROCESS_SLOTS_H

#include "engine/process/recall.h"

/* Pictures in one sequence that take fewer positions than tokens. */
#define VR_MOST_SHIFTS 64

struct vr_choice;

struct vr_slot {
    llama_seq_id seq;
    struct vr_choice *choice; /* NULL: idle */
    llama_token *tokens;      /* room for n_ctx_seq; those of pictures are negative, and tell pictures apart */
    uint32_t n;
    uint64_t tenant; /* whose tokens they are */
    struct {
        uint32_t end, less; /* behind a picture, positions are so many fewer than tokens */
    } shifts[VR_MOST_SHIFTS];
    uint32_t n_shifts;
    struct vr_checkpoints checkpoints;
    bool rolled_back;  /* its state is put back when it is next computed: until then it cannot be copied */
    bool held;         /* by what is not a choice, or a picture: the engine's memory of it is being changed */
    uint32_t n_filler; /* tokens that the batch has behind its own, to be forgotten */
    bool kept;         /* a copy of it as it is went to host memory, where that pays off */
    uint64_t used;     /* when it was last used */
    double worth; /* of an idle one: the tokens it saves if it is asked for again, and more the later it was used */
};

struct vr_slots {
    const struct vr_engine *e;
    struct vr_slot *slot;
    uint32_t n;
    uint64_t clock;
    double floor; /* what the last idle slot that was taken was worth */
    struct vr_recall recall;
    double prompt_us;             /* of a token of prompt, as measured; 0: not known yet */
    uint64_t n_recomputed_tokens; /* known, but not where a prompt could go on from */
};

bool vr_slots_init(struct vr_slots *s, const struct vr_engine *e, struct vr_err *err) VR_MUST_CHECK;
void vr_slots_done(struct vr_slots *s);

/* An idle slot for a tenant's prompt of n tokens, holding its first *n_cached ones (fewer than n) when `reuse`, or
 * none. NULL when all are busy. The caller sets its choice. */
struct vr_slot *vr_slots_take(struct vr_slots *s, uint64_t tenant, const llama_token *prompt, uint32_t n, bool reuse,
                              uint32_t *n_cached);
/* The same, in the slot that is wished for, if that is idle; NULL: any. */
struct vr_slot *vr_slots_take_as(struct vr_slots *s, struct vr_slot *wish, uint64_t tenant, const llama_token *prompt,
                                 uint32_t n, bool reuse, uint32_t *n_cached);
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
/* Remembers the state behind the tokens that the slot holds now, as far as there is room. */
void vr_slots_checkpoint(struct vr_slots *s, struct vr_slot *slot);
/* After a computation that was broken off: as much as the engine still has. */
void vr_slots_resync(struct vr_slots *s, struct vr_slot *slot);
/* Empties the idle slot that is worth least. False when none holds anything. */
bool vr_slots_evict(struct vr_slots *s);
/* Empties a slot; what it holds goes to host memory where that pays off. */
void vr_slots_shelve(struct vr_slots *s, struct vr_slot *slot);
/* Idle slots go to host memory, too, and so to disk: as copies, where that pays off. */
void vr_slots_keep(struct vr_slots *s);

#endif
