/* The kind of text that the model is made for: counting rhymes, which say one thing at their beginning and then follow
 * from it. */
#ifndef TRAIN_MTP_RHYMES_H
#define TRAIN_MTP_RHYMES_H

#include <stdint.h>

enum { RHYME_END = 256 /* the token behind a rhyme; all others are bytes */ };

uint32_t draw(uint64_t *luck, uint32_t n); /* 0 .. n-1 */
/* n tokens from somewhere in an endless row of rhymes. */
void rhymes(uint64_t *luck, int *out, int n);

#endif
