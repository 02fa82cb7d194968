/* One choice's answer on its way out: tokens in, DELTA frames out.
 *
 * Text waits until it is sure (text.h); chats that think or call tools go through the template's parser, not more often
 * than its cost allows; requests that do not stream are collected. */
#ifndef VR_ENGINE_PROCESS_DELTAS_H
#define VR_ENGINE_PROCESS_DELTAS_H

#include "engine/process/request.h"
#include "engine/process/pieces.h"
#include "engine/wire/wire.h"

struct vr_reply {
    const struct vr_request *request;
    uint8_t choice;
    struct vr_text text;
    struct vr_answer *answer; /* NULL: everything is text */
    bool reasoning;           /* the last token belonged to a thought */
    double parse_after_us;    /* not before then */
    bool behind;              /* the parser has text that it was not asked about yet */
    size_t n_parsed, n_slow;  /* bytes for the parser; so many took it long, and it is asked again at the end only */
    unsigned slow_times;      /* so often in a row it took long */
    size_t depth;             /* of brackets in them */
    struct vr_buf probs;      /* logprobs that were not sent yet */
    bool failed;              /* memory ran out */
    const char *refused;      /* the answer cannot go on, and why; NULL: it can */
};

bool vr_reply_init(struct vr_reply *r, const struct vr_request *request, uint8_t choice,
                   struct vr_err *err) VR_MUST_CHECK;
void vr_reply_done(struct vr_reply *r);

/* A token's text, and what is known about its probability (NULL, or JSON of n_probs bytes). Returns the index of the
 * stop string that ended the answer, or -1. */
int vr_reply_add(struct vr_reply *r, const char *piece, size_t n, const struct vr_buf *probs, struct vr_buf *out);
/* The answer is over; what is held goes out unless a stop string ended it. */
void vr_reply_end(struct vr_reply *r, bool stopped, struct vr_buf *out);
bool vr_reply_has_tools(const struct vr_reply *r);
/* Nothing that would still come may be said. */
bool vr_reply_is_full(const struct vr_reply *r);

#endif
