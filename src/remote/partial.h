/* A file that is not complete yet, and how far it is: PATH.vram-llm and PATH.vram-llm-state. */
#ifndef VR_REMOTE_PARTIAL_H
#define VR_REMOTE_PARTIAL_H

#include <stdint.h>

#include "base/err.h"

struct vr_partial {
    char *data_path, *state_path;
    int fd, state_fd; /* -1: not open */
    uint64_t length;
    uint32_t chunk; /* bytes of each chunk but the last */
    uint32_t n_chunks;
    uint32_t *done;      /* bytes of each chunk that are there */
    uint64_t done_bytes; /* of all */
    uint32_t front;      /* the first chunk that is not complete */
};

/* Opens what is there, or begins. `version` is what identifies the content (a checksum, an ETag): another one begins
 * anew, and so does "" . */
bool vr_partial_open(struct vr_partial *p, const char *path, uint64_t length, const char *version,
                     struct vr_err *err) VR_MUST_CHECK;
/* Writes behind what chunk `i` has already. */
bool vr_partial_add(struct vr_partial *p, uint32_t i, const void *data, size_t n, struct vr_err *err) VR_MUST_CHECK;
uint32_t vr_partial_size(const struct vr_partial *p, uint32_t i);
/* From the beginning of the file on without a gap. */
uint64_t vr_partial_front(struct vr_partial *p);
/* It is complete: it goes to its place. */
bool vr_partial_keep(struct vr_partial *p, const char *path, struct vr_err *err) VR_MUST_CHECK;
/* It is wrong: away with it. */
void vr_partial_remove(struct vr_partial *p);
void vr_partial_close(struct vr_partial *p);

#endif
