/* The checksum of a file that is still being written: a thread of its own follows what is there, so that little is left
 * to do when the last byte has come. */
#ifndef VR_REMOTE_SUM_H
#define VR_REMOTE_SUM_H

#include <stdint.h>

#include "base/err.h"

struct vr_sum;

/* Of `length` bytes of the file open at `fd`. The kind goes by the number of digits of the expected one: SHA-256 (64),
 * or git's of a blob (40). NULL on failure. */
struct vr_sum *vr_sum_start(int fd, uint64_t length, size_t n_digits, struct vr_err *err) VR_MUST_CHECK;
/* The first `bytes` of the file will not change any more. */
void vr_sum_allow(struct vr_sum *s, uint64_t bytes);
/* Waits for the end; all must have been allowed. `hex` takes 65 bytes. */
bool vr_sum_wait(struct vr_sum *s, char *hex, struct vr_err *err) VR_MUST_CHECK;
/* Ends it wherever it is. */
void vr_sum_free(struct vr_sum *s);

#endif
