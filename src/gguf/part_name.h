/* What a GGUF file is called: NAME.gguf, or a part of a split model. */
#ifndef VR_GGUF_PART_NAME_H
#define VR_GGUF_PART_NAME_H

#include <stdbool.h>
#include <stddef.h>

/* "NAME-00002-of-00009.gguf" -> the length of NAME, 2 and 9; folders before it count as a part of NAME. False: it is
 * not called like a part. */
bool vr_part_name(const char *path, size_t *n_stem, unsigned *no, unsigned *count);
/* The same for any GGUF file: "NAME.gguf" is part 1 of 1. False: it is not called like one at all. */
bool vr_gguf_name(const char *path, size_t *n_stem, unsigned *no, unsigned *count);

#endif
