/* Answers in blocks: Responses calls them items, Messages content blocks. The engine tells text, thoughts and tool
 * calls in any order; a block ends where another kind, or another call, begins. Shared by the dialects that need it. */
#ifndef VR_SERVER_DIALECT_ANSWER_BLOCKS_H
#define VR_SERVER_DIALECT_ANSWER_BLOCKS_H

#include "server/api/calls.h"

/* `out` is NULL where the answer is whole. In each the block's number is call->blocks.index, its kind .open - 1, a
 * call's id and name .id and .name; its text so far is that of the only choice, its logprobs, too. */
struct vr_block_ops {
    void (*open)(struct vr_buf *out, struct vr_front *f, struct vr_call *call);
    void (*more)(struct vr_buf *out, struct vr_front *f, struct vr_call *call, const struct vr_said_piece *p);
    void (*close)(struct vr_buf *out, struct vr_front *f, struct vr_call *call);
};

/* `delta` and `finish` of a dialect that has `blocks`. Pieces that are no pieces of a call are dropped. */
void vr_blocks_delta(struct vr_buf *out, struct vr_front *f, struct vr_call *call, const struct vr_said_piece *p);
void vr_blocks_finish(struct vr_buf *out, struct vr_front *f, struct vr_call *call, size_t choice);

#endif
