/* One GGUF file: its header, read and checked. model.c puts the parts of a model together. */
#ifndef VR_GGUF_PART_H
#define VR_GGUF_PART_H

#include "gguf/model.h"
#include "gguf/names.h"

struct vr_part_head {
    struct vr_part facts;
    struct vr_meta *meta;      /* n_meta; all memory is the arena's */
    struct vr_tensor *tensors; /* facts.n_tensors; layer and role are not decided yet */
    uint32_t n_meta;
    struct vr_names keys; /* of meta */
};

/* Reads the file at `path` (which must outlive the result) as part number `part`. */
bool vr_part_read(const char *path, uint16_t part, struct vr_arena *arena, struct vr_part_head *out,
                  struct vr_err *err) VR_MUST_CHECK;
/* For a file of which only the first `have` bytes (at least one) are there, in their full length: whether they hold the
 * header. *wants is 0 then, else how many bytes it takes at least. False: it is no GGUF file, or a broken one. */
bool vr_part_wants(const char *path, uint64_t have, uint64_t *wants, struct vr_err *err) VR_MUST_CHECK;

const struct vr_meta *vr_part_meta(const struct vr_part_head *p, const char *key);

#endif
