/* Guesses from the text itself: what followed when the last tokens stood there before. No second model, no memory of
 * the device; right where text repeats (code that is edited, quotations, lists, tool calls).
 *
 * Each stream looks into its own tokens only. (The engine's kinds that keep one table for all sequences would let one
 * client see from the time what another wrote.) */
#ifndef VR_ENGINE_SPECULATE_NGRAM_H
#define VR_ENGINE_SPECULATE_NGRAM_H

#include <stdint.h>

#define VR_NGRAM_KEY 3 /* tokens that must have stood there before */

struct vr_ngram;
struct vr_ngram *vr_ngram_new(void); /* NULL: out of memory */
void vr_ngram_free(struct vr_ngram *g);

/* The text is n tokens and `next`; from one call to the next it only grows. Guesses of what follows go to out[], at
 * most `most`; how many. Tokens of pictures, which are negative, are never guessed. */
uint32_t vr_ngram_guess(struct vr_ngram *g, const int32_t *tokens, uint32_t n, int32_t next, uint32_t most,
                        int32_t *out);

#endif
