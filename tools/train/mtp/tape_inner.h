/* What operations are made of. */
#ifndef TRAIN_MTP_TAPE_INNER_H
#define TRAIN_MTP_TAPE_INNER_H

#include "tape.h"

void *tape_memory(struct tape *t, size_t bytes); /* zeros, until the next reset */
float *tape_floats(struct tape *t, size_t n);
struct mat *tape_mat(struct tape *t, int rows, int cols);
struct mat *tape_put(struct tape *t, struct op op); /* its result */
void tape_delta_back(const struct op *o);

#endif
