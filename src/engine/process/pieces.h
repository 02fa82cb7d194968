/* What of a growing text may be said already.
 *
 * Tokens end anywhere: inside a character, inside a stop string. Pieces go in as they come; what comes out is valid
 * UTF-8 in whole characters, and nothing that is, or could still become, a stop string. Bytes that are no UTF-8 become
 * U+FFFD, and so does U+0000: a client sends the answer back as history, and no request may hold that. Pure. */
#ifndef VR_ENGINE_PROCESS_PIECES_H
#define VR_ENGINE_PROCESS_PIECES_H

#include <stdint.h>

#include "base/buf.h"

struct vr_text {
    const char *const *stops; /* the caller's; none is empty */
    size_t n_stops;
    struct vr_buf held;    /* whole characters that were not said yet */
    unsigned char tail[4]; /* the beginning of a character */
    size_t n_tail;
    size_t clean; /* no stop string begins in the first so many bytes of held */
};

void vr_text_add(struct vr_text *t, const char *piece, size_t n);
/* No more will come: half a character becomes U+FFFD. */
void vr_text_end(struct vr_text *t);

/* How many bytes of `held` may be said. *stop is the index of the stop string that was found, which begins right
 * behind them, or -1: then a part that might become one is kept back. */
size_t vr_text_ready(struct vr_text *t, int *stop);
/* They were said. */
void vr_text_take(struct vr_text *t, size_t n);
void vr_text_done(struct vr_text *t);

#endif
