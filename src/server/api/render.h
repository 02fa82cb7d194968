/* OpenAI's chats, completions and embeddings as JSON, written by hand: the events of a stream, and whole answers
 * (vr_openai_chat and so on, dialect.h). And what other dialects need of it. */
#ifndef VR_SERVER_API_RENDER_H
#define VR_SERVER_API_RENDER_H

#include "base/buf.h"
#include "server/api/calls.h"

struct vr_front;

/* How long prompt and answer took, as llama.cpp tells it: a member, with the comma before it. */
void vr_render_timings(struct vr_buf *out, const struct vr_call *call);
/* One embedding into call->body. */
void vr_render_embedding(struct vr_call *call, const struct vr_wire_result *r);
/* Its numbers alone, in brackets. */
void vr_render_floats(struct vr_buf *out, const struct vr_wire_result *r);

/* Of a dialect: the last event of a stream that failed; how many tokens a request has. */
void vr_render_error(struct vr_buf *out, struct vr_front *f, struct vr_call *call, const struct vr_told *e);
void vr_render_count(struct vr_buf *out, struct vr_front *f, struct vr_call *call);

/* Merges one delta of tool calls into a choice's array. False: it is not one. */
bool vr_merge_tool(struct vr_call_choice *c, const char *json, size_t n) VR_MUST_CHECK;
/* A string of one, put together of its pieces. */
void vr_join_pieces(struct vr_buf *out, const json_t *pieces);
/* The array that they became. */
void vr_render_tools(struct vr_buf *out, const struct vr_call_choice *c);

#endif
