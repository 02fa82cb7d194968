/* Answers as JSON, written by hand: the events of a stream, and whole answers. */
#ifndef VR_SERVER_API_RENDER_H
#define VR_SERVER_API_RENDER_H

#include "base/buf.h"
#include "server/api/calls.h"

struct vr_front;

/* How every event of a call begins, up to the number of the choice. */
void vr_render_prefix(struct vr_buf *out, const struct vr_front *f, const struct vr_call *call);
/* An event with a piece of a choice; the first one of a choice tells the role before. `logprobs` are the entries that
 * belong to it, n_logprobs = 0 for none. */
void vr_render_delta(struct vr_buf *out, struct vr_call *call, size_t choice, enum vr_delta what, const char *text,
                     size_t n, const char *logprobs, size_t n_logprobs);
void vr_render_finish(struct vr_buf *out, struct vr_call *call, size_t choice);
/* The usage, where it was asked for, and [DONE]. */
void vr_render_done(struct vr_buf *out, const struct vr_front *f, const struct vr_call *call);

/* A whole chat or completion. */
void vr_render_whole(struct vr_buf *out, const struct vr_front *f, struct vr_call *call);
/* One embedding into call->body, and the reply around them. */
void vr_render_embedding(struct vr_call *call, const struct vr_wire_result *r);
void vr_render_embeddings(struct vr_buf *out, const struct vr_front *f, struct vr_call *call);

/* Merges one delta of tool calls into a choice's array. False: it is not one. */
bool vr_merge_tool(struct vr_call_choice *c, const char *json, size_t n) VR_MUST_CHECK;

#endif
